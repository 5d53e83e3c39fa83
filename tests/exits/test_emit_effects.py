"""Effects, shadows written back, and entries as functions, on scenes made by hand."""

from __future__ import annotations

import collections
import gc
import itertools
import linecache
import time
import traceback
import weakref

import pytest
import torch
from emit_stage import Frozen, OddKey, Plain, Point, Stage, Trouble, counter
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from framelift import _core
from framelift.exits import build_entry, plan_return
from framelift.exits.scene import Effect
from framelift.exc import InternalError
from framelift.vocabulary.reasons import Interrupt


# -- shadows written back -------------------------------------------------------------------------------------------

VALUES = st.integers(0, 5) | st.sampled_from(["a", "b", "c", None, (1, 2)])
OPERATIONS = {
    list: [
        lambda c, x, i: c.append(x),
        lambda c, x, i: c.insert(i, x),
        lambda c, x, i: c and c.pop(i % len(c)),
        lambda c, x, i: c.reverse(),
        lambda c, x, i: c.clear(),
        lambda c, x, i: c and c.__setitem__(i % len(c), x),
        lambda c, x, i: c.extend([x, x]),
        lambda c, x, i: c.__delitem__(slice(i, None)),
    ],
    dict: [
        lambda c, x, i: c.__setitem__(x, i),
        lambda c, x, i: c.pop(x, None),
        lambda c, x, i: c.clear(),
        lambda c, x, i: c and c.popitem(),
        lambda c, x, i: c and c.__setitem__(next(iter(c)), x),
        lambda c, x, i: c and c.update({k: c.pop(k) for k in [next(iter(c))]}),
        lambda c, x, i: c.update({i: x, x: i}),
    ],
    set: [
        lambda c, x, i: c.add(x),
        lambda c, x, i: c.discard(x),
        lambda c, x, i: c.clear(),
        lambda c, x, i: c.update({i, x}),
    ],
    collections.deque: [
        lambda c, x, i: c.append(x),
        lambda c, x, i: c.appendleft(x),
        lambda c, x, i: c and c.pop(),
        lambda c, x, i: c and c.popleft(),
        lambda c, x, i: c.rotate(i),
        lambda c, x, i: c.clear(),
        lambda c, x, i: c.extend([x, i]),
    ],
}


class LoudList(list):
    def append(self, x):
        list.append(self, x)

    def clear(self):
        list.clear(self)


class LoudDict(dict):
    pass


KINDS = {
    "list": (list, list),
    "list child": (list, LoudList),
    "dict": (dict, dict),
    "dict child": (dict, LoudDict),
    "ordered": (dict, collections.OrderedDict),
    "default": (dict, lambda pairs: collections.defaultdict(list, pairs)),
    "set": (set, set),
    "set child": (set, type("SetChild", (set,), {})),
    "deque": (collections.deque, collections.deque),
    "short deque": (collections.deque, lambda items: collections.deque(items, 3)),
    "deque child": (collections.deque, type("Deque", (collections.deque,), {})),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=120)
@given(data=st.data())
def test_random_changes_are_written_back(kind: str, data) -> None:
    base, make = KINDS[kind]
    start = data.draw(st.lists(st.tuples(VALUES, VALUES), max_size=6) if base is dict else st.lists(VALUES, max_size=6))
    original, plain = make(start), make(start)
    stage = Stage()
    copy = stage.shadow(original)
    assume(base is not set or list(copy) == list(original))  # such sets are not let in
    for _ in range(data.draw(st.integers(0, 6))):
        x, i = data.draw(VALUES), data.draw(st.integers(0, 5))
        operation = OPERATIONS[base][data.draw(st.integers(0, len(OPERATIONS[base]) - 1))]
        operation(copy, x, i), operation(plain, x, i)
    try:
        assert stage.run(None) is None
    except Interrupt:
        assert base is set  # its order could not be kept
        return
    assert original == plain and type(original) is type(plain)
    assert list(original.items()) == list(plain.items()) if base is dict else list(original) == list(plain)


def test_sets_keep_their_order_or_interrupt() -> None:
    for sizes in itertools.product((1, 9, 40), (1, 9, 40)):
        value = set(range(0, 7 * sizes[0], 7)) | {str(i) for i in range(sizes[1])}
        for x in list(value)[::2]:
            value.discard(x)
        for frozen in (value, frozenset(value)):
            try:
                assert list(Stage().run(frozen)) == list(frozen)
            except Interrupt:
                assert list(set(list(frozen))) != list(frozen)


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
    assert (
        original[0] is original[1]
        and original[0][0] is stage.real[id(result)]
        and original[0][1] is original
        and original[0][2] is tensor
    )


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
        Effect("setattr", plain, "new", shared),
        Effect("setattr", plain, "class", 1),
        Effect("delattr", plain, "old", None),
        Effect("setattr", module, "calls", 3),
        Effect("setcell", cell, None, shared),
        Effect("setglobal", space, "g", 5),
        Effect("delglobal", space, "h", None),
        Effect("tensorattr", x, "note", "n"),
        Effect("tensorattr", y, "note", shared),
        Effect("settype", Frozen, "extra", 1),
        Effect("setdict", module, "raw", 2),
        Effect("delattr", module, "never", None),
        Effect("setdict", plain, "gone", 2),
        Effect("deldict", plain, "gone", None),
    ]
    got = stage.run(y)
    assert (
        plain.new is read() is got.note
        and plain.new[0] is got
        and getattr(plain, "class") == 1
        and not hasattr(plain, "old")
    )
    assert (
        module.__dict__["calls"] == 3
        and module.__dict__["raw"] == 2
        and not hasattr(plain, "gone")
        and space == {"g": 5}
        and tensor.note == "n"
        and Frozen.extra == 1
    )
    with pytest.raises(Interrupt) as caught:
        stage.effects = [Effect("setattr", Plain(), "x", 1)]
        stage.run(None)
    assert caught.value.reason.id == "effect-object"


def test_a_write_of_what_is_there_leaves_the_dictionary_alone() -> None:
    stage = Stage()
    plain = stage.handle(Plain())
    plain.a, plain.b = None, True
    program = _core.GuardProgram(
        [(-1, "const", plain, ()), (0, "dict", None, ()), (1, "item", "a", (("EQ", None),))], [], [], []
    )
    stage.effects = [Effect("setattr", plain, "a", None), Effect("setattr", plain, "b", True)]
    assert program.check(()) is None and program.check(()) is None
    before = program.stats()["visits"]
    stage.run(None)
    assert program.check(()) is None and program.stats()["visits"] == before
    plain.b = 1
    stage.run(None)
    assert plain.b is True and list(vars(plain)) == ["a", "b"]


def test_writes_through_slots_and_properties_of_the_class() -> None:
    class Slotted:
        __slots__ = ("a", "__dict__")

    one = Slotted()
    _core.store(one, "a", None)
    _core.store(one, "b", None)
    assert one.a is None and vars(one) == {"b": None}
    with pytest.raises(AttributeError):
        _core.store(object(), "a", None)


def test_writes_to_one_place_are_merged() -> None:
    stage = Stage()
    plain = stage.handle(Plain())
    stage.effects = [
        Effect("setattr", plain, "a", 1),
        Effect("setattr", plain, "b", 1),
        Effect("setattr", plain, "a", 2),
        Effect("delattr", plain, "b", None),
        Effect("setattr", plain, "b", 3),
    ]
    assert stage.source(None) == (
        "    e0, = externals\n    e0.a = 2\n    e0.b = 1\n    e0.__dict__.pop('b', None)\n    e0.b = 3\n    return None"
    )


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
    assert (
        stage.source({"a": t, "b": [x, -1.5, torch.float32]})
        == "    t0, = graph(*inputs)\n    e0, = externals\n    return {'a': t0, 'b': [e0, -1.5, float32]}"
    )
    assert stage.source(Point(t, u)) == "    t0, t1 = graph(*inputs)\n    return tuple.__new__(Point, (t0, t1))"
    assert stage.source(Frozen(t)) == "    t0, = graph(*inputs)\n    return instance(Frozen, {'a': t0, 'b': 2})"
    selfish = Frozen(t)
    object.__setattr__(selfish, "b", selfish)
    assert stage.source(selfish).startswith("    t0, = graph(*inputs)\n    v0 = object.__new__(Frozen)\n")
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
    value = outputs.BaseModelOutput(
        last_hidden_state=stage.result(), hidden_states=tuple(stage.result() for _ in range(13))
    )
    best = min(_seconds(lambda: build_entry(plan_return(stage, value), print, "f")) for _ in range(20))
    assert best < 2e-3  # 0.2 ms where the target was 1 ms; the margin is for busy machines


def _seconds(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
