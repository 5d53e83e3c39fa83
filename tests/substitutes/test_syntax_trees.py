"""Nodes of syntax trees made inside: of CPython's classes, of those kept for old programs, and of the program's own."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from support import World, check


class Marked(ast.AST):
    _fields = ("left", "right")
    mark = "m"


class Counted(ast.Constant):
    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.count = 1


class Made(ast.Name):
    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__new__(cls, *args, **kwargs)
        made.seen = len(args)
        return made


def old(x: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = ast.Num(3)
        return x * one.n, type(one) is ast.Constant, isinstance(one, ast.Num), isinstance(one, ast.Str), one.s


PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "of CPython's": lambda x: (x * ast.Constant(2).value, ast.dump(ast.Name("a", ast.Load()))),
    "kept for old programs": old,
    "of the program's": lambda x: (x + 1, vars(Marked(1, right=2)), Marked(1).mark, hasattr(Marked(1), "right")),
    "with an __init__": lambda x: (x + 1, vars(Counted(5)), ast.dump(Counted(5))),
    "with a __new__": lambda x: (x + 1, vars(Made("a", ast.Load()))["seen"], Made("b").id),
    "made in parts": lambda x: (x + 1, vars(_filled(Marked.__new__(Marked)))),
}


def _filled(node: Any) -> Any:
    ast.AST.__init__(node, 1, 2)
    return node


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_nodes(name: str) -> None:
    check(PROGRAMS[name], torch.ones(2))


def test_other_fields_between_calls() -> None:
    """C code finds the names of the fields in the class."""

    def swap(number: int, world: World) -> None:
        Marked._fields = ("right", "left") if number == 1 else ("left", "right")

    check(lambda x: (x + 1, vars(Marked(1, 2))), torch.ones(2), mutate=swap, calls=3, graphs=None)


def test_too_many_fields() -> None:
    def program(x: torch.Tensor) -> Any:
        try:
            Marked(1, 2, 3)
        except TypeError as error:
            return x + 1, str(error)

    check(program, torch.ones(2))
