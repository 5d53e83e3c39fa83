"""Code objects made inside, what runs them, and awaitables that are driven by hand."""

from __future__ import annotations

import ast
import collections
import types
from typing import Any

import pytest
import torch

import framelift
from support import check

X = torch.ones(2)
OUTSIDE = ast.parse("1 + 1")


def code(x: Any) -> Any:
    made = compile("a + b", "<code>", "eval")
    again = made.replace(co_name="other")
    return x + eval(made, {"a": 1, "b": 2}), again.co_name, list(made.co_lines()), made == again


def alias(x: Any) -> Any:
    made = list[int]((1, 2))
    table = collections.defaultdict[str, int](int, a=2)
    return x + sum(made) + table["a"] + table["b"], type(made), collections.deque[int]([3])


class Box:
    __class_getitem__ = classmethod(types.GenericAlias)


def told_its_alias(x: Any) -> Any:
    return x + 1, Box[int]().__orig_class__


def refused(x: Any) -> Any:
    try:
        collections.defaultdict(1)  # type: ignore[call-overload]
    except TypeError as error:
        said = str(error)
    return x + 1, said


def driven(x: Any) -> Any:
    @types.coroutine
    def wait() -> Any:
        got = yield 1
        return got

    async def main() -> Any:
        return await wait() + await wait()

    steps = main().__await__()
    seen = [steps.send(None), steps.send(10)]
    try:
        steps.send(20)
    except StopIteration as end:
        seen.append(end.value)
    return x + sum(seen)


def driven_generator(x: Any) -> Any:
    async def numbers() -> Any:
        yield 1
        yield 2

    walk = numbers()
    found = []
    for step in (walk.asend(None), anext(walk), walk.aclose()):
        try:
            step.send(None)
        except StopIteration as end:
            found.append(end.value)
    return x + 1, found


@pytest.mark.parametrize("program", [code, alias, told_its_alias, refused, driven, driven_generator])
def test_programs(program: Any) -> None:
    check(program, X)


def test_a_tree_from_outside_breaks() -> None:
    def program(x: Any) -> Any:
        return x + eval(compile(ast.Expression(OUTSIDE.body[0].value), "<tree>", "eval"))

    assert torch.equal(framelift.compile(program, backend="eager")(X), X + 2)


def test_fields_of_nodes_are_facts() -> None:
    def program(x: Any) -> Any:
        try:
            return x + ast.Constant(3).value
        except (AttributeError, TypeError):
            return x - 1

    compiled = framelift.compile(program, backend="eager")
    assert torch.equal(compiled(X), X + 3)
    before = ast.Constant._fields
    try:
        ast.Constant._fields = ("other",)
        assert torch.equal(compiled(X), program(X))
    finally:
        ast.Constant._fields = before
    assert torch.equal(compiled(X), X + 3)


class Names(dict):  # type: ignore[type-arg]
    pass


def builtins_of_their_own(x: Any) -> Any:
    code, held, out = compile("r = g", "t", "exec"), [1], []
    for names in (Names({"g": 1}), Names(), {"g": 2}, {}):
        try:
            exec(code, {"__builtins__": names})
        except NameError as error:
            out.append(str(error))
    exec("g.append(3)", {"__builtins__": {"g": held}})
    return x + len(held), out


def test_builtins_of_their_own() -> None:
    check(builtins_of_their_own, X, graphs=None, breaks=None)


def test_no_builtins() -> None:
    def program(x: Any) -> Any:
        try:
            return x + eval("a + len(a)", {"__builtins__": {}}, {"a": 2})
        except NameError as error:
            return x + eval("a + 1", {"__builtins__": {}}, {"a": 2}), str(error)

    check(program, X)


EXPRESSION = compile("a + b + scale", "e", "eval")
CHOICE = compile("a if b else scale", "e", "eval")


def code_with_locals(x: Any) -> Any:
    space = {"a": 1, "scale": 10}
    first = eval(EXPRESSION, space, {"b": 2, "a": 5})
    names = {"b": 0}
    second = eval(CHOICE, space, names)
    try:
        eval(EXPRESSION, space, {})
    except NameError as error:
        return (
            x + first + second,
            str(error),
            names,
            eval(compile("[a for _ in range(2)]", "e", "eval"), space, {}),
            eval(compile("7", "e", "eval"), space, {}),
        )


def test_code_with_locals() -> None:
    check(code_with_locals, X, graphs=None, breaks=None)


def test_an_expression_with_locals() -> None:
    check(lambda x: x + eval(EXPRESSION, {"a": 1, "scale": 10}, {"b": 2, "a": 5}), X, graphs=None, breaks=None)


LINE = compile("6 * 7", "line", "single")


@pytest.mark.parametrize("run", [exec, eval], ids=lambda run: run.__name__)
def test_lines_of_a_dialogue_show_their_values(run: Any, capsys: Any) -> None:
    def program(x: Any) -> Any:
        run(LINE, {}, {})
        return x + 1

    framelift.reset()
    captured = framelift.compile(program, backend="eager")
    for _ in range(2):
        captured(X)
        assert capsys.readouterr().out == "42\n"


def test_flags_that_are_no_plain_numbers() -> None:
    class Flags:
        def __index__(self) -> int:
            return 0

    def f(x):
        return x + eval(compile("1", "", "eval", Flags()))

    check(f, torch.ones(2), graphs=None, breaks=None)
