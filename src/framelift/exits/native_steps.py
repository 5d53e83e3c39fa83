"""An entry's function as native steps: read off its source, so that both say the same.

The native core carries the steps out without a frame (csrc/entry_steps.cpp), for entries that have run a few times.
What the steps have no word for is done by the function, as the whole of the entry.
"""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Iterator
from typing import Any

from .. import _core
from .._core import is_a
from ..vocabulary.own_code import is_own_code
from ..vocabulary.plain_types import AROUND

#: CPython keeps so many attributes of an instance without a dictionary
_MOST_ATTRIBUTES = 30
#: what displays of values consist of
_SHOWN = (ast.Name, ast.Constant, ast.UnaryOp, ast.USub, ast.Tuple, ast.List, ast.Dict, ast.expr_context)


class _NoWord(Exception):
    """The function does something that there is no step for."""


def native_steps(entry: types.FunctionType) -> _core.Steps | None:
    """Translate an entry's function into native steps, after it ran a few times; None where there are none for it."""
    own = vars(entry)
    if own.get("written") is not entry.__code__:
        return None
    function = ast.parse(own["__source__"]).body[0]
    assert is_a(function, ast.FunctionDef)
    writer = _StepWriter(entry.__code__, entry.__globals__)
    try:
        externals = writer.externals(function.body)
        writer.block(function.body)
    except _NoWord:
        return None
    if not writer.steps or writer.steps[-1][0] != "return":
        return None
    constants, steps = tuple(writer.constants), tuple(writer.steps)
    return _core.Steps(entry.__code__, entry.__globals__, externals, writer.registers, constants, steps)


_core.connect(steps_maker=native_steps)


def _exactly(value: Any) -> Any:
    """A key that tells constants of a code apart as the compiler does."""
    if type(value) is tuple:
        return (tuple, *map(_exactly, value))
    return (type(value), repr(value) if type(value) in (float, complex) else value)


def _all_constants(values: tuple[Any, ...]) -> Iterator[Any]:
    for value in values:
        yield value
        if type(value) is tuple:
            yield from _all_constants(value)


class _StepWriter:
    """Writes the steps of one function.  Operands are registers, or `~place` for a constant."""

    def __init__(self, code: types.CodeType, space: dict[str, Any]) -> None:
        self.space = space
        self.steps: list[tuple[str | int, ...]] = []
        self.constants: list[Any] = []
        self.registers = 0
        self._literals = {_exactly(value): value for value in _all_constants(code.co_consts)}
        self._own: dict[str, int] = {}  # the function's variables
        self._places: dict[int, int] = {}  # of constants

    def externals(self, body: list[ast.stmt]) -> int:
        """Give the first registers to the externals; their number."""
        for statement in body:
            match statement:
                case ast.Assign([ast.Tuple(elts)], ast.Name("externals")):
                    self._names(elts)
                    return len(elts)
                case ast.Return(ast.Subscript(ast.Name("externals"), ast.Constant(0))):
                    self._new()
                    return 1
        return 0

    def block(self, body: list[ast.stmt]) -> None:
        """Write the steps of statements."""
        place = 0
        while place < len(body):
            place += self._instance(body[place:]) or self._statement(body[place])

    # ---- statements ----

    def _statement(self, statement: ast.stmt) -> int:
        match statement:
            case ast.Assign([ast.Tuple()], ast.Name("externals")):
                pass
            case ast.Assign([ast.Tuple(elts)], value) if _is_graph(value):
                self.steps.append(("graph", self._names(elts), len(elts)))
            case ast.Assign([ast.Name(name)], value):
                self._own[name] = self.operand(value)
            case ast.Assign([ast.Attribute(owner, name)], value):
                made = self.operand(value)
                self.steps.append(("set attribute", -1, 0, self.operand(owner), self._constant(sys.intern(name)), made))
            case ast.Assign([ast.Subscript(owner, key)], value):
                made = self.operand(value)
                self.steps.append(("set item", -1, 0, self.operand(owner), self.operand(key), made))
            case ast.Expr(value) if _is_graph(value):
                self.steps.append(("graph", -1, 0))
            case ast.Expr(value):
                self.operand(value)
            case ast.If(test, [ast.Return()] as body, []):
                self._unless(test, body)
            case ast.Return(ast.Subscript(value, ast.Constant(0))) if _is_graph(value):
                self.steps.append(("first", made := self._new(), 0))
                self.steps.append(("return", -1, 0, made))
            case ast.Return(ast.Subscript(ast.Name("externals"), ast.Constant(0))):
                self.steps.append(("return", -1, 0, 0))
            case ast.Return(ast.expr() as value):
                self.steps.append(("return", -1, 0, self.operand(value)))
            case _:
                raise _NoWord
        return 1

    def _unless(self, test: ast.expr, body: list[ast.stmt]) -> None:
        """The block of an `if`, whose conditions are joined by `and`."""
        jumps = []
        for one in test.values if is_a(test, ast.BoolOp) and is_a(test.op, ast.And) else [test]:
            made = self.operand(one)
            jumps.append((len(self.steps), made))
            self.steps.append(())
        self.block(body)
        for place, made in jumps:
            self.steps[place] = ("unless", -1, len(self.steps), made)

    def _instance(self, body: list[ast.stmt]) -> int:
        """One step for a fresh object and the attributes that are set on it at once; how many statements that is."""
        match body[0]:
            case ast.Assign([ast.Name(name)], ast.Call(ast.Name(maker), [ast.Name() as cls], [])):
                if self.space.get(maker) is not _core.new or maker in self._own:
                    return 0
            case _:
                return 0
        operands = [self.operand(cls)]
        for statement in body[1 : 1 + _MOST_ATTRIBUTES]:
            match statement:
                case ast.Assign([ast.Attribute(ast.Name(owner), attribute)], value):
                    if owner != name or not _is_display(value, name):
                        break
                    operands += (self._constant(sys.intern(attribute)), self.operand(value))
                case _:
                    break
        self.steps.append(("instance", made := self._new(), 0, *operands))
        self._own[name] = made
        return 1 + len(operands) // 2

    # ---- expressions ----

    def operand(self, node: ast.expr | None) -> int:
        """Where the value of an expression is; the steps that make it are written, in CPython's order."""
        literal = _literal(node)
        if literal is not _NoWord:
            return self._constant(self._literal(literal))
        match node:
            case ast.Name(name):
                return self._named(name)
            case ast.Tuple(elts):
                return self._make("tuple", *map(self.operand, elts))
            case ast.List(elts):
                return self._make("list", *map(self.operand, elts))
            case ast.Dict(keys, values):
                return self._make("dict", *[self.operand(part) for pair in zip(keys, values) for part in pair])
            case ast.Call(callee, arguments, []):
                called = self._callee(callee)
                return self._make("call", called, *map(self.operand, arguments))
            case ast.Attribute(owner, name):
                return self._make("attribute", self.operand(owner), self._constant(sys.intern(name)))
        raise _NoWord

    def _callee(self, node: ast.expr) -> int:
        """An external callable, or a method.  Functions of the program may look at the frame that calls them."""
        found = self.operand(node)
        if type(node) is ast.Attribute:
            return found
        called = self.constants[~found] if type(node) is ast.Name and found < 0 else _NoWord
        while type(called) in AROUND:
            called = AROUND[type(called)](called)
        if called is _NoWord or type(called) is types.FunctionType and not is_own_code(called.__code__):
            raise _NoWord
        return found

    def _named(self, name: str) -> int:
        if name in self._own:
            return self._own[name]
        if name in ("graph", "inputs", "externals") or name not in self.space:
            raise _NoWord
        return self._constant(self.space[name])

    def _literal(self, value: Any) -> Any:
        """The very object that the function's code has; small numbers, which 3.14 keeps out of it, exist once."""
        found = self._literals.get(_exactly(value), value if type(value) is int and 0 <= value < 256 else _NoWord)
        if found is _NoWord:
            raise _NoWord
        return found

    # ---- registers and constants ----

    def _make(self, word: str, *operands: int) -> int:
        made = self._new()
        self.steps.append((word, made, 0, *operands))
        return made

    def _new(self) -> int:
        self.registers += 1
        return self.registers - 1

    def _names(self, targets: list[ast.expr]) -> int:
        """Registers in a row for names; the first of them."""
        first = self.registers
        for target in targets:
            if not is_a(target, ast.Name):
                raise _NoWord
            self._own[target.id] = self._new()
        return first

    def _constant(self, value: Any) -> int:
        place = self._places.get(_core.id(value))
        if place is None:
            place = self._places[_core.id(value)] = len(self.constants)
            self.constants.append(value)
        return ~place


def _is_graph(node: ast.expr) -> bool:
    match node:
        case ast.Call(ast.Name("graph"), [ast.Starred(ast.Name("inputs"))], []):
            return True
    return False


def _is_display(node: ast.expr, name: str) -> bool:
    """Return whether an expression only shows values, without the one of this name."""
    return all(is_a(part, _SHOWN) and not (is_a(part, ast.Name) and part.id == name) for part in ast.walk(node))


def _literal(node: ast.expr | None) -> Any:
    """The value of what the compiler makes a constant of; `_NoWord` for anything else."""
    match node:
        case ast.Constant(value):
            return value
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() | complex() as value)):
            return -value
        case ast.Tuple(elts):
            values = [_literal(one) for one in elts]
            return _NoWord if any(value is _NoWord for value in values) else tuple(values)
    return _NoWord
