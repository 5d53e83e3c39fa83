"""Calls of folded layers whose operands have other strides than those of the first call, compiled and run by Inductor.

On the CPU Inductor lets convolutions give channels-last results, which the backward of the first layer is then given,
while those of the others get results of layers.  The layers are convolutions and products, without generated kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import framelift
from framelift import config


class Convolutions(nn.Module):
    """A layer of convolutions, with a view of what one of them gives, which the backward needs too."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Parameter(torch.rand(8, 8, 3, 3) / 32), nn.Parameter(torch.rand(8, 8, 1, 1) / 4)
        self.mixing = nn.Parameter(torch.rand(2, 8, 8) / 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.conv2d(functional.conv2d(x, self.wide, padding=1), self.narrow)
        x = torch.bmm(self.mixing, x.flatten(2)).view(2, 8, 6, 6)
        x = functional.conv2d(functional.conv2d(x, self.wide, padding=1), self.wide, padding=1)
        return functional.conv2d(functional.conv2d(x, self.narrow), self.narrow)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 1, bias=False)
        self.layers = nn.Sequential(*(Convolutions() for _ in range(3)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(self.stem(x))


@pytest.fixture(autouse=True)
def _uncached() -> Iterator[None]:
    with config.patch(repeated_layers="auto"), torch._functorch.config.patch(enable_autograd_cache=False):
        yield


def calls_in(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The layers that each graph for Inductor calls, as they are compiled."""
    from framelift.backends import builtin

    found: list[list[str]] = []
    group = builtin.group_calls_by_strides

    def grouping(graph_module: torch.fx.GraphModule, inputs: Any) -> None:
        group(graph_module, inputs)
        target = torch.ops.higher_order.invoke_subgraph
        found.append([call.args[0].target for call in graph_module.graph.find_nodes(op="call_function", target=target)])

    monkeypatch.setattr(builtin, "group_calls_by_strides", grouping)
    return found


@pytest.mark.parametrize(
    "channels_last, bf16", [(False, False), (True, False), pytest.param(False, True, marks=pytest.mark.slow)]
)
def test_gradients_of_layers_with_other_strides(channels_last, bf16, monkeypatch):
    called = calls_in(monkeypatch)
    model, x = Network(), torch.rand(2, 3, 6, 6)
    if channels_last:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    compiled, made = framelift.compile(model), []
    for step in (model, compiled):
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            result = step(x)
        made.append([result, *torch.autograd.grad(result.float().sum(), list(model.parameters()))])
    tolerance = {"atol": 5e-2, "rtol": 5e-2} if bf16 else {}
    for a, b in zip(*made, strict=True):
        torch.testing.assert_close(b, a, **tolerance)
    assert framelift.stats()["fallbacks"] == {}
    assert len(called) == 2 and all(called)


def test_each_group_of_strides_has_a_layer(monkeypatch):
    from torch.fx.experimental.proxy_tensor import make_fx

    from framelift.backends.layers.layer_inputs import group_calls_by_strides
    from framelift.backends.plain_graphs import _copy

    layer = make_fx(lambda x, y: (x.mm(y).view(-1),))(torch.rand(4, 4), torch.rand(4, 4))
    graph = torch.fx.Graph()
    given = [graph.placeholder(f"given_{number}") for number in range(4)]
    target = torch.ops.higher_order.invoke_subgraph
    made = [graph.call_function(target, (graph.get_attr("layer"), "layer", given[0], one)) for one in given[1:]]
    graph.output(tuple(made))
    module = torch.fx.GraphModule({"layer": layer}, graph)
    mode = torch._subclasses.FakeTensorMode()
    one, turned = torch.rand(4, 4), torch.rand(4, 4).t()
    inputs = [mode.from_tensor(given) for given in (one, one.clone(), turned, one.clone())]
    group_calls_by_strides(module, inputs)
    calls = graph.find_nodes(op="call_function", target=target)
    assert [call.args[0].target for call in calls] == ["layer", "layer_1", "layer"]
    assert [call.meta["eager_input_vals"][0][3].stride() for call in calls] == [(4, 1), (1, 4), (4, 1)]
    parts = [module.get_submodule(name) for name in ("layer", "layer_1")]
    for part in parts:
        assert not part.graph.find_nodes(op="call_function", target=torch.ops.aten.view.default)
        assert "reshape" in part.code
    assert _copy(module).get_submodule("layer_1") is not parts[1]
