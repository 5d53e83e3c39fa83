"""A finished rehearsal as exits see it: the `Scene` protocol. The session that ran the rehearsal implements it.

Of a shadow, `before` is a shallow snapshot of `copy` taken right after the import: a list (for other sequences, too),
dict, set or bytes of the very same elements.  Of an effect, `owner` is the object as captured code saw it (handle,
globals dictionary, cell, class, module, stand-in, shadow), `kind` a name in `effects.EFFECTS`, `key` the attribute
or variable, None for cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any, Protocol

from ..boundary.records import Effect, Shadow
from ..vocabulary.origins import Origin


class Scene(Protocol):
    """The end of a rehearsal, as seen by recipes."""

    shadows: Sequence[Shadow]
    effects: Sequence[Effect]
    addresses: Set[int]  # numbers that came from where objects made inside lie in memory

    def origin_of(self, obj: Any) -> Origin | None:
        """The origin of an external object seen as itself (handle, opaque, function, class, module); None: internal."""

    def shadow_of(self, obj: Any) -> Shadow | None:
        """The shadow whose copy `obj` is."""

    def is_stand_in(self, obj: Any) -> bool:
        """Return whether `obj` stands for a tensor."""

    def input_origin(self, stand_in: Any) -> Origin | None:
        """The origin of the external tensor a stand-in stands for; None: it is a result, and so a graph output."""

    def is_alone(self, stand_in: Any) -> bool:
        """Return whether no other stand-in ever looked at the memory of this one."""

    def is_one_object(self, nan: Any) -> bool:
        """Return whether the very same object comes at each call: a constant of code, or one that is guarded from now
        on.
        """

    def stores_plainly(self, cls: type, names: Iterable[str]) -> bool:
        """Return whether storing these attributes of a fresh instance puts them into its dictionary; guarded from now
        on.
        """
