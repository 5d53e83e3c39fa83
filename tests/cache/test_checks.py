"""Checks of guards that have a written form: kept on disk, loaded where they hold, a miss where they do not."""

from __future__ import annotations

import datetime
import decimal
import functools
import operator
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from framelift import config
from framelift.guards.checks import CHECKS, check, form_of
from kept_support import check as check_kept


class Slotted:
    __slots__ = ("a", "b")


class Holder:
    unit = 3


class Own(int):
    pass


VALUES: dict[str, Any] = {}


def numpy_scalar(x: torch.Tensor) -> Any:
    return x * float(VALUES["v"])


def a_getter(x: torch.Tensor) -> Any:
    return x * VALUES["v"]((1, 2, 3))


def a_day(x: torch.Tensor) -> Any:
    return x * VALUES["v"].days


def a_slot(x: torch.Tensor) -> Any:
    return x * (2 if hasattr(VALUES["v"], "b") else 3)


def own_number(x: torch.Tensor) -> Any:
    return x * (VALUES["v"] + 1)


def elements(x: torch.Tensor) -> Any:
    return x * (2 if 3 in VALUES["v"] else 5)


def own_names(x: torch.Tensor) -> Any:
    return x * (2 if "unit" in vars(VALUES["v"]) else 5)


def limit(x: torch.Tensor) -> Any:
    return x * (sys.getrecursionlimit() % 7)


def slotted(**values: int) -> Slotted:
    made = Slotted()
    for name, value in values.items():
        setattr(made, name, value)
    return made


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Iterator[None]:
    with config.patch(cache=True, cache_dir=str(tmp_path)):
        yield


ROWS: dict[str, tuple[Callable[..., Any], Callable[[], Any], Callable[[], Any]]] = {
    "numpy": (numpy_scalar, lambda: numpy.float64(2), lambda: numpy.float64(3)),
    "type of numpy": (numpy_scalar, lambda: numpy.float64(2), lambda: numpy.float32(2)),
    "getter": (a_getter, lambda: operator.itemgetter(1), lambda: operator.itemgetter(2)),
    "day": (a_day, lambda: datetime.timedelta(days=2), lambda: datetime.timedelta(days=3)),
    "slot": (a_slot, lambda: slotted(a=1), lambda: slotted(a=1, b=2)),
    "subclass of int": (own_number, lambda: Own(3), lambda: Own(4)),
    "set": (elements, lambda: {1, 3}, lambda: {1, 4}),
    "names of a class": (own_names, lambda: Holder, lambda: type("Other", (Holder,), {"__module__": __name__})),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_check_is_kept_and_holds_or_not(row: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    function, same, other = row
    for make, loaded in ((same, False), (same, True), (other, False), (same, True)):
        monkeypatch.setitem(VALUES, "v", make())
        check_kept(function, torch.ones(3), loaded=loaded)


def test_settings_of_the_process() -> None:
    check_kept(limit, torch.ones(3), loaded=False)
    check_kept(limit, torch.ones(3), loaded=True)
    before = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(before + 1)
        check_kept(limit, torch.ones(3), loaded=False)
    finally:
        sys.setrecursionlimit(before)


def test_written_forms() -> None:
    @check
    def is_more(than: int, now: int) -> bool:
        return now > than

    name, given = form_of(functools.partial(is_more, 3)) or ("", ())
    assert CHECKS[name] is is_more and given == (3,)
    assert form_of(is_more) == (name, ())
    assert form_of(lambda now: True) is None and form_of([]) is None
    assert form_of(functools.partial(is_more, than=3)) is None


def together(x: torch.Tensor, n: torch.Tensor, m: torch.Tensor) -> Any:
    return x * (2 if bool((n > m).any()) else 3)


def test_what_follows_from_several_tensors_is_kept() -> None:
    for n, m, loaded in ((1, 2, False), (0, 2, True), (3, 2, False), (9, 2, True), (0, 2, True)):
        tensors = torch.tensor([n]), torch.tensor([m])
        check_kept(together, torch.ones(3), *tensors, loaded=loaded)


def test_a_nan_is_not_kept_where_it_is_a_result() -> None:
    def function(x: torch.Tensor) -> Any:
        return x + 1, float("nan")

    for _ in range(2):
        check_kept(function, torch.ones(2), loaded=False)
