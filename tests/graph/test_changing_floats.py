"""Floats that change from call to call, with backends that compile.

Captured and compiled for the first value and once more, not for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_leaves

import framelift

ONE: dict[str, Callable[..., Any]] = {
    "add": lambda x, y, s: torch.add(x, y, alpha=s),
    "add a number": lambda x, y, s: (torch.add(x, s, alpha=2), x.sub(s * 3, alpha=0.5)),
    "add in place": lambda x, y, s: x.clone().add_(y, alpha=-s),
    "sub": lambda x, y, s: x.sub(y, alpha=s),
    "rsub": lambda x, y, s: (torch.rsub(x, s, alpha=3), torch.rsub(x, y, alpha=s), s - x),
    "terms": lambda x, y, s: (x + s, s * y, x / s, s / (y + 9)),
    "addcmul": lambda x, y, s: torch.addcmul(x, y, y, value=s),
    "addcdiv": lambda x, y, s: x.clone().addcdiv_(x, y + 9, value=-s),
    "pow": lambda x, y, s: (s**x, (x.abs() + 1) ** s),
    "div": lambda x, y, s: torch.div(x, s, rounding_mode="floor"),
    "clamp": lambda x, y, s: (x.clamp(-s, s), x.clamp_min(s), y.clamp_max(s)),
    "fill": lambda x, y, s: (torch.full((3,), s), torch.full_like(x, s), y.clone().fill_(s), torch.tensor(s) * x),
    "where": lambda x, y, s: (torch.where(x > 0, x, s), x.masked_fill(y > 0, s)),
    "activations": lambda x, y, s: (F.leaky_relu(x, s), F.elu(y, s), F.softplus(x, s), F.threshold(y, s, 7.0)),
    "matrices": lambda x, y, s: (
        torch.addmm(x[None], x[:, None], y[None], alpha=s),
        torch.addr(x[None], x, y, beta=s, alpha=s),
    ),
    "compare": lambda x, y, s: (x > s, y <= s),
}
LISTS: dict[str, Callable[..., Any]] = {
    "arithmetic": lambda x, y, s: (
        torch._foreach_mul([x, y], s),
        torch._foreach_add([x, y], s),
        torch._foreach_sub([x, y], s),
        torch._foreach_div([x, y], s),
    ),
    "alpha": lambda x, y, s: (torch._foreach_add([x, y], [y, x], alpha=s), torch._foreach_sub([x, y], [y, x], alpha=s)),
    "added": lambda x, y, s: (
        torch._foreach_addcmul([x, y], [x, x], [y, y], value=s),
        torch._foreach_addcdiv([x, y], [x, x], [y + 9, y + 9], value=s),
    ),
    "pow": lambda x, y, s: (torch._foreach_pow(s, [x, y]), torch._foreach_pow([x.abs(), y.abs()], s)),
    "one for each": lambda x, y, s: (
        torch._foreach_mul([x, y], [s, 2 * s]),
        torch._foreach_addcdiv([x, y], [x, x], [y + 9, y + 9], [s, -s]),
    ),
    "extremes": lambda x, y, s: (torch._foreach_maximum([x, y], s), torch._foreach_clamp_max([x, y], s)),
    "without dimensions": lambda x, y, s: torch._foreach_mul([x.sum(), y.sum()], s),
    "of two types": lambda x, y, s: (
        torch._foreach_mul([x, y.double()], s),
        torch._foreach_lerp([x, y.double()], [y, x.double()], s / 4),
    ),
}
#: an older torch follows no calculation in a graph, and `add(x, s, alpha=2)` has one
CAPTURES = {"add a number": 2 if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 13) else 5}
FLOATS = [0.3, 0.9, 0.45, 0.6, 0.1]


def compared(
    f: Callable[..., Any], backend: Any, dtype: torch.dtype, floats: list[float], captures: int, grad: bool = False
) -> None:
    """The results of `f`, plain and captured, for these floats."""
    framelift.reset()
    compiled = framelift.compile(f, backend=backend, fullgraph=True)
    for n, s in enumerate(floats):
        torch.manual_seed(n)
        x, y = torch.randn(3).to(dtype).requires_grad_(grad), torch.randn(3).to(dtype)
        for want, got in zip(tree_leaves(f(x, y, s)), tree_leaves(compiled(x, y, s)), strict=True):
            torch.testing.assert_close(got, want)
            if grad and want.requires_grad:
                torch.testing.assert_close(
                    *[torch.autograd.grad(one.sum(), x, retain_graph=True)[0] for one in (got, want)]
                )
    assert framelift.stats()["captures"] <= captures


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", [*ONE, *("list, " + name for name in LISTS)])
def test_operators_with_a_number(name: str, dtype: torch.dtype) -> None:
    compared(
        LISTS[name.removeprefix("list, ")] if name.startswith("list, ") else ONE[name],
        "aot_eager",
        dtype,
        FLOATS,
        CAPTURES.get(name, 2),
    )


@pytest.mark.parametrize("name", ["add", "add a number", "addcmul", "addcdiv", "clamp", "where", "activations"])
def test_gradients(name: str) -> None:
    compared(ONE[name], "aot_eager", torch.float32, FLOATS, CAPTURES.get(name, 2), grad=True)


def test_narrow_types_are_computed_as_kernels_do() -> None:
    for name in ("addcmul", "addcdiv", "clamp", "div", "fill", "where"):
        compared(ONE[name], "aot_eager", torch.bfloat16, FLOATS, 2)


@pytest.mark.parametrize("strict", [False, True])
def test_calculations_are_those_of_python(strict: bool) -> None:
    """Symbolic algebra would take terms away, reorder factors, divide before it rounds and lose signs of zeros."""

    def f(x, p):
        q = p + 1e20
        numbers = [q - 1e20, p + 0.1 + 0.2, p + 0.0, p * 3 / 3, p - p, p * 0]
        numbers += [p // 0.1, p // 3, -p // 5, divmod(p, 3)[0], p % 3, p % -3, p % 0.1, 5.5 // (p + 9)]
        numbers += [p**2, (p - 1) ** 3, abs(p) ** 0.5, round(p, 1), math.floor(p), math.cos(p)]
        return [x * one for one in numbers]

    framelift.reset()
    with framelift.config.patch(strict=strict):
        compiled = framelift.compile(f, backend="aot_eager", fullgraph=True)
        for p in (2.5, -3.5, 5.5, 3.5, -7.25, 0.0, -0.0, 0.3, -0.7):
            x = torch.arange(1.0, 4.0)
            assert repr(compiled(x, p)) == repr(f(x, p)), p


def test_between_two_tensors() -> None:
    """Which half of the way is a fact: kernels start from the nearer end."""
    compared(
        lambda x, y, s: (torch.lerp(x, y, s), torch._foreach_lerp([x], [y], s)),
        "aot_eager",
        torch.float32,
        [0.3, 0.45, 0.1, 0.6, 0.9, 1.0, 0.2],
        3,
    )


def test_inductor() -> None:
    compared(
        lambda x, y, s: (
            torch.add(x, y, alpha=s),
            torch.addcdiv(x, x, y + 9, value=s),
            torch._foreach_mul([x, y], s),
            s**y,
            torch.add(x, s, alpha=2),
        ),
        "inductor",
        torch.float32,
        FLOATS,
        2,
    )


def test_another_compiler_loses_no_alpha() -> None:
    """AOTAutograd by itself makes tensors of floats, and forgets what they are multiplied by."""
    from torch._functorch.aot_autograd import aot_module_simplified

    def backend(graph_module: Any, examples: Any) -> Any:
        return aot_module_simplified(graph_module, examples, fw_compiler=lambda graph, _: graph.forward)

    compared(ONE["add a number"], backend, torch.float32, FLOATS, CAPTURES["add a number"])


def test_only_what_a_compiler_cannot_follow_is_a_constant() -> None:
    def f(x, eps, factor):
        return torch.nn.functional.layer_norm(x, (4,), eps=eps) * factor

    framelift.reset()
    compiled = framelift.compile(f, backend="aot_eager")
    for eps, factor in ((0.1, 2.0), (0.2, 3.0), (0.2, 4.0), (0.2, 5.0), (0.3, 6.0), (0.3, 7.0)):
        x = torch.randn(4)
        torch.testing.assert_close(compiled(x, eps, factor), f(x, eps, factor))
    assert framelift.stats()["captures"] == 3  # one for each eps


def test_types_of_results() -> None:
    def f(x, y, s):
        wide = x.double().sum()
        return (
            torch.add(wide, y, alpha=s),
            torch.addcmul(wide, y, y, value=s),
            torch.full((2,), s * 5, dtype=torch.int64),
            torch.full((2,), s, dtype=torch.float64),
            torch.clamp(torch.arange(4), max=s * 5),
            torch.full_like(torch.arange(3), s * 5),
            torch.add(x, other=y, alpha=s),
            s ** torch.arange(3),
        )

    compared(f, "aot_eager", torch.float32, FLOATS, 5)


@pytest.mark.parametrize("name", ["add", "sub", "rsub", "addcmul", "masked_fill"])
def test_whole_numbers_raise_as_ever(name: str) -> None:
    """Kernels take no float beside whole numbers here."""

    def f(n, s):
        others = {
            "add": ((n,), {"alpha": s}),
            "sub": ((n,), {"alpha": s}),
            "rsub": ((n > 0, s), {}),
            "addcmul": ((n, n), {"value": s}),
            "masked_fill": ((n > 0, s), {}),
        }
        args, kwargs = others[name]
        return torch.rsub(*args) if name == "rsub" else getattr(torch, name)(n, *args, **kwargs)

    def outcome(function: Any, s: float) -> Any:
        try:
            return function(torch.arange(3), s).tolist()
        except RuntimeError as error:
            return str(error).splitlines()[0][:40]

    compiled = framelift.compile(f, backend="aot_eager")
    for s in (0.5, 0.25, 0.75):
        assert outcome(compiled, s) == outcome(f, s)


def test_a_float_by_name_keeps_its_alpha() -> None:
    compared(
        lambda x, y, s: torch.add(x, other=s, alpha=2) + x.sub(other=s, alpha=3),
        "aot_eager",
        torch.float32,
        FLOATS,
        CAPTURES["add a number"],
    )


def test_a_class_of_numbers_whose_reflected_methods_decline() -> None:
    class Number(float):
        def __radd__(self, other):
            return NotImplemented

        def __rmul__(self, other):
            return 99

    class Whole(int):
        __radd__ = Number.__radd__
        __rsub__ = Number.__rmul__

    def program(x, n):
        try:
            return x + 1, n + Number(2.0), n * Number(2.0), n + Whole(2), n - Whole(2), n**0.5
        except TypeError as error:
            return x, str(error)

    compiled = framelift.compile(program, backend="eager", fullgraph=True, recompile_limit=20)
    for n in (1.5, 2.5, 3.5, 1, 2, 3):
        assert compiled(torch.ones(2), n)[1:] == program(torch.ones(2), n)[1:]
