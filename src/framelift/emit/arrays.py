"""Recipes of numpy arrays and scalars: tensors of the graph given over to numpy."""

from __future__ import annotations

from ..world.arrays import Array, Scalar, numpy, owns_memory, tensor_of
from .recipe import Node, Recipe, Walk, base, exact

__all__: list[str] = []


@exact(Array)
def _array(walk: Walk, node: Node) -> Recipe:
    tensor = tensor_of(node.obj)
    own = owns_memory(node.obj) and walk.scene.is_alone(tensor)   # a program may ask for its flags, its base, or resize it
    return Recipe((walk.part(tensor), ".detach().numpy().copy('K')" if own else ".detach().numpy()"))


@exact(Scalar)
def _scalar(walk: Walk, node: Node) -> Recipe:
    return Recipe((walk.part(tensor_of(node.obj)), ".detach().numpy()[()]"))


if numpy is not None:
    @base(numpy.generic, numpy.dtype)
    def _value(walk: Walk, node: Node) -> Recipe:
        return Recipe((walk.constant(node.obj, type(node.obj).__name__),))
