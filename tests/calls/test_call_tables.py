"""The tables of the call rule: a callable has one handler, and every module that registers one is declared."""

from __future__ import annotations

import ast
import gc
import inspect
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
from framelift.calls.call_tables import CODE_HANDLERS, SUBSTITUTES, handler_form, substitute
from framelift.rehearsal import registered
from framelift.vocabulary.reasons import Interrupt
from support import check


def test_a_callable_has_one_handler() -> None:
    before = dict(SUBSTITUTES)
    with pytest.raises(AssertionError, match="have a handler already"):
        substitute(max)(lambda session, callable_, args, kwargs: None)
    assert SUBSTITUTES == before


# ---- the parameters of handlers: what a call may be, is Python's own answer ----

FORMS = [
    lambda session: locals(),
    lambda session, a, b=2: locals(),
    lambda session, a, b=2, /: locals(),
    lambda session, a, /, b, *, c: locals(),
    lambda session, a=1, *rest: locals(),
    lambda session, *rest, c=3: locals(),
    lambda session, /, a, **named: locals(),
    lambda session, a, /, b=2, *rest, c, **named: locals(),
    lambda session, callable_: locals(),
    lambda session, callable_, a, b=2: locals(),
    lambda session, callable_, /, *rest, **named: locals(),
]


@pytest.mark.parametrize("names", [(), ("a",), ("b",), ("a", "b"), ("c",), ("b", "c"), ("d",), ("session",)])
@pytest.mark.parametrize("count", range(4))
@pytest.mark.parametrize("form", FORMS, ids=lambda form: str(inspect.signature(form)))
def test_a_call_fits_a_handler_as_it_fits_a_function(form: Any, count: int, names: tuple[str, ...]) -> None:
    args, kwargs = tuple(range(count)), {name: name for name in names}

    class Replaced:
        """Takes what the form says, after the session."""

        __signature__ = inspect.Signature(
            [one for one in inspect.signature(form).parameters.values() if one.name not in ("session", "callable_")]
        )

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            raise ValueError("as the callable says it")

    replaced = Replaced()
    first = (None, replaced) if "callable_" in form.__code__.co_varnames else (None,)
    try:
        expected = form(*first, *args, **kwargs)
    except TypeError:
        with pytest.raises(ValueError, match="as the callable says it"):
            handler_form(form)(None, replaced, args, kwargs)
    else:
        assert handler_form(form)(None, replaced, args, kwargs) == expected


def test_a_handler_that_takes_any_call_is_taken_as_it_is() -> None:
    def handler(session: Any, callable_: Any, args: Any, kwargs: Any) -> Any: ...

    assert handler_form(handler) is handler


@pytest.mark.parametrize("replaced", [len, lambda x: None])
def test_arguments_that_the_callable_takes_and_its_handler_does_not(replaced: Any) -> None:
    handler = handler_form(lambda session, a, b: (a, b))
    assert handler(None, replaced, (1, 2), {}) == (1, 2)
    with pytest.raises(Interrupt, match="with other arguments than framelift knows"):
        handler(None, replaced, ([],), {})


def _parameters(function: Any) -> list[tuple[Any, ...]]:
    """What decides which calls fit: of a parameter by place alone its name does not matter."""
    found = [one for one in inspect.signature(function).parameters.values() if one.name not in ("session", "callable_")]
    return [(one.kind.name, one.name if one.kind else "", one.default is one.empty) for one in found]


_MADE = handler_form(lambda session: None).__code__  # type: ignore[attr-defined]


def test_handlers_take_whatever_the_callable_takes() -> None:
    narrower = []
    for replaced, handler in SUBSTITUTES.values():
        if getattr(handler, "__code__", None) is not _MADE:
            continue
        function = handler.__wrapped__  # type: ignore[attr-defined]
        written, code = _parameters(function), function.__code__
        if code.co_flags & inspect.CO_VARKEYWORDS:  # any name may be the program's
            assert code.co_posonlyargcount >= 1 + ("callable_" in code.co_varnames), function
        try:
            wanted = _parameters(replaced)
        except ValueError:  # a C function without a signature
            continue
        kinds = {kind for kind, *_ in written}
        if {kind for kind, *_ in wanted} <= {"POSITIONAL_ONLY"}:
            kinds.add("VAR_KEYWORD")  # it takes no keywords
        if replaced in (exec, eval):
            continue  # from CPython 3.13 on by keywords, too: a graph break
        if written != wanted and {"VAR_POSITIONAL", "VAR_KEYWORD"} - kinds:
            narrower.append((replaced, written, wanted))
    assert not narrower


def test_handlers_of_code_take_the_arguments_of_its_frames() -> None:
    """A frame gives all its parameters, those with a default too."""
    refused = []
    for code, handler in CODE_HANDLERS.items():
        if getattr(handler, "__code__", None) is not _MADE:
            continue
        given = inspect.signature(handler.__wrapped__).parameters  # type: ignore[attr-defined]
        places = [None] * (code.co_argcount + 1 + ("callable_" in given))
        names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        try:
            inspect.signature(handler.__wrapped__).bind(*places, **dict.fromkeys(names))  # type: ignore[attr-defined]
        except TypeError as error:
            refused.append((code.co_qualname, error))
    assert not refused


def test_every_module_that_registers_is_declared() -> None:
    """`surface` registers the functions that it defines itself, `python` the handlers of its kinds."""
    root = Path(framelift.__file__).parent
    declared = {module.__name__ for module in vars(registered).values() if isinstance(module, types.ModuleType)}
    registering = set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "substitute":
                registering.add("framelift." + ".".join(path.relative_to(root).with_suffix("").parts))
    undeclared = {
        name for name in registering - declared if not name.startswith(("framelift.surface.", "framelift.python."))
    }
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
    compiled = framelift.compile(f, backend="eager")
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
        compiled = framelift.compile(f, backend="eager")
        assert compiled(x, memory)[1] == f(x, memory)[1] and len(compiled(x, memory)[1]) == 3
        moves = framelift.compile(lambda x: (x + 1, memory.write(b"ab"), memory.tell()), backend="eager")
        assert moves(x)[1:] == (2, 2) and moves(x)[1:] == (2, 4)
