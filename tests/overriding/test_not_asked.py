"""Tensor subclasses whose `__torch_function__` says that torch is not to ask them: plain tensors with a class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import framelift
import pytest
import torch
from torch.overrides import TorchFunctionMode

T = torch.Tensor


class Quiet(T):
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def twice(self) -> Any:
        return self * 2

    @property
    def total(self) -> Any:
        return self.sum() + 1

    def softmax(self, *args: Any, **kwargs: Any) -> Any:
        return self + 100

    def __mod__(self, other: Any) -> Any:
        return self - other


class Asked(T):
    seen: list[Any] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append([one.__name__ for one in types])
        return super().__torch_function__(func, types, args, kwargs or {})


class Mode(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {})) + len(types)


def _under_mode(x: T) -> Any:
    with Mode():
        return torch.add(x, 1)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "operators": lambda x: (x + 1, -x, x == x, x[0], len(x), x % 2),
    "its own methods": lambda x: (x.twice(), x.total, x.softmax(0)),
    "a function that calls its method": lambda x: torch.nn.functional.softmax(x, 0),
    "itself": lambda x: x,
    "in place": lambda x: x.clone().as_subclass(Quiet).add_(1),
    "views": lambda x: (x.view(-1), x.detach(), x.data),
    "classes": lambda x: (x.sin().as_subclass(Quiet), isinstance(x, Quiet), T._make_subclass(Quiet, x.detach())),
    "beside one that is asked": lambda x: (x + torch.ones(3).as_subclass(Asked), Asked.seen[-1]),
    "a list": lambda x: torch.stack([x, x]),
    "attributes": lambda x: (x.shape, x.requires_grad, x.is_leaf, x.dtype),
    "under a mode": _under_mode,
}


def shown(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [shown(item) for item in value]
    if isinstance(value, T):
        return type(value).__name__, value.as_subclass(T).tolist(), value.requires_grad
    return value


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_a_plain_tensor_of_its_class(name: str, grad: bool) -> None:
    program = PROGRAMS[name]
    made = torch.arange(3.0, requires_grad=grad).as_subclass(Quiet)
    again = torch.arange(3.0, requires_grad=grad).as_subclass(Quiet)
    function = framelift.compile(program, backend="eager", fullgraph=True)
    assert shown(function(made)) == shown(program(again))
    assert shown(made) == shown(again)


def test_a_class_that_is_asked_from_now_on() -> None:
    kind = type("Kind", (T,), {"__torch_function__": torch._C._disabled_torch_function_impl})
    function = framelift.compile(lambda x: x + 1, backend="eager", fullgraph=True)
    x = torch.ones(2).as_subclass(kind)
    assert type(function(x)) is T
    del kind.__torch_function__
    assert type(function(x)) is kind
