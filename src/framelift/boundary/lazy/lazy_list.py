"""External lists whose length changes from call to call, or that are too long to be imported: read element by element.

The length is a number like any other, so it may be symbolic; elements are imported as they are asked for; what is
appended is a pending write.  Asked for more, one that is not too long opens, as dictionaries do (`lazy_dict.py`).
"""

from __future__ import annotations

from typing import Any

from ... import _core
from .lazy_dict import add_methods
from .view import OF_OPENED, OpensWhole


class LazyList(OpensWhole, list):
    """A list by type.  `len`, truth, single elements and `append` need no more than they say."""

    __slots__ = ("_tail", *OF_OPENED)
    _tail: list[Any]  # what was appended
    builtin_type = list

    def plain(self) -> list[Any]:
        if self._whole is None and self._tail:
            raise self._refusal()
        whole: list[Any] = super().plain()
        return whole

    def length(self) -> Any:
        return super().length() + len(self._tail)

    def __bool__(self) -> bool:
        return bool(self._tail) or bool(self.length() != 0)

    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int or self._whole is not None:
            return _core.natively(list.__getitem__, (self.plain(), index), None)
        tail = self._tail
        if -len(tail) <= index < 0:
            return tail[index]
        inside = index if index >= 0 else index + len(tail)
        if -len(self._table) <= inside < len(self._table):
            return self._let_in(self._world, list.__getitem__(self._table, inside), self._origin.to("item", inside))
        return self.plain()[index]  # what follows depends on the length itself

    def append(self, item: Any) -> None:
        """A pending write."""
        if self._whole is not None:
            list.append(self._whole, item)
            return
        self._world.write("append", self, ("append", len(self._tail)), item)
        self._tail.append(item)

    def __iadd__(self, other: Any) -> Any:  # type: ignore[misc]  # as list's own, which takes more than list's `+`
        self.extend(other)
        return self

    def __imul__(self, count: Any) -> Any:  # type: ignore[misc]  # the same
        self[:] = self.plain() * count
        return self

    def __radd__(self, other: Any) -> Any:
        raise self._refusal()  # C code comes here for `+=` too, where a new list would be wrong


add_methods(
    LazyList,
    list,
    """
    __init__ __setitem__ __delitem__ __iter__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __add__ __mul__ __rmul__
    __contains__ __repr__ __reversed__ __reduce_ex__ __sizeof__ clear copy count extend index insert pop remove
    reverse sort
""",
)
