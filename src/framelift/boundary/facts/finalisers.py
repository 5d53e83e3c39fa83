"""Objects whose end the program may see: those with a finalizer, generators that wait inside a `try`, and what holds
them.

A frame keeps its locals until it ends, also those that nothing reads any more.  Handing over all of them at a
break would make every intermediate tensor a result; these are the ones that have to be.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Collection
from opcode import opmap
from typing import Any

import torch

from ... import _core
from ..._core import is_a
from ...vocabulary.class_reads import weakrefoffset_of
from ..becomes.containers import KINDS
from ..becomes.leaves import LEAF_TYPES, is_constant
from ..becomes.opaque import Opaque
from ..world import World

#: types whose objects end unseen
UNSEEN_ENDS: set[type] = {
    *LEAF_TYPES,
    torch.Tensor,
    torch.nn.Parameter,
    slice,
    bytearray,
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    types.CellType,
    types.FrameType,
    types.CodeType,
}
#: containers of more elements, and what is nested deeper, are taken to hold such an object
_MOST, _DEEPEST = 64, 4


def _held(cls: type, value: Any) -> Collection[Any] | None:
    """What a container holds whose own end is unseen; None for other objects."""
    if cls in (tuple, frozenset):
        return value
    if cls is not types.MappingProxyType and (cls not in KINDS or not KINDS[cls].refill):
        return None
    return value.values() if issubclass(cls, (dict, types.MappingProxyType)) else value


def _parts(cls: type, value: Any) -> list[Any]:
    """The first objects that a container holds, or an object in its attributes."""
    held = _held(cls, value)
    return list((_own(value) or {}).values() if held is None else held)[:_MOST]


def end_is_seen(value: Any, depth: int = 0) -> bool:
    """Return whether it may matter when an object of the program dies."""
    cls = type(value)
    if not _core.is_plain_class(cls):
        return True
    if cls in UNSEEN_ENDS:
        return False
    held = _held(cls, value)
    if held is not None:
        return depth == _DEEPEST or len(held) > _MOST or any(end_is_seen(part, depth + 1) for part in held)
    if cls in _GENERATORS:
        return _waits(value, end_is_seen, depth)
    if is_a(value, torch.Tensor):
        return _core.type_lookup(cls, "__del__", None) is not None
    return not is_constant(value)


def end_acts(value: Any, depth: int = 0) -> bool:
    """Return whether code of the program runs when an object dies, as far as is known: a finaliser's, or a
    generator's.
    """
    cls = type(value)
    if depth == _DEEPEST or not _core.is_plain_class(cls) or cls in UNSEEN_ENDS:
        return _core.type_lookup(cls, "__del__", None) is not None
    if cls in _GENERATORS:
        return _waits(value, end_acts, depth)
    if _core.type_lookup(cls, "__del__", None) is not None:
        return True
    return any(end_acts(part, depth + 1) for part in _parts(cls, value))


def end_is_seen_inside(world: World, value: Any, depth: int = 0) -> bool:
    """The same for what captured code holds.  Objects made inside have no finaliser: only what they hold, and
    generators, are looked at.
    """
    record = world.by_seen.get(id(value))
    if record is not None:
        return end_is_seen(record.original)
    cls = type(value)
    if cls in UNSEEN_ENDS or cls is Opaque or is_a(value, torch.Tensor):
        return False
    if cls in _GENERATORS:
        return _waits(value, lambda part, depth: end_is_seen_inside(world, part, depth), depth)
    return depth < _DEEPEST and any(end_is_seen_inside(world, part, depth + 1) for part in _parts(cls, value))


def is_referred_to(value: Any, stack: Any) -> bool:
    """Return whether a break's instruction takes an object that may be referred to weakly: a variable keeps it
    alive.
    """
    return (
        weakrefoffset_of(type(value)) != 0
        and not is_a(value, torch.Tensor)
        and not is_constant(value)
        and any(one is value for one in stack)
    )


def _own(value: Any) -> dict[str, Any] | None:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if type(found) is dict else None


_HANDLES = opmap["PUSH_EXC_INFO"]  # begins every handler that the program wrote
_GENERATORS = frozenset((types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType))
_FRAMES = {types.GeneratorType: "gi_frame", types.CoroutineType: "cr_frame", types.AsyncGeneratorType: "ag_frame"}


def _waits(generator: Any, seen: Any, depth: int) -> bool:
    """Return whether something happens when a generator that waits somewhere ends: a handler of its own, or the end of
    what it holds.

    (A closed one has no frame any more; some releases of CPython 3.12 still hold what it held.)
    """
    frame = getattr(generator, _FRAMES[type(generator)])
    if frame is not None and (_HANDLES in frame.f_code.co_code[::2] and _has_begun(generator) or depth == _DEEPEST):
        return True
    return depth < _DEEPEST and any(seen(part, depth + 1) for part in gc.get_referents(generator))


def _has_begun(generator: Any) -> bool:
    """False where nothing of it has run, so that nothing will.  Python warns of coroutines that nobody awaited."""
    return type(generator) is not types.GeneratorType or generator.gi_suspended or generator.gi_running
