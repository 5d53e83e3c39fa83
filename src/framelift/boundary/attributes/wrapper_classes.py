"""Dependencies of operations on wrapper subclasses beside the tensors: methods of the class, and what they read."""

from __future__ import annotations

import types

from ...vocabulary.torch_code import is_torch_class
from ..facts.unwatched_reads import UNWATCHED_READS
from ..records import ABSENT
from ..world import World

_METHODS = (
    "__torch_dispatch__",
    "__torch_function__",
    "__tensor_flatten__",
    "__tensor_unflatten__",
    "__new__",
    "__init__",
)


def note_wrapper_class(world: World, kind: type) -> None:
    """Guard the methods of a wrapper class, and what they may read."""
    functions = []
    for name in _METHODS:
        found = world.classes.lookup(kind, name)
        function = getattr(found, "__func__", found) if found is not ABSENT else None
        if type(function) is types.FunctionType and not is_torch_class(kind):
            functions.append(function)
    if functions:
        UNWATCHED_READS.of(world, world).follow_class(kind, functions)
