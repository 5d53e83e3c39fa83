"""Large dictionaries from outside: read key by key, so that a table of thousands of entries costs what the keys read cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..origin import Origin
from ..reasons import Interrupt
from .lazy import LazyLookup
from .leaves import is_constant, is_leaf
from .world import ABSENT, World

__all__ = ["LargeDict"]


class LargeDict(LazyLookup, dict):  # type: ignore[type-arg]
    """A dict by type.  Look-ups import one entry and guard it, or its absence; everything else interrupts."""

    __slots__ = ("_let_in", "_origin", "_table", "_world")

    def __init__(self, world: World, table: dict[Any, Any], origin: Origin, let_in: Callable[[World, Any, Origin], Any]) -> None:
        self._world, self._table, self._origin, self._let_in = world, table, origin, let_in

    @property
    def __class__(self) -> type:  # what it stands for
        return dict

    def _find(self, key: Any) -> Any:
        if not (is_leaf(key) or is_constant(key)):
            raise Interrupt("too-large", f"a dict of {len(self._table)} entries, read with a key of type {type(key).__qualname__},")
        if dict.__contains__(self._table, key):
            return self._let_in(self._world, dict.__getitem__(self._table, key), self._origin.to("item", key))
        self._world.guard(self._origin, "ABSENT", key, key)
        return ABSENT

    def __bool__(self) -> bool:
        self._world.guard(self._origin, "CHECK", (bool, "is not empty"))
        return True

    def _refuse(self, *_args: Any, **_kwargs: Any) -> Any:
        raise Interrupt("too-large", f"a dict of {len(self._table)} entries")


for _name in """__setitem__ __delitem__ __iter__ __len__ __eq__ __ne__ __or__ __ror__ __ior__ __repr__ __reversed__ clear copy items keys
        pop popitem setdefault update values __reduce_ex__ __sizeof__""".split():
    setattr(LargeDict, _name, LargeDict._refuse)
