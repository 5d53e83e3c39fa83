"""Plain graphs in the place of rewritten ones (rewrites.py) that a compiler fails on, and whose first run fails.

A backward is compiled late, at the first gradient, for a forward that has run: it must take what that forward saved.
So the calls of layers are written out in the very graph that failed, and the compiler gets that one.  Where it fails
again, and where the first run of a compiled backward fails, the backward runs operation by operation.

First runs are covered where the graph writes to none of its inputs and draws no random numbers.  A backward's inputs
must still be there: the failed run frees them as it goes, for nothing holds them, so that a backward takes no more
memory than without all this.  A backward that was loaded from disk has no graph: its run is not covered.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter

from ..torch_ports.autograd import torch_c
from ..torch_ports.fakes import TracingContext
from ..torch_ports.graphs import LazyGraphModule
from ..vocabulary.outside_exceptions import raise_outside
from .layers.layer_inputs import copied, views_to_reshapes
from .rewrites import Rewritten
from .subgraph_calls import write_out_calls

Compile = Callable[[GraphModule], Any]


def compiled_or_plain(
    compile_graph: Compile, rewritten: Rewritten, graph_module: GraphModule, is_backward: bool
) -> Any:
    """Return what a compiler makes of a graph, or of its plain form where it fails."""
    if not rewritten.made:
        return compile_graph(graph_module)
    before = _copy(graph_module)  # compilers change the graph that they are given
    try:
        compiled = compile_graph(graph_module)
    except Exception as error:
        raise_outside(error)
        return _plain(compile_graph, rewritten, before, is_backward, error)
    if is_backward and hasattr(compiled, "current_callable") and _only_computes(before):
        compiled.current_callable = _FirstRun(compiled, rewritten, before)
    return compiled


def _plain(
    compile_graph: Compile, rewritten: Rewritten, before: GraphModule, is_backward: bool, error: Exception
) -> Any:
    part = "backward of the graph" if is_backward else "graph"
    strides = getattr(TracingContext.try_get(), "output_strides", None)
    if strides:
        strides.clear()  # of a compile that was nearly done
    compiled = None
    if write_out_calls(before):
        try:
            compiled = compile_graph(_copy(before))
        except Exception as again:
            raise_outside(again)
    if compiled is not None:
        rewritten.fell_back(error, part, "The plain graph was compiled instead")
        return compiled
    if not is_backward:  # the whole graph is compiled again
        raise error
    rewritten.fell_back(error, part, "It runs operation by operation")
    return _uncompiled(before)


def _copy(graph_module: GraphModule) -> GraphModule:
    """A copy of a graph and of the layers that it calls."""
    copy = copied(graph_module)
    for name, part in graph_module.named_children():
        if isinstance(part, GraphModule):
            setattr(copy, name, _copy(part))
    return copy


def _uncompiled(graph_module: GraphModule) -> Callable[[list[Any]], Any]:
    """The graph, operation by operation, in AOTAutograd's boxed convention."""
    views_to_reshapes(graph_module)  # what was saved may have other strides than in the trace

    def run(args: list[Any]) -> Any:
        given = list(args)
        args.clear()
        with torch_c._DisableAutocast():  # the casts are in the graph
            return Interpreter(graph_module).boxed_run(given)

    setattr(run, "_boxed_call", True)
    return run


def _only_computes(graph_module: GraphModule) -> bool:
    return not any(
        node.is_impure() or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        for part in graph_module.modules()
        if isinstance(part, GraphModule)
        for node in part.graph.nodes
        if node.op == "call_function"
    )


class _FirstRun:
    """The first run of a compiled backward, in the place of what it runs from then on."""

    def __init__(self, compiled: Any, rewritten: Rewritten, before: GraphModule) -> None:
        self.run, self.compiled = compiled.current_callable, weakref.ref(compiled)
        self.rewritten, self.before = rewritten, before

    def __call__(self, inputs: Sequence[Any]) -> Any:
        given = [weakref.ref(one) if isinstance(one, torch.Tensor) else one for one in inputs]
        now = self.run
        try:
            return self.run(inputs)
        except Exception as error:
            raise_outside(error)
            held = [one() if type(one) is weakref.ReferenceType else one for one in given]
            if any(one is None and type(kept) is weakref.ReferenceType for one, kept in zip(held, given)):
                raise
            now = _uncompiled(self.before)
            results = now(held)
            self.rewritten.fell_back(error, "first run of the backward of the graph", "It runs operation by operation")
            return results
        finally:
            compiled = self.compiled()
            if compiled is not None:
                compiled.current_callable = now


def watching_first_run(
    compiled: Callable[..., Any],
    rewritten: Rewritten,
    graph_module: GraphModule,
    compile_plainly: Callable[[Sequence[Any]], Callable[..., Any]] | None,
) -> Callable[..., Any]:
    """Return a compiled graph whose first run, where it fails and that of the graph itself does not, is the graph's.

    From then on what `compile_plainly` gives for the inputs runs; where it is None, the graph itself.
    """
    if not rewritten.own or any(node.meta.get("effect") for node in graph_module.graph.nodes):
        return compiled
    settled: Callable[..., Any] | None = None

    def run(*inputs: Any) -> Any:
        nonlocal settled
        if settled is not None:
            return settled(*inputs)
        try:
            results = compiled(*inputs)
            settled = compiled
        except Exception as error:
            raise_outside(error)
            LazyGraphModule.force_recompile(graph_module)
            try:
                results = graph_module.forward(*inputs)
            except Exception as again:
                raise_outside(again)
                raise error from None  # about the data, then
            settled = compile_plainly(inputs) if compile_plainly is not None else graph_module.forward
            rewritten.fell_back(error, "first run of the graph", "The plain graph runs instead")
        return results

    return run
