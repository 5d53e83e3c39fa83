"""Deques."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, MutableSequence, Sequence
from typing import Any

from .. import _core
from ..boundary.becomes.containers import CopyRule, LetIn
from ..boundary.lazy.lazy_dict import add_methods
from ..boundary.lazy.view import GrowingView
from ..boundary.records import Shadow
from ..boundary.world import World
from ..exc import InternalError
from ..exits.containers import display
from ..exits.instances import Base, Contents, extend, statement
from ..exits.recipe import Node, Recipe, Text, Walk
from ..exits.write_back import Method, methods, same
from ..vocabulary.origins import Origin
from ..vocabulary.reasons import Interrupt
from .feature import Feature, register

_MAXLEN = deque.maxlen.__get__

# ---- what an external one becomes ------------------------------------------------------------------------------------


def _empty(value: Any) -> Any:
    made = deque.__new__(type(value))
    deque.__init__(made, maxlen=_MAXLEN(value))
    return made


def _fill(world: World, copy: Any, value: Any, origin: Origin, let_in: LetIn) -> None:
    world.guard(origin, "LEN", deque.__len__(value))
    world.guard(origin.to("attr", "maxlen"), "EQ", _MAXLEN(value))
    for i, item in enumerate(deque.copy(value)):
        deque.append(copy, let_in(world, item, origin.to("item", i)))


class LazyDeque(GrowingView):
    """One whose length changes from call to call: `len`, truth, single elements, `maxlen` and `append` need no more
    than they say, and what it does not know is done to the whole, which is imported then.
    """

    __slots__ = ("_let_in", "_make", "_origin", "_table", "_tail", "_whole", "_world")
    _world: World
    _table: deque[Any]
    _origin: Origin
    _let_in: LetIn
    _make: Callable[[], Any]
    _whole: Any
    _tail: list[Any]
    builtin_type = deque
    extend: Callable[[Any], None]  # one of those that add_methods() gives it

    @classmethod
    def of(cls, world: World, table: Any, origin: Origin, let_in: LetIn, shadow: Callable[[], Any]) -> Any:
        """The view of `table`; `shadow` makes the whole."""
        self = object.__new__(cls)
        self._world, self._table, self._origin, self._let_in = world, table, origin, let_in
        self._make, self._whole, self._tail = shadow, None, []
        return self

    def plain(self) -> Any:
        if self._whole is None:
            if self._tail:
                self.refuse()
            self._whole = self._make()
        return self._whole

    def refuse(self, _other: Any = None) -> Any:
        raise Interrupt("too-large", f"a deque of {len(self._table)} entries")

    def length(self) -> Any:
        if self._whole is not None:
            return len(self._whole)
        return self._let_in(self._world, len(self._table), self._origin.to("ask", len)) + len(self._tail)

    def __bool__(self) -> bool:
        return bool(self._tail) or bool(self.length() != 0)

    @property
    def maxlen(self) -> Any:
        return self._let_in(self._world, self._table.maxlen, self._origin.to("attr", "maxlen"))

    def __getitem__(self, index: Any) -> Any:
        tail = self._tail
        if type(index) is not int or self._whole is not None:
            return _core.natively(operator.getitem, (self.plain(), index), None)
        if -len(tail) <= index < 0:
            return tail[index]
        inside = index if index >= 0 else index + len(tail)
        if -len(self._table) <= inside < len(self._table):
            return self._let_in(self._world, self._table[inside], self._origin.to("item", inside))
        return self.plain()[index]  # what follows depends on the length itself

    def append(self, item: Any) -> None:
        """A pending write, where nothing is pushed out by it."""
        if self._whole is not None or self.maxlen is not None and not self.length() < self.maxlen:
            deque.append(self.plain(), item)
            return
        self._world.write("append", self, ("append", len(self._tail)), item)
        self._tail.append(item)

    __radd__ = __rmul__ = refuse

    def __iadd__(self, other: Any) -> Any:
        self.extend(other)
        return self


MutableSequence.register(LazyDeque)  # patterns ask for a flag of the class
add_methods(
    LazyDeque,
    deque,
    """
    __setitem__ __delitem__ __iter__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __add__ __mul__ __contains__ __repr__
    __reversed__ __reduce__ __reduce_ex__ __copy__ __sizeof__ appendleft clear copy count extend extendleft index
    insert pop popleft remove reverse rotate
""",
)


# ---- what changed in one, and how one made inside is built -----------------------------------------------------------


def _changes(walk: Walk, shadow: Shadow, kind: type) -> list[Text]:
    before, after = shadow.before, list(deque.__iter__(shadow.copy))
    if same(before, after):
        return []
    call = methods(walk, shadow, kind)
    for drop in range(len(before) + 1):
        kept = len(before) - drop
        if same(before[drop:], after[:kept]):
            start = [call("popleft")] * drop if kept or not drop else [call("clear")]
            return start + _more(walk, call, after[kept:])
        if same(before[:kept], after[len(after) - kept :]) and kept <= len(after):
            return [call("pop")] * drop + [
                call("appendleft", (walk.part(x),)) for x in after[: len(after) - kept][::-1]
            ]
    raise InternalError("a deque cannot become what it became")  # to drop all of it always fits


def _more(walk: Walk, call: Method, items: Sequence[Any]) -> list[Text]:
    if len(items) == 1:
        return [call("append", (walk.part(items[0]),))]
    return [call("extend", display(walk, items))] if items else []


def _built(walk: Walk, node: Node) -> Recipe:
    name, limit = walk.constant(deque, "deque"), walk.part(node.obj.maxlen)
    shown = display(walk, node.obj)
    make = (name, "(", *shown, ")") if limit == "None" else (name, "(", *shown, ", ", limit, ")")
    return Recipe(make, (name, "((), ", limit, ")"), ((node, ".extend(", *shown, ")"),))


def _contents(walk: Walk, node: Node) -> Contents:
    limit = walk.part(deque.maxlen.__get__(node.obj))
    fills, complete_first = extend(deque, "extend")(walk, node)
    return (statement(walk, deque, "__init__", node, "()", limit), *fills), complete_first


register(
    Feature(
        deque,
        CopyRule(_empty, _fill, lambda copy: list(deque.__iter__(copy)), refill="extend", growing=LazyDeque),
        _changes,
        _built,
        Base(contents=_contents),
    )
)
