"""Functions of torch's that a program replaces between calls.

Torch's own Python code calls them while a graph is traced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import framelift
from support import compiled, counts

torch.manual_seed(0)
X = torch.linspace(-1, 1, 12).reshape(3, 4)
ATTENTION = torch.nn.MultiheadAttention(4, 2, batch_first=True).eval()
LAYER = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()

#: a program, and the function that is replaced: namespace and name
PROGRAMS = {
    "the function itself": (lambda x: F.relu(x), F, "relu"),
    "called by a module": (torch.nn.ReLU(), F, "relu"),
    "called by the function": (lambda x: F.relu(x), torch, "relu"),
    "a method called by the function": (lambda x: F.softmax(x, -1), torch.Tensor, "softmax"),
    "a method": (lambda x: x.mul(2), torch.Tensor, "mul"),
    "an operator": (lambda x: x * 2, torch.Tensor, "__mul__"),
    "a method behind an operator": (lambda x: 1 / x, torch.Tensor, "reciprocal"),
    "a method in Python": (lambda x: x.split(2, 1)[0] + 0, torch.Tensor, "split"),
    "another name of the function": (lambda x: F.gelu(x), torch._C._nn, "gelu"),
    "a function in C": (lambda x: F.hardtanh(x), torch._C._nn, "hardtanh"),
    "by way of _VF": (lambda x: F.threshold(x, 0, 0), torch._VF, "threshold"),
    "deep inside: linear": (lambda x: ATTENTION(x, x, x)[0], F, "linear"),
    "deep inside: softmax": (lambda x: ATTENTION(x, x, x)[0], F, "softmax"),
    "deep inside: normalization": (lambda x: LAYER(x[None]), torch, "layer_norm"),
    "of torch.functional": (lambda x: x.norm(), torch, "norm"),
    "of torch.linalg": (lambda x: torch.norm(x), torch.linalg, "vector_norm"),
    "in a loss": (lambda x: F.kl_div(x, x.abs(), reduction="sum"), torch, "kl_div"),
}


def plus_one(old: Any) -> Any:
    def replaced(*args: Any, **kwargs: Any) -> Any:
        result = old(*args, **kwargs)
        if isinstance(result, tuple):
            return tuple(one + 1 for one in result)
        return result + 1

    return replaced


@contextlib.contextmanager
def replaced(space: Any, name: str, by: Any) -> Iterator[None]:
    own, before = name in vars(space), vars(space).get(name)
    setattr(space, name, by)
    try:
        yield
    finally:
        if own:
            setattr(space, name, before)
        else:
            delattr(space, name)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_replaced_function_is_noticed(name, backend) -> None:
    function, space, attribute = PROGRAMS[name]
    framelift.reset()
    captured = compiled(function, backend=backend)
    expected = function(X)
    torch.testing.assert_close(captured(X), expected)
    with replaced(space, attribute, plus_one(getattr(space, attribute))):
        torch.testing.assert_close(captured(X), function(X))
        start = counts().captures
        torch.testing.assert_close(captured(X), function(X))
        assert counts().captures == start
    torch.testing.assert_close(captured(X), expected)
    assert counts().captures == start  # what was captured before serves again


def test_other_changes_of_the_namespaces_cost_nothing() -> None:
    captured = compiled(lambda x: F.relu(x) * 2)
    captured(X)
    start = counts().captures
    for space in (torch, F, torch.Tensor):
        with replaced(space, "something_new", plus_one):
            captured(X)
    with replaced(torch, "compile", torch.compile.__class__):
        captured(X)
    assert counts().captures == start


def counting(old: Any, calls: list[int]) -> Any:
    def replaced(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return plus_one(old)(*args, **kwargs)

    return replaced


#: where the replaced function must be called exactly as often as in eager mode, or not at all
COUNTED = {
    "a method behind softmax": (lambda x: F.softmax(x, -1), torch.Tensor, "softmax"),
    "a function behind relu": (lambda x: F.relu(x), torch, "relu"),
    "norm in normalize": (lambda x: F.normalize(x), torch.Tensor, "norm"),
    "two functions down": (lambda x: x.norm(), torch.linalg, "vector_norm"),
    "a function behind an operator": (lambda x: x // 2, torch, "floor_divide"),
    "in a module": (torch.nn.LayerNorm(4), torch, "layer_norm"),
    "not by the operator: mul": (lambda x: x * 2, torch.Tensor, "mul"),
    "not by the operator: add": (lambda x: x + 2, torch.Tensor, "add"),
    "not by the operator: div": (lambda x: x / 2, torch.Tensor, "div"),
    "by its name": (lambda x: x.mul(2).mul(3), torch.Tensor, "mul"),
    "a factory": (lambda x: x + torch.ones(4), torch, "ones"),
}


def _rows(name: str, when: str, wrap: Any) -> list[Any]:
    function, space, attribute = COUNTED[name]
    calls: list[int] = []
    by = counting(getattr(space, attribute), calls)

    def inside(x: torch.Tensor) -> Any:
        own, before = attribute in vars(space), vars(space).get(attribute)
        setattr(space, attribute, by)
        try:
            return function(x)
        finally:
            setattr(space, attribute, before) if own else delattr(space, attribute)

    target = wrap(inside if when == "inside" else function)
    rows = [(target(X).detach(), len(calls))] if when != "before" else []
    if when != "inside":
        with replaced(space, attribute, by):
            rows += [(target(X).detach(), len(calls)) for _ in range(2)]
    return [*rows, (target(X).detach(), len(calls))]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("when", ["before", "between", "inside"])
@pytest.mark.parametrize("name", COUNTED)
def test_a_replaced_function_is_called_as_in_eager_mode(name, when, backend) -> None:
    framelift.reset()
    wanted, given = _rows(name, when, lambda f: f), _rows(name, when, lambda f: framelift.compile(f, backend=backend))
    assert [count for _, count in given] == [count for _, count in wanted]
    torch.testing.assert_close([result for result, _ in given], [result for result, _ in wanted])
