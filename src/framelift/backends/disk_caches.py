"""Requirements of the disk caches of AOTAutograd and Inductor to accept a graph, and to distinguish two graphs.

AOTAutograd caches a graph only if it can see that the receiver of each method call is a tensor: it looks for
`example_value` on the node.  Its key holds the graph's code and the metadata of the example inputs.  What else
decides what is compiled is added here: which inputs share memory, and the torch state of the call.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx.graph_module import GraphModule

from .. import _core
from ..capture.around.specialized_floats import cache_was_on
from ..graph.fx.shared_memory import memory_key
from ..graph.metadata.facts import Facts, SymbolicFacts
from ..torch_ports.compilers import aot_config as functorch_config
from ..torch_ports.fakes import FakeTensor, FakeTensorMode, TracingContext

#: part of the key: to be raised when the same graph is lowered in another way
_LOWERING = "framelift 2"
#: where the tape leaves the facts of a node's tensor (graph/fx/tape.py)
_FACTS = "tensor_facts"


def accepted_by_caches(graph_module: GraphModule, example_inputs: Sequence[Any]) -> GraphModule:
    """Prepare a graph, which is the compiler's own copy, for torch's caches."""
    context = TracingContext.try_get()
    mode = context.fake_mode if context is not None else None
    for part in graph_module.modules():
        for node in part.graph.nodes if isinstance(part, GraphModule) else ():
            facts, _ = node.meta.pop(_FACTS, (None, 0))
            node.meta.pop("effect", None)
            if mode is not None and "example_value" not in node.meta and type(facts) in (Facts, SymbolicFacts):
                node.meta["example_value"] = _fake(mode, facts)
    # An attribute of its own: the key leaves out `meta`.
    facts_of_the_call = _LOWERING, str(_core.torch_state()), memory_key(graph_module, example_inputs)
    graph_module.compiled_for = facts_of_the_call
    return graph_module


def _fake(mode: FakeTensorMode, facts: Facts) -> FakeTensor:
    with torch.no_grad(), torch.inference_mode(False):
        bare = torch.empty_strided(facts.size, facts.stride, dtype=facts.dtype, device="meta")
        made = FakeTensor(mode, bare, facts.device)
    return made.requires_grad_() if facts.requires_grad else made


# ---- AOTAutograd's disk cache for graphs that take floats ----


#: the shape environments of graphs with floats among their inputs
_environments: weakref.WeakSet[Any] = weakref.WeakSet()


def _environment() -> Any:
    context = TracingContext.try_get()
    mode = context.fake_mode if context is not None else None
    return mode.shape_env if mode is not None else None


@contextlib.contextmanager
def caching_floats() -> Iterator[None]:
    """While a graph with floats among its inputs is given to a compiler: the cache is on if the program has it on."""
    environment = _environment()
    if environment is None:
        yield
        return
    _environments.add(environment)
    with functorch_config.patch(enable_autograd_cache=cache_was_on()):
        yield


def may_be_kept() -> bool:
    """Return whether the graph that is being compiled may be kept.  A backward is compiled late, in the same
    context.
    """
    from ..torch_ports.symbols import SymT, symbol_is_type

    environment = _environment()
    if environment is None or environment not in _environments:
        return True
    assumed = {symbol for guard in environment.guards for symbol in guard.expr.free_symbols}
    assumed.update(environment.replacements)
    return not any(symbol_is_type(symbol, (SymT.FLOAT, SymT.UNBACKED_FLOAT)) for symbol in assumed)
