"""Questions to abstract base classes: the answer depends on what was registered where, which no attribute shows.

CPython counts registrations in one number for the process.  While it stays, all answers do; when it moved, they are
asked again.  Captured code registers nothing.
"""

from __future__ import annotations

import _abc
import _collections_abc
import abc
import contextlib
import gc
import os
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
from ...vocabulary.class_reads import members_of, mro_of, qualname_of
from ...vocabulary.feature_state import FeatureState
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ...recording.session import Session

#: what captured code sees in place of objects of other classes
_PLACEHOLDERS = (Opaque, View, Array, Scalar, NumpyNumber, *NUMBERS)


class SubclassFact:
    """An abstract class answered that one of these classes is a subclass of it, or that none is.

    It is read off what the class remembers.  Where that is silent, the program's own call would ask; the answer is the
    same where no code of a program takes part.  Of all else nothing is known, and the fact does not hold.  A class that
    was registered itself (the answer is None) is never remembered: what else decides is guarded by itself.
    """

    __slots__ = ("answer", "asked", "given")

    def __init__(self, asked: type, given: Iterable[type], answer: bool | None) -> None:
        self.asked, self.given, self.answer = weakref.ref(asked), [weakref.ref(cls) for cls in given], answer

    def __call__(self) -> bool:
        now: Any = self.asked()
        those: list[Any] = [reference() for reference in self.given]
        if now is None or None in those:
            return True
        if self.answer is None:
            place = remembered_by(now, those[0])
            return has_registered(now, those[0]) if place is None else place[0]
        answers = [answer_of(now, cls) for cls in those if cls is not None]
        return True in answers if self.answer else answers == [False] * len(answers)

    def remembered(self) -> list[tuple[set[Any], Any]]:
        """Let the class remember the answers, as after the program's own call; return the sets, and what is there."""
        asked = self.asked()
        found: list[tuple[set[Any], Any]] = []
        for cls in [reference() for reference in self.given]:
            if asked is None or cls is None:
                continue
            if self.answer is not None and remembered_by(asked, cls) is None:
                _abc._abc_subclasscheck(asked, cls)
            place = remembered_by(asked, cls)
            sets = [one for one in gc.get_referents(members_of(asked)["_abc_impl"]) if type(one) is set]
            if place is None:  # all of what it remembers
                found += [(one, None) for one in sets]
            else:
                found += [(one, place[1]) for one in sets if any(member is place[1] for member in one)]
        return found


def remembered_by(asked: type, cls: type) -> tuple[bool, Any] | None:
    """Return what an abstract class remembers of a class, and the reference by which it does."""
    _registry, yes, no, version = _abc._get_dump(asked)
    for answer, references in ((True, yes), (False, no if version == _abc.get_cache_token() else ())):
        for reference in references:
            if reference() is cls:
                return answer, reference
    return None


def has_registered(asked: type, cls: Any) -> bool:
    """Return whether this class itself was registered."""
    return any(reference() is cls for reference in _abc._get_dump(asked)[0])


def answer_of(asked: type, cls: type) -> bool | None:
    """Return what an abstract class answers, without asking it; None where code of a program takes part."""
    remembered = remembered_by(asked, cls)
    if remembered is not None:
        return remembered[0]
    said = _said_by_hook(asked, cls)
    if said is not NotImplemented:
        return said
    if any(base is asked for base in mro_of(cls)) or has_registered(asked, cls):
        return True
    if not _is_answered_by_cpython(asked) or any(not _is_answered_by_cpython(child) for child in children_of(asked)):
        return None
    answers = [
        answer_of(child, cls) if is_a(child, abc.ABCMeta) else any(base is child for base in mro_of(cls))
        for child in children_of(asked)
    ]
    return True if True in answers else None if None in answers else False


def _said_by_hook(asked: type, cls: type) -> Any:
    """Return what the class's hook says where it is one of Python's own; None where it is another."""
    hook = _core.type_lookup(asked, "__subclasshook__", None)
    if type(hook) is classmethod and any(getattr(hook.__func__, "__globals__", None) is one for one in _PLAIN_HOOKS):
        return hook.__func__(asked, cls)
    return NotImplemented if hook is _NO_HOOK else None


#: the globals of hooks that read what classes hold, nothing else
_PLAIN_HOOKS = (vars(_collections_abc), vars(os), vars(contextlib))
_NO_HOOK = vars(object)["__subclasshook__"]
_CHECKS_OF_CPYTHON = (vars(type)["__subclasscheck__"], abc.ABCMeta.__subclasscheck__)


def _is_answered_by_cpython(asked: type) -> bool:
    """Return whether CPython's own code answers for a class, and lists what is below it."""
    kind = type(asked)
    return (
        _core.type_lookup(kind, "__subclasscheck__", None) in _CHECKS_OF_CPYTHON
        and _core.type_lookup(kind, "__subclasses__", None) is vars(type)["__subclasses__"]
        and _core.type_lookup(asked, "__subclasscheck__", None) is None
        and _core.type_lookup(asked, "__subclasses__", None) is None
    )


def children_of(asked: type) -> list[type]:
    """The classes that an abstract class asks in turn: those registered with it, and its own subclasses."""
    registered = [reference() for reference in _abc._get_dump(asked)[0]]
    return [*[cls for cls in registered if cls is not None], *type.__subclasses__(asked)]


class Answers:
    """The answers of abstract classes in one rehearsal, as one guard."""

    #: the native program need not call it while the process's number stays, and what `held` lists is in its sets
    holds_until_registration = True

    def __init__(self) -> None:
        self.facts: list[Callable[[], bool]] = []
        self.held: list[tuple[set[Any], Any]] = []
        self.noted: set[tuple[Any, ...]] = set()  # questions whose answers are among these

    def __call__(self, _: Any) -> bool:
        if not all(fact() for fact in self.facts):
            return False
        # All hold, and the call is about to be served: abstract classes remember that they were asked.
        facts = [fact for fact in self.facts if type(fact) is SubclassFact]
        self.held = [place for fact in facts for place in fact.remembered()]
        return True

    def as_data(self) -> list[tuple[type, list[type], bool | None]] | None:
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


_ANSWERS = FeatureState(Answers)


def registry_fact(session: Session, fact: Callable[[], bool]) -> None:
    """`fact` holds now and may be another whenever a class was registered: it is guarded."""
    answers = _ANSWERS.of(session)
    if not answers.facts:
        session.guard(const(Answers), "CHECK", (answers, "answers as before"), Answers)
    answers.facts.append(fact)


@substitute(_abc._abc_register)
def _abc_register(session: Session, owner: Any, cls: Any, /) -> Any:
    """Each registration counts for the whole process, whatever the classes."""
    raise Interrupt("effect-object", f"the registry of {qualname_of(owner)}")


def _note(session: Session, owner: Any, classes: set[type], answer: bool | None) -> None:
    noted = _ANSWERS.of(session).noted
    if _core.is_internal(owner) or (owner, *classes) in noted:
        return
    noted.add((owner, *classes))
    if not any(map(_core.is_internal, classes)):
        registry_fact(session, SubclassFact(owner, classes, answer))
    elif answer is False:  # classes that are registered stay registered
        raise Interrupt("unsupported-code", f"a class made inside that is no {qualname_of(owner)}")


@substitute(_abc._abc_instancecheck)
def _instance_check(session: Session, owner: Any, obj: Any, /) -> Any:
    if issubclass(type(obj), _PLACEHOLDERS):  # the class of the placeholder is nobody's business
        return _core.captured(issubclass, (obj.__class__, owner), None)
    cls = obj.__class__
    kinds = [cls] if type(obj) is cls else [cls, type(obj)]
    if _core.is_internal(owner) or not _core.new_subclasses(owner):
        place = remembered_by(owner, cls)
        if place is not None and (place[0] or len(kinds) == 1):
            return _subclass_check(session, _abc._abc_subclasscheck, owner, cls)
    asks = _core.read(owner, "__subclasscheck__")
    if _core.type_lookup(owner, "__subclasscheck__", None) is not None:  # it decides while nothing is remembered
        raise Interrupt("opaque-object", f"{qualname_of(owner)}.__subclasscheck__")
    return any(_core.captured(asks, (kind,), None) for kind in kinds)


@substitute(_abc._abc_subclasscheck)
def _subclass_check(session: Session, callable_: Any, owner: Any, cls: Any, /) -> Any:
    if not is_a(cls, type):
        return _core.natively(callable_, (owner, cls), None)  # an error
    if not _core.is_internal(owner) and _core.new_subclasses(owner):  # outside, nobody has asked them
        if _said_by_hook(owner, cls) is NotImplemented and any(base is owner for base in mro_of(cls)):
            _note(session, owner, {cls}, True)
            return True
        raise Interrupt("unsupported-code", f"a question to {qualname_of(owner)}, which has subclasses made inside,")
    known = remembered_by(owner, cls) is not None or any(base is owner for base in mro_of(cls))
    if not known and has_registered(owner, cls):
        return _registered(session, owner, cls)
    if _core.is_internal(owner) or _core.is_internal(cls) or answer_of(owner, cls) is None:
        answer = _core.natively(callable_, (owner, cls), None)
    else:  # what the classes below it answer follows from this
        answer = callable_(owner, cls)
    _note(session, owner, {cls}, answer)
    return answer


def _registered(session: Session, owner: type, cls: type) -> bool:
    """A class that was registered itself: the hook is called each time, as long as it has no answer."""
    said = _said_by_hook(owner, cls)
    hook = _core.read(owner, "__subclasshook__")
    if said is None:
        said = _core.captured(hook, (cls,), None)
    if said is not NotImplemented:
        raise Interrupt("effect-object", f"what {qualname_of(owner)} remembers of its subclasses")
    _note(session, owner, {cls}, None)
    return True


@substitute(_abc.get_cache_token)
def _cache_token(session: Session, callable_: Any) -> Any:
    number = callable_()
    session.guard_answer(callable_, number)
    return number
