"""The environment of the process, set by captured code; and breakpoint(), which looks there for what to call."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framelift
from framelift import _core
from support import compiled

NAME = "FRAMELIFT_TEST_VARIABLE"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in {*os.environ, *before}:
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]


def seen() -> tuple[Any, Any]:
    """The variable as Python and as C code see it."""
    return os.environ.get(NAME), _core.environment(NAME.encode())


def put(x: torch.Tensor) -> Any:
    os.environ[NAME] = "set"
    return x + 1, os.environ[NAME], os.getenv(NAME)


def put_and_delete(x: torch.Tensor) -> Any:
    os.environ[NAME] = "set"
    del os.environ[NAME]
    return x + 1, NAME in os.environ


def delete(x: torch.Tensor) -> Any:
    return x + 1, os.environ.pop(NAME, "none")


def add(x: torch.Tensor) -> Any:
    os.environ[NAME] = os.environ.get(NAME, "") + "a"
    return x + 1, os.environ[NAME]


def wrong_name(x: torch.Tensor) -> Any:
    try:
        os.environ["a=b"] = "c"
    except (ValueError, OSError) as error:
        return x + 1, str(error)
    return x


def after_an_operation(x: torch.Tensor) -> Any:
    y = x + 1
    os.environ[NAME] = f"{y.shape[0]}"
    return y * 2, os.environ[NAME]


PROGRAMS = {one.__name__: one for one in (put, put_and_delete, delete, add, wrong_name, after_an_operation)}


def run(call: Callable[..., Any], before: str | None) -> list[Any]:
    found = []
    os.environ.pop(NAME, None)
    for number in range(3):
        if number == 0 and before is not None:
            os.environ[NAME] = before
        found.append((str(call(torch.ones(2))), seen()))
    return found


@pytest.mark.parametrize("before", [None, "before"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_variables(name: str, before: str | None) -> None:
    expected = run(PROGRAMS[name], before)
    framelift.reset()
    assert run(compiled(PROGRAMS[name]), before) == expected


@pytest.mark.parametrize("program", [put, put_and_delete, delete, add])
def test_captured_whole(program: Any) -> None:
    framelift.reset()
    compiled(program, fullgraph=True)(torch.ones(2))


def test_operations_see_the_variable() -> None:
    heard: list[Any] = []

    @torch.library.custom_op("framelift_environment::look", mutates_args=())
    def look(x: torch.Tensor) -> torch.Tensor:
        heard.append(seen()[1])
        return x.clone()

    look.register_fake(torch.empty_like)

    def before(x: torch.Tensor) -> Any:
        os.environ[NAME] = "set"
        return look(x)

    def between(x: torch.Tensor) -> Any:
        y = look(x)
        os.environ[NAME] = "set"
        return look(y)

    for program in (before, between):
        found = []
        for call in (program, compiled(program)):
            os.environ.pop(NAME, None)
            heard.clear()
            call(torch.ones(2))
            found.append([*heard])
        assert found[0] == found[1]


class Hooks:
    called: list[Any] = []

    @staticmethod
    def hook(*args: Any) -> Any:
        Hooks.called.append(args)
        return len(args)


def broken(x: torch.Tensor) -> Any:
    return x + 1, breakpoint(3, 4)


def broken_by_own_name(x: torch.Tensor) -> Any:
    os.environ["PYTHONBREAKPOINT"] = "0"
    return x + 1, breakpoint(3)


@pytest.mark.parametrize("program", [broken, broken_by_own_name])
def test_breakpoint(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("framelift_hooks")
    module.hook = Hooks.hook  # type: ignore[attr-defined]
    module.number = len  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "framelift_hooks", module)
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)
    found = []
    for call in (program, compiled(program)):
        Hooks.called.clear()
        seen_here = []
        for path in ("0", "framelift_hooks.hook", "0", "divmod", "framelift_hooks.missing"):
            os.environ["PYTHONBREAKPOINT"] = path
            with pytest.warns() if program is broken and "missing" in path else _quiet():
                seen_here.append((str(call(torch.ones(2))), list(Hooks.called), os.environ["PYTHONBREAKPOINT"]))
        found.append(seen_here)
    assert found[0] == found[1]


class _quiet:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: Any) -> None: ...
