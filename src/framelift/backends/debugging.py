"""Backends that help to find out where something goes wrong.  None of them makes a program faster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.graph_module import GraphModule

from ..exc import FrameliftError
from .builtin import aot_autograd
from .registrations import register


@register("eager_noexcept", "debug")
def eager_noexcept(
    graph_module: GraphModule, example_inputs: Sequence[torch.Tensor], **_ignored: Any
) -> Callable[..., Any]:
    """As eager; an exception while the graph runs is an error of framelift's own kind."""
    forward = _plain(graph_module).forward

    def run(*args: Any) -> Any:
        try:
            return forward(*args)
        except Exception as error:
            raise FrameliftError("an exception left a captured graph while it ran") from error

    return run


@register("eager_debug", "debug")
def eager_debug(
    graph_module: GraphModule, example_inputs: Sequence[torch.Tensor], **_ignored: Any
) -> Callable[..., Any]:
    """As eager; every operation is compared with its schema: what it writes to and aliases."""
    from ..torch_ports.modes import SchemaCheckMode

    forward = _plain(graph_module).forward

    def run(*args: Any) -> Any:
        with SchemaCheckMode():
            return forward(*args)

    return run


@register("pre_dispatch_eager", "debug")
def pre_dispatch_eager(
    graph_module: GraphModule, example_inputs: Sequence[torch.Tensor], **_ignored: Any
) -> Callable[..., Any]:
    """The graph as ATen operations before autograd, run as they are."""
    from torch.fx.experimental.proxy_tensor import make_fx

    forward = _plain(graph_module).forward
    return make_fx(lambda *args: forward(*args), pre_dispatch=True)(*example_inputs).forward


@register("ts", "debug")
def torchscript(
    graph_module: GraphModule, example_inputs: Sequence[torch.Tensor], **_ignored: Any
) -> Callable[..., Any]:
    """The graph as TorchScript."""
    return torch.jit.script(_plain(graph_module))


@register("aot_ts", "debug")
def aot_ts(graph_module: GraphModule, example_inputs: Sequence[torch.Tensor], **_ignored: Any) -> Callable[..., Any]:
    """AOTAutograd's graphs as TorchScript."""
    from functorch.compile import ts_compile

    return aot_autograd(fw_compiler=ts_compile)(graph_module, example_inputs)


setattr(aot_ts, "unrolls_recurrent_networks", True)


def _plain(graph_module: GraphModule) -> GraphModule:
    """With its Python code written: the captured kind writes it when it is first called."""
    return GraphModule(graph_module, graph_module.graph)
