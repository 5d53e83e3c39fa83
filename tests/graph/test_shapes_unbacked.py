"""Numbers and sizes that only the graph knows."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import (
    guard_or_false,
    guard_or_true,
    guard_size_oblivious,
    has_free_unbacked_symbols,
    statically_known_true,
)

import framelift
from framelift import config
from counted_runs import assert_same


def run(fn, calls, backend="eager", **options):
    framelift.reset()
    with config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        captured = framelift.compile(fn, backend=backend, fullgraph=True, **options)
        for args in calls:
            assert_same(fn(*args), captured(*args))
    return framelift.stats()["captures"]


BACKENDS = ["eager", "aot_eager"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x * 2 + x.sum().item(),
        lambda x: x.sum().item() + 1,
        lambda x: (x.max().item() * 2, int(x[0]) + 1),
        lambda x: torch.full((2,), x[0].item()),
        lambda x: x.tolist(),
        lambda x: torch.ones(max(x[0].item(), 4), min(x.shape[0], 7)),
        lambda x: torch.tensor([x[0].item(), 1]),
    ],
)
def test_item_of_ints(fn, backend):
    assert run(fn, [(torch.tensor(values),) for values in ([3, 4, 5], [6, 7, 8], [1, 2, 9])], backend) == 1


def test_sizes_from_values():
    def fn(n, x):
        count = n.item()
        torch._check(count >= 2)
        torch._check(count <= 4)
        return torch.zeros(count) + 1, x[:count], torch.arange(count)

    assert run(fn, [(torch.tensor(n), torch.arange(5)) for n in (3, 2, 4)]) == 1


def test_a_condition_that_does_not_hold_raises():
    def fn(n):
        count = n.item()
        torch._check(count >= 2, lambda: "too few")
        return torch.zeros(count)

    with config.patch(capture_scalar_outputs=True):
        captured = framelift.compile(fn, backend="eager", fullgraph=True)
        captured(torch.tensor(3))
        with pytest.raises(RuntimeError, match="too few"):
            captured(torch.tensor(1))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: (x > 1).nonzero(),
        lambda x: x[x > 1] * 2,
        lambda x: (x > 1).nonzero().shape[0],
        lambda x: torch.unique(x),
    ],
)
def test_sizes_of_results(fn):
    assert run(fn, [(torch.tensor(values),) for values in ([0.0, 2.0, 3.0], [2.0, 2.0, 5.0], [4.0, 0.0, 0.0])]) == 1


def test_floats():
    assert (
        run(lambda x: x * x[0].item() + x.sum().item() / 2, [(torch.tensor([float(n), 2.0]),) for n in range(3)]) == 1
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: int(x.item()) + 1,
        lambda x: torch.tensor([math.ceil(x.item()), math.floor(x.item())]),
        lambda x: x * math.trunc(x.item()),
    ],
)
def test_floats_made_ints(fn, backend):
    assert run(fn, [(torch.tensor(value),) for value in (3.7, -5.2, 2.0, 1e9)], backend) == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x + x.sum().item() ** 2,
        lambda x: x + x.sum().item() ** 3.0,
        lambda x: x * x.sum().item() ** -1,
        lambda x: x * 2 ** x.sum().item(),
        lambda x: x * math.sqrt(x.sum().item()),
        lambda x: (math.sqrt(x.sum().item()), math.cos(x[0].item()) + 1),
    ],
)
def test_powers_and_functions_of_floats(fn, backend):
    assert run(fn, [(torch.ones(3) * n,) for n in (1, 2, 3)], backend) == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x * (x.sum().item() - 7) ** -1,
        lambda x: x * (x.sum().item() * 1e200) ** 3,
        lambda x: x * math.sqrt(x.sum().item() - 7),
    ],
)
@config.patch(strict=False)  # `0.0 ** -1` ends AOTAutograd: a warning says so, and the floats become constants
def test_powers_and_functions_that_raise(fn, backend):
    compiled = framelift.compile(fn, backend=backend)
    for n in (3.0, 1.0, 7 / 3, 2.0):
        x = torch.full((3,), n)
        try:
            expected = fn(x)
        except (ArithmeticError, ValueError) as error:
            with pytest.raises(type(error), match=str(error.args[-1])):
                compiled(x)
        else:
            assert_same(expected, compiled(x))


def test_a_float_that_is_no_int_is_the_programs_error():
    with config.patch(capture_scalar_outputs=True):
        captured = framelift.compile(lambda x: x * int(x.item()), backend="eager", fullgraph=True)
        assert captured(torch.tensor(2.5)) == 5
        with pytest.raises(OverflowError, match="infinity"):
            captured(torch.tensor(float("inf")))


def test_a_number_that_nobody_uses_is_not_waited_for():
    targets = []

    def backend(graph, _):
        targets.extend(node.target for node in graph.graph.nodes if node.op.startswith("call"))
        return graph

    def fn(x):
        x.sum().item()
        return x * x.max().item()

    assert run(fn, [(torch.tensor([1.0, 2.0]),)], backend) == 1
    assert targets.count("item") == 1 and "sum" in targets


def test_unless_asked_they_interrupt():
    captured = framelift.compile(lambda x: x.sum().item(), backend="eager")
    before = sum(framelift.stats()["breaks"].values())
    assert captured(torch.ones(2)) == 2
    assert sum(framelift.stats()["breaks"].values()) == before + 1


def test_one_graph_is_asking():
    captured = framelift.compile(lambda x: (x * x.sum().item(), x[x > 1]), backend="eager", fullgraph=True)
    for data in ([1.0, 2.0], [3.0, 4.0]):
        x = torch.tensor(data)
        torch.testing.assert_close(captured(x), (x * x.sum(), x[x > 1]))


def test_a_branch_on_such_a_number_still_interrupts():
    def fn(x):
        return x * 2 if x.sum().item() > 0 else x

    with pytest.raises(framelift.exc.Unsupported, match="item"):
        framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))


def test_marked_unbacked():
    def fn(x):
        return x * 2

    x = torch.ones(3, 2)
    framelift.mark_unbacked(x, 0)
    framelift.reset()
    captured = framelift.compile(fn, backend="eager")
    for one in (x, torch.ones(1, 2), torch.ones(5, 2), torch.ones(0, 2)):
        assert_same(fn(one), captured(one))
    assert framelift.stats()["captures"] == 1


def test_numbers_that_only_the_graph_knows_are_not_taken_for_equal():
    def fn(x, n):
        return x * 2 + n.item(), torch.zeros(n.item() + 2)

    calls = [(torch.ones(rows, 2), torch.tensor(n)) for rows, n in ((4, 3), (1, 5), (0, 2), (6, 4))]
    assert run(fn, calls) >= 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_slices_bounded_by_tensors(backend):
    def fn(x, lengths):
        ends = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        parts = [x[ends[i] : ends[i + 1]].sum(0) for i in range(3)]
        y = x.clone()
        y[: lengths[0]] = 0
        return torch.stack(parts), x[-lengths[1] :, : lengths[2]].sum(), y

    calls = [(torch.rand(9, 4), torch.tensor(lengths)) for lengths in ([2, 3, 4], [1, 1, 2], [4, 4, 1], [0, 9, 0])]
    assert run(fn, calls, backend) == 1
    with pytest.raises(TypeError) as plain:
        fn(torch.rand(9, 4), torch.tensor([1.5, 2.0, 3.0]))
    with pytest.raises(TypeError) as captured:
        framelift.compile(fn, backend=backend)(torch.rand(9, 4), torch.tensor([1.5, 2.0, 3.0]))
    assert str(plain.value) == str(captured.value)


def test_questions_that_nothing_decides_have_their_own_answer():
    def sized(x):
        rows = x.nonzero()
        return rows * 2 if guard_or_false(rows.size(0) == 0) else rows + 1

    def valued(n, x):
        u = n.item()
        return x * 2 if guard_or_false(u == 0) else x + u

    x = torch.tensor([1.0, 0.0, 2.0])
    captured = framelift.compile(sized, backend="eager", fullgraph=True)
    for one in (x, torch.ones(3)):
        assert torch.equal(captured(one), sized(one))
    captured = framelift.compile(valued, backend="eager", fullgraph=True)
    for n in (5, 3, 0):
        assert torch.equal(captured(torch.tensor(n), x), valued(torch.tensor(n), x))


@pytest.mark.parametrize("ask", (guard_or_false, guard_or_true, guard_size_oblivious, statically_known_true))
def test_questions_of_sizes_that_change(ask):
    def fn(x):
        return x * 2 if ask(x.size(0) == 1) else x + 1

    captured = framelift.compile(fn, backend="eager", fullgraph=True)
    for rows in (4, 5, 6, 1, 4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            want = fn(torch.ones(rows))
        assert torch.equal(captured(torch.ones(rows)), want)


def test_whether_a_number_has_a_value():
    def fn(x, items):
        counted = x.sum().int().item()
        return x + 1, [has_free_unbacked_symbols(one) for one in (x, x.shape, counted, items)]

    assert run(fn, [(torch.ones(rows), [rows, None]) for rows in (4, 5, 6)]) == 2
