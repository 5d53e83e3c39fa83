"""Tensor subclasses whose own methods and properties torch's Python code calls; and `super()` behind them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import handle_torch_function, has_torch_function, has_torch_function_unary

import framelift

LOG: list[Any] = []


class Own(torch.Tensor):
    """Has its own of what torch's Python code reads."""

    def dim(self) -> int:
        LOG.append("dim")
        return super().dim()

    @property
    def shape(self) -> torch.Size:
        LOG.append("shape")
        return super().shape

    def size(self, *args: Any) -> Any:
        LOG.append("size")
        return super().size(*args)

    def unbind(self, *args: Any) -> Any:
        LOG.append("unbind")
        return super().unbind(*args)

    def flip(self, *args: Any) -> Any:
        LOG.append("flip")
        return super().flip(*args)

    def softmax(self, *args: Any) -> Any:
        LOG.append("softmax")
        return super().softmax(*args) + 1  # another result than torch's

    def reciprocal(self) -> Any:
        LOG.append("reciprocal")
        return super().reciprocal()

    def tolist(self) -> Any:
        LOG.append("tolist")
        return super().tolist()

    def item(self) -> Any:
        LOG.append("item")
        return super().item()


class Shown(Own):
    """Is shown all torch calls besides."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        LOG.append((func.__qualname__, types, len(args), kwargs))
        return super().__torch_function__(func, types, args, kwargs or {})


def api(a: Any, b: Any = None) -> Any:
    if has_torch_function((a, b)):
        return handle_torch_function(api, (a, b), a, b=b)
    return a + 1


def iterated(x: Any) -> Any:
    out = []
    for row in x:
        out.append(row)
    return out


PROGRAMS = {
    "len": lambda x: x.sum() + len(x),
    "iteration": iterated,
    "reversed": lambda x: list(reversed(x)),
    "unpacking": lambda x: [*x],
    "softmax": lambda x: F.softmax(x, dim=0),
    "reflected division": lambda x: 2 / x,
    "batch_norm": lambda x: F.batch_norm(x[None].T, None, None, training=True),
    "mse_loss": lambda x: F.mse_loss(x, x),
    "interpolate": lambda x: F.interpolate(x[None, None], 6),
    "tensordot": lambda x: torch.tensordot(x, x, 1),
    "tolist": lambda x: (x + 1, x.tolist()),
    "item": lambda x: x.sum().item(),
    "has_torch_function": lambda x: (
        x + 1,
        has_torch_function((x,)),
        has_torch_function_unary(x),
        has_torch_function((1, 2)),
        has_torch_function((x.as_subclass(torch.Tensor),)),
    ),
    "a function that overrides": lambda x: api(x, 2),
}


def outcome(function: Any, cls: type) -> Any:
    LOG.clear()
    result = function(torch.arange(1.0, 4.0).as_subclass(cls))
    log = list(LOG)
    return shown(result), log


def shown(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [shown(part) for part in value]
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunction():
            return type(value).__name__, torch.Tensor.tolist(value.as_subclass(torch.Tensor))
    return value


@pytest.mark.parametrize("cls", [Own, Shown])
@pytest.mark.parametrize("name", PROGRAMS)
def test_methods_that_torch_calls_are_called(name: str, cls: type) -> None:
    expected = outcome(PROGRAMS[name], cls)
    run = framelift.compile(PROGRAMS[name], backend="eager")
    assert outcome(run, cls) == expected
    assert outcome(run, cls) == expected


def test_a_method_that_is_put_on_the_class_later_is_called() -> None:
    class Later(torch.Tensor):
        pass

    run = framelift.compile(lambda x: F.softmax(x, dim=0), backend="eager")
    given = torch.zeros(2).as_subclass(Later)
    assert run(given).tolist() == [0.5, 0.5]
    Later.softmax = lambda self, *args: self + 7  # type: ignore[assignment]
    assert run(given).tolist() == [7.0, 7.0]


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch._VF.tensordot(x, x, [0], [0]),
        lambda x: torch._VF.cdist(x[None], x[None], 2.0, None),
        lambda x: torch._VF.cartesian_prod([x, x]),
        lambda x: torch._VF.block_diag([x, x]),
        lambda x: torch._VF.split(x, 2),
    ],
)
def test_c_functions_that_share_a_name_with_one_of_torchs_python_functions(program: Any) -> None:
    given = torch.arange(4.0)
    found = framelift.compile(program, backend="eager", fullgraph=True)(given)
    torch.testing.assert_close(found, program(given))
