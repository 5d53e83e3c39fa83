"""Pickles of what is found by a name, from class to class; the interpreter's own codecs; metaclasses that are none."""

from __future__ import annotations

import codecs
import decimal
import itertools
import operator
import pickle
import sys
import types

import pytest
import torch

import framelift
from support import check


class Outer:
    class Inner:
        def __init__(self, value):
            self.value = value

        def __eq__(self, other):
            return type(other) is type(self) and self.value == other.value

        __hash__ = None

        def method(self):
            return self.value


class Below(Outer):
    pass


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_names_with_dots(protocol):
    def program(x):
        made = Outer.Inner(3)
        copied = pickle.loads(pickle.dumps(made, protocol))
        method = pickle.loads(pickle.dumps(Outer.Inner.method, protocol))
        return x + 1, copied == made, type(copied) is Outer.Inner, method is Outer.Inner.method, method(copied)

    check(program, torch.ones(2))


def test_another_class_at_the_name():
    inner = Outer.Inner

    def program(x, cls):
        try:
            return x + 1, pickle.dumps(cls) == b"", None
        except pickle.PicklingError as error:
            return x + 1, None, str(error).partition("<class")[0]

    class Other(inner):
        pass

    def replaced(number, world):
        Outer.Inner = Other if number == 1 else inner

    try:
        check(program, torch.ones(2), inner, calls=3, mutate=replaced, graphs=None, breaks=None)
    finally:
        Outer.Inner = inner


def test_codecs_of_the_interpreter():
    def program(x, text):
        data = codecs.encode(text, "latin1")
        try:
            codecs.encode(text, "ascii")
        except UnicodeEncodeError as error:
            return x + 1, data, codecs.decode(data, "latin-1"), error.args
        return x + 1, data

    check(program, torch.ones(2), "plain")
    check(program, torch.ones(2), "\xe4")


def test_a_metaclass_that_makes_no_class():
    class Rows(int):
        def __init__(*args, **kwargs):
            pass

        def __new__(cls, name, bases, names, **kwargs):
            return name, bases, sorted(names), kwargs

    def program(x):
        class First(metaclass=Rows):
            entry = 1

        class Second(0, 1, metaclass=Rows, more=2):
            pass

        return x + 1, First, Second

    check(program, torch.ones(2))


@pytest.mark.parametrize("values", [(2, 3, 4), (0.5, 1.5, 2.5)], ids=["int", "float"])
@pytest.mark.parametrize(
    "hold", [lambda n: n, lambda n: [1, {"k": (n,)}], lambda n: [n, n]], ids=["bare", "inside", "twice"]
)
def test_numbers_that_differ_from_call_to_call_are_pickled_as_numbers(values, hold) -> None:
    def program(x, number):
        return x + 1, pickle.dumps(hold(number))

    compiled = framelift.compile(program, backend="eager")
    for value in values:
        assert compiled(torch.ones(2), value)[1] == pickle.dumps(hold(value))


OTHER = types.ModuleType("decimal")
OTHER.Decimal = type("Decimal", (), {"__module__": "decimal"})


def test_a_module_that_captured_code_replaced():
    def program(x):
        before = sys.modules["decimal"]
        sys.modules["decimal"] = OTHER
        try:
            text = pickle.dumps(decimal.Decimal, 0)
        except pickle.PicklingError:
            text = "refused"
        found = pickle.loads(b"cdecimal\nDecimal\n.") is OTHER.Decimal
        sys.modules["decimal"] = before
        return x + 1, text, found

    check(program, torch.ones(2), graphs=None, breaks=None)


class Named:
    def __reduce__(self):
        return "FOUND"


def test_a_global_that_captured_code_made():
    def program(x):
        global FOUND
        FOUND = Named()
        found = pickle.loads(pickle.dumps(FOUND)) is FOUND
        del FOUND
        return x + 1, found

    check(program, torch.ones(2), graphs=None, breaks=None)


def test_what_c_code_calls_in_an_iterator():
    def program(x):
        made = itertools.accumulate([None, None], operator.is_)
        next(made)
        return x + 1, list(pickle.loads(pickle.dumps(made)))

    check(program, torch.ones(2), graphs=None, breaks=None)
