"""Questions to abstract base classes: the answer depends on what was registered where, which no attribute shows.

CPython counts registrations in one number for the process.  While it stays, all answers do; when it moved, they are
asked again.

A registration is held back until the entry runs, as all effects are.  From it on, captured code gets the answers
that it makes: the questions are asked as CPython asks them, of the real registries and of what is held back.
"""

from __future__ import annotations

import _abc
import abc
import functools
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ... import _core
from ..._core import is_a
from ...boundary.becomes.arrays import Array, Scalar
from ...boundary.becomes.opaque import Opaque
from ...boundary.lazy.view import View
from ...calls.call_tables import substitute
from ...graph.symbols.numbers import NUMBERS
from ...graph.symbols.numpy_numbers import NumpyNumber
from ...guards.checks import gives
from ...vocabulary.class_reads import mro_of, qualname_of
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt
from .basics import exactly

if TYPE_CHECKING:
    from ...rehearsal.session import Session

__all__ = ["Answers", "SubclassFact", "registry_fact"]


#: what captured code sees in place of objects of other classes
_PLACEHOLDERS = (Opaque, View, Array, Scalar, NumpyNumber, *NUMBERS)


class SubclassFact:
    """An abstract class answered that one of these classes is a subclass of it, or that none is."""

    __slots__ = ("answer", "asked", "given")

    def __init__(self, asked: type, given: Iterable[type], answer: bool) -> None:
        self.asked, self.given, self.answer = weakref.ref(asked), [weakref.ref(cls) for cls in given], answer

    def __call__(self) -> bool:
        now: Any = self.asked()
        those = [reference() for reference in self.given]
        return (
            now is None
            or None in those
            or any(_is_subclass(now, cls) for cls in those if cls is not None) == self.answer
        )


class NoNewChildren:
    """An abstract class said no of a class with these bases outside, and had no other children than these: classes
    registered with it, and its own subclasses.  A class made inside is gone when the question is asked again.
    """

    __slots__ = ("asked", "bases", "children")

    def __init__(self, asked: type, bases: Iterable[type]) -> None:
        self.asked = weakref.ref(asked)
        self.bases = [weakref.ref(base) for base in bases]
        self.children = [weakref.ref(child) for child in children_of(asked)]

    def __call__(self) -> bool:
        now = self.asked()
        if now is None:
            return True
        bases = {id(base()) for base in self.bases}
        known = {id(child()) for child in self.children}
        new = [child for child in children_of(now) if id(child) not in known]
        return not any(type(child) is not type or id(child) in bases for child in new)


def children_of(asked: type) -> list[type]:
    """The classes that an abstract class asks in turn: those registered with it, and its own subclasses."""
    registered = [reference() for reference in _abc._get_dump(asked)[0]]
    return [*[cls for cls in registered if cls is not None], *type.__subclasses__(asked)]


class Registrations:
    """What captured code registered with abstract classes, in order, and the answers since the last registration."""

    def __init__(self) -> None:
        self.made: list[tuple[type, type]] = []
        self.answers: dict[tuple[int, int], bool] = {}
        self.held: list[type] = []  # the classes in these


class _Counted(abc.ABC):  # noqa: B024  it is registered with, nothing more
    """An abstract class of nobody's."""


def count_registration() -> None:
    """Move the number of the process, as a registration does whose classes are gone at the end of the call."""
    _Counted.register(type("Registered", (), {}))


class Answers:
    """What abstract classes answered in one rehearsal, as one guard."""

    holds_until_registration = True  # the native program need not call it while the process's number stays

    def __init__(self) -> None:
        self.token = _abc.get_cache_token()
        self.facts: list[Callable[[], bool]] = []

    def __call__(self, _: Any) -> bool:
        now = _abc.get_cache_token()
        if now == self.token:
            return True
        if not all(fact() for fact in self.facts):
            return False
        self.token = now
        return True

    def as_data(self) -> list[tuple[type, list[type], bool]] | None:
        """The questions and answers, where they are all there is."""
        found = []
        for fact in self.facts:
            if type(fact) is not SubclassFact:
                return None
            asked, given = fact.asked(), [one() for one in fact.given]
            if asked is None or None in given:
                return None
            found.append((asked, [cls for cls in given if cls is not None], fact.answer))
        return found


def registry_fact(session: Session, fact: Callable[[], bool]) -> None:
    """`fact` holds now and may be another whenever a class was registered: it is guarded."""
    answers = session.notes.get(Answers)
    if answers is None:
        answers = session.notes[Answers] = Answers()
        session.world.guard(const(abc.ABCMeta), "CHECK", (answers, "answers as before"), Answers)
    answers.facts.append(fact)


#: not `issubclass`: metaclasses look who asks, and protocols refuse the question to all but this function's module
_is_subclass = abc.ABCMeta.__subclasscheck__


@substitute(_abc._abc_register)
@exactly(2)
def _abc_register(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Each registration counts for the whole process, whatever the classes."""
    owner, cls = args
    if not is_a(cls, type):
        return _core.natively(callable_, args, kwargs)  # an error
    if _core.captured(issubclass, (cls, owner), None):
        return cls
    if _core.captured(issubclass, (owner, cls), None):
        raise RuntimeError("Refusing to create an inheritance cycle")
    if owner.__flags__ & _OF_COLLECTIONS:  # pattern matching looks at a flag of the class, which it gets now
        _collect_as(cls, owner)
    held = session.notes.setdefault(Registrations, Registrations())
    if _core.is_internal(owner) or _core.is_internal(cls):
        session.world.write("call", count_registration, len(held.made), ())
    else:
        session.world.write("call", callable_, len(held.made), (owner, cls))
    held.made.append((owner, cls))
    held.answers.clear()
    session.world.registered.append(cls)
    return cls


#: flags of types that stand for sequences and mappings
_OF_COLLECTIONS = 1 << 5 | 1 << 6


def _collect_as(cls: type, owner: type) -> None:
    """As CPython marks the class and its subclasses."""
    if not _core.is_internal(cls):
        raise Interrupt("effect-object", f"the registry of {qualname_of(owner)}")
    if cls.__flags__ & _OF_COLLECTIONS != owner.__flags__ & _OF_COLLECTIONS:
        _core.collect_as(cls, owner)
        below: list[type] = type.__subclasses__(cls)
        for one in below:
            _collect_as(one, owner)


def _note(session: Session, owner: Any, classes: set[type], answer: bool) -> None:
    key = (Answers, owner, *classes)
    if _core.is_internal(owner) or key in session.notes:
        return
    session.notes[key] = True
    made_inside = {cls for cls in classes if _core.is_internal(cls)}
    if not made_inside:
        registry_fact(session, SubclassFact(owner, classes, answer))
    elif not answer:  # classes that are registered stay registered
        bases = {base for cls in classes for base in mro_of(cls) if not _core.is_internal(base)}
        registry_fact(session, NoNewChildren(owner, bases))


def _registrations(session: Session, owner: Any) -> Registrations | None:
    """What is held back, where it may be about this class.  The subclasses made inside, too, are unknown outside."""
    held: Registrations | None = session.notes.get(Registrations)
    if held is None and _core.new_subclasses(owner):
        held = session.notes.setdefault(Registrations, Registrations())
    return held


def _with_registrations(session: Session, held: Registrations, owner: Any, cls: Any) -> bool:
    """Whether `cls` is a subclass, in the order in which CPython asks."""
    key = id(owner), id(cls)
    if key not in held.answers:
        held.held += [owner, cls]
        held.answers[key] = _asked_in_order(session, held, owner, cls)
    return held.answers[key]


def _asked_in_order(session: Session, held: Registrations, owner: Any, cls: Any) -> bool:
    _registry, yes, no, version = _abc._get_dump(owner)
    if any(reference() is cls for reference in yes):
        _note(session, owner, {cls}, True)
        return True
    if not held.made and version == _abc.get_cache_token() and any(reference() is cls for reference in no):
        _note(session, owner, {cls}, False)
        return False
    said = _core.captured(_core.read(owner, "__subclasshook__"), (cls,), None)
    if said is not NotImplemented:
        if said is not True and said is not False:
            raise Interrupt("unsupported-code", f"__subclasshook__ of {qualname_of(owner)}, which gave no truth value,")
        return bool(said)
    if any(base is owner for base in mro_of(cls)):
        return True
    if type(owner).__subclasses__ is not type.__subclasses__:
        raise Interrupt("unsupported-code", f"__subclasses__ of {qualname_of(type(owner))}")
    if not _core.is_internal(owner):
        bases = {base for base in mro_of(cls) if not _core.is_internal(base)}
        registry_fact(session, NoNewChildren(owner, bases))
    registered = [made for one, made in held.made if one is owner]
    for child in (*registered, *children_of(owner), *_core.new_subclasses(owner)):
        if _core.captured(issubclass, (cls, child), None):
            if _core.is_internal(child) and not _core.is_internal(owner) and not _core.is_internal(cls):
                raise Interrupt("effect-object", f"what {qualname_of(owner)} remembers of its subclasses")
            return True
    return False


@substitute(_abc._abc_instancecheck)
def _instance_check(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) == 2 and issubclass(type(args[1]), _PLACEHOLDERS):  # the class of the placeholder is nobody's business
        return _core.captured(issubclass, (args[1].__class__, args[0]), None)
    held = _registrations(session, args[0])
    if held is not None and len(args) == 2 and not kwargs:
        asks = _core.read(args[0], "__subclasscheck__")
        kinds = {id(kind): kind for kind in (args[1].__class__, type(args[1]))}
        return any(_core.captured(asks, (kind,), None) for kind in kinds.values())
    answer = _core.natively(callable_, args, kwargs)
    _note(session, args[0], {args[1].__class__, type(args[1])}, answer)
    return answer


@substitute(_abc._abc_subclasscheck)
def _subclass_check(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    held = _registrations(session, args[0])
    if held is not None and len(args) == 2 and not kwargs and is_a(args[1], type):
        return _with_registrations(session, held, *args)
    answer = _core.natively(callable_, args, kwargs)
    _note(session, args[0], {args[1]}, answer)
    return answer


@substitute(_abc.get_cache_token)
def _cache_token(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    number = callable_(*args, **kwargs)
    session.world.guard(const(callable_), "CHECK", (functools.partial(gives, number), f"gives {number}"))
    held = session.notes.get(Registrations)
    return number if held is None else number + len(held.made)
