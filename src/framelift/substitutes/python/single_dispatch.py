"""functools.singledispatch: the choice of an implementation, without the cache of weak references that keeps earlier
choices.

What the choice depends on is the registry, read and guarded like any dictionary, and what abstract classes answer.
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

from ... import _core
from ..._core import is_a
from ...boundary.gateway import let_in
from ...calls.call_tables import CODE_HANDLERS
from ...vocabulary.origins import const

if TYPE_CHECKING:
    from ...recording.session import Session


def _dispatch(session: Session, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`generic.dispatch(cls)`."""
    index = function.__code__.co_freevars.index("registry")
    registry = function.__closure__[index].cell_contents
    if not _core.is_internal(function):
        world = session.world
        registry = let_in(
            world,
            registry,
            (world.functions.origins.get(id(function)) or const(function)).to("cell", index).to("contents"),
        )
    cls = args[0] if args else kwargs["cls"]
    if cls in registry:
        return registry[cls]
    find = functools._find_impl  # type: ignore[attr-defined]  # private in typeshed
    return _core.captured(find, (cls, registry), None)


for _part in functools.singledispatch.__code__.co_consts:
    if is_a(_part, types.CodeType) and _part.co_name == "dispatch" and "registry" in _part.co_freevars:
        CODE_HANDLERS[_part] = _dispatch
