"""Relations of numbers taken out of small tensors, under fullgraph.

There is one capture for each answer, and each call gets the right one.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift


def several(n: Any, t: Any) -> Any:
    k = n.item()
    if k > 3:
        t = t + k
    return t * 2 if k % 2 == 0 else t * 3


#: program -> captures for n = -4 ... 8
PROGRAMS = {
    "greater": (lambda n, t: t * 2 if n.item() > 5 else t * 3, 2),
    "the number is used too": (lambda n, t: t * n.item() if n.item() > 5 else t - n.item(), 2),
    "equal": (lambda n, t: t + 1 if n.item() == 2 else t - 1, 2),
    "truth": (lambda n, t: t + 1 if not n.item() else t - 1, 2),
    "int": (lambda n, t: t + 1 if int(n) >= 2 else t - 1, 2),
    "between": (lambda n, t: t + 1 if 2 < n.item() < 6 else t - n.item(), 3),
    "remainder": (lambda n, t: t + 1 if n.item() % 3 == 1 else t - 1, 2),
    "quotient": (lambda n, t: t + 1 if n.item() // 3 == 1 else t - 1, 2),
    "greatest": (lambda n, t: t + 1 if max(n.item(), 3) > 4 else t - 1, 2),
    "of a calculation": (lambda n, t: t + 1 if (n * 2 + 1).sum().item() < 5 else t - 1, 2),
    "of a list": (lambda n, t: t + 1 if (n + torch.arange(2)).tolist()[1] > 2 else t - 1, 2),
    "several": (several, 4),
    "a size": (lambda n, t: t[: n.item()].sum() if n.item() > 2 else t.sum(), 2),
}


PROGRAMS |= {
    "bits": (lambda n, t: t + 1 if n.item() & 1 else t - 1, 2),
    "shifted": (lambda n, t: t + 1 if n.item() >> 1 == 1 else t - 1, 2),
    "as a float": (lambda n, t: t + 1 if float(n) > 2.5 else t - 1, 2),
    "divided": (lambda n, t: t + 1 if n.item() / 2 > 1.2 else t - 1, 2),
    "two relations of it": (lambda n, t: t + 1 if (n.item() > 2) & (n.item() < 5) else t - 1, 2),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_capture_for_each_answer(name: str, backend: str) -> None:
    program, captures = PROGRAMS[name]
    compiled = framelift.compile(program, backend=backend, fullgraph=True)
    before = framelift.stats()["captures"]
    for number in range(-4, 9):
        given = torch.tensor(number), torch.arange(3.0)
        assert torch.equal(compiled(*given), program(*given)), number
    assert framelift.stats()["captures"] - before == captures


def mixed(a: Any, b: Any, t: Any) -> Any:
    k, m = a.item(), b.item()
    if k > m:
        t = t + k
    elif k == m:
        t = t - 1
    return t * 2 if (k > 3) | (m > 2) else t


def copied(a: Any, b: Any, t: Any) -> Any:
    rows = t.reshape(6, 2).clone()
    n = a.item()
    rows[n] = rows[n - 1]
    return rows


def added(a: Any, b: Any, t: Any) -> Any:
    rows = t.reshape(6, 2).clone()
    rows[a.item()].add_(rows[b.item()])
    return rows


#: program -> captures for all pairs of -2 ... 3
PAIRS = {
    "greater": (lambda a, b, t: t * 2 if a.item() > b.item() else t * 3, 2),
    "equal": (lambda a, b, t: t * 2 if a.item() == b.item() else t * a.item(), 2),
    "sum": (lambda a, b, t: t * 2 if a.item() + b.item() > 1 else t * 3, 2),
    "product": (lambda a, b, t: t * 2 if a.item() * b.item() > 1 else t * 3, 2),
    "and": (lambda a, b, t: t * 2 if a.item() > 1 and b.item() > 1 else t * 3, 3),
    "or": (lambda a, b, t: t * 2 if a.item() > 1 or b.item() > 1 else t * 3, 3),
    "&": (lambda a, b, t: t * 2 if (a.item() > 1) & (b.item() > 1) else t * 3, 2),
    "|": (lambda a, b, t: t * 2 if (a.item() > 1) | (b.item() > 1) else t * 3, 2),
    "not": (lambda a, b, t: t * 2 if not (a.item() > b.item()) else t * 3, 2),
    "between": (lambda a, b, t: t * 2 if 0 < a.item() < b.item() else t * 3, 3),
    "no branch": (lambda a, b, t: t * ((a.item() > 1) & (b.item() > 1)), 1),
    "of tensors": (lambda a, b, t: t * 2 if a > b else t * 3, 2),
    "& of tensors": (lambda a, b, t: t * 2 if (a > 1) & (b > 1) else t * 3, 2),
    "of both in one": (lambda a, b, t: t * 2 if torch.stack([a, b]).max().item() > 1 else t * 3, 2),
    "of a list": (lambda a, b, t: t * 2 if max(torch.stack([a, b]).tolist()) > 1 else t * 3, 2),
    "mixed": (mixed, 5),
    "rows": (copied, 1),
    "a row in place": (added, 1),
    "elements": (lambda a, b, t: t.clone().index_put((a,), t[b.item()]), 1),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PAIRS)
def test_numbers_of_two_tensors(name: str, backend: str) -> None:
    program, captures = PAIRS[name]
    compiled = framelift.compile(program, backend=backend, fullgraph=True)
    before = framelift.stats()["captures"]
    for a in range(-2, 4):
        for b in range(-2, 4):
            given = torch.tensor(a), torch.tensor(b), torch.arange(12.0)
            assert torch.equal(compiled(*given), program(*given)), (a, b)
    assert framelift.stats()["captures"] - before == captures


def test_numbers_beside_sizes_and_numbers_outside() -> None:
    def of_size(n: Any, t: Any) -> Any:
        return t * 2 if n.item() < t.shape[0] else t * 3

    def of_number(n: Any, t: Any, k: int) -> Any:
        return t * 2 if n.item() % 2 == k % 2 else t * k

    framelift.reset()
    compiled = framelift.compile(of_size, backend="eager", fullgraph=True, dynamic=True)
    for number in range(8):
        for size in (3, 5, 7):
            given = torch.tensor(number), torch.arange(float(size))
            assert torch.equal(compiled(*given), of_size(*given))
    assert framelift.stats()["captures"] == 2
    framelift.reset()
    compiled = framelift.compile(of_number, backend="eager", fullgraph=True)
    for number in range(6):
        for k in (3, 4, 5, 6):
            beside = torch.tensor(number), torch.ones(2), k
            assert torch.equal(compiled(*beside), of_number(*beside))
    assert framelift.stats()["captures"] == 3  # of one k, then of any


@pytest.mark.parametrize("index", [0, 1, -1])
def test_rows_that_overlap_are_not_rows(index: int) -> None:
    """Windows of a tensor have elements in common: eager mode refuses to copy one into the next."""

    def program(n: Any, t: Any) -> Any:
        windows = t.clone().unfold(0, 4, 2)
        windows[n.item()] = windows[n.item() - 1]
        return windows

    given = torch.tensor(index), torch.arange(8.0)
    compiled = framelift.compile(program, backend="aot_eager")
    for _ in range(2):
        try:
            expected = program(*given)
        except RuntimeError as error:
            with pytest.raises(RuntimeError) as met:
                compiled(*given)
            assert str(met.value) == str(error)
        else:
            assert torch.equal(compiled(*given), expected)


def test_memory_that_is_written_before_decides_nothing() -> None:
    def program(n: Any, view: Any, t: Any) -> Any:
        view.add_(1)
        return t + 1 if n.item() > 2 else t - 1

    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    with pytest.raises(framelift.exc.Unsupported):
        given = torch.tensor([2])
        compiled(given, given.view(1), torch.ones(2))


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "nonstrict"])
def test_an_exported_program_does_not_take_the_value_of_its_example(strict: bool) -> None:
    class Program(torch.nn.Module):
        def forward(self, n: Any, t: Any) -> Any:
            return t * 2 if n.item() > 5 else t * 3

    with pytest.raises(Exception, match="u0|only the graph knows"):
        framelift.export(Program(), (torch.tensor(7), torch.ones(2)), strict=strict)


def after_a_write(n: Any, t: Any) -> Any:
    n += 1
    k = n.item()
    t.add_(k**-0.8)
    n.mul_(-3)  # after the number was taken: it decides nothing about it
    return t * min(0.5, 1 / k**0.5)


def made_inside(n: Any, t: Any) -> Any:
    count = torch.zeros(())
    count += 2
    t.add_(count.item() ** 0.5)
    return t + n


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [after_a_write, made_inside])
def test_a_power_of_a_number_is_real_by_what_its_tensor_holds(program: Any, backend: str) -> None:
    with framelift.config.patch(capture_scalar_outputs=True):
        compiled = framelift.compile(program, backend=backend, fullgraph=True)
        before = framelift.stats()["captures"]
        for number in (0.0, 1.0, 7.5, 0.25):
            plain, given = (torch.tensor(number), torch.arange(3.0)), (torch.tensor(number), torch.arange(3.0))
            torch.testing.assert_close(compiled(*given), program(*plain))
            assert torch.equal(given[0], plain[0])
            torch.testing.assert_close(given[1], plain[1])
        assert framelift.stats()["captures"] - before == 1


@pytest.mark.parametrize("number", [-1.0, -3.5])
def test_a_power_that_is_none_or_complex_leaves_no_write_behind(number: float) -> None:
    with framelift.config.patch(capture_scalar_outputs=True):
        compiled = framelift.compile(after_a_write, backend="eager", fullgraph=True)
        compiled(torch.tensor(1.0), torch.arange(3.0))
        n, t = torch.tensor(number), torch.arange(3.0)
        with pytest.raises(framelift.exc.Unsupported):
            compiled(n, t)
        assert n.item() == number and torch.equal(t, torch.arange(3.0))


def through_another(n: Any, view: Any, t: Any) -> Any:
    view -= 4
    t.add_(n.item() ** 0.5)
    return t


def test_a_number_that_another_input_writes_to_is_not_known() -> None:
    with framelift.config.patch(capture_scalar_outputs=True):
        compiled = framelift.compile(through_another, backend="eager", fullgraph=True)
        shared, t = torch.tensor([9.0]), torch.arange(3.0)
        with pytest.raises(framelift.exc.Unsupported):
            compiled(shared[0], shared, t)
        apart = torch.tensor([9.0])
        assert torch.equal(compiled(torch.tensor(9.0), apart, t), torch.arange(3.0) + 3)
        with pytest.raises(framelift.exc.Unsupported):  # the capture for others is not taken
            compiled(shared[0], shared, t)
        assert shared.item() == 9
