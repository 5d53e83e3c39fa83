"""Plain values as JSON, and back: the one form of constants in kept captures.

`None`, bools, ints and texts stand for themselves; all else is a list that begins with a tag.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import torch

from ..guards.equality import indistinguishable
from ..vocabulary.written_forms import NotKept
from .refusals import NotMine

#: values of these classes are JSON, but for large ints and what is no text in UTF-8
_AS_THEY_ARE = (type(None), bool, int, str)
_LARGE = 1 << 63  # Python limits the digits of what it reads and writes in decimal
_TORCH = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "format"}
#: the objects that torch's reprs name
_NAMED = {
    str(value): value
    for value in vars(torch).values()
    if type(value) in (torch.dtype, torch.layout, torch.memory_format)
}


_NAN = struct.pack("d", float("nan"))
_SINGLETONS = (type(None), bool, type(...), type(NotImplemented), torch.dtype, torch.layout, torch.memory_format)


def is_singleton(value: Any) -> bool:
    """Return whether there is but one object of this value in each process: then its identity is its value."""
    kind = type(value)
    if kind is int:
        return -5 <= value <= 256
    if kind in (str, bytes):
        return len(value) == 0 or len(value) == 1 and ord(value) < 256
    return kind in _SINGLETONS or kind is tuple and not value


def leaf_data(value: Any) -> Any:
    """The data of a value; raises `NotKept` for what is no plain value."""
    kind = type(value)
    if kind is int:
        return value if -_LARGE < value < _LARGE else ["int", hex(value)]
    if kind is str:
        return value if value.isascii() or _is_text(value) else ["text", value.encode("utf-8", "surrogatepass").hex()]
    if kind in _AS_THEY_ARE:
        return value
    if kind is float:
        if value != value and struct.pack("d", value) != _NAN:
            raise NotKept("a constant is no plain value", "a NaN with bits of its own")
        return ["float", value.hex() if value == value else "nan"]
    if kind is tuple:
        return ["tuple", [leaf_data(one) for one in value]]
    if kind is torch.Size:
        return ["size", [leaf_data(one) for one in value]]
    if kind is frozenset:
        return _set_data(value)
    if kind is slice:
        return ["slice", [leaf_data(one) for one in (value.start, value.stop, value.step)]]
    if kind is range:
        return ["range", [leaf_data(one) for one in (value.start, value.stop, value.step)]]
    if kind is complex:
        return ["complex", [leaf_data(value.real), leaf_data(value.imag)]]
    if kind is bytes:
        return ["bytes", value.hex()]
    if kind is torch.device:
        return ["device", str(value)]
    if value is ... or value is NotImplemented:
        return ["built-in", repr(value)]
    if kind in _TORCH and _NAMED.get(str(value)) is value:
        return [_TORCH[kind], str(value)]
    raise NotKept("a constant is no plain value", f"{kind.__module__}.{kind.__qualname__}")


def _is_text(value: str) -> bool:
    """Return whether JSON gives the same text back: of surrogates it makes the characters that they stand for."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _set_data(value: frozenset[Any]) -> list[Any]:
    """A set whose order is the same in each process has it; captures that looked at the order of others are not kept
    (csrc/set_order.cpp).
    """
    parts = [leaf_data(one) for one in value]
    if not all(type(one) in (bool, int, float) for one in value):
        return ["frozenset", sorted(parts, key=repr)]
    if not indistinguishable(frozenset([*value]), value):
        raise NotKept("the order of a set cannot be made again")
    return ["ordered", parts]


def holds_set(data: Any) -> bool:
    """Return whether a value is or holds a set: one that is made of the same parts may have another order."""
    if type(data) is not list:
        return False
    return data[0] in ("frozenset", "ordered") or data[0] == "tuple" and any(map(holds_set, data[1]))


def is_as_written(data: Any, value: Any) -> bool:
    """Return whether a value is what was written: of the same type, and sets in the same order where that was
    written.
    """
    kind = data[0] if type(data) is list else None
    if kind in _GROUPS:
        if type(value) is not _GROUPS[kind] or len(value) != len(data[1]):
            return False
        try:
            held = sorted(value, key=lambda one: repr(leaf_data(one))) if kind == "frozenset" else value
        except NotKept:
            return False
        return all(map(is_as_written, data[1], held))
    return indistinguishable(leaf_of(data), value)


_GROUPS: dict[str, Any] = {"tuple": tuple, "size": torch.Size, "frozenset": frozenset, "ordered": frozenset}


def _float(text: str) -> float:
    return float("nan") if text == "nan" else float.fromhex(text)


def _parts(data: Any) -> list[Any]:
    return [leaf_of(one) for one in data]


_READ: dict[str, Callable[[Any], Any]] = {
    "int": lambda data: int(data, 16),
    "text": lambda data: bytes.fromhex(data).decode("utf-8", "surrogatepass"),
    "float": _float,
    "tuple": lambda data: tuple(_parts(data)),
    "size": lambda data: torch.Size(_parts(data)),
    "frozenset": lambda data: frozenset(_parts(data)),
    "slice": lambda data: slice(*_parts(data)),
    "ordered": lambda data: frozenset(_parts(data)),
    "range": lambda data: range(*_parts(data)),
    "complex": lambda data: complex(*_parts(data)),
    "bytes": bytes.fromhex,
    "device": torch.device,
    "built-in": {"Ellipsis": ..., "NotImplemented": NotImplemented}.__getitem__,
    "dtype": _NAMED.__getitem__,
    "layout": _NAMED.__getitem__,
    "format": _NAMED.__getitem__,
}


def leaf_of(data: Any) -> Any:
    """The inverse of `leaf_data`."""
    if type(data) in _AS_THEY_ARE:
        return data
    read = _READ.get(data[0])
    if read is None:
        raise NotMine(f"a constant of an unknown kind: {data[0]}")
    return read(data[1])
