"""`legacy`, what torch._dynamo.export gives: the graph of `export_graph`, attributes under that function's names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from .capture import state_names
from .graph_export import ExportResult, export_graph


def legacy(function: Callable[..., Any], **options: Any) -> Callable[..., ExportResult]:
    """`export_graph` with the names of torch._dynamo.export: `layer.weight` is the attribute `L__self___layer_weight`.

    >>> import torch, framelift
    >>> graph, _ = framelift.export.legacy(torch.nn.Linear(2, 2))(torch.zeros(2))
    >>> [name for name, _ in graph.named_parameters()]
    ['L__self___weight', 'L__self___bias']
    """
    run = export_graph(function, **options)

    def named(*args: Any, **kwargs: Any) -> ExportResult:
        result = run(*args, **kwargs)
        if isinstance(function, torch.nn.Module):
            _rename(result.graph_module, function)
        return result

    return named


def _rename(made: torch.fx.GraphModule, root: torch.nn.Module) -> None:
    """One attribute for each tensor of the module that the graph reads, in place of the module's own tree."""
    paths = set(state_names(root).values())
    read = [node for node in made.graph.find_nodes(op="get_attr") if node.target in paths]
    if not read:
        return
    tensors = {node: _at(made, node.target) for node in read}
    for table, names in (
        (made._modules, root._modules),
        (made._parameters, root._parameters),
        (made._buffers, root._buffers),
        (made.__dict__, [path for path in paths if "." not in path]),
    ):
        for name in [*names]:
            table.pop(name, None)
    for node, tensor in tensors.items():
        name = stem = "L__self___" + re.sub(r"\W", "_", node.target)
        count = 0
        while hasattr(made, name):
            count += 1
            name = f"{stem}_{count}"
        if isinstance(tensor, torch.nn.Parameter):
            made.register_parameter(name, tensor)
        else:
            made.register_buffer(name, tensor)
        node.target = name
    made.recompile()


def _at(root: torch.nn.Module, path: str) -> torch.Tensor:
    parent, _, name = path.rpartition(".")
    found: torch.Tensor = getattr(root.get_submodule(parent), name)
    return found
