"""Rows of more.py, objects.

Dataclasses, flags, named tuples, slots, watched attributes, metaclasses, abstract classes, closures, caches.

Tables as in grammar.py and mutations.py; `more.py` puts them beside the others.
"""

from __future__ import annotations

PRELUDE = """
import abc, typing


@dataclasses.dataclass(slots=True)
class Tight:
    a: int
    b: object = None

    def total(self):
        return self.a + LIMIT


@dataclasses.dataclass(frozen=True, order=True)
class Ranked:
    rank: int
    label: str = dataclasses.field(default="x", compare=False)


@dataclasses.dataclass(kw_only=True)
class Named:
    width: int = 2
    tags: list = dataclasses.field(default_factory=list)
    area: int = dataclasses.field(init=False)

    def __post_init__(self):
        self.area = self.width * self.width


class Perm(enum.Flag):
    R = 1
    W = 2
    X = 4


class Grade(enum.IntEnum):
    LOW = 1
    HIGH = 5

    @property
    def boost(self):
        return self.value + LIMIT


class Triple(typing.NamedTuple):
    p: int
    q: int = 2

    def span(self):
        return self.p - self.q + LIMIT


class Gate:
    __slots__ = ("_v", "hits")

    def __init__(self, v):
        self._v = v
        self.hits = 0

    @property
    def v(self):
        return self._v + 1

    @v.setter
    def v(self, value):
        self.hits += 1
        self._v = value

    @v.deleter
    def v(self):
        del self._v


class Watched:
    log = []

    def __init__(self, n):
        self.n = n

    def __getattribute__(self, name):
        if name == "twice":
            return object.__getattribute__(self, "n") * 2
        return object.__getattribute__(self, name)

    def __setattr__(self, name, value):
        type(self).log.append(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        type(self).log.append("-" + name)
        object.__delattr__(self, name)


class Meta(type):
    made = 0

    def __call__(cls, *args):
        found = super().__call__(*args)
        found.number = len(cls)
        return found

    def __getattr__(cls, name):
        if name.startswith("_") or name == "base":
            raise AttributeError(name)
        return len(name) + cls.base

    def __len__(cls):
        return cls.base

    def __contains__(cls, value):
        return value == cls.base


class Made(metaclass=Meta):
    base = @@int@@ % 3 + 1

    def __init__(self, n):
        self.n = n

    def __init_subclass__(cls, **options):
        cls.base = options.get("base", 2)

    def __class_getitem__(cls, item):
        return (cls.base, item)


class Shape(abc.ABC):
    @abc.abstractmethod
    def size(self):
        return 1

    @property
    @abc.abstractmethod
    def name(self):
        ...

    def describe(self):
        return f"{self.name}:{self.size()}"


class Square(Shape):
    name = "square"

    def __init__(self, side):
        self.side = side

    def size(self):
        return super().size() + self.side * LIMIT


class Typed:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, owner=None):
        return self if obj is None else getattr(obj, self.name, LIMIT)

    def __set__(self, obj, value):
        setattr(obj, self.name, value)


class Memo:
    field = Typed()

    def __init__(self, n):
        self.n = n

    @functools.cached_property
    def heavy(self):
        return self.n * 3 + LIMIT


def counter(start):
    count = start

    def up(by=1):
        nonlocal count
        count += by
        return count

    def peek():
        return count
    return up, peek


def grow(v, acc=[]):
    acc.append(v)
    return len(acc)


def tally(v):
    tally.calls += 1
    return v + tally.calls


tally.calls = 0


@functools.singledispatch
def describe(v):
    return "other"


@describe.register
def _(v: int):
    return f"int{v + LIMIT}"


@describe.register(list)
def _(v):
    return f"list{len(v)}"


@functools.wraps(f_inc)
def wrapped(*args, **kwargs):
    return f_inc(*args, **kwargs) + len(kwargs)


UP, PEEK = counter(@@int@@)
TIGHT = Tight(@@int@@, [1])
RANKED = Ranked(@@int@@)
NAMED = Named(width=@@int@@)
PERM = Perm.R | Perm.W
GRADE = Grade.LOW
TRIPLE = Triple(@@int@@)
GATE = Gate(@@int@@)
WATCHED = Watched(@@int@@)
MADE = Made(@@int@@)
SHAPE = Square(@@int@@)
MEMO = Memo(@@int@@)
"""

EXPRESSIONS = {
    "int": (
        (
            "TIGHT.a",
            "TIGHT.total()",
            "RANKED.rank",
            "NAMED.width",
            "NAMED.area",
            "PERM.value",
            "GRADE.value",
            "GRADE.boost",
            "TRIPLE.p",
            "TRIPLE.span()",
            "GATE.v",
            "GATE.hits",
            "WATCHED.n",
            "WATCHED.twice",
            "MADE.n",
            "MADE.number",
            "Made.base",
            "len(Made)",
            "Made.wide",
            "SHAPE.size()",
            "SHAPE.side",
            "MEMO.n",
            "MEMO.field",
            "PEEK()",
            "tally.calls",
            "len(NAMED.tags)",
            "len(Watched.log)",
        ),
        (
            "MEMO.heavy",
            "UP()",
            "UP(<int>)",
            "grow(<int>)",
            "tally(<int>)",
            "Tight(<int>).a",
            "dataclasses.replace(RANKED, rank=<int>).rank",
            "dataclasses.replace(TIGHT, a=<int>).total()",
            "Named(width=<int>).area",
            "(Perm.X | PERM).value",
            "(PERM & Perm(3)).value",
            "(~PERM).value",
            "GRADE + <int>",
            "Grade(5 if <bool> else 1).boost",
            "TRIPLE._replace(p=<int>).span()",
            "Triple(<int>, q=<int>).span()",
            "sum(Triple(<int>))",
            "Gate(<int>).v",
            "Watched(<int>).twice",
            "Made(<int>).number",
            "Made[<int>][0]",
            "type('Sub', (Made,), {}, base=<int>).base",
            "Made.<word>",
            "Square(<int>).size()",
            "Memo(<int>).heavy",
            "len(dataclasses.astuple(NAMED))",
            "dataclasses.asdict(TIGHT)['a']",
            "wrapped(<int>)",
            "wrapped(v=<int>)",
            "wrapped.__wrapped__(<int>)",
            "getattr(GATE, '_v', <int>)",
            "getattr(WATCHED, 'more', <int>)",
            "counter(<int>)[0](<int>)",
            "max(Ranked(<int>), Ranked(<int>)).rank",
            "sorted([Ranked(<int>), RANKED])[0].rank",
            "len(dataclasses.fields(<record>))",
            "hash(Ranked(int(<int>), str(<str>))) - hash(Ranked(int(<int>)))",
            "vars(MEMO).get('heavy', <int>)",
            "len(grow.__defaults__[0])",
            "{RANKED: 1, Ranked(<int>): 2}[RANKED]",
        ),
    ),
    "record": (
        ("TIGHT", "RANKED", "NAMED"),
        ("Tight(<int>)", "Ranked(<int>)", "Named(width=<int>)", "copy.copy(<record>)", "copy.deepcopy(<record>)"),
    ),
    "str": (
        ("RANKED.label", "SHAPE.name", "PERM.name or 'none'", "GRADE.name"),
        (
            "repr(<record>)",
            "repr(TRIPLE)",
            "str(GRADE)",
            "f'{PERM}'",
            "describe(<any>)",
            "describe(<int>)",
            "SHAPE.describe()",
            "wrapped.__name__",
            "repr(PERM)",
            "Square(<int>).describe()",
            "'-'.join(f.name for f in dataclasses.fields(<record>))",
            "describe.dispatch(type(<any>)).__name__",
            "tally.__qualname__",
            "'|'.join(Watched.log[-2:])",
            "str([m.name for m in Perm])",
        ),
    ),
    "bool": (
        (
            "(Perm.W in PERM)",
            "(1 in Made)",
            "isinstance(SHAPE, Shape)",
            "isinstance(TRIPLE, tuple)",
            "('heavy' in vars(MEMO))",
            "hasattr(GATE, 'hits')",
            "bool(PERM)",
            "(GRADE is Grade.LOW)",
        ),
        (
            "(Ranked(<int>) < RANKED)",
            "(<record> == <record>)",
            "(Tight(<int>) == TIGHT)",
            "(TRIPLE == (<int>, 2))",
            "isinstance(<any>, Shape)",
            "issubclass(type(<obj>), Shape)",
            "(GRADE > <int>)",
            "(<int> in Made)",
            "(RANKED in {Ranked(<int>): 1})",
            "hasattr(WATCHED, <str>)",
            "(Perm(<int> % 8) in PERM)",
            "dataclasses.is_dataclass(<any>)",
            "(UP.__closure__[0] is PEEK.__closure__[0])",
            "hasattr(Made, <str>)",
            "(Made(<int>) == MADE)",
            "bool(Perm(0) & PERM)",
            "(copy.copy(TRIPLE) is TRIPLE)",
            "isinstance(<any>, collections.abc.Sized)",
        ),
    ),
    "any": (
        ("TIGHT", "RANKED", "PERM", "TRIPLE", "GATE", "MADE", "SHAPE", "UP", "Made", "GRADE"),
        (
            "<record>",
            "Triple(<int>, <tensor>)",
            "Tight(<int>, <tensor>)",
            "Gate(<int>)",
            "counter(<int>)",
            "Made(<int>)",
            "(PERM | Perm.X)",
            "Memo(<int>)",
            "copy.deepcopy(TIGHT)",
            "Named(width=<int>, tags=<ints>)",
            "copy.copy(<record>)",
            "wrapped",
            "copy.copy(MADE)",
            "copy.copy(WATCHED)",
            "type(SHAPE)",
            "functools.partial(grow, <int>)",
        ),
    ),
    "fn": (("UP", "tally", "wrapped"), ("counter(<int>)[0]", "functools.wraps(f_inc)(lambda q: q + <int>)")),
}

STATEMENTS = (
    "<new:record> = <record>",
    "TIGHT.a = <int>",
    "TIGHT.b = <any>",
    "NAMED.width = <int>",
    "NAMED.tags.append(<int>)",
    "object.__setattr__(RANKED, 'rank', <int>)",
    "GATE.v = <int>",
    "GATE.hits += 1",
    "del GATE.v",
    "WATCHED.n = <int>",
    "WATCHED.more = <int>",
    "del WATCHED.more",
    "Watched.log.clear()",
    "MADE.n = <int>",
    "Made.base = <int>",
    "MADE.base = <int>",
    "Meta.made += 1",
    "SHAPE.side = <int>",
    "MEMO.field = <int>",
    "MEMO.n = <int>",
    "vars(MEMO).pop('heavy', None)",
    "UP(<int>)",
    "<new:int> = UP(<int>)",
    "<new:int> = grow(<int>)",
    "<new:int> = tally(<int>)",
    "tally.calls = <int>",
    "grow.__defaults__[0].clear()",
    "describe.register(float)(lambda v: 'f')",
    "setattr(GATE, 'hits', <int>)",
    "RANKED.rank = <int>",
    "<new:str> = describe(<any>)",
    "<new:int> = MEMO.heavy",
    "TIGHT.zeta = <int>",
    "<new:int>, <new:int> = Triple(<int>)",
    "<new:int>, <new:int> = TRIPLE",
)

COMPOUNDS = (
    (
        "match <any>:\n    case Tight(a, b):\n        <new:int> = 1\n    case Triple(p, q):\n"
        "        <new:int> = p\n    case Ranked(rank=r):\n        <new:int> = r\n    case Perm.R | Grade.LOW:\n"
        "        <new:int> = 2\n    case _:\n        <new:int> = 3"
    ),
    "for <fresh> in PERM.__class__:\n    if <same:fresh> in PERM:\n        <block>".replace(
        "<fresh>", "<fresh:member>"
    ).replace("<same:fresh>", "<same:member>"),
    (
        "class <fresh:Local>(Square):\n    extra = <int>\n    def size(self):\n"
        "        return super().size() + self.extra\n<new:int> = <same:Local>(<int>).size()"
    ),
    "try:\n    Shape()\nexcept TypeError:\n    <block>",
    "try:\n    RANKED.rank = <int>\nexcept dataclasses.FrozenInstanceError as <new:err>:\n    <block>",
)

GENTLE = (
    "TIGHT.a = <lit:int>",
    "TIGHT = Tight(<lit:int>)",
    "TIGHT.b = [<lit:int>]",
    "RANKED = Ranked(<lit:int>)",
    "RANKED = Ranked(<lit:int>, <lit:str>)",
    "NAMED.width = <lit:int>",
    "NAMED = Named(width=<lit:int>)",
    "NAMED.tags.append(<lit:int>)",
    "PERM = Perm.X",
    "PERM = Perm.R",
    "PERM = Perm(7)",
    "PERM = Perm(0)",
    "GRADE = Grade.HIGH",
    "GRADE = Grade.LOW",
    "TRIPLE = Triple(<lit:int>, <lit:int>)",
    "GATE.v = <lit:int>",
    "GATE.hits = <lit:int>",
    "GATE = Gate(<lit:int>)",
    "WATCHED.n = <lit:int>",
    "WATCHED.more = <lit:int>",
    "Watched.log.append('q')",
    "Made.base = <lit:int>",
    "MADE = Made(<lit:int>)",
    "MADE.n = <lit:int>",
    "SHAPE.side = <lit:int>",
    "SHAPE = Square(<lit:int>)",
    "MEMO.n = <lit:int>",
    "MEMO.heavy = <lit:int>",
    "vars(MEMO).pop('heavy', None)",
    "MEMO = Memo(<lit:int>)",
    "MEMO.field = <lit:int>",
    "UP(<lit:int>)",
    "UP, PEEK = counter(<lit:int>)",
    "tally.calls = <lit:int>",
    "grow(<lit:int>)",
    "grow.__defaults__ = ([<lit:int>],)",
    "Named.__dataclass_fields__['width'].default = <lit:int>",
    "Made.wide = <lit:int>",
    "Grade.HIGH._value_ = <lit:int>",
    "SHAPE.name = <lit:str>",
)

HARSH = (
    "TIGHT = <lit:any>",
    "TIGHT.a = <lit:any>",
    "TIGHT = NAMED",
    "RANKED = TIGHT",
    "RANKED = Ranked(<lit:any>)",
    "del TIGHT.b",
    "NAMED.tags = NUMS",
    "PERM = GRADE",
    "GRADE = <lit:any>",
    "TRIPLE = (1, 2)",
    "TRIPLE = NT",
    "del GATE._v",
    "GATE = SLOT",
    "Gate.v = property(lambda self: 4)",
    "Gate.v = 3",
    "WATCHED = Base(3)",
    "Watched.__getattribute__ = object.__getattribute__",
    "Watched.__setattr__ = object.__setattr__",
    "Watched.twice = 3",
    "Watched.log = NUMS",
    "Meta.__call__ = type.__call__",
    "Meta.__getattr__ = lambda cls, name: 3",
    "Meta.__len__ = lambda cls: 4",
    "Meta.wide = 9",
    "Meta.base = property(lambda cls: 5)",
    "del Made.base",
    "Made.__class_getitem__ = classmethod(lambda cls, item: (9,))",
    "SHAPE = THING",
    "SHAPE.__class__ = type('Big', (Square,), {'__module__': __name__, 'size': lambda self: 77})",
    "Square.size = lambda self: 5",
    "Square.name = property(lambda self: 'p')",
    "Shape.register(Base)",
    "Shape.size = lambda self: 50",
    "Shape.describe = lambda self: 'd'",
    "Memo.heavy = 4",
    "Memo.heavy = property(lambda self: 2)",
    "Memo.field = 5",
    "Typed.__get__ = lambda self, obj, owner=None: 8",
    "del Typed.__set__",
    "MEMO.__class__ = Base",
    "PEEK = UP",
    "PEEK.__closure__[0].cell_contents = <lit:any>",
    "tally = f_inc",
    "tally.calls = <lit:any>",
    "grow = f_dbl",
    "grow.__defaults__ = (NUMS,)",
    "describe.register(int)(lambda v: 'i')",
    "describe.register(Base)(lambda v: 'b')",
    "describe = str",
    "wrapped.__wrapped__ = f_dbl",
    "wrapped.__name__ = 'w'",
    "Tight.total = lambda self: 6",
    "Tight.__eq__ = lambda self, other: True",
    "Ranked.__lt__ = lambda self, other: True",
    "Ranked.__hash__ = lambda self: 3",
    "Named.__post_init__ = lambda self: setattr(self, 'area', 0)",
    "Triple.span = lambda self: 4",
    "Grade.boost = 3",
    "Triple.p = property(lambda self: 11)",
    "Perm.R._value_ = 2",
    "MEMO.field = <lit:any>",
)

WRITES = ("UP(", "grow(", "tally(", "MEMO.heavy", "counter(", "GATE.v =", "Watched(")
