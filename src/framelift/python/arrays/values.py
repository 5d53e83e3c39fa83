"""numpy's arrays, scalars, kinds and functions as values: what external ones become, how those made inside are built,
and what identifies them on disk.

What an array is inside: `boundary/becomes/arrays.py`; a scalar that changes: `graph/symbols/numpy_numbers.py`.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch

from ... import _core
from ..._core import is_a
from ...boundary.becomes.arrays import Array, Scalar, array_over, numpy, owns_memory, tensor_of
from ...boundary.dynamism import UNGUARDED_NUMBERS
from ...boundary.facts.unwatched_reads import FOUNDATIONS
from ...boundary.gateway import let_in
from ...boundary.import_rules import BASE_RULES, RULES, constant, let_in_opaque, rule
from ...boundary.world import World
from ...exits.recipe import Node, Recipe, Walk, base, exact, type_name
from ...graph.metadata.arguments import PLAIN
from ...graph.symbols.numpy_numbers import SCALARS
from ...guards.checks import check
from ...guards.equality import indistinguishable
from ...vocabulary.class_reads import module_of, name_of
from ...vocabulary.origins import Origin
from ...vocabulary.reasons import Interrupt
from ...vocabulary.written_forms import FORMS, NAMES, OWN_NAMES, NotKept, WrittenForm

# ---- external ones ---------------------------------------------------------------------------------------------------


def as_tensor(array: Any) -> torch.Tensor:
    """The tensor over an array's memory."""
    return torch.from_numpy(array)


@check
def _is_writeable_ndarray(array: Any) -> bool:
    return type(array) is numpy.ndarray and array.flags.writeable and array.dtype.isnative


def _array(world: World, value: Any, origin: Origin) -> Any:
    """An external array as captured code sees it; a placeholder where a tensor cannot stand for it."""
    known = [record.original for record in world.memo.values() if type(record.original) is numpy.ndarray]
    if not _is_writeable_ndarray(value) or any(numpy.may_share_memory(value, other) for other in known):
        return let_in_opaque(world, value, origin)
    try:
        tensor = as_tensor(value)
    except (TypeError, ValueError):  # a dtype or layout that tensors do not have
        return let_in_opaque(world, value, origin)
    world.keep.append(tensor)
    world.guard(origin, "CHECK", (_is_writeable_ndarray, "is a plain array"), "plain")
    place = origin.to("ask", as_tensor)
    seen = let_in(world, tensor, place)
    world.distinct.remove(place)  # made at each look, so that it has no identity; the arrays have
    return world.register(value, array_over(seen), origin)


@check
def _is_value(cls: type, parts: tuple[Any, ...], now: Any) -> bool:
    return type(now) is cls and indistinguishable(_parts(now), parts)


def _parts(value: Any) -> tuple[Any, ...]:
    """Return the observable parts of a scalar or dtype of numpy; floats are shown without the bits of a NaN."""
    if is_a(value, numpy.dtype):
        return repr(value), value.metadata is None
    holds_more = is_a(value, numpy.inexact) and value.itemsize <= 16 and not is_a(value, numpy.longdouble)
    return repr(value), value.tobytes() if holds_more else b"", value.dtype.str


def _value(world: World, value: Any, origin: Origin) -> Any:
    """A scalar or dtype of numpy: a value."""
    dtype = getattr(value, "dtype", value)
    if is_a(value, numpy.void) or dtype.hasobject or dtype.metadata is not None:
        return let_in_opaque(world, value, origin)
    if type(value) in SCALARS:
        plain = value.item()
        if world.dynamism.scalar(plain, origin):
            world.guard(origin, "TYPE", type(value))
            world.numbers[origin] = seen = world.tensors.number(value, origin)
            world.register(value, seen, origin)  # which of them are one object is guarded
            # C code that keeps what it is given gets the scalar itself
            world.by_seen[id(value)] = world.by_seen[id(seen)]
            return seen
        UNGUARDED_NUMBERS.of(world)[origin] = plain
    asked = functools.partial(_is_value, type(value), _parts(value))
    world.guard(origin, "CHECK", (asked, f"is {value!r}"))
    return world.register(value, value, origin, mutable=False)


def _generator(world: World, value: Any, origin: Origin) -> Any:
    """A generator is itself: its methods have substitutes, or are not known."""
    world.guard(origin, "TYPE", type(value))
    _core.mark_external(value)
    return world.register(value, value, origin)


# ---- at an exit ------------------------------------------------------------------------------------------------------


@exact(Array)
def _built_array(walk: Walk, node: Node) -> Recipe:
    tensor = tensor_of(node.obj)
    # a program may ask for its flags, its base, or resize it
    own = owns_memory(node.obj) and walk.scene.is_alone(tensor)
    return Recipe((walk.part(tensor), ".detach().numpy().copy('K')" if own else ".detach().numpy()"))


@exact(Scalar)
def _built_scalar(walk: Walk, node: Node) -> Recipe:
    return Recipe((walk.part(tensor_of(node.obj)), ".detach().numpy()[()]"))


def _built_kind(walk: Walk, node: Node) -> Recipe:
    return Recipe((walk.constant(node.obj, name_of(type(node.obj))),))


def _built_value(walk: Walk, node: Node) -> Recipe:
    """A scalar made inside is another object at every call, as numpy's are: an array without dimensions keeps the
    value and hands them out.
    """
    kind = type(node.obj)
    # records are written to, texts lose the zeros at their end
    if module_of(kind).partition(".")[0] != "numpy" or issubclass(kind, numpy.flexible):
        raise Interrupt("result-object", type_name(kind))
    return Recipe((walk.constant(numpy.asarray(node.obj), name_of(kind)), "[()]"))


# ---- on disk ---------------------------------------------------------------------------------------------------------


def _written_ufunc(function: Any) -> WrittenForm:
    if vars(numpy).get(function.__name__) is not function:
        raise NotKept("a function of numpy's kind that is not its own", function.__name__)
    return WrittenForm("ufunc", [function.__name__])


def _written_function(function: Any) -> WrittenForm:
    """One of numpy's own functions that ask their arguments first: found in the module it names."""
    module, name = function.__module__, function.__name__
    if module.partition(".")[0] != "numpy" or vars(sys.modules.get(module)).get(name) is not function:
        raise NotKept("a function of numpy's kind that is not its own", name)
    return WrittenForm("function of numpy", [module, name])


FOUNDATIONS.add("numpy")
OWN_NAMES[Array] = array_over.__module__, "Array"  # it passes for numpy's: it hides its module
if numpy is not None:
    rule(numpy.ndarray)(_array)
    for _kind in (numpy.ufunc, type(numpy.concatenate), type(numpy.random.RandomState.rand)):
        RULES.setdefault(_kind, constant)  # the last is of Cython, or a method descriptor
    rule(numpy.random.RandomState, numpy.random.Generator)(_generator)
    BASE_RULES[numpy.generic] = BASE_RULES[numpy.dtype] = _value
    PLAIN[numpy.integer] = PLAIN[numpy.floating] = lambda scalar: scalar.item()
    base(numpy.dtype)(_built_kind)
    base(numpy.generic)(_built_value)
    FORMS[numpy.ufunc] = _written_ufunc
    NAMES[numpy.ufunc] = lambda function: ("numpy", function.__name__)
    FORMS.setdefault(type(numpy.concatenate), _written_function)
