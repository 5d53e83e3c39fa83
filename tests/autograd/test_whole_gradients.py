"""Operators of the program whose gradient reads what tensors hold, beside those whose gradient can be traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import framelift

_SPACE = "whole_gradients_test"


def _forward(rows: Tensor, weight: Tensor, ends: Tensor, scale: float = 1.0) -> Tensor:
    out, start = rows.new_zeros(rows.size(0), weight.size(2)), 0
    for i, end in enumerate(ends.tolist()):
        out[start:end] = rows[start:end] @ weight[i] * scale
        start = end
    return out


def _setup(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], inputs[1])
    ctx.ends, ctx.scale = inputs[2], inputs[3]


def _reading(ctx: Any, grad: Tensor) -> Any:
    rows, weight = ctx.saved_tensors
    of_rows, of_weight, start = torch.zeros_like(rows), torch.zeros_like(weight), 0
    for i, end in enumerate(ctx.ends.tolist()):
        of_rows[start:end] = grad[start:end] @ weight[i].T * ctx.scale
        of_weight[i] = rows[start:end].T @ grad[start:end] * ctx.scale
        start = end
    needs = ctx.needs_input_grad
    return of_rows if needs[0] else None, of_weight if needs[1] else None, None, None


grouped = torch.library.custom_op(
    f"{_SPACE}::grouped",
    _forward,
    mutates_args=(),
    schema="(Tensor rows, Tensor weight, Tensor ends, float scale=1.0) -> Tensor",
)
grouped.register_fake(lambda rows, weight, ends, scale=1.0: rows.new_empty(rows.size(0), weight.size(2)))
grouped.register_autograd(_reading, setup_context=_setup)


@torch.library.custom_op(f"{_SPACE}::parts", mutates_args=())
def parts(x: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
    """Two results, whose gradients need not both be there."""
    count = int(ends[0])
    return x * count, x + count


@parts.register_fake
def _(x: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(x)


def _parts_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.set_materialize_grads(False)
    ctx.ends, ctx.shape = inputs[1], output[0].shape


def _parts_backward(ctx: Any, first: Any, second: Any) -> Any:
    found = torch.zeros(ctx.shape)
    if first is not None:
        found = found + first * int(ctx.ends[0])
    return found + second if second is not None else found, None


parts.register_autograd(_parts_backward, setup_context=_parts_setup)


@torch.library.custom_op(f"{_SPACE}::itself", mutates_args=())
def itself(x: Tensor, ends: Tensor) -> Tensor:
    """Its gradient is the gradient that it is given, no copy."""
    return x.clone()


itself.register_fake(lambda x, ends: torch.empty_like(x))
itself.register_autograd(
    lambda ctx, grad: (grad if ctx.saved_tensors[0].tolist() else grad * 0, None),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[1]),
)


def _call(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    return torch.ops.whole_gradients_test.grouped(x * 2, weight, ends).relu() * 3


def _named(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    return torch.ops.whole_gradients_test.grouped.default(x.T.contiguous().T, weight, ends, scale=2.0).sin()


def _both(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    first, second = parts(x, ends)
    return grouped(first + second, weight, ends) + parts(x, ends)[1].sum()


def _through(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    return itself(itself(x.T, ends).T.exp(), ends) @ itself(weight[0], ends)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("function", [_call, _named, _both, _through])
@pytest.mark.parametrize("needs", [(True, True), (True, False), (False, True)])
def test_gradients_are_those_of_eager(function: Callable[..., Tensor], backend: str, needs: Any) -> None:
    if backend == "inductor" and function is not _call:
        pytest.skip("one function is enough to see that Inductor calls the operator")
    compiled = framelift.compile(function, backend=backend, fullgraph=True)
    for rows in (6, 6, 9):
        ends = torch.tensor([2, 2, rows])
        tensors = torch.randn(rows, 4, requires_grad=needs[0]), torch.randn(3, 4, 5, requires_grad=needs[1])
        wanted = [one for one in tensors if one.requires_grad]
        expected, found = function(*tensors, ends), compiled(*tensors, ends)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(
            torch.autograd.grad(found.sum(), wanted), torch.autograd.grad(expected.sum(), wanted)
        )
    assert framelift.stats()["breaks"] == {} and framelift.stats()["captures"] == 2


def _operators_of_the_backward(function: Callable[..., Tensor], *args: Tensor) -> list[str]:
    graphs: list[Any] = []

    def keep(graph_module: Any, _inputs: Any) -> Any:
        graphs.append(graph_module)
        return graph_module.forward

    framelift.compile(function, backend=framelift.aot_autograd(fw_compiler=keep))(*args).sum().backward()
    return [str(node.target) for node in graphs[-1].graph.nodes if node.op == "call_function"]


def test_a_gradient_that_can_be_traced_is_traced() -> None:
    plain = torch.library.custom_op(f"{_SPACE}::twice", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    plain.register_fake(torch.empty_like)
    plain.register_autograd(lambda ctx, grad: grad * 2)
    x = torch.ones(3, requires_grad=True)
    assert "aten.mul.Tensor" in _operators_of_the_backward(lambda x: plain(x), x)
    args = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4, 5), torch.tensor([1, 2, 3])
    assert any("framelift_gradients" in one for one in _operators_of_the_backward(_call, *args))


def test_the_definition_is_as_it_was_afterwards() -> None:
    x, weight = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4, 5)
    framelift.compile(_call, backend="aot_eager")(x, weight, torch.tensor([1, 2, 3])).sum().backward()
    assert grouped._backward_fn is _reading and grouped._setup_context_fn is _setup


def test_a_gradient_that_the_formula_leaves_out_is_an_error() -> None:
    made = torch.library.custom_op(
        f"{_SPACE}::none", lambda x, n: x.clone(), mutates_args=(), schema="(Tensor x, Tensor n) -> Tensor"
    )
    made.register_fake(lambda x, n: torch.empty_like(x))
    made.register_autograd(lambda ctx, grad: (grad if ctx.n.item() else None, None), setup_context=_keep_second)
    compiled = framelift.compile(lambda x, n: made(x, n) * 2, backend="aot_eager")
    x = torch.ones(3, requires_grad=True)
    compiled(x, torch.tensor(1)).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="gave no gradient for an input that needs one"):
        compiled(x, torch.tensor(0)).sum().backward()


def _keep_second(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.n = inputs[1]
