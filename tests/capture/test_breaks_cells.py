"""Variables with cells across a break: they stay shared, and an unbound one is missed as plain Python misses it."""

from __future__ import annotations

import pytest
import torch
from support import check

import framelift
from framelift import graph_break


@framelift.disable
def off(value):
    return value


def _said(error):
    return type(error).__name__, str(error)


def deleted_before(x):
    a = 1
    get = lambda: a  # noqa: E731
    del a
    graph_break()
    try:
        return a
    except NameError as error:
        return _said(error), x + 1, get


def read_by_the_broken_instruction(x):
    a = 1
    get = lambda: a  # noqa: E731
    graph_break()
    del a
    try:
        off(a)
    except NameError as error:
        return _said(error), x + 1, get


def deleted_twice(x):
    a = x + 1
    get = lambda: a  # noqa: E731
    graph_break()
    x = x * 2
    del a
    graph_break()
    found = []
    try:
        get()
    except NameError as error:
        found.append(_said(error))
    try:
        del a
    except NameError as error:
        found.append(_said(error))
    return found, x


def not_yet_bound(x):
    x = x + 1
    graph_break()
    try:
        y = a
    except NameError as error:
        y = _said(error)
    a = y
    return (lambda: a)(), x


def of_the_function_around(x):
    def inner():
        graph_break()
        try:
            return a
        except NameError as error:
            return _said(error)

    found = inner()
    a = x + 1
    return found, inner(), a


def in_a_class_body(x):
    try:
        raise ValueError
    except ValueError as e:
        get = lambda: e  # noqa: E731
    x = x + 1
    graph_break()

    class Body:
        try:
            z = e
        except NameError as error:
            z = _said(error)

    return Body.z, x, get


def bound_again(x):
    a = 1
    get = lambda: a  # noqa: E731
    del a
    for i in range(3):
        off(i)
        try:
            x = x + a
        except UnboundLocalError as error:
            x = x + len(str(error))
            a = i
        off(get())
    return x, a, get()


def all_locals(x):
    a, b = 1, 2
    get = lambda: (a, b)  # noqa: E731
    del b
    graph_break()
    names = sorted(locals())
    c = off(3)
    return names, locals()["a"], get, c, sorted(locals()), x + 1


class Base:
    def value(self, x):
        return x + 1


class Child(Base):
    def value(self, x):
        found = super().value(x)
        mine = lambda: self  # noqa: E731
        graph_break()
        return super().value(found), mine() is self


def with_super(x):
    return Child().value(x)


@pytest.mark.parametrize(
    "f",
    (
        deleted_before,
        read_by_the_broken_instruction,
        deleted_twice,
        not_yet_bound,
        of_the_function_around,
        in_a_class_body,
        bound_again,
        all_locals,
        with_super,
    ),
    ids=lambda f: f.__name__,
)
def test_a_variable_with_a_cell_behind_a_break(f) -> None:
    check(f, torch.ones(3), graphs=None, breaks=None, calls=3)


def test_a_caught_exception_that_a_function_made_in_the_handler_holds():
    """Behind the break its cell comes from outside; the end of the handler gives it a value and deletes it."""

    def f(x):
        try:
            raise KeyError(3)
        except KeyError as error:
            held = lambda: error  # noqa: E731
            out = off(held())
        return x + 1, str(out)

    check(f, torch.ones(2), graphs=None, breaks=None, fullgraph=False)


def test_a_cell_from_outside_that_is_written_and_deleted():
    n = 1

    def once():
        nonlocal n
        n = 5
        del n
        try:
            return n
        except NameError as error:
            return _said(error)
        finally:
            n = 7

    def f(x):
        return x + 1, once(), n

    check(f, torch.ones(2), captures=None)
