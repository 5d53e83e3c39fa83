"""Functions made anew at each call: guarded by their code and by what is read of them, not by which object they are."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support import compiled

import framelift

X = torch.arange(4.0) + 1


def made(scale: Any, offset: Any = 1) -> Any:
    def inner(t: torch.Tensor, more: Any = offset) -> torch.Tensor:
        return t * scale + more

    return inner


def wrapped(scale: Any) -> Any:
    function = made(scale)

    @functools.wraps(function)
    def inner(t: torch.Tensor) -> torch.Tensor:
        return function(t) + 1

    return inner


def noted(function: Any, **notes: Any) -> Any:
    vars(function).update(notes)
    return function


class Holder:
    def __init__(self, function: Any) -> None:
        self.function = function


TOP_LEVEL = (lambda t: t * 2).__code__  # not made inside a function


def call(x: torch.Tensor, f: Any) -> torch.Tensor:
    return f(x) * 2


def _graphs_of(program: Any, arguments: Callable[[], tuple[Any, ...]], times: int = 12) -> tuple[int, int]:
    """(captures, graphs) of calls whose arguments are made for each."""
    graphs = 0

    def count(module: Any, inputs: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return module.forward

    framelift.reset()
    function = framelift.compile(program, backend=count)
    for _ in range(times):
        assert torch.equal(function(*arguments()), program(*arguments()))
    return framelift.stats()["captures"], graphs


ONCE: dict[str, tuple[Any, Callable[[], tuple[Any, ...]]]] = {
    "lambda": (call, lambda: (X, lambda t: t + 1)),
    "closure": (call, lambda: (X, made(2))),
    "closure over a tensor": (call, lambda: (X, made(torch.ones(4)))),
    "closure over a list": (lambda x, f: f(x)[0], lambda: (X, (lambda some: lambda t: [t * s for s in some])([2, 3]))),
    "closure over a closure": (call, lambda: (X, wrapped(2))),
    "default": (call, lambda: (X, made(2, 7))),
    "in a dictionary": (lambda x, fs: fs["a"](x) + fs["b"](x), lambda: (X, {"a": made(2), "b": lambda t: t})),
    "in a list": (lambda x, fs: fs[0](fs[1](x)), lambda: (X, [made(2), made(2)])),
    "partial": (call, lambda: (X, functools.partial(lambda a, t: t * a, 2))),
    "made a partial inside": (lambda x, f: functools.partial(f, more=3)(x), lambda: (X, made(2))),
    "attribute of a fresh object": (lambda x, o: o.function(x), lambda: (X, Holder(made(2)))),
    "attribute of a namespace": (lambda x, o: o.f(x), lambda: (X, types.SimpleNamespace(f=made(2)))),
    "bound to an object": (lambda x, m: m(), lambda: (X, types.MethodType(lambda self: X * self[0], [2]))),
    "with attributes": (lambda x, f: f(x) * f.note, lambda: (X, noted(made(2), note=3))),
    "with private attributes": (lambda x, f: f(x) * f._note, lambda: (X, noted(made(2), _note=3))),
    "made at the top level": (call, lambda: (X, types.FunctionType(TOP_LEVEL, globals()))),
}


@pytest.mark.parametrize("name", ONCE)
def test_a_fresh_function_costs_one_capture(name: str) -> None:
    program, arguments = ONCE[name]
    assert _graphs_of(program, arguments) == (1, 1)


def disabled_inside(x: torch.Tensor) -> torch.Tensor:
    function = torch.compiler.disable(lambda t: t + 1)
    return function(x) * 2


def disabled_closure(x: torch.Tensor, k: int = 3) -> torch.Tensor:
    function = torch.compiler.disable(lambda t: t + k)
    return function(x) * 2


def decorated_inside(x: torch.Tensor) -> torch.Tensor:
    @torch.compiler.disable
    def inner(t: torch.Tensor) -> torch.Tensor:
        return t.sin()

    return inner(x * 2) * 2


def disabled_by_framelift(x: torch.Tensor) -> torch.Tensor:
    @framelift.disable
    def inner(t: torch.Tensor) -> torch.Tensor:
        return t.sin()

    return inner(x * 2) * 2


@pytest.mark.parametrize(
    "program, captures, graphs",
    [(disabled_inside, 3, 1), (disabled_closure, 3, 1), (decorated_inside, 3, 2), (disabled_by_framelift, 3, 2)],
)
def test_a_function_disabled_inside(program: Any, captures: int, graphs: int) -> None:
    """One part up to the decorator, one up to the call, one behind it: of these, each is captured once."""
    assert _graphs_of(program, lambda: (X,)) == (captures, graphs)


@pytest.mark.parametrize("disable", [torch.compiler.disable, framelift.disable])
def test_a_disabled_function_as_an_argument(disable: Any) -> None:
    assert _graphs_of(call, lambda: (X, disable(lambda t: t + 1))) == (2, 1)


def test_functions_that_take_turns_in_a_global_or_a_cell() -> None:
    inner = made(2)

    def reads_a_cell(x: torch.Tensor) -> torch.Tensor:
        return inner(x)

    framelift.reset()
    function = compiled(reads_a_cell)
    for _ in range(12):
        assert torch.equal(function(X), X * 2 + 1)
        inner = made(2)
    assert framelift.stats()["captures"] == 1  # reached from the function, as from an argument

    def reads_a_global(x: torch.Tensor) -> torch.Tensor:
        return REPLACED(x)  # type: ignore[name-defined, no-any-return]  # noqa: F821

    framelift.reset()
    function = compiled(reads_a_global)
    for _ in range(12):
        globals()["REPLACED"] = made(2)
        assert torch.equal(function(X), X * 2 + 1)
    assert framelift.stats()["captures"] == 2


# ---- what is read is guarded -----------------------------------------------------------------------------------------

SPECIAL = made(2)


def _other_code(scale: Any) -> Any:
    return lambda t: t - scale


def _another_default(function: Any, *defaults: Any) -> Any:
    function.__defaults__ = defaults
    return function


def _another_name(function: Any) -> Any:
    function.__name__ = "another"
    return function


def _with_mark(decorator: Any, function: Any) -> Any:
    decorator(function)
    return function


FUNCTIONS: list[Callable[[], Any]] = [
    lambda: made(2),
    lambda: made(3),
    lambda: made(torch.full((4,), 2.0)),
    lambda: made(2, 5),
    lambda: _other_code(2),
    lambda: SPECIAL,
    lambda: wrapped(2),
    lambda: wrapped(4),
    lambda: _another_default(made(2), 7),
    lambda: _another_default(made(2), 9),
    lambda: _another_name(made(2)),
    lambda: noted(made(2), note=3),
    lambda: noted(made(2), note=4),
    lambda: noted(made(2), _note=3),
    lambda: framelift.disable(made(2)),
    lambda: framelift.disable(made(3)),
    lambda: torch.compiler.disable(made(2)),
    lambda: torch.compiler.disable(made(3)),
    lambda: framelift.allow_in_graph(made(3)),
    lambda: framelift.allow_in_graph(made(4)),
    lambda: made(2),
    lambda: SPECIAL,
]

QUESTIONS: dict[str, Any] = {
    "call": call,
    "identity": lambda x, f: x + (f is SPECIAL),
    "equality": lambda x, f: x + (f == SPECIAL) + (f != SPECIAL) * 2,
    "key": lambda x, f: {SPECIAL: x, made: x * 2}.get(f, x * 3),
    "member": lambda x, f: x + (f in {SPECIAL, made}) + [SPECIAL].count(f),
    "hash": lambda x, f: x + (hash(f) == hash(SPECIAL)),
    "name": lambda x, f: x + len(f.__name__),
    "attribute": lambda x, f: x + getattr(f, "note", 0),
    "dictionary": lambda x, f: x + len(f.__dict__),
    "defaults": lambda x, f: x + (f.__defaults__ or (0,))[0],
    "cell": lambda x, f: x * f.__closure__[0].cell_contents if f.__code__.co_freevars == ("scale",) else x,
    "wrapped": lambda x, f: getattr(f, "__wrapped__", f)(x),
    "vmap": lambda x, f: torch.vmap(f)(x),
    "wrapped inside": lambda x, f: functools.wraps(f)(lambda t: f(t))(x),
    "behind a break": lambda x, f: (f(x), framelift.graph_break(), f(x + 1))[2],
}


@pytest.mark.parametrize("place", ["argument", "dictionary", "attribute"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_another_function_at_the_place(name: str, place: str) -> None:
    ask = QUESTIONS[name]
    program, put = {
        "argument": (ask, lambda f: f),
        "dictionary": (lambda x, table: ask(x, table["f"]), lambda f: {"f": f}),
        "attribute": (lambda x, holder: ask(x, holder.function), Holder),
    }[place]
    function = compiled(program)
    for make in FUNCTIONS:
        f = make()
        assert torch.equal(function(X, put(f)), program(X, put(f)))


def test_a_function_that_leaves_is_the_one_of_the_call() -> None:
    def program(x: torch.Tensor, f: Any) -> Any:
        return f, functools.partial(f, x), [f], f(x)

    framelift.reset()
    function = compiled(program)
    for _ in range(4):
        f = made(2)
        one, part, (other,), _ = function(X, f)
        assert one is part.func is other is f
    assert framelift.stats()["captures"] == 1


def test_two_places_may_hold_one_function() -> None:
    def program(x: torch.Tensor, f: Any, g: Any) -> torch.Tensor:
        return f(x) + (f is g)

    function = compiled(program)
    for _ in range(2):
        f, g = made(2), made(2)
        for pair in ((f, g), (f, f), (g, f), (g, g), (f, SPECIAL), (SPECIAL, SPECIAL)):
            assert torch.equal(function(X, *pair), program(X, *pair))


def test_attributes_written_to_a_fresh_function() -> None:
    def program(x: torch.Tensor, f: Any) -> torch.Tensor:
        f.count = getattr(f, "count", 0) + 1
        return x * f.count  # type: ignore[no-any-return]

    function = compiled(program)
    for start in (None, None, 4, 5, None):
        f = made(2) if start is None else noted(made(2), count=start)
        assert torch.equal(function(X, f), X * ((start or 0) + 1))
        assert f.count == (start or 0) + 1


@pytest.mark.parametrize("decorator", [framelift.allow_in_graph, torch._dynamo.allow_in_graph])
def test_a_mark_put_on_another_function_of_the_code(decorator: Any) -> None:
    """Marks that are kept by identity, outside of the function.

    A marked function is one node, with what its own cells hold.
    """
    function = compiled(call)
    for f in (
        made(2),
        made(2),
        _with_mark(decorator, made(3)),
        _with_mark(decorator, made(5)),
        made(2),
        _with_mark(decorator, made(2)),
    ):
        assert torch.equal(function(X, f), f(X) * 2)


def test_functions_of_torch_that_share_their_code() -> None:
    """torch makes the pooling functions by one factory; each is an operation of its own."""

    def program(x: torch.Tensor, f: Any) -> torch.Tensor:
        return f(x, 2)  # type: ignore[no-any-return]

    assert F.max_pool2d.__code__ is F.adaptive_max_pool2d.__code__
    function = compiled(program)
    x = torch.arange(64.0).reshape(1, 8, 8)
    for _ in range(2):
        for f in (F.max_pool2d, F.adaptive_max_pool2d, F.max_pool1d, F.adaptive_max_pool1d):
            assert torch.equal(function(x, f), f(x, 2))


def test_a_graph_that_keeps_a_function_is_for_that_function() -> None:
    @framelift.nonstrict_trace
    def applied(t: torch.Tensor, f: Any) -> torch.Tensor:
        return f(t)  # type: ignore[no-any-return]

    function = compiled(lambda x, f: applied(x, f) + 1)
    for f in (made(2), made(3), made(2), made(5)):
        assert torch.equal(function(X, f), f(X) + 1)
