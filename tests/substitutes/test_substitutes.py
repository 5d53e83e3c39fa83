"""Substitutes for the standard library.

The same results as plain Python, also when the outside changes between two calls.
"""

from __future__ import annotations

import abc
import collections
import dataclasses
import decimal
import enum
import functools
import importlib
import inspect
import itertools
import operator
import pickle
import re
import sys
import threading
import traceback
import types
import unittest

import pytest
import torch

import framelift
from framelift import _core
from support import check

X = torch.tensor([1.0, 2.0])
FACTOR = 3


# -- callbacks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda: list(map(str, [1, 2])),
        lambda: sorted([3, -4, 1], key=str),
        lambda: [(k, len(list(g))) for k, g in itertools.groupby([1, 2, "a"], type)],
        lambda: list(filter(callable, [len, 3])),
        lambda: max(["b", "aa"], key=repr),
        lambda: functools.reduce(getattr, ["imag"], 3),
        lambda: list(itertools.starmap(format, [(1, "x"), (2, "b")])),
        lambda: list(map(dict, [[(1, 2)]])),
        lambda: re.compile("b").sub(str, "abc") is None,
        lambda: list(iter([1, 2, None].pop, 1)),
        lambda: list(itertools.accumulate("abc", operator.add)),
        lambda: list(map(vars, [])),
    ],
    ids=range(12),
)
def test_c_callbacks_are_watched(call):
    def program(x):
        try:
            return x + 1, call()
        except TypeError as error:
            return x, str(error)

    check(program, X)


def test_sort_by_a_callback():
    def program(x, names):
        names.sort(key=str.lower, reverse=True)
        [3, 1].sort(key=str)
        return x * len(names), names

    check(program, X, ["b", "A", "c"], graphs=2, captures=2)


class Weighted:
    def __init__(self, weight):
        self.weight = weight


def test_callback_that_reads_attributes_of_objects():
    def program(x, items):
        best = max(items, key=operator.attrgetter("weight"))
        return x * best.weight, list(map(getattr, items, ["weight"] * len(items)))

    def heavier(_number, world):
        world.args[1][0].weight = 9

    check(program, X, [Weighted(1), Weighted(2)], mutate=heavier, calls=3, graphs=None, breaks=None, fullgraph=False)


# -- regular expressions -----------------------------------------------------------------------------------------------

PATTERN = "a+"


def test_patterns_follow_their_text():
    def program(x):
        return (
            x * len(re.findall(PATTERN, "aab a")),
            re.sub("b", lambda m: m.group() * 2, "abc"),
            re.compile("X", re.I).match("x").span(),
        )

    def other(_number, _world):
        globals()["PATTERN"] = "a"

    check(program, X, mutate=other, graphs=2, state=[(globals(), "PATTERN")])


def test_bad_pattern():
    def program(x):
        try:
            re.compile("(")
        except re.error as error:
            return x + 1, str(error), error.pos

    check(program, X)


# -- source text -------------------------------------------------------------------------------------------------------


def test_exec_in_the_calling_frame_breaks():
    def program(x):
        exec("y = 1")
        return x + 1

    check(program, X, graphs=None, breaks=None, fullgraph=False)


# -- classes -----------------------------------------------------------------------------------------------------------


class Named:
    def __set_name__(self, owner, name):
        owner.seen = name

    def __get__(self, instance, owner):
        return FACTOR


class Helped(type):
    scale = 2

    @staticmethod
    def plain(a):
        return a + FACTOR

    @classmethod
    def on_meta(mcls):
        return mcls.__name__


class UsesHelped(metaclass=Helped):
    pass


def test_metaclass_members_read_through_the_class():
    def program(x):
        return x * UsesHelped.scale, UsesHelped.plain(1), UsesHelped.on_meta()

    def change(number, _world):
        globals()["FACTOR"] = 4
        Helped.scale = 7 if number > 1 else 2

    check(program, X, mutate=change, calls=3, graphs=3, state=[(globals(), "FACTOR"), (Helped, "scale")])


class Holder:
    limit = 2

    def method(self):
        return self.limit


def test_class_dictionary():
    def program(x):
        space = Holder.__dict__
        return (
            x * space["limit"],
            "limit" in space,
            "absent" in space,
            space.get("absent", 5),
            "method" in vars(Holder),
            type(space).__name__,
            [n for n in space if not n.startswith("_")],
        )

    def change(number, _world):
        if number == 1:
            Holder.limit = 3
        else:
            Holder.absent = 1

    check(program, X, mutate=change, calls=3, graphs=3, state=[(Holder, "limit"), (Holder, "absent")])


class Deriving(Holder):
    pass


def test_name_that_only_a_base_has():
    def program(x):
        return x + ("limit" in Deriving.__dict__), Deriving.limit

    def change(_number, _world):
        Deriving.limit = 8

    check(program, X, mutate=change, graphs=2, state=[(Deriving, "limit")])


class ReadOnly:
    @property
    def value(self):
        return 1


def test_property_without_a_setter_says_so_in_pythons_words():
    def program(x, obj):
        said = []
        for action in (lambda: setattr(obj, "value", 2), lambda: delattr(obj, "value")):
            try:
                action()
            except AttributeError as error:
                said.append(str(error))
        return x + 1, said

    check(program, X, ReadOnly())


# -- the interpreter ---------------------------------------------------------------------------------------------------


def test_handled_exception():
    def program(x):
        outside = sys.exc_info()
        try:
            raise ValueError("a")
        except ValueError as error:
            kind, value, trace = sys.exc_info()
            same = value is error and kind is ValueError and trace is not None
            traceback.clear_frames(trace)
        return x + 1, same, outside, sys.exc_info()

    check(program, X)


def test_exception_of_the_caller():
    def program(x):
        return x + 1, sys.exc_info()[0]

    target = framelift.compile(program, backend="eager")
    assert target(X)[1] is None
    try:
        raise KeyError
    except KeyError:
        assert target(X)[1] is KeyError
    assert target(X)[1] is None


class Raiser:
    def __init__(self):
        self.error = RuntimeError("mine")


def test_exception_object_from_outside():
    def program(x, holder):
        try:
            raise holder.error
        except TypeError:
            return x - 1
        except RuntimeError as error:
            return x + 1, str(error)

    check(program, X, Raiser(), graphs=None, breaks=None, fullgraph=False)


def test_settings_are_guarded():
    def program(x):
        return x + 1, sys.getrecursionlimit()

    target, before = framelift.compile(program, backend="eager", fullgraph=True), sys.getrecursionlimit()
    try:
        for limit in (before, before + 7, before):
            sys.setrecursionlimit(limit)
            assert target(X)[1] == limit
    finally:
        sys.setrecursionlimit(before)


def test_unwrapping_does_not_depend_on_the_recursion_limit() -> None:
    def inner(x: Any) -> Any:
        return x

    @functools.wraps(inner)
    def middle(x: Any) -> Any:
        return inner(x)

    @functools.wraps(middle)
    def outer(x: Any) -> Any:
        return middle(x)

    def program(x: Any) -> Any:
        return x + 1, inspect.unwrap(outer).__name__, inspect.unwrap(outer, stop=lambda f: f is middle) is middle

    framelift.reset()
    target, before = framelift.compile(program, backend="eager", fullgraph=True), sys.getrecursionlimit()
    try:
        for limit in (before, before + 100):
            sys.setrecursionlimit(limit)
            assert target(torch.ones(2))[1:] == ("inner", True)
    finally:
        sys.setrecursionlimit(before)
    assert framelift.stats()["captures"] == 1
    middle.__wrapped__ = outer
    with pytest.raises(ValueError, match="wrapper loop"):
        framelift.compile(program, backend="eager")(torch.ones(2))


def test_thread_identity():
    def program(x):
        return x + 1, threading.get_ident()

    target = framelift.compile(program, backend="eager", fullgraph=True)
    seen = [target(X)[1]]
    thread = threading.Thread(target=lambda: seen.append((target(X)[1], threading.get_ident())))
    thread.start()
    thread.join()
    assert seen[0] == threading.get_ident() and seen[1][0] == seen[1][1]


def test_locks_made_inside():
    def program(x):
        lock, again = threading.Lock(), threading.RLock()
        with lock, again, again:
            held = lock.locked()
        return x + 1, held, lock.locked(), lock.acquire(blocking=False)

    check(program, X)


def test_globals_written_and_read_as_attributes():
    def program(x):
        global FACTOR
        FACTOR = 5
        return x * sys.modules[__name__].FACTOR

    check(program, X, state=[(globals(), "FACTOR")])


def test_globals_written_through_their_dictionary():
    def program(x):
        globals()["FACTOR"] = 6
        return x * FACTOR

    check(program, X, state=[(globals(), "FACTOR")], graphs=None, breaks=None, fullgraph=False)


# -- pickle ------------------------------------------------------------------------------------------------------------


# -- wrong calls -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda: setattr(1),
        lambda: delattr(1, "a", 2),
        lambda: id(),
        lambda: hash(1, 2),
        lambda: exec(),
        lambda: eval(),
        lambda: type.__call__(),
        lambda: map(),
        lambda: sys.exc_info(1),
    ],
    ids=range(9),
)
def test_wrong_calls_fail_alike(call):
    def program(x):
        try:
            call()
        except TypeError as error:
            return x + 1, str(error)

    check(program, X)


# -- unittest's own helpers --------------------------------------------------------------------------------------------


class Case(unittest.TestCase):
    def runTest(self):
        pass


def test_assertions_of_unittest():
    def program(x, case):
        with case.assertRaisesRegex(ZeroDivisionError, "division"):
            1 // 0
        case.assertRaises(KeyError, {}.__getitem__, 1)
        case.assertEqual([1, (2, 3)], [1, (2, 3)])
        return x + 1

    target = framelift.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(target(X, Case()), X + 1)


def test_partial_of_a_partial():
    def program(x, f):
        return functools.partial(f, 2)(x), functools.partial(functools.partial(f, 2), x)()

    check(program, X, functools.partial(lambda a, b, c: a + b * c, 1))


@pytest.mark.parametrize("dynamic", [False, True])
def test_checks_of_what_is_known(dynamic):
    def program(x):
        torch._check(x.size(0) == 2, lambda: f"{x.size(0)} rows")
        torch._check(cond=True)
        return x + torch.sym_max(2, 3) + torch.sym_int(2.5) + torch.sym_float(1)

    check(program, X, dynamic=dynamic)


def test_checks_that_fail():
    def program(x):
        torch._check(x.size(0) == 3, lambda: f"{x.size(0)} rows")
        return x + 1

    check(program, X, raises=RuntimeError, graphs=None, captures=None)


@pytest.mark.parametrize("most", [1, 2, None])
def test_sizes_are_checked_against_their_bound(most: int | None) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        torch._check_is_size(x.size(0), lambda: f"{x.size(0)} rows", max=most)
        return x + 1

    check(program, X, raises=RuntimeError if most == 1 else None, graphs=None, breaks=None, captures=None)


def test_templates_that_read_attributes() -> None:
    class Named:
        def __init__(self, name):
            self.name = name

        def __str__(self):
            return f"<{self.name}>"

    def f(x, named):
        return (
            x + 1,
            "{0.name}: {n.real:>5} {0}".format(named, n=3),
            "{0.name[0]}{t[1]!r}".format(named, t=("a", "b")),
            "{}".format(named),
        )

    def other(i, world):
        world.args[1].name = "other"

    check(f, torch.ones(2), Named("first"), mutate=other, calls=3, graphs=2, captures=2)


def test_modules_imported_by_name(monkeypatch):
    def program(x, name):
        try:
            module = importlib.import_module(name, "collections")
        except ImportError as error:
            return x - 1, error.name
        return x + len(module.__name__), module

    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    for name in ("json", ".abc", "json.decoder", "json"):
        want, got = program(X, name), compiled(X, name)
        assert torch.equal(want[0], got[0]) and want[1] is got[1]
    monkeypatch.setitem(sys.modules, "json", types.ModuleType("other_json"))
    want, got = program(X, "json"), compiled(X, "json")
    assert torch.equal(want[0], got[0]) and want[1] is got[1]
    assert framelift.compile(program, backend="eager")(X, "no_such_module")[1] == "no_such_module"
