"""Operations in place keep the layout of what they write to.  A fact about torch, seen in torch 2.13.

AOTAutograd puts an operation with a result of its own in the place of one that writes.  That result may lie in memory
in another order: `y.cumsum_(0)` of a transposed `y` gave a `y` whose strides were others, `as_strided` of it other
elements, and a view of it an error (torch.compile too).  So these operations write to a copy, which is copied back.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from ..graph.metadata.facts import Facts, SymbolicFacts

#: those whose results have other strides than what they are made from (tests/backends/test_kept_layouts.py finds them)
MOVING = frozenset(
    "addbmm_ addmm_ baddbmm_ bernoulli_ copysign_ cumprod_ cumsum_ floor_divide_ index_add_ index_copy_ index_reduce_ "
    "masked_fill_ masked_scatter_ mvlgamma_ renorm_ scatter_ scatter_add_ scatter_reduce_ tril_ triu_ xlogy_".split()
)


def keep_layouts(graph_module: GraphModule) -> None:
    """Let the operations in place that move elements write to copies, in a graph that is a compiler's own."""
    graph = graph_module.graph
    for node in list(graph.nodes):
        name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
        if name in MOVING and node.args and isinstance(written := node.args[0], Node) and _is_permuted(written):
            meta = {key: value for key, value in node.meta.items() if key in ("stack_trace", "nn_module_stack")}
            with graph.inserting_before(node):
                copy = graph.call_function(torch.clone, (written,))
                copy.meta.update(meta)
            with graph.inserting_after(node):
                back = graph.call_method("copy_", (written, node))
                back.meta.update(node.meta)
            node.args = (copy, *node.args[1:])
            node.replace_all_uses_with(back, delete_user_cb=lambda user, back=back: user is not back)


def _is_permuted(node: Node) -> bool:
    facts, _ = node.meta.get("tensor_facts", (None, None))
    return type(facts) in (Facts, SymbolicFacts) and facts.stride is not None and not facts.is_contiguous()
