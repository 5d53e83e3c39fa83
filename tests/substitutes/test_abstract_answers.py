"""What abstract classes answer, and remember, against all that changes it between calls: as in plain Python."""

from __future__ import annotations

import _abc
import abc
import itertools

import pytest
import torch

import framelift


class World:
    """An abstract class with a base and a metaclass of its own, and the classes that are asked about."""

    def __init__(self) -> None:
        self.kept = []
        self.meta = type("Meta", (abc.ABCMeta,), {})
        self.base = self.meta("Base", (), {})
        self.asked = self.meta("Asked", (self.base,), {})
        self.plain = type("Plain", (), {})


def hooked(answer):
    return classmethod(lambda cls, other: answer)


def new_class(world):
    world.kept.append(world.meta("New", (world.asked,), {"__subclasshook__": hooked(True)}))


CHANGES = {
    "register": lambda world: world.asked.register(world.plain),
    "register another": lambda world: world.asked.register(type("Other", (), {})),
    "register on the base": lambda world: world.base.register(world.plain),
    "hook says yes": lambda world: setattr(world.asked, "__subclasshook__", hooked(True)),
    "hook says no": lambda world: setattr(world.asked, "__subclasshook__", hooked(False)),
    "hook of the base": lambda world: setattr(world.base, "__subclasshook__", hooked(True)),
    "check of the class": lambda world: setattr(world.asked, "__subclasscheck__", lambda other: True),
    "check of the metaclass": lambda world: setattr(world.meta, "__subclasscheck__", lambda cls, other: True),
    "instance check of the metaclass": lambda world: setattr(world.meta, "__instancecheck__", lambda cls, one: True),
    "reset": lambda world: _abc._reset_caches(world.asked),
    "reset the registry": lambda world: _abc._reset_registry(world.asked),
    "a new class below": new_class,
    "plain asks": lambda world: issubclass(world.plain, world.asked),
}

QUESTIONS = {
    "isinstance": lambda x, world_asked, plain: x + 1 if isinstance(plain(), world_asked) else x - 1,
    "issubclass": lambda x, world_asked, plain: x + 1 if issubclass(plain, world_asked) else x - 1,
}


def answers_of(run, changes, asks):
    """The answers before and after each change, and what the class remembers at the end."""
    world, answers = World(), []
    for change, asked in zip((*changes, None), asks):
        if asked:
            answers.append(run(torch.zeros(1), world.asked, world.plain).item())
        if change is not None:
            change(world)
    return [*answers, issubclass(world.plain, world.asked)]


def compare(question, changes, asks):
    plainly = answers_of(question, changes, asks)
    assert answers_of(framelift.compile(question, backend="eager"), changes, asks) == plainly


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("first", CHANGES)
def test_two_changes(first, question):
    for second in CHANGES:
        for asks in ((True, True, True), (False, True, True), (True, False, True)):
            compare(QUESTIONS[question], (CHANGES[first], CHANGES[second]), asks)


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("first", CHANGES)
def test_three_changes(first, question):
    for second, third in itertools.product(CHANGES, repeat=2):
        compare(QUESTIONS[question], [CHANGES[one] for one in (first, second, third)], (True, True, True, True))
