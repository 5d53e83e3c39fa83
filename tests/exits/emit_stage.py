"""What the tests of exits share: a scene made by hand, the comparison of rebuilt values, classes to be rebuilt."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import types
import typing

import torch

from framelift import _core
from framelift.exits import build_entry, plan_return
from framelift.exits.scene import Effect, Shadow
from emit_check import check_plan
from framelift.vocabulary.origins import Origin, arg, const, fetch


class Stage:
    """A scene: externals are entered as arguments, tensors made here are stand-ins."""

    def __init__(self) -> None:
        self.shadows: list[Shadow] = []
        self.effects: list[Effect] = []
        self.addresses: set[int] = set()
        self.arguments: list[object] = []
        self.real: dict[int, torch.Tensor] = {}  # result stand-in -> what the graph will give
        self.inputs: dict[int, Origin] = {}
        self.known: dict[int, Origin] = {}
        self.copies: dict[int, Shadow] = {}
        self.keep: list[object] = []

    def origin_of(self, obj):
        return self.known.get(id(obj))

    def shadow_of(self, obj):
        return self.copies.get(id(obj))

    def is_stand_in(self, obj):
        return id(obj) in self.real or id(obj) in self.inputs

    def input_origin(self, stand_in):
        return self.inputs.get(id(stand_in))

    def kept_place(self, obj):
        return None

    def check_leaves(self, stand_in):
        pass

    def is_alone(self, stand_in):
        return False

    def is_registered(self, cls):
        return False

    def is_one_object(self, nan):
        return False

    def stores_plainly(self, cls, names):
        return not any(hasattr(type(vars(c).get(n)), "__set__") for c in cls.__mro__ for n in names)

    def _argument(self, obj) -> Origin:
        self.arguments.append(obj)
        return arg(len(self.arguments) - 1, f"a{len(self.arguments) - 1}")

    def handle(self, obj):
        """An external object seen as itself."""
        self.known[id(obj)] = self._argument(obj)
        return obj

    def constant(self, obj):
        """An external object whose identity is guarded."""
        self.known[id(obj)] = const(obj)
        self.keep.append(obj)
        return obj

    def result(self):
        """A stand-in for a tensor the graph will compute."""
        stand_in = torch.empty(1)
        self.real[id(stand_in)] = torch.randn(1)
        self.keep.append(stand_in)
        return stand_in

    def input(self, tensor):
        """A stand-in for an external tensor."""
        stand_in = torch.empty(1)
        self.inputs[id(stand_in)] = self._argument(tensor)
        self.keep.append(stand_in)
        return stand_in

    def shadow(self, original, items=None):
        """A private copy of an external container; `items` are its elements as captured code sees them."""
        cls = type(original)
        items = original if items is None else items
        if isinstance(original, collections.defaultdict):
            copy = cls(original.default_factory, items)
        elif isinstance(original, collections.deque):
            copy = cls(items, original.maxlen)
        elif isinstance(original, set):
            copy = cls()
            _core.copy_set(copy, original)  # as rehearsals do: what is done to it depends on how it lies in memory
        else:
            copy = cls(items)
        before = next(s(copy) for k, s in ((dict, dict), (set, set), (object, list)) if isinstance(copy, k))
        made = Shadow(copy, original, self._argument(original), before)
        self.shadows.append(made)
        self.copies[id(copy)] = made
        return copy

    def run(self, value, plan=plan_return):
        """Plan, check, build and call the entry; the graph gives the real tensors."""
        planned = plan(self, value)
        check_plan(planned)
        outputs = tuple(self.real[id(t)] for t in planned.outputs)
        entry = build_entry(planned, (lambda *inputs: outputs) if outputs else None, "test")
        return entry((), tuple(fetch(o, tuple(self.arguments)) for o in planned.externals))

    def source(self, value, plan=plan_return) -> str:
        planned = plan(self, value)
        check_plan(planned)
        return planned.source.split("\n", 1)[1].rstrip()


# -- sameness: types, contents and the pattern of identities --------------------------------------------------------

LEAF = (int, float, str, bytes, bool, type(None), type, torch.dtype, types.CodeType, enum.Enum, types.ModuleType)


def slots_of(obj):
    names = [
        n
        for c in type(obj).__mro__
        for n, d in vars(c).items()
        if isinstance(d, types.MemberDescriptorType) and "__slots__" in vars(c)
    ]
    return {n: object.__getattribute__(obj, n) for n in names if hasattr(obj, n)}


def contents(obj):
    """The parts of an object, in order, as plain lists."""
    out = (
        [getattr(obj, "__dict__", None), slots_of(obj)]
        if not isinstance(obj, dict | list) or type(obj) not in (dict, list)
        else []
    )
    if isinstance(obj, dict):
        out += (
            [x for pair in type(obj).__mro__[-2].items(obj) for x in pair]
            if type(obj) is not collections.OrderedDict
            else [x for pair in obj.items() for x in pair]
        )
        out += [obj.default_factory] if isinstance(obj, collections.defaultdict) else []
    elif isinstance(obj, list | tuple | collections.deque):
        out += [*iter(tuple.__iter__(obj) if isinstance(obj, tuple) else obj), getattr(obj, "maxlen", None)]
    elif isinstance(obj, types.FunctionType):
        out += [
            obj.__code__,
            obj.__closure__,
            obj.__defaults__,
            obj.__kwdefaults__,
            obj.__qualname__,
            obj.__annotations__,
        ]
    elif isinstance(obj, types.CellType):
        out += [obj.cell_contents]
    elif isinstance(obj, functools.partial):
        out += [obj.func, obj.args, obj.keywords]
    elif isinstance(obj, types.MethodType):
        out = [obj.__func__, obj.__self__]
    elif isinstance(obj, BaseException):
        out += [obj.args, obj.__cause__, obj.__context__, obj.__suppress_context__]
    return [x for x in out if not (isinstance(x, dict) and not x)]


def is_value(obj) -> bool:
    """Whether an object is immutable through and through; CPython itself shares such tuples."""
    if isinstance(obj, types.BuiltinFunctionType):
        return isinstance(obj.__self__, types.ModuleType)
    return isinstance(obj, LEAF) or type(obj) in (tuple, frozenset) and all(map(is_value, obj))


def assert_same(stage: Stage, want, got) -> None:
    """`got` is `want` rebuilt.

    The same shape, the same sharing, externals themselves, outputs in place of stand-ins.
    """
    forth: dict[int, object] = {}
    back: dict[int, object] = {}
    pending = [(want, got)]
    while pending:
        a, b = pending.pop()
        if is_value(a):
            assert type(a) is type(b) and (a == b or a != a), (a, b)
            continue
        if id(a) in stage.real:
            a = stage.real[id(a)]
            assert a is b
            continue
        origin = (
            stage.inputs.get(id(a))
            or stage.known.get(id(a))
            or (stage.copies[id(a)].origin if id(a) in stage.copies else None)
        )
        if origin is not None:
            assert fetch(origin, tuple(stage.arguments)) is b
            continue
        if id(a) in forth:
            assert forth[id(a)] is b, "an alias fell apart"
            continue
        assert id(b) not in back, "two objects became one"
        assert a is not b, f"{a!r} was not rebuilt"
        forth[id(a)], back[id(b)] = b, a
        assert type(a) is type(b)
        if isinstance(a, set | frozenset):
            assert len(a) == len(b)
            leaves = {x for x in a if isinstance(x, LEAF)}
            assert leaves == {x for x in b if isinstance(x, LEAF)}
            continue
        left, right = contents(a), contents(b)
        assert len(left) == len(right), (left, right)
        pending += zip(left, right)


def check(value, stage: Stage | None = None):
    stage = stage or Stage()
    got = stage.run(value)
    assert_same(stage, value, got)
    return got


# -- classes of the examples ----------------------------------------------------------------------------------------


class Plain:
    pass


class Slotted:
    __slots__ = ("__private", "left", "right")

    def __init__(self, left, right):
        self.left, self.right, self.__private = left, right, "p"


class SlottedChild(Slotted):
    __slots__ = ("left", "own")  # `left` is hidden, not replaced


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: object
    b: object = 2


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlots:
    a: object


class ListChild(list):
    def append(self, value):
        raise AssertionError("must not run")

    extend = __iter__ = __setitem__ = append


class DictChild(dict):
    def __setitem__(self, key, value):
        raise AssertionError("must not run")

    update = items = keys = __iter__ = __setitem__


class TupleChild(tuple):
    def __new__(cls, *args):
        raise AssertionError("must not run")


class Refuses:
    def __init__(self):
        self.x = 1

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value + 1)

    def __getattribute__(self, name):
        return "wrong"


class Attributes(dict):
    """Its instance dictionary is itself."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self


class Color(enum.Enum):
    RED = 1


class Permission(enum.IntFlag):
    R = 4
    W = 2


Point = collections.namedtuple("Point", "x y")


class Typed(typing.NamedTuple):
    a: int
    b: str = "b"


class Text(str):
    pass


class Number(int):
    def __new__(cls, *args):
        raise AssertionError("must not run")


class Trouble(Exception):
    def __init__(self, first, second):
        super().__init__(first)
        self.second = second


def counter():
    count = 0

    def up(by: int = 1, *, twice=False):
        nonlocal count
        count += by * (2 if twice else 1)
        return count

    def read():
        return count

    return up, read


def recursive():
    def fact(n):
        return 1 if n == 0 else n * fact(n - 1)

    return fact


class OddKey:
    def __init__(self, value=1):
        self.value = value

    def __hash__(self):
        return hash(self.value)

    def __eq__(self, other):
        return self.value == other.value
