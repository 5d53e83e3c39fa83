"""Weak references to what only a function made inside leads to, and callbacks of references around a graph break."""

from __future__ import annotations

import weakref

import pytest
import torch

import framelift

log: list = []


class Thing:
    def __init__(self, value=0):
        self.value = value


def in_a_closure(x):
    def make():
        thing = Thing()
        return weakref.ref(thing), (lambda: thing)

    reference, function = make()
    function()
    before = reference() is None
    function = None
    return x + 1, before, reference() is None


def in_a_default(x):
    members = weakref.WeakSet()

    def make():
        thing = Thing()
        members.add(thing)
        return lambda thing=thing: thing

    function = make()
    before = len(members)
    function = None
    return x + 1, before, len(members)


def of_a_generator_function(x):
    members = weakref.WeakSet()

    def make():
        thing = Thing()
        members.add(thing)

        def generator():
            yield thing

        return generator

    function = make()
    before = len(list(function())) + len(members)
    function = None
    return x + 1, before, len(members)


def behind_a_list(x):
    things = weakref.WeakValueDictionary()

    def make():
        held = [Thing()]
        things["one"] = held[0]
        return lambda: held

    function = make()
    before = len(things)
    function = None
    return x + 1, before, list(things)


def of_a_cycle(x):
    first, second = Thing(), Thing()
    first.value, second.value = second, first
    reference = weakref.ref(first)
    del first, second
    return x + 1, reference() is None


def held_by_a_closure(x):
    def make():
        thing = Thing(x)
        return weakref.ref(thing), (lambda: thing.value)

    reference, function = make()
    return function() + 1, reference() is None


def of_a_function(x):
    def function():
        return 1

    reference = weakref.ref(function)
    before = reference() is None
    function()
    del function
    return x + 1, before, reference() is None


def of_a_function_that_names_itself(x):
    def function():
        return function

    reference = weakref.ref(function)
    del function
    return x + 1, reference() is None


def of_a_set_of_functions(x):
    members, function = weakref.WeakSet(), lambda: 3
    members.add(function)
    before = len(members)
    function = None
    return x + 1, before, len(members)


def of_a_key_in_a_frame_that_is_over(x):
    table = weakref.WeakKeyDictionary()

    def fill():
        key = lambda: 3  # noqa: E731
        table[key] = 1
        return len(table)

    return x + 1, fill(), len(table)


def of_a_class(x):
    class Made:
        pass

    reference = weakref.ref(Made)
    del Made
    return x + 1, reference() is None


HOLDERS = [in_a_closure, in_a_default, of_a_generator_function, behind_a_list, of_a_cycle, held_by_a_closure]
HOLDERS += [of_a_function, of_a_function_that_names_itself, of_a_set_of_functions, of_a_key_in_a_frame_that_is_over]
HOLDERS += [of_a_class]


def around_a_break(x):
    thing = Thing()
    reference = weakref.ref(thing, lambda _: log.append("dead"))  # noqa: F841
    print("here")
    log.append("before")
    thing = None  # noqa: F841
    log.append("after")
    return x + 1


def before_a_break(x):
    thing = Thing()
    reference = weakref.ref(thing, lambda _: log.append("dead"))  # noqa: F841
    thing = None  # noqa: F841
    log.append("after")
    print("here")
    return x + 1


def asked_after_its_end(x):
    thing = Thing()
    reference = weakref.ref(thing, lambda _: log.append("dead"))
    thing = Thing()
    log.append("after")
    return x + 1, reference() is None, thing.value


def in_a_loop(x):
    thing = Thing()
    references = [weakref.ref(thing, lambda _: log.append("dead"))]
    for step in range(2):
        print(step)
        thing = None
        log.append(step)
    return x + len(references)


CALLBACKS = [around_a_break, before_a_break, asked_after_its_end, in_a_loop]


@pytest.mark.parametrize("program", HOLDERS + CALLBACKS)
def test_as_in_plain_python(program, capsys):
    def run(function):
        log.clear()
        result = function(torch.ones(2))
        parts = result if isinstance(result, tuple) else (result,)
        return [part.tolist() if isinstance(part, torch.Tensor) else part for part in parts], list(log)

    expected = run(program)
    compiled = framelift.compile(program, backend="eager")
    assert [run(compiled) for _ in range(2)] == [expected] * 2
    assert "Exception ignored" not in capsys.readouterr().err
