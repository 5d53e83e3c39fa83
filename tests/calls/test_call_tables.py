"""The tables of the call rule: a callable has one handler, and every module that registers one is declared."""

from __future__ import annotations

import ast
import gc
import mmap
import os
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift.calls.call_tables import SUBSTITUTES, substitute
from framelift.rehearsal import registered
from support import check


def test_a_callable_has_one_handler() -> None:
    before = dict(SUBSTITUTES)
    with pytest.raises(AssertionError, match="have a handler already"):
        substitute(max)(lambda session, callable_, args, kwargs: None)
    assert SUBSTITUTES == before


def test_every_module_that_registers_is_declared() -> None:
    """`surface` registers the functions that it defines itself."""
    root = Path(framelift.__file__).parent
    declared = {module.__name__ for module in vars(registered).values() if isinstance(module, types.ModuleType)}
    registering = set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "substitute":
                registering.add("framelift." + ".".join(path.relative_to(root).with_suffix("").parts))
    undeclared = {name for name in registering - declared if not name.startswith("framelift.surface.")}
    assert not undeclared


def test_arguments_that_a_calling_convention_refuses() -> None:
    def f(x):
        texts = []
        for call in (
            lambda: time.time(1),
            lambda: time.sleep(),
            lambda: time.sleep(1, 2),
            lambda: time.sleep(seconds=1),
            lambda: os.getpid(*(1, 2)),
            lambda: gc.is_tracked(),
            lambda: sys.getrefcount(1, **{"a": 2}),
        ):
            try:
                call()
            except TypeError as error:
                texts.append(str(error))
        return x + 1, texts

    x = torch.ones(2)
    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    assert compiled(x)[1] == f(x)[1] and len(compiled(x)[1]) == 7
    assert framelift.compile(lambda x: (x + 1, os.getpid()), backend="eager")(x)[1] == os.getpid()


def test_methods_of_objects_of_unknown_types_refuse_arguments_too() -> None:
    def f(x, memory):
        texts = []
        for call in (lambda: memory.tell(1), lambda: memory.size(1, 2), lambda: memory.tell(at=1)):
            try:
                call()
            except TypeError as error:
                texts.append(str(error))
        return x + 1, texts

    x = torch.ones(2)
    with mmap.mmap(-1, 16) as memory:
        compiled = framelift.compile(f, backend="eager", fullgraph=True)
        assert compiled(x, memory)[1] == f(x, memory)[1] and len(compiled(x, memory)[1]) == 3
        moves = framelift.compile(lambda x: (x + 1, memory.write(b"ab"), memory.tell()), backend="eager")
        assert moves(x)[1:] == (2, 2) and moves(x)[1:] == (2, 4)


@pytest.mark.parametrize("wrong", [(), (1, 2, 3, 4)])
@pytest.mark.parametrize("function", [input, os.chdir, os.mkdir, open, os.unlink, sys.setrecursionlimit, exec])
def test_calls_that_raise_before_they_do_anything(function: Any, wrong: tuple[int, ...]) -> None:
    if (function, wrong) in ((input, ()), (open, (1, 2, 3, 4))):
        return  # these fit

    def f(x: torch.Tensor) -> Any:
        try:
            function(*wrong)
        except TypeError as error:
            return x + 1, str(error)
        return x

    check(f, torch.ones(2))


def test_a_print_that_raises() -> None:
    def f(x: torch.Tensor) -> Any:
        try:
            print(0, sep=1, end=2, file=3, flush=4, last=5)  # type: ignore[call-overload]
        except TypeError as error:
            return x + 1, str(error)
        return x

    check(f, torch.ones(2))
