"""Entries whose functions are carried out as native steps: the same objects, aliases, effects and errors."""

import collections
import dataclasses
import gc
import sys
import types
import weakref

import pytest
import torch

import framelift
from framelift import _core
from framelift.exits.native_steps import native_steps


class Plain:
    def __init__(self, **fields) -> None:
        for name, value in fields.items():
            setattr(self, name, value)


class Other(Plain):
    pass


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a, b) -> None:
        self.a, self.b = a, b


@dataclasses.dataclass
class Row:
    first: torch.Tensor
    rest: list
    name: str = "row"


@dataclasses.dataclass(frozen=True)
class Frozen:
    first: torch.Tensor
    number: int = 3


class Output(collections.OrderedDict):
    """As the results of transformers: items and attributes."""

    def __init__(self, **fields) -> None:
        super().__init__({k: v for k, v in fields.items() if v is not None})
        for name, value in fields.items():
            super().__setattr__(name, value)


class Items(dict):
    pass


Pair = collections.namedtuple("Pair", "a b")
#: calls after which an entry has its steps, and some more that use them
OFTEN = 12
HELD = Plain(last=None, count=0)
LOG: list = []


def _linked(x):
    first, second = Plain(x=x), Plain(x=x + 1)
    first.next, second.next = second, first
    return first


def _itself(x):
    items = [x + 1]
    items.append(items)
    return items


def _aliases(x):
    y, inner = x + 1, [1, 2]
    return {"a": y, "b": (y, inner), "c": Plain(y=y, inner=inner), "d": inner}


def _cache(x):
    layers = [Plain(keys=x + i, values=x * i, ready=True, device=x.device, dtype=x.dtype) for i in range(3)]
    return Output(loss=None, logits=x.sin(), past=Plain(layers=layers, offload=False, seen={0: True, 1: True}))


def _changes(x):
    HELD.last = x + 1
    HELD.count = HELD.count + 1
    LOG.append(2)
    return Plain(held=HELD, x=x.cos())


RESULTS = {
    "tensor": lambda x: x + 1,
    "nothing": lambda x: None,
    "input": lambda x: (x, x + 1, [x]),
    "only an input": lambda x: x,
    "tuple": lambda x: (x + 1, None, 3, "text", -2, 2.5, -0.0, 1j),
    "tuple of constants": lambda x: (x + 1, (1, 2), (3, (4, -5)), ()),
    "list": lambda x: [x + 1, [x + 2, []], 1, 2, 3],
    "dict": lambda x: {"a": x + 1, "b": None, "c": {"d": x + 2}},
    "dict without names": lambda x: {1: x + 1, (2, 3): None, "a": 2, None: x + 2},
    "large dict": lambda x: {f"key{i}": x + i if i % 3 else i for i in range(20)},
    "empty": lambda x: (x + 1, {}, [], ()),
    "set": lambda x: (x + 1, {1, 2, 3}),
    "instance": lambda x: Plain(a=x + 1, b=None, c=[x + 2]),
    "instances of one class": lambda x: [Plain(a=x + 1), Plain(b=x + 2, a=3), Plain(), Other(a=1)],
    "many attributes": lambda x: Plain(**{f"a{i}": x + i for i in range(40)}),
    "slots": lambda x: Slotted(x + 1, [Slotted(1, x)]),
    "data class": lambda x: Row(x + 1, [Row(x + 2, []), 3]),
    "frozen data class": lambda x: Frozen(x + 1),
    "ordered": lambda x: collections.OrderedDict(b=x + 1, a=2),
    "ordered subclass": lambda x: Output(loss=None, logits=x + 1, more=(x + 2, None)),
    "subclass of dict": lambda x: Items(a=x + 1),
    "named tuple": lambda x: Pair(x + 1, Pair(1, 2)),
    "namespace": lambda x: types.SimpleNamespace(a=x + 1, b=[1]),
    "default dict": lambda x: collections.defaultdict(list, a=[x + 1]),
    "deque": lambda x: collections.deque([x + 1, 2], 3),
    "aliases": _aliases,
    "linked": _linked,
    "itself": _itself,
    "cache": _cache,
    "changes": _changes,
}


def _shown(value, seen=None):
    """What a result consists of, with numbers for objects that are met again."""
    seen = {} if seen is None else seen
    if isinstance(value, (int, float, complex, str, type(None), torch.device, torch.dtype, type)):
        return type(value).__name__, repr(value)
    if id(value) in seen:
        return seen[id(value)][0]
    seen[id(value)] = (len(seen), value)
    kind = type(value).__name__
    if isinstance(value, torch.Tensor):
        return kind, value.tolist()
    if isinstance(value, dict):
        inside = [(_shown(k, seen), _shown(v, seen)) for k, v in value.items()]
    else:
        inside = [_shown(v, seen) for v in value] if hasattr(value, "__iter__") else []
    slots = [(name, _shown(getattr(value, name), seen)) for name in getattr(value, "__slots__", ())]
    own = [(name, _shown(v, seen)) for name, v in getattr(value, "__dict__", {}).items()]
    return kind, inside, slots, own


def _start() -> None:
    HELD.__dict__.clear()
    HELD.last, HELD.count = None, 0
    LOG.clear()


def _calls(function, times: int = OFTEN):
    _start()
    x = torch.arange(3.0)
    results = [function(x) for _ in range(times)]
    return [_shown((result, x)) for result in results], _shown((HELD, LOG)), results


def _compiled(function, backend="eager"):
    return framelift.compile(function, backend=backend)


def _often(compiled, *args):
    """So that its entries have steps."""
    for _ in range(OFTEN):
        _start()
        compiled(*args)
    return compiled


def _without_steps(function, backend="eager"):
    """As compiled, with code that is not what the steps were made for."""
    compiled = _often(_compiled(function, backend), torch.arange(3.0))
    for entry in compiled.entries:
        entry.run.__code__ = entry.run.__code__.replace()
    return compiled


@pytest.mark.parametrize("kind", RESULTS)
def test_results(kind) -> None:
    function = RESULTS[kind]
    expected, effects, _ = _calls(function)
    for compiled in (_compiled(function), _without_steps(function)):
        found, changed, results = _calls(compiled)
        assert (found, changed) == (expected, effects)
        fresh = [r for r in results if not isinstance(r, (torch.Tensor, type(None)))]
        assert len(set(map(id, fresh))) == len(fresh)


def test_most_kinds_have_steps() -> None:
    for kind in ("tensor", "input", "tuple", "dict", "instance", "data class", "ordered subclass", "cache", "linked"):
        compiled = _often(_compiled(RESULTS[kind]), torch.arange(3.0))
        assert isinstance(compiled.entries[0].steps, _core.Steps), kind


def test_constants_are_those_of_the_code() -> None:
    function = lambda x: (x + 1, (1, (2, 3)), "a text, not a name", 12345678)  # noqa: E731
    compiled, x = _compiled(function), torch.ones(2)
    _, *first = compiled(x)
    _, *second = _often(compiled, x)(x)
    assert compiled.entries[0].steps
    assert all(one is other for one, other in zip(first, second))
    entry = compiled.entries[0]
    entry.run.__code__ = entry.run.__code__.replace()
    _, *third = compiled(x)
    assert all(one is other for one, other in zip(first, third))


def test_no_result_outlives_its_last_reference() -> None:
    compiled, x = _compiled(_cache), torch.ones(2)
    for _ in range(50):
        result = compiled(x)
        refs = [weakref.ref(result.past), weakref.ref(result.logits), *map(weakref.ref, result.past.layers)]
        del result
        assert [ref() for ref in refs] == [None] * 5


def test_references_are_counted() -> None:
    thing = Plain(a=1)
    compiled, x = _compiled(lambda x, thing: (Plain(thing=thing, x=x), [thing], {"thing": thing}, x + 1)), torch.ones(2)
    _often(compiled, x, thing)
    counts = [sys.getrefcount(one) for one in (thing, x, Plain, None)]
    for _ in range(100):
        compiled(x, thing)
    after = [sys.getrefcount(one) for one in (thing, x, Plain, None)]
    assert all(abs(new - old) < 20 for old, new in zip(counts, after)), (counts, after)


@pytest.mark.usefixtures("small_heap")
def test_instances_are_found_by_the_collector() -> None:
    compiled, x = _compiled(_linked), torch.ones(2)
    for _ in range(OFTEN):
        first = compiled(x)
        refs = weakref.ref(first), weakref.ref(first.next)
        assert first.next.next is first and gc.is_tracked(first)
        del first
        gc.collect()
        assert [ref() for ref in refs] == [None, None]


def test_later_changes_of_an_instance() -> None:
    compiled, x = _compiled(RESULTS["instance"]), torch.ones(2)
    for _ in range(OFTEN):
        made = compiled(x)
        made.d, made.a = 4, 1
        del made.b
        assert list(vars(made)) == ["a", "c", "d"] and made.a == 1
        made.b = 2
        assert list(vars(made)) == ["a", "c", "d", "b"] and made.__dict__ is vars(made)


class _Recording:
    def __set_name__(self, owner, name) -> None:
        self.name = "_" + name

    def __get__(self, instance, owner):
        return self if instance is None else ("got", instance.__dict__[self.name])

    def __set__(self, instance, value) -> None:
        instance.__dict__[self.name] = value


def _set_doubled(self, name, value) -> None:
    object.__setattr__(self, name, [value, value])


_CHANGES = {
    "__setattr__": lambda cls: setattr(cls, "__setattr__", _set_doubled),
    "__init__": lambda cls: setattr(cls, "__init__", lambda self, a, b: setattr(self, "b", a)),
    "__new__": lambda cls: setattr(cls, "__new__", lambda cls, a, b: object.__new__(cls)),
    "property": lambda cls: setattr(
        cls, "a", property(lambda self: 7, lambda self, value: self.__dict__.update(z=value))
    ),
    "descriptor": lambda cls: (setattr(cls, "a", _Recording()), cls.a.__set_name__(cls, "a")),
    "method": lambda cls: setattr(cls, "a", lambda self: 3),
    "class attribute": lambda cls: setattr(cls, "c", 3),
    "__getattribute__": lambda cls: setattr(cls, "__getattribute__", object.__getattribute__),
}


@pytest.mark.parametrize("change", _CHANGES)
def test_class_that_changes_after_its_capture(change) -> None:
    def make():
        class Local:
            def __init__(self, a, b) -> None:
                self.a = a
                self.b = b

        return Local

    def shown(value):
        return [(name, _shown(one)) for name, one in vars(value).items()], _shown(getattr(value, "a", None))

    x, seen = torch.ones(2), {}
    for name in ("eager", "steps", "python"):
        cls = make()
        function = lambda x: cls(x + 1, [2])  # noqa: B023, E731
        run = function if name == "eager" else _compiled(function)
        for _ in range(OFTEN):
            run(x)
        if name == "python":
            run.entries[0].run.__code__ = run.entries[0].run.__code__.replace()
        _CHANGES[change](cls)
        seen[name] = [shown(run(x)) for _ in range(4)]
    assert seen["steps"] == seen["eager"] and seen["python"] == seen["eager"]


@pytest.mark.parametrize("kind", [tuple, list, iter, lambda values: {value: 1 for value in values}])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_outputs_of_a_graph(kind, count) -> None:
    """Backends that answer with other kinds of sequences, or with another number of outputs."""

    def function(x):
        return [x.sin(), x.cos()]

    def backend(graph_module, inputs):
        return lambda *values: kind((*graph_module(*values), values[0])[:count])

    seen = []
    for make in (_compiled, _without_steps):
        _start()
        try:
            compiled = make(function, backend)
            seen.append([_shown(compiled(torch.arange(3.0))) for _ in range(OFTEN)])
        except Exception as error:
            seen.append((type(error), str(error).partition("<framelift")[0]))
    assert seen[0] == seen[1]
    if count == 2:
        assert seen[0] == [_shown(function(torch.arange(3.0)))] * OFTEN


@pytest.mark.parametrize("answer", [3, None, (), [], (1, 2, 3)])
def test_outputs_that_become_wrong(answer) -> None:
    """A backend's function that answers with something else once the entry has its steps."""
    seen = []
    for make in (_compiled, _without_steps):
        now = []

        def backend(graph_module, inputs):
            return lambda *values: now[0] if now else graph_module(*values)  # noqa: B023

        compiled = _often(make(lambda x: [x.sin(), x.cos()], backend), torch.ones(2))
        now.append(answer)
        with pytest.raises(framelift.exc.InternalError, match="unpack") as raised:
            compiled(torch.ones(2))
        seen.append(str(raised.value))
    assert seen[0] == seen[1]


def test_steps_that_cannot_be_made() -> None:
    compiled, x = _compiled(RESULTS["cache"]), torch.ones(2)
    asked = []

    def maker(function):
        asked.append(function)
        raise ValueError("cannot")

    _core.connect(steps_maker=maker)
    try:
        for _ in range(OFTEN):
            assert _shown(compiled(x)) == _shown(_cache(x))
    finally:
        _core.connect(steps_maker=native_steps)
    assert len(asked) == 1 and compiled.entries[0].steps is None
    assert _shown(_often(compiled, x)(x)) == _shown(_cache(x))


class Refusing:
    refuses = False

    def __setattr__(self, name, value) -> None:
        if Refusing.refuses and name == "second":
            raise KeyError(name)
        object.__setattr__(self, name, value)


def test_failure_in_the_middle() -> None:
    """A step that fails: what was made so far goes, what was changed so far stays."""
    space = {"graph": lambda *inputs: (inputs[0],), "Refusing": Refusing, "new": _core.new}
    steps = (
        ("graph", 1, 1),
        ("list", 2, 0, 1, 0),
        ("instance", 3, 0, ~0, ~1, 2, ~2, 1),
        ("set attribute", -1, 0, 0, ~2, 3),
        ("return", -1, 0, 3),
    )
    exec("def entry(inputs, externals): pass", space)
    run = space["entry"]
    steps = _core.Steps(run.__code__, space, 1, 4, (Refusing, "first", "second"), steps)
    made = _compiled(lambda x, held: (x + 1, held))
    x, held = torch.ones(2), Plain()
    made(x, held)
    entry = _core.Entry(made.entries[0].program, run, steps=steps)
    del made.entries[:]
    made.entries.append(entry)
    result = made(x, held)
    assert held.second is result and result.first[0] is x and result.first[1] is held and result.second is x
    del held.second, result
    counts = sys.getrefcount(x), sys.getrefcount(held)
    Refusing.refuses = True
    try:
        for _ in range(10):
            with pytest.raises(KeyError, match="second"):
                made(x, held)
    finally:
        Refusing.refuses = False
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(held)) == counts and not vars(held)
    assert made(x, held).second is x


_GOOD = (("graph", 1, 1), ("return", -1, 0, 1))


@pytest.mark.parametrize(
    "steps",
    [
        (),
        (("graph", 1, 1),),  # no return
        (("return", -1, 0, 1), *_GOOD),  # read before it is written
        (("graph", 1, 3), ("return", -1, 0, 1)),  # more outputs than registers
        (("return", -1, 0, ~1),),  # no such constant
        (("graph", 0, 1), ("return", -1, 0, 0)),  # the external's register
        (("unless", -1, 0, 0), *_GOOD),  # backwards
        (("unless", -1, 9, 0), *_GOOD),  # beyond the end
        (("unless", -1, 2, 0), *_GOOD),  # over what is read
        (("nonsense", 1, 0), *_GOOD),
        (("dict", 2, 0, 0), *_GOOD),
        (("set item", -1, 0, 0, 0), *_GOOD),
        (("call", 2, 0), *_GOOD),
    ],
)
def test_steps_that_make_no_sense(steps) -> None:
    code, space = (lambda: None).__code__, {}
    _core.Steps(code, space, 1, 3, (1,), _GOOD)
    with pytest.raises((ValueError, TypeError)):
        _core.Steps(code, space, 1, 3, (1,), steps)


def test_steps_keep_nothing_alive() -> None:
    class Local:
        def __init__(self, x) -> None:
            self.x = x

    compiled = _often(_compiled(lambda x: Local(x + 1)), torch.ones(2))
    steps = compiled.entries[0].steps
    seen = weakref.ref(Local)
    assert gc.is_tracked(steps) and steps is not None
    del compiled, steps, Local
    framelift.reset()
    gc.collect()
    assert seen() is None


def test_interrupt_in_a_graph() -> None:
    stop = []

    def backend(graph_module, inputs):
        def run(*values):
            if stop:
                raise KeyboardInterrupt("stop")
            return graph_module(*values)

        return run

    def function(x):
        HELD.last = x + 1
        return Plain(held=HELD, x=x.cos())

    compiled = _often(_compiled(function, backend), torch.ones(2))
    assert compiled.entries[0].steps
    _start()
    stop.append(1)
    with pytest.raises(KeyboardInterrupt, match="stop"):
        compiled(torch.ones(2))
    assert HELD.last is None
    stop.clear()
    assert compiled(torch.ones(2)).held is HELD and HELD.last.tolist() == [2, 2]
