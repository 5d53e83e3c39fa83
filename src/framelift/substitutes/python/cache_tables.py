"""Results that an external `functools.lru_cache` holds: they are returned again, whatever the function would return
now.

CPython shows the table to the collector alone.  Looking into it, and asking for an answer that is there, runs no code
of the program's where the arguments are plain values and objects that equal themselves alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import inspect
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ... import _core
from ..._core import id, is_a
from ...boundary.becomes.leaves import holds_nan, is_constant, is_leaf
from ...boundary.records import Effect, KeptResult
from ...boundary.world import World, type_lookup
from ...graph.state.torch_state import State, read_state
from ...graph.symbols.numbers import NUMBERS
from ...guards.checks import Quick, as_check, check, quickly
from ...guards.equality import indistinguishable
from ...vocabulary.origins import Origin, const
from ...vocabulary.reasons import Interrupt
from ...vocabulary.torch_code import TORCH
from .cache_reads import stays_as_read
from .cached_objects import ASKED, Picture, has_changes, keep_objects, looks_as

if TYPE_CHECKING:
    from ...recording.session import Session


@dataclass(frozen=True)
class Question:
    """A cache, and what it is asked with.

    `args` are positional arguments and then the values of `names`.  One of them, at `place`, may be an object that is
    another one in other calls: the one at `origin`.
    """

    world: World
    wrapper: Any
    args: tuple[Any, ...]
    names: tuple[str, ...]
    origin: Origin
    place: int | None

    def has_answer(self) -> bool:
        return answer_of(self.wrapper, self.args, self.names) is not NO_ANSWER

    def answer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result that the cache holds, and guard it. The entry calls the cache, which counts the hit."""
        real = answer_of(self.wrapper, self.args, self.names)
        self._guard(_keeps, real, "holds the same answer for these arguments")
        self.world.write(ASKED, self.wrapper, len(self.world.effects), (args, kwargs))
        return real

    def keep_object(
        self, session: Session, picture: Picture, answer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """The same for an object that may change, and looks like this."""
        check_room(self.world, self.wrapper)
        ask_in_order(session, self._objects(), picture)
        self._guard(_looks_so_at_most, picture, "holds no answer for these arguments that looks otherwise")
        kept = KeptResult(self.wrapper, args, kwargs, has_changes(session), self)
        keep_objects(session, kept, answer)
        self.world.write(ASKED, self.wrapper, len(self.world.effects), (args, kwargs))

    def keep(self, session: Session, answer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The cache held nothing, and its function gave this: it is asked for real when the frame ran, and keeps it."""
        ask_in_order(session, self._objects())
        if not is_leaf(answer) or _reads_what_may_change(session):
            check_room(self.world, self.wrapper)
            if is_leaf(answer):
                self._guard(_keeps_at_most, answer, "holds no other answer for these arguments")
            else:
                self._guard(_keeps_none, None, "holds no answer for these arguments")
        self.world.write(ASKED, self.wrapper, len(self.world.effects), (args, kwargs))

    def _objects(self) -> tuple[Origin, ...]:
        return () if self.place is None else (self.origin,)

    def _guard(self, holds: Any, answer: Any, words: str) -> None:
        place = -1 if self.place is None else self.place
        given = tuple(None if i == place else value for i, value in enumerate(self.args))
        held = as_check(holds, answer, self.wrapper, given, self.names, place)
        self.world.guard(self.origin, "CHECK", (held, words), held)  # each of its own: 1 and 1.0 are equal


def check_room(world: World, wrapper: Any) -> None:
    """The entry asks a cache once more: no other answer may go for that, and be made anew."""
    coming = sum(effect.kind == ASKED and effect.owner is wrapper for effect in world.effects)
    if not has_room(wrapper, coming + 1):
        raise Interrupt("unknown-callable", "a function under functools.lru_cache whose cache is full")


def ask_in_order(session: Session, objects: Sequence[Origin], picture: Any = None) -> None:
    """The function reads what is there when the frame ran: nothing of that may be changed now or by then, and torch's
    state (grad mode, autocast) must be the same.  `objects`: the places of those it may be given that may change.
    `picture`: of its result, where that may change.
    """
    world = session.world
    world.finishing.append(functools.partial(_check_state, read_state()))
    if objects or picture is not None or _reads_what_may_change(session):
        stays_as_read(session, objects, picture)


def _check_state(then: State) -> None:
    if read_state() != then:
        stop = Interrupt("unknown-callable", "a function under functools.lru_cache in another grad mode or autocast")
        stop.passes = True  # from the next call on the cache holds the answer
        raise stop


@contextlib.contextmanager
def calling_first(asked: Question | None) -> Iterator[None]:
    """Around the first call of a function under a cache, which may do what cannot be captured: warn, print."""
    try:
        yield
    except Interrupt as stop:
        if asked is not None and asked.wrapper.cache_parameters()["maxsize"] != 0:
            stop.passes = True
        raise


def question(session: Session, wrapper: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Question | None:
    """None where the table cannot be asked without the program's code, or with values that differ from call to call."""
    if not can_be_asked(wrapper):
        return None
    found: list[Any] = []
    place: int | None = None
    origin = const(wrapper)
    for value in (*args, *kwargs.values()):
        kept = lookup_of(session.world, value)
        if kept is not None:
            value = kept
        elif not is_plain(value):
            record = session.world.by_seen.get(id(value))
            if place is not None or record is None or not equals_itself_alone(type(record.original)):
                return None
            place, origin, value = len(found), record.origin, record.original
        found.append(value)
    return Question(session.world, wrapper, tuple(found), tuple(kwargs), origin, place)


def can_be_asked(wrapper: Any) -> bool:
    """Return whether the table of a cache can be looked into."""
    return _KNOWN and _table(wrapper) is not None and _says_its_limits(wrapper)


def _says_its_limits(wrapper: Any) -> bool:
    """Return whether `cache_parameters` is the function that functools puts there."""
    says = vars(wrapper).get("cache_parameters")
    return type(says) is types.FunctionType and says.__code__.co_filename == functools.lru_cache.__code__.co_filename


@dataclass(frozen=True, eq=False)
class Lookup:
    """An argument of a question: what another cache holds for these arguments at the time of asking."""

    wrapper: Any
    args: tuple[Any, ...]
    names: tuple[str, ...]


def lookup_of(world: World, value: Any) -> Lookup | None:
    """How to find an object that another cache keeps from now on, for what is known of its own arguments."""
    kept = world.kept_places.get(id(value))
    if type(kept) is not KeptResult or type(kept.question) is not Question or kept.question.place is not None:
        return None
    asked = kept.question
    return Lookup(asked.wrapper, asked.args, asked.names) if equals_itself_alone(type(value)) else None


def is_plain(value: Any) -> bool:
    """Return whether a value is asked for by what it is."""
    if is_leaf(value):
        return not holds_nan(value) and not _holds_symbols(value)
    return is_constant(value) and not _core.is_internal(value)


def _holds_symbols(value: Any) -> bool:
    """Return whether a shape among these has sizes that differ from call to call."""
    if type(value) in (tuple, torch.Size):
        return any(map(_holds_symbols, value))
    return type(value) in NUMBERS


def equals_itself_alone(cls: type) -> bool:
    return type_lookup(cls, "__hash__") is object.__hash__ and type_lookup(cls, "__eq__") is object.__eq__


def take_out_answers(session: Session, before: int) -> list[Effect]:
    """The questions that are to be asked for real among the effects since; they are no longer among them."""
    since = session.world.effects[before:]
    asked = [effect for effect in since if effect.kind == ASKED]
    session.world.effects[before:] = [effect for effect in since if effect.kind != ASKED]
    return asked


def may_be_outdated(session: Session, values: Iterable[Any]) -> bool:
    """Return whether a cache that cannot be asked may hold an answer that its function would not give now."""
    values = list(values)
    if any(_is_new(session, value) for value in values):
        return False
    return any(id(value) in session.world.by_seen for value in values) or _reads_what_may_change(session)


def _is_new(session: Session, value: Any) -> bool:
    """Return whether no cache can have an answer for it: it was made inside, and equals itself alone."""
    if type(value) is tuple:
        return any(_is_new(session, one) for one in value)
    if session.is_stand_in(value):
        return not session.recorder.value_of(value).storage.external
    return not is_plain(value) and id(value) not in session.world.by_seen and equals_itself_alone(type(value))


_FIXED = frozenset({"CODE", "DUNDERS", "ABSENT", "TYPE"})  # kinds of guards: about code, or names that it finds


def _reads_what_may_change(session: Session) -> bool:
    """Return whether what the program has read may change without a change of an argument of the frame's."""
    several = _several_arguments(session.recorder.options.code)
    return any(
        guard.kind not in _FIXED
        and not (guard.kind == "IS" and not is_leaf(guard.value))
        and not _is_of_the_call(guard.origin, guard.kind, several)
        for guard in session.world.guards
    )


def _several_arguments(code: types.CodeType | None) -> set[int]:
    """The places of `*args` and `**kwargs`, which are new at every call."""
    if code is None:
        return set()
    count = code.co_argcount + code.co_kwonlyargcount
    flags = [bool(code.co_flags & flag) for flag in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS)]
    return {*range(count, count + sum(flags))}


def _is_one_of_several(base: Any, several: set[int]) -> bool:
    return base is not None and base.step == "arg" and base.key[0] in several


def _is_of_the_call(origin: Any, kind: str, several: set[int]) -> bool:
    """Return whether a guard is about a number or tensor that is passed or a default, or about a setting of torch's.

    Other objects that are passed may change, and the function may know them too.
    """
    base, is_value = origin.base, kind in ("EQ", "TENSOR")
    if origin.step == "arg":
        return is_value or origin.key[0] in several
    if type(origin.key) is str and origin.key == "__defaults__":  # how many there are
        return True
    if is_value and (origin.step in ("default", "kwdefault") or _is_one_of_several(base, several)):
        return True
    while origin.base is not None:
        origin = origin.base
    is_table = origin.step == "const" and type(origin.key) is dict
    return is_table and str(origin.key.get("__file__")).startswith(TORCH)


def _table(wrapper: Any) -> tuple[dict[Any, Any], Any] | None:
    """The table of a cache, and the object that stands between arguments and keywords in its keys."""
    held = gc.get_referents(wrapper)
    # the last ones: table, function, mark, class of links, class of statistics, and attributes where it has some
    for place in range(len(held) - 1, 2, -1):
        if is_a(held[place], type) and held[place].__name__ == "_lru_list_elem":
            table, mark = held[place - 3], held[place - 1]
            return (table, mark) if type(table) is dict else None
    return None


def has_room(wrapper: Any, count: int) -> bool:
    """Return whether so many answers come in without another one going."""
    most, found = wrapper.cache_parameters()["maxsize"], _table(wrapper)
    return most is None or most == 0 or found is not None and len(found[0]) + count <= most


NO_ANSWER: Any = object()


def answer_of(wrapper: Any, args: tuple[Any, ...], names: tuple[str, ...]) -> Any:
    """Look up the result that a cache holds for arguments, without calling it: that would count a hit."""
    args = tuple([answer_of(one.wrapper, one.args, one.names) if type(one) is Lookup else one for one in args])
    found = _table(wrapper)
    if found is None or any(one is NO_ANSWER for one in args):  # nobody has asked by what the other cache does not hold
        return NO_ANSWER
    held = found[0].get(_key(wrapper, found[1], args, names), NO_ANSWER)
    return held if held is NO_ANSWER or wrapper.cache_parameters()["maxsize"] is None else _of_link(held)


def _of_link(link: Any) -> Any:
    """The answer in a link of a cache that is limited: the last field of the C structure."""
    return ctypes.py_object.from_address(_field_of(link)).value


def _field_of(link: Any) -> int:
    return id(link) + type(link).__basicsize__ - ctypes.sizeof(ctypes.c_void_p)


def _is_as_known() -> bool:
    """Return whether this CPython's caches are laid out as this module knows them."""
    for limit in (None, 2):
        tried = functools.lru_cache(limit)(lambda *args, **kwargs: (args, kwargs))
        answers = [tried(1), tried("a", 2.0), tried(1, key=2)]
        asked: list[tuple[tuple[Any, ...], tuple[str, ...]]] = [((1,), ()), (("a", 2.0), ()), ((1, 2), ("key",))]
        for want, question_ in list(zip(answers, asked))[-2:]:
            if _table(tried) is None or answer_of(tried, *question_) is not want:
                return False
    return True


def _key(wrapper: Any, mark: Any, args: tuple[Any, ...], names: tuple[str, ...]) -> Any:
    """As CPython makes it."""
    typed = bool(wrapper.cache_parameters()["typed"])
    if not typed and not names and len(args) == 1 and type(args[0]) in (int, str):
        return args[0]
    given, named = _split(args, names)
    marked = (mark, *(part for item in named.items() for part in item)) if names else ()
    return (*given, *marked, *(map(type, args) if typed else ()))


def _split(args: tuple[Any, ...], names: tuple[str, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    count = len(args) - len(names)
    return args[:count], dict(zip(names, args[count:]))


def _with(args: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return args if place < 0 else (*args[:place], value, *args[place + 1 :])


class _SameLink(Quick):
    """A check that a cache still holds a result. Limited caches use a link again, for other arguments and results."""

    __slots__ = ("_address", "_answer", "_field", "_held", "_key", "_table")

    def __init__(self, whole: functools.partial[bool]) -> None:
        super().__init__(whole)
        self._table: dict[Any, Any] = {}
        self._key = self._held = self._answer = None
        self._address = 0
        self._field: ctypes.c_void_p | None = None

    def __call__(self, value: Any) -> bool:
        if self._table.get(self._key, NO_ANSWER) is self._held and (
            self._field is None or self._field.value == self._address
        ):
            return True
        return self.whole(value) and self._remember()

    def _remember(self) -> bool:
        _, wrapper, args, names, place = self.whole.args
        found = _table(wrapper)
        if place < 0 and found is not None and not any(type(arg) is Lookup for arg in args):
            key = _key(wrapper, found[1], args, names)
            held = found[0].get(key, NO_ANSWER)
            if held is not NO_ANSWER:
                limited = wrapper.cache_parameters()["maxsize"] is not None
                self._table, self._key, self._held = found[0], key, held
                self._answer = _of_link(held) if limited else held
                self._address = id(self._answer)
                self._field = ctypes.c_void_p.from_address(_field_of(held)) if limited else None
        return True


@quickly(_SameLink)
@check
def _keeps(answer: Any, wrapper: Any, args: tuple[Any, ...], names: tuple[str, ...], place: int, value: Any) -> bool:
    """A cache holds this answer for these arguments, of which the one at `place` is `value`."""
    now = answer_of(wrapper, _with(args, place, value), names)
    return now is answer or is_leaf(answer) and now is not NO_ANSWER and indistinguishable(now, answer)


@quickly(_SameLink)
@check
def _keeps_at_most(
    answer: Any, wrapper: Any, args: tuple[Any, ...], names: tuple[str, ...], place: int, value: Any
) -> bool:
    """A cache holds this answer for these arguments, or none."""
    now = answer_of(wrapper, _with(args, place, value), names)
    return has_room(wrapper, 1) if now is NO_ANSWER else indistinguishable(now, answer)


@check
def _looks_so_at_most(
    picture: Any, wrapper: Any, args: tuple[Any, ...], names: tuple[str, ...], place: int, value: Any
) -> bool:
    """A cache holds an object that looks like this for these arguments, or nothing."""
    now = answer_of(wrapper, _with(args, place, value), names)
    return has_room(wrapper, 1) if now is NO_ANSWER else looks_as(picture, now)


@check
def _keeps_none(_: Any, wrapper: Any, args: tuple[Any, ...], names: tuple[str, ...], place: int, value: Any) -> bool:
    """A cache holds no answer for these arguments."""
    return answer_of(wrapper, _with(args, place, value), names) is NO_ANSWER and has_room(wrapper, 1)


_KNOWN = _is_as_known()
