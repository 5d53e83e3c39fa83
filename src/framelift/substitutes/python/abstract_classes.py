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
from ...vocabulary.class_reads import qualname_of
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


@substitute(_abc._abc_register)
@exactly(2)
def _abc_register(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Each registration counts for the whole process, whatever the classes: it is left to the program."""
    if not is_a(args[1], type):
        return _core.natively(callable_, args, kwargs)  # an error
    raise Interrupt("effect-object", f"the registry of {qualname_of(args[0])}")


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
    answer = _core.natively(callable_, args, kwargs)
    _note(session, args[0], {args[1].__class__, type(args[1])}, answer)
    return answer


@substitute(_abc._abc_subclasscheck)
def _subclass_check(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    answer = _core.natively(callable_, args, kwargs)
    _note(session, args[0], {args[1]}, answer)
    return answer


@substitute(_abc.get_cache_token)
def _cache_token(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    number = callable_(*args, **kwargs)
    session.world.guard(const(callable_), "CHECK", (functools.partial(gives, number), f"gives {number}"))
    return number
