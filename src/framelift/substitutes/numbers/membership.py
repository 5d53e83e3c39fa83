"""`number in table`, where the number changes from call to call and the table finds its keys by hash.

A hash would make the number itself a fact.  Asked key by key, only which of the keys it is becomes one, or that it is
none of them.
"""

from __future__ import annotations

import bisect
import operator
from typing import Any

from ... import _core
from ...boundary.lazy.view import View
from ...graph.symbols.numbers import Float, Int

#: more keys than this, and the two nearest decide for all
_MANY = 64

#: keys that equal a number, and those that never do
_NUMBERS = (int, bool, float)
_OTHERS = (str, bytes, tuple, frozenset, type(None))


def contains(number: Any, table: Any) -> bool:
    """`number in table` of a symbolic number and a dict or set that looks for its keys in its own way."""
    value = number.hint if type(number) in (Int, Float) else None
    keys = _keys(table) if value is not None and value == value else None
    if keys is None:
        return bool(_core.natively(operator.contains, (table, number), None))
    for key in keys:
        if key == value:
            return bool(number == key)
    if len(keys) > _MANY:
        keys.sort()
        after = bisect.bisect(keys, value)
        return not all(
            [bool(key < number) for key in keys[after - 1 : after] if after]
            + [bool(number < key) for key in keys[after : after + 1]]
        )
    return any([bool(number == key) for key in keys])


def _keys(table: Any) -> list[Any] | None:
    """The numbers among the keys; None where another key may have its own idea of what equals it."""
    if issubclass(type(table), View):
        if table.builtin_type not in (dict, set, frozenset):
            return None
        table = table.plain()
    # as C code would, whatever a class made of it says
    walk = next((cls.__iter__ for cls in (dict, set, frozenset) if issubclass(type(table), cls)), iter)
    keys = list(walk(table))
    if not set(map(type, keys)).issubset((*_NUMBERS, *_OTHERS)):
        return None
    return [key for key in keys if type(key) in _NUMBERS and key == key]
