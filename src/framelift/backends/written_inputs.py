"""A backward does not compute from inputs that its forward wrote to.  A fact about torch, seen in torch 2.13.

AOTAutograd's partitioner may save an input of the forward, to compute from it in the backward what the forward had
computed.  Where the forward then writes to that input, the backward would read what was written: with
`self.calls += 1; return x * self.calls` gradients were wrong, those of torch.compile too.  Here what a forward
computes from such an input is saved where the backward needs it.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.utils.checkpoint

from ..torch_ports.loaded import partitioners

_MUST_SAVE = torch.utils.checkpoint.CheckpointPolicy.MUST_SAVE


def _copy(node: Any, users: list[Any]) -> None:
    """A copy of what the forward is given: Inductor may have removed the program's own."""
    first = next(one for one in node.graph.nodes if one.op != "placeholder")
    with node.graph.inserting_before(first) if node.op == "placeholder" else node.graph.inserting_after(node):
        copy = node.graph.call_function(torch.ops.aten.clone.default, (node,))
    val = node.meta["val"].clone()  # what has an input's storage is not saved
    copy.meta.update(node.meta, val=val, recompute=_MUST_SAVE, partitioner_tag="is_forward")
    for user in users:  # of the forward, too: what it does not use itself is left to the backward
        user.replace_input_with(node, copy)


def _saving(before: Any) -> Any:
    @functools.wraps(before)
    def mark(joint_module: Any) -> Any:
        before(joint_module)
        nodes = joint_module.graph.nodes
        copies = joint_module.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
        written = [copy.args[0] for copy in copies]
        backward = {node for node in nodes if node.meta.get("partitioner_tag") == "is_backward"} if written else set()
        needed = set(backward)
        for node in reversed(nodes) if written else ():
            if not needed.isdisjoint(node.users):
                needed.add(node)
        while written:
            node = written.pop()
            views = [user for user in node.users if getattr(user.target, "is_view", False) and user not in backward]
            users = [user for user in node.users if user.op != "output" and user not in (*views, *copies)]
            written += views
            if not backward.isdisjoint(users):
                _copy(node, users)
            for user in needed.intersection(users) - backward:
                user.meta["recompute"] = _MUST_SAVE

    return mark


def install() -> None:
    """Wrap the place where the partitioner marks what must be saved, once somebody loaded it."""
    module = partitioners.get()
    before = getattr(module, "force_save_bw_mutation_src", None)
    if before is not None and not hasattr(before, "__wrapped__"):
        module.force_save_bw_mutation_src = _saving(before)
