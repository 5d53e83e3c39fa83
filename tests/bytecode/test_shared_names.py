"""What all modules share: the built-ins, the table of modules, and what captured code changes of them."""

from __future__ import annotations

import builtins
import colorsys
import sys
import types
from typing import Any

import pytest
import torch

import framelift
from support import check, compiled

X = torch.zeros(1)


def replaced(x: Any) -> Any:
    before, old = len([1, 2, 3]), builtins.len
    builtins.len = lambda _: 7  # type: ignore[assignment]
    try:
        return x + len([1, 2, 3]) + 10 * before
    finally:
        builtins.len = old


def added(x: Any) -> Any:
    out: list[Any] = []
    builtins.extra = 1  # type: ignore[attr-defined]
    out.append(extra)  # type: ignore[name-defined]  # noqa: F821
    builtins.extra = 2  # type: ignore[attr-defined]
    out.append(extra)  # type: ignore[name-defined]  # noqa: F821
    del builtins.extra  # type: ignore[attr-defined]
    try:
        out.append(extra)  # type: ignore[name-defined]  # noqa: F821
    except NameError as error:
        out.append(str(error))
    return x, out


@pytest.mark.parametrize("fn", [replaced, added], ids=lambda fn: fn.__name__)
def test_builtins_that_captured_code_changes(fn: Any) -> None:
    check(fn, X, graphs=None)


def forbidden(x: Any) -> Any:
    old = sys.modules["colorsys"]
    sys.modules["colorsys"] = None  # type: ignore[assignment]
    try:
        import colorsys

        return x + len(colorsys.__name__)
    except ImportError:
        return x + 2
    finally:
        sys.modules["colorsys"] = old


def another(x: Any) -> Any:
    old = sys.modules["colorsys"]
    sys.modules["colorsys"] = types.SimpleNamespace(z=3, __name__="colorsys")  # type: ignore[assignment]
    try:
        import colorsys
        from colorsys import z  # type: ignore[attr-defined]

        return x + colorsys.z + z  # type: ignore[attr-defined]
    finally:
        sys.modules["colorsys"] = old


@pytest.mark.parametrize("fn", [forbidden, another], ids=lambda fn: fn.__name__)
def test_imports_after_a_change(fn: Any) -> None:
    framelift.reset()
    assert torch.equal(compiled(fn)(X), fn(X)) and sys.modules["colorsys"] is colorsys


def test_a_module_that_appears() -> None:
    def program(x: Any) -> Any:
        try:
            import no_such_module

            return x + no_such_module.v
        except ImportError:
            return x + 2

    framelift.reset()
    captured = compiled(program)  # the import that fails is a graph break
    try:
        assert captured(X).item() == 2
        module = types.SimpleNamespace(v=9, __name__="no_such_module")
        sys.modules["no_such_module"] = module  # type: ignore[assignment]
        assert captured(X).item() == 9
        sys.modules["no_such_module"] = None  # type: ignore[assignment]
        assert captured(X).item() == 2
    finally:
        del sys.modules["no_such_module"]
    assert captured(X).item() == 2


def test_a_built_in_that_appears() -> None:
    def program(x: Any) -> Any:
        try:
            return x + surprise  # type: ignore[name-defined]  # noqa: F821
        except NameError:
            return x + 2

    framelift.reset()
    captured = compiled(program, fullgraph=True)
    assert captured(X).item() == 2
    builtins.surprise = 8  # type: ignore[attr-defined]
    try:
        assert captured(X).item() == 8
    finally:
        del builtins.surprise  # type: ignore[attr-defined]
    assert captured(X).item() == 2


TOLD = types.ModuleType("told")
TOLD.__dir__ = lambda: ["b", "a"]  # type: ignore[method-assign]
PLAIN = types.ModuleType("plain")


def test_names_of_a_module() -> None:
    check(lambda x: (x, dir(TOLD), dir(PLAIN)), X, graphs=None, breaks=None)
