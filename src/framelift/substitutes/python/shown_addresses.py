"""Texts that show where objects lie in memory, which another call would not, or what classes are called: a fact."""

from __future__ import annotations

import re
import string
import types
from typing import Any

import torch

from ... import _core
from ..._core import id, is_a
from ...boundary.becomes.leaves import LEAF_TYPES
from ...guards.kinds import Guard
from ...recording.session import Session
from ...vocabulary.class_reads import members_of, module_of, mro_of, qualname_of
from ...vocabulary.feature_state import FeatureState
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt
from ...vocabulary.shown_values import shown_addresses

_CLASS = re.compile("<class '([^']*)'>")
_METHOD = re.compile("<bound method (.*?) of <")


def known_text(session: Session, text: str | bytes, maker: str = "a text (it") -> str:
    """Return the text that an f-string, `%` or a call made, which must not show an address."""
    if is_a(text, str) and is_known_text(session, text):
        return text
    raise Interrupt("unknown-callable", f"{maker} shows an address)")


def is_known_text(session: Session, text: str) -> bool:
    """Return whether a text shows no address and no name of a method; the names of classes in it are guarded."""
    _guard_classes(session, text)
    return _METHOD.search(text) is None and not shown_addresses(text)


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


# ---- Templates that read attributes: str.format does so from C, the string module does the same in Python ----


#: `%.3s` in a template, `{!r:.3}` in one of str.format, `.3` behind the colon of an f-string
_CUTS = re.compile(r"%(\([^)]*\))?[^%a-zA-Z(]*\.[\d*]*[hlL]?[sra]|![rsa]:[^!]*\.|^[^%{}]*\.[\d]*s?$")


def cuts_text(how: str | bytes) -> bool:
    """Return whether a template cuts texts: an object shows then what nobody sees whole."""
    return _CUTS.search(how if is_a(how, str) else how.decode("latin-1")) is not None


def format_watched(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """`str.format(*args, **kwargs)`, read as captured code.  What fails is left to eager mode."""
    template, *values = args
    if type(template) is not str:
        raise Interrupt("unknown-callable", "str.format of a class derived from str")
    try:
        return str(_core.captured(string.Formatter().vformat, (template, tuple(values), kwargs), None))
    except Exception as error:
        raise Interrupt("unknown-callable", "str.format that raises an exception") from error


_core.connect(leaf_types=(*LEAF_TYPES, types.ModuleType, type(torch.default_generator)))
