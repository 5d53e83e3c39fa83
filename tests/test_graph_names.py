"""Graph inputs are called after the place they come from."""

from __future__ import annotations

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
    assert placeholders(lambda x, xs: x + xs["a b"][0] + xs["a-b"], GLOBAL, {"a b": [torch.ones(2)], "a-b": torch.zeros(2)}) == [
        ("L_x_", "l_x_"), ("L_xs_a_b_0_", "l_xs_a_b_0_"), ("L_xs_a_b_", "l_xs_a_b_")]
    assert placeholders(lambda: GLOBAL + 1) == [("G_GLOBAL_", "g_global_")]
    assert [name for _, name in placeholders(net, cell)] in (["l_args_0_", "l_self_modules_0_parameters_weight_"],
                                                             ["l_self_modules_0_parameters_weight_", "l_args_0_"])
    assert len(set(placeholders(lambda xs: xs["a b"] + xs["a-b"] + xs["a_b"], {"a b": cell, "a-b": cell + 1, "a_b": cell + 2}))) == 3


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
