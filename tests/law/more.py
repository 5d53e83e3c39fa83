"""More of the world for law programs.

Generators of numbers, references, contexts, iterators, namespaces, exceptions from outside.

Rows of one kind of things are a module of their own (`more_objects`, `more_state`) with the same tables as this one.

`dir` is asked without the note that `copy` leaves on classes.  The rows are added to the tables only for programs that
ask for them, so that the programs of a seed stay what they were.
"""

from __future__ import annotations

import sys
from types import ModuleType
from unittest import mock

from . import generate as _generate, more_objects, more_state
from .generate import Program

__all__ = ["generate_more"]

PRELUDE = """
import contextvars, decimal, random, threading, weakref

RNG = random.Random(@@int@@)
NS = types.SimpleNamespace(a=@@int@@, b=[1, @@int@@])
ITER = iter([@@int@@, 2, 3, 4, 5, 6, 7, 8, 9])
REF = weakref.ref(THING)
VAR = contextvars.ContextVar("VAR", default=@@int@@)
ERR = Trouble("e", @@int@@)
DEC = decimal.Decimal(@@int@@) / 4
APPEND = OUT.append
GET = operator.attrgetter("n")
CALL = operator.methodcaller("plain", @@int@@)
LOCK = threading.RLock()   # programs nest
KEYED = {THING: @@int@@, POOL[0]: @@int@@}


class Table:
    def __init__(self):
        self.names = ["a", "b"]

    def keys(self):
        return self.names

    def __getitem__(self, key):
        return len(self.names)


MAP = Table()
"""

EXPRESSIONS = {
    "int": (
        (
            "NS.a",
            "VAR.get()",
            "len(ERR.args)",
            "int(DEC * 2)",
            "REF().n",
            "len(NS.b)",
            "KEYED[THING]",
            "len(MAP.names)",
        ),
        (
            "RNG.randint(1, 5)",
            "next(ITER, <int>)",
            "GET(<obj>)",
            "CALL(<obj>)",
            "VAR.get(<int>)",
            "copy.copy(<obj>).n",
            "copy.deepcopy(<obj>.items)[0]",
            "len({**MAP})",
            "dict(MAP)['a']",
            "KEYED.get(<obj>, <int>)",
            "weakref.ref(<obj>)().n",
            "int(decimal.Decimal(<int>) / 3 * 100)",
            "random.Random(<int>).randint(0, 9)",
            "sum(itertools.islice(ITER, 2))",
            "getattr(NS, 'c', <int>)",
            "operator.itemgetter(0)(<ints>)",
            "len(vars(NS))",
            "hash((int(<int>), len(<str>))) % 7",
            "len([k for k in dir(<obj>) if k != '__slotnames__']) - len(vars(<obj>))",
            "contextvars.ContextVar('v', default=<int>).get()",
        ),
    ),
    "str": (("str(ERR)",), ("f'{<int>:>3}|{<str>!r}'", "f'{NS.a}'", "repr(sorted(vars(NS)))")),
    "bool": (
        ("(REF() is THING)", "(ERR.__cause__ is None)"),
        (
            "(lambda a, b: id(a) == id(b))(<obj>, <obj>)",
            "(<obj> in KEYED)",
            "(hash(type(<obj>)) == hash(Base))",
            "hasattr(NS, 'c')",
            "(copy.copy(<obj>) is <obj>)",
        ),
    ),
}

STATEMENTS = (
    "NS.a = <int>",
    "NS.b.append(<int>)",
    "NS.c = <int>",
    "APPEND(<int>)",
    "VAR.set(<int>)",
    "RNG.seed(<int>)",
    "ERR.args = ('e', <int>)",
    "ERR.note = <int>",
    "KEYED[<obj>] = <int>",
    "KEYED.pop(<obj>, None)",
    "LOCK.acquire(); LOCK.release()",
    "vars(NS).pop('c', None)",
    "token = VAR.set(<int>); <new:int> = VAR.get(); VAR.reset(token)",
    "<new:int> = next(ITER, 0)",
    "del SLOT.b; SLOT.b = <int>",
)

COMPOUNDS = (
    "with LOCK:\n    <block>",
    "try:\n    raise ERR\nexcept Trouble as <new:err>:\n    <block>",
    "try:\n    raise KeyError(<int>) from ERR\nexcept KeyError as <new:err>:\n    <block>",
)

GENTLE = (
    "NS.a = <lit:int>",
    "NS.c = <lit:int>",
    "NS.b.append(<lit:int>)",
    "RNG.seed(<lit:int>)",
    "next(ITER, 0)",
    "ITER = iter([<lit:int>, 2, 3])",
    "ITER = iter(NUMS)",
    "REF = weakref.ref(POOL[0])",
    "VAR.set(<lit:int>)",
    "ERR.args = ('x', <lit:int>)",
    "DEC = decimal.Decimal('2.50')",
    "GET = operator.attrgetter('weight')",
    "NS.b = NUMS",
    "KEYED[THING] = <lit:int>",
    "KEYED[POOL[1]] = <lit:int>",
    "APPEND = NUMS.append",
    "MAP.names.append('c')",
    "CALL = operator.methodcaller('plain', <lit:int>)",
    "NS = types.SimpleNamespace(a=<lit:int>, b=[2])",
)

HARSH = (
    "NS = THING",
    "ITER = [1, 2]",
    "REF = lambda: POOL[0]",
    "VAR.set(<lit:any>)",
    "ERR = KeyError(<lit:any>)",
    "ERR.__cause__ = Trouble()",
    "DEC = <lit:any>",
    "GET = operator.attrgetter('child')",
    "KEYED = {}",
    "KEYED = collections.OrderedDict(KEYED)",
    "MAP.keys = lambda: ['a']",
    "Table.keys = lambda self: ['a', 'z']",
    "MAP = {'a': 1}",
    "RNG = random.Random(5)",
    "del NS.a",
    "NS.a = <lit:any>",
    "APPEND = <lit:any>",
    "decimal.getcontext().prec = 28",
    "ITER = reversed([1, 2])",
    "THING.__class__ = Other",
    "Table.__getitem__ = lambda self, key: 5",
    "LOCK = threading.RLock()",
)

WRITES = ("RNG", "ITER", "VAR.set", "raise ERR")

#: the modules whose rows are added
PARTS: tuple[ModuleType, ...] = (sys.modules[__name__], more_objects, more_state)


def _rows(name: str) -> tuple[str, ...]:
    return tuple(row for part in PARTS for row in getattr(part, name))


def _expressions() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    found = dict(_generate.EXPRESSIONS)
    for part in PARTS:
        for kind, (atoms, compounds) in part.EXPRESSIONS.items():
            before = found.get(kind, ((), ()))
            found[kind] = before[0] + atoms, before[1] + compounds
    return found


def _tables() -> dict[str, object]:
    statements = _generate.STATEMENTS + _rows("STATEMENTS")
    # With another hash than it had when it became a key, an object is found in KEYED or not by where it lies in memory.
    harsh = tuple(change for change in _generate.HARSH if change != "THING.__class__ = Child")
    return {
        "EXPRESSIONS": _expressions(),
        "STATEMENTS": statements,
        "COMPOUNDS": _generate.COMPOUNDS + _rows("COMPOUNDS") * 2,
        "GENTLE": _rows("GENTLE") * 4 + _generate.GENTLE,
        "HARSH": _rows("HARSH") * 4 + harsh,
        "PRELUDE": _generate.PRELUDE + "".join(part.PRELUDE for part in PARTS),
        "READING": tuple(t for t in statements if t.startswith(("<new:", "<old:"))),
        "WRITES": _generate.WRITES + _rows("WRITES"),
    }


_TABLES = _tables()


def generate_more(seed: int, size: int) -> Program:
    """A program over more kinds of objects and state."""
    with mock.patch.multiple(_generate, **_TABLES):
        return _generate.generate(seed, size)
