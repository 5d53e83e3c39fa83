"""C types whose module was loaded a second time: the same C code under another type object."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from typing import TypeVar

from ... import _core
from ..._core import id, is_a
from ...vocabulary.class_reads import mro_of

_T = TypeVar("_T")

_NAMES = tuple(type.__dict__[name].__get__ for name in ("__module__", "__qualname__"))


def for_life(of_class: Callable[[type], _T]) -> Callable[[type], _T]:
    """Remember what a function says of a class, weakly: a cache of classes would keep all that their functions see."""
    found: dict[int, tuple[weakref.ref[type], _T]] = {}  # by id: a WeakKeyDictionary takes four times as long

    @functools.wraps(of_class)
    def remembered(cls: type) -> _T:
        known = found.get(id(cls))
        if known is not None and known[0]() is cls:
            return known[1]
        answer = of_class(cls)
        number = id(cls)
        found[number] = weakref.ref(cls, lambda _gone: found.pop(number, None)), answer
        return answer

    return remembered


def known_kind(cls: type) -> type:
    """The type that tables know for `cls`: another one only if made of the same C functions under the same name."""
    other = _other_kind(cls)
    return cls if other is None else other


@for_life
def _other_kind(cls: type) -> type | None:
    module, name = (read(cls) for read in _NAMES)
    known = getattr(sys.modules.get(module), name, None) if is_a(module, str) else None
    return known if known is not cls and is_a(known, type) and _core.same_c_type(cls, known) else None


def derives(cls: type, kind: type) -> bool:
    """Return whether `cls` is `kind`, loaded a second time perhaps, or a subclass of it."""
    for base in mro_of(cls):  # noqa: SIM110  (asked hundreds of times in a capture)
        if base is kind or not _core.is_python_class(base) and known_kind(base) is kind:
            return True
    return False
