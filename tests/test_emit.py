"""Recipes, effects and entries, on scenes made by hand: what an entry rebuilds is compared with the object itself."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import gc
import itertools
import linecache
import time
import traceback
import types
import typing
import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from framelift.emit import Effect, Shadow, build_entry, plan_raise, plan_return
from framelift.emit.check import check_plan
from framelift.exc import InternalError
from framelift.origin import Origin, arg, const, fetch
from framelift.reasons import Interrupt


class Stage:
    """A scene: externals are entered as arguments, tensors made here are stand-ins."""

    def __init__(self) -> None:
        self.shadows: list[Shadow] = []
        self.effects: list[Effect] = []
        self.arguments: list[object] = []
        self.real: dict[int, torch.Tensor] = {}      # result stand-in -> what the graph will give
        self.inputs: dict[int, Origin] = {}
        self.known: dict[int, Origin] = {}
        self.copies: dict[int, Shadow] = {}
        self.internal_classes: set[type] = set()
        self.keep: list[object] = []

    def origin_of(self, obj): return self.known.get(id(obj))
    def shadow_of(self, obj): return self.copies.get(id(obj))
    def is_stand_in(self, obj): return id(obj) in self.real or id(obj) in self.inputs
    def input_origin(self, stand_in): return self.inputs.get(id(stand_in))
    def is_internal_class(self, cls): return cls in self.internal_classes

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
        else:
            copy = cls(items)
        before = next(s(copy) for k, s in ((dict, dict), (set, set), (bytearray, bytes), (object, list)) if isinstance(copy, k))
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
    names = [n for c in type(obj).__mro__ for n, d in vars(c).items() if isinstance(d, types.MemberDescriptorType) and "__slots__" in vars(c)]
    return {n: object.__getattribute__(obj, n) for n in names if hasattr(obj, n)}


def contents(obj):
    """The parts of an object, in order, as plain lists."""
    out = [getattr(obj, "__dict__", None), slots_of(obj)] if not isinstance(obj, dict | list) or type(obj) not in (dict, list) else []
    if isinstance(obj, dict):
        out += [x for pair in type(obj).__mro__[-2].items(obj) for x in pair] if type(obj) is not collections.OrderedDict else \
            [x for pair in obj.items() for x in pair]
        out += [obj.default_factory] if isinstance(obj, collections.defaultdict) else []
    elif isinstance(obj, list | tuple | collections.deque):
        out += [*iter(tuple.__iter__(obj) if isinstance(obj, tuple) else obj), getattr(obj, "maxlen", None)]
    elif isinstance(obj, types.FunctionType):
        out += [obj.__code__, obj.__closure__, obj.__defaults__, obj.__kwdefaults__, obj.__qualname__, obj.__annotations__]
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
    """`got` is `want` rebuilt: the same shape, the same sharing, externals themselves, outputs in place of stand-ins."""
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
        origin = stage.inputs.get(id(a)) or stage.known.get(id(a)) or (stage.copies[id(a)].origin if id(a) in stage.copies else None)
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


# -- examples of values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [
    None, True, 0, -1, 10**30, -10**5000, 1.5, -0.0, float("inf"), float("-inf"), 1e300, "a", "a'\"\n\0\ud800", "x" * 500, "ä",
    b"ab", b"x" * 500, complex(-0.0, 1), ..., NotImplemented, torch.float32, torch.device("cpu"), torch.strided,
    torch.channels_last, torch.Size([1, 2]), torch.Size([]), slice(1, None, 2), range(3), range(1, 10, 3), Color.RED, Permission.R,
    Permission.R | Permission.W, int, Plain, list, torch.nn.Linear, len, torch.add, "".join, str.join, math_module := torch, (), frozenset(), frozenset({1, 2}),
    frozenset({1, (2, "a")}),
], ids=lambda v: repr(v)[:30] if not isinstance(v, int) else "int")
def test_leaves(value) -> None:
    got = Stage().run(value)
    assert type(got) is type(value) and repr(got)[:80] == repr(value)[:80] if not isinstance(value, int) else got == value


def test_nan_keeps_its_identity_pattern() -> None:
    nan = float("nan")
    got = Stage().run([nan, nan, float("nan")])
    assert got[0] is got[1] and got[0] is not got[2] and got[2] != got[2]


EXAMPLES = {
    "nested": lambda: [1, (2, {"a": [3.5, None]}), {"b"}],
    "empty": lambda: [[], (), {}, set(), frozenset(), collections.deque(), collections.OrderedDict(), bytearray()],
    "alias": lambda: (lambda x: [x, x, (x,)])([1]),
    "many leaves": lambda: [list(range(100)), tuple(range(100)), set(range(100)), {i: str(i) for i in range(100)}],
    "deque": lambda: [collections.deque([1, 2], 5), collections.deque([3])],
    "ordered": lambda: collections.OrderedDict(b=1, a=2),
    "default": lambda: collections.defaultdict(list, {"k": [1]}),
    "counter": lambda: collections.Counter("abcab"),
    "bytearray": lambda: bytearray(b"abc"),
    "namedtuple": lambda: Point([1], Point(2, 3)),
    "typed tuple": lambda: Typed(1),
    "frozen": lambda: Frozen([1]),
    "frozen slots": lambda: FrozenSlots([1]),
    "slots": lambda: Slotted([1], None),
    "chain of maps": lambda: collections.ChainMap({"a": 1}, {"b": 2}),
    "user dict": lambda: collections.UserDict(a=1),
    "keys": lambda: {(1, "a"): 1, Color.RED: 2, Frozen(1): 3, int: 4, len: 5, None: 6, torch.float32: 7, Typed(1): 8},
    "namespace": lambda: types.SimpleNamespace(a=[1]),
    "module": lambda: torch.nn.ReLU(),
    "partial": lambda: functools.partial(int, base=2),
    "closures": lambda: counter(),
    "recursive": lambda: recursive(),
    "method": lambda: (lambda p: [p.get, p])(types.SimpleNamespace(get=1)),
    "error": lambda: ValueError("x", [1]),
    "own error": lambda: Trouble("x", 2),
    "attribute error": lambda: AttributeError("a", name="n", obj=[1]),
    "deep": lambda: functools.reduce(lambda x, _: [x], range(3000), None),
    "text": lambda: [Text("a")],
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    value = EXAMPLES[name]()
    if name == "deep":
        got = Stage().run(value)
        for _ in range(3000):
            (got,) = got
        assert got is None
    else:
        check(value)


def test_subclasses_run_none_of_their_code() -> None:
    items = ListChild()
    list.extend(items, [1, [2]])
    items.note = "n"
    got = Stage().run(items)
    assert type(got) is ListChild and list.__eq__(got, items) and got.note == "n"
    mapping = DictChild()
    dict.update(mapping, {"a": [1]})
    assert dict.__eq__(Stage().run(mapping), mapping)
    both = tuple.__new__(TupleChild, (1, [2]))
    both.note = both
    got = Stage().run(both)
    assert type(got) is TupleChild and got == (1, [2]) and got.note is got
    number = int.__new__(Number, 7)
    number.unit = "m"
    got = Stage().run(number)
    assert type(got) is Number and got == 7 and got.unit == "m"


def test_custom_attribute_access_is_passed_by() -> None:
    got = Stage().run(Refuses())
    assert object.__getattribute__(got, "__dict__") == {"x": 2}


def test_hidden_and_private_slots() -> None:
    value = SlottedChild([1], 2)
    Slotted.left.__set__(value, "hidden")
    got = Stage().run(value)
    assert got.left == [1] and Slotted.left.__get__(got) == "hidden" and got._Slotted__private == "p" and not hasattr(got, "own")


def test_instance_dictionary_may_be_the_instance_or_shared() -> None:
    got = Stage().run(Attributes(a=[1]))
    assert type(got) is Attributes and got.__dict__ is got and got.a == [1]
    one, two = Plain(), Plain()
    one.__dict__ = two.__dict__ = {"n": 1}
    first, second, space = Stage().run([one, two, one.__dict__])
    assert first.__dict__ is second.__dict__ is space == {"n": 1}
    one.__dict__ = two.__dict__ = {}
    first, second = Stage().run([one, two])
    assert first.__dict__ is second.__dict__
    ordered = collections.OrderedDict(a=1)
    first, second = Stage().run([ordered, vars(ordered)])
    assert vars(first) is second
    stage = Stage()
    original: dict[str, object] = {}
    one.__dict__ = stage.shadow(original)
    assert stage.run(one).__dict__ is original
    space = types.SimpleNamespace(a=1)
    for value in ([space, vars(space)], [vars(space), space]):
        got = Stage().run(value)
        if isinstance(got[0], dict):
            got.reverse()
        assert vars(got[0]) is got[1] == {"a": 1}


def test_model_output() -> None:
    outputs = pytest.importorskip("transformers.modeling_outputs")
    stage = Stage()
    hidden = stage.result()
    value = outputs.BaseModelOutput(last_hidden_state=hidden, hidden_states=(stage.result(), hidden))
    got = stage.run(value)
    assert type(got) is outputs.BaseModelOutput and list(got.keys()) == ["last_hidden_state", "hidden_states"]
    assert got.last_hidden_state is got["last_hidden_state"] is got.hidden_states[1] is stage.real[id(hidden)]
    assert got.attentions is None and len(got.hidden_states) == 2


def test_torch_return_types() -> None:
    stage = Stage()
    value = torch.return_types.max((stage.result(), stage.result()))
    got = stage.run(value)
    assert type(got) is torch.return_types.max and got.values is stage.real[id(value.values)]


def test_functions_share_their_variables() -> None:
    up, read = check(counter())
    assert up() == 1 and up(2, twice=True) == 5 and read() == 5
    assert up.__annotations__ == {"by": "int"} and up.__qualname__ == "counter.<locals>.up"
    assert recursive()(5) == Stage().run(recursive())(5) == 120

    def wrapped(): "doc"
    outer = functools.wraps(wrapped)(lambda: wrapped())
    got = check(outer)
    assert got.__wrapped__.__doc__ == "doc" and got.__name__ == "wrapped" and got.__module__ == __name__


def test_external_cells_and_functions_keep_their_identity() -> None:
    up, read = counter()
    stage = Stage()
    stage.handle(read.__closure__[0])
    stage.constant(read)
    got_up, got_read = stage.run((up, read))
    assert got_read is read and got_up is not up
    assert got_up() == 1 and read() == 1


def test_methods_and_wrappers() -> None:
    value = Plain()
    value.items = [1]
    method, again = check([types.MethodType(counter, value), value])
    assert method.__self__ is again
    append, items = Stage().run([value.items.append, value.items])
    append(2)
    assert items == [1, 2]
    static, cls, prop = Stage().run([staticmethod(counter), classmethod(counter), property(counter, None, None, "doc")])
    assert static.__func__.__code__ is cls.__func__.__code__ is counter.__code__ and prop.__doc__ == "doc"


def test_exceptions() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise Trouble("a", [1]) from inner
    except Trouble as error:
        value = error
    value.add_note("n")
    value = check(value)
    assert value.second == [1] and isinstance(value.__cause__, KeyError) and value.__notes__ == ["n"] and value.__traceback__ is None
    assert Stage().run(StopIteration(5)).value == 5
    assert Stage().run(StopIteration(())).value == () and Stage().run(SystemExit(3)).code == 3
    stage = Stage()
    result = stage.result()
    assert stage.run(StopIteration(result)).value is stage.real[id(result)]
    with pytest.raises(Interrupt):
        Stage().run(OSError(2, "no"))


def test_views_and_iterators() -> None:
    mapping = {"a": 1, "b": 2, "c": 3}
    keys, values, items, again = Stage().run([mapping.keys(), mapping.values(), mapping.items(), mapping])
    again["d"] = 4
    assert list(keys) == list("abcd") and list(values) == [1, 2, 3, 4] and ("d", 4) in items
    for make in (lambda: iter([1, 2, 3]), lambda: iter((1, 2, 3)), lambda: iter(range(3)), lambda: iter("abc"), lambda: iter(b"abc"),
                 lambda: reversed([1, 2, 3]), lambda: reversed((1, 2, 3)), lambda: iter(mapping), lambda: iter(mapping.items()),
                 lambda: enumerate([1, 2, 3], 5), lambda: zip([1, 2], "ab"), lambda: map(str, [1, 2, 3]), lambda: filter(None, [0, 1, 2])):
        for taken in range(3):
            value, twin = make(), make()
            list(itertools.islice(value, taken)), list(itertools.islice(twin, taken))
            try:
                got = Stage().run(value)
            except Interrupt:
                assert type(value) in (type(iter({})), type(iter({}.items())))
                continue
            assert type(got) is type(twin) and list(got) == list(twin)
    one = [1, 2]
    it = iter(one)
    next(it)
    got, got_it = Stage().run([one, it])
    got.append(3)
    assert list(got_it) == [2, 3]


def test_weak_references() -> None:
    stage = Stage()
    owner = Plain()
    handle = stage.handle(Plain())
    first, second, got = stage.run([weakref.ref(owner), weakref.ref(handle), owner])
    assert first() is got and second() is handle
    assert Stage().run([weakref.ref(owner)])[0]() is None


# -- what cannot be rebuilt -----------------------------------------------------------------------------------------


class Finalised:
    def __del__(self):
        pass


class OddKey:
    def __init__(self, value=1):
        self.value = value

    def __hash__(self):
        return hash(self.value)

    def __eq__(self, other):
        return self.value == other.value


@pytest.mark.parametrize("make", [
    lambda: (x for x in ()), lambda: Finalised(), lambda: {OddKey(): 1}, lambda: {(1, OddKey())}, lambda: memoryview(b"a"),
    lambda: iter({1}), lambda: torch.empty(1), lambda: torch.Generator(), lambda: __import__("threading").Lock(), lambda: types.MappingProxyType({}),
    lambda: itertools.count(), lambda: super(Plain, Plain()), lambda: functools.lru_cache(counter), lambda: types.ModuleType("m"),
    lambda: reversed(collections.UserList([1])), lambda: list.__iter__(ListChild()), lambda: zip(collections.UserList()), lambda: torch.SymInt(None),
    lambda: types.FunctionType(counter.__code__, {}), lambda: open, lambda: __import__("io").StringIO(),
], ids=itertools.count().__next__ and (lambda f: f.__code__.co_names[:1] and f.__code__.co_names[0] or "literal"))
def test_denied(make) -> None:
    value = make()
    if value is open:
        assert Stage().run(value) is open  # a function of a C module is a constant
        return
    with pytest.raises(Interrupt) as caught:
        Stage().run([value])
    assert caught.value.reason.id == "result-object" and caught.value.sentence


def test_classes_created_inside_are_denied() -> None:
    stage = Stage()
    inner = type("Inner", (), {})
    stage.internal_classes.add(inner)
    for value in (inner, inner(), [inner]):
        with pytest.raises(Interrupt):
            stage.run(value)


def test_a_key_that_needs_its_own_dictionary_is_denied() -> None:
    holder = Plain()
    key = Frozen(holder)
    holder.table = {key: 1}
    with pytest.raises(Interrupt):
        Stage().run(holder)


# -- externals and outputs ------------------------------------------------------------------------------------------


def test_external_tensors_are_returned_themselves() -> None:
    stage = Stage()
    tensor = torch.ones(2)
    x = stage.input(tensor)
    got = stage.run([x, stage.result(), x])
    assert got[0] is got[2] is tensor


def test_shadows_are_returned_as_their_originals() -> None:
    stage = Stage()
    original = [1, 2]
    copy = stage.shadow(original)
    got = stage.run({"a": copy, "b": (copy,)})
    assert got["a"] is got["b"][0] is original


# -- random values with aliases and cycles --------------------------------------------------------------------------

LEAVES = [0, 1, -7, 2.5, "a", "b", None, True, b"x", Color.RED, torch.float16]
HASHABLE = (tuple, frozenset, Frozen, FrozenSlots, Point)


def _frozen_all(items) -> bool:
    pending, seen = list(items), set()
    while pending:
        x = pending.pop()
        if isinstance(x, Frozen):
            pending += [x.a, x.b]
        elif isinstance(x, FrozenSlots):
            pending += [x.a]
        elif isinstance(x, tuple | frozenset):
            pending += x
        elif isinstance(x, torch.Tensor) or type(x).__hash__ is object.__hash__ or isinstance(x, LEAF):
            pass
        else:
            return False
        seen.add(id(x))
    return True


def _cell_function(items):
    captured = items
    return lambda: captured


MAKERS = [
    lambda items: list(items), lambda items: tuple(items), lambda items: dict(enumerate(items)), lambda items: collections.deque(items, 9),
    lambda items: collections.OrderedDict((str(i), x) for i, x in enumerate(items)), lambda items: collections.defaultdict(list, enumerate(items)),
    lambda items: Point(items, list(items)), lambda items: Frozen(tuple(items), items[:1]), lambda items: FrozenSlots(items), lambda items: Slotted(items, items),
    lambda items: vars(p := Plain()).update(x=items, y=p) or p, _cell_function, lambda items: functools.partial(print, *items),
    lambda items: ValueError(*items), lambda items: types.MethodType(print, items), lambda items: types.SimpleNamespace(a=items),
    lambda items: {x: i for i, x in enumerate(items)} if _frozen_all(items) else [items],
    lambda items: set(items) if _frozen_all(items) else items,
]
TIES = {list: lambda a, b: a.append(b), dict: lambda a, b: a.__setitem__("tie", b), collections.deque: lambda a, b: a.append(b),
        Plain: lambda a, b: setattr(a, "tie", b), Slotted: lambda a, b: setattr(a, "right", b), ValueError: lambda a, b: setattr(a, "tie", b),
        collections.OrderedDict: lambda a, b: a.__setitem__("tie", b), types.SimpleNamespace: lambda a, b: setattr(a, "tie", b)}


@settings(max_examples=300)
@given(st.data())
def test_random_values(data) -> None:
    stage = Stage()
    tensor, original = torch.ones(1), {"o": 1}
    pool: list[object] = [*LEAVES, stage.result(), stage.result(), stage.input(tensor), stage.handle(Plain()), stage.shadow(original)]
    for _ in range(data.draw(st.integers(1, 12))):
        chosen = [pool[data.draw(st.integers(0, len(pool) - 1))] for _ in range(data.draw(st.integers(0, 4)))]
        pool.append(MAKERS[data.draw(st.integers(0, len(MAKERS) - 1))](chosen))
    mutable = [x for x in pool if type(x) in TIES and id(x) not in stage.known and id(x) not in stage.copies]
    keys_before = [x for x in pool if isinstance(x, Frozen | FrozenSlots)]
    for _ in range(data.draw(st.integers(0, 4))):
        if mutable and not keys_before:
            target = mutable[data.draw(st.integers(0, len(mutable) - 1))]
            TIES[type(target)](target, pool[data.draw(st.integers(0, len(pool) - 1))])
    check([pool[-1], pool[data.draw(st.integers(0, len(pool) - 1))]], stage)


# -- shadows written back -------------------------------------------------------------------------------------------

VALUES = st.integers(0, 5) | st.sampled_from(["a", "b", "c", None, (1, 2)])
OPERATIONS = {
    list: [lambda c, x, i: c.append(x), lambda c, x, i: c.insert(i, x), lambda c, x, i: c and c.pop(i % len(c)), lambda c, x, i: c.reverse(),
           lambda c, x, i: c.clear(), lambda c, x, i: c and c.__setitem__(i % len(c), x), lambda c, x, i: c.extend([x, x]), lambda c, x, i: c.__delitem__(slice(i, None))],
    dict: [lambda c, x, i: c.__setitem__(x, i), lambda c, x, i: c.pop(x, None), lambda c, x, i: c.clear(), lambda c, x, i: c and c.popitem(),
           lambda c, x, i: c and c.__setitem__(next(iter(c)), x), lambda c, x, i: c and c.update({k: c.pop(k) for k in [next(iter(c))]}),
           lambda c, x, i: c.update({i: x, x: i})],
    set: [lambda c, x, i: c.add(x), lambda c, x, i: c.discard(x), lambda c, x, i: c.clear(), lambda c, x, i: c.update({i, x})],
    collections.deque: [lambda c, x, i: c.append(x), lambda c, x, i: c.appendleft(x), lambda c, x, i: c and c.pop(), lambda c, x, i: c and c.popleft(),
                        lambda c, x, i: c.rotate(i), lambda c, x, i: c.clear(), lambda c, x, i: c.extend([x, i])],
    bytearray: [lambda c, x, i: c.append(i), lambda c, x, i: c.clear(), lambda c, x, i: c.extend(b"ab"), lambda c, x, i: c.reverse()],
}


class LoudList(list):
    def append(self, x): list.append(self, x)
    def clear(self): list.clear(self)


class LoudDict(dict):
    pass


KINDS = {
    "list": (list, list), "list child": (list, LoudList), "dict": (dict, dict), "dict child": (dict, LoudDict), "ordered": (dict, collections.OrderedDict),
    "default": (dict, lambda pairs: collections.defaultdict(list, pairs)), "set": (set, set), "set child": (set, type("SetChild", (set,), {})),
    "deque": (collections.deque, collections.deque), "short deque": (collections.deque, lambda items: collections.deque(items, 3)), "bytearray": (bytearray, bytearray),
    "bytearray child": (bytearray, type("Bytes", (bytearray,), {})), "deque child": (collections.deque, type("Deque", (collections.deque,), {})),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=120)
@given(data=st.data())
def test_random_changes_are_written_back(kind: str, data) -> None:
    base, make = KINDS[kind]
    start = data.draw(st.lists(st.tuples(VALUES, VALUES), max_size=6) if base is dict else st.lists(st.integers(0, 255) if base is bytearray else VALUES, max_size=6))
    original, plain = make(start), make(start)
    stage = Stage()
    copy = stage.shadow(original)
    for _ in range(data.draw(st.integers(0, 6))):
        x, i = data.draw(VALUES), data.draw(st.integers(0, 5))
        operation = OPERATIONS[base][data.draw(st.integers(0, len(OPERATIONS[base]) - 1))]
        operation(copy, x, i), operation(plain, x, i)
    assert stage.run(None) is None
    assert original == plain and type(original) is type(plain)
    if base is dict:
        assert list(original.items()) == list(plain.items())


def test_nothing_is_written_for_an_unchanged_shadow() -> None:
    stage = Stage()
    outer = [[1], {"a": 2}]
    inner = stage.shadow(outer[0])
    stage.shadow(outer, [inner, stage.shadow(outer[1])])
    stage.shadow((1, 2))
    assert stage.source(None) == "    return None"
    inner.append(3)
    stage.run(None)
    assert outer == [[1, 3], {"a": 2}]


def test_values_written_into_shadows() -> None:
    stage = Stage()
    original: list[object] = []
    tensor = torch.ones(1)
    copy = stage.shadow(original)
    result = stage.result()
    cell = [result, copy, stage.input(tensor)]
    copy.extend([cell, cell])
    stage.run(None)
    assert original[0] is original[1] and original[0][0] is stage.real[id(result)] and original[0][1] is original and original[0][2] is tensor


def test_keys_with_a_hash_of_their_own_are_denied_only_when_touched() -> None:
    stage = Stage()
    original = {OddKey(): 1}
    copy = stage.shadow(original)
    stage.run(None)
    copy["x"] = 2
    with pytest.raises(Interrupt) as caught:
        stage.run(None)
    assert caught.value.reason.id == "effect-object"


def test_default_factory_is_written_back() -> None:
    stage = Stage()
    original = collections.defaultdict(list)
    stage.shadow(original).default_factory = dict
    stage.run(None)
    assert original.default_factory is dict


# -- effects --------------------------------------------------------------------------------------------------------


def test_effects() -> None:
    stage = Stage()
    plain, module, read = Plain(), torch.nn.ReLU(), counter()[1]
    plain.old = 1
    cell, space = read.__closure__[0], {"g": 1, "h": 2}
    for handle in (plain, module):
        stage.handle(handle)
    stage.handle(cell)
    stage.constant(space)
    stage.constant(Frozen)
    tensor = torch.ones(1)
    x, y = stage.input(tensor), stage.result()
    shared = [y]
    stage.effects = [
        Effect("setattr", plain, "new", shared), Effect("setattr", plain, "class", 1), Effect("delattr", plain, "old"), Effect("setattr", module, "calls", 3),
        Effect("setcell", cell, None, shared), Effect("setglobal", space, "g", 5), Effect("delglobal", space, "h"), Effect("tensorattr", x, "note", "n"),
        Effect("tensorattr", y, "note", shared), Effect("settype", Frozen, "extra", 1), Effect("deltype", Frozen, "extra"),
    ]
    got = stage.run(y)
    assert plain.new is read() is got.note and plain.new[0] is got and getattr(plain, "class") == 1 and not hasattr(plain, "old")
    assert module.__dict__["calls"] == 3 and space == {"g": 5} and tensor.note == "n" and not hasattr(Frozen, "extra")
    with pytest.raises(Interrupt) as caught:
        stage.effects = [Effect("setattr", Plain(), "x", 1)]
        stage.run(None)
    assert caught.value.reason.id == "effect-object"


def test_writes_to_one_place_are_merged() -> None:
    stage = Stage()
    plain = stage.handle(Plain())
    stage.effects = [Effect("setattr", plain, "a", 1), Effect("setattr", plain, "b", 1), Effect("setattr", plain, "a", 2),
                     Effect("delattr", plain, "b"), Effect("setattr", plain, "b", 3)]
    assert stage.source(None) == "    e0, = externals\n    e0.a = 2\n    e0.b = 1\n    del e0.b\n    e0.b = 3\n    return None"


# -- entries --------------------------------------------------------------------------------------------------------


def test_sources() -> None:
    """What entries look like."""
    stage = Stage()
    t, u = stage.result(), stage.result()
    x = stage.input(torch.ones(1))
    assert stage.source(None) == "    return None"
    assert stage.source(t) == "    return graph(*inputs)[0]"
    assert stage.source(x) == "    return externals[0]"
    assert stage.source((t,)) == "    t0, = graph(*inputs)\n    return (t0,)"
    assert stage.source((u, t, u)) == "    t0, t1 = graph(*inputs)\n    return (t0, t1, t0)"
    assert stage.source({"a": t, "b": [x, -1.5, torch.float32]}) == \
        "    t0, = graph(*inputs)\n    e0, = externals\n    return {'a': t0, 'b': [e0, -1.5, float32]}"
    assert stage.source(Point(t, u)) == "    t0, t1 = graph(*inputs)\n    return tuple.__new__(Point, (t0, t1))"
    assert stage.source(Frozen(t)) == \
        "    t0, = graph(*inputs)\n    v0 = object.__new__(Frozen)\n    object.__setattr__(v0, '__dict__', {'a': t0, 'b': 2})\n    return v0"
    ring: list[object] = [t]
    ring.append(ring)
    assert stage.source(ring) == "    t0, = graph(*inputs)\n    v0 = []\n    v0.extend([t0, v0])\n    return v0"


def test_names_do_not_collide() -> None:
    graph, e0, lst = (type(name, (), {}) for name in ("graph", "e0", "list"))
    got = Stage().run([graph, e0, lst, list, object, type("object", (), {})])
    assert got[:5] == [graph, e0, lst, list, object]


def test_a_graph_without_outputs_is_called() -> None:
    calls = []
    entry = build_entry(plan_return(Stage(), 7), lambda *inputs: calls.append(inputs), "g")
    assert entry((1, 2), ()) == 7 and calls == [(1, 2)]
    stage = Stage()
    with pytest.raises(InternalError):
        build_entry(plan_return(stage, stage.result()), None, "g")


def test_source_is_seen_by_tracebacks_and_forgotten_with_the_entry() -> None:
    def graph(*inputs):
        raise ZeroDivisionError
    stage = Stage()
    entry = build_entry(plan_return(stage, stage.result()), graph, "model.forward")
    assert "graph(*inputs)" in entry.__source__
    try:
        entry((), ())
    except ZeroDivisionError:
        text = traceback.format_exc()
    assert "<framelift entry model.forward #" in text and "return graph(*inputs)[0]" in text
    filename = entry.__code__.co_filename
    assert filename in linecache.cache
    linecache.checkcache()
    assert filename in linecache.cache
    del entry
    gc.collect()
    assert filename not in linecache.cache


def test_raise() -> None:
    stage = Stage()
    error = Trouble("a", stage.result())
    error.__context__ = KeyError("k")
    with pytest.raises(Trouble) as caught:
        try:
            raise OSError
        except OSError:
            stage.run(error, plan_raise)
    assert caught.value is not error and isinstance(caught.value.__context__, KeyError) and caught.value.second is stage.real[id(error.second)]
    with pytest.raises(ValueError):
        Stage().run(ValueError(), plan_raise)


def test_entries_keep_nothing_of_the_rehearsal() -> None:
    stage = Stage()
    stand_in, inner = stage.result(), Plain()
    inner.t = stand_in
    entry = build_entry(plan_return(stage, [inner]), lambda *inputs: (torch.ones(1),), "g")
    gone = [weakref.ref(stand_in), weakref.ref(inner)]
    del stage, stand_in, inner
    gc.collect()
    assert [ref() for ref in gone] == [None, None] and entry is not None


def test_planning_is_quick() -> None:
    outputs = pytest.importorskip("transformers.modeling_outputs")
    stage = Stage()
    value = outputs.BaseModelOutput(last_hidden_state=stage.result(), hidden_states=tuple(stage.result() for _ in range(13)))
    best = min(_seconds(lambda: build_entry(plan_return(stage, value), print, "f")) for _ in range(20))
    assert best < 2e-3  # 0.2 ms where the target was 1 ms; the margin is for busy machines


def _seconds(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
