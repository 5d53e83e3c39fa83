"""Hooks and backwards run after the frame: they see what is true then, not what was true in the forward."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import framelift

THIS = sys.modules[__name__]
FACTOR = 2.0
FACTOR_TENSOR = torch.tensor(2.0)
TABLE = {"k": 2.0}


class Settings:
    k = 2.0
    table = {"k": 2.0}


class Box:
    def __init__(self, k: Any) -> None:
        self.k = k

    def scaled(self, grad: torch.Tensor) -> torch.Tensor:
        return grad * self.k


class Plain:
    def scaled(self, grad: torch.Tensor) -> torch.Tensor:
        return grad * FACTOR


def by_global(grad: torch.Tensor) -> torch.Tensor:
    return grad * FACTOR


class Helpers:
    @staticmethod
    def scale(grad: torch.Tensor) -> torch.Tensor:
        return grad * FACTOR


class Kept(torch.autograd.Function):
    """`scale(kept, grad)` is what the backward gives."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, kept: Any, scale: Any) -> torch.Tensor:
        ctx.kept, ctx.scale = kept, scale
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return ctx.scale(ctx.kept, grad), None, None


Program = Callable[[torch.Tensor], Any]


def by_hook(kept: Any, scale: Callable[[Any, torch.Tensor], torch.Tensor]) -> Program:
    def fn(x: torch.Tensor) -> Any:
        y = x * 2
        y.register_hook(lambda grad: scale(kept, grad))
        return y.sum()

    return fn


def by_default(kept: Any, scale: Callable[[Any, torch.Tensor], torch.Tensor]) -> Program:
    def fn(x: torch.Tensor, given: Any = kept) -> Any:
        y = x * 2
        y.register_hook(lambda grad, given=given: scale(given, grad))
        return y.sum()

    return fn


def by_backward(kept: Any, scale: Callable[[Any, torch.Tensor], torch.Tensor]) -> Program:
    return lambda x: Kept.apply(x, kept, scale).sum()


WAYS = {"hook": by_hook, "default": by_default, "backward": by_backward}


def put_factor(value: float) -> None:
    THIS.FACTOR = value  # type: ignore[attr-defined]


def put_tensor(value: float) -> None:
    THIS.FACTOR_TENSOR = torch.tensor(value)  # type: ignore[attr-defined]


#: what is read, how, and how it is set
READS: dict[str, tuple[Callable[[], Any], Callable[[Any, Any], Any], Callable[[Any, float], Any]]] = {
    "dict": (lambda: {"k": 2.0}, lambda kept, grad: grad * kept["k"], lambda kept, v: kept.update(k=v)),
    "list": (lambda: [2.0], lambda kept, grad: grad * kept[0], lambda kept, v: kept.__setitem__(0, v)),
    "set": (lambda: {2.0}, lambda kept, grad: grad * sum(kept), lambda kept, v: (kept.clear(), kept.add(v))),
    "nested": (lambda: ([{"k": 2.0}],), lambda kept, g: g * kept[0][0]["k"], lambda kept, v: kept[0][0].update(k=v)),
    "object": (lambda: Box(2.0), lambda kept, grad: grad * kept.k, lambda kept, v: setattr(kept, "k", v)),
    "method": (lambda: Box(2.0), lambda kept, grad: kept.scaled(grad), lambda kept, v: setattr(kept, "k", v)),
    "namespace": (lambda: SimpleNamespace(k=2.0), lambda kept, g: g * kept.k, lambda kept, v: setattr(kept, "k", v)),
    "inside an object": (lambda: Box([2.0]), lambda kept, g: g * kept.k[0], lambda kept, v: kept.k.__setitem__(0, v)),
    "global": (lambda: None, lambda kept, grad: grad * FACTOR, lambda kept, v: put_factor(v)),
    "global tensor": (lambda: None, lambda kept, grad: grad * FACTOR_TENSOR, lambda kept, v: put_tensor(v)),
    "global dict": (lambda: None, lambda kept, grad: grad * TABLE["k"], lambda kept, v: TABLE.update(k=v)),
    "class": (lambda: None, lambda kept, grad: grad * Settings.k, lambda kept, v: setattr(Settings, "k", v)),
    "table of a class": (
        lambda: None,
        lambda kept, grad: grad * Settings.table["k"],
        lambda kept, v: Settings.table.update(k=v),
    ),
    "module": (lambda: None, lambda kept, grad: grad * THIS.FACTOR, lambda kept, v: put_factor(v)),
    "function": (lambda: None, lambda kept, grad: by_global(grad), lambda kept, v: put_factor(v)),
    "static method": (lambda: None, lambda kept, grad: Helpers.scale(grad), lambda kept, v: put_factor(v)),
    "function of a module": (lambda: None, lambda kept, grad: THIS.by_global(grad), lambda kept, v: put_factor(v)),
    "method of a class": (Plain, lambda kept, grad: kept.scaled(grad), lambda kept, v: put_factor(v)),
}


def follow(made: Program, put: Callable[[float], Any], wrap: Callable[[Program], Program]) -> list[Any]:
    fn, rows = wrap(made), []
    for number in range(3):
        put(2.0)
        x = torch.ones(2, requires_grad=True)
        out = fn(x)
        put(5.0 + number)
        out.backward()
        assert x.grad is not None
        rows.append(x.grad.tolist())
    return rows


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", READS)
def test_external_values(name: str, way: str, backend: str) -> None:
    make, scale, put = READS[name]

    def run(wrap: Callable[[Program], Program]) -> list[Any]:
        kept = make()
        return follow(WAYS[way](kept, scale), lambda value: put(kept, value), wrap)

    expected = run(lambda fn: fn)
    assert run(lambda fn: framelift.compile(fn, backend=backend)) == expected
    assert expected[0] == ([5.0, 5.0] if way == "backward" else [10.0, 10.0])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_variable_of_an_enclosing_function(backend: str) -> None:
    def run(wrap: Callable[[Program], Program]) -> list[Any]:
        k = 2.0

        def fn(x: torch.Tensor) -> Any:
            y = x * 2
            y.register_hook(lambda grad: grad * k)
            return y.sum()

        def put(value: float) -> None:
            nonlocal k
            k = value

        return follow(fn, put, wrap)

    assert run(lambda fn: framelift.compile(fn, backend=backend)) == run(lambda fn: fn)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_tensor_that_is_written(backend: str) -> None:
    def run(wrap: Callable[[Any], Any], by_hook: bool) -> list[Any]:
        mask = torch.tensor(2.0)

        def hooked(x: torch.Tensor, mask: torch.Tensor) -> Any:
            y = x * 2
            y.register_hook(lambda grad: grad * mask)
            return y.sum()

        fn = hooked if by_hook else lambda x, mask: Kept.apply(x, [mask], lambda kept, grad: grad * kept[0]).sum()
        return follow(lambda x: fn(x, mask), mask.fill_, lambda made: wrap(made))

    assert run(lambda fn: framelift.compile(fn, backend=backend), True) == run(lambda fn: fn, True)


def leaves_by_result(x: torch.Tensor, out: list[Any], way: str) -> Any:
    made = {"k": 2.0}
    return applied(x, made, way), made


def leaves_by_effect(x: torch.Tensor, out: list[Any], way: str) -> Any:
    made = {"k": 2.0}
    out[0] = [made]
    return applied(x, made, way), None


def leaves_by_closure(x: torch.Tensor, out: list[Any], way: str) -> Any:
    made = {"k": 2.0}
    return applied(x, made, way), lambda: made


def applied(x: torch.Tensor, made: dict[str, float], way: str) -> torch.Tensor:
    if way == "backward":
        return Kept.apply(x, made, lambda kept, grad: grad * kept["k"]).sum()  # type: ignore[no-any-return]
    y = x * 2
    y.register_hook(lambda grad: grad * made["k"])
    return y.sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("way", ["hook", "backward"])
@pytest.mark.parametrize("leaves", [leaves_by_result, leaves_by_effect, leaves_by_closure])
def test_what_is_made_inside_and_leaves(leaves: Any, way: str, backend: str) -> None:
    def run(wrap: Callable[[Any], Any]) -> list[Any]:
        fn, out, rows = wrap(lambda x, out: leaves(x, out, way)), [None], []
        for number in range(3):
            x = torch.ones(2, requires_grad=True)
            result, found = fn(x, out)
            made: Any = out[0][0] if out[0] else found() if callable(found) else found  # type: ignore[index]
            made["k"] = 5.0 + number
            result.backward()
            assert x.grad is not None
            rows.append(x.grad.tolist())
        return rows

    assert run(lambda fn: framelift.compile(fn, backend=backend)) == run(lambda fn: fn)


def test_what_stays_inside_is_captured() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        factors, scale = [2.0, 3.0], x.size(0)
        y = x * 2
        y.register_hook(lambda grad: grad * factors[0] * scale)
        return Kept.apply(y, (4.0, factors), lambda kept, grad: grad * kept[0] * kept[1][1]).sum()  # type: ignore

    framelift.reset()
    rows = []
    for run in (fn, framelift.compile(fn, backend="aot_eager", fullgraph=True)):
        x = torch.ones(2, requires_grad=True)
        run(x).backward()
        assert x.grad is not None
        rows.append(x.grad.tolist())
    assert rows[0] == rows[1] and framelift.stats()["graphs"] == 1
