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
from collections.abc import Callable
from typing import Any

from ... import _core
from ..._core import is_a
from ...boundary.becomes.arrays import Array, Scalar
from ...boundary.becomes.opaque import Opaque
from ...boundary.lazy.view import View
from ...calls.call_tables import substitute
from ...graph.symbols.numbers import NUMBERS
from ...graph.symbols.numpy_numbers import NumpyNumber
from ...recording.session import Session
from ...vocabulary.class_reads import flags_of, members_of, mro_of, qualname_of
from ...vocabulary.feature_state import FeatureState
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt

#: what captured code sees in place of objects of other classes
_PLACEHOLDERS = (Opaque, View, Array, Scalar, NumpyNumber, *NUMBERS)


class SubclassFact:
    """An abstract class answered whether a class is a subclass of it.

    It is asked again where no code of a program takes part, and remembers the answer, as after the program's own call.
    Of all else nothing is known, and the fact does not hold.  A class that was registered itself (the answer is None)
    is never remembered: what else decides is guarded by itself.
    """

    __slots__ = ("answer", "asked", "cls")

    def __init__(self, asked: type, cls: type, answer: bool | None) -> None:
        self.asked, self.cls, self.answer = weakref.ref(asked), weakref.ref(cls), answer

    def __call__(self) -> bool:
        asked, cls = self.asked(), self.cls()
        if asked is None or cls is None:
            return True
        if self.answer is None:
            place = remembered_by(asked, cls)
            return has_registered(asked, cls) if place is None else place
        return answer_of(asked, cls) is not None and _abc._abc_subclasscheck(asked, cls) is self.answer

    def held(self) -> list[tuple[set[Any], Any]]:
        """Return where the answer is remembered: sets, and the member of each; None is for all members."""
        asked, cls = self.asked(), self.cls()
        parts = gc.get_referents(members_of(asked)["_abc_impl"]) if asked is not None and cls is not None else ()
        sets = [one for one in parts if type(one) is set]
        found = [] if self.answer is None else [(one, member) for one in sets for member in one if member() is cls]
        return found or [(one, None) for one in sets]


def remembered_by(asked: type, cls: type) -> bool | None:
    """Return what an abstract class remembers of a class."""
    _registry, yes, no, version = _abc._get_dump(asked)
    for answer, references in ((True, yes), (False, no if version == _abc.get_cache_token() else ())):
        if any(reference() is cls for reference in references):
            return answer
    return None


def has_registered(asked: type, cls: Any) -> bool:
    """Return whether this class itself was registered."""
    return any(reference() is cls for reference in _abc._get_dump(asked)[0])


def answer_of(asked: type, cls: type) -> bool | None:
    """Return what an abstract class answers, without asking it; None where code of a program takes part."""
    remembered = remembered_by(asked, cls)
    if remembered is not None:
        return remembered
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
        self.held = [place for fact in self.facts if type(fact) is SubclassFact for place in fact.held()]
        return True

    def as_data(self) -> list[tuple[type, type, bool | None]] | None:
        """The questions and answers, where they are all there is."""
        found = []
        for fact in self.facts:
            asked, cls = (fact.asked(), fact.cls()) if type(fact) is SubclassFact else (None, None)
            if type(fact) is not SubclassFact or asked is None or cls is None:
                return None
            found.append((asked, cls, fact.answer))
        return found


_ANSWERS = FeatureState(Answers)


def registry_fact(session: Session, fact: Callable[[], bool]) -> None:
    """`fact` holds now and may be another whenever a class was registered: it is guarded."""
    answers = _ANSWERS.of(session)
    if not answers.facts:
        session.guard(const(Answers), "CHECK", (answers, "answers as before"), Answers)
    answers.facts.append(fact)


def flags_fact(session: Session, cls: type, mask: int) -> None:
    """Flags of a class, which registering it somewhere sets, are as they are."""
    reference, flags = weakref.ref(cls), flags_of(cls) & mask
    registry_fact(session, lambda: (now := reference()) is None or flags_of(now) & mask == flags)


@substitute(_abc._abc_register)
def _abc_register(session: Session, owner: Any, cls: Any, /) -> Any:
    """Each registration counts for the whole process, whatever the classes."""
    raise Interrupt("effect-object", f"the registry of {qualname_of(owner)}")


def _note(session: Session, owner: Any, cls: type, answer: bool | None) -> None:
    noted = _ANSWERS.of(session).noted
    if (owner, cls) not in noted:
        noted.add((owner, cls))
        registry_fact(session, SubclassFact(owner, cls, answer))


@substitute(_abc._abc_instancecheck)
def _instance_check(session: Session, owner: Any, obj: Any, /) -> Any:
    if issubclass(type(obj), _PLACEHOLDERS):  # the class of the placeholder is nobody's business
        return _core.captured(issubclass, (obj.__class__, owner), None)
    cls = obj.__class__
    kinds = [cls] if type(obj) is cls else [cls, type(obj)]
    known = remembered_by(owner, cls)
    if known or known is False and len(kinds) == 1:
        return _subclass_check(session, _abc._abc_subclasscheck, owner, cls)
    asks = _core.read(owner, "__subclasscheck__")
    if _core.type_lookup(owner, "__subclasscheck__", None) is not None:  # it decides while nothing is remembered
        raise Interrupt("opaque-object", f"{qualname_of(owner)}.__subclasscheck__")
    return any(_core.captured(asks, (kind,), None) for kind in kinds)


@substitute(_abc._abc_subclasscheck)
def _subclass_check(session: Session, callable_: Any, owner: Any, cls: Any, /) -> Any:
    if not is_a(cls, type):
        return _core.natively(callable_, (owner, cls), None)  # an error
    known = remembered_by(owner, cls) is not None or any(base is owner for base in mro_of(cls))
    if not known and has_registered(owner, cls):  # its hook is called each time, as long as it has no answer
        if _said_by_hook(owner, cls) is not NotImplemented:
            raise Interrupt("effect-object", f"what {qualname_of(owner)} remembers of its subclasses")
        _core.read(owner, "__subclasshook__")
        _note(session, owner, cls, None)
        return True
    if answer_of(owner, cls) is None:
        answer = _core.natively(callable_, (owner, cls), None)
    else:  # what the classes below it answer follows from this
        answer = callable_(owner, cls)
    _note(session, owner, cls, answer)
    return answer


@substitute(_abc.get_cache_token)
def _cache_token(session: Session, callable_: Any) -> Any:
    number = callable_()
    session.guard_answer(callable_, number)
    return number
