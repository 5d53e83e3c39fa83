"""Graphs as backends of torch.compile expect them: names of inputs, operators as functions."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import framelift

GLOBAL = torch.ones(2)


def placeholders(function, *args) -> list[tuple[str, str]]:
    graphs = []

    def backend(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module.forward

    framelift.compile(function, backend=backend, fullgraph=True)(*args)
    return [(node.target, node.name) for node in graphs[0].graph.find_nodes(op="placeholder")]


def test_arguments_globals_and_parameters() -> None:
    cell = torch.ones(2)
    net = nn.Sequential(nn.Linear(2, 2, bias=False))
    assert placeholders(
        lambda x, xs: x + xs["a b"][0] + xs["a-b"], GLOBAL, {"a b": [torch.ones(2)], "a-b": torch.zeros(2)}
    ) == [("L_x_", "l_x_"), ("L_xs_a_b_0_", "l_xs_a_b_0_"), ("L_xs_a_b_", "l_xs_a_b_")]
    assert placeholders(lambda: GLOBAL + 1) == [("G_GLOBAL_", "g_global_")]
    assert [name for _, name in placeholders(net, cell)] in (
        ["l_args_0_", "l_self_modules_0_parameters_weight_"],
        ["l_self_modules_0_parameters_weight_", "l_args_0_"],
    )
    assert (
        len(
            set(
                placeholders(
                    lambda xs: xs["a b"] + xs["a-b"] + xs["a_b"], {"a b": cell, "a-b": cell + 1, "a_b": cell + 2}
                )
            )
        )
        == 3
    )


def test_a_marked_address_is_noted() -> None:
    marked = torch.ones(2)
    marked._dynamo_static_input_type = "unguarded"
    found = []

    def backend(graph_module, example_inputs):
        found.extend(node.meta["tensor_dict"] for node in graph_module.graph.find_nodes(op="placeholder"))
        return graph_module.forward

    compiled = framelift.compile(lambda x, y: x + y, backend=backend)
    compiled(marked, torch.ones(2))
    compiled(torch.ones(2), torch.ones(2))
    assert found == [{"_dynamo_static_input_type": "unguarded"}, {}]


def test_operators_are_functions_of_the_module_operator() -> None:
    def f(x, y):
        z = -(x + y) * y - x / y @ y % 3
        z += 1
        z *= x
        return z < x, 1 + x.add(y)

    graphs = []

    def backend(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module.forward

    x, y = torch.rand(2), torch.rand(2)
    got = framelift.compile(f, backend=backend, fullgraph=True)(x, y)
    assert all(torch.equal(a, b) for a, b in zip(got, f(x, y)))
    names = [
        (node.op, getattr(node.target, "__name__", node.target))
        for node in graphs[0].graph.nodes
        if node.op.startswith("call")
    ]
    assert names == [
        ("call_function", name)
        for name in ("add", "neg", "mul", "truediv", "matmul", "mod", "sub", "iadd", "imul", "lt")
    ] + [("call_method", "add"), ("call_function", "add")]


def test_what_modules_hold_stays_where_it_is() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.ones(2)
            self.norm = nn.BatchNorm1d(2)

        def forward(self, x):
            return self.norm(x * self.scale)

    net, extra = Scaled(), torch.ones(2)
    notes: dict[str, object] = {}
    static: list[int] = []

    def backend(graph_module, example_inputs):
        notes.update(
            (node.name, node.meta["tensor_dict"].get("_dynamo_static_input_type"))
            for node in graph_module.graph.find_nodes(op="placeholder")
        )
        return aot(graph_module, example_inputs)

    def compiler(graph_module, example_inputs):
        static.extend(torch._guards.TracingContext.get().fw_metadata.static_input_indices)
        return graph_module.forward

    aot = framelift.aot_autograd(fw_compiler=compiler)
    with torch.no_grad():
        framelift.compile(lambda x: net(x) + extra, backend=backend, fullgraph=True)(torch.rand(3, 2))
    assert notes.pop("l_x_") is None and notes.pop("l_extra_") is None
    assert len(notes) == 6 and "l_net_scale" in notes and set(notes.values()) == {"unguarded"}
    assert len(static) == 6


def test_a_variable_of_the_compiled_functions_own_closure() -> None:
    weight = torch.ones(3)
    names: list[str] = []

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * weight

    def backend(graph_module: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Any:
        names.extend(str(node.target) for node in graph_module.graph.find_nodes(op="placeholder"))
        return graph_module.forward

    framelift.compile(scaled, backend=backend)(torch.ones(3))
    assert names == ["L_x_", "L_weight_"]
