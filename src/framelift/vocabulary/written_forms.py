"""Forms on disk of objects that captures name by identity, by their types.

What a form holds, and how it is read in another process: `cache/objects.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class WrittenForm(NamedTuple):
    """The written form of an object: its kind, plain facts in JSON's types, and the objects and values in it."""

    kind: str
    plain: list[Any]
    parts: tuple[Any, ...] = ()


class NotKept(Exception):
    """A capture has something that cannot be written.  `what` is the reason alone, without the thing it is about."""

    def __init__(self, what: str, thing: str = "") -> None:
        super().__init__(f"{what}: {thing}" if thing else what)
        self.what = what


#: by exact type; a form raises `NotKept` where the object has none
FORMS: dict[type, Callable[[Any], WrittenForm]] = {}
#: by exact type: module and path by which an object may be found again
NAMES: dict[type, Callable[[Any], tuple[str, str]]] = {}
#: the same for classes of framelift's that hide theirs
OWN_NAMES: dict[type, tuple[str, str]] = {}
