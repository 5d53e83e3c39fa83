"""Facts of a class, read past its metaclass: `cls.__mro__` may run code of the program, `mro_of(cls)` never does."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .. import _core
from .._core import id

_K = TypeVar("_K")
_T = TypeVar("_T")


def _reader(name: str) -> Callable[[type], Any]:
    return type.__dict__[name].__get__


mro_of: Callable[[type], tuple[type, ...]] = _reader("__mro__")
members_of: Callable[[type], Mapping[str, Any]] = _reader("__dict__")
flags_of: Callable[[type], int] = _reader("__flags__")
name_of: Callable[[type], str] = _reader("__name__")
qualname_of: Callable[[type], str] = _reader("__qualname__")
module_of: Callable[[type], Any] = _reader("__module__")
bases_of: Callable[[type], tuple[type, ...]] = _reader("__bases__")
basicsize_of: Callable[[type], int] = _reader("__basicsize__")
itemsize_of: Callable[[type], int] = _reader("__itemsize__")
dictoffset_of: Callable[[type], int] = _reader("__dictoffset__")
weakrefoffset_of: Callable[[type], int] = _reader("__weakrefoffset__")

#: what a class statement leaves in its class without being asked to, in any version of CPython
OF_CLASS_BODIES = frozenset(
    "__module__ __doc__ __annotations__ __annotate_func__ __annotations_cache__ __slots__ __static_attributes__ "
    "__firstlineno__".split()
)
_NOTHING = object()


def has_member(cls: type, name: str) -> bool:
    """Return whether the class or one of its bases has a member of this name."""
    return _core.type_lookup(cls, name, _NOTHING) is not _NOTHING


def names_of(cls: type) -> tuple[str, str, str]:
    """All that C code may say of a class in the text of an instance."""
    return str(module_of(cls)), qualname_of(cls), name_of(cls)


def built_in_member(cls: type, name: str) -> Any:
    """Return the attribute of the built-in part of a class, whatever its Python classes make of it; None without one.

    >>> built_in_member(type("Rows", (list,), {"__len__": lambda self: 0}), "__len__") is list.__len__
    True
    """
    base = next(base for base in mro_of(cls) if not _core.is_python_class(base))
    return _core.type_lookup(base, name, None)


def for_life(of_one: Callable[[_K], _T]) -> Callable[[_K], _T]:
    """Remember what a function says of a class or of code, weakly: a cache would keep all that their functions see."""
    found: dict[int, tuple[weakref.ref[_K], _T]] = {}  # by id: a WeakKeyDictionary takes four times as long

    @functools.wraps(of_one)
    def remembered(one: _K) -> _T:
        known = found.get(id(one))
        if known is not None and known[0]() is one:
            return known[1]
        answer = of_one(one)
        number = id(one)
        found[number] = weakref.ref(one, lambda _gone: found.pop(number, None)), answer
        return answer

    return remembered
