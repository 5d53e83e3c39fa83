"""Graphs that write to inputs which overlap in memory: for some places of these a graph is compiled, for the others it
runs as it was recorded.

What is compiled is right for the places it was compiled for alone, so that each other layout is a recompile.  After
`MOST_LAYOUTS` of one code its graph runs as recorded, which is right for all of them: one entry serves whatever comes.
So it is at once where a compiler does not see the overlap, or refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from torch.fx.graph_module import GraphModule

from ...exc import BackendCompilerFailed
from ...graph.fx.shared_memory import Sharing
from ...torch_ports.graphs import LazyGraphModule
from ...vocabulary.code_knowledge import knowledge_of
from ...vocabulary.log import topic

#: for how many layouts of overlapping inputs the graphs of one code are compiled
MOST_LAYOUTS = 4
_WRITES = "writes to inputs that overlap in memory,"
_CompileGraph = Callable[..., Any]


def compiler_for(
    compiler: Callable[[], _CompileGraph], sharing: Sharing, name: str, code: CodeType | None, is_torchs: bool
) -> _CompileGraph:
    """Return the function that compiles a graph whose inputs share memory that it writes to.

    It is `compiler()`, or one that runs the graph as it was recorded. `code`: what was captured, if that is known;
    `is_torchs`: the backend is one that hands the graph to AOTAutograd.
    """
    if sharing.is_hidden:
        return as_recorded(name, f"{_WRITES} where compilers do not see it")
    if sharing.overlaps and code is not None:
        known, layout = knowledge_of(code).memory_layouts, sharing.pattern(exact=True)
        if layout not in known and len(known) >= MOST_LAYOUTS:
            return as_recorded(name, f"{_WRITES} in more than {MOST_LAYOUTS} ways")
        known.add(layout)
    return _or_as_recorded(compiler(), name) if is_torchs else compiler()


def _as_recorded(graph_module: GraphModule, _inputs: Sequence[Any], **_options: Any) -> Callable[..., Any]:
    LazyGraphModule.force_recompile(graph_module)
    return graph_module.forward


def _or_as_recorded(compile_graph: _CompileGraph, name: str) -> _CompileGraph:
    """AOTAutograd refuses views of several bases, of several types, and some that are differentiated."""

    def backend(graph_module: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
        try:
            compiled: Callable[..., Any] = compile_graph(graph_module, example_inputs, **options)
        except BackendCompilerFailed as error:
            how = f"{_WRITES} which the backend refuses ({error.inner_exception})"
            return as_recorded(name, how)(graph_module, example_inputs)
        return compiled

    return backend


def as_recorded(name: str, why: str) -> _CompileGraph:
    """Return the function that runs a graph as it was recorded, and say so."""
    topic("recompiles").warning("%s %s: its graph runs operation by operation, uncompiled", name, why)
    return _as_recorded
