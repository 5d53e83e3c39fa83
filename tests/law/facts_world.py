"""The world of `facts.py`, as source text.

Classes of every metaclass, and objects whose attributes are found in unusual ways.

Every class of the table `facts.CLASSES` has a number of its own, a method `total`, and a classmethod `wide` that read
it.
"""

__all__ = ["PRELUDE"]

_METHODS = """
    def total(self):
        return type(self).{0} + 1

    @classmethod
    def wide(cls):
        return cls.{0} + 2
"""

_TENSORS = """
import abc, ctypes, decimal, fractions, inspect, pickle, types, typing, weakref
import numpy as np
from torch.overrides import TorchFunctionMode

LOG = []
AROUND = None


class Quant(torch.Tensor):
    bits = @@int@@
    regs = []
    bias = torch.tensor([0.5, 1.0, -1.0])
@@total bits@@
    @staticmethod
    def fixed(v):
        return v + LIMIT

    @property
    def level(self):
        return self.bits * 2


class Finer(Quant):
    def total(self):
        return super().total() + self.bits


class Logged(torch.Tensor):
    hits = @@int@@
@@total hits@@
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Odd(torch.Tensor):
    factor = @@int@@
    table = {}
@@total factor@@
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in cls.table:
            with torch._C.DisableTorchFunctionSubclass():
                return cls.table[func](*args, **(kwargs or {})) * cls.factor
        return super().__torch_function__(func, types, args, kwargs or {})


Odd.table[torch.sin] = torch.cos
Odd.table[torch.Tensor.relu] = torch.Tensor.neg


class Weight(nn.Parameter):
    gain = @@int@@
@@total gain@@

class Vec(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_double)]
    unit = @@int@@
@@total unit@@

class Counting(TorchFunctionMode):
    calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


class Overriding(TorchFunctionMode):
    amount = @@int@@

    def __torch_function__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        return found * self.amount if func in (torch.sin, torch.Tensor.sin, torch.relu) else found


def zeroed(self):
    return self * 0


QUANT = torch.tensor([0.5, -1.0, 2.0]).as_subclass(Quant)
FINER = torch.tensor([1.0, 2.0, 3.0]).as_subclass(Finer)
LOGGED = torch.tensor([0.25, -1.0, 4.0]).as_subclass(Logged)
ODD = torch.tensor([1.5, -2.0, 0.0]).as_subclass(Odd)
WEIGHT = Weight(torch.tensor([1.0, -0.5, 2.0]))
VEC = Vec(@@int@@, @@float@@)
COUNTING = Counting()
OVER = Overriding()
TAGGED = torch.tensor([1.0, 0.0, -2.0])
TAGGED.tag = @@int@@
TAGGED.info = {"a": @@int@@}
SCAL = torch.tensor(@@int@@)
IDX = torch.tensor([0, 2])
MASK = torch.tensor([True, False, True])
"""

_METACLASSES = '''
class Part(abc.ABC):
    side = @@int@@
@@total side@@
    @abc.abstractmethod
    def area(self):
        return self.side


class Disk(Part):
    def area(self):
        return super().area() + LIMIT


class Tone(enum.Enum):
    LOW = 1
    HIGH = 2

    def shift(self, k):
        return self.value + k
@@total step@@

Tone.step = @@int@@


class Registry(type):
    @property
    def size(cls):
        return cls.count + 1

    def __getattr__(cls, name):
        if name.startswith("_") or name == "count":
            raise AttributeError(name)
        return len(name)

    def __iter__(cls):
        return iter((cls.count, 1))


class Listed(metaclass=Registry):
    count = @@int@@
@@total count@@

class Spy(type):
    def __getattribute__(cls, name):
        if name == "lucky":
            return type.__getattribute__(cls, "base") + 7
        return type.__getattribute__(cls, name)


class Spied(metaclass=Spy):
    base = @@int@@
@@total base@@

class Prepared(type):
    """A metaclass that makes its classes: a namespace of its own, a call of its own, a fact of its own."""
    share = @@int@@

    @classmethod
    def __prepare__(meta, name, bases, **options):
        return {"made_by": len(name)}

    def __call__(cls, *args):
        made = type.__call__(cls, *args)
        made.serial = cls.share + cls.weight
        return made

    def __instancecheck__(cls, obj):
        return type(obj) is cls or getattr(obj, "weight", None) == cls.weight


class Prepped(metaclass=Prepared):
    weight = @@int@@
@@total weight@@

class Typed(typing.Generic[typing.TypeVar("T")]):
    width = @@int@@

    def __init__(self, n=1):
        self.n = n
@@total width@@

class Plan(typing.Protocol):
    def total(self): ...


class Wide(typing.NamedTuple):
    n: int
    k: int = @@int@@


class Marked:
    """A class that notes its subclasses, and reads of them."""
    seen = @@int@@
    def __init_subclass__(cls, **options):
        cls.seen = Marked.seen + 1

    def __class_getitem__(cls, key):
        return cls.seen + key
@@total seen@@

class MarkedOnce(Marked):
    pass


DISK = Disk()
TONE = Tone.LOW
PREPPED = Prepped()
TYPED = Typed[int](@@int@@)
ALIAS = Typed[str]
WIDE = Wide(@@int@@)
MARKED = MarkedOnce()
LISTED = Listed()
SPIED = Spied()
'''

_INSTANCES = '''
class Slots:
    __slots__ = ("a", "b", "__weakref__")
    scale = @@int@@

    def __init__(self, a, b=0):
        self.a = a
        self.b = b
@@total scale@@

class SlotsTwin(Slots):
    __slots__ = ()
    scale = 50


class Loose:
    rank = @@int@@

    def __init__(self, n):
        self.n = n
@@total rank@@
    def __getattr__(self, name):
        if name.startswith("_") or name == "n":
            raise AttributeError(name)
        return len(name) + self.n


class Strict:
    grade = @@int@@

    def __init__(self, n):
        self.n = n
@@total grade@@
    def __getattribute__(self, name):
        if name == "twice":
            return object.__getattribute__(self, "n") * 2
        return object.__getattribute__(self, name)


class Field:
    def __set_name__(self, owner, name):
        self.key = "_" + name

    def __get__(self, obj, owner=None):
        return self if obj is None else vars(obj).get(self.key, LIMIT)

    def __set__(self, obj, value):
        vars(obj)[self.key] = value + 1


class Weak:
    """A descriptor that instances hide."""

    def __init__(self, start):
        self.start = start

    def __get__(self, obj, owner=None):
        return self.start + (0 if obj is None else obj.n)


class Held:
    price = @@int@@
    field = Field()
    soft = Weak(@@int@@)

    def __init__(self, n):
        self.n = n
@@total price@@
    @functools.cached_property
    def heavy(self):
        return self.n * 3 + LIMIT


class Left:
    pick = @@int@@

    def where(self):
        return "left"
@@total pick@@

class Right:
    pick = 31

    def where(self):
        return "right"

    def total(self):
        return 77


class Both(Left):
    def where(self):
        return super().where() + "+"


class Odict(collections.OrderedDict):
    pass


class Ddict(collections.defaultdict):
    pass


def tuned(v, k=2, *, bias=1):
    return v * k + bias + tuned.offset


tuned.offset = @@int@@


def closed(amount):
    extra = [amount]

    def inner(v, m=amount):
        return v + m + extra[0]
    inner.note = amount
    return inner


def safe(a, b):
    try:
        return a // b
    except ZeroDivisionError:
        return -1


def parsed(text):
    try:
        return int(text)
    except (ValueError, TypeError) as error:
        return len(error.args)


class Kept:
    """Attributes by property, with a setter, over a slot and a dictionary."""
    __slots__ = ("_n", "__dict__", "__weakref__")
    floor = @@int@@

    def __init__(self, n):
        self._n = n
@@total floor@@
    @property
    def n(self):
        return self._n + type(self).floor

    @n.setter
    def n(self, value):
        self._n = value


MODULE = types.ModuleType("patched")
exec("""
rate = 3
def scaled(v, k=2):
    return v * k + rate
def chosen(v):
    return scaled(v) + 1
""", vars(MODULE))


def counted(start):
    count = start

    def more(v, step=1):
        nonlocal count
        count += step
        return v + count

    def so_far():
        return count
    return more, so_far


KEPT = Kept(@@int@@)
MORE, SO_FAR = counted(@@int@@)
DUO = torch.tensor([@@int@@, @@int@@])
SIGN = torch.tensor(True)
SLOTS = Slots(@@int@@, @@int@@)
LOOSE = Loose(@@int@@)
STRICT = Strict(@@int@@)
HELD = Held(@@int@@)
BOTH = Both()
CLOSED = closed(@@int@@)
METHOD = HELD.total
WVALUES = weakref.WeakValueDictionary({"a": HELD, "b": LOOSE})
WKEYS = weakref.WeakKeyDictionary({HELD: @@int@@})
WREF = weakref.ref(HELD)
NUM = np.float64(@@float@@)
WHOLE = np.int64(@@int@@)
SMALL = np.array([1, @@int@@, 3])
DEC = decimal.Decimal(@@int@@) / 4
FRAC = fractions.Fraction(@@int@@, 3)
ODICT = Odict(a=1, b=@@int@@)
ODICT.note = @@int@@
DDICT = Ddict(int, {"a": @@int@@})
DDICT.note = @@int@@
TALLY = collections.Counter("abca")
TALLY.note = @@int@@
'''


def _with_methods(text: str) -> str:
    """`@@total NAME@@` stands for the two methods that read the number NAME."""
    lines = []
    for line in text.split("\n"):
        word = line.removeprefix("@@total ").removesuffix("@@")
        lines.append(_METHODS.format(word) if line.startswith("@@total ") else line)
    return "\n".join(lines)


PRELUDE = _with_methods(_TENSORS + _METACLASSES + _INSTANCES)
