"""Writes to a tensor's memory by way of `detach` and `data`, beside operations that autograd differentiates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift


def before(w: torch.Tensor, x: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    w.detach().add_(x)
    return (w * 2).sum()


def between(w: torch.Tensor, x: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    y = (w * x).sum()
    w.detach().add_(x)
    return y + (w * 2).sum()


def saved_before(w: torch.Tensor, x: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    y = (w * w).sum()
    w.detach().add_(x)
    return y + (w * 2).sum()


def by_data(w: torch.Tensor, x: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    w.data.add_(x)
    return (w * w).sum()


def other_input(w: torch.Tensor, x: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    d.add_(x)
    return (w * w).sum()


def without_grad(w: torch.Tensor, x: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        w.add_(x)
    return (w * x).sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("of", [torch.Tensor.detach, lambda w: w.data])
@pytest.mark.parametrize("program", [before, between, saved_before, by_data, other_input, without_grad])
def test_values_and_gradients(program: Any, of: Callable[[torch.Tensor], torch.Tensor], backend: str) -> None:
    def run(fn: Any) -> list[Any]:
        w, rows = torch.ones(3, requires_grad=True), []
        for number in range(3):
            try:
                out = fn(w, torch.ones(3) + number, of(w))
                out.backward()
                assert w.grad is not None
                rows.append((out.item(), w.tolist(), w.grad.tolist()))
            except RuntimeError as error:  # autograd saved what was written since
                rows.append(("modified by an inplace operation" in str(error), w.tolist()))
        return rows

    assert run(framelift.compile(program, backend=backend)) == run(program)


#: tensors that the function makes, other names for their memory, writes through these, and what uses both afterwards
MADE = {
    "computed": "a = x * 1",
    "saved by its own backward": "a = x.exp()",
    "used before": "a = x * 2; used = a.sum() * 2",
    "saved before": "a = x * 2; used = a @ a",
    "input": "a = x",
    "without a history": "a = torch.ones(3, 3)",
}
NAMES = {
    "detach": "b = a.detach()",
    "data": "b = a.data",
    "row of detach": "b = a.detach()[0]",
    "detach of a row": "b = a[0].detach()",
    "view of data": "b = a.data.view(9)",
    "twice": "b = a.detach().detach()",
    "two of them": "b = a.detach(); c = a.detach()",
    "view": "b = (a * 1).view(9)",
}
WRITES = {
    "differentiated": "b.copy_((a @ a).flatten()[: b.numel()].view(b.shape))",
    "input added": "b.add_(x.flatten()[: b.numel()].view(b.shape))",
    "multiplied": "b.mul_(2)",
    "item": "b[0] = 0.25",
    "without grad": "with torch.no_grad(): b.mul_(2)",
}
USES = {
    "of the tensor": "o = torch.sin(a * -1)",
    "of both": "o = (a * a).sum() + (b * b).sum()",
    "written again": "a.detach().add_(1); o = a * a",
}
RESULTS = {"one": "return (o,)", "tensor": "return o, a", "both": "return o, a, b"}


def made_function(*parts: str, broken: str = "pass") -> Callable[[torch.Tensor], Any]:
    made, name, write, use, result = parts
    statements = [line.strip() for part in (made, name, broken, write, use, result) for line in part.split(";")]
    scope: dict[str, Any] = {"torch": torch, "framelift": framelift}
    exec("def function(x):\n " + "\n ".join(statements), scope)
    function: Callable[[torch.Tensor], Any] = scope["function"]
    return function


def outcomes(function: Callable[[torch.Tensor], Any]) -> list[Any]:
    """What two calls give, which results share memory, and what each result's backward gives."""
    found: list[Any] = []
    for number in range(2):
        x = (torch.arange(9.0).view(3, 3) / 10 + number).requires_grad_()
        try:
            results = function(x)
        except RuntimeError as error:
            found.append(str(error)[:80])
            continue
        found.append([(one.tolist(), one.requires_grad, one.is_leaf) for one in results])
        found.append(
            [one.untyped_storage()._cdata == two.untyped_storage()._cdata for one in results for two in results]
        )
        for one in results:
            x.grad = None
            try:
                if one.requires_grad:
                    one.sum().backward(retain_graph=True)
                found.append(None if x.grad is None else [round(n, 3) for n in x.grad.flatten().tolist()])
            except RuntimeError as error:
                found.append(str(error)[:60])
        found.append(x.tolist())
    return found


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("made", MADE)
def test_other_names_of_memory(made: str, name: str, write: str, use: str, result: str, backend: str) -> None:
    plain = made_function(MADE[made], NAMES[name], WRITES[write], USES[use], RESULTS[result])
    compiled = framelift.compile(plain, backend=backend)
    expected = outcomes(plain)
    assert outcomes(compiled) == expected
    if any(type(one) is str for one in expected):
        return  # plain Python raises, and compilers may refuse the graph
    assert not framelift.stats()["breaks"]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "view"])
def test_other_names_behind_a_break(name: str, write: str, backend: str) -> None:
    """A compiler gives `detach` of a result as a view made without grad mode, which refuses writes."""
    parts = MADE["computed"], NAMES[name], WRITES[write], USES["of the tensor"], RESULTS["both"]
    plain = made_function(*parts)
    broken = made_function(*parts, broken="framelift.graph_break()")
    assert outcomes(framelift.compile(broken, backend=backend)) == outcomes(plain)
