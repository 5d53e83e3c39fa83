"""Questions to abstract base classes: the answer depends on what was registered where, which no attribute shows.

CPython counts registrations in one number for the process.  While it stays, all answers do; when it moved, they are
asked again.
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
from ...vocabulary.class_reads import members_of, mro_of, qualname_of
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


#: classes made inside at which others were registered
_REGISTERED = "classes with registrations"
#: a class made inside was registered at an external one
_AT_EXTERNAL = "registrations at external classes"
#: the number of registrations was asked for
_TOKEN = "number of registrations"


@substitute(_abc._abc_register)
@exactly(2)
def _abc_register(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Registering at a class made inside is its own affair.  A class made inside may be registered at an external one
    where nobody else hears of it: registries know their classes weakly, and a plain metaclass changes no answer about
    other classes.
    """
    owner, cls = args
    if _core.is_internal(owner):
        session.notes.setdefault(_REGISTERED, []).append(owner)
    elif is_a(cls, type) and (not _answers_plainly(cls) or _TOKEN in session.notes):
        raise Interrupt("effect-object", f"the registry of {qualname_of(owner)}")
    elif is_a(cls, type):
        session.notes[_AT_EXTERNAL] = True
        session.registered_classes.append(cls)
    return _core.natively(callable_, args, kwargs)


def _answers_plainly(cls: type) -> bool:
    """Whether a class was made inside, and no class from outside can be a subclass of it."""
    if not _core.is_internal(cls) or type(cls) not in (type, abc.ABCMeta):
        return False
    return not any("__subclasshook__" in members_of(base) for base in mro_of(cls) if _core.is_internal(base))


def _check_registered(session: Session, owner: Any) -> None:
    """An abstract class asks its subclasses too, and keeps their answers: those made inside must not be among them."""
    made = session.notes.get(_REGISTERED, ())
    asked = bool(session.registered_classes) or any(owner in mro_of(cls) for cls in made)
    if made and asked and not _core.is_internal(owner):
        raise Interrupt("effect-object", f"the registry of {qualname_of(owner)}")


def _note(session: Session, owner: Any, classes: set[type], answer: bool) -> None:
    if _core.is_internal(owner) or any(_core.is_internal(cls) for cls in classes):
        return
    key = (Answers, owner, *classes)
    if key in session.notes:
        return
    session.notes[key] = True
    registry_fact(session, SubclassFact(owner, classes, answer))


@substitute(_abc._abc_instancecheck)
def _instance_check(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) == 2 and issubclass(type(args[1]), _PLACEHOLDERS):  # the class of the placeholder is nobody's business
        return _core.captured(issubclass, (args[1].__class__, args[0]), None)
    _check_registered(session, args[0])
    answer = _core.natively(callable_, args, kwargs)
    _note(session, args[0], {args[1].__class__, type(args[1])}, answer)
    return answer


@substitute(_abc._abc_subclasscheck)
def _subclass_check(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    _check_registered(session, args[0])
    answer = _core.natively(callable_, args, kwargs)
    _note(session, args[0], {args[1]}, answer)
    return answer


@substitute(_abc.get_cache_token)
def _cache_token(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    number = callable_(*args, **kwargs)
    if _AT_EXTERNAL in session.notes:
        raise Interrupt("effect-object", "the number of registrations")
    session.notes[_TOKEN] = True
    session.world.guard(const(callable_), "CHECK", (functools.partial(gives, number), f"gives {number}"))
    return number
