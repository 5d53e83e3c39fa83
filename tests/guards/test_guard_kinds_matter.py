"""For each kind of guard a program that goes wrong without it.

What every kind is for, and that nothing else stands in for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift.guards.kinds import KINDS
from law.planted import planted

Case = tuple[Callable[..., Any], tuple[Any, ...], Callable[..., tuple[Any, ...]]]


class Plain:
    pass


class Alike:
    pass


class One:
    value = 1.0


class Two:
    value = 2.0


def case_type() -> Case:
    return lambda x, obj: x + 1 if isinstance(obj, Plain) else x, (Plain(),), lambda obj: (Alike(),)


def case_is() -> Case:
    return lambda x, cls: x + cls.value, (One,), lambda cls: (Two,)


def case_eq() -> Case:
    return lambda x, text: x + text.count("a"), ("a",), lambda text: ("aaa",)


def case_code() -> Case:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def other(x: torch.Tensor) -> torch.Tensor:
        return x - 1

    def change() -> tuple[Any, ...]:
        inner.__code__ = other.__code__
        return ()

    return lambda x: inner(x), (), change


def case_len() -> Case:
    return lambda x, items: x + len(items), ([1, 2],), lambda items: ([1, 2, 3],)


def case_keys() -> Case:
    return lambda x, table: x + "".join(table).index("a"), ({"a": 1, "b": 1},), lambda table: ({"b": 1, "a": 1},)


def case_has_key() -> Case:
    text = "".join(["ke", "y"])
    return (
        lambda x, table, text: x + (next(iter(table)) is text),
        ({text: 1}, text),
        lambda table, text: ({"".join(["k", "ey"]): 1}, text),
    )


def case_absent() -> Case:
    def change(obj: Any) -> tuple[Any, ...]:
        obj.flag = True
        return (obj,)

    return lambda x, obj: x + hasattr(obj, "flag"), (Plain(),), change


def case_no_lookup() -> Case:
    class Local:
        pass

    def change(obj: Any) -> tuple[Any, ...]:
        Local.flag = True  # type: ignore[attr-defined]
        return (obj,)

    return lambda x, obj: x + hasattr(obj, "flag"), (Local(),), change


def case_dunders() -> Case:
    class Local:
        pass

    def change(obj: Any) -> tuple[Any, ...]:
        Local.__bool__ = lambda self: False  # type: ignore[attr-defined]
        return (obj,)

    return lambda x, obj: x + (1 if obj else 2), (Local(),), change


def case_empty() -> Case:
    def outer() -> Any:
        def inner(x: torch.Tensor) -> torch.Tensor:
            try:
                return x + late
            except NameError:
                return x

        def fill() -> tuple[Any, ...]:
            nonlocal late
            late = 5.0
            return ()

        return inner, fill
        late = 0.0

    inner, fill = outer()
    return inner, (), fill


def case_tensor() -> Case:
    return lambda x, y: x + y.shape[0], (torch.zeros(2),), lambda y: (torch.zeros(3),)


def case_same() -> Case:
    both = [1]
    return lambda x, a, b: x + (a is b), (both, both), lambda a, b: ([1], [1])


def case_check() -> Case:
    def change() -> tuple[Any, ...]:
        sys.setrecursionlimit(sys.getrecursionlimit() + 7)
        return ()

    return lambda x: x + sys.getrecursionlimit(), (), change


def case_joint() -> Case:
    return (lambda x, a, b: x + 1 if a > b else x - 1), (torch.tensor(2), torch.tensor(1)), lambda a, b: (b, a)


def case_distinct() -> Case:
    def program(x: torch.Tensor, a: Any, b: Any) -> torch.Tensor:
        a.n = len(b.text)
        b.n = 7
        return x + a.n

    def make() -> Any:
        one = Plain()
        one.text = "ab"
        return one

    def change(a: Any, b: Any) -> tuple[Any, ...]:
        return a, a

    return program, (make(), make()), change


def case_state() -> Case:
    def change() -> tuple[Any, ...]:
        torch.set_grad_enabled(False)
        return ()

    return lambda x: x + torch.is_grad_enabled(), (), change


CASES: dict[str, Callable[[], Case]] = {
    name.removeprefix("case_"): make for name, make in globals().items() if name.startswith("case_")
}


def call_twice(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """What the second call gives, and what it should."""
    program, arguments, change = CASES[name]()
    compiled = framelift.compile(program, backend="eager", fullgraph=True, dynamic=False)
    x = torch.zeros(1)
    limit, grad = sys.getrecursionlimit(), torch.is_grad_enabled()
    try:
        assert torch.equal(compiled(x, *arguments), program(x, *arguments))
        changed = change(*arguments)
        return compiled(x, *changed), program(x, *changed)
    finally:
        sys.setrecursionlimit(limit)
        torch.set_grad_enabled(grad)


@pytest.mark.parametrize("name", CASES)
def test_with_the_guard(name: str) -> None:
    got, want = call_twice(name)
    assert torch.equal(got, want)


@pytest.mark.parametrize("name", CASES)
def test_without_the_guard(name: str) -> None:
    with planted(name if name in ("distinct", "state") else name.upper()):
        got, want = call_twice(name)
    assert not torch.equal(got, want)


def test_every_kind_has_a_case() -> None:
    assert {name.upper() for name in CASES} == {*KINDS, "DISTINCT", "STATE"} - {"UNMARKED"}


def marked_later() -> list[float]:
    """What two calls give, where the function that is called tells them apart: by then it is one node of the graph."""

    def inner(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if torch.compiler.is_compiling() else x

    framelift.reset()  # captures are shared by functions of one code
    compiled = framelift.compile(lambda x, function: function(x) * 2, backend="eager")
    x = torch.ones(1)
    first = compiled(x, inner).item()
    torch._dynamo.allow_in_graph(inner)
    try:
        return [first, compiled(x, inner).item()]
    finally:
        torch._dynamo.trace_rules._allowed_callable_ids.remove(id(inner))


def test_unmarked() -> None:
    assert marked_later() == [4, 2]
    with planted("UNMARKED"):
        assert marked_later() == [4, 4]


def test_what_is_asked_of_marks_is_not_visited() -> None:
    import torch._dynamo

    module = torch.nn.Linear(2, 2)
    module.register_forward_hook(lambda module, args, result: result * 2)
    compiled = framelift.compile(lambda x: module(x), backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(1, 2)), module(torch.ones(1, 2)))
    program = compiled.entries[0].program
    unmarked = [i for i in range(program.stats()["nodes"]) if "UNMARKED" in dict(program.describe(i)[3])]
    assert unmarked and not {*unmarked} & {*program.unsettled()}
