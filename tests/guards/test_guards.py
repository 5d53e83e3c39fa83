"""Guard programs against their plain Python meaning.

Every kind and step, memos under random changes, lifetimes, state.
"""

from __future__ import annotations

import collections
import enum
import functools
import gc
import random
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from framelift import _core, config
from framelift.guards.sentences import WORDS, _show, explain
from framelift.guards.equality import indistinguishable
from framelift.guards.kinds import KINDS, Guard, dunders, immutable_leaf, tensor_facts
from framelift.guards.native_program import RANK, build_program
from framelift.guards.reference import check_reference
from framelift.vocabulary.origins import STEPS, Missing, Origin, arg, const, fetch
from guard_world import guarded_world, sites

X = arg(0, "x")


def program_of(*guards: Guard, inputs: Any = (), externals: Any = (), distinct: Any = (), state: Any = None) -> Any:
    with config.patch(verify_guards=False):  # verifying keeps what guards name alive
        return build_program(guards, list(inputs), list(externals), list(distinct), state)[0]


def one(kind: str, constant: Any, origin: Origin = X) -> Any:
    return program_of(Guard(origin, kind, constant))


# ---- the tables agree -----------------------------------------------------------------------------------------------


def test_every_step_exists_natively() -> None:
    assert _core.STEPS == set(STEPS) | {"arg", "const"}


def test_every_kind_exists_natively_and_in_words() -> None:
    assert _core.KINDS == set(KINDS) == set(WORDS) == set(RANK)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    ONE = 1


class Plain:
    shared = 1

    def method(self) -> int:
        return 1


class Slotted:
    __slots__ = ("a", "b")


class Sub(dict):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 99

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __getitem__(self, key: Any) -> Any:
        return "overridden"


leaves = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.integers(),
        st.sampled_from([0.0, -0.0, 1.0, float("nan"), 1 + 0j, complex(0.0, -0.0)]),
        st.sampled_from(
            [
                "",
                "a",
                "b",
                b"a",
                ...,
                torch.float32,
                torch.float64,
                torch.device("cpu"),
                torch.strided,
                Colour.RED,
                Colour.BLUE,
                Level.ONE,
                range(3),
                range(0, 3),
                range(4),
            ]
        ),
        st.floats(),
        st.text(max_size=2),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.builds(slice, inner, inner, inner),
        st.frozensets(st.sampled_from([1, 1.0, True, "a", None, 2]), max_size=3),
        st.sets(st.sampled_from([1, 1.0, True, "a", None, 2]), max_size=3),
    ),
    max_leaves=4,
)


@given(leaves, leaves)
@settings(max_examples=400)
def test_leaves_agree(a: Any, b: Any) -> None:
    assert _core.indistinguishable(a, b) == indistinguishable(a, b)
    assert _core.immutable_leaf(a) == immutable_leaf(a)
    assert (one("EQ", a).check((b,)) is None) == indistinguishable(b, a)


def _zoo() -> list[Any]:
    def function(a: int = 1, *, k: int = 2) -> int:
        return a + k

    ordered = collections.OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    slotted = Slotted()
    slotted.a = 1
    cell, empty = types.CellType(1), types.CellType()
    values = [
        None,
        True,
        1,
        1.0,
        "a",
        b"ab",
        (1, 2),
        [1, 2],
        {},
        {"a": 1},
        {"a": 1, "b": 2},
        {"b": 2, "a": 1},
        {1: 2},
        {1.0: 2},
        ordered,
        collections.OrderedDict(a=1),
        Sub(a=1),
        {1, 2},
        frozenset({1}),
        collections.deque([1, 2]),
        bytearray(b"ab"),
        function,
        function.__code__,
        types.FunctionType(function.__code__, {}),
        Plain,
        Plain(),
        Plain().method,
        int,
        dict,
        Slotted,
        slotted,
        Colour.RED,
        cell,
        empty,
        len,
        types.ModuleType("m"),
        functools.partial(function, 1),
        torch.zeros(2),
        torch.zeros(2, requires_grad=True),
        torch.nn.Parameter(torch.zeros(2)),
        torch.zeros(2, 3).t(),
        torch.zeros(2, 3),
        torch.zeros(2, dtype=torch.int64),
        torch.zeros(2, dtype=torch.complex64).conj(),
        torch.zeros(2, device="meta"),
        torch.zeros(2).to_sparse(),
        torch.zeros(2, requires_grad=True) * 2,
        torch.Size([2]),
        object(),
    ]
    with torch.inference_mode():
        values.append(torch.zeros(2))
    with_grad = torch.zeros(2, requires_grad=True)
    with_grad.grad = torch.zeros(2)
    return [*values, with_grad]


def _marks(zoo: list[Any]) -> list[Any]:
    """Names of sets that are not there, not filled yet, empty, and filled with some of the zoo."""
    module: Any = types.ModuleType("framelift_test_marks")
    sys.modules[module.__name__] = module
    ids: list[Any] = [None, set(), {id(value) for value in zoo[::3]}, [id(value) for value in zoo[::5]], 7]
    for number, one in enumerate(ids):
        setattr(module, f"set{number}", types.SimpleNamespace(function_ids=one))
    module.unfilled = object()
    return [
        ("framelift_test_no_module", "set0"),
        *((module.__name__, name) for name in vars(module) if name.startswith("set")),
        (module.__name__, "unfilled", "missing"),
        (module.__name__, "missing", "set0", "set1", "set2", "set3"),
    ]


def _constants(kind: str, zoo: list[Any]) -> list[Any]:
    if kind == "TENSOR":
        tensors = [v for v in zoo if isinstance(v, torch.Tensor)]
        return [tensor_facts(t, ask_grad=ask) for t in tensors for ask in (False, True)]
    return {
        "TYPE": [type(v) for v in zoo],
        "IS": zoo,
        "SAME": [],
        "CODE": [v for v in zoo if isinstance(v, types.CodeType)],
        "EQ": [v for v in zoo if immutable_leaf(v)] + [Colour.RED, {1, 2}],
        "LEN": [0, 1, 2, 99],
        "KEYS": [(), ("a",), ("a", "b"), ("b", "a"), (1,), (1.0,), (True,)],
        "HAS_KEY": ["a", "c", 1, 1.0, *(key for v in zoo if isinstance(v, dict) for key in v if immutable_leaf(key))],
        "ABSENT": ["a", "c", 1, 1.0, (1, 2)],
        "NO_LOOKUP": ["shared", "__len__", "nope"],
        "DUNDERS": [dunders(v) for v in zoo if isinstance(v, type)],
        "EMPTY": [None],
        "CHECK": [(lambda v: v, "true"), (lambda v: v.missing, "raises")],
        "JOINT": [
            (lambda v, again: v is again and bool(v), "true", (X,)),
            (lambda v, again: v.missing, "raises", (X,)),
        ],
        "UNMARKED": _marks(zoo),
    }[kind]


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "SAME"])
def test_kinds_agree(kind: str) -> None:
    zoo = _zoo()
    outcomes = set()
    for constant in _constants(kind, zoo):
        program = one(kind, constant)
        for value in zoo + zoo[:5]:
            expected = check_reference([Guard(X, kind, constant)], [], None, (value,)) is None
            for _ in range(3):
                assert (program.check((value,)) is None) == expected, (kind, constant, value)
            outcomes.add(expected)
    assert outcomes == {True, False}


def test_wildcards_in_tensor_facts() -> None:
    import dataclasses

    facts = dataclasses.replace(tensor_facts(torch.zeros(2, 3)), size=(None, 3), stride=None)
    program = one("TENSOR", facts)
    for value in (torch.zeros(2, 3), torch.zeros(7, 3), torch.zeros(3, 2).t(), torch.zeros(2, 4), torch.zeros(2)):
        assert (program.check((value,)) is None) == KINDS["TENSOR"](value, facts)


def _bases() -> list[Any]:
    x = 1

    def function(a: int = 1, *, k: int = 2) -> int:
        return a + k + x

    def unset() -> int:
        return y

    if not x:
        y = 1
    slotted = Slotted()
    slotted.a = 7
    return [
        *_zoo(),
        function,
        unset,
        slotted,
        {"k": 5, 0: 6},
        [5, 6],
        (5, 6),
        collections.defaultdict(list, k=1),
        collections.OrderedDict(a=1, k=2),
        function.__closure__[0],
        unset.__closure__[0],
        types.MappingProxyType({"k": 1}),
        functools.partial(function, 1, k=3),
        torch.nn,
        Plain.method,
        weakref.ref(Plain),
        weakref.ref(Plain()),
    ]


KEYS = {
    "ask": [len],
    "item": ["k", 0, 1, -1, 5, "a"],
    "key": [0, 1, 2],
    "value": [0, 1, 2],
    "slot": ["a", "b", "shared", "nope"],
    "lookup": ["shared", "nope", "method", "a"],
    "default": [0, 1],
    "kwdefault": ["k", "nope"],
    "cell": [0, 1],
    "attr": ["shared", "maxlen", "default_factory", "nope", "func", "__name__"],
}


@pytest.mark.parametrize("step", sorted(STEPS))
def test_steps_agree(step: str) -> None:
    outcomes = set()
    for key in KEYS.get(step, [None]):
        origin = X.to(step, key)
        program = program_of(inputs=[origin])
        for value in _bases():
            try:
                expected = fetch(origin, (value,))
            except (Missing, Exception):
                expected = Missing
            for _ in range(3):
                try:
                    found = program.values((value,))[0][0]
                except ValueError:
                    found = Missing
                same = found is expected or (
                    expected is not Missing and (type(found), str(found)) == (type(expected), str(expected))
                )
                assert same, (step, key, value, found, expected)
            outcomes.add(expected is Missing)
    assert outcomes == ({False} if step == "type" else {True, False})


# ---- memos under random changes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_memos_are_sound_under_random_changes(seed: int) -> None:
    rng = random.Random(seed)
    world, arguments, guards, inputs = guarded_world(seed)
    program = program_of(*guards.guards, inputs=inputs, distinct=guards.distinct)
    outcomes: collections.Counter[bool] = collections.Counter()

    def compare(what: str) -> None:
        expected = check_reference(guards.guards, guards.distinct, None, arguments)
        for _ in range(2):
            failure = program.check(arguments)
            assert (failure is None) == (expected is None), f"{what}: native {failure}, Python {expected}"
        if expected is None:
            handed = program.values(arguments)[0]
            assert all(a is fetch(o, arguments) for a, o in zip(handed, inputs, strict=True))
        outcomes[expected is None] += 1

    compare("at first")
    places = sites(world)
    for step in range(350):
        undos = []
        for _ in range(rng.choice([1, 1, 1, 2])):
            value, change = rng.choice(places)
            undos.append(change(rng, world, value))
        compare(f"step {step}, {change.__name__}")
        for undo in reversed(undos):
            undo()
        if rng.random() < 0.8:
            compare(f"after step {step}, {change.__name__}")
    assert outcomes[True] > 200 and outcomes[False] > 100
    for _ in range(3):
        assert program.check(arguments) is None
    assert program.stats()["restarts"] <= 3


@pytest.mark.parametrize("seed", range(4))
def test_settled_programs_see_random_changes(seed: int) -> None:
    rng = random.Random(seed)
    world, arguments, guards, inputs = guarded_world(seed)
    few = [g for g in guards.guards if "ordered" not in str(g.origin) and "queue" not in str(g.origin)]
    first = program_of(*few, inputs=inputs, distinct=guards.distinct)
    outcomes: collections.Counter[bool] = collections.Counter()
    for step in range(150):
        program = first.copy()  # one that never had a reason to be patient
        for _ in range(8):
            assert program.check(arguments) is None
        assert program.stats()["settled"] or program.unsettled()
        value, change = rng.choice(sites(world))
        undo = change(rng, world, value)
        for _ in range(8):
            expected = check_reference(few, guards.distinct, None, arguments)
            assert (program.check(arguments) is None) == (expected is None), (step, change.__name__, expected)
            if expected is None:
                handed = program.values(arguments)[0]
                assert all(a is fetch(o, arguments) for a, o in zip(handed, inputs, strict=True))
        outcomes[expected is None] += 1
        undo()
        assert program.check(arguments) is None
    assert outcomes[True] > 20 and outcomes[False] > 20


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("seed", [1, 3])
def test_programs_that_ask_python_code_at_every_call_settle_otherwise(seed: int, count: int) -> None:
    """Roots below which a function is asked are set aside: changes there, and everywhere else, are seen."""
    rng = random.Random(seed)
    world, arguments, guards, inputs = guarded_world(seed)
    few = [g for g in guards.guards if "ordered" not in str(g.origin) and "queue" not in str(g.origin)]
    boxes = [[{"k": [i]}, i] for i in range(count)]
    asked = [const(box) for box in boxes]
    few += [Guard(box.to("item", 0), "CHECK", (lambda value: value["k"][0] < 9, "is small")) for box in asked]
    few += [Guard(box.to("item", 1), "TYPE", int) for box in asked]
    inputs = [*inputs, *(box.to("item", 0) for box in asked)]
    first = program_of(*few, inputs=inputs, distinct=guards.distinct)
    changes: dict[str, Callable[[Any], Any]] = {
        "a value": lambda box: box[0]["k"].__setitem__(0, 9),
        "the dictionary": lambda box: box.__setitem__(0, {"k": [3]}),
        "a type": lambda box: box.__setitem__(1, 1.5),
        "missing": lambda box: box.clear(),
    }
    for step in range(80):
        for box, fresh in zip(boxes, ([{"k": [i]}, i] for i in range(count)), strict=True):
            box[:] = fresh
        program = first.copy()
        for _ in range(8):
            assert program.check(arguments) is None
        assert program.stats()["settled"] and program.unsettled()
        if rng.random() < 0.5:
            name = rng.choice([*changes])
            changes[name](rng.choice(boxes))
            undo: Callable[[], Any] = int
        else:
            value, change = rng.choice(sites(world))
            undo, name = change(rng, world, value), change.__name__
        for _ in range(8):
            expected = check_reference(few, guards.distinct, None, arguments)
            assert (program.check(arguments) is None) == (expected is None), (step, name, expected)
            if expected is None:
                handed = program.values(arguments)[0]
                assert all(a is fetch(o, arguments) for a, o in zip(handed, inputs, strict=True))
        undo()


def test_same_objects_across_what_is_asked_and_what_is_not() -> None:
    shared = [1]
    box, other = {"k": shared}, {"k": shared}
    places = const(box).to("item", "k"), const(other).to("item", "k")
    guards = [Guard(places[0], "CHECK", (lambda value: True, "asked")), Guard(places[1], "SAME", places[0])]
    guards.append(Guard(places[1], "TYPE", list))
    program = program_of(*guards, inputs=places)
    for _ in range(12):
        assert program.check(()) is None
    assert program.stats()["settled"]
    for changed in (box, other):
        changed["k"] = [1]
        for _ in range(12):
            assert program.check(()) is not None
        changed["k"] = shared
        for _ in range(12):
            assert program.check(()) is None


def test_a_function_that_is_asked_ends_the_settled_state() -> None:
    """What it changes is seen at the same call where it evaluates the program, and at the next call in any case."""
    table = {"n": 1}
    acts: list[Callable[[], Any]] = []

    def ask(value: Any) -> bool:
        while acts:
            acts.pop()()
        return True

    guards = [Guard(const(table).to("item", "n"), "EQ", 1), Guard(const([]), "CHECK", (ask, "asked"))]
    program = program_of(*guards)
    for _ in range(12):
        assert program.check(()) is None
    assert program.stats()["settled"]
    acts.append(lambda: table.update(n=2))
    program.check(())
    for _ in range(8):
        assert program.check(()) is not None
    table["n"] = 1
    for _ in range(40):
        assert program.check(()) is None
    acts.append(lambda: (table.update(n=2), program.check(())))
    assert program.check(()) is not None


@pytest.mark.parametrize("evaluates", [False, True])
def test_a_function_that_is_asked_changes_which_objects_are_the_same(evaluates: bool) -> None:
    shared = [1]
    table, other = {"k": shared}, {"k": shared}
    places = const(table).to("item", "k"), const(other).to("item", "k")
    acts: list[Callable[[], Any]] = []

    def ask(value: Any) -> bool:
        if acts:
            acts.pop()()
            if evaluates:
                assert program.check(()) is not None
        return True

    guards = [Guard(const([]), "CHECK", (ask, "asked")), Guard(places[1], "SAME", places[0])]
    guards += [Guard(place, "TYPE", list) for place in places]
    program = program_of(*guards, inputs=places)
    for _ in range(12):
        assert program.check(()) is None
    assert program.stats()["settled"]
    acts.append(lambda: table.update(k=[1]))
    found = program.check(())
    assert found is not None or not evaluates
    for _ in range(8):
        assert program.check(()) is not None
    table["k"] = shared
    for _ in range(40):
        assert program.check(()) is None


def test_a_word_that_two_values_share_speaks_for_neither_once_it_has_changed() -> None:
    shared = {"a": 1, "b": 2}
    places = arg(0, "x").to("item", "a"), arg(1, "y").to("item", "b")
    program = program_of(Guard(places[0], "TYPE", int), Guard(places[1], "EQ", 2))
    for _ in range(8):
        assert program.check((shared, shared)) is None
    assert program.stats()["settled"]
    shared["a"] = 3  # as good for the first, which notes the new version
    assert program.check((shared, shared)) is None
    shared["b"] = 4
    assert program.check((shared, shared)) is not None
    shared["b"] = 2
    for _ in range(20):
        assert program.check((shared, shared)) is None
    shared["a"], shared["b"] = 5, 6
    assert program.check((shared, shared)) is not None


def test_repeated_checks_visit_nothing() -> None:
    _, arguments, guards, inputs = guarded_world(1)
    few = [g for g in guards.guards if "ordered" not in str(g.origin) and "queue" not in str(g.origin)]
    program = program_of(*few, inputs=inputs)
    for _ in range(3):
        assert program.check(arguments) is None
    before = program.stats()
    for _ in range(10):
        assert program.check(arguments) is None
    after = program.stats()
    assert after["visits"] == before["visits"] and after["unchanged"] == before["unchanged"] + 10


def _at_address(make: Callable[[], Any], address: int) -> Any:
    """A new object that lies where another one lay; None when the allocator does not cooperate."""
    kept = []
    for _ in range(200):
        made = make()
        if id(made) == address:
            return made
        kept.append(made)
    return None


def _cell_place() -> tuple[Any, Origin, Callable[[Any], None]]:
    cell = types.CellType(None)
    return cell, X.to("contents"), lambda value: setattr(cell, "cell_contents", value)


def _list_place() -> tuple[Any, Origin, Callable[[Any], None]]:
    items = [None]
    return items, X.to("item", 0), lambda value: items.__setitem__(0, value)


def _slot_place() -> tuple[Any, Origin, Callable[[Any], None]]:
    slotted = Slotted()
    return slotted, X.to("slot", "a"), lambda value: setattr(slotted, "a", value)


def _default_place() -> tuple[Any, Origin, Callable[[Any], None]]:
    def function(a: Any = None) -> None: ...

    return function, X.to("default", 0), lambda value: setattr(function, "__defaults__", (value,))


def _dict_place() -> tuple[Any, Origin, Callable[[Any], None]]:
    table = {"k": None}
    return table, X.to("item", "k"), lambda value: table.__setitem__("k", value)


def _nested_place() -> tuple[Any, Origin, Callable[[Any], None]]:
    items: list[Any] = [None]
    return items, X.to("item", 0).to("item", 0), lambda value: items.__setitem__(0, (value,))


@pytest.mark.parametrize("place", [_cell_place, _list_place, _slot_place, _default_place, _dict_place, _nested_place])
def test_an_address_used_again_is_no_proof(place: Any) -> None:
    holder, origin, put = place()
    program = program_of(Guard(origin, "EQ", float("2.5")), Guard(X, "TYPE", type(holder)))
    reached = 0
    for _ in range(50):
        value = float("2.5")
        address = id(value)
        put(value)
        del value
        assert all(program.check((holder,)) is None for _ in range(3))
        put(None)
        assert program.check((holder,)) is not None
        other = _at_address(lambda: float("7.5"), address)
        if other is None:
            continue
        reached += 1
        put(other)
        assert program.check((holder,)) is not None
    # A float that the program compares by address is kept alive by it, so nothing else can lie there.
    assert reached == 0 or place is _dict_place


def test_a_class_whose_address_is_used_again() -> None:
    class Local: ...

    class Stand: ...

    thing = Local()
    holder = [thing]
    program = program_of(Guard(X.to("item", 0), "TYPE", Local), Guard(X, "TYPE", list))
    assert all(program.check((holder,)) is None for _ in range(3))
    thing.__class__ = Stand
    assert program.check((holder,)) is not None and not program.dead
    del Local
    gc.collect()
    assert program.dead and program.check((holder,)) == (-1, 2)


def test_a_value_of_another_shape_below_the_same_path() -> None:
    """The same guards may need more records later than they did at first."""
    origin = X.to("item", "k").to("item", 0)
    program = program_of(Guard(origin, "EQ", 1))
    table: dict[str, Any] = {"k": (1,)}
    assert all(program.check((table,)) is None for _ in range(4))
    items = table["k"] = [1]
    for _ in range(4):
        assert program.check((table,)) is None
        items[0] = 2
        assert program.check((table,)) is not None
        items[0] = 1
    table["k"] = {0: 1}
    assert all(program.check((table,)) is None for _ in range(3))
    table["k"][0] = 3
    assert program.check((table,)) is not None


def test_a_walk_that_ends_early_leaves_no_half_truth() -> None:
    program = program_of(
        Guard(X.to("item", "in").to("item", "k").to("item", 0), "EQ", 1),
        Guard(const(last := [1]).to("item", 0), "EQ", 1),
    )
    table: dict[str, Any] = {"in": {"k": (1,)}}
    assert all(program.check((table,)) is None for _ in range(4))
    items = table["in"]["k"] = [1]
    last[0] = 2
    assert program.check((table,)) is not None
    last[0] = 1
    items[0] = 2
    assert program.check((table,)) is not None
    items[0] = 1
    assert all(program.check((table,)) is None for _ in range(4))


def test_distinct_and_same() -> None:
    t, u, v = (torch.zeros(2) for _ in range(3))
    table = {"a": t, "b": u, "c": t}
    a, b, c, y = X.to("item", "a"), X.to("item", "b"), X.to("item", "c"), arg(1, "y")
    facts = tensor_facts(t)
    program = program_of(
        *(Guard(o, "TENSOR", facts) for o in (a, b, c, y)), Guard(c, "SAME", a), distinct=[a, b, y, a, y]
    )
    for _ in range(4):
        assert program.check((table, v)) is None
        assert program.check((table, u)) == (-1, 0)
        table["b"] = t
        assert program.check((table, v)) == (-1, 0)
        table["b"] = v
        assert program.check((table, v)) == (-1, 0) and program.check((table, torch.zeros(2))) is None
        table["b"] = u
        table["c"] = torch.zeros(2)
        failure = program.check((table, v))
        assert failure is not None and failure[0] >= 0 and "same object" in explain(program, failure, (table, v))
        table["c"] = t


def test_long_list_of_distinct_arguments() -> None:
    tensors = [torch.zeros(2) for _ in range(60)]
    origins = [arg(i, f"t{i}") for i in range(60)]
    program = program_of(*(Guard(o, "TENSOR", tensor_facts(t)) for o, t in zip(origins, tensors)), distinct=origins)
    assert program.check(tuple(tensors)) is None
    assert program.check((*tensors[:-1], tensors[3])) == (-1, 0)


# ---- code that runs inside an evaluation ----------------------------------------------------------------------------


def test_a_check_may_evaluate_the_same_program_on_other_locals() -> None:
    inner: list[Any] = []

    class Box:
        def __init__(self, n: int) -> None:
            self.n, self.items = n, [n, {"k": n}]

    def nested(value: Any) -> bool:
        if not inner:
            inner.append(None)
            assert program.check((other,)) is None
            inner.clear()
        return True

    own = X.to("dict")
    guards = [
        Guard(X, "TYPE", Box),
        Guard(own.to("item", "items"), "CHECK", (nested, "nested")),
        Guard(own.to("item", "n"), "EQ", 5),
        Guard(own.to("item", "items").to("item", 1).to("item", "k"), "EQ", 5),
    ]
    program = program_of(*guards, inputs=[own.to("item", "items")])
    first, other = Box(5), Box(5)
    for _ in range(20):
        for box in (first, other):
            assert program.values((box,))[0][0] is box.items
    first.items[1]["k"] = 6
    assert program.check((first,)) is not None and program.check((other,)) is None


def test_a_key_that_changes_its_dictionary_when_compared() -> None:
    class Key:
        def __hash__(self) -> int:
            return hash(7)

        def __eq__(self, other: object) -> bool:
            table.pop("victim", None)
            return False

    def fill() -> None:
        table.clear()
        table.update({Key(): 0, 7: [1], "victim": [1.5]})

    table: dict[Any, Any] = {}
    holder = {"table": table}
    at = X.to("item", "table")
    program = program_of(
        Guard(at.to("item", 7).to("item", 0), "EQ", 1), Guard(at.to("item", "victim").to("item", 0), "EQ", 1.5)
    )
    for _ in range(50):
        fill()
        for _ in range(3):
            program.check((holder,))
    gc.collect()


def test_a_raising_check_does_not_hold_but_an_interrupt_passes() -> None:
    def ask(value: Any) -> bool:
        raise value

    program = one("CHECK", (ask, "raises"))
    assert program.check((ValueError(),)) is not None
    with pytest.raises(KeyboardInterrupt):
        program.check((KeyboardInterrupt(),))


@pytest.mark.parametrize("kind", ["plain", "subclass"])
@pytest.mark.parametrize("change", ["dies", "dies in a cycle", "another reference", "a dead one", "no reference"])
def test_what_weak_references_lead_to_is_settled(kind: str, change: str) -> None:
    class Thing:
        me: Any = None

    class Reference(weakref.ref):  # type: ignore[type-arg]
        pass

    make = weakref.ref if kind == "plain" else Reference
    thing: Any = Thing()
    box = [make(thing)]
    target = const(box).to("item", 0).to("target")
    guards = [Guard(const(box).to("item", 0), "TYPE", make), Guard(target, "TYPE", Thing)]
    guards.append(Guard(target.to("dict"), "ABSENT", "late"))
    program = program_of(*guards, inputs=[target])
    for _ in range(12):
        assert program.values(())[0][0] is thing
    assert program.stats()["settled"] and not program.unsettled()
    thing.late = 1
    assert program.check(()) is not None
    del thing.late
    for _ in range(12):
        assert program.check(()) is None
    if change == "dies in a cycle":
        thing.me = thing
    other = Thing()
    if change.startswith("dies"):
        del thing
        gc.collect()
    else:
        box[0] = {"another reference": make(other), "a dead one": make(Thing()), "no reference": other}[change]
    for _ in range(12):
        expected = check_reference(guards, [], None, ())
        assert (program.check(()) is None) == (expected is None) == (change == "another reference")


def test_many_threads_share_a_program() -> None:
    _, arguments, guards, inputs = guarded_world(0)
    program = program_of(*guards.guards, inputs=inputs, distinct=guards.distinct)
    wrong: list[Any] = []

    def work() -> None:
        for _ in range(300):
            if program.check(arguments) is not None or program.check((1, 2, 3, 4)) is None:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


# ---- lifetimes ------------------------------------------------------------------------------------------------------


def test_guards_keep_no_user_object_alive() -> None:
    class Local:
        def method(self) -> None: ...

    thing = Local()
    function = types.FunctionType((lambda: 1).__code__, {})
    module = types.ModuleType("gone")
    program = program_of(
        *[
            Guard(X, "TYPE", Local),
            Guard(X, "IS", thing),
            Guard(const(Local), "DUNDERS", dunders(Local)),
            Guard(const(module), "IS", module),
            Guard(const(Local).to("lookup", "method"), "IS", Local.method),
            Guard(X.to("dict"), "KEYS", ()),
            Guard(const(function), "CODE", function.__code__),
        ],
        inputs=[X],
        distinct=[X],
        state=_core.torch_state(),
    )
    assert all(program.check((thing,)) is None for _ in range(4))
    assert not program.dead
    gone = [weakref.ref(o) for o in (thing, function, module)]
    del thing, function, module
    assert [r() for r in gone] == [None] * 3 and program.dead
    cls = weakref.ref(Local)
    del Local
    gc.collect()
    assert cls() is None
    assert program.check((1,)) == (-1, 2) and "no longer exists" in explain(program, (-1, 2), (1,))


def test_references_are_balanced() -> None:
    _, arguments, guards, inputs = guarded_world(0)
    program = program_of(*guards.guards, inputs=inputs, externals=inputs, distinct=guards.distinct)
    wrong = (arguments[1], *arguments[1:])
    watched = [
        *arguments,
        *program.values(arguments)[0],
        None,
        *(g.value for g in guards.guards if g.kind in ("IS", "TYPE", "EQ")),
    ]
    before = [sys.getrefcount(o) for o in watched]
    for _ in range(2000):
        assert program.check(arguments) is None
        assert program.check(wrong) is not None
    program.values(arguments)
    after = [sys.getrefcount(o) for o in watched]
    assert max(abs(a - b) for a, b in zip(before, after)) < 20


def test_programs_are_collected() -> None:
    class Marker: ...

    marker = Marker()
    gone = weakref.ref(marker)
    program = program_of(Guard(X, "CHECK", (lambda v, keep=marker: True, "always")))
    cycle = [program]
    program.info = cycle
    del marker, cycle, program
    gc.collect()
    assert gone() is None


def test_building_a_program_refuses_nonsense() -> None:
    for nodes in (
        [(0, "arg", (0, "x"), ())],
        [(-1, "item", 0, ())],
        [(-1, "nothing", 0, ())],
        [(-1, "arg", (0, "x"), (("NOTHING", 1),))],
        [(-1, "arg", (0, "x"), (("TENSOR", 1),))],
        [(-1, "arg", (0, "x"), (("KEYS", 1),))],
        [(-1, "arg", "x", ())],
        [7],
        [(-1, "arg", (0, "x"), (("SAME", 9),))],
        [(-1, "arg", (0, "x"), (("TYPE", 1),))],
    ):
        with pytest.raises((ValueError, TypeError, AttributeError)):
            _core.GuardProgram(nodes, [], [], [], None)
    with pytest.raises(ValueError, match="no such node"):
        _core.GuardProgram([], [3], [], [], None)


def test_a_module_that_makes_up_attributes_is_told_by_its_name() -> None:
    assert _show(torch.classes) == torch.classes.__name__


def test_guards_of_several_values() -> None:
    """All values are known when the function is called, whatever the order of the guards.

    One that raises does not hold.
    """
    y, z = arg(1, "y"), arg(2, "z").to("item", 0)
    calls: list[tuple[int, ...]] = []

    def rising(*values: int) -> bool:
        calls.append(values)
        if values[0] == 9:
            raise ValueError
        return list(values) == sorted(values)

    guards = [Guard(y, "JOINT", (rising, "rises", (z, X))), Guard(X, "TYPE", int), Guard(arg(2, "z"), "TYPE", list)]
    program = program_of(*guards)
    copied = program.copy()
    for values in (
        (3, 1, [2]),
        (1, 2, [3]),
        (5, 5, [5]),
        (2, 1, [3]),
        (9, 9, [9]),
        (4, 2, [3]),
        ("a", 1, [2]),
        (1, 0, []),
    ):
        expected = check_reference(guards, [], None, values) is None
        calls.clear()
        for _ in range(2):
            assert (program.check(values) is None) == (copied.check(values) is None) == expected
        assert set(calls) <= {(values[1], *values[2], values[0])}
    assert "rises" in explain(program, program.check((2, 3, [1])), (2, 3, [1]))
    with pytest.raises(Exception, match="JOINT"):
        _core.GuardProgram([(-1, "arg", (0, "x"), (("JOINT", (rising, "rises", (7,))),))], [], [], [], None)


def test_a_key_is_this_very_object() -> None:
    """While the dictionary stays as it is nothing is looked at; an equal key that is another object is noticed."""
    key, table = "".join(["ke", "y"]), {"other": 1}
    table[key] = 2
    program = one("HAS_KEY", key)
    for _ in range(3):
        assert program.check((table,)) is None
    del table[key]
    table["".join(["k", "ey"])] = 2
    assert program.check((table,)) is not None
    del table["key"]
    table[key] = 3
    assert program.check((table,)) is None and program.check(({"key": 1},)) is not None
