"""Questions to the interpreter about objects and code: names, abstract classes, exceptions being handled, code that is
refused.
"""

from __future__ import annotations

import abc
import functools
import gc
import itertools
import json.decoder
import marshal
import sys
import types
import warnings

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

    check(f, torch.ones(2), mutate=change, graphs=None, breaks=None)
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

    check(f, torch.ones(2), graphs=None, breaks=None)


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


def _inside_at_outside(x, registry):
    class Inside:
        pass

    found = [isinstance(Inside(), registry), issubclass(Both, registry)]
    registry.register(Inside)
    found += [isinstance(Inside(), registry), issubclass(Both, registry)]
    return x + 1, found


def _inside_at_inside(x, registry):
    class Own(abc.ABC):  # noqa: B024
        pass

    Own.register(int)
    return x + 1, isinstance(3, Own), issubclass(str, Own)


def _inside_with_a_hook(x, registry):
    class Inside(abc.ABC):  # noqa: B024
        @classmethod
        def __subclasshook__(cls, other):
            return other is Both

    before = issubclass(Both, registry)
    registry.register(Inside)
    return x + 1, before, issubclass(Both, registry)


def _subclass_registered(x, registry):
    class Sub(registry):
        pass

    Sub.register(float)
    return x + 1, issubclass(float, registry), issubclass(int, registry)


def _not_a_class(x, registry):
    try:
        registry.register(3)
    except TypeError as error:
        return x + 1, str(error)


@pytest.mark.usefixtures("small_heap")
@pytest.mark.parametrize(
    "program", [_inside_at_outside, _inside_at_inside, _inside_with_a_hook, _subclass_registered, _not_a_class]
)
def test_each_call_registers_as_often_as_in_eager_mode(program) -> None:
    def moves(function, registry):
        before = abc.get_cache_token()
        result = function(torch.ones(2), registry)[1:]
        gc.collect()  # classes made inside
        return abc.get_cache_token() - before, result

    found = []
    for function in (program, framelift.compile(program, backend="eager")):
        registry = abc.ABCMeta("Registry", (), {})
        found.append([moves(function, registry) for _ in range(3)])
    assert found[0] == found[1]


def test_json_is_left_to_eager_mode() -> None:
    def f(x, text):
        made = [json.loads(text), json.loads('{"k": [1.5, NaN]}', object_hook=lambda found: len(found["k"]))]
        try:
            json.loads("{bad")
        except json.JSONDecodeError as error:
            made.append((error.pos, str(error)))
        return x + made[0]["n"], made, json.dumps(made[:1])

    c = framelift.compile(f, backend="eager")
    for text in ('{"n": 7}', '{"n": 8, "a": [null, true]}'):
        assert repr(c(torch.ones(2), text)) == repr(f(torch.ones(2), text))


def test_tools_are_set_in_eager_mode() -> None:
    def f(x):
        before = sys.gettrace()
        sys.settrace(None)
        try:
            return x + 1
        finally:
            sys.settrace(before)

    assert torch.equal(framelift.compile(f, backend="eager")(torch.ones(2)), torch.full((2,), 2.0))
    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(f, backend="eager", fullgraph=True)(torch.ones(2))


def test_vars_without_an_argument() -> None:
    def f(x, a):
        b = a + 1
        return x + b, sorted(vars()), vars()["b"] + locals()["a"]

    check(f, torch.ones(2), 3)
    assert framelift.compile(f, backend="eager", fullgraph=True)(torch.ones(2), 3)[1:] == (["a", "b", "x"], 7)


class BegunByProperty:
    given = 0

    @property
    def __init__(self):
        if self.given < 0:
            raise AttributeError("none")
        return functools.partial(self.begin, self.given)

    def begin(self, given, *args, **kwargs):
        self.held = given, args, kwargs


def test_an_init_that_is_a_property() -> None:
    def f(x):
        try:
            return x + 1, BegunByProperty(1, 2, a=3).held
        except AttributeError as error:
            return x + 2, str(error)

    def change(number, world):
        BegunByProperty.given = (0, 5, -1, 0)[number]

    check(f, torch.ones(2), mutate=change, calls=4, graphs=None, breaks=None)


def test_a_relative_import_that_warns() -> None:
    def f(x):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                __import__("", {"__package__": None, "__spec__": None, "__name__": "__main__"}, {}, ("a",), 1)
            except ImportError as error:
                return x + 1, str(error), [one.category for one in seen]
        return x

    check(f, torch.ones(2), graphs=None, breaks=None)
