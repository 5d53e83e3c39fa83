"""Methods, operators and properties put on torch's classes, before or after a capture, and taken off again.

Each is noticed.
"""

from __future__ import annotations

import functools
import os
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import framelift

X = torch.ones(3)
T = torch.Tensor
LINEAR = torch.nn.Linear(3, 3)


def zero(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    return tensor * 0


def seven(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    return tensor * 7


#: program, owner, name, what is put there
PATCHES: dict[str, tuple[Callable[[Any], Any], Any, str, tuple[Any, Any]]] = {
    "method": (lambda x: x.sigmoid(), T, "sigmoid", (zero, seven)),
    "by class": (lambda x: type(x).sigmoid(x), T, "sigmoid", (zero, seven)),
    "operator": (lambda x: x + 1, T, "__add__", (zero, seven)),
    "reflected": (lambda x: 5 - x, T, "__rsub__", (zero, seven)),
    "unary": (lambda x: -x, T, "__neg__", (zero, seven)),
    "item": (lambda x: x[0], T, "__getitem__", (zero, seven)),
    "property": (lambda x: x * getattr(x, "added", 5), T, "added", (property(lambda s: 3), property(lambda s: s * 4))),
    "value": (lambda x: x * getattr(x + 1, "added", 5), T, "added", (3, 4.5)),
    "tensor": (lambda x: x * getattr(x, "added", 5), T, "added", (torch.full((3,), 3.0), torch.full((3,), 4.0))),
    "shape": (lambda x: x * x.shape[0], T, "shape", (property(lambda s: (9,)), property(lambda s: (2,)))),
    "new method": (lambda x: (x + 1).added() if hasattr(x + 1, "added") else x, T, "added", (zero, seven)),
    "alias": (lambda x: x.added() if hasattr(x, "added") else x, T, "added", (T.sin, T.cos)),
    "static": (
        lambda x: x * x.added(2) if hasattr(T, "added") else x,
        T,
        "added",
        (staticmethod(lambda y: y), staticmethod(lambda y: y * 3)),
    ),
    "class method": (
        lambda x: x * x.added() if hasattr(T, "added") else x,
        T,
        "added",
        (classmethod(lambda c: 3), classmethod(lambda c: 4)),
    ),
    "parameter": (
        lambda x: LINEAR.weight.added() if hasattr(LINEAR.weight, "added") else x,
        torch.nn.Parameter,
        "added",
        (zero, seven),
    ),
    "function": (lambda x: F.relu(x), F, "relu", (zero, seven)),
    "torch": (lambda x: torch.sigmoid(x), torch, "sigmoid", (zero, seven)),
    "inside a module": (lambda x: LINEAR(x), F, "linear", (zero, seven)),
    "forward": (lambda x: LINEAR(x), torch.nn.Linear, "forward", (lambda s, x: x * 0, lambda s, x: x * 7)),
    "call": (lambda x: LINEAR(x), torch.nn.Linear, "__call__", (lambda s, x: x * 0, lambda s, x: x * 7)),
}


def in_a_child(check: Callable[[], None]) -> None:
    """CPython keeps the sequence slot of a class that had a `__getitem__` once, and torch then takes tensors for
    sequences.
    """
    child = os.fork()
    if not child:
        try:
            check()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("name", PATCHES)
def test_patches(name: str, first: bool) -> None:
    check = functools.partial(check_patches, name, first)
    in_a_child(check) if PATCHES[name][2] == "__getitem__" else check()


def check_patches(name: str, first: bool) -> None:
    program, owner, attribute, values = PATCHES[name]
    before = vars(owner).get(attribute, PATCHES)

    def undo() -> None:
        if before is not PATCHES:
            setattr(owner, attribute, before)
        elif attribute in vars(owner):
            delattr(owner, attribute)

    compiled = framelift.compile(program, backend="eager")
    steps: list[Callable[[], None]] = [
        lambda: setattr(owner, attribute, values[0]),
        lambda: setattr(owner, attribute, values[1]),
        undo,
    ]
    try:
        for step in [*(steps if first else [undo, *steps]), steps[0]]:
            step()
            for _ in range(2):
                assert compiled(X).tolist() == program(X).tolist()
    finally:
        undo()


#: operators run the C method of a name, whatever `torch.Tensor` has under that name
OPERATORS: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: x + 1,
    "sub": lambda x: x - 1,
    "mul": lambda x: x * 2,
    "neg": lambda x: -x,
    "lt": lambda x: x < 2,
    "matmul": lambda x: x @ x,
    "abs": abs,
    "relu": torch.relu,
    "clone": torch.clone,
}


@pytest.mark.parametrize("names", [(), ("exp",)], ids=["one name", "two names"])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("name", OPERATORS)
def test_methods_put_in_front_of_those_that_operators_run(name: str, first: bool, names: tuple[str, ...]) -> None:
    program = OPERATORS[name]
    framelift.reset()
    f = framelift.compile(program, backend="eager")
    want = program(X)
    if not first:
        assert torch.equal(f(X), want)
    for one in (name, *names):
        setattr(T, one, seven)
    try:
        wanted_now = program(X)
        assert torch.equal(f(X), wanted_now) and torch.equal(f(X), wanted_now)
    finally:
        for one in (name, *names):
            delattr(T, one)
    assert torch.equal(f(X), want)
