"""One file per CPython version, and the choice of the one that runs."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module

from ..dialect import Dialect, UnsupportedPython

__all__ = ["VERSIONS", "current"]

#: version -> module of this package; each offers `dialect()`
VERSIONS: dict[tuple[int, int], str] = {(3, 11): "py311", (3, 12): "py312", (3, 13): "py313", (3, 14): "py314"}


@cache
def current() -> Dialect:
    """The dialect of the running interpreter."""
    name = VERSIONS.get(sys.version_info[:2])
    if name is None:
        known = ", ".join(f"{major}.{minor}" for major, minor in VERSIONS)
        raise UnsupportedPython(
            f"CPython {sys.version_info[0]}.{sys.version_info[1]} has no dialect; there are {known}."
        )
    dialect: Dialect = import_module(f".{name}", __name__).dialect()
    return dialect
