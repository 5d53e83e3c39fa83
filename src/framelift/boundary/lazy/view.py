"""Views: containers that import an entry when it is looked up.  One place for what a look-up means, and for what they
are to C code.

A view is empty to C code that looks inside, so that nothing of it may be read but by its methods.  Its methods
bear the names of the container's own: handed over at an exit, a bound one becomes the original's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...vocabulary.origins import Origin
from ...vocabulary.reasons import Interrupt
from ..records import ABSENT
from ..world import World


class View:
    """`builtin_type` is what it stands for; `plain()` gives what it holds as such a container, imported whole."""

    __slots__ = ()
    builtin_type: type

    @property  # type: ignore[misc]  # object's can be assigned to
    def __class__(self) -> type:  # what it stands for
        return self.builtin_type

    def plain(self) -> Any:
        """All of it, as C code may read it."""
        raise NotImplementedError

    def length(self) -> Any:
        """Return the length of the container; symbolic where that changes."""
        return len(self.plain())

    def __len__(self) -> int:  # asked by C code
        length = self.length()
        return length if type(length) is int else length.value()


class LazyLookup(View):
    """`_find(key)` gives what captured code sees for the entry, guarded, or ABSENT, guarded too."""

    __slots__ = ()
    builtin_type = dict

    def _find(self, key: Any) -> Any:
        raise NotImplementedError

    def __getitem__(self, key: Any) -> Any:
        found = self._find(key)
        if found is ABSENT:
            raise KeyError(key)
        return found

    def get(self, key: Any, default: Any = None) -> Any:
        """The entry, or the default."""
        found = self._find(key)
        return default if found is ABSENT else found

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not ABSENT


#: the slots of views that open, which a class has beside a built-in container's memory
OF_OPENED = ("_let_in", "_make", "_origin", "_table", "_whole", "_world")


class OpensWhole(View):
    """A view of an external `_table` that is read entry by entry.  Asked for more it opens: a shadow of all of it is
    made, which then answers for it.
    """

    __slots__ = ()
    _world: World
    _table: Any
    _origin: Origin
    _let_in: Callable[[World, Any, Origin], Any]
    _make: Callable[[], Any]  # gives the shadow
    _whole: Any  # None: it is not open

    @classmethod
    def of(cls, world: World, table: Any, origin: Origin, let_in: Any, make: Callable[[], Any], **own: Any) -> Any:
        """The view of `table`; `own` are the slots of the class itself."""
        kind: Any = cls.builtin_type
        self = kind.__new__(cls)
        slots = {"_world": world, "_table": table, "_origin": origin, "_let_in": let_in, "_make": make, "_whole": None}
        for name, value in {**slots, **own}.items():
            setattr(self, name, value)
        return self

    def plain(self) -> Any:
        if self._whole is None:
            if len(self._table) > self._world.largest:
                raise self._refusal()
            self._whole = self._make()
        return self._whole

    def length(self) -> Any:
        if self._whole is not None:
            return len(self._whole)
        return self._let_in(self._world, len(self._table), self._origin.to("len"))

    def _refusal(self) -> Interrupt:
        return Interrupt("too-large", f"a {self.builtin_type.__name__} of {len(self._table)} entries")
