"""Dates as the locale writes them, and the size of the terminal: guards ask again."""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import time
from typing import Any

import pytest
import torch

import framelift
from support import check, compiled

DAY = datetime.date(2020, 2, 29)
MOMENT = datetime.datetime(2021, 3, 4, 5, 6, 7, 8, tzinfo=datetime.timezone(datetime.timedelta(hours=2), "there"))


def test_dates() -> None:
    def f(x: torch.Tensor) -> Any:
        texts = [DAY.strftime("%Y-%m-%d %A"), MOMENT.strftime("%H:%M %Z %z"), format(DAY, "%d"), format(DAY, "")]
        later = DAY + datetime.timedelta(days=x.shape[0])
        return x + 1, texts, later.strftime("%B %j"), datetime.time(3, 4).strftime("%H.%M"), f"{MOMENT:%x}"

    check(f, torch.ones(2))


def test_another_strftime(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1, DAY.strftime("%Y")

    c = compiled(f)
    assert c(torch.ones(2))[1] == "2020"
    monkeypatch.setattr(time, "strftime", lambda how, when: "own")
    assert c(torch.ones(2))[1] == f(torch.ones(2))[1] == "own"


def test_the_size_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor) -> Any:
        size = shutil.get_terminal_size((70, 20))
        return x + size.columns, size.lines, tuple(shutil.get_terminal_size())

    c = framelift.compile(f, backend="eager", fullgraph=True)
    for name, value in ((None, ""), ("COLUMNS", "31"), ("LINES", "7"), ("COLUMNS", "no number"), ("LINES", "-3")):
        if name is not None:
            monkeypatch.setenv(name, value)
        assert str(c(torch.ones(2))) == str(f(torch.ones(2)))
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((5, 6)))
    plain = compiled(f)
    assert str(plain(torch.ones(2))) == str(f(torch.ones(2)))


def test_argparse(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor, given: list[str]) -> Any:
        parser = argparse.ArgumentParser(prog="program")
        parser.add_argument("--number", type=int, default=3, help="a number")
        parser.add_argument("names", nargs="*")
        found = parser.parse_args(given)
        return x + found.number, found.names

    check(f, torch.ones(2), ["--number", "4", "a", "b"])
