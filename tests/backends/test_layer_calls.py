"""Calls of folded layers as Inductor gets them: each tensor is returned once, and gradients stay what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from framelift import config
from framelift.backends import builtin
from framelift.backends.layers import layer_calls
from framelift.backends.layers.layer_inputs import inputs_checked_once

boxed = builtin.boxed


class Block(nn.Module):
    """A layer whose backward needs its result."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        q, k, v = self.into(x).view(2, 8, 1, 24).transpose(1, 2).chunk(3, -1)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(16, 8)
        return self.out(mixed.sin() * 0.5).cos().sin().exp()


class Layers(nn.Module):
    def __init__(self, run: Callable[[Any, torch.Tensor], Any], first: type[nn.Module] = Block) -> None:
        super().__init__()
        self.blocks, self.pre, self.run = nn.ModuleList(first() for _ in range(4)), nn.Linear(8, 8), run

    def forward(self, x: torch.Tensor) -> Any:
        return self.run(self.blocks, self.pre(x))


def side_by_side(blocks: Any, x: torch.Tensor) -> torch.Tensor:
    """All layers are given one gradient."""
    total, *others = [block(x) for block in blocks]
    for one in others:
        total = total + one
    return total


def read_again(blocks: Any, x: torch.Tensor) -> torch.Tensor:
    """The result of a layer is an input of the next one, and of something else."""
    total = torch.zeros(())
    for block in blocks:
        x = block(x)
        total = total + x.sin().exp()
    return total


def returned(blocks: Any, x: torch.Tensor) -> list[torch.Tensor]:
    found = []
    for block in blocks:
        x = block(x)
        found.append(x)
    return found


def masked(blocks: Any, x: torch.Tensor) -> torch.Tensor:
    """One mask for all layers, from which each makes one of numbers."""
    mask = torch.arange(8)[:, None] >= torch.arange(8)[None]
    for block in blocks:
        x = block(x, mask)
    return x


def compare(model: nn.Module, compiled: Any) -> None:
    x = torch.randn(16, 8, requires_grad=True)
    inputs = [x, *model.parameters()]
    before = [one.detach().clone() for one in inputs]
    wanted, given = model(x), compiled(x)
    torch.testing.assert_close(given, wanted)
    weights = torch.linspace(1, 2, 128).view(16, 8)
    wanted, given = (torch.stack(one) if isinstance(one, list) else one for one in (wanted, given))
    pairs = zip(*(torch.autograd.grad((one * weights).sum(), inputs) for one in (wanted, given)), strict=True)
    for a, b in pairs:
        torch.testing.assert_close(b, a, atol=1e-4, rtol=1e-4)
    assert all(torch.equal(a, b) for a, b in zip(before, inputs))


def graphs_for_inductor(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, torch.fx.GraphModule]]:
    """The graphs that Inductor would compile, as they are compared: whether it is a backward, and the graph."""
    found: list[tuple[bool, torch.fx.GraphModule]] = []

    def inner(
        _rewritten: Any, _note: Any, _floats: Any, graph_module: torch.fx.GraphModule, inputs: Any, **kwargs: Any
    ) -> Any:
        found.append((kwargs.get("is_backward", False), graph_module))
        return builtin.boxed(graph_module, inputs)

    monkeypatch.setattr(builtin, "_compile_inner", inner)
    monkeypatch.setattr(builtin.warm_start, "where", lambda *_: None)
    return found


def layers_of(graph_module: torch.fx.GraphModule) -> list[torch.fx.GraphModule]:
    calls = graph_module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.invoke_subgraph)
    return [graph_module.get_submodule(name) for name in {call.args[0].target for call in calls}]


@pytest.mark.parametrize("run, dynamic", [(side_by_side, None), (read_again, True), (returned, None), (masked, None)])
def test_a_layer_returns_each_tensor_once(run, dynamic, monkeypatch):
    graphs = graphs_for_inductor(monkeypatch)
    model = Layers(run)
    with config.patch(repeated_layers="auto"), torch._functorch.config.patch(enable_autograd_cache=False):
        compare(model, framelift.compile(model, dynamic=dynamic))
    assert [backward for backward, graph_module in graphs if layers_of(graph_module)] == [False, True]
    for layer in [layer for _, graph_module in graphs for layer in layers_of(graph_module)]:
        results = [one for one in layer.graph.output_node().args[0] if layer_calls._has_memory(one)]
        roots = [layer_calls._root(one) for one in results]
        assert len({*roots}) == len(roots) and all(root.op != "placeholder" for root in roots)
    if run is masked:  # what all layers share is kept once
        kept = [one for one in graphs[0][1].graph.output_node().args[0] if one.op != "placeholder"]
        assert [tuple(one.meta["val"].shape) for one in kept].count((8, 8)) == 1


def test_what_all_layers_materialize_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = graphs_for_inductor(monkeypatch)
    monkeypatch.setattr(builtin, "boxed", lambda module, _: post_grad(module))
    model = Layers(masked)

    def post_grad(module: torch.fx.GraphModule) -> Any:
        layer_calls.separate_results(module.graph)
        return boxed(module, None)

    with config.patch(repeated_layers="auto"), torch.no_grad():
        x = torch.randn(16, 8)
        torch.testing.assert_close(framelift.compile(model)(x), model(x))
    ((_, graph_module),) = graphs
    (layer,) = layers_of(graph_module)
    assert all(one.users for one in layer.graph.find_nodes(op="placeholder"))
    inside = {str(node.target) for node in layer.graph.nodes}
    assert "aten.where.self" not in inside and graph_module.graph.find_nodes(
        op="call_function", target=torch.ops.aten.where.self
    )


def test_layers_stay_as_they_are_beside_passes_of_a_user(monkeypatch):
    graphs = graphs_for_inductor(monkeypatch)
    model = Layers(side_by_side)
    own = {"joint_custom_pre_pass": layer_calls.SeparateResults()}
    with config.patch(repeated_layers="auto"), torch._functorch.config.patch(enable_autograd_cache=False):
        compare(model, framelift.compile(model, options=own))
    assert len(graphs) == 2 and not any(layers_of(graph_module) for _, graph_module in graphs)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.sin() * 0.5
        return self.out(h.sigmoid() * h.tanh() + 1).cos().sin().exp()


@pytest.mark.slow
def test_inductor_overwrites_nothing_that_is_read_again():
    model = Layers(side_by_side, Small)
    with config.patch(repeated_layers="auto"):
        compare(model, framelift.compile(model))


def test_subgraphs_check_no_inputs_while_framelift_compiles() -> None:
    from torch._inductor.codegen.wrapper import SubgraphPythonWrapperCodegen as Codegen

    class Wrapper(Codegen):
        partition_signatures = None

        def __init__(self) -> None:
            self.asked = 0

        def get_graph_inputs(self) -> dict[str, Any]:
            self.asked += 1
            return {}

    def asked(part: bool) -> int:
        wrapper = Wrapper()
        wrapper.partition_signatures = object() if part else None
        wrapper.codegen_input_size_asserts()
        return wrapper.asked

    with inputs_checked_once():
        with inputs_checked_once():
            assert (asked(part=False), asked(part=True)) == (0, 1)
        assert asked(part=False) == 0
    assert asked(part=False) == 1
