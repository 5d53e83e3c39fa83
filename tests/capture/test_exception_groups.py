"""Groups of exceptions: from outside, made inside, split by `except*`, handed out."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from support import World, check

X = torch.ones(2)
GROUP = ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [KeyError("k"), TypeError("t")])])
COUNT = 0


class Coded(ExceptionGroup):  # type: ignore[type-arg]
    def __new__(cls, message: str, members: Any, code: int = 3) -> Any:
        made = super().__new__(cls, message, members)
        made.code = code  # type: ignore[attr-defined]
        return made

    def derive(self, members: Any) -> Any:
        return Coded(self.message, members, self.code)  # type: ignore[attr-defined]


CODED = Coded("m", [ValueError(1), KeyError(2)], 7)


def split_by_raising(x: Any) -> Any:
    global COUNT
    try:
        raise GROUP
    except* ValueError as group:
        COUNT += len(group.exceptions)
    except* (KeyError, TypeError):
        COUNT += 10
    return x + COUNT


def looked_at(x: Any) -> Any:
    return x + 1, GROUP.split(ValueError), GROUP.message, len(GROUP.exceptions), str(GROUP), repr(GROUP.exceptions[0])


def handed_out(x: Any) -> Any:
    return x + 1, GROUP, GROUP.exceptions[-1], GROUP.subgroup(lambda error: isinstance(error, KeyError))


def of_a_class(x: Any) -> Any:
    found = None
    try:
        raise CODED
    except* ValueError as group:
        found = group.code, type(group).__name__
    except* KeyError:
        pass
    return x + 1, found, CODED.split(KeyError)[0]


def made(x: Any) -> Any:
    return (
        x + 1,
        ExceptionGroup("new", [ValueError(3), KeyError("z")]),
        BaseExceptionGroup("b", [KeyboardInterrupt(2)]),
        BaseExceptionGroup("b", [ValueError(2)]),
    )


def made_of_one_that_knows_it(x: Any) -> Any:
    group = ExceptionGroup("a", [ValueError(1)])
    group.exceptions[0].__context__ = group
    return x + 1, group


def nested(x: Any) -> Any:
    found = None
    try:
        raise ExceptionGroup("in", [GROUP, OSError(1)])
    except* OSError as group:
        found = group.exceptions[0].args
    except* Exception:
        pass
    return x + 1, found


STATE = [(globals(), name) for name in ("GROUP", "CODED", "COUNT")]


@pytest.mark.parametrize(
    "program", [split_by_raising, looked_at, handed_out, of_a_class, made, made_of_one_that_knows_it, nested]
)
def test_groups(program: Any) -> None:
    """One from outside is a graph break."""
    check(program, X, state=STATE, graphs=None, breaks=None)


@pytest.mark.parametrize("program", [split_by_raising, looked_at, handed_out, nested])
def test_groups_that_change(program: Any) -> None:
    def change(i: int, _: World) -> None:
        global GROUP
        GROUP = ExceptionGroup("g2" if i == 1 else "g", [ValueError(1)] if i == 2 else [ValueError(5), KeyError(i)])
        GROUP.__cause__ = ValueError() if i == 3 else None

    check(program, X, state=STATE, mutate=change, calls=5, breaks=None, graphs=None)


def test_a_group_whose_members_lead_back_to_it() -> None:
    def program(x: Any) -> Any:
        return x + 1, len(GROUP.exceptions)

    def close(_: int, __: World) -> None:
        GROUP.exceptions[0].__context__ = GROUP

    check(program, X, state=STATE, mutate=close, breaks=None, graphs=None)
