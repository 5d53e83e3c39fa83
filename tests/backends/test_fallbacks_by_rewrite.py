"""Each rewrite of a graph (backends/rewrites.py), with a compiler that fails on what was made: the plain graph runs.

One warning names the rewrite, `stats()` counts it, the report shows it, and `config.strict` makes it an error.
Folded layers have a file of their own (test_fallbacks.py).
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.nn.parallel import DistributedDataParallel

import framelift
from framelift import config
from framelift.backends import warm_start
from framelift.exc import InternalError

CALL = torch.ops.higher_order.invoke_subgraph
SIZE = 512  # a weight has a megabyte, as the first bucket


class Refuses(CustomGraphPass):
    """A pass of Inductor that raises for graphs of which `is_refused` is true: (graph, whether it is a backward)."""

    def __init__(self, is_refused: Callable[[torch.fx.Graph, bool], bool]) -> None:
        self.is_refused = is_refused

    def __call__(self, graph: torch.fx.Graph) -> None:
        is_backward = any("tangents" in node.name for node in graph.find_nodes(op="placeholder"))
        if self.is_refused(graph, is_backward):
            raise NotImplementedError("no such graph")

    def uuid(self) -> Any:
        return None


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    framelift.reset()
    with config.patch(strict=False), torch._functorch.config.patch(enable_autograd_cache=False):
        yield
    framelift.reset()


@pytest.fixture
def group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def expect(compiled: Any, run: Callable[[Any], Any], plain: Any, name: str, times: int, words: str) -> None:
    """Run twice beside plain Python: the first run falls back so many times, the second one not at all."""
    for count in (times, 0):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made = run(compiled)
        torch.testing.assert_close(made, run(plain))
        told = [str(one.message) for one in caught if "framelift" in str(one.message)]
        assert len(told) == count and all(words in one for one in told), told
    assert framelift.stats()["fallbacks"] == {name: times}
    report = compiled.report()
    assert sum(len(one.fallbacks) for function in report.functions for one in function.captures) == times
    assert "backend failed otherwise" in str(report)


def products(graph: torch.fx.Graph) -> int:
    found = graph.find_nodes(op="call_function", target=torch.ops.aten.addmm.default)
    return len(found) + len(graph.find_nodes(op="call_function", target=torch.ops.aten.mm.default))


# ---- buckets of gradients --------------------------------------------------------------------------------------------


def sequential() -> nn.Module:
    return nn.Sequential(*(nn.Linear(SIZE, SIZE) for _ in range(4)))


def gradients(module: Any) -> list[torch.Tensor]:
    module.zero_grad()
    x = torch.randn(8, SIZE, generator=torch.Generator().manual_seed(0)).requires_grad_()
    result = module(x)
    result.pow(2).mean().backward()
    return [result, x.grad, *[parameter.grad.clone() for parameter in module.parameters()]]


def part_of_the_model(is_backward: bool) -> Callable[[torch.fx.Graph, bool], bool]:
    """Graphs of some layers: their forward, or their backward."""
    fewest = 8 if is_backward else 4
    return lambda graph, backward: backward is is_backward and 0 < products(graph) < fewest


@pytest.mark.slow
@pytest.mark.parametrize("is_backward", [False, True])
def test_gradient_buckets(group: None, is_backward: bool) -> None:
    module = sequential()
    plain = DistributedDataParallel(copy.deepcopy(module), bucket_cap_mb=1)
    wrapped = DistributedDataParallel(module, bucket_cap_mb=1)
    options = {"post_grad_custom_pre_pass": Refuses(part_of_the_model(is_backward))}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = framelift.compile(wrapped, options=options)
        torch.testing.assert_close(gradients(compiled), gradients(plain))
    told = [str(one.message) for one in caught if "framelift" in str(one.message)]
    assert told and all("one for each bucket of gradients" in one and "no such graph" in one for one in told)
    assert framelift.stats()["fallbacks"] == {"gradient buckets": len(told)}
    assert "backend failed otherwise" in str(compiled.report())
    torch.testing.assert_close(gradients(compiled), gradients(plain))
    assert framelift.stats()["fallbacks"] == {"gradient buckets": len(told)}


def test_gradient_buckets_are_strict(group: None) -> None:
    wrapped = DistributedDataParallel(sequential(), bucket_cap_mb=1)
    options = {"post_grad_custom_pre_pass": Refuses(part_of_the_model(False))}
    with config.patch(strict=True), pytest.raises(InternalError, match="bucket of gradients"):
        gradients(framelift.compile(wrapped, options=options))


# ---- equal runs ------------------------------------------------------------------------------------------------------


class Runs(nn.Module):
    """Equal runs of matrix products, for which Inductor generates no kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.eye(4) + torch.rand(4, 4) / 8 for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = torch.mm(torch.mm(x.t(), weight), weight)
        return x


@contextlib.contextmanager
def equal_runs() -> Iterator[None]:
    with config.patch(use_graph_deduplication=True, repeated_layers="off"):
        yield


def calls_runs(of_backward: tuple[bool, ...]) -> Refuses:
    return Refuses(
        lambda graph, backward: backward in of_backward and bool(graph.find_nodes(op="call_function", target=CALL))
    )


@pytest.mark.parametrize("of_backward, times", [((False,), 1), ((True,), 1), ((False, True), 2)])
def test_equal_runs(of_backward: tuple[bool, ...], times: int) -> None:
    model, x = Runs(), torch.rand(4, 4, requires_grad=True)

    def run(function: Any) -> list[torch.Tensor]:
        result = function(x)
        return [result, *torch.autograd.grad(result.sum(), [x, *model.parameters()])]

    with equal_runs():
        compiled = framelift.compile(model, options={"post_grad_custom_pre_pass": calls_runs(of_backward)})
        expect(compiled, run, model, "equal runs", times, "equal runs of operations were subgraphs")


def test_equal_runs_are_strict() -> None:
    with equal_runs(), config.patch(strict=True), pytest.raises(InternalError, match="equal runs"):
        framelift.compile(Runs(), options={"post_grad_custom_pre_pass": calls_runs((False,))})(torch.rand(4, 4))


# ---- floats ----------------------------------------------------------------------------------------------------------


class RefusesOnce(Refuses):
    """It raises for the first graph."""

    def __init__(self) -> None:
        super().__init__(lambda graph, backward: next(self.answers, False))
        self.answers = iter([True])


def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return torch.mm(x, x) * by


@pytest.mark.parametrize("strict", [False, True])
def test_floats(strict: bool) -> None:
    x, refuses = torch.rand(4, 4), RefusesOnce()
    compiled = framelift.compile(scaled, dynamic=True, options={"post_grad_custom_pre_pass": refuses})
    if strict:
        with config.patch(strict=True), pytest.raises(InternalError, match="floats that change"):
            compiled(x, 1.5)
        return
    expect(compiled, lambda f: f(x, 1.5), scaled, "floats", 1, "operations with floats that change")


# ---- loaded graphs ---------------------------------------------------------------------------------------------------


def squared(x: torch.Tensor) -> torch.Tensor:
    return torch.mm(x, x)


def _broken(*args: Any) -> Any:
    raise OSError("a library that is not there")


@pytest.mark.parametrize("strict", [False, True])
def test_loaded_graphs(monkeypatch: pytest.MonkeyPatch, strict: bool) -> None:
    """What an earlier process compiled was found, and fails when it runs."""
    monkeypatch.setattr(warm_start, "load", lambda *args: _broken)
    compiled, x = framelift.compile(squared), torch.rand(4, 4)
    if strict:
        with config.patch(strict=True), pytest.raises(InternalError, match="an earlier process compiled"):
            compiled(x)
        return
    expect(compiled, lambda f: f(x), squared, "loaded graph", 1, "an earlier process compiled")
