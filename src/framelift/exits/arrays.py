"""Recipes of what goes with tensors: numpy arrays and scalars, generators of random numbers, and handles of hooks."""

from __future__ import annotations

import torch

from ..autograd.tensor_hooks import Handle, is_left_to_the_entry, new_handle
from ..boundary.becomes.arrays import Array, Scalar, numpy, owns_memory, tensor_of
from ..boundary.becomes.opaque import Opaque
from ..vocabulary.class_reads import module_of, name_of
from ..vocabulary.reasons import Interrupt
from .recipe import Node, Recipe, Walk, base, exact, type_name


@exact(Array)
def _array(walk: Walk, node: Node) -> Recipe:
    tensor = tensor_of(node.obj)
    # a program may ask for its flags, its base, or resize it
    own = owns_memory(node.obj) and walk.scene.is_alone(tensor)
    return Recipe((walk.part(tensor), ".detach().numpy().copy('K')" if own else ".detach().numpy()"))


@exact(Scalar)
def _scalar(walk: Walk, node: Node) -> Recipe:
    return Recipe((walk.part(tensor_of(node.obj)), ".detach().numpy()[()]"))


@exact(torch.Generator, Opaque)
def _random(walk: Walk, node: Node) -> Recipe:
    """A generator of random numbers that captured code made, or a state that it took from one."""
    found = walk.scene.drawing_of(node.obj)
    if found is None:
        raise Interrupt("result-object", type_name(type(node.obj)))
    return Recipe((walk.constant(found[0], "drawing"), found[1]))


@exact(Handle)
def _handle(walk: Walk, node: Node) -> Recipe:
    """An effect of the entry registers the hook, and makes the handle that of this hook."""
    if not is_left_to_the_entry(node.obj):
        raise Interrupt("result-object", "torch.utils.hooks.RemovableHandle")
    return Recipe((walk.constant(new_handle, "new_handle"), "()"))


if numpy is not None:

    @base(numpy.dtype)
    def _dtype(walk: Walk, node: Node) -> Recipe:
        return Recipe((walk.constant(node.obj, name_of(type(node.obj))),))

    @base(numpy.generic)
    def _value(walk: Walk, node: Node) -> Recipe:
        """A scalar made inside is another object at every call, as numpy's are: an array without dimensions keeps the
        value and hands them out.
        """
        kind = type(node.obj)
        # records are written to, texts lose the zeros at their end
        if module_of(kind).partition(".")[0] != "numpy" or issubclass(kind, numpy.flexible):
            raise Interrupt("result-object", type_name(kind))
        return Recipe((walk.constant(numpy.asarray(node.obj), name_of(kind)), "[()]"))
