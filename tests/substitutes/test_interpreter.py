"""Questions to the interpreter about objects and code: names, abstract classes, exceptions being handled, code that is
refused.
"""

from __future__ import annotations

import abc
import collections.abc
import json.decoder
import sys
import types

import pytest
import torch

import framelift
from support import check


class Left:
    a = 1


class Right:
    b = 1


class Both(Left, Right):
    c = 3


def test_names_of_objects() -> None:
    both = Both()
    both.z = both.a = 1

    def f(x):
        local = 1
        names = [dir(), dir(sys), dir([]), dir(both), both.__dir__(), [].__dir__(), object.__dir__(Both())]
        return x + local, names

    def change(number, world):
        world.args[0].add_(1)

    check(f, torch.ones(2), mutate=change)
    c = framelift.compile(f, backend="eager")
    assert c(torch.ones(2))[1] == f(torch.ones(2))[1]
    both.new = 2
    assert c(torch.ones(2))[1] == f(torch.ones(2))[1]


def test_names_of_odd_objects() -> None:
    class NoClass:
        @property
        def __class__(self):
            raise AttributeError

    class Odd(types.ModuleType):
        __dict__ = 8

    def f(x):
        try:
            1 / 0
        except ZeroDivisionError as error:
            names = [dir(error.__traceback__), dir(NoClass())]
        for wrong in (lambda: dir(1, 2), lambda: dir(Odd("odd"))):
            try:
                wrong()
            except TypeError as error:
                names.append(str(error))
        return x + 1, names

    check(f, torch.ones(2))


def test_code_that_is_refused() -> None:
    def f(x):
        n, said = 1, []
        code = (lambda: n).__code__
        for run, source in ((eval, code), (exec, code), (eval, 3), (exec, None)):
            try:
                run(source)
            except TypeError as error:
                said.append(str(error))
        return x + 1, said

    check(f, torch.ones(2))


def test_an_exception_that_a_generator_handled_too() -> None:
    def hold():
        try:
            yield
        except ZeroDivisionError:
            yield sys.exc_info()[1]

    def f(x):
        waiting = hold()
        next(waiting)
        try:
            1 / 0
        except ZeroDivisionError as error:
            given = waiting.throw(error)
            same = sys.exc_info()[1] is error and given is error
        return x + same

    check(f, torch.ones(2))


class Registry(abc.ABC):  # noqa: B024
    """An abstract class from outside."""


def test_a_class_made_inside_is_registered_outside() -> None:
    def f(x):
        class Inside:
            pass

        class Sized(collections.abc.Sized):
            def __len__(self):
                return 1

        found = [isinstance(Inside(), Registry), issubclass(Sized, Registry), issubclass(Both, Registry)]
        Registry.register(Inside)
        Registry.register(Sized)
        found += [isinstance(Inside(), Registry), issubclass(Sized, Registry), issubclass(Both, Registry)]
        return x + 1, found

    for _ in range(2):
        check(f, torch.ones(2))
    assert not issubclass(Both, Registry)


def test_registrations_that_others_hear_of_are_breaks() -> None:
    class Outside:
        pass

    def external(x):
        Registry.register(Outside)
        return x + isinstance(Outside(), Registry)

    def leaves(x):
        class Inside:
            pass

        Registry.register(Inside)
        return x + 1, Inside

    def answers(x):
        class Inside(abc.ABC):  # noqa: B024
            @classmethod
            def __subclasshook__(cls, other):
                return True

        Registry.register(Inside)
        return x + issubclass(Both, Registry)

    for program in (external, leaves, answers):
        with pytest.raises(framelift.exc.Unsupported):
            framelift.compile(program, backend="eager", fullgraph=True)(torch.ones(2))
    made = framelift.compile(leaves, backend="eager")(torch.ones(2))[1]
    assert issubclass(made, Registry)


def test_json_is_read() -> None:
    def f(x, text):
        made = [json.loads(text), json.loads('{"k": [1.5, NaN]}', object_hook=lambda found: len(found["k"]))]
        made.append(json.JSONDecoder(parse_int=lambda digits: int(digits) * 2).decode("[4]"))
        try:
            json.loads("{bad")
        except json.JSONDecodeError as error:
            made.append((error.pos, str(error)))
        return x + made[0]["n"], made

    def change(number, world):
        world.args[1] = '{"n": %d, "a": [null, true, "\\u00e9"]}' % number

    check(f, torch.ones(2), '{"n": 7}', mutate=change, calls=3, captures=3, graphs=None)


def test_json_constants_are_guarded() -> None:
    def f(x):
        return x + 1, json.loads("Infinity")

    c = framelift.compile(f, backend="eager", fullgraph=True)
    assert c(torch.ones(2))[1] == float("inf")
    json.decoder._CONSTANTS["Infinity"] = 5
    try:
        assert c(torch.ones(2))[1] == 5
    finally:
        json.decoder._CONSTANTS["Infinity"] = float("inf")
