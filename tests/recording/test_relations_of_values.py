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
