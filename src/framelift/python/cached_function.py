"""Cached functions (functools.lru_cache): one made inside works by itself; of an external one, captured code sees what
it holds.

What a call gives follows from what the cache holds for the arguments, and where it holds nothing, from its function:

* an answer is held: it is let in like any external object, and guarded to be the one that is held;
* none is held: the function is captured like any other, whatever it reads, changes or records, and the entry puts its
  answer into the cache.  The guard says that none is held.  Where calling the function does nothing
  but make the answer, and nobody else holds or changes that, the guard also allows an answer that looks the same.  So
  the second call needs no other capture.

Arguments may be symbolic sizes, objects that are others in other calls, and answers of other caches.  How a guard finds
them, and how an answer looks, are tuples, which can be kept on disk:

    ("=", value)  ("is", object)  ("at", place)  ("of", function, numbers)  ("made", class, names, parts)
    ("again", number)  ("held", cache, parts, names)  ("in", what is held, path)
"""

from __future__ import annotations

import functools
import re
import types
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import _core
from .._core import id, is_a
from ..boundary.attributes.function_attributes import read_function
from ..boundary.attributes.known_classes import type_lookup
from ..boundary.becomes.leaves import holds_nan, is_constant, is_leaf
from ..boundary.gateway import let_in
from ..boundary.import_rules import RULES, with_attributes
from ..boundary.records import HARMLESS, Effect, External
from ..calls.call_tables import substitute
from ..calls.pure.lookup import declare
from ..calls.pure.words import Kind
from ..exits.effects import TOGETHER
from ..exits.recipe import Node, Text, Walk, joined
from ..graph.symbols.meanings import FromNumber, FromSize
from ..graph.symbols.number_nodes import numbers_in
from ..graph.symbols.numbers import NUMBERS, Int
from ..guards.checks import as_check, check
from ..guards.equality import indistinguishable
from ..higher_order.bodies import Surroundings, contents_of, portrait_of
from ..recording.known_values import guard_together
from ..recording.relations_of_values import as_function, sources_of, taken
from ..recording.session import Session
from ..rehearsal.call_rule import CALLED, HANDLER, NATIVE
from ..rehearsal.readers import READERS
from ..substitutes.python.identity import HASHED_PARTS
from ..vocabulary.origins import const
from ..vocabulary.plain_types import FUNCTIONS
from ..vocabulary.reasons import Interrupt
from ..vocabulary.written_forms import FORMS, WrittenForm

_WRAPPER = functools._lru_cache_wrapper
_NOTHING: Any = ("nothing",)  # expected: no answer is held
_HARMLESS = ("typing", "enum", "torch._tensor")  # modules whose classes are compared without code of the program
Part = tuple[Any, ...]


class _CannotSee(Exception):
    """An object that cannot be compared with another one without running code of the program."""


CACHE_CALL = "cache call"  # the kind of an effect: the entry calls an external cache


@dataclass(frozen=True, slots=True, eq=False)
class CacheCall:
    """A call of an external cache, whose function gives `answer` where none is held.

    `inner`: the effects that are such calls too, made by its function.  `is_plain`: one that is held may do as well.
    `settle` is called with True if not, for the answer, or a part of it, is held by others once the entry ran.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    answer: Any
    inner: tuple[Effect, ...]
    is_plain: bool
    settle: Callable[[bool], None]


def _called(wrapper: Any) -> tuple[int, Any]:
    """One made inside around a Python function is called natively: that is watched, and what it keeps is private."""
    function = wrapper.__wrapped__ if _core.is_internal(wrapper) else None
    is_own = type(wrapper) is _WRAPPER and is_a(function, (types.FunctionType, types.MethodType))
    return (NATIVE, True) if is_own else (HANDLER, call_through)


RULES[_WRAPPER] = with_attributes
READERS[_WRAPPER] = read_function
CALLED[_WRAPPER] = _called
FUNCTIONS.add(_WRAPPER)
HARMLESS[CACHE_CALL] = lambda call: call.is_plain or call.answer is None  # it gives what is held, or makes it
declare(Kind(_WRAPPER, methods="state", words={"pure": "__get__ __copy__ __deepcopy__", "callback": "__call__"}))


def _written(wrapper: Any) -> WrittenForm:
    """The function of a cache, how many results it keeps, and whether its keys have the types of arguments."""
    parameters = _core.own_dict(wrapper).get("cache_parameters")
    typed = None if parameters is None else parameters()["typed"]
    return WrittenForm("cache", [], (wrapper.__wrapped__, _WRAPPER.cache_info(wrapper).maxsize, typed))


FORMS[_WRAPPER] = _written


def call_through(session: Session, wrapper: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a cache."""
    _check_hashable((*args, *kwargs.values()))
    if not _core.is_external(wrapper) or not is_a(wrapper, _WRAPPER):
        raise _denied(wrapper.__wrapped__, "a cache made inside around a C function, or by another functools")
    if (_core.own_dict(wrapper) or {}).get("__wrapped__") is not _core.cached_function(wrapper):
        raise _denied(_core.cached_function(wrapper), "its __wrapped__ is another function")
    question = _Question(session, wrapper, args, kwargs)
    others = question.others()
    earlier = next((one for one in others if question.limit != 0 and one.is_same(question)), None)
    if earlier is not None and question.limit is not None and len(others) > question.limit:
        raise question.denied("it is asked for more than it keeps")
    return question.ask() if earlier is None else earlier.answer


class _Question:
    """One call of an external cache: its arguments as a guard finds them, and then the answer."""

    def __init__(self, session: Session, wrapper: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.session, self.wrapper, self.args, self.kwargs = session, wrapper, args, kwargs
        self.names, self.values = tuple(kwargs), (*args, *kwargs.values())
        self.asked: list[_Question] = session.features.setdefault(call_through, [])  # in this order
        self.limit = _WRAPPER.cache_info(wrapper).maxsize
        self.typed = "cache_parameters" not in vars(wrapper) or bool(wrapper.cache_parameters()["typed"])
        self.symbols: list[str] = []  # names of those in the arguments and in the answer
        self.origins: list[Any] = []  # of the objects among the arguments
        self.objects: list[Any] = []
        self.kinds: set[type] = set()  # of the objects that the answer is made of
        self.paths: dict[int, tuple[int, ...]] = {}  # to these objects, by id
        self.is_new = False  # nobody can have asked for it: an argument was made inside, and equals itself alone
        self.answer: Any = None
        self.is_held = self.is_missing = False
        self.parts: tuple[Part, ...] = ()

    def denied(self, why: str) -> Interrupt:
        return _denied(_core.cached_function(self.wrapper), why)

    def others(self) -> list[_Question]:
        """The questions that this cache was asked so far."""
        return [one for one in self.asked if one.wrapper is self.wrapper]

    def is_same(self, other: _Question) -> bool:
        """Return whether a cache takes both for one; symbolic numbers note what was found."""
        if self.names != other.names or len(self.args) != len(other.args):
            return False
        if not self.typed and len(self.values) == 1 and self.args:  # an int or text alone is a key of its own kind
            alone = [one.args[0].__class__ in (int, str) for one in (self, other)]
            if alone[0] is not alone[1]:
                return False
        return all(_are_one_key(a, b, self.typed) for a, b in zip(self.values, other.values))

    def ask(self) -> Any:
        """The answer: what is held, or what the function gives."""
        function = _core.read(self.wrapper, "__wrapped__")
        self.parts = tuple([self._part(value) for value in self.values])
        held = None if self.is_new or self.symbols else _found(self.wrapper, self.parts, self.names, self.objects, ())
        if held is None:
            return self._call(function)
        place = const(held[0]) if self.values else const(self.wrapper).to("ask", answer_to_nothing)
        self.answer, self.is_held = let_in(self.session.world, held[0], place), True
        guard = (lambda _: self._guard(("same", held[0]))) if self.values else lambda _: None  # or a path leads there
        self._note(CacheCall(self.args, self.kwargs, None, (), False, guard))
        missing = sum(one.is_missing for one in self.others())
        if missing and self.limit and _WRAPPER.cache_info(self.wrapper).currsize + missing > self.limit:
            raise self.denied("its cache is full")
        return self.answer

    def _call(self, function: Any) -> Any:
        session, world, recorder = self.session, self.session.world, self.session.recorder
        around = Surroundings(session, function, *self.args)
        asked, effects, steps, written = len(self.asked), len(world.effects), len(recorder.tape), len(recorder.written)
        try:
            answer = _core.captured(function, self.args, self.kwargs)
        except Interrupt as stop:
            stop.passes = self.limit != 0  # it may do so in its first call alone: warn, print
            raise
        except Exception:
            self._guard(_NOTHING)
            raise
        since = world.effects[effects:]
        world.effects[effects:] = [change for change in since if change.kind != CACHE_CALL]
        acts = around.changed() or len(recorder.written) > written or any(one.effect for one in recorder.tape[steps:])
        try:
            looks = _NOTHING if acts else self._looks(answer, ())
        except _CannotSee:
            looks, self.paths = _NOTHING, {}
        if self.symbols and not self.is_new and not self._holds(looks, self._may_be_inside()):
            if acts:
                raise self.denied("it is asked with sizes that change, and holds another answer")
            del self.asked[asked:]
            for number in numbers_in([list(one) if is_a(one, tuple) else one for one in self.values]):
                number.value()
            return _Question(session, self.wrapper, self.args, self.kwargs).ask()
        self.answer, self.is_missing = answer, self.is_new or self._holds(_NOTHING)
        world.keep.append(keep := [answer])
        rows = portrait_of([answer], keep)

        def settle(is_held_by_others: bool) -> None:
            changed = is_held_by_others or any(contents_of(one) != before for one, before in rows)
            self._guard(_NOTHING if changed else looks)

        inner = tuple([change for change in since if change.kind == CACHE_CALL])
        is_plain = looks is not _NOTHING and not (self.is_new and session.tape_is_a_body())
        self._note(CacheCall(self.args, self.kwargs, answer, inner, is_plain, settle))
        return answer

    def _note(self, call: CacheCall) -> None:
        """The entry asks the cache, too."""
        world = self.session.world
        self.asked.append(self)
        world.write(CACHE_CALL, self.wrapper, len(world.effects), call)

    def _guard(self, expected: Part) -> None:
        if self.is_new:
            return
        world, (places, _, numbers), asked = self.session.world, self._sources(), self.others()
        distinct = set(world.all_distinct())
        inside = [one for one in self._may_be_inside() if expected[0] == "made" and one.origin in distinct]
        if not self._holds(expected, inside):
            raise self.denied("others hold what it holds, and change it")
        # none of those that must be held may go because this one comes in
        room = len(asked) if self in asked and any(one.is_held for one in asked[asked.index(self) :]) else 0
        held = as_check(_holds, expected, self.wrapper, self.names, self.parts, numbers, room, len(inside))
        said = f"holds {'the same' if expected[0] == 'same' else 'no other'} answer for these arguments"
        places = [*places, *(one.origin for one in inside)] or [const(self.wrapper)]
        guard_together(world, places, held, said, f"cache call {len(world.guards)}")
        world.keep.append(held)

    def _may_be_inside(self) -> list[External]:
        """The external objects that others might have put into the answer that is held."""
        return [one for one in self.session.world.memo.values() if type(one.original) in self.kinds]

    def _sources(self) -> tuple[list[Any], list[Any], tuple[Any, ...]]:
        """The places of the values that a guard is given, these values, and how to take the numbers out of them."""
        found = sources_of(self.session, {}, self.symbols) if self.symbols else None
        places, held, numbers = found or ([], [], [])
        skipped = len(self.objects)
        taking = tuple([(tuple([skipped + place for place in few]), take) for few, take in numbers])
        return [*self.origins, *places], [*self.objects, *held], taking

    def _holds(self, expected: Part, inside: Sequence[External] = ()) -> bool:
        _, values, numbers = self._sources()
        values += [one.original for one in inside]
        return _holds(expected, self.wrapper, self.names, self.parts, numbers, 0, len(inside), *values)

    def _part(self, value: Any, outermost: bool = True) -> Part:
        """An argument as a guard finds it."""
        if type(value) in NUMBERS:
            return self._number(value)
        if is_leaf(value) and not _holds_symbols(value):
            if holds_nan(value):
                raise self.denied("it is asked with a NaN")
            return "=", value
        if is_a(value, tuple) and _runs_no_code(type(value)):
            return "made", type(value), (), tuple([self._part(one, False) for one in value])
        record = self.session.record_of(value)
        inner = HASHED_PARTS.get(type(value))
        if inner is not None and all(type(one) is type for one in inner(value)):  # equal where the classes are
            self.is_new |= any(map(_core.is_internal, inner(value)))
            return "=", value
        if record is None and type(value) is re.Pattern:
            return "=", value
        if is_constant(value) and not _core.is_internal(value) and (record is None or record.origin.step == "const"):
            return "=", value
        original = value if record is None else record.original
        is_itself_alone = type_lookup(type(original), "__eq__") is object.__eq__ or is_a(original, torch.Tensor)
        if not _runs_no_code(type(original)) or record is None and not is_itself_alone:
            raise self.denied("comparing its arguments runs code of the program")
        if record is not None:
            self.origins.append(record.origin)
            self.objects.append(original)
            return "at", len(self.objects) - 1
        kept = next((one for one in self.asked if one.answer is value), None)
        if kept is None or kept.is_new:
            self.is_new = True
            return "=", None
        if not outermost:
            raise self.denied("it is asked with what another cache keeps")
        return "held", kept.wrapper, tuple([self._part(one) for one in kept.values]), kept.names

    def _number(self, value: Any) -> Part:
        """A symbolic number as a function of sizes and numbers outside, else as a constant from now on."""
        names: list[str] = []
        symbols = self.session.symbols
        function = as_function(value, names) if type(value) is Int else None
        known = all(symbols and type(symbols.meanings.get(name)) in (FromSize, FromNumber) for name in names)
        if function is None or not names or not known or sources_of(self.session, {}, names) is None:
            return "=", value.value()
        self.symbols += [name for name in names if name not in self.symbols]
        return "of", function, tuple([self.symbols.index(name) for name in names])

    def _looks(self, value: Any, path: tuple[int, ...]) -> Part:
        """How an answer looks; raises _CannotSee."""
        if type(value) in NUMBERS:
            return self._number(value)
        if is_leaf(value) and not _holds_symbols(value):
            if holds_nan(value):
                raise _CannotSee
            return "=", value
        if id(value) in self.paths:
            return "again", list(self.paths).index(id(value))
        other = next((one for one in self.asked if id(value) in one.paths), None)
        if other is not None:
            held = "held", other.wrapper, tuple([self._part(one) for one in other.values]), other.names
            return "in", held, other.paths[id(value)]
        shadow = self.session.shadow_of(value)
        if shadow is not None or _core.is_external(value) or is_constant(value) and not _core.is_internal(value):
            return "is", value if shadow is None else shadow.original
        contents = None if is_constant(value) or self.session.is_stand_in(value) else _contents(value)
        if contents is None or not all(map(is_leaf, contents[0])):
            raise _CannotSee
        self.paths[id(value)] = path
        self.kinds |= {type(value)} - {tuple, torch.Size}
        return (
            "made",
            type(value),
            contents[0],
            tuple([self._looks(one, (*path, i)) for i, one in enumerate(contents[1])]),
        )


# ---- what a guard looks at ------------------------------------------------------------------------------------------


def answer_to_nothing(wrapper: Any) -> Any:
    """What a cache holds for a call without arguments; raises a TypeError where it holds nothing."""
    held: Any = _core.cached_answer(wrapper, (), {})
    return held[0]


@check
def _holds(
    expected: Part,
    wrapper: Any,
    names: tuple[str, ...],
    parts: tuple[Part, ...],
    numbers: Sequence[Any],
    room: int,
    inside: int,
    *values: Any,
) -> bool:
    """A cache holds what is expected for these arguments; nothing, if anything else than the same object is expected.

    `room`: so many answers must come in without another one going.  `inside`: so many of the values, the last ones,
    must not be a part of the answer.
    """
    ints = taken(numbers, values) if numbers else ()
    found = _found(wrapper, parts, names, values, ints)
    how = expected[0]
    if found is None:
        if any(_found(one[1], one[2], one[3], values, ints) is not None for one in _shared(expected)):
            return False
        info = _WRAPPER.cache_info(wrapper) if room else None
        return how != "same" and (info is None or info.maxsize is None or info.currsize + room <= info.maxsize)
    if how == "same":
        return found[0] is expected[1] or is_leaf(found[0]) and bool(indistinguishable(found[0], expected[1]))
    seen: list[Any] = []
    if how == "nothing" or not _looks_as(expected, found[0], values, ints, seen):
        return False
    return not inside or not {*map(id, seen)}.intersection(map(id, values[-inside:]))


def _found(wrapper: Any, parts: Sequence[Part], names: tuple[str, ...], values: Any, ints: Any) -> Any:
    """A tuple with what a cache holds, or None."""
    try:
        given = [part[1] if part[0] == "=" else _filled(part, values, ints) for part in parts]
    except LookupError:
        return None
    count = len(given) - len(names)
    return _core.cached_answer(wrapper, tuple(given[:count]), dict(zip(names, given[count:])))


def _filled(part: Part, values: Any, ints: Any) -> Any:
    how = part[0]
    if how == "made":
        made = [_filled(one, values, ints) for one in part[3]]
        return torch.Size(made) if part[1] is torch.Size else tuple.__new__(part[1], made)
    if how == "held":
        found = _found(part[1], part[2], part[3], values, ints)
        if found is None:
            raise LookupError("nobody asked yet for what it is asked with")
        return found[0]
    if how == "at":
        return values[part[1]]
    return part[1] if how == "=" else part[1](*[ints[i] for i in part[2]])


def _shared(expected: Part) -> list[Part]:
    """What other caches hold and an answer has parts of."""
    if expected[0] == "made":
        return [one for part in expected[3] for one in _shared(part)]
    return [expected[1]] if expected[0] == "in" else []


def _looks_as(expected: Part, found: Any, values: Any, ints: Any, seen: list[Any]) -> bool:
    how = expected[0]
    if how == "in":
        try:
            part = _filled(expected[1], values, ints)
            for i in expected[2]:
                part = (_contents(part) or ((), ()))[1][i]
        except LookupError:
            return False
        return found is part
    if how == "again":
        return found is seen[expected[1]]
    if how == "is":
        return found is expected[1]
    if how != "made":
        return is_leaf(found) and bool(indistinguishable(found, _filled(expected, (), ints)))
    if type(found) is not expected[1]:
        return False
    seen.append(found)
    contents = _contents(found)
    if contents is None or len(contents[1]) != len(expected[3]) or not all(map(is_leaf, contents[0])):
        return False
    same = indistinguishable(contents[0], expected[2])
    return bool(same) and all([_looks_as(one, part, values, ints, seen) for one, part in zip(expected[3], contents[1])])


class _Plain:
    """As large as an object that has a dictionary and nothing else."""


def _contents(value: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """The names or keys of an object's parts, and these; None where it may hold what cannot be seen."""
    kind = type(value)
    if kind in (list, tuple, torch.Size):
        return (), tuple(value)
    if kind is not dict:
        plain = _core.is_python_class(kind) and kind.__basicsize__ == _Plain.__basicsize__
        value = _core.own_dict(value) if plain else None
    return (tuple(value), tuple(value.values())) if type(value) is dict else None


def _check_hashable(values: tuple[Any, ...]) -> None:
    """A cache asks for the hash of its arguments before it calls anything."""
    for value in values:
        if type(value) is tuple:
            _check_hashable(value)
        elif type(value).__hash__ is None:
            hash(value)  # raises


def _holds_symbols(value: Any) -> bool:
    return type(value) in NUMBERS or is_a(value, tuple) and any(map(_holds_symbols, value))


def _runs_no_code(cls: type) -> bool:
    """Return whether hashing and comparing instances of a class runs no code of the program."""
    found = [type_lookup(cls, name) for name in ("__hash__", "__eq__")]
    return all(not is_a(one, types.FunctionType) or one.__globals__.get("__name__") in _HARMLESS for one in found)


def _are_one_key(one: Any, other: Any, typed: bool) -> bool:
    """Return whether a cache takes two arguments for the same; inside of tuples it does not look at types."""
    if one is other:
        return True
    if typed and one.__class__ is not other.__class__:
        return False
    if is_a(one, tuple) and is_a(other, tuple):
        return len(one) == len(other) and all(_are_one_key(a, b, False) for a, b in zip(one, other))
    plain = is_leaf(one) and is_leaf(other) or type(one) in NUMBERS or type(other) in NUMBERS
    return plain and bool(one == other)


def _denied(function: Any, why: str) -> Interrupt:
    return Interrupt(
        "unknown-callable", f"{getattr(function, '__qualname__', 'a function')} under functools.lru_cache ({why})"
    )


@substitute(_WRAPPER)
def _make(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    made = _core.natively(callable_, args, kwargs)
    _core.mark_internal(made)
    made.__wrapped__ = args[0]  # functools sets it a moment later
    return made


@substitute(_WRAPPER.cache_info, _WRAPPER.cache_clear)
def _look(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not args or not _core.is_internal(args[0]):
        raise Interrupt("unknown-callable", f"lru_cache.{callable_.__name__} of an external cache")
    return _core.natively(callable_, args, kwargs)


# ---- at an exit: one statement calls the caches, in the order of the program -----------------------------------------


def _calls(walk: Walk, calls: list[Effect]) -> Text:
    """ask_caches(((cache, args, kwargs, answer, inner), ...))"""
    answers: dict[CacheCall, str | Node] = {}
    mentions: Counter[Node] = Counter()
    walk.when_known.append(lambda: _settle(answers, mentions))
    return (walk.constant(ask_caches, "ask_caches"), "(", *_rows(walk, calls, answers, mentions), ")")


TOGETHER[CACHE_CALL] = _calls


def _rows(
    walk: Walk, calls: Iterable[Effect], answers: dict[CacheCall, str | Node], mentions: Counter[Node]
) -> list[str | Node]:
    rows: list[str | Node] = ["("]
    for change in calls:
        call: CacheCall = change.value
        answer = walk.part(call.answer)
        args = [walk.part(value) for value in call.args]
        named = [part for name, value in call.kwargs.items() for part in (f", {name!r}: ", walk.part(value))][1:]
        if call.kwargs:
            named.insert(0, f"{next(iter(call.kwargs))!r}: ")
        answers[call] = answer
        mentions.update(part for part in (answer, *args, *named) if type(part) is Node)
        head = ["(", walk.part(change.owner), ", (", *joined(args), ",), {" if args else "), {", *named, "}, ", answer]
        rows += [*head, ", ", *_rows(walk, call.inner, answers, mentions), "), "]
    return [*rows, ")"]


def ask_caches(rows: Iterable[Any], real: dict[int, Any] | None = None) -> None:
    """Call caches, whose functions give answers that are made already.

    `real`: what they gave instead, since they held it, by the id of what was made.
    """
    real = {} if real is None else real
    for cache, args, kwargs, answer, inner in rows:
        if inner and _core.cached_answer(cache, args, kwargs) is None:
            ask_caches(inner, real)
        if real:
            args = tuple([real.get(id(value), value) for value in args])
            kwargs = {name: real.get(id(value), value) for name, value in kwargs.items()}
        given = _core.cache_answer(cache, args, kwargs, answer)
        if given is not answer:
            real[id(answer)] = given


def _settle(answers: dict[CacheCall, str | Node], mentioned: Counter[Node]) -> None:
    """Tell each call of a cache whether its answer is held by others, when all recipes are known.

    Those to which other answers lead alone are not: these are held by caches, too.
    """
    plain = {call: answer for call, answer in answers.items() if call.is_plain}
    while True:
        inside = {call: _inside(answer) for call, answer in plain.items() if type(answer) is Node}
        mentions = Counter({answer: mentioned[answer] for answer in plain.values() if type(answer) is Node})
        for node in set().union(*inside.values()):
            mentions.update(_parts(node))
        shown = [call for call, nodes in inside.items() if any(node.uses > mentions[node] for node in nodes)]
        if not shown:
            break
        for call in shown:
            del plain[call]
    for call in answers:
        call.settle(call not in plain)


def _parts(node: Node) -> list[Node]:
    recipe = node.recipe
    texts = (recipe.make,) if recipe.make is not None else (recipe.shell, *recipe.fills, recipe.parts)
    return [part for text in texts for part in text or () if type(part) is Node]


def _inside(answer: Node) -> set[Node]:
    """The objects that an answer is made of, itself among them."""
    found, open_ = {answer}, [answer]
    while open_:
        new = {*_parts(open_.pop())} - found
        found |= new
        open_ += new
    return found
