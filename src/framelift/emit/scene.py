"""What emit needs to know of a finished rehearsal: the `Scene` protocol and the two records it hands over.

Nothing here looks at values; the session that ran the rehearsal implements `Scene`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..origin import Origin

__all__ = ["Effect", "Scene", "Shadow"]


@dataclass(frozen=True, slots=True, eq=False)
class Shadow:
    """A private copy of an external container.

    `before` is a shallow snapshot of `copy`, taken right after the import: a list (also for a deque), dict, set or bytes
    of the very same elements.
    """

    copy: Any
    original: Any
    origin: Origin
    before: Any


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """One pending change of an external object that is not a shadow.

    `owner` is the object as captured code saw it (handle, globals dictionary, cell, class, module, stand-in); `kind` is
    a name in `effects.EFFECTS`; `key` is the attribute or variable name, and None for cells.
    """

    kind: str
    owner: Any
    key: Any = None
    value: Any = None


class Scene(Protocol):
    """The end of a rehearsal, as seen by recipes."""

    shadows: Sequence[Shadow]
    effects: Sequence[Effect]

    def origin_of(self, obj: Any) -> Origin | None:
        """The origin of an external object seen as itself (handle, opaque, function, class, module); None: internal."""

    def shadow_of(self, obj: Any) -> Shadow | None:
        """The shadow whose copy `obj` is."""

    def is_stand_in(self, obj: Any) -> bool:
        """Whether `obj` stands for a tensor."""

    def input_origin(self, stand_in: Any) -> Origin | None:
        """The origin of the external tensor a stand-in stands for; None: it is a result, and so a graph output."""

    def is_internal_class(self, cls: type) -> bool:
        """Whether the class was created inside the rehearsal."""
