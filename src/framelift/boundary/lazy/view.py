"""Views: containers that import an entry when it is looked up.  One place for what a look-up means, and for what they
are to C code.

A view is empty to C code that looks inside, so that nothing of it may be read but by its methods.  Its methods
bear the names of the container's own: handed over at an exit, a bound one becomes the original's.
"""

from __future__ import annotations

from typing import Any

from ..records import ABSENT


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
