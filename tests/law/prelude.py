"""The world of a law program, as source text: globals, classes, functions, modules, objects within objects.

It is executed once per world, so classes, functions and values of two worlds share nothing.  `@@NAME@@` marks are
bodies that the generator fills.  Nothing here calls back into generated bodies without end: see `generate.LEVELS`.
"""

PRELUDE = """
import collections, copy, dataclasses, enum, functools, itertools, math, operator, types
import torch
from torch import nn
import torch.nn.functional as F

LIMIT = @@int@@
COUNT = 0
FLAG = @@bool@@
NAME = @@str@@
RATE = @@float@@
NOTHING = None
NUMS = [@@int@@, @@int@@, @@int@@]
TABLE = {"a": @@int@@, "b": @@int@@, "c": @@int@@}
PAIR = (@@int@@, @@float@@)
SEEN = {1, @@int@@}
DEQ = collections.deque([@@int@@, @@int@@], maxlen=4)
DD = collections.defaultdict(int, {"y": @@int@@})
OUT = []
BOX = torch.tensor([0.5, -1.0, 2.0])
MAT = torch.eye(3) * 0.5
TENSORS = {"w": torch.tensor([1.0, 2.0, 3.0]), "v": torch.zeros(3)}
TLIST = [torch.ones(3), torch.full((3,), 0.25)]
MODE = ""
side = types.ModuleType("side")
side.level = @@int@@
side.fresh = 1
side.items = [@@int@@, @@int@@]


class Color(enum.Enum):
    RED = 1
    BLUE = 2


COLOR = Color.RED
Point = collections.namedtuple("Point", "left right")
NT = Point(@@int@@, @@int@@)


class Trouble(ValueError):
    pass


def f_inc(v):
    return v + 1


def f_dbl(v):
    return v * 2


def adder(amount):
    def add(v):
        return v + amount
    return add


def gen(stop):
    for v in range(min(stop, 3)):
        yield v * LIMIT


@functools.lru_cache(maxsize=None)
def cached(v):
    return v * 3


def helper(n, k=2, *, bias=0):
@@helper@@


def twist(t, amount=1.5):
@@twist@@


class Base:
    weight = @@int@@
    total = 0
    kind = "base"
    shared = []

    def __init__(self, n):
        self.n = n
        self.items = [n, 1]
        self.opts = {"a": n}
        self.rate = 0.5
        self.child = None
        self.fn = f_inc
        self.state = torch.full((3,), 0.5)

    def score(self, k):
@@score@@

    def shape_it(self, t):
@@shape_it@@

    def bump(self, by=1):
        self.n = self.n + by
        return self

    @property
    def double(self):
        return self.n * 2

    @double.setter
    def double(self, value):
        self.n = value // 2

    @classmethod
    def make(cls, n):
        return cls(n)

    @staticmethod
    def plain(v):
        return v - 1

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]

    def __contains__(self, value):
        return value in self.items

    def __bool__(self):
        return True


class Child(Base):
    weight = @@int@@

    def __init__(self, n, more=3):
        super().__init__(n)
        self.more = more

    def score(self, k):
        return super().score(k) + self.more

    def __eq__(self, other):
        return isinstance(other, Base) and self.n == other.n

    def __hash__(self):
        return 7


class Other:
    weight = 1
    kind = "other"

    def __init__(self, n):
        self.n = n

    def score(self, k):
        return k * 100 + self.n


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a = a
        self.b = b


class Lazy:
    level = 4

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return len(name) + self.level


class Context:
    def __init__(self):
        self.depth = 0
        self.log = []

    def __enter__(self):
        self.depth += 1
        return self

    def __exit__(self, kind, value, trace):
        self.depth -= 1
        self.log.append(kind is None)
        return kind is Trouble


@dataclasses.dataclass
class Record:
    left: int
    right: object = None


@dataclasses.dataclass(frozen=True)
class Fact:
    size: int = 3

    @property
    def area(self):
        return self.size * self.size


class Bag(dict):
    def grab(self, key):
        return self.get(key, 0) + LIMIT


class Net(nn.Module):
    scale = 1.0

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.parts = nn.ModuleList([nn.Linear(3, 3), nn.ReLU()])
        self.register_buffer("buf", torch.zeros(3))
        self.steps = 0
        self.drop = nn.Dropout(0.5)

    def forward(self, t):
@@forward@@


torch.manual_seed(7)
NET = Net()
THING = Base(@@int@@)
THING.child = Child(@@int@@)
POOL = [Base(@@int@@), Child(@@int@@), THING.child]
SLOT = Slotted(@@int@@, @@int@@)
LAZY = Lazy()
CTX = Context()
FACT = Fact(@@int@@)
BAG = Bag(a=1, q=@@int@@)
CONF = {"inner": {"a": 1, "b": @@int@@}, "who": POOL[0], "deep": [[1, 2], {"z": THING}]}
HANDLERS = {"go": f_dbl, "stop": adder(3)}
BOUND = THING.score
PART = functools.partial(helper, k=@@int@@)
"""

#: the function under test, in four forms; ROOT_BODY is generated
ROOTS = {
    "function": """
def root(x, n=1, o=None, *rest, flag=True, **extra):
@@root@@


TARGET = root
""",
    "closure": """
def make_root(c_int, c_list, c_obj):
    def root(x, n=1, o=None, *rest, flag=True, **extra):
        nonlocal c_int, c_list, c_obj
@@root_deep@@
    return root


root = make_root(@@int@@, [1, @@int@@], POOL[0])
TARGET = root
""",
    "method": """
class Runner(Base):
    def root(self, x, n=1, o=None, *rest, flag=True, **extra):
@@root_deep@@


RUNNER = Runner(@@int@@)
RUNNER.child = THING
root = Runner.root
TARGET = RUNNER.root
""",
    "module": """
class Model(nn.Module):
    scale = 2.0

    def __init__(self):
        super().__init__()
        self.n = @@int@@
        self.inner = nn.Linear(3, 3)
        self.net = NET
        self.memory = torch.zeros(3)
        self.child = THING

    def forward(self, x, n=1, o=None, *rest, flag=True, **extra):
@@root_deep@@


RUNNER = Model()
root = Model.forward
TARGET = RUNNER
""",
}

ARGUMENTS = """
ARGS = [torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.0, -0.5]]), @@int@@, Base(@@int@@)]
KWARGS = {}
"""

#: globals that generated bodies may assign
ASSIGNED = ("LIMIT", "COUNT", "FLAG", "NAME", "RATE", "NOTHING", "NUMS", "TABLE", "PAIR", "BOX", "THING", "COLOR", "NT")
