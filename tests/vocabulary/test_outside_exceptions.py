"""Which exceptions came from outside: of a signal handler, and not of the program."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from framelift.vocabulary.outside_exceptions import NOT_OUTSIDE, OUTSIDE, from_outside, outside_cause


class Alarm(Exception):
    pass


def _handler(number: int, frame: Any) -> None:
    raise Alarm


@pytest.fixture
def alarm() -> Any:
    before = signal.signal(signal.SIGUSR1, _handler)
    yield
    signal.signal(signal.SIGUSR1, before)


def _caught(function: Any) -> BaseException:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_what_a_signal_handler_raises_is_from_outside(alarm: None) -> None:
    error = _caught(lambda: signal.raise_signal(signal.SIGUSR1))
    assert type(error) is Alarm and from_outside(error) == OUTSIDE and outside_cause(error) is error


def test_what_the_program_raises_is_not(alarm: None) -> None:
    def program() -> None:
        raise Alarm("of the program")

    for function in (program, lambda: 1 // 0, lambda: [][1]):
        assert from_outside(_caught(function)) == NOT_OUTSIDE
    assert outside_cause(_caught(program)) is None


def test_a_cause_from_outside_is_found(alarm: None) -> None:
    def program() -> None:
        try:
            signal.raise_signal(signal.SIGUSR1)
        except Alarm as error:
            raise ValueError("because of it") from error

    error = _caught(program)
    assert type(error) is ValueError and outside_cause(error) is error.__cause__
