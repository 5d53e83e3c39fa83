"""Breaks at random places in law programs.

Calls of disabled functions, printing, values of tensors, branches on them, objects of unknown C types.

They stand in all kinds of blocks, in the function under test and in what it calls.  The rows are added to the tables
only for programs that ask for them, so that the programs of a seed stay what they were.
"""

from __future__ import annotations

from unittest import mock

from . import generate as _generate
from .generate import Program

__all__ = ["generate_breaks"]

PRELUDE = '''
import array, contextlib, io, os, sys, threading
import framelift
from framelift import graph_break

ARR = array.array("d", [1.0, @@float@@, 2.0])
STREAM = io.StringIO()
LOCK = threading.RLock()   # programs nest


@framelift.disable
def off(v):
    return v


@framelift.disable
def off_write(v):
    THING.n = v
    NUMS.append(v)
    OUT.append(("off", COUNT, LIMIT, len(TABLE), BOX.sum().item()))
    return len(OUT)


@framelift.disable
def off_raise(v):
    if v % 3 == 1:
        raise KeyError(v)
    if v % 3 == 2:
        raise Trouble("off", v)
    return v


@framelift.disable
def off_iter(values):
    for v in values:
        yield v


@framelift.disable
def look():
    """What plain code finds around it."""
    handled = sys.exc_info()[1]
    return (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"),
            torch.get_default_dtype(), torch.is_inference_mode_enabled(), chain(handled), COUNT, LIMIT, NAME,
            len(NUMS), sorted(TABLE), THING.n, len(OUT), CTX.depth)


def chain(error):
    """An exception and those it came from, in words."""
    found = []
    while error is not None and len(found) < 5:
        found.append((type(error).__name__, str(error), error.__suppress_context__, error.__traceback__ is not None))
        error = error.__cause__ or error.__context__
    return found


def gen_off(stop):
    try:
        for v in range(min(stop, 3)):
            got = yield off(v) * 2
            if got is not None:
                COUNT_LOG.append(got)
    finally:
        COUNT_LOG.append(("closed", stop))


COUNT_LOG = []


async def co_off(v):
    return off(v) + 1


def run_co(v):
    made = co_off(v)
    try:
        made.send(None)
    except StopIteration as end:
        return end.value


@contextlib.contextmanager
def manage(tag):
    OUT.append(("enter", tag))
    try:
        yield len(OUT)
    except Trouble as error:
        OUT.append(chain(error))
    finally:
        OUT.append(("leave", tag))


class OffContext:
    """Breaks when it is entered and when it is left; swallows KeyError."""

    def __init__(self, tag):
        self.tag = tag

    def __enter__(self):
        OUT.append(off(self.tag))
        return off(3)

    def __exit__(self, kind, value, trace):
        OUT.append((off(self.tag), kind, chain(value), trace is None))
        return kind is KeyError


class Wide:
    """A setting of torch for a while."""

    def __enter__(self):
        self.before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)

    def __exit__(self, *args):
        torch.set_default_dtype(self.before)
'''

EXPRESSIONS = {
    "int": (
        ("len(ARR)", "int(ARR[0])", "off(LIMIT)", "STREAM.tell()"),
        (
            "off(<int>)",
            "off(<int>)",
            "off(<obj>).n",
            "(<int> + off(<int>))",
            "int((<tensor> > 0).sum())",
            "len(<tensor>.tolist())",
            "sum(off_iter(<ints>))",
            "next(off_iter(<ints>), 0)",
            "int(ARR[<int>])",
            "off_raise(<int>)",
            "max(<ints>, key=lambda v: off(-v), default=0)",
            "run_co(<int>)",
            "(<int> if <tensor>.sum() > 0 else <int>)",
            "(off(<int>) or <int>)",
            "(<int> and off(<int>))",
            "helper(<int>, k=off(<int>))",
            "helper(*off(<ints>))",
            "helper(**off({'n': <int>, 'bias': <int>}))",
            "(lambda q: off(q) + <int>)(<int>)",
            "functools.reduce(lambda p, q: p + off(q), <ints>, 0)",
            "sum(off(v) for v in <ints>)",
            "off(lambda: <int>)()",
            "(<fresh> := off(<int>))",
            "<ints>[off(0)]",
            "-off(<int>)",
        ),
    ),
    "float": ((), ("<tensor>.sum().item()", "float(<tensor>.mean())", "off(<float>)")),
    "str": (
        (),
        (
            "off(<str>)",
            "str(<tensor>.tolist())",
            'f"{off(<int>)}|{<int>}"',
            "('%s:%s' % (<str>, off(<int>)))",
            "os.path.join(<str>, off(<str>))",
        ),
    ),
    "bool": (
        ("(x.sum() > 0)", "(BOX.sum() > 1)", "off(FLAG)"),
        (
            "(<tensor>.sum() > <num>)",
            "(<tensor>.mean() < <float>)",
            "bool(<tensor>.sum() > 0)",
            "torch.equal(<tensor>, <tensor>)",
            "off(<bool>)",
            "any(t.sum() > 0 for t in <tensors>)",
            "all(t.sum() > 0 for t in <tensors>)",
            "(not <tensor>.sum() > 0)",
            "(<tensor>.sum() > 0 and <bool>)",
            "(<tensor>.sum() > 0 or <bool>)",
            "(<bool> and <tensor>.sum() > 0)",
            "(0 < <tensor>.sum() < 3)",
            "(off(<int>) < <int> < off(<int>))",
            "LOCK.acquire(False)",
            "(<int> in off(<ints>))",
            "(<obj> is off(<obj>))",
            "(off(<tensor>) is <tensor>)",
        ),
    ),
    "tensor": (
        (),
        (
            "off(<tensor>)",
            "off(<tensor>)",
            "(<tensor> if <tensor>.sum() > 0 else <tensor>)",
            "(<tensor> if off(<bool>) else <tensor>)",
            "torch.tensor(<tensor>.sum().item())",
            "torch.stack([off(t) * 2 for t in <tensors>]).sum(0)",
            "max(<tensors>, key=lambda t: t.sum())",
            "sorted(<tensors>, key=lambda t: off(t.dim()))[0]",
            "(<tensor> * off(<num>))",
            "(off(<tensor>) + <tensor>)",
            "torch.where(off(<tensor>) > 0, <tensor>, <tensor>)",
            "twist(off(<tensor>), amount=off(<num>))",
            "[t for t in <tensors> if t.sum() > 0][0]",
            "off(torch.rand(3))",
            "(torch.rand(3) + off(<tensor>))",
            "<tensor>.add_(off(<num>))",
            "(lambda t: off(t) * 2)(<tensor>)",
            "<tensor>[<tensor>.sum(-1) > 0].sum()",
        ),
    ),
    "tensors": ((), ("off(<tensors>)", "[off(t) for t in <tensors>]", "[t + 1 for t in <tensors> if t.sum() > 0]")),
    "ints": (
        (),
        (
            "[v for v in <ints> if off(v) > <int>]",
            "[off(v) for v in <ints>]",
            "list(off_iter(<ints>))",
            "[v for v in <ints> if (BOX + v).sum() > 0]",
            "list(gen_off(<int>))",
            "[int(v) for v in ARR]",
            "list(map(off, <ints>))",
            "[k for k, t in enumerate(<tensors>) if t.sum() > 0]",
            "sorted(<ints>, key=lambda v: off(-v))",
            "off(<ints>)",
            "[<int>, off(<int>), <int>]",
            "[*off(<ints>), <int>]",
            "[p * off(q) for p, q in zip(<ints>, <ints>)]",
            "list(filter(off, <ints>))",
            "[off(k) + <int> for k in range(9)]",
            "sorted({off(k % 4) for k in range(7)})",
            "[v for row in off([<ints>, <ints>]) for v in row if off(v)][:6]",
        ),
    ),
    "table": (
        (),
        (
            "off(<table>)",
            "{k: off(v) for k, v in <table>.items()}",
            "{'a': off(<int>), **<table>}",
            "{**off(<table>), 'b': <int>}",
            "{k: off(n) for n, k in enumerate('abcdef')}",
        ),
    ),
    "obj": (
        (),
        (
            "off(<obj>)",
            "max(POOL, key=lambda p: off(p.n))",
            "Base(off(<int>))",
            "Child(<int>, more=off(<int>))",
            "(off(<obj>) if <bool> else <obj>)",
        ),
    ),
    "fn": ((), ("off(<fn>)", "(lambda q: off(q) + <int>)", "off")),
    "any": (
        (),
        (
            "off(<any>)",
            "(off(<int>), <tensor>)",
            "[<tensor>, off(<any>)]",
            "off((<tensor>, <obj>))",
            "{'k': off(<any>), 'm': <tensor>}",
        ),
    ),
}

#: these do not write to the world, beyond what `off` gets to see
READING = (
    "graph_break()",
    "framelift.graph_break()",
    "off(<any>)",
    "<new:int> = off(<int>)",
    "<new:tensor> = off(<tensor>)",
    "<new:obj> = off(<obj>)",
    "<old:int> = off(<int>)",
    "<new:ints> = [<int>, off(<int>), <int>]",
    "<new:int>, <new:int> = off((<int>, <int>))",
    "<new:int>, *<new:ints> = off(<ints>)",
    "<new:any> = [<tensor>, off(<any>), <tensor>]",
    "<new:tensor> = <tensor> if <tensor>.sum() > 0 else <tensor>",
    "<new:bool> = <tensor>.sum() > 0 and <bool>",
    "<new:bool> = <bool> or not <tensor>.sum() > 0",
    "assert <tensor>.sum() < 1e6, <str>",
    "<new:any> = look()",
    "<new:float> = <tensor>.sum().item()",
    "<new:any> = <tensor>.tolist()",
    "<old:tensor> = off(<tensor>)",
    "<new:any> = sys.exc_info()[0]",
    "<new:any> = chain(sys.exc_info()[1])",
    "<new:int> = off_raise(<int>)",
    "<new:int> = len(ARR)",
)

STATEMENTS = (
    "print(<int>, <str>, file=STREAM)",
    "print(<any>, file=STREAM)",
    "STREAM.write(<str>)",
    "off_write(<int>)",
    "OUT.append(look())",
    "OUT.append(off(<any>))",
    "<obj>.n = off(<int>)",
    "NUMS.append(off(<int>))",
    "THING = off(<obj>)",
    "BOX = off(<tensor>)",
    "LIMIT = off(<int>)",
    "COUNT += off(1)",
    "ARR[0] = <float>",
    "ARR.append(<float>)",
    "OUT.append([<int>, off(<int>), <tensor>])",
    "x = off(x)",
    "<obj>.extra = off(<any>)",
    "<table>[off(<str>)] = <int>",
    "TABLE['a'] += off(<int>)",
    "<obj>.n += off(<int>)",
    "NUMS[off(0)] = <int>",
    "del NUMS[off(0)]",
    "<tensor>.mul_(off(0.5))",
    "OUT.append(chain(sys.exc_info()[1]))",
    "torch.set_grad_enabled(off(<bool>))",
    "BOX.add_(off(<num>))",
    "raise off(Trouble(<str>))",
    "<obj>.child = off(<obj>)",
    "COUNT_LOG.append(<any>)",
)

COMPOUNDS = (
    "with LOCK:\n    <block>",
    "with OffContext(<str>) as <new:int>:\n    <block>",
    "with manage(<str>) as <new:int>:\n    <block>",
    "with manage(<str>):\n    <block>\n    if <bool>:\n        raise Trouble(<str>)",
    "with torch.no_grad(), manage(<str>):\n    <block>",
    "with torch.autocast('cpu', dtype=torch.bfloat16):\n    <block>\n    <new:tensor> = <tensor> @ MAT",
    "with torch.enable_grad():\n    <block>",
    "with Wide():\n    <block>\n    <new:tensor> = torch.tensor([<float>, 1.0, 2.0])",
    "with CTX as <fresh>, OffContext(<str>):\n    with torch.no_grad():\n        <block>\n    <block>",
    "with contextlib.suppress(KeyError, Trouble):\n    <block>\n    off_raise(<int>)\n    <block>",
    (
        "with contextlib.ExitStack() as <fresh:stack>:\n    <same:stack>.enter_context(manage(<str>))\n"
        "    <block>\n    <same:stack>.callback(off, <int>)"
    ),
    "try:\n    <block>\nfinally:\n    <block>",
    (
        "try:\n    <block>\n    off_raise(<int>)\nexcept KeyError as <new:err>:\n    <block>\n"
        "    OUT.append(chain(<old:err>))\nexcept Trouble:\n    <block>\nelse:\n    <block>\nfinally:\n"
        "    <block>"
    ),
    (
        "try:\n    try:\n        raise Trouble(<str>)\n    except Trouble:\n        <block>\n        raise\n"
        "except Trouble as <new:err>:\n    OUT.append(chain(<old:err>))\n    <block>"
    ),
    (
        "try:\n    try:\n        off_raise(<int>)\n        <block>\n    except KeyError:\n        <block>\n"
        "        raise Trouble(<str>)\nexcept Trouble as <new:err>:\n    OUT.append(chain(<old:err>))"
    ),
    (
        "try:\n    try:\n        off_raise(4)\n    except KeyError as <new:err>:\n"
        "        raise Trouble(<str>) from <old:err>\n    finally:\n        <block>\n"
        "except Trouble as <new:err>:\n    <block>\n    OUT.append(chain(<old:err>))"
    ),
    (
        "try:\n    try:\n        <block>\n    finally:\n        off_raise(<int>)\n        <block>\n"
        "except (KeyError, Trouble) as <new:err>:\n    OUT.append(chain(<old:err>))"
    ),
    (
        "for <fresh> in range(3):\n    try:\n        <block>\n        if off(<bool>):\n            continue\n"
        "    finally:\n        <block>"
    ),
    (
        "for <fresh> in (1, 2):\n    try:\n        <block>\n        if <tensor>.sum() > 0:\n            break\n"
        "    finally:\n        <block>\nelse:\n    <block>"
    ),
    (
        "for <fresh> in (1, 2):\n    with OffContext(<str>):\n        <block>\n        if <bool>:\n"
        "            return <any>, <tensor>\n    <block>"
    ),
    "try:\n    <block>\n    if <tensor>.sum() > 0:\n        return <any>\nfinally:\n    <block>",
    "while <tensor>.sum() < <int>:\n    fuel += 1\n    if fuel > 4:\n        break\n    <block>",
    "while off(<bool>):\n    fuel += 1\n    if fuel > 3:\n        break\n    <block>\nelse:\n    <block>",
    "if <tensor>.sum() > 0:\n    <block>\nelse:\n    <block>",
    "if off(<bool>) and <tensor>.mean() > 0 or not <bool>:\n    <block>",
    "for <new:int> in off_iter(<ints>):\n    fuel += 1\n    if fuel > 5:\n        break\n    <block>",
    "for <new:int> in gen_off(<int>):\n    fuel += 1\n    if fuel > 5:\n        break\n    <block>",
    "for <new:int>, <new:int> in enumerate(list(<ints>)[:3]):\n    <block>\n    off(<int>)\n    <block>",
    "for <new:int>, <new:int> in zip(list(<ints>)[:3], range(3)):\n    <block>\n    graph_break()\n    <block>",
    "for <new:str> in list(<table>)[:2]:\n    off(<int>)\n    <block>",
    "for <fresh> in reversed(list(<ints>)[:3]):\n    <block>\n    off(<int>)",
    (
        "<fresh:it> = iter(list(<ints>))\n<new:int> = next(<same:it>, 0)\n<block>\n"
        "<new:int> = next(<same:it>, 1)\n<new:ints> = list(<same:it>)"
    ),
    (
        "<fresh:it> = enumerate(list(<ints>), <int>)\n<new:any> = next(<same:it>, 0)\noff(0)\n<block>\n"
        "<new:any> = list(<same:it>)"
    ),
    (
        "<fresh:it> = zip(list(<ints>), <table>)\n<new:any> = next(<same:it>, 0)\n<block>\noff(0)\n"
        "<new:any> = list(<same:it>)"
    ),
    (
        "<fresh:it> = map(<fn>, list(<ints>)[:4])\n<new:any> = next(<same:it>, 0)\n<block>\ngraph_break()\n"
        "<new:any> = list(<same:it>)"
    ),
    (
        "<fresh:it> = iter(dict(<table>).items())\n<new:any> = next(<same:it>, 0)\ngraph_break()\n<block>\n"
        "<new:any> = list(<same:it>)"
    ),
    "<fresh:it> = reversed(list(<ints>))\n<new:any> = next(<same:it>, 0)\noff(0)\n<new:any> = next(<same:it>, 0)",
    (
        "<fresh:it> = iter(range(<int>, 6))\n<new:any> = next(<same:it>, 0)\noff(0)\n<block>\n"
        "<new:any> = next(<same:it>, 0)"
    ),
    (
        "<fresh:it> = gen_off(3)\n<new:any> = next(<same:it>, None)\n<block>\n"
        "<new:any> = <same:it>.send(<any>)\noff(1)\n<new:any> = list(<same:it>)"
    ),
    (
        "<fresh:it> = (t * 2 for t in <tensors>)\n<new:any> = next(<same:it>, None)\n<block>\n"
        "<new:any> = next(<same:it>, None)"
    ),
    (
        "<fresh:acc> = <int>\ndef <fresh:step>(p, q=<int>):\n    nonlocal <same:acc>\n"
        "    <same:acc> += off(p)\n    return <same:acc> + q\n<new:int> = <same:step>(<int>)\n<block>\n"
        "<same:acc> += 1\n<new:int> = <same:step>(<int>) + <same:acc>"
    ),
    (
        "<fresh:acc> = <tensor>\n<fresh:get> = lambda: <same:acc>\n<block>\noff(0)\n<same:acc> = <tensor>\n"
        "<new:tensor> = <same:get>()"
    ),
    (
        "def <fresh:produce>(m):\n    for j in range(min(m, 3)):\n        got = yield off(j) + LIMIT\n"
        "        if got:\n            break\nfor <new:int> in <same:produce>(<int>):\n    <block>"
    ),
    (
        "def <fresh:produce>(t):\n    yield t\n    off(0)\n    yield from (t * 2, t + 1)\n"
        "<new:any> = [v + 1 for v in <same:produce>(<tensor>)]"
    ),
    (
        "class <fresh:Kind>:\n    a = off(<int>)\n    b = [a, <int>]\n    def get(self, t):\n"
        "        return off(t) + self.a\n<new:any> = <same:Kind>().get(<tensor>)\n<new:any> = <same:Kind>.b"
    ),
    "<fresh:lam> = lambda q: off(q) + <int>\n<block>\n<new:int> = <same:lam>(<int>)",
    (
        "<fresh:deep> = lambda t, k: t if k <= 0 else <same:deep>(off(t) + k, k - 1)\n"
        "<new:tensor> = <same:deep>(<tensor>, 3)"
    ),
    (
        "match off(<any>):\n    case int():\n        <block>\n    case [first, *_] if off(<bool>):\n"
        "        <block>\n    case Base(n=found):\n        <block>\n    case _:\n        <block>"
    ),
    (
        "<new:tensor> = <tensor>\n<fresh:both> = [<old:tensor>, <old:tensor>]\noff(<same:both>)\n"
        "<same:both>[0].add_(1)\nOUT.append(<same:both>)"
    ),
)

GENTLE = (
    "ARR[0] = <lit:float>",
    "ARR.append(3.0)",
    "STREAM.write('w')",
    "off_raise = lambda v: v",
    "gen_off = lambda stop: iter([5, 6])",
    "BOX = -BOX.detach()",
    "ARGS[0] = -torch.rand(2, 3)",
    "BOX = torch.rand(3) - 5",
    "TLIST[0] = -torch.rand(3)",
    "TENSORS['w'] = -torch.rand(3)",
    "ARGS[0] = torch.zeros(2, 3)",
)

HARSH = (
    "off = lambda v: v",
    "look = lambda: 5",
    "ARR = [1.0, 2.0]",
    "off_iter = iter",
    "off_raise = f_inc",
    "OffContext.__exit__ = lambda self, *a: True",
    "OffContext.__enter__ = lambda self: 7",
    "manage = OffContext",
    "STREAM = io.StringIO()",
    "off = framelift.disable(lambda v: v)",
    "gen_off = range",
    "chain = len",
    "LOCK = contextlib.nullcontext()",
    "Wide = contextlib.nullcontext",
)


def _tables() -> dict[str, object]:
    expressions = {
        kind: (rows[0] + more[0], rows[1] + more[1] * 2) if (more := EXPRESSIONS.get(kind)) else rows
        for kind, rows in _generate.EXPRESSIONS.items()
    }
    reading = tuple(t for t in _generate.STATEMENTS if t.startswith(("<new:", "<old:")))
    return {
        "EXPRESSIONS": expressions,
        "STATEMENTS": _generate.STATEMENTS + (READING + STATEMENTS) * 2,
        "COMPOUNDS": _generate.COMPOUNDS + COMPOUNDS,
        "GENTLE": GENTLE * 2 + _generate.GENTLE,
        "HARSH": HARSH * 2 + _generate.HARSH,
        "PRELUDE": _generate.PRELUDE + PRELUDE,
        "READING": reading + READING,
        "WRITES": _generate.WRITES + ("manage", "OffContext", "gen_off", "BOX.add_"),
    }


_TABLES = _tables()


def generate_breaks(seed: int, size: int) -> Program:
    """A program with breaks."""
    with mock.patch.multiple(_generate, **_TABLES):
        return _generate.generate(seed, size)
