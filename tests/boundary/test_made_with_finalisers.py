"""Objects with a finaliser made by captured code: it runs as often as in eager, also where a rehearsal is given up."""

from __future__ import annotations

import copy
import gc
from typing import Any

import pytest
import torch

import framelift

ended: list[str] = []


class Ends:
    def __del__(self, ended: list[str] = ended) -> None:  # a default: it also runs when the process ends
        ended.append(type(self).__name__)


class Box(Ends):
    pass


class Made(Ends):
    def __new__(cls) -> Any:
        return object.__new__(cls)


class Row(tuple, Ends):
    __slots__ = ()


class Table(dict, Ends):
    pass


class Number(int, Ends):
    pass


class Failure(Exception, Ends):
    pass


class Plain:
    pass


def turned() -> Any:
    made: Any = Plain()
    made.__class__ = Box
    return made


def set_by_name() -> Any:
    made: Any = Plain()
    setattr(made, "__class__", Box)  # noqa: B010
    return made


BOX = Box()
WAYS = {
    "call": Box,
    "its own new": Made,
    "object.__new__": lambda: object.__new__(Box),
    "super": lambda: super(Made, Made).__new__(Made),
    "copy": lambda: copy.copy(BOX),
    "deepcopy": lambda: copy.deepcopy(BOX),
    "tuple.__new__": lambda: tuple.__new__(Row, (1,)),
    "dict.__new__": lambda: dict.__new__(Table),
    "fromkeys": lambda: Table.fromkeys([1]),
    "from_bytes": lambda: Number.from_bytes(b"1", "big"),
    "Exception.__new__": lambda: Exception.__new__(Failure),
    "__class__": turned,
    "setattr": set_by_name,
}


@pytest.mark.parametrize("leaves", [False, True], ids=["dies inside", "is returned"])
@pytest.mark.parametrize("way", WAYS)
def test_a_finaliser_runs_as_often_as_in_eager(way: str, leaves: bool) -> None:
    make = WAYS[way]

    def f(x):
        made = make()
        return (x + 1, made) if leaves else (x + 1, 0)

    c = framelift.compile(f, backend="eager")
    for _ in range(3):
        found = []
        for run in (f, c):
            ended.clear()
            result = run(torch.ones(2))
            inside = list(ended)
            assert torch.equal(result[0], torch.full((2,), 2.0))
            del result
            found.append((inside, list(ended)))
        assert found[0] == found[1]


# ---- ends that are captured ------------------------------------------------------------------------------------------


class Logs:
    def __init__(self, log: list[Any], name: Any) -> None:
        self.log, self.name = log, name

    def __del__(self) -> None:
        self.log.append(self.name)


def _deleted(log: list[Any]) -> None:
    made = Logs(log, "deleted")
    log.append("before")
    del made
    log.append("after")


def _overwritten(log: list[Any]) -> None:
    made = Logs(log, "first")
    made = Logs(log, "second")
    log.append(made.name)
    made = None


def _dropped(log: list[Any]) -> None:
    Logs(log, "dropped")
    log.append("after")


def _local_variables(log: list[Any]) -> None:
    def inner():
        first, second = Logs(log, 1), Logs(log, 2)
        return first.name + second.name

    log.append(inner())


def _in_containers(log: list[Any]) -> None:
    made = [Logs(log, number) for number in range(3)]
    table = {"a": Logs(log, "a"), "b": Logs(log, "b")}
    del made[1]
    table["a"] = None
    log.append("between")
    made.clear()
    table.pop("b")
    log.append("after")


def _in_attributes(log: list[Any]) -> None:
    outer = Logs(log, "outer")
    outer.inner = Logs(log, "inner")
    outer.inner = None
    outer.other = Logs(log, "other")
    del outer


def _in_a_generator(log: list[Any]) -> None:
    def values():
        kept = Logs(log, "kept")
        yield kept.name
        yield 2

    generator = values()
    log.append(next(generator))
    del generator
    log.append("after")


def _in_a_raised_exception(log: list[Any]) -> None:
    def fails():
        kept = Logs(log, "kept")
        raise ValueError(kept.name)

    try:
        fails()
    except ValueError as error:
        log.append(str(error))
    log.append("after")


def _called_back(log: list[Any]) -> None:
    log.append(sorted([2, 1], key=lambda value: Logs(log, value).name))


class Loud(list):
    def __del__(self) -> None:
        self.log.append(len(self))


def _of_a_subclass_of_list(log: list[Any]) -> None:
    made = Loud([1, 2])
    made.log = log
    values = iter(made)
    del made
    log.append(next(values))
    log.append(list(values))
    log.append("after")


def _makes_others(log: list[Any]) -> None:
    class Parent:
        def __del__(self) -> None:
            log.append("parent")
            Logs(log, "child")
            log.append("parent again")

    Parent()


MOMENTS = [
    _deleted,
    _overwritten,
    _dropped,
    _local_variables,
    _in_containers,
    _in_attributes,
    _in_a_generator,
    _in_a_raised_exception,
    _called_back,
    _of_a_subclass_of_list,
    _makes_others,
]


def _handed_to_a_function(log: list[Any]) -> None:
    def takes(value):
        log.append(value.name)

    takes(Logs(log, "handed over"))
    log.append("after")


def _raises(log: list[Any]) -> None:
    class Raises:
        def __del__(self) -> None:
            log.append("ends")
            raise ValueError

    Raises()


def _lives_on(log: list[Any]) -> None:
    class Saved:
        def __del__(self) -> None:
            log.append(self)

    Saved()
    log[-1] = "saved"


def _in_a_cycle(log: list[Any]) -> None:
    made = Logs(log, "cycle")
    made.made = made


def _collected(log: list[Any]) -> None:
    made = Logs(log, "cycle")
    made.made = made
    del made
    log.append("before")
    gc.collect()
    log.append("after")


def _called_by_name(log: list[Any]) -> None:
    made = Logs(log, "twice")
    made.__del__()
    log.append("between")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize(
    "end", [*MOMENTS, _handed_to_a_function, _raises, _lives_on, _in_a_cycle, _collected, _called_by_name]
)
def test_ends_are_left_to_eager_mode(end: Any, breaks: bool) -> None:
    def f(x, log):
        kept = Logs(log, "kept") if breaks else None
        end(log)
        if breaks:
            print(end="")
        return x + len(log), kept is None

    c = framelift.compile(f, backend="eager")
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            want: list[Any] = []
            got: list[Any] = []
            assert torch.equal(f(torch.ones(2), want)[0], c(torch.ones(2), got)[0])
            assert want == got
    finally:
        gc.enable()
