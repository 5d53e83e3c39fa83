"""Few captures for programs whose world changes.

What is not looked at is no cause, what is only counted or calculated with is symbolic.
"""

from __future__ import annotations

import collections
import collections.abc
import math

import numpy as np
import pytest
import torch

import framelift
from support import compiled  # noqa: F401  (the options of the suite)
from counted_runs import assert_same, run

X = torch.arange(4.0)


# ---- arguments that nobody reads -------------------------------------------------------------------------------------


def unread(x, unused, *more, **named):
    return x * 2


class Owner:
    def method(self, x):
        return x + 1


def test_an_argument_that_no_instruction_names_is_no_cause():
    values = ["a", 1, {2}, collections.deque([3]), (4,), object(), Owner(), None]
    framelift.reset()
    captured = framelift.compile(unread)
    for i, value in enumerate(values):
        assert torch.equal(captured(X, value, *values[:i], **{f"n{i}": value}), X * 2)
    assert framelift.stats()["captures"] == 1
    assert run(Owner.method, [(Owner(), X), (3, X)])[0] == 1


def looks_at_locals(x, unused):
    return x + 1, sorted(locals()), locals()["unused"]


def looks_at_its_frame(x, unused):
    def inside():
        import sys

        return sys._getframe(1).f_locals["unused"]

    return x + 1, inside()


@pytest.mark.parametrize("fn", [looks_at_locals, looks_at_its_frame])
def test_one_that_is_found_by_looking_at_the_frame_is(fn):
    run(fn, [(X, 1), (X, "b"), (X, 1)])


# ---- scalars of numpy ------------------------------------------------------------------------------------------------

KINDS = [np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8]


def operands(x, n):
    return x * n, n * x, x + n, n - x, x / n, x**2 * n, x > n


def numpys_arithmetic(x, n):
    return x + 1, n / 2, n + 1, 2 * n, n * n, n % 3, n // 2, abs(n), n**2, n * 0.1, np.float32(n) * 3


def plain_numbers(x, n):
    return (
        x * float(n),
        int(n),
        n.item(),
        x * n.item() * x.shape[0],
        n * x.shape[0],
        x.shape[0] * n,
        x * math.sqrt(n),
        n.tolist(),
    )


def facts_of_the_class(x, n):
    return x + 1, type(n), isinstance(n, float), isinstance(n, int), isinstance(n, np.generic), n.dtype, n.ndim, n.shape


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fn", [operands, numpys_arithmetic, plain_numbers, facts_of_the_class])
def test_scalars_of_numpy_are_calculated_by_numpy_at_every_call(fn, kind):
    with np.errstate(all="ignore"):
        assert run(fn, [(X, kind(i)) for i in range(1, 9)])[0] == 1


def compared(x, n):
    if n > 4:
        return x + n
    return x * n if n else x - n


def taken(x, n):
    return x + 1, str(n), f"{n:.2f}", hash(n), [10, 20, 30, 40][int(n) % 4]


def as_data(x, n):
    return torch.tensor(n), torch.as_tensor(n), torch.full((2,), n), x.new_tensor(n)


def same(x, n, m):
    return x * n, n is m, n == m, n


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fn", [compared, taken, as_data])
def test_what_needs_the_scalar_itself_gets_that_of_the_call(fn, kind):
    run(fn, [(X, kind(i)) for i in (3, 5, 0, 2, 7, 3)])


def test_which_scalars_are_one_object_is_seen():
    one = np.float64(1.5)
    run(same, [(X, np.float64(i), np.float64(i)) for i in range(3)] + [(X, one, one), (X, one, np.float64(1.5))])


def test_scalars_of_another_class_are_another_capture():
    assert (
        run(
            operands,
            [(X, np.float64(2)), (X, np.float32(3)), (X, np.float64(4)), (X, np.float32(5)), (X, np.float64(6))],
        )[0]
        <= 4
    )


def indexed(x, n):
    return x[n], x[:n], torch.zeros(n)


def test_whole_scalars_are_indices_and_sizes():
    assert run(indexed, [(X, np.int64(i)) for i in (1, 2, 3, 2)])[0] <= 3


class Holder:
    rate = np.float64(0.1)


def schedule(x):
    return x * Holder.rate


def test_a_scalar_that_lives_elsewhere_is_one_too():
    framelift.reset()
    captured = framelift.compile(schedule)
    for i in range(8):
        Holder.rate = np.float64(0.1 * 0.9**i)
        assert torch.equal(captured(X), schedule(X))
    assert framelift.stats()["captures"] == 2


def scaled(x, n):
    return x * n + n


def test_a_compiler_gets_a_number():
    assert run(scaled, [(X, np.float64(i / 7)) for i in range(1, 5)], backend="aot_eager")[0] == 1


def with_arrays(a, n):
    return a * n, n + a


def test_beside_arrays_a_scalar_keeps_its_kind():
    calls = [(np.arange(4, dtype=np.float32), np.float64(i)) for i in (2, 3, 4)]
    framelift.reset()
    captured = framelift.compile(with_arrays)
    for args in calls:
        for want, got in zip(with_arrays(*args), captured(*args)):
            assert want.dtype == got.dtype and (want == got).all()


def text_of_it(x, n):
    return x + 1, str(n)


@pytest.mark.parametrize("kind", [int, float, np.float64])
def test_the_limit_of_a_number_that_cannot_be_symbolic_is_one_limit(kind):
    with pytest.warns(UserWarning, match="because of n"):
        assert run(text_of_it, [(X, kind(i + 2)) for i in range(14)])[0] == framelift.config.recompile_limit


def test_why_is_told_in_numpys_words():
    captured = framelift.compile(schedule)
    for Holder.rate in map(np.float64, (0.5, 1.5)):
        captured(X)
    (one,) = captured.recompiles()
    assert (one.origin, one.old, one.new) == ("Holder.rate", repr(np.float64(0.5)), repr(np.float64(1.5)))
    assert one.done == "Holder.rate is symbolic from now on"


def sized(x, n):
    return x[:n] * 2


def test_a_scalar_that_is_more_than_an_operand_is_a_constant_first():
    captures, captured = run(sized, [(X, np.int64(2))])
    assert captures == 1 and captured.entries[0].info.relations is None
    assert run(sized, [(X, np.int64(n)) for n in (2, 3, 4, 2, 3)])[0] <= 3


def test_what_a_backend_fixes_is_told_as_its_doing():
    def fixing(graph_module, examples):
        number = next(
            node.meta["example_value"]
            for node in graph_module.graph.nodes
            if node.op == "call_method" and node.target == "item"
        )
        float(number)
        return graph_module.forward

    captured = framelift.compile(scaled, backend=lambda g, e: g.forward if len(e) == 1 else fixing(g, e))
    for n in (0.5, 1.5, 2.5):
        captured(X, n)
    assert (
        "n == 1.5" in (reported := str(captured.recompiles()[-1]))
        and "the backend relies on it" in reported
        and "recompiled for" in reported
    )


# ---- containers that grow --------------------------------------------------------------------------------------------


def counted(x, held):
    return x * len(held), bool(held), isinstance(held, collections.abc.Sized), type(held)


@pytest.mark.parametrize("make", [list, lambda items: dict.fromkeys(items)])
def test_a_length_alone_is_a_number(make):
    assert run(counted, [(X, make(range(n))) for n in range(1, 12)])[0] == 2


def asked_of_a_set(x, held):
    return x * len(held), 3 in held, "b" in held


def changed_set(x, held):
    held.add(100)
    held |= {200}
    return x * len(held), len(held)


def sets_together(x, held):
    others = {1, 50}
    merged = {1, 50}
    merged |= held
    merged.update(held)
    return (
        x + 1,
        sorted(held),
        sorted(held | others),
        sorted(others | held),
        sorted(held & others),
        sorted(others & held),
        sorted(held - others),
        sorted(others - held),
        sorted(held ^ others),
        sorted(others ^ held),
        sorted(merged),
        sorted({*held}),
        held == {0, 1, 2},
        {0, 1, 2} == held,
        held <= {0, 1, 2, 3},
        {0} <= held,
        held.issubset(others),
        {0}.issubset(held),
        max(held, default=0),
    )


def unhashable(x, held):
    try:
        return x, hash(held)
    except TypeError as error:
        return x, str(error)


def asked_of_a_deque(x, held):
    return x * len(held), held[0], held[-1], held.maxlen


def appended_to(x, held):
    held.append(x.sum())
    held.append(7)
    return x * len(held), held[-1], held[-2]


def changed_deque(x, held):
    held.appendleft(3)
    held.extend([4, 5])
    held.popleft()
    held += [6]
    return x * len(held), list(held)


def deques_together(x, held):
    others = collections.deque([9])
    others += held
    return (
        x,
        list(held),
        held + others,
        others + held,
        held * 2,
        2 * held,
        held == collections.deque(range(3)),
        collections.deque(range(3)) == held,
        3 in held,
        held.count(2),
        others,
        tuple(held),
        isinstance(held, collections.deque),
    )


SETS = [asked_of_a_set, changed_set, sets_together, unhashable]
DEQUES = [asked_of_a_deque, appended_to, changed_deque, deques_together, unhashable]


@pytest.mark.parametrize(
    "fn, make",
    [
        *((fn, set) for fn in SETS),
        *((fn, collections.deque) for fn in DEQUES),
        *((fn, lambda items: collections.deque(items, maxlen=5)) for fn in DEQUES),
    ],
)
def test_what_more_is_asked_of_them_is_as_in_plain_python(fn, make):
    framelift.reset()
    captured = framelift.compile(fn)
    for n in (3, 4, 5, 6, 2, 1, 7):
        theirs, ours = make(range(n)), make(range(n))
        assert_same(fn(X, theirs), captured(X, ours))
        assert repr(theirs) == repr(ours)


@pytest.mark.parametrize("made", [list, collections.deque, lambda: collections.deque(maxlen=6)])
def test_a_history_that_grows_with_each_call(made):
    framelift.reset()
    captured = framelift.compile(appended_to)
    theirs, ours = made(), made()
    for _ in range(12):
        assert_same(appended_to(X, theirs), captured(X, ours))
    assert list(map(repr, theirs)) == list(map(repr, ours)) and framelift.stats()["captures"] <= (
        5 if made is list else 9
    )


def remembered(x, held, key):
    held.add(key)
    held.add(7)
    return x * len(held), key in held, 7 in held, 8 in held


def test_a_set_that_grows_with_each_call():
    framelift.reset()
    captured = framelift.compile(remembered)
    theirs, ours = {1000}, {1000}
    for key in (3, 4, 5, 6, 3, 4, 9, 10, 11):
        assert_same(remembered(X, theirs, key), captured(X, ours, key))
        assert theirs == ours
    theirs, ours = {1000}, {1000}
    framelift.reset()
    captured = framelift.compile(lambda x, held: (held.add(1), held.add(1), x * len(held))[2])
    for n in range(2, 9):
        assert torch.equal(captured(X, one := set(range(2, n))), X * (n - 1)) and one == {1, *range(2, n)}


def expanded(x, size):
    return x.expand(*size), size[0], len(size)


def test_the_sizes_in_a_size_are_numbers():
    assert run(expanded, [(torch.ones(1), torch.Size([n])) for n in range(2, 9)])[0] == 2


# ---- floats that a compiler cannot follow ----------------------------------------------------------------------------


def test_while_floats_are_compiled_nothing_is_taken_from_a_cache_that_forgets_guards():
    from torch._dynamo.symbolic_convert import TensorifyState
    from torch._functorch import config as functorch_config

    seen = []

    def backend(graph_module, examples):
        seen.append((len(examples), TensorifyState.should_specialize("zf1"), functorch_config.enable_autograd_cache))
        return graph_module.forward

    TensorifyState.specialize("zf1")
    try:
        with functorch_config.patch(enable_autograd_cache=True):
            captured = framelift.compile(scaled, backend=backend)
            for n in (0.5, 1.5):
                captured(X, n)
            assert seen == [(1, True, True), (2, False, False)] and functorch_config.enable_autograd_cache
        assert TensorifyState.should_specialize("zf1")
    finally:
        TensorifyState.clear()


def raised(x, by):
    return x**by, x * by + x.clamp(max=by)


def test_floats_that_a_compiler_takes_for_constants_are_constants():
    run(raised, [(X, by) for by in (3.0, 1.0, 2.0)], backend="inductor")


@pytest.mark.filterwarnings("ignore:framelift. .* was captured")
def test_classes_that_are_made_anew_each_time_come_to_an_end() -> None:
    """Their entries die with them, and are counted all the same."""

    def program(x):
        class Kind:
            amount = 3

            def get(self, t):
                return t + self.amount

        framelift.graph_break()
        return Kind().get(x)

    compiled = framelift.compile(program, backend="eager")
    with framelift.config.patch(recompile_limit=3):
        for _ in range(10):
            assert compiled(torch.ones(2)).tolist() == [4.0, 4.0]
        before = len(compiled.recompiles())
        for _ in range(4):
            compiled(torch.ones(2))
    assert len(compiled.recompiles()) == before < 9


# ---- numbers that a loop counts, beside values that are taken into Python -------------------------------------------


def _sliced(x, bounds):
    bounds, made = (bounds + x[0, 0] * 0).long(), torch.zeros_like(x)
    for i in range(len(bounds) - 1):
        start, end = bounds[i], bounds[i + 1]
        made[start:end] = x[start:end] * i
    return made


def _counted(x, bounds):
    bounds, made = (bounds + x[0, 0] * 0).long(), torch.zeros_like(x)
    for i in range(len(bounds) - 1):
        made = made + int(bounds[i])
        framelift.graph_break()
        made = made * x[i]
    return made


@pytest.mark.parametrize("program", [_sliced, _counted])
def test_a_number_is_not_fixed_for_the_sake_of_a_value(program):
    graphs = []

    def backend(graph, _inputs):
        graphs.append(graph)
        return graph.forward

    framelift.reset()
    captured = framelift.compile(program, backend=backend)
    x = torch.randn(48, 3)
    for step in (2, 1, 2):
        bounds = torch.arange(25.0) * step
        assert torch.equal(captured(x, bounds), program(x, bounds))
    assert len(graphs) <= 10  # 24 steps of the loop
