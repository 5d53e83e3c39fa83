"""Where a class stands among others.

Asked of the class, it is a fact, for `__bases__` may be given others between calls.
"""

from __future__ import annotations

import inspect

import pytest
import torch

import framelift


def _family():
    class Base:
        def said(self):
            return "base"

    class Middle(Base):
        pass

    class Other(Base):
        def said(self):
            return "other"

    class Last(Middle):
        pass

    return Base, Middle, Other, Last


QUESTIONS = {
    "issubclass": lambda base, middle, other, last: (issubclass(last, other), issubclass(last, (int, middle))),
    "issubclass in map": lambda base, middle, other, last: list(map(issubclass, [last, middle], [other, base])),
    "of a class made inside": lambda base, middle, other, last: issubclass(type("Inside", (last,), {}), other),
    "mro": lambda base, middle, other, last: [cls.__name__ for cls in last.__mro__],
    "mro()": lambda base, middle, other, last: (
        [cls.__name__ for cls in last.mro()],
        len(type.mro(base)),
        [cls.__name__ for cls in type("Inside", (last,), {}).mro()],
        int.mro()[1] is object,
        len(list(map(type.mro, [last, other]))),
    ),
    "mro() of an object's class": lambda base, middle, other, last: [
        cls.__name__ for cls in type(last()).mro() if "said" in vars(cls)
    ],
    "bases": lambda base, middle, other, last: [cls.__name__ for cls in last.__bases__],
    "base": lambda base, middle, other, last: last.__base__.__name__,
    "getmro": lambda base, middle, other, last: [cls.__name__ for cls in inspect.getmro(last)],
    "instance": lambda base, middle, other, last: (isinstance(last(), other), last().said()),
}
CHANGES = {
    "its own": lambda base, middle, other, last: setattr(last, "__bases__", (other,)),
    "its base's": lambda base, middle, other, last: setattr(middle, "__bases__", (other,)),
    "one more": lambda base, middle, other, last: setattr(last, "__bases__", (middle, other)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("question", QUESTIONS)
def test_bases_that_change(question, change):
    ask = QUESTIONS[question]
    seen = []
    for wrap in (lambda f: f, lambda f: framelift.compile(f, backend="eager")):
        family = _family()

        def f(x):
            return x + 1, ask(*family)

        target, rows = wrap(f), []
        for number in range(4):
            if number == 2:
                CHANGES[change](*family)
            rows.append(target(torch.ones(1))[1])
        seen.append(rows)
    assert seen[0] == seen[1]


def test_the_class_that_super_begins_at():
    """It is in a cell, which may be given another class."""
    seen = []
    for wrap in (lambda f: f, lambda f: framelift.compile(f, backend="eager")):

        class Base:
            def said(self):
                return "base"

        class Middle(Base):
            def said(self):
                return "middle"

        class Last(Middle):
            def said(self):
                found = super()
                return found.said(), super().said()

        made = Last()

        def f(x):
            return x + 1, made.said()

        target, rows = wrap(f), []
        for cls in (Last, Middle, Last):
            Last.said.__closure__[0].cell_contents = cls
            rows.append(target(torch.ones(1))[1])
        seen.append(rows)
    assert seen[0] == seen[1]


def test_what_super_found_is_looked_for_again_after_a_write():
    """Inside, a class on the way is given the function, another one, and loses both."""
    seen = []
    for wrap in (lambda f: f, lambda f: framelift.compile(f, backend="eager")):

        class Base:
            def said(self, text):
                return "base " + text

        class Middle(Base):
            pass

        class Last(Middle):
            def said(self, text):
                return super().said(text)

        def f(x, made):
            rows = [made.said("1"), made.said("2")]
            Middle.said = lambda self, text: "middle " + text
            rows += [made.said("3"), Last.said(made, "4")]
            Base.said = lambda self, text: "other " + text
            rows.append(made.said("5"))
            del Middle.said
            rows += [made.said("6"), super(Last, made).said("7")]
            return x + 1, rows

        target = wrap(f)
        seen.append([target(torch.ones(1), Last())[1] for _ in range(3)])
    assert seen[0] == seen[1]


def test_super_of_a_class_and_of_its_instance():
    """One place, two receivers: the function binds to the instance only."""

    class Base:
        def said(self):
            return type(self).__name__

    class Last(Base):
        def both(self):
            return super().said(), super(Last, type(self)).said(self), super(Last, self).said()

        def __getattribute__(self, name):
            return super().__getattribute__(name)

    def f(x, made):
        return x + 1, made.both(), made.both()

    made = Last()
    assert framelift.compile(f, backend="eager")(torch.ones(1), made)[1:] == f(torch.ones(1), made)[1:]


def test_a_mapping_is_subscripted_by_its_class():
    class Keys:
        def keys(self):
            return ["a", "b"]

    made = Keys()
    made.__getitem__ = lambda key: "the instance's own"

    def f(x):
        try:
            found = dict(made)
        except TypeError as error:
            found = str(error)
        return x + 1, found

    target = framelift.compile(f, backend="eager")
    assert target(torch.ones(1))[1] == f(torch.ones(1))[1]
    Keys.__getitem__ = lambda self, key: key * 2
    assert target(torch.ones(1))[1] == f(torch.ones(1))[1] == {"a": "aa", "b": "bb"}
