"""Which keys may be put into a dictionary or set by an entry: those whose hash and equality run no code of the user.

A hash written in Python ran as captured code when captured code inserted the key; running it again in the entry
could repeat its effects, or see a later state of the key.  The hash of a dataclass is generated, so it is known to
only read.
"""

from __future__ import annotations

import dataclasses
import enum
import operator
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from ..vocabulary.reasons import Interrupt
from .leaves import is_leaf, is_nan
from .recipe import Node, Walk, type_name
from .typefacts import MISSING, lookup, read_raw

#: built-in pairs of __hash__ and __eq__ that look at nothing else, or only at the elements
_PLAIN = {
    (t.__hash__, t.__eq__)
    for t in (
        object,
        str,
        int,
        float,
        complex,
        bytes,
        range,
        enum.Enum,
        torch.Tensor,
        types.MethodType,
        types.BuiltinMethodType,
    )
}
_ROTATIONS = 64
#: by type, the objects whose hash and equality those of a key are
PARTS_OF_KEYS: dict[type, Callable[[Any], tuple[Any, ...]]] = {}
_ELEMENTWISE = {(t.__hash__, t.__eq__) for t in (tuple, frozenset)}


def check_keys(walk: Walk, keys: Iterator[Any], container: type, reason: str = "result-object") -> tuple[Node, ...]:
    """Interrupt unless all keys hash without running user code; gives the nodes that must be complete before."""
    complete_first: list[Node] = []
    pending = list(keys)
    while pending:
        key = pending.pop()
        cls = type(key)
        if is_leaf(key) or cls in (types.FunctionType, types.ModuleType):
            continue
        pair = (lookup(cls, "__hash__"), lookup(cls, "__eq__"))
        if pair in _PLAIN:
            continue
        if cls in PARTS_OF_KEYS:
            pending += PARTS_OF_KEYS[cls](key)
        elif pair in _ELEMENTWISE:
            pending += tuple.__iter__(key) if issubclass(cls, tuple) else frozenset.__iter__(key)
        elif _generated(cls, *pair):
            part = walk.part(key)
            if type(part) is Node:
                part.uses -= 1
                complete_first.append(part)
            pending += _hashed_fields(key)
        else:
            raise Interrupt(reason, f"{type_name(container)} with keys of type {type_name(cls)}")
    return tuple(complete_first)


def has_fixed_order(elements: Iterable[Any]) -> bool:
    """Return whether the order in which a set iterates follows from its values and history, not from addresses."""
    return all(is_leaf(x) and not is_nan(x) or type(x) in (tuple, frozenset) and has_fixed_order(x) for x in elements)


def insertion_order(elements: tuple[Any, ...], container: type) -> tuple[Any, ...]:
    """An order in which inserting `elements` (listed as their set iterates) makes a set that iterates alike.

    Mostly that is the order of iteration itself; where a collision wrapped around the end of the hash table, a
    rotation.
    """
    if not has_fixed_order(elements):
        return elements
    for start in range(min(len(elements), _ROTATIONS) or 1):
        order = elements[start:] + elements[:start]
        if all(map(operator.is_, set(order), elements)):
            return order
    raise Interrupt("result-object", f"{type_name(container)} in an order that depends on its history")


def _generated(cls: type, *methods: Any) -> bool:
    """Return whether both methods were written by the dataclass decorator."""
    if lookup(cls, "__dataclass_fields__") is MISSING:
        return False
    return all(type(m) is types.FunctionType and m.__code__.co_filename == "<string>" for m in methods)


def _hashed_fields(key: Any) -> Iterator[Any]:
    for field in dataclasses.fields(key):
        if field.compare if field.hash is None else field.hash:
            yield read_raw(key, field.name)
