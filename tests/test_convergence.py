"""Few captures for programs whose world changes: what is not looked at is no cause, what is only counted or calculated with is symbolic."""

from __future__ import annotations

import collections
import math

import numpy as np
import pytest
import torch

import framelift
from support import compiled  # noqa: F401  (the options of the suite)
from test_shapes import run

X = torch.arange(4.0)


# ---- arguments that nobody reads --------------------------------------------------------------------------------------

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




# ---- scalars of numpy -------------------------------------------------------------------------------------------------

KINDS = [np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8]


def operands(x, n):
    return x * n, n * x, x + n, n - x, x / n, x ** 2 * n, x > n


def numpys_arithmetic(x, n):
    return x + 1, n / 2, n + 1, 2 * n, n * n, n % 3, n // 2, abs(n), n ** 2, n * 0.1, np.float32(n) * 3


def plain_numbers(x, n):
    return x * float(n), int(n), n.item(), x * n.item() * x.shape[0], n * x.shape[0], x.shape[0] * n, x * math.sqrt(n), n.tolist()


def facts_of_the_class(x, n):
    return x + 1, type(n), isinstance(n, float), isinstance(n, int), isinstance(n, np.generic), n.dtype, n.ndim, n.shape


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fn", [operands, numpys_arithmetic, plain_numbers, facts_of_the_class])
def test_scalars_of_numpy_are_calculated_by_numpy_at_every_call(fn, kind):
    with np.errstate(all="ignore"):
        assert run(fn, [(X, kind(i)) for i in range(1, 9)])[0] == 2


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
    assert run(operands, [(X, np.float64(2)), (X, np.float32(3)), (X, np.float64(4)), (X, np.float32(5)), (X, np.float64(6))])[0] <= 4


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
        Holder.rate = np.float64(0.1 * 0.9 ** i)
        assert torch.equal(captured(X), schedule(X))
    assert framelift.stats()["captures"] == 2


def scaled(x, n):
    return x * n + n


def test_a_compiler_gets_a_number():
    assert run(scaled, [(X, np.float64(i / 7)) for i in range(1, 5)], backend="aot_eager")[0] == 2


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
    _, captured = run(scaled, [(X, np.float64(0.5)), (X, np.float64(1.5))])
    (one,) = captured.recompiles()
    assert (one.origin, one.old, one.new, one.done) == ("n", repr(np.float64(0.5)), repr(np.float64(1.5)), "n is symbolic from now on")


def test_what_a_backend_fixes_is_told_as_its_doing():
    def fixing(graph_module, examples):
        number = next(node.meta["example_value"] for node in graph_module.graph.nodes if node.op == "call_method" and node.target == "item")
        float(number)
        return graph_module.forward

    captured = framelift.compile(scaled, backend=lambda g, e: g.forward if len(e) == 1 else fixing(g, e))
    for n in (0.5, 1.5, 2.5):
        captured(X, n)
    assert "n == 1.5" in (told := str(captured.recompiles()[-1])) and "the backend relies on it" in told and "once more" in told
