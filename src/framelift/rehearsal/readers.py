"""Which function answers a read of an attribute, by the type of the object."""

from __future__ import annotations

import types
from typing import Any

import torch

from .. import _core
from .._core import is_a
from ..boundary.attributes import classes, function_attributes, instances
from ..boundary.attributes.known_classes import type_lookup
from ..boundary.gateway import let_in
from ..boundary.import_rules import MAY_HAVE_ATTRIBUTES
from ..boundary.world import World
from ..substitutes.numbers.number_attributes import SYMBOLIC, read_number
from ..vocabulary.class_reads import members_of, mro_of, qualname_of
from ..vocabulary.origins import const
from ..vocabulary.reasons import Interrupt
from . import call_rule


def _read_sealed(world: World, obj: Any, name: str) -> Any:
    """An attribute of what is itself inside: one that somebody gave it is guarded."""
    if id(obj) not in MAY_HAVE_ATTRIBUTES.of(world) and not is_a(obj, call_rule.OPERATIONS):  # made inside
        return _core.natively(getattr, (obj, name), None)
    own = getattr(obj, "__dict__", {})
    slot = type_lookup(type(obj), name)
    if type(slot) is types.MemberDescriptorType and _core.is_python_class(slot.__objclass__):
        raise Interrupt("opaque-object", f"{qualname_of(type(obj))}.{name}")
    if name in own and not (
        is_a(obj, call_rule.OPERATIONS) and (name.startswith("_") or is_a(own[name], call_rule.OPERATIONS))
    ):
        return let_in(world, own[name], const(obj).to("dict").to("item", name))
    if not is_a(obj, call_rule.OPERATIONS) and _is_of_python_class(type(obj), name):
        return instances.read_instance(world, obj, name)
    if name not in own and not hasattr(obj, name) and hasattr(obj, "__dict__"):
        world.guard(const(obj).to("dict"), "ABSENT", name, name)
    return getattr(obj, name)


def _is_of_python_class(cls: type, name: str) -> bool:
    """Return whether a class of the program, and not one written in C, has an attribute first."""
    return next((_core.is_python_class(base) for base in mro_of(cls) if name in members_of(base)), False)


def reader_of(obj: Any) -> Any:
    """The function that answers `obj.name`, as (world, obj, name)."""
    if is_a(obj, type):
        return classes.read_class
    cls = type(obj)
    if cls not in READERS and is_a(obj, SEALED):
        return _read_sealed
    return READERS.get(cls) or instances.read_instance


#: what attributes of are not written by captured code
SEALED = (property, staticmethod, classmethod, _core.Compiled, torch.jit.ScriptFunction, *call_rule.OPERATIONS)
_core.connect(sealed_types=SEALED)

READERS = {
    types.FunctionType: function_attributes.read_function,
    property: function_attributes.read_function,
    staticmethod: function_attributes.read_function,
    classmethod: function_attributes.read_function,
    _core.Compiled: function_attributes.read_function,
    torch.jit.ScriptFunction: function_attributes.read_function,
    types.MethodType: function_attributes.read_method,
    super: classes.read_super,
    **dict.fromkeys(SYMBOLIC, read_number),
    types.GenericAlias: instances.read_alias,
}
