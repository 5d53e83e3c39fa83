"""Texts of tensors are made in eager mode; those of symbolic numbers are constants of their captures."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
import torch

import framelift
from support import counts


class Box:
    def __init__(self, text: str) -> None:
        self.text = text


def check(condition: bool, message: str) -> None:
    if not isinstance(message, str) or type(message) is not str or not message:
        raise TypeError
    if not condition:
        raise ValueError(message)


def message(x: torch.Tensor) -> Any:
    check(x.dim() == 2, f"no matrix: {x} of {x.shape[0]} rows")
    return x + 1


def made_of_others(x: torch.Tensor) -> Any:
    texts = ["{} {}".format(x, 3), "%s" % x, str(x) + " a", "b" + repr(x), f"{x!r:>10}", format(x.sum(), "")]
    return x * len(texts), ", ".join(texts)


def outcome(function: Any, x: torch.Tensor) -> Any:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            found = function(x)
        except Exception as error:  # noqa: BLE001
            found = type(error), str(error)
    return plain(found), [
        str(one.message) for one in heard if one.category is UserWarning and "framelift" not in str(one.message)
    ]


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, Box):
        return type(value), value.text
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def inputs() -> list[torch.Tensor]:
    return [torch.full((rows, 2), value) for rows in (2, 3, 4) for value in (1.0, -1.0, 3.0)]


def given_back(x: torch.Tensor) -> Any:
    return x + 1, [f"{x}", Box(f"{x}")]


def across_a_break(x: torch.Tensor) -> Any:
    text = f"{x}"
    y = x + 1
    framelift.graph_break()
    return y, text


def by_methods(x: torch.Tensor) -> Any:
    text = f"{x}"
    return x, text.upper(), text[0], text * 2, list(text), text.encode(), str.title(text), text.split("t")


def by_c_code(x: torch.Tensor) -> Any:
    return x + sum(map(str.isalpha, [f"{x}"])) + "abc".count(f"{x}"), max([f"{x}", "a"]), sorted([f"{x}", "z"])


def warned(x: torch.Tensor) -> Any:
    warnings.warn(f"{x}", stacklevel=1)
    return x + 1


KEPT: list[Any] = []


def stored(x: torch.Tensor) -> Any:
    KEPT.append(f"{x}")
    return x + 1, KEPT.copy()


def in_ascii(x: torch.Tensor) -> Any:
    return x + 1, f"{x!a}", ascii(x)


def with_a_wrong_format(x: torch.Tensor) -> Any:
    try:
        text = f"{x:.2f}"
    except TypeError as error:
        text = str(error)
    return x + 1, text


def written(x: torch.Tensor) -> Any:
    return x + 1, json.dumps({"a": f"{x}"}), str(KeyError(f"{x}"))


READ = [message, made_of_others, given_back, across_a_break, by_methods, by_c_code, warned, stored, in_ascii, written]
READ += [with_a_wrong_format]


@pytest.mark.parametrize("program", READ)
def test_texts_that_are_read_are_those_of_eager(program: Any) -> None:
    compiled = framelift.compile(program, backend="eager")
    for x in inputs():
        KEPT.clear()
        want = outcome(program, x)
        KEPT.clear()
        assert outcome(compiled, x) == want
    assert set(counts().breaks) & {"a tensor's values were turned into text"}


def test_a_size_in_a_text_that_nobody_reads() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        check(x.shape[0] > 0, f"{x.shape[0]} rows")
        return x + 1

    compiled = framelift.compile(program, backend="eager", fullgraph=True, dynamic=True)
    for rows in range(2, 9):
        assert torch.equal(compiled(torch.ones(rows)), torch.full((rows,), 2.0))


def test_the_text_of_a_symbolic_number_that_is_given_back() -> None:
    """The next rehearsal has it for a constant."""
    compiled = framelift.compile(lambda x, n: (x * n, f"{n}", [repr(n)]), backend="eager", fullgraph=True)
    for n in (2, 3, 4):
        assert compiled(torch.ones(1), n)[1:] == (f"{n}", [f"{n}"])
