"""Exits: what captured code returns, changes and raises is what plain Python returns, changes and raises.

PYTEST_DONT_REWRITE: the programs' own assert statements are under test, and must be CPython's.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import types
from typing import Any

import pytest
import torch

import framelift
from torch import nn

from support import check

COUNT = 0
TABLE = {"a": 1}
side = types.ModuleType("side")


@dataclasses.dataclass
class Record:
    left: Any
    right: Any = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    value: Any


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


class Thing:
    total = 0

    def __init__(self, n: int = 0) -> None:
        self.n = n
        self.items: list[Any] = []
        self.child: Any = None

    @property
    def double(self) -> int:
        return self.n * 2

    @double.setter
    def double(self, value: int) -> None:
        self.n = value // 2

    def add(self, x: Any) -> Thing:
        self.items.append(x)
        self.n += 1
        return self


class Color(enum.Enum):
    RED = 1


class Bag(dict):
    pass


class Row(list):
    pass


Point = collections.namedtuple("Point", "x y")
X = torch.tensor([1.0, 2.0])

# -- returns -----------------------------------------------------------------------------------------------------------

RETURNS = {
    "tensor": lambda x: x + 1,
    "argument itself": lambda x: x,
    "view of the argument": lambda x: x[:1],
    "the same tensor twice": lambda x: (lambda y: (y, y, [y]))(x + 1),
    "two views of one result": lambda x: (lambda y: (y[:1], y[1:], y))(x + 1),
    "none": lambda x: None,
    "numbers": lambda x: (1, 2.5, -0.0, float("nan"), float("inf"), True, 3j, "text", b"bytes", ...),
    "torch constants": lambda x: (x.dtype, x.device, x.shape, torch.float64, torch.Size([2, 3])),
    "nested": lambda x: [x, (x + 1, {"k": [x * 2]}), {1, 2}, frozenset({3})],
    "shared list": lambda x: (lambda a: [a, a, (a,)])([x + 1]),
    "empty containers": lambda x: ([], (), {}, set(), x + 1),
    "ordered dictionaries": lambda x: (
        collections.OrderedDict(b=x + 1, a=2),
        collections.defaultdict(list, {"k": [x]}),
        collections.Counter("aab"),
    ),
    "deque": lambda x: collections.deque([x + 1, 2], maxlen=3),
    "named tuple": lambda x: Point(x + 1, 2),
    "record": lambda x: Record(x + 1, Record(1)),
    "frozen record": lambda x: Frozen(x + 1),
    "slots": lambda x: Slotted(x + 1, 2),
    "instance": lambda x: Thing(3).add(x + 1),
    "subclassed containers": lambda x: (Bag(k=x + 1), Row([x])),
    "enum and class": lambda x: (Color.RED, Thing, len, torch.add, x + 1),
    "partial": lambda x: functools.partial(torch.add, x + 1, alpha=2),
    "bound method": lambda x: Thing(1).add,
    "range and slice": lambda x: (range(3), slice(1, None), x + 1),
    "generator result as list": lambda x: [v + x for v in range(3)],
}


@pytest.mark.parametrize("name", RETURNS)
def test_return(name: str) -> None:
    check(RETURNS[name], X, graphs=None)


def test_cyclic_result() -> None:
    def f(x):
        ring = [x + 1]
        ring.append(ring)
        thing = Thing()
        thing.child = thing
        return ring, thing

    check(f, X)


def test_closures_share_their_cell() -> None:
    def f(x):
        total = x + 1

        def add(v):
            nonlocal total
            total = total + v
            return total

        def get():
            return total

        return add, get

    add, get = check(f, X)
    add(1)
    assert torch.equal(get(), X + 2)


def test_external_objects_are_returned_themselves() -> None:
    thing, items = Thing(1), [1, 2]
    check(lambda x, t, i: (t, [i], x + t.n, t.items), X, thing, items)


def test_module_output_class() -> None:
    from transformers.modeling_outputs import BaseModelOutput

    def f(x):
        return BaseModelOutput(last_hidden_state=x + 1, hidden_states=(x, x * 2))

    check(f, X)


# -- effects -----------------------------------------------------------------------------------------------------------


def set_attributes(x, t):
    t.n += 1
    t.fresh = x * 2
    t.double = 10
    return t.n


def delete_attributes(x, t):
    del t.child
    return x + t.n


def change_list(x, t):
    t.items.append(x + 1)
    t.items.insert(0, 5)
    t.items += [1, 2]
    t.items[1:2] = ["a", "b"]
    t.items.reverse()
    return len(t.items)


def nested_objects(x, t):
    t.child = Thing(4)
    t.child.child = t
    t.child.items.append(t.items)
    return t.child.child.n + x


def class_attribute(x, t):
    Thing.total += 1
    return x + t.total


def shadow_class_attribute(x, t):
    t.total = t.total + 5
    return x * t.total


def in_place(x, t):
    x.add_(1)
    x[0] = 7
    t.items.append(x)
    return x.mul_(2)


def write_then_read(x, t):
    t.n = 3
    before = t.n
    t.n = before + t.double
    return t.n * x


def via_setattr(x, t):
    setattr(t, "named", 1)
    vars(t)["direct"] = 2
    object.__setattr__(t, "raw", 3)
    delattr(t, "named")
    return getattr(t, "direct") * x


EFFECTS = [
    set_attributes,
    delete_attributes,
    change_list,
    nested_objects,
    class_attribute,
    shadow_class_attribute,
    in_place,
    write_then_read,
    via_setattr,
]


@pytest.mark.parametrize("f", EFFECTS, ids=lambda f: f.__name__)
def test_effect_on_an_instance(f) -> None:
    # Every call leaves another world behind, so how often is captured is left open.
    check(
        f,
        X.clone(),
        Thing(2),
        calls=1 if f is delete_attributes else 3,
        graphs=None,
        mutate=unchanged,
        state=[(Thing, "total")],
    )


def unchanged(number, world) -> None:
    """No change from outside: the program's own effects are the change."""


def test_effects_on_globals() -> None:
    def f(x):
        global COUNT
        COUNT += 1
        TABLE["b"] = x
        TABLE.pop("a", None)
        return x + COUNT

    check(f, X, calls=3, mutate=unchanged, graphs=None, state=[(globals(), "COUNT"), (globals(), "TABLE")])


def test_effects_on_a_module() -> None:
    def f(x):
        side.level = getattr(side, "level", 0) + 1
        return x + side.level

    check(f, X, calls=3, mutate=unchanged, graphs=None, breaks=None, state=[(side, "level")])


def test_effects_on_cells() -> None:
    total, log = 0, []

    def f(x):
        nonlocal total
        total += 1
        log.append(x * total)
        return total

    check(f, X, calls=3, graphs=None, mutate=unchanged)


CONTAINERS = {
    "dict": ({"a": 1, "b": 2}, lambda d, x: (d.update(c=x), d.pop("a"), d.setdefault("z", [x]), list(d))),
    "dict order": ({"a": 1, "b": 2}, lambda d, x: (d.__setitem__("a", d.pop("a")), x + 1)),
    "dict clear": ({"a": 1}, lambda d, x: (d.clear(), d.__setitem__("q", x))),
    "set": ({1, 2}, lambda s, x: (s.add(5), s.discard(1), x + len(s))),
    "deque": (collections.deque([1, 2], maxlen=3), lambda d, x: (d.append(x), d.appendleft(3), d.rotate(1))),
    "defaultdict": (collections.defaultdict(list), lambda d, x: (d["k"].append(x), d["j"])),
    "ordered": (collections.OrderedDict(a=1, b=2), lambda d, x: (d.move_to_end("a"), d.__setitem__("c", x))),
    "counter": (collections.Counter("ab"), lambda c, x: (c.update("bc"), x + c["b"])),
    "list sort": ([3, 1, 2], lambda v, x: (v.sort(), x + v[0])),
    "list of lists": ([[1], [2]], lambda v, x: (v[0].append(x), v.append(v[1]), v[1].clear())),
    "list holding itself": ([1], lambda v, x: (v.append(v), x + len(v))),
    "subclass": (Bag(a=1), lambda b, x: (b.__setitem__("k", x), setattr(b, "note", 1))),
    "row": (Row([1]), lambda b, x: (b.append(x), setattr(b, "note", 1))),
    "iteration": ({"a": [1], "b": [2]}, lambda d, x: [v.append(x * v[0]) for v in d.values()]),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_effect_on_a_container(name: str) -> None:
    value, change = CONTAINERS[name]
    check(change, value, X, graphs=None, mutate=unchanged)


def test_aliased_arguments() -> None:
    def f(a, b, x):
        a.append(x + 1)
        return len(b), a is b

    def alias(number, world):
        world.args[1] = world.args[0] if number == 1 else []

    check(f, [1], [1], X, calls=3, mutate=alias, graphs=None)


def test_aliased_tensors() -> None:
    def f(a, b):
        a.add_(1)
        return b * 2, a is b

    def alias(number, world):
        world.args[1] = world.args[0] if number == 1 else torch.ones(2)

    check(f, X.clone(), X.clone(), calls=3, mutate=alias, graphs=None)


def test_buffers_and_training_flag() -> None:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(2)
            self.steps = 0

        def forward(self, x):
            self.steps += 1
            self.last = self.norm(x)
            return self.last

    def toggle(number, world):
        world.fn.train(number != 2)

    check(Model(), torch.rand(4, 2), calls=4, mutate=toggle, graphs=None)


def test_random_numbers_follow_the_generator() -> None:
    check(lambda x: (torch.rand(2) + torch.nn.functional.dropout(x, 0.5), torch.randn_like(x)), X, calls=3)


def test_grad_mode_changed_and_left() -> None:
    def f(x):
        with torch.no_grad():
            y = x * 2
        torch.set_grad_enabled(False)
        return y, x * 3

    try:
        check(f, X.clone().requires_grad_(), calls=1, graphs=None)
    finally:
        torch.set_grad_enabled(True)


# -- exceptions --------------------------------------------------------------------------------------------------------


class Trouble(ValueError):
    pass


def raise_own(x, t):
    y = x + 1
    raise Trouble("text", t.n, y.shape[0])


def raise_builtin(x, t):
    t.n += 1
    return {}["missing"] + x


def raise_attribute(x, t):
    return x + t.missing


def raise_in_callee(x, t):
    return raise_own(x, t)


def raise_from(x, t):
    try:
        raise Trouble("first")
    except Trouble as error:
        raise RuntimeError("second") from error


def raise_after_effects(x, t):
    t.items.append(x + 1)
    t.n = 9
    raise Trouble("after")


def raise_torch(x, t):
    return x.view(5)


def raise_assert(x, t):
    assert t.n > 100, f"n is {t.n}"


def raise_type_error(x, t):
    return raise_own(x)


RAISING = [
    raise_own,
    raise_builtin,
    raise_attribute,
    raise_in_callee,
    raise_from,
    raise_after_effects,
    raise_torch,
    raise_assert,
    raise_type_error,
]


@pytest.mark.parametrize("f", RAISING, ids=lambda f: f.__name__)
def test_exception(f) -> None:
    check(f, X, Thing(2), raises=Exception, graphs=None, breaks=None, captures=None)


def test_wrong_arguments_raise_pythons_own_error() -> None:
    check(lambda x: x, raises=TypeError, graphs=0, breaks=None)


def test_caught_exceptions_stay_inside() -> None:
    def f(x, t):
        log = []
        for key in ("n", "missing", "items"):
            try:
                log.append(getattr(t, key))
            except AttributeError as error:
                log.append(str(error))
            else:
                log.append("found")
            finally:
                log.append(key)
        return x + 1, log

    check(f, X, Thing(2))


def test_exceptions_as_values() -> None:
    def f(x):
        try:
            raise Trouble("kept", 1)
        except Trouble as error:
            kept = error
        return x + 1, type(kept), kept.args

    check(f, X)


def test_context_manager_that_swallows() -> None:
    class Swallow:
        def __init__(self):
            self.log = []

        def __enter__(self):
            return self.log

        def __exit__(self, kind, value, trace):
            self.log.append(str(value))
            return kind is Trouble

    def f(x, manager):
        with manager as log:
            log.append("in")
            raise Trouble("swallowed")
        return x + len(manager.log)

    check(f, X, Swallow(), calls=2, mutate=unchanged, graphs=None)


def raise_if_odd(x, n):
    if n % 2:
        raise Trouble(n)
    return x + n


def test_raising_and_returning_by_turns() -> None:
    check(
        raise_if_odd,
        X,
        2,
        calls=4,
        graphs=None,
        breaks=None,
        fullgraph=False,
        mutate=lambda i, w: w.args.__setitem__(1, i),
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_inputs_that_begin_to_share_memory_are_seen(backend: str) -> None:
    """The graph writes to one input; on the third call the other one is a view of it."""

    def f(a, b):
        a.add_(1)
        return a + b

    compiled_f = framelift.compile(f, backend=backend, fullgraph=True)
    base = torch.zeros(4)
    for make in (
        lambda: (torch.zeros(4), torch.ones(4)),
        lambda: (torch.ones(4), torch.ones(4)),
        lambda: (base, base[:]),
        lambda: (base, torch.ones(4)),
    ):
        a, b = make()
        expected_base = a.clone()
        eager = f(
            expected_base, expected_base[:] if b.untyped_storage()._cdata == a.untyped_storage()._cdata else b.clone()
        )
        assert torch.equal(compiled_f(a, b), eager)


def test_a_module_made_inside_is_another_one_at_every_call():
    def program(x):
        made = types.ModuleType("made")
        made.value = x + 1
        return made

    compiled = framelift.compile(program, backend="eager")
    first, second = compiled(torch.ones(2)), compiled(torch.zeros(2))
    assert first is not second and first.value.tolist() == [2.0, 2.0] and second.value.tolist() == [1.0, 1.0]


def test_read_only_proxies_look_at_the_dictionary_itself() -> None:
    outer = {"z": 3}

    def program(x, given):
        own = {"k": x + 1}
        proxy = types.MappingProxyType(own)
        own["later"], own["self"] = 2, proxy
        return proxy, own, types.MappingProxyType(given), types.MappingProxyType(outer), [proxy]

    for function in (program, framelift.compile(program, backend="eager", fullgraph=True)):
        given = {"a": 1}
        proxy, own, of_given, of_outer, held = function(torch.ones(2), given)
        own["new"], given["b"], outer["y"] = 1, 2, 4
        assert list(proxy) == ["k", "later", "self", "new"] and torch.equal(proxy["k"], torch.full((2,), 2.0))
        assert proxy is held[0] and proxy["self"] is proxy and type(proxy) is types.MappingProxyType
        assert dict(of_given) == {"a": 1, "b": 2} and of_outer["y"] == 4
        del outer["y"]


class Filled:
    """Its instances keep attributes without a dictionary."""

    def __init__(self, a: Any) -> None:
        self.a = a


def test_an_instance_and_its_dictionary_are_one() -> None:
    def f(x: torch.Tensor) -> tuple[Filled, dict[str, Any]]:
        made = Filled(x + 1)
        namespace = made.__dict__
        namespace["b"] = 2
        return made, namespace

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    for x in (torch.ones(2), torch.zeros(2)):
        made, namespace = compiled(x)
        assert made.__dict__ is namespace and made.b == 2 and torch.equal(made.a, x + 1)
        made.b, namespace["c"] = 3, 4
        assert namespace["b"] == 3 and made.c == 4
