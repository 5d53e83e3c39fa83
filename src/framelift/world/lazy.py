"""Mappings that import an entry when it is looked up: one place for what a look-up means."""

from __future__ import annotations

from typing import Any

from .world import ABSENT

__all__ = ["LazyLookup"]


class LazyLookup:
    """`_find(key)` gives what captured code sees for the entry, guarded, or ABSENT, guarded too."""

    __slots__ = ()

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
