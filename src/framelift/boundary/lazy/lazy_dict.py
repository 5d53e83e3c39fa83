"""External dictionaries that are read key by key: large ones, those whose keys change, and those among the arguments.

A table of thousands of entries then costs what the keys read cost, and keys that nobody asks for may change.
Asked for more than single entries, one that is not too large opens: a shadow of all of it is made, which then
answers for it.
"""

from __future__ import annotations

from typing import Any

from ... import _core, config
from ...vocabulary.class_reads import qualname_of
from ...vocabulary.reasons import Interrupt
from ..becomes.leaves import is_constant, is_leaf
from ..records import ABSENT
from .view import OF_OPENED, LazyLookup, OpensWhole, View


class LargeDict(LazyLookup, OpensWhole, dict):
    """A dict by type.  Look-ups import one entry and guard it, or its absence; everything else needs the whole."""

    __slots__ = ("_changes", *OF_OPENED)
    _changes: bool  # its keys were others before

    def _find(self, key: Any) -> Any:
        known = is_leaf(key) or is_constant(key) and id(key) not in self._world.functions.origins
        if self._whole is not None or not known and len(self._table) <= self._world.largest:
            return _core.natively(dict.get, (self.plain(), key, ABSENT), None)
        if not known:
            raise Interrupt(
                "too-large", f"a dict of {len(self._table)} entries, read with a key of type {qualname_of(type(key))},"
            )
        if dict.__contains__(self._table, key):
            return self._let_in(self._world, dict.__getitem__(self._table, key), self._origin.to("item", key))
        self._world.guard(self._origin, "ABSENT", key, key)
        return ABSENT

    def __bool__(self) -> bool:
        if (
            self._whole is not None
            or not self._table
            or not (self._changes or len(self._table) > config.large_container)
        ):
            return bool(self.length() != 0)
        self._world.guard(self._origin, "CHECK", (bool, "is not empty"))
        return True

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]  # as dict's own, which takes more than dict's `|`
        self.update(other)
        return self

    @staticmethod
    def fromkeys(*args: Any) -> Any:
        return _core.natively(dict.fromkeys, args, None)


def add_methods(cls: type, builtin_type: type, names: str) -> None:
    """Give a class of views the container's name, for errors, and the methods that need all of it."""
    cls.__name__ = (
        builtin_type.__name__
        if builtin_type.__module__ == "builtins"
        else f"{builtin_type.__module__}.{builtin_type.__name__}"
    )
    cls.__hash__ = None  # type: ignore[assignment]  # as containers have it
    for name in names.split():
        setattr(cls, name, _through(builtin_type, name))


def _through(builtin_type: type, name: str) -> Any:
    own = getattr(builtin_type, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        others = tuple([arg.plain() if issubclass(type(arg), View) else arg for arg in args])
        return _core.natively(own, (self.plain(), *others), kwargs or None)

    method.__name__, method.__qualname__, method.__doc__ = name, f"{builtin_type.__name__}.{name}", own.__doc__
    return method


add_methods(
    LargeDict,
    dict,
    """
    __init__ __setitem__ __delitem__ __iter__ __eq__ __ne__ __or__ __ror__ __repr__ __reversed__ clear copy items
    keys pop popitem setdefault update values __reduce_ex__ __sizeof__ __lt__ __le__ __gt__ __ge__
""",
)
