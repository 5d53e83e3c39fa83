"""What a class hands out under a name without running code: every kind of class and of entry, every change."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from framelift.guards.kinds import Guard
from framelift.guards.native_program import build_program
from framelift.guards.reference import check_reference
from framelift.vocabulary.origins import arg
from support import needs_versions_of

ROOT = arg(0, "root")
PLACE = ROOT.to("attr", "entry")


class Plain:
    pass


def _enum() -> Any:
    return enum.Enum("Colours", {"entry": 1, "other": 2})


def _named_enum() -> Any:
    return enum.Enum("Names", {"entry": "first", "other": "second"}, type=str)


def _with(entry: Any, *bases: Any, meta: Any = type) -> Any:
    return meta("Thing", bases, {"entry": entry})


def _asked_last(cls: Any, name: str) -> Any:
    return "made up" if name == "entry" else object.__getattribute__(cls, name)


def _of_new_class() -> Any:
    return _with(type("Described", (), {})())


CLASSES: dict[str, Callable[[], Any]] = {
    "enum": _enum,
    "enum of texts": _named_enum,
    "number": lambda: _with(1.5),
    "object of a class": _of_new_class,
    "class": lambda: _with(Plain),
    "inherited": lambda: type("Child", (_with(2.5),), {}),
    "hidden by another base": lambda: type("Child", (type("First", (), {}), _with("text")), {}),
    "metaclass": lambda: _with([1], meta=type("Meta", (type,), {})),
    "metaclass that is asked last": lambda: _with([1], meta=type("Meta", (type,), {"__getattr__": _asked_last})),
}


def _delete(cls: Any) -> None:
    for holder in cls.__mro__:
        if "entry" in vars(holder):
            type.__delattr__(holder, "entry")
            return


def _set_on_base(cls: Any) -> None:
    type.__setattr__(cls.__mro__[-2], "entry", "of the base")


def _metaclass_has_a_say(cls: Any) -> None:
    if type(cls).__module__ != "enum" and type(cls) is not type:
        type(cls).entry = property(lambda self: "of the metaclass")


def _metaclass_reads(cls: Any) -> None:
    if type(cls).__module__ != "enum" and type(cls) is not type:
        type(cls).__getattribute__ = lambda self, name: "read"


def _becomes_a_descriptor(cls: Any) -> None:
    made = type(cls.entry)
    if not made.__flags__ & (1 << 8):  # no class that nobody can change
        made.__get__ = lambda self, instance, owner: "described"


def _other_metaclass(cls: Any) -> None:
    if type(cls).__name__ == "Meta":
        cls.__class__ = type("Late", (type,), {"entry": property(lambda self: "late")})


CHANGES: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda cls: None,
    "another entry": lambda cls: type.__setattr__(cls, "entry", "other"),
    "set again": lambda cls: type.__setattr__(cls, "entry", cls.entry),
    "a property": lambda cls: type.__setattr__(cls, "entry", property()),
    "a function": lambda cls: type.__setattr__(cls, "entry", lambda: None),
    "another name": lambda cls: type.__setattr__(cls, "unrelated", 1),
    "gone": _delete,
    "set on the last base": _set_on_base,
    "the metaclass has the name": _metaclass_has_a_say,
    "the metaclass reads": _metaclass_reads,
    "its class gets __get__": _becomes_a_descriptor,
    "another metaclass": _other_metaclass,
}


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_seen(kind: str, change: str) -> None:
    cls = CLASSES[kind]()
    guards = [Guard(ROOT, "IS", cls), Guard(PLACE, "IS", cls.entry)]
    with config.patch(verify_guards=False):
        program = build_program(guards, [PLACE], [], [], None)[0]
    for _ in range(12):
        assert program.check((cls,)) is None
    assert not program.unsettled()
    for _ in range(2):
        CHANGES[change](cls)
        expected = check_reference(guards, [], None, (cls,))
        for _ in range(12):
            assert (program.check((cls,)) is None) == (expected is None)


def test_a_model_that_compares_with_a_member_of_an_enumeration_settles() -> None:
    needs_versions_of(torch.nn.Module)

    class Format(str, enum.Enum):
        FIRST = "first"
        LAST = "last"

    class Model(torch.nn.Module):
        format = Format.LAST

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if self.format == Format.FIRST else x - 1

    model = Model()
    compiled = framelift.compile(model, backend="eager")
    x = torch.rand(3)
    for _ in range(12):
        assert torch.equal(compiled(x), model(x))
    assert not compiled._compiled.entries[0].program.unsettled()
    Model.format = Format.FIRST
    for _ in range(3):
        assert torch.equal(compiled(x), model(x))
