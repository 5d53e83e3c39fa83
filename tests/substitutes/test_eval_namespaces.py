"""eval() with locals of every kind: what an expression finds, and what it sees when it asks for its names."""

from __future__ import annotations

import collections
import dataclasses
import typing
from typing import Any

import pytest
import torch

from support import check, compiled


class Names:
    """A mapping that is no dictionary."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getitem__(self, name: str) -> Any:
        self.asked.append(name)
        if name == "a":
            return 12
        raise KeyError(name)

    def keys(self) -> list[str]:
        return list("zyx")


@dataclasses.dataclass
class Config:
    size: "int" = 1
    weight: "torch.Tensor | None" = None
    inner: "typing.Optional[Config]" = None


TABLE = {"q": 4}
OWN = collections.UserDict(q=5)
CHAIN = collections.ChainMap({"q": 6}, {"r": 7})
NAMES = Names()


def hints(x: torch.Tensor) -> Any:
    return x + 1, typing.get_type_hints(Config), typing.get_type_hints(Names.keys)


def tables_from_outside(x: torch.Tensor) -> Any:
    return (
        x + 1,
        eval("q", {}, TABLE),
        eval("q", {}, OWN),
        eval("q + r", {}, CHAIN),
        eval("(lambda: w)()", {"w": 1}, TABLE),
    )


def code_with_locals(x: torch.Tensor) -> Any:
    constant, either = compile("'text'", "", "eval"), compile("q if q > 4 else -q", "", "eval")
    return x + 1, eval(constant, {"w": 1}, TABLE), eval(either, {"w": 1}, TABLE), eval(either, {}, OWN)


def asked_in_order(x: torch.Tensor) -> Any:
    return x + 1, eval("a + b", {"b": 2}, NAMES)


def not_found(x: torch.Tensor) -> Any:
    try:
        return x - 1, eval("zz", {}, NAMES)
    except NameError as error:
        return x + 1, str(error)


def its_own_names(x: torch.Tensor) -> Any:
    made = Names()
    return (
        x + 1,
        [eval("locals()", {}, {"a": 1}), eval("vars()", {"q": 1}, {"a": 1})],
        [eval("locals()", {}, made) is made, eval("[v for v in locals()]", {}, {"a": 1})],
        [eval("locals() is globals()", {"q": 1}), eval("locals()['q']", {"q": 1}), eval("'x' in locals()")],
        [eval("locals() is globals()", globals())],
    )


PROGRAMS = (hints, tables_from_outside, code_with_locals, asked_in_order, not_found, its_own_names)


@pytest.mark.parametrize("program", PROGRAMS)
def test_namespaces(program: Any) -> None:
    found = []
    try:
        for call in (program, compiled(program, fullgraph=True)):
            NAMES.asked.clear()
            seen = []
            for number in (4, 4, 5):
                TABLE["q"] = OWN["q"] = number
                seen.append((str(call(torch.ones(2))), list(NAMES.asked)))
            found.append(seen)
    finally:
        TABLE["q"], OWN["q"] = 4, 5
    assert found[0] == found[1]


def test_an_assignment_is_a_change_outside() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1, eval("(w := 3)", {}, TABLE), TABLE["w"]

    check(f, torch.ones(2), graphs=None, breaks=None, state=[(globals(), "TABLE")])
    TABLE.pop("w", None)


def refused(x: torch.Tensor) -> Any:
    said = []
    for source in ("1", "q", "(lambda: 3)()"):
        for given in ((5,), ([],), (collections.ChainMap({}),), ({}, 5), ({}, object()), ({"q": 1}, "t")):
            for run in (eval, exec):
                try:
                    said.append(run(source, *given))
                except (TypeError, NameError) as error:
                    said.append(str(error))
    return x + 1, said


def with_built_ins(x: torch.Tensor) -> Any:
    names: list[dict[str, Any]] = [{}, {}, {}]
    for source, space in zip(("1", "(1, [2])", "'a'"), names):
        eval(source, space)
    eval("1", TABLE)
    return x + 1, [list(space) for space in names], "__builtins__" in TABLE


@pytest.mark.parametrize("program", [refused, with_built_ins])
def test_what_becomes_of_namespaces(program: Any) -> None:
    found = []
    for call in (program, compiled(program)):
        for _ in range(2):
            TABLE.pop("__builtins__", None)
            found.append(str(call(torch.ones(2))))
    TABLE.pop("__builtins__", None)
    assert len(set(found)) == 1
