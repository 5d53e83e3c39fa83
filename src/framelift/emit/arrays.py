"""Recipes of numpy arrays and scalars: tensors of the graph given over to numpy."""

from __future__ import annotations

from ..world.arrays import Array, Scalar, numpy
from .recipe import Node, Recipe, Walk, base, exact

__all__: list[str] = []


@exact(Array)
def _array(walk: Walk, node: Node) -> Recipe:
    return Recipe((walk.part(node.obj.tensor), ".detach().numpy()"))


@exact(Scalar)
def _scalar(walk: Walk, node: Node) -> Recipe:
    return Recipe((walk.part(node.obj.tensor), ".detach().numpy()[()]"))


if numpy is not None:
    @base(numpy.generic, numpy.dtype)
    def _value(walk: Walk, node: Node) -> Recipe:
        return Recipe((walk.constant(node.obj, type(node.obj).__name__),))
