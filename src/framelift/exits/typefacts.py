"""Facts about classes and raw reads of instances, without running any code of the user.

`layout_of` says what an instance of a class consists of, or why that is not known.  Default deny: every byte of an
instance must be explained by a known base, slots, a dictionary and a list of weak references.
"""

from __future__ import annotations

import keyword
import sys
import types
from dataclasses import dataclass
from typing import Any

from ..vocabulary.class_reads import (
    basicsize_of,
    dictoffset_of,
    flags_of,
    itemsize_of,
    members_of,
    mro_of,
    weakrefoffset_of,
)

MISSING: Any = type("MISSING", (), {"__slots__": (), "__repr__": lambda self: "MISSING"})()

_MANAGED_DICT = 1 << 4  # the dictionary lies before the object
_HEAP_TYPE = 1 << 9
_WORD = object.__basicsize__ // 2


def lookup(cls: type, name: str) -> Any:
    """Look up a name in the MRO, unbound; MISSING where there is none."""
    for parent in mro_of(cls):
        found = members_of(parent)
        if name in found:
            return found[name]
    return MISSING


#: built-in types say the generic methods again under their own name
_GENERIC = {getattr(kind, name) for kind in (object, BaseException) for name in ("__setattr__", "__delattr__")}


def sets_plainly(cls: type) -> bool:
    """Return whether `obj.name = value` and `del obj.name` mean object.__setattr__ and object.__delattr__."""
    return lookup(cls, "__setattr__") in _GENERIC and lookup(cls, "__delattr__") in _GENERIC


def is_attribute_name(name: str) -> bool:
    """Return whether `obj.name` can be written in source for this name, and means this name."""
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name)


@dataclass(frozen=True, slots=True, eq=False)
class InstanceLayout:
    """The parts of an instance: its known `base`, its dictionary's descriptor, its slots as (name, descriptor)."""

    base: type
    dictionary: Any  # getset descriptor of __dict__, or None
    replaceable: bool  # the dictionary can be set as a whole
    slots: tuple[tuple[str, Any], ...]


#: what an instance cannot be made without
TRIAL: dict[type, tuple[Any, ...]] = {
    BaseExceptionGroup: ("", [KeyboardInterrupt()]),
    ExceptionGroup: ("", [Exception()]),
}


def layout_of(cls: type, bases: Any) -> InstanceLayout | None:
    """The layout of a class's instances, given the built-in bases whose contents can be rebuilt; None: not known."""
    base = None
    slots: list[tuple[str, Any]] = []
    for parent in mro_of(cls):
        if base is None and parent in bases and parent is not object:
            base = parent
        if base is not None and parent in mro_of(base):
            continue  # the known base explains itself and its own bases
        own = members_of(parent)
        if not flags_of(parent) & _HEAP_TYPE and parent is not object:
            return None
        if "__del__" in own:
            return None  # the rehearsal's copy would be finalised too
        if "__slots__" in own:
            slots += [
                (n, d) for n, d in own.items() if type(d) is types.MemberDescriptorType and d.__objclass__ is parent
            ]
    base = base or object
    dictionary = lookup(cls, "__dict__") if dictoffset_of(cls) else None
    if dictionary is not None and type(dictionary) is not types.GetSetDescriptorType:
        return None
    if basicsize_of(cls) != _explained(cls, base, len(slots)) or itemsize_of(cls) != itemsize_of(base):
        return None
    try:
        # CPython's own opinion: abstract classes and unsafe bases raise
        trial = base.__new__(cls, *TRIAL.get(base, ()))
    except TypeError:
        return None
    return InstanceLayout(base, dictionary, dictionary is not None and _replaceable(dictionary, trial), tuple(slots))


def _replaceable(dictionary: Any, trial: Any) -> bool:
    try:
        dictionary.__set__(trial, {})
    except (AttributeError, TypeError):
        return False
    return True


def _explained(cls: type, base: type, slots: int) -> int:
    size = basicsize_of(base) + slots * _WORD
    if weakrefoffset_of(cls) > 0 and not weakrefoffset_of(base):
        size += _WORD
    if dictoffset_of(cls) and not dictoffset_of(base) and not flags_of(cls) & _MANAGED_DICT:
        size += _WORD
    return size


def read_raw(obj: Any, name: str) -> Any:
    """An attribute from slot, instance dictionary or class, without running descriptors of the user."""
    found = lookup(type(obj), name)
    if type(found) is types.MemberDescriptorType:
        try:
            return found.__get__(obj)
        except AttributeError:
            return MISSING
    dictionary = lookup(type(obj), "__dict__")
    if type(dictionary) is types.GetSetDescriptorType:
        found = dictionary.__get__(obj).get(name, found)
    return found


def is_shared(dictionary: dict[str, Any]) -> bool:
    """Return whether anything but its owner and the caller's one variable refers to an object's dictionary.

    A dictionary that is empty and not shared needs no recipe: the rebuilt owner has its own.
    """
    found = _LONELY.__dict__
    return sys.getrefcount(dictionary) > _count(found)


def _count(dictionary: dict[str, Any]) -> int:
    return sys.getrefcount(dictionary)


#: owner of a dictionary that nothing else has; how many references a call itself holds differs with the interpreter's
#: mode
_LONELY = types.FunctionType(_count.__code__, {})
