"""Recipes of handles of hooks."""

from __future__ import annotations

from ..autograd.tensor_hooks import Handle, is_left_to_the_entry, new_handle
from ..vocabulary.reasons import Interrupt
from .recipe import Node, Recipe, Walk, exact


@exact(Handle)
def _handle(walk: Walk, node: Node) -> Recipe:
    """An effect of the entry registers the hook, and makes the handle that of this hook."""
    if not is_left_to_the_entry(node.obj):
        raise Interrupt("result-object", "torch.utils.hooks.RemovableHandle")
    return Recipe((walk.constant(new_handle, "new_handle"), "()"))
