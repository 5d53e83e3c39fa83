"""External containers whose length changes from call to call: read element by element, as lists are (`lazy_list.py`).

Unlike those of lists and dictionaries, these views are of no built-in class: C code would look into a set without
asking, so it must not take them for one.  What they do not know themselves is done to the whole, which is imported
then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ... import _core
from ...guards.checks import check
from ...vocabulary.origins import Origin
from ...vocabulary.reasons import Interrupt
from ...vocabulary.shown_values import shown_value
from ..becomes.leaves import holds_nan, is_leaf
from ..world import World
from .lazy_dict import add_methods
from .view import View


def length_of(origin: Origin) -> Origin:
    """Where the length of such a container is found."""
    return origin.to("ask", len)


class Growing(View):
    """`_table` is the real container; `_make` makes the shadow of the whole."""

    __slots__ = ("_let_in", "_make", "_origin", "_table", "_tail", "_whole", "_world")
    _world: World
    _table: Any
    _origin: Origin
    _let_in: Callable[[World, Any, Origin], Any]
    _make: Callable[[], Any]
    _whole: Any
    _tail: list[Any]

    @classmethod
    def of(
        cls,
        world: World,
        table: Any,
        origin: Origin,
        let_in: Callable[[World, Any, Origin], Any],
        shadow: Callable[[], Any],
    ) -> Any:
        """The view of `table`."""
        self = object.__new__(cls)
        self._world, self._table, self._origin, self._let_in = world, table, origin, let_in
        self._make, self._whole, self._tail = shadow, None, []
        return self

    def plain(self) -> Any:
        if self._whole is None:
            if self._tail:
                raise self._refusal()
            self._whole = self._make()
        return self._whole

    def _refusal(self) -> Interrupt:
        return Interrupt("too-large", f"a {self.builtin_type.__name__} of {len(self._table)} entries")

    def length(self) -> Any:
        if self._whole is not None:
            return len(self._whole)
        return self._let_in(self._world, len(self._table), length_of(self._origin)) + len(self._tail)

    def __bool__(self) -> bool:
        return bool(self._tail) or bool(self.length() != 0)

    def refuse(self, _other: Any) -> Any:
        raise self._refusal()  # C code comes here for the operators that work in place, too


@check
def _set_has(key: Any, found: bool, now: set[Any]) -> bool:
    return set.__contains__(now, key) is found


class LazySet(Growing):
    """A set by its class.  `len`, truth, `add` of a plain value and whether it has one need no more than they say."""

    __slots__ = ()
    builtin_type = set
    update: Callable[[Any], None]  # given by add_methods(), as the next
    intersection_update: Callable[[Any], None]
    difference_update: Callable[[Any], None]
    symmetric_difference_update: Callable[[Any], None]

    def __contains__(self, key: object) -> bool:
        if self._whole is not None or not is_leaf(key) or holds_nan(key):
            return bool(_core.natively(set.__contains__, (self.plain(), key), None))
        if key in self._tail:
            return True
        found = set.__contains__(self._table, key)
        said = f"{'has' if found else 'has not'} {shown_value(key)}"
        asked = functools.partial(_set_has, key, found)
        self._world.guard(self._origin, "CHECK", (asked, said), (said, type(key)))
        return found

    def add(self, key: Any) -> None:
        """A pending write, where it is a new one."""
        if self._whole is not None or not is_leaf(key) or holds_nan(key):
            _core.natively(set.add, (self.plain(), key), None)
        elif key not in self:
            self._world.write("add", self, ("add", len(self._tail)), key)
            self._tail.append(key)

    __ror__ = __rand__ = __rsub__ = __rxor__ = Growing.refuse

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def __iand__(self, other: Any) -> Any:
        self.intersection_update(other)
        return self

    def __isub__(self, other: Any) -> Any:
        self.difference_update(other)
        return self

    def __ixor__(self, other: Any) -> Any:
        self.symmetric_difference_update(other)
        return self


add_methods(
    LazySet,
    set,
    """
    __iter__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __and__ __or__ __sub__ __xor__ __repr__ __reduce__
    __reduce_ex__ __sizeof__ clear copy difference difference_update discard intersection intersection_update
    isdisjoint issubset issuperset pop remove symmetric_difference symmetric_difference_update union update
""",
)
