"""`torch.cond` with numbers: a condition that is taken out of a tensor, and branches that return ints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import framelift
import pytest
import torch
from framelift.exc import UncapturedHigherOrderOpError

Program = Callable[[torch.Tensor], Any]


def _trig(pred: Any, x: torch.Tensor) -> Any:
    return torch.cond(pred, lambda y: y.sin(), lambda y: y.cos(), (x,))


#: name -> program
PROGRAMS: dict[str, Program] = {
    "a float": lambda x: _trig(x.sum().item() > 0, x),
    "an int": lambda x: _trig(x.to(torch.int64).sum().item() > 3, x),
    "a truth value": lambda x: _trig((x.sum() > 0).item(), x),
    "two conditions": lambda x: _trig((x.sum().item() > 0) & (x.max().item() < 9), x),
    "ints": lambda x: torch.cond(x.sum() > 0, lambda y: 3, lambda y: 2, (x,)),
    "equal ints": lambda x: torch.cond(x.sum() > 0, lambda y: 3, lambda y: 3, (x,)),
    "beside tensors": lambda x: torch.cond(x.sum() > 0, lambda y: (3, y.sin()), lambda y: (2, y.cos()), (x,)),
    "used as a factor": lambda x: x * torch.cond(x.sum() > 0, lambda y: 3, lambda y: 2, (x,)),
    "used as a size": lambda x: torch.zeros(torch.cond(x.sum() > 0, lambda y: 3, lambda y: 2, (x,))),
}


def _in_plain_python(program: Program, x: torch.Tensor) -> Any:
    def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> Any:
        return true_fn(*operands) if pred else false_fn(*operands)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch, "cond", cond)
        return program(x)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_plain_python(name: str, backend: str) -> None:
    function = framelift.compile(PROGRAMS[name], backend=backend, fullgraph=True)
    for x in (torch.arange(6.0), -torch.arange(6.0), torch.arange(6.0) * 3):
        torch.testing.assert_close(function(x), _in_plain_python(PROGRAMS[name], x))
    assert len(function.entries) == 1  # the branch was chosen when the graph ran


@pytest.mark.parametrize("name", ["a float", "an int", "a truth value"])
def test_conditions_are_compiled_by_inductor(name: str) -> None:
    function = framelift.compile(PROGRAMS[name], fullgraph=True)
    for x in (torch.arange(6.0), -torch.arange(6.0)):
        torch.testing.assert_close(function(x), _in_plain_python(PROGRAMS[name], x))


def test_a_branch_that_takes_its_int_out_of_a_tensor() -> None:
    def program(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda y: y.to(torch.int64).sum().item(), lambda y: 5, (x,))

    function = framelift.compile(program, backend="eager", fullgraph=True)
    assert [function(x) for x in (torch.ones(3), -torch.ones(3))] == [3, 5]
    with pytest.raises(UncapturedHigherOrderOpError):
        framelift.compile(program, backend="aot_eager", fullgraph=True)(torch.ones(3))


def test_a_number_and_a_tensor_do_not_agree() -> None:
    def program(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda y: 3, lambda y: y.sin(), (x,))

    with pytest.raises(UncapturedHigherOrderOpError, match="one branch returns a number"):
        framelift.compile(program, backend="eager", fullgraph=True)(torch.ones(3))
