"""The backends that come with framelift: eager, aot_eager, inductor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.graph_module import GraphModule

from .table import register

__all__ = ["aot_eager", "eager", "inductor"]


@register("eager")
def eager(graph_module: GraphModule, example_inputs: Sequence[torch.Tensor], **_ignored: Any) -> Callable[..., Any]:
    """Run the graph's own Python code."""
    _LazyGraphModule.force_recompile(graph_module)
    return graph_module.forward


@register("aot_eager")
def aot_eager(graph_module: GraphModule, example_inputs: Sequence[torch.Tensor], **_ignored: Any) -> Callable[..., Any]:
    """AOTAutograd with compilers that compile nothing: forward and backward graphs run operator by operator."""
    from torch._functorch.aot_autograd import aot_module_simplified
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    return aot_module_simplified(graph_module, list(example_inputs), fw_compiler=_boxed, bw_compiler=_boxed,
                                 partition_fn=min_cut_rematerialization_partition, keep_inference_input_mutations=True)


def _boxed(graph_module: GraphModule, _example_inputs: Any) -> Callable[[list[Any]], Any]:
    """The calling convention AOTAutograd prefers: one list, emptied by the callee so that memory is freed early."""
    from torch.fx.graph import _BoxedCodeGen
    graph_module.graph.set_codegen(_BoxedCodeGen())
    graph_module.recompile()
    forward = graph_module.forward

    def run(args: list[Any]) -> Any:
        return forward(args)
    run._boxed_call = True  # type: ignore[attr-defined]
    return run


@register("inductor")
def inductor(graph_module: GraphModule, example_inputs: Sequence[torch.Tensor], *, mode: str | None = None,
             options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """TorchInductor, with the `mode` and `options` of torch.compile."""
    from torch._inductor.compile_fx import compile_fx
    # compile_fx changes the graph it is given, and the captured one is kept for reports.
    own = GraphModule(graph_module, _copy(graph_module.graph))
    return compile_fx(own, list(example_inputs), config_patches=_inductor_config(mode, options))


def _copy(graph: torch.fx.Graph) -> torch.fx.Graph:
    new = torch.fx.Graph()
    new.output(new.graph_copy(graph, {}))
    return new


def _inductor_config(mode: str | None, options: dict[str, Any] | None) -> dict[str, Any]:
    """The configuration entries that `mode` and `options` stand for; unknown names are errors."""
    from torch._inductor import config, list_mode_options
    wanted = dict(list_mode_options(mode) if mode else {})
    known = config.get_config_copy()
    for name, value in (options or {}).items():
        entry = name.replace("-", "_")
        if entry not in known:
            raise ValueError(f"Inductor has no option {name!r}")
        wanted[entry] = value
    return wanted
