"""Texts that show where objects lie in memory, or what classes are called: known where these are external objects,
whose identity and names are guarded.

An object made inside lies elsewhere at the next call, and so does a copy of an external one: its text is one that
nobody may read (graph/symbols/unread_text.py).
"""

from __future__ import annotations

import re
import types
from typing import TYPE_CHECKING, Any, NoReturn

from ... import _core
from ..._core import id, is_a
from ...boundary.records import ABSENT
from ...graph.symbols.unread_text import MARK, text_or
from ...guards.kinds import Guard
from ...vocabulary.class_reads import members_of, module_of, mro_of, qualname_of
from ...vocabulary.feature_state import FeatureState
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt
from ...vocabulary.shown_addresses import shown_addresses

if TYPE_CHECKING:
    from ...recording.session import Session

_CLASS = re.compile("<class '([^']*)'>")
_METHOD = re.compile("<bound method (.*?) of <")
#: their text shows the name of the object itself, others show that of their class
_NAMED = (types.FunctionType,)


class LiesThere:
    """A check without a written form: a capture that knows an address is good for this process alone."""

    def __init__(self, address: int) -> None:
        self.address = address

    def __call__(self, obj: Any) -> bool:
        return id(obj) == self.address


def known_text(session: Session, text: str | bytes, maker: str = "a text (it", of: Any = None) -> str:
    """The text that an f-string, `%` or a call made, where its addresses are known; one that nobody may read else.

    `of`: the object of which it may be the text.
    """
    if is_a(text, str) and is_known_text(session, text):
        return text

    def is_needed() -> NoReturn:
        raise Interrupt("unknown-callable", f"{maker} shows an address)")

    if type(text) is not str:
        return is_needed()
    if _is_plain_text(text, of):
        _guard_names(session, type(of))
        return text_or(is_needed, _ADDRESS.sub(MARK, text))
    return text_or(is_needed, _around_addresses(text))


#: the last word of an object's own text
_ADDRESS = re.compile("[0-9a-f]+(?=>$)")


def _is_plain_text(text: str, of: Any) -> bool:
    """Return whether a text is what `object` gives: the names of the class, and an address."""
    plain = _core.type_lookup(type(of), "__repr__", None) is object.__repr__
    return plain and text == object.__repr__(of) and _ADDRESS.search(text) is not None


def _around_addresses(text: str) -> str:
    """Return the known parts of a text: all but what stands in angle brackets, from the first to the last."""
    before, begins, rest = text.partition("<")
    inside, ends, after = rest.rpartition(">")
    whole = begins and ends and not shown_addresses(before) and not shown_addresses(after)
    return f"{before}{MARK}{after}" if whole else MARK


def is_known_text(session: Session, text: str) -> bool:
    """Return whether all addresses that a text shows are those of external objects; they and their names are guarded
    then, and so are names of classes.
    """
    _guard_classes(session, text)
    if not all(_guard_functions(session, name) for name in _METHOD.findall(text)):
        return False
    for address in shown_addresses(text) - session.pinned_addresses:
        obj = ABSENT if address is None else _external_at(session, address)
        if obj is ABSENT:
            return False
        _guard_name(session, obj)
        session.guard(const(obj), "CHECK", (LiesThere(id(obj)), "lies where it did"), LiesThere)
        session.pinned_addresses.add(id(obj))
    return True


def _guard_classes(session: Session, text: str) -> None:
    """A class is shown by two facts of it.  One that the program found elsewhere than by a name is guarded, too."""
    shown = set(_CLASS.findall(text))
    if not shown:
        return
    for cls in _CLASSES.of(session).called(session.guards, shown):
        _guard_names(session, cls)


class _Classes:
    """The classes that guards of a rehearsal are about, by how texts show them, brought up to date for each text."""

    def __init__(self) -> None:
        self.looked_at = 0  # that many guards
        self.known: set[int] = set()  # their ids: a metaclass may hash classes itself
        self.named: dict[str, list[tuple[int, type]]] = {}  # with their places in the order of their coming
        self.others: list[tuple[int, type]] = []  # whose metaclass may say another name each time

    def called(self, guards: list[Guard], names: set[str]) -> list[type]:
        for cls in [g.value for g in guards[self.looked_at :] if g.kind in ("IS", "TYPE") and is_a(g.value, type)]:
            if id(cls) not in self.known:
                named = self.named.setdefault(_shown(cls), []) if type(cls) is type else self.others
                named.append((len(self.known), cls))
                self.known.add(id(cls))
        self.looked_at = len(guards)
        found = [met for name in names for met in self.named.get(name, ())]
        found += [met for met in self.others if _shown(met[1]) in names]
        return [cls for _, cls in sorted(found, key=lambda met: met[0])]


_CLASSES = FeatureState(_Classes)


def _guard_functions(session: Session, name: str) -> bool:
    """Return whether functions of this name are known, of which the text of a bound method shows one; guarded from now
    on.
    """
    world = session.world
    values = [guard.value for guard in world.guards] + [one.original for one in world.by_seen.values()]
    functions = {id(one): one for one in values if type(one) is types.FunctionType and one.__qualname__ == name}
    for function in functions.values():
        _core.read(function, "__qualname__")
    return bool(functions)


def _external_at(session: Session, address: int) -> Any:
    """The external object at an address that captured code sees as itself, its identity guarded; ABSENT: none."""
    world = session.world
    record = world.by_seen.get(address)
    if record is not None:
        if record.seen is not record.original or type(record.seen) is types.MethodType:
            return ABSENT
        if record.origin.step != "const":
            world.guard(record.origin, "IS", record.original)
        return record.original
    for guard in world.guards:
        if guard.kind == "IS" and id(guard.value) == address:
            return guard.value
    return ABSENT


def _guard_name(session: Session, obj: Any) -> None:
    """Names are read by C code when it makes a text."""
    if is_a(obj, _NAMED):
        _core.read(obj, "__qualname__")
    else:
        _guard_names(session, type(obj))


def _guard_names(session: Session, cls: type) -> None:
    if not any(_has_say(one) for one in mro_of(type(cls)) if one is not type and one is not object):
        _core.read(cls, "__module__")
        _core.read(cls, "__qualname__")
    else:  # a read might run code of the metaclass, which making a text does not
        session.guard(const(cls).to("ask", shown_names), "EQ", shown_names(cls))


def _has_say(metaclass: type) -> bool:
    """Return whether a read of the names of its classes may run its code."""
    members = members_of(metaclass)
    return "__getattribute__" in members or "__qualname__" in members or type(members.get("__module__", "")) is not str


def _shown(cls: type) -> str:
    return ".".join(shown_names(cls))


def shown_names(cls: type) -> tuple[str, str]:
    return str(module_of(cls)), qualname_of(cls)
