"""C types whose module was loaded a second time: the same C code under another type object."""

from __future__ import annotations

import functools
import sys

from .. import _core

__all__ = ["derives", "known_kind"]

_NAMES = tuple(type.__dict__[name].__get__ for name in ("__module__", "__qualname__"))


@functools.lru_cache(maxsize=4096)
def known_kind(cls: type) -> type:
    """The type that tables know for `cls`: another one only where that is made of the same C functions and has the same name."""
    module, name = (read(cls) for read in _NAMES)
    known = getattr(sys.modules.get(module), name, None) if isinstance(module, str) else None
    return known if known is not cls and isinstance(known, type) and _core.same_c_type(cls, known) else cls


def derives(cls: type, kind: type) -> bool:
    """Whether `cls` is `kind`, loaded a second time perhaps, or a subclass of it."""
    return any(known_kind(base) is kind for base in type.__dict__["__mro__"].__get__(cls))
