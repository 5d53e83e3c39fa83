"""Leaves: immutable values whose identity does not matter, as literals where that reads well, else constants."""

from __future__ import annotations

import datetime
import math
import re
import sys
import types
from typing import Any

import torch

from .. import _core
from ..graph.symbols.numbers import Bool, Float, Int
from ..graph.symbols.numpy_numbers import NumpyNumber
from ..graph.symbols.relations import text_of
from ..torch_ports.tensors import SDPBackend
from ..vocabulary.class_reads import name_of
from ..vocabulary.plain_types import SINGLETONS
from ..vocabulary.reasons import Interrupt
from ..vocabulary.shown_values import shown_addresses
from .recipe import LEAVES, Node, Recipe, Walk, exact, joined, leaf, type_name

_LONG = 80


def is_leaf(obj: Any) -> bool:
    """Return whether `obj` is rebuilt as a literal or constant."""
    return type(obj) in LEAVES


def is_kept_as_is(walk: Walk, obj: Any) -> bool:
    """Return whether `obj` may be kept as it is among many others: a value, and one that says nothing of this call
    alone.
    """
    kind = type(obj)
    if kind is int:
        return obj not in walk.scene.addresses
    return _is_known_text(walk, obj) if kind is str else kind in (type(None), bool, bytes) or is_number(obj)


def is_number(obj: Any) -> bool:
    """Return whether `obj` is a float or complex number that equals itself."""
    return type(obj) in (float, complex) and not is_nan(obj)


def is_nan(obj: Any) -> bool:
    """Return whether `obj` is a number that is not equal to itself: containers find it by its identity."""
    kind = type(obj)
    return bool(kind in (float, complex) and obj != obj)


def _is_known_text(walk: Walk, text: str) -> bool:
    return not _core.shows_address(text) or not shown_addresses(text)


@leaf(type(None), bool)
def _keyword(_walk: Walk, obj: Any) -> str:
    return repr(obj)


@leaf(*SINGLETONS)
def _single(walk: Walk, obj: Any) -> str:
    return walk.constant(obj, repr(obj))


@leaf(int)
def _int(walk: Walk, obj: int) -> str:
    if obj in walk.scene.addresses:  # of an object that is rebuilt somewhere else
        raise Interrupt("result-object", "int that is an address")
    return repr(obj) if obj.bit_length() <= 64 else walk.value(obj, "number")


@leaf(float)
def _float(walk: Walk, obj: float) -> str | Node:
    if is_nan(obj):
        return walk.one(obj)
    return repr(obj) if math.isfinite(obj) else walk.constant(obj, "inf")


@leaf(complex)
def _number(walk: Walk, obj: complex) -> str | Node:
    return walk.one(obj) if is_nan(obj) else walk.constant(obj, name_of(type(obj)))


@exact(float, complex)
def _nan(walk: Walk, node: Node) -> Recipe:
    """A NaN that was made inside is another object at each call; the bits are the same."""
    name = walk.constant(node.obj, "nan")
    if walk.scene.is_one_object(node.obj):
        return Recipe(make=(name,))
    return Recipe(make=("-(-", name, ")"))


@leaf(str)
def _str(walk: Walk, obj: str) -> str:
    if not _is_known_text(walk, obj):  # the default text of an object: another one at the next call
        raise Interrupt("result-object", "str that shows an address")
    return repr(obj) if len(obj) <= _LONG else walk.value(obj, "text")


@leaf(bytes)
def _bytes(walk: Walk, obj: bytes) -> str:
    return repr(obj) if len(obj) <= _LONG else walk.value(obj, "data")


@leaf(torch.dtype, torch.device, torch.layout, torch.memory_format)
def _torch_leaf(walk: Walk, obj: Any) -> str:
    return walk.value(obj, str(obj).removeprefix("torch."))


@leaf(
    *(types.CodeType, datetime.date, datetime.timedelta, datetime.timezone, re.Pattern),
    *(torch.finfo, torch.iinfo, torch.qscheme, SDPBackend),
)
def _value(walk: Walk, obj: Any) -> str:
    return walk.constant(obj, name_of(type(obj)))


@leaf(
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
def _descriptor(walk: Walk, obj: Any) -> str:
    return walk.constant(obj, f"{obj.__objclass__.__name__}_{obj.__name__}")


@exact(types.ModuleType)
def _module(walk: Walk, node: Node) -> Recipe:
    name = node.obj.__name__
    if sys.modules.get(name) is not node.obj:
        raise Interrupt("result-object", f"module {name}")
    return Recipe(make=(walk.constant(node.obj, name.rpartition(".")[2]),))


@exact(slice)
def _slice(walk: Walk, node: Node) -> Recipe:
    of = node.obj
    return Recipe(make=(walk.constant(slice, "slice"), "(", *joined(map(walk.part, (of.start, of.stop, of.step))), ")"))


@exact(range)
def _range(walk: Walk, node: Node) -> Recipe:
    of = node.obj
    return Recipe(make=(walk.constant(range, "range"), "(", *joined(map(walk.part, (of.start, of.stop, of.step))), ")"))


@exact(torch.Size)
def _size(walk: Walk, node: Node) -> Recipe:
    if all(type(n) is int for n in tuple.__iter__(node.obj)):
        return Recipe(make=(walk.constant(node.obj, "size"),))
    parts = joined(map(walk.part, tuple.__iter__(node.obj)))
    return Recipe(make=(walk.constant(torch.Size, "Size"), "((", *parts, ",))"))


@exact(torch.SymInt, torch.SymFloat, torch.SymBool)
def _symbol(_walk: Walk, node: Node) -> Recipe:
    # A symbol that is no graph value belongs to the rehearsal alone, although its class is written in Python.
    raise Interrupt("result-object", type_name(type(node.obj)))


@exact(datetime.datetime, datetime.time)
def _moment(walk: Walk, node: Node) -> Recipe:
    if type(node.obj.tzinfo) not in (type(None), datetime.timezone):
        raise Interrupt("result-object", type_name(type(node.obj)))
    return Recipe(make=(walk.constant(node.obj, name_of(type(node.obj))),))


# ---- Recipes of symbolic numbers: the text that calculates them at every call, or an output of the graph ----


@leaf(Int, Float, Bool, NumpyNumber)
def _symbolic(walk: Walk, number: Any) -> str:
    symbols = number.home
    if type(number) is Int and (known := number.node.maybe_as_int()) is not None:
        return repr(known)
    text = text_of(symbols, number)
    if text is not None:
        symbols.used.append(number)
        return text
    for place, output in enumerate(walk.outputs):
        if output is number:
            return f"t{place}"
    walk.outputs.append(number)
    return f"t{len(walk.outputs) - 1}"
