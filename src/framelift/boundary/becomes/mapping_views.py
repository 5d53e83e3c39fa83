"""External views of dictionaries and read-only proxies: the same view of what is seen of the dictionary behind them."""

from __future__ import annotations

import gc
import types
from collections.abc import Callable
from typing import Any

from ...vocabulary.origins import Origin
from ...vocabulary.plain_types import DICTIONARIES
from ..lazy.lazy_dict import LargeDict
from ..world import World

_MAKERS: dict[type, Callable[[Any], Any]] = {
    **{type(view(kind())): view for kind in reversed(DICTIONARIES) for view in (kind.keys, kind.values, kind.items)},
    types.MappingProxyType: types.MappingProxyType,
}
MAPPING_VIEWS: tuple[type, ...] = tuple(_MAKERS)


def behind(view: Any) -> Any:
    """The dictionary that a view or proxy looks at."""
    (table,) = gc.get_referents(view)
    return table


def import_view(world: World, value: Any, origin: Origin, let_in: Callable[[World, Any, Origin], Any]) -> Any:
    """Import a view; None where captured code does not see the dictionary as itself."""
    table = behind(value)
    if type(table) not in DICTIONARIES or _is_namespace(table):
        return None
    world.guard(origin, "TYPE", type(value))
    inside = let_in(world, table, origin.to("ask", behind))
    if type(inside) is LargeDict:  # opened, it reads and writes what the view looks at
        inside = inside.plain()
    if type(inside) is not type(table):
        return None
    return world.register(value, _MAKERS[type(value)](inside), origin, mutable=False)


def _is_namespace(table: dict[Any, Any]) -> bool:
    """Return whether it is a class's or module's own: those are read attribute by attribute."""
    return "__doc__" in table
