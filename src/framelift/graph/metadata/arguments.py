"""The arguments of one torch call, taken apart: a key for the metadata cache, and what the tape keeps.

In what the tape keeps, stand-ins are replaced by their `Value`s and containers are copied, because the program may
change its own lists afterwards.  In the key, stand-ins are replaced by their `Facts`.
"""

from __future__ import annotations

import enum
import math
import types
from collections.abc import Callable
from typing import Any

import torch

from ... import _core
from ..._core import id, is_a
from ...exc import InternalError
from ...guards.equality import indistinguishable
from ...vocabulary.class_reads import has_member, members_of, module_of, mro_of, name_of, qualname_of
from ...vocabulary.reasons import Interrupt
from ..fx.values import Body, Value
from ..symbols.numbers import NUMBERS

#: compared by equality in keys, and never equal to a value of another type
_PLAIN = frozenset({int, str, type(None), type(Ellipsis), torch.dtype, torch.device, torch.layout, torch.memory_format})
#: equal to values of other types (1 == 1.0 == True), so the key names the type.  That 0.0 == -0.0 does no harm:
#: keys lead to metadata, and no metadata depends on the sign of a zero.
_NUMBERS = frozenset({float, bool, complex})
_SEQUENCES = frozenset({tuple, list, torch.Size})
_DTYPES = {float: torch.float64, int: torch.int64, bool: torch.bool, complex: torch.complex128}


def take(args: Any, values: dict[int, Value], key: list[Any], found: list[Value]) -> list[Any]:
    """Take a sequence of arguments apart: extends `key` and `found`, returns what the tape keeps."""
    kept: list[Any] = []
    for arg in args:
        value = values.get(id(arg))
        if value is not None:
            found.append(value)
            key.append(value.facts)
            kept.append(value)
            continue
        kind = type(arg)
        if kind in _PLAIN:
            key.append(arg)
            kept.append(arg)
        elif kind in _NUMBERS:
            if arg != arg or kind is complex:
                _check_text(arg)
            key.append((kind, arg))
            kept.append(arg)
        else:
            kept.append(_take_other(arg, kind, values, key, found))
    return kept


_NAN = float("nan")


def _check_text(number: float | complex) -> None:
    """A graph's code has constants as texts, which say too little of some NaNs and complex numbers."""
    if type(number) is complex:
        fits = all(map(_has_one_text, (number.real, number.imag)))
    else:
        fits = indistinguishable(number, _NAN)
    if not fits:
        raise Interrupt("torch-operation", f"with the constant {number!r}, of which a text says too little,")


def _has_one_text(part: float) -> bool:
    return math.isfinite(part) and (part != 0 or math.copysign(1.0, part) > 0)


def distinct(found: list[Value]) -> tuple[list[Value], tuple[int, ...]]:
    """The values without repetition, and for each place in `found` which of them stood there."""
    order = list(dict.fromkeys(found))
    where = {value: i for i, value in enumerate(order)}
    return order, tuple(where[value] for value in found)


def has_long_part(key: tuple[Any, ...], most: int) -> bool:
    """Return whether a part of the key is itself of more than so many parts."""
    return any(type(part) is tuple and len(part) > most for part in key)


def _take_other(arg: Any, kind: type, values: dict[int, Value], key: list[Any], found: list[Value]) -> Any:
    if kind in NUMBERS:
        key.append(arg.key)
        return arg
    if kind in _SEQUENCES or kind is range or _is_record(kind):
        as_list = kind is list or kind is range  # to torch a range is one index, a tuple is several
        inner: list[Any] = [list if as_list else tuple]
        kept = take(arg, values, inner, found)
        key.append(tuple(inner))
        return kept if as_list else tuple(kept)
    if kind is slice:
        inner = [slice]
        kept = take((arg.start, arg.stop, arg.step), values, inner, found)
        key.append(tuple(inner))
        return slice(*kept)
    if kind is dict or issubclass(kind, dict) and arg.__class__ is dict:  # a view says that it is one
        names = tuple(arg)
        if not all(type(name) is str for name in names):
            raise Interrupt("torch-operation", "with a dictionary argument whose keys are not text")
        inner = [dict, names]
        kept = take(arg.values(), values, inner, found)
        key.append(tuple(inner))
        return dict(zip(names, kept))
    if kind in AS_IT_IS:
        key.append((kind, AS_IT_IS[kind](arg)))
        return arg
    if is_a(arg, torch.Tensor):
        raise _stray(arg)
    if issubclass(kind, list) and arg.__class__ is list:
        raise Interrupt("too-large", "a list given to an operation")
    plain = _as_plain(arg, kind)
    key.append((type(plain), plain))
    return plain


def _is_record(kind: type) -> bool:
    """Named tuples and torch.return_types: torch reads them as tuples."""
    return issubclass(kind, tuple) and (has_member(kind, "_fields") or module_of(kind) == "torch.return_types")


#: types whose objects operations are given as they are, and what of one results depend on
AS_IT_IS: dict[type, Callable[[Any], Any]] = {}
#: scalars of libraries that torch takes for plain numbers: those numbers
PLAIN: dict[type, Callable[[Any], Any]] = {}
#: classes of objects that stand for external ones and refuse any use
PLACEHOLDERS: set[type] = set()


def _as_plain(arg: Any, kind: type) -> Any:
    """Subclasses of numbers and text (enumerations, scalars of libraries) as what torch takes them for."""
    if kind is type and arg in _DTYPES:
        return _DTYPES[arg]
    if kind in PLACEHOLDERS:
        arg.value  # any use of it says why that cannot be
    # torch looks for its own attributes in each argument
    if is_a(_core.type_lookup(kind, "__getattribute__", None), types.FunctionType):
        raise Interrupt(
            "torch-operation",
            f"with an argument of type {module_of(kind)}.{qualname_of(kind)}, which answers reads itself,",
        )
    # An enumeration's or number class's own __int__ would run user code here, so the base class is asked.
    if is_a(arg, str):
        return str.__str__(arg) if not is_a(arg, enum.Enum) else str.__str__(arg.value)
    if is_a(arg, int):
        return int.__int__(arg)
    if is_a(arg, float):
        return float.__float__(arg)
    for base in mro_of(kind):
        if base in PLAIN:
            return PLAIN[base](arg)
    # what stands for an array says that it is one
    shown = kind if is_a(members_of(kind).get("__module__"), str) else arg.__class__
    raise Interrupt("torch-operation", f"with an argument of type {module_of(shown)}.{qualname_of(shown)}")


def _stray(tensor: torch.Tensor) -> BaseException:
    """A tensor that is no stand-in: a defect of the import rules, unless native code made it out of stand-ins."""
    device = _core.of_tensor(tensor, "device")
    text = f"{name_of(type(tensor))} of size {tuple(_core.of_tensor(tensor, 'size'))} on {device}"
    if device.type == "meta":
        return Interrupt("torch-operation", f"that made a tensor unseen ({text})")
    return InternalError(f"an external tensor reached the recorder without being imported: {text}")


def rebuild(kept: Any, of: Callable[[Any], Any]) -> Any:
    """Rebuild what `take` kept, with each `Value`, `Body` and symbolic number replaced by the result of `of`."""
    kind = type(kept)
    if kind is Value or kind is Body or kind in NUMBERS:
        return of(kept)
    if kind is list:
        return [rebuild(item, of) for item in kept]
    if kind is tuple:
        return tuple([rebuild(item, of) for item in kept])
    if kind is dict:
        return {name: rebuild(item, of) for name, item in kept.items()}
    if kind is slice:
        return slice(rebuild(kept.start, of), rebuild(kept.stop, of), rebuild(kept.step, of))
    return kept
