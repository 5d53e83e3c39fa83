"""Exceptions that were raised outside.

Their fields, attributes and chain come in; of a traceback only which one it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from support import compiled

X = torch.ones(2)


class Mine(Exception):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.more = [number]


def raised(error: Any, context: Any = None) -> Any:
    try:
        try:
            raise context if context is not None else error
        except KeyError:
            raise error
    except BaseException as caught:
        return caught


def group(*numbers: int) -> Any:
    return raised(ExceptionGroup("g", [raised(ValueError(number), KeyError("c")) for number in numbers]))


def names(error: BaseException) -> list[str]:
    trace, out = error.__traceback__, []
    while trace is not None:
        out.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    return out


def shown(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [shown(part) for part in value]
    if isinstance(value, BaseException):
        parts = value.exceptions if isinstance(value, BaseExceptionGroup) else ()
        return [
            type(value),
            value.args if not parts else shown(parts),
            names(value),
            shown(value.__context__),
            shown(value.__cause__),
            sorted(vars(value)),
            value.__suppress_context__,
        ]
    return (
        value.tolist()
        if isinstance(value, torch.Tensor)
        else value
        if isinstance(value, (bool, int, float, str, type, type(None)))
        else id(value)
    )


def split(error: Any, x: Any) -> Any:
    match, rest = error.split(lambda one: isinstance(one, ValueError) and one.args[0] > 1)
    return (
        x + len(match.exceptions),
        match,
        rest,
        match.__traceback__ is error.__traceback__,
        match.__context__ is error.__context__,
    )


def attributes(error: Any, x: Any) -> Any:
    return x + error.more[0], error, error.__traceback__, getattr(error, "__notes__", None)


def note(error: Any, x: Any) -> Any:
    return x + len(getattr(error, "__notes__", ()))


def taken_over(error: Any, x: Any) -> Any:
    return x + 1, RuntimeError(3).with_traceback(error.__traceback__)


def forgotten(error: Any, x: Any) -> Any:
    error.__traceback__ = None
    return x + 1


@pytest.mark.parametrize(
    "fn, errors",
    [
        (attributes, [raised(Mine(1)), raised(Mine(1)), raised(Mine(1), KeyError()), Mine(1), raised(Mine(2))]),
        (taken_over, [raised(Mine(1)), raised(Mine(1)), Mine(1)]),
        (forgotten, [raised(Mine(1)), raised(Mine(1)), Mine(1)]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_whole(fn: Callable[..., Any], errors: list[Any]) -> None:
    framelift.reset()
    captured = compiled(fn, fullgraph=True)
    for error in errors:
        trace = error.__traceback__
        want, after = shown(fn(error, X)), shown(error)
        error.__traceback__ = trace
        assert shown(captured(error, X)) == want and shown(error) == after


def test_notes_are_read() -> None:
    framelift.reset()
    captured = compiled(note, fullgraph=True)
    for error in (raised(ValueError(1)), raised(Mine(1))):
        assert captured(error, X).tolist() == [1.0, 1.0]
        error.add_note("n")
        assert captured(error, X).tolist() == [2.0, 2.0]


def same(one: Any, other: Any, x: Any) -> Any:
    return x + (1 if one.__traceback__ is other.__traceback__ else 2)


def test_which_traceback_it_is() -> None:
    framelift.reset()
    captured, one, other = compiled(same, fullgraph=True), raised(Mine(1)), raised(Mine(1))
    for _ in range(2):
        assert captured(one, other, X).tolist() == [3.0, 3.0]
        assert captured(one, one, X).tolist() == [2.0, 2.0]
        assert captured(one, Mine(1).with_traceback(one.__traceback__), X).tolist() == [2.0, 2.0]
    assert captured(Mine(1), Mine(1), X).tolist() == [2.0, 2.0]


def again(error: Any, x: Any) -> Any:
    try:
        raise error
    except Mine as caught:
        return x + 1, caught


def length(error: Any, x: Any) -> Any:
    count, trace = 0, error.__traceback__
    while trace:
        count, trace = count + 1, trace.tb_next
    return x + count


def cut(error: Any, x: Any) -> Any:
    error.__traceback__.tb_next = None
    return x + 1


def held_at_a_break(error: Any, x: Any) -> Any:
    y = x + 1
    torch._dynamo.graph_break()
    return y + error.more[0], error.with_traceback(error.__traceback__)


@pytest.mark.parametrize("fn", [again, length, cut, held_at_a_break], ids=lambda fn: fn.__name__)
def test_looks_inside_are_left_to_plain_python(fn: Callable[..., Any]) -> None:
    framelift.reset()
    captured = compiled(fn)
    for make in (lambda: raised(Mine(1)), lambda: raised(raised(Mine(1)))):
        plain, ours = make(), make()
        want = shown(fn(plain, X))
        assert shown(captured(ours, X)) == want and shown(ours) == shown(plain)


class Slotted(Exception):
    __slots__ = ("number",)


def test_an_exception_with_slots_is_no_placeholder():
    """Behind a break it is the exception being handled, which nothing can stand for."""

    @framelift.disable
    def off(error):
        return error.number

    def f(x):
        try:
            error = Slotted("text")
            error.number = 3
            raise error
        except Slotted as caught:
            out = off(caught)
        return x * out

    target = compiled(f)
    assert [target(X).tolist() for _ in range(2)] == [f(X).tolist()] * 2
