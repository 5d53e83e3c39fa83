"""Registrations with abstract classes: an effect like any other, and the answers that follow from it."""

from __future__ import annotations

import abc
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence, Sized

import pytest
import torch

import framelift
from support import check


def abstract(bases=(), hook=None):
    """A new abstract class."""
    members = {} if hook is None else {"__subclasshook__": classmethod(hook)}
    return abc.ABCMeta("Abstract", bases, members)


def of_both(program, calls=3, between=lambda number, worlds: None):
    """The answers of `program(x, a, b, c)` in two worlds of the same classes: plain and captured."""

    def world():
        a = abstract()
        return a, abstract((a,)), type("Plain", (), {})

    worlds = world(), world()
    captured = framelift.compile(program, backend="eager")
    for number in range(calls):
        between(number, worlds)
        seen = []
        for run, given in zip((program, captured), worlds):
            token = abc.get_cache_token()
            answers = run(torch.ones(1), *given)[1]
            seen.append((answers, abc.get_cache_token() - token, [issubclass(given[2], one) for one in given[:2]]))
        assert seen[0] == seen[1]
    return captured


def test_a_class_from_outside():
    def program(x, a, b, c):
        before = issubclass(c, a), isinstance(c(), a)
        a.register(c)
        return x + 1, [before, issubclass(c, a), isinstance(c(), a), issubclass(c, b), issubclass(b, a)]

    assert len(of_both(program).entries) == 2  # the second call finds it registered


def test_a_class_made_inside():
    def program(x, a, b, c):
        class Own(c):
            pass

        class Other(a):
            pass

        answers = [issubclass(Own, a), isinstance(Own(), b)]
        b.register(Own)
        answers += [issubclass(Own, a), isinstance(Own(), b), issubclass(c, a), issubclass(Other, b)]
        Other.register(Own)
        return x + 1, [*answers, issubclass(Own, Other), b.register(Own) is Own]

    of_both(program, calls=2)


@pytest.mark.parametrize("with_b", [False, True])
def test_bases_that_are_registered_between_calls(with_b):
    def program(x, a, b, c):
        class Own(c):
            pass

        return x + 1, [issubclass(Own, a), isinstance(Own(), a), isinstance(Own(), b)]

    def registered(number, worlds):
        for a, b, c in worlds if number == 1 else ():
            (b if with_b else a).register(c)

    of_both(program, between=registered)


def test_a_child_with_a_hook_that_comes_between_calls():
    def program(x, a, b, c):
        class Own:
            def meant(self):
                return 1

        return x + 1, [issubclass(Own, a)]

    kept = []

    def added(number, worlds):
        for a, _b, _c in worlds if number == 1 else ():
            child = abstract(hook=lambda cls, other: hasattr(other, "meant") or NotImplemented)
            kept.append(child)
            a.register(child)

    of_both(program, between=added)


def test_a_child_made_inside_that_says_yes():
    """The abstract class remembers that, so it is left to the program."""

    def program(x, a, b, c):
        class Own(a):
            @classmethod
            def __subclasshook__(cls, other):
                return other is c or NotImplemented

        class Below(c):
            pass

        return x + 1, [issubclass(c, Own), issubclass(Below, a), issubclass(c, a)]

    of_both(program)


def test_classes_of_the_library():
    def program(x):
        answers = []
        for one in (Hashable, Iterable, Sized, Container):

            class Own:
                __hash__ = None

            answers.append(issubclass(Own, one))
            one.register(Own)
            answers.append((issubclass(Own, one), isinstance(Own(), one)))
        return x + 1, answers

    check(program, torch.ones(2), graphs=None, breaks=None)


def test_what_matches_as_a_sequence_or_mapping():
    def kind(value):
        match value:
            case [*_]:
                return "sequence"
            case {}:
                return "mapping"
        return None

    def program(x):
        class First:
            pass

        class Below(First):
            pass

        class Second:
            pass

        before = [kind(one()) for one in (First, Below, Second)]
        Sequence.register(First)
        Mapping.register(Second)
        return x + 1, before, [kind(one()) for one in (First, Below, Second) if one is not First and one is not Below]

    check(program, torch.ones(2), graphs=None, breaks=None)


def test_refusals():
    def program(x, a, b, c):
        answers = []
        for one, other in ((b, a), (a, 3), (a, a)):
            try:
                answers.append(one.register(other) is other)
            except (RuntimeError, TypeError) as error:
                answers.append(str(error))
        return x + 1, answers

    of_both(program)


def test_a_registered_class_that_is_returned():
    first = abstract()

    def program(x):
        class Own:
            pass

        first.register(Own)
        return x + 1, Own

    captured = framelift.compile(program, backend="eager")
    for _ in range(3):
        assert issubclass(captured(torch.ones(1))[1], first)
