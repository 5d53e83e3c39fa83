"""A backend that fails on what framelift made of a graph gets the graph as it was captured, forward and backward.

The layers are matrix products alone, for which Inductor generates no kernel: nothing waits for a C++ compiler.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor.custom_graph_pass import CustomGraphPass

import framelift
from framelift import config
from framelift.exc import InternalError

CALL = torch.ops.higher_order.invoke_subgraph


class Products(nn.Module):
    """Equal layers of matrix products and transposes."""

    def __init__(self, layers: int = 3) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.eye(4) + torch.rand(4, 4) / 8 for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.mm(x, self.weights[0])
        for weight in self.weights:
            x = torch.mm(torch.mm(torch.mm(x.t(), weight), weight), weight)
            x = torch.mm(torch.mm(x.t().t(), weight), weight)
        return x


class Refuses(CustomGraphPass):
    """A pass of Inductor that raises for graphs with calls of layers."""

    def __init__(self, forward: bool, backward: bool) -> None:
        self.refused = {False: forward, True: backward}
        self.seen: list[tuple[bool, int]] = []

    def __call__(self, graph: torch.fx.Graph) -> None:
        is_backward = any("tangents" in node.name for node in graph.find_nodes(op="placeholder"))
        calls = len(graph.find_nodes(op="call_function", target=CALL))
        products = graph.find_nodes(op="call_function", target=torch.ops.aten.mm.default)
        if calls or len(products) > 12:  # not a layer
            self.seen.append((is_backward, calls))
        if calls and self.refused[is_backward]:
            raise NotImplementedError("no graphs with layers")

    def uuid(self) -> Any:
        return None


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Any) -> Iterator[None]:
    framelift.reset()
    off = torch._functorch.config.patch(enable_autograd_cache=False)
    with config.patch(strict=False, repeated_layers="auto"), off:
        yield
    framelift.reset()


def step(f: Any, model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    result = f(x)
    return [result, *torch.autograd.grad(result.sin().sum(), [x, *model.parameters()])]


def compare(model: nn.Module, compiled: Any, x: torch.Tensor) -> list[str]:
    """Compare a step of training with eager.  The warnings of framelift."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = step(compiled, model, x)
    for a, b in zip(step(model, model, x), made, strict=True):
        torch.testing.assert_close(b, a)
    return [str(one.message) for one in caught if "framelift" in str(one.message)]


@pytest.mark.parametrize(
    "forward, backward, count", [(False, False, 0), (True, False, 1), (False, True, 1), (True, True, 2)]
)
def test_layers_that_inductor_refuses_are_compiled_plainly(forward, backward, count):
    refuses = Refuses(forward, backward)
    model, x = Products(), torch.rand(4, 4, requires_grad=True)
    compiled = framelift.compile(model, options={"post_grad_custom_pre_pass": refuses})
    told = compare(model, compiled, x)
    assert len(told) == count and all("equal layers" in one and "no graphs with layers" in one for one in told)
    assert framelift.stats()["fallbacks"] == ({"folded layers": count} if count else {})
    tried = [is_backward for is_backward, calls in refuses.seen if calls]
    assert tried == [False, True]  # the backward is tried with layers whatever became of the forward
    again = [is_backward for is_backward, calls in refuses.seen if not calls]
    assert again == [False] * forward + [True] * backward
    assert compare(model, compiled, x) == []  # and nothing is compiled again
    assert framelift.stats()["captures"] == 1 and framelift.stats()["breaks"] == {}
    (capture,) = [one for function in compiled.report().functions for one in function.captures]
    assert len(capture.fallbacks) == count and ("backend failed otherwise" in str(compiled.report())) == bool(count)


def test_strict_raises_instead():
    model, x = Products(), torch.rand(4, 4, requires_grad=True)
    with config.patch(strict=True):
        compiled = framelift.compile(model, options={"post_grad_custom_pre_pass": Refuses(False, True)})
        result = compiled(x)
        with pytest.raises(InternalError, match="equal layers"):
            result.sum().backward()
        framelift.reset()
        with pytest.raises(InternalError, match="equal layers"):
            framelift.compile(model, options={"post_grad_custom_pre_pass": Refuses(True, False)})(x)


def test_inference_that_inductor_refuses_is_compiled_plainly():
    refuses = Refuses(True, True)
    model, x = Products(), torch.rand(4, 4)
    with torch.no_grad(), pytest.warns(UserWarning, match="equal layers were one subgraph: .*no graphs with layers"):
        made = framelift.compile(model, options={"post_grad_custom_pre_pass": refuses})(x)
        torch.testing.assert_close(made, model(x))
    assert refuses.seen == [(False, 3), (False, 0)]


class RefusesAll(Refuses):
    """A pass that raises for each backward."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        if any("tangents" in node.name for node in graph.find_nodes(op="placeholder")):
            raise NotImplementedError("no backward")


def test_a_backward_that_inductor_refuses_twice_runs_operation_by_operation():
    model, x = Products(), torch.rand(4, 4, requires_grad=True)
    compiled = framelift.compile(model, options={"post_grad_custom_pre_pass": RefusesAll(False, False)})
    told = compare(model, compiled, x)
    assert len(told) == 1 and "operation by operation" in told[0]
    assert compare(model, compiled, x) == []


def test_errors_of_graphs_that_were_not_rewritten_are_the_backends():
    model, x = Products(1), torch.rand(4, 4, requires_grad=True)
    compiled = framelift.compile(model, options={"post_grad_custom_pre_pass": RefusesAll(False, False)})
    with pytest.raises(Exception, match="no backward"):
        compiled(x).sum().backward()
    assert framelift.stats()["fallbacks"] == {}


# ---- runs that fail --------------------------------------------------------------------------------------------------

_failing: dict[str, int] = {"forward": 0, "backward": 0}


@torch.library.custom_op("framelift_test_fallbacks::forward", mutates_args=())
def forward_op(x: torch.Tensor) -> torch.Tensor:
    if _failing["forward"]:
        _failing["forward"] -= 1
        raise RuntimeError("a kernel that cannot be launched")
    return x.clone()


@torch.library.custom_op("framelift_test_fallbacks::backward", mutates_args=())
def backward_op(gradient: torch.Tensor) -> torch.Tensor:
    if _failing["backward"]:
        _failing["backward"] -= 1
        raise RuntimeError("a kernel that cannot be launched")
    return gradient.clone()


forward_op.register_fake(lambda x: torch.empty_like(x))
backward_op.register_fake(lambda gradient: torch.empty_like(gradient))
forward_op.register_autograd(lambda ctx, gradient: backward_op(gradient))


class Inserts(CustomGraphPass):
    """A pass of Inductor that lets the graphs with calls of layers begin with such an operation."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        if graph.find_nodes(op="call_function", target=CALL):
            given = graph.find_nodes(op="placeholder")
            is_backward = any("tangents" in node.name for node in given)
            changed = given[-1]
            with graph.inserting_after(changed):
                made = graph.call_function((backward_op if is_backward else forward_op)._opoverload, (changed,))
                made.meta.update(changed.meta)
            changed.replace_all_uses_with(made, delete_user_cb=lambda user: user is not made)

    def uuid(self) -> Any:
        return None


@pytest.mark.parametrize("which", ["forward", "backward"])
def test_a_first_run_that_fails(which):
    model, x = Products(), torch.rand(4, 4, requires_grad=True)
    compiled = framelift.compile(model, options={"post_grad_custom_pre_pass": Inserts()})
    _failing[which] = 1000
    try:
        told = compare(model, compiled, x)
        assert len(told) == 1 and "cannot be launched" in told[0] and "first run" in told[0]
        assert framelift.stats()["fallbacks"] == {"folded layers": 1}
        assert compare(model, compiled, x) == []
    finally:
        _failing[which] = 0
    assert framelift.stats()["fallbacks"] == {"folded layers": 1}


def test_what_the_program_raises_is_the_programs():
    class WithOp(Products):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(forward_op(x))

    model, x = WithOp(), torch.rand(4, 4, requires_grad=True)
    compiled = framelift.compile(model)
    _failing["forward"] = 1000
    try:
        with pytest.raises(RuntimeError, match="cannot be launched"):
            compiled(x)
    finally:
        _failing["forward"] = 0
    assert framelift.stats()["fallbacks"] == {}
