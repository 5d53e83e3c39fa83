"""What a program says of sizes is taken at its word or refused: marks, ranges, stances, saved sizes."""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift.exc import ConstraintViolation

MARKS = [framelift.mark_dynamic, framelift.maybe_mark_dynamic, framelift.mark_static, framelift.mark_unbacked]


def _captures(fn: Callable[..., Any], calls: Sequence[tuple[Any, ...]], **options: Any) -> int:
    compiled = framelift.compile(fn, backend="eager", **options)
    before = framelift.stats()["captures"]
    for args in calls:
        assert torch.equal(compiled(*args), fn(*args))
    return framelift.stats()["captures"] - before


# ---- marks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("index", [7, -3, [0, 9], (-1, 2)])
def test_dimensions_that_are_not_there_are_refused(mark: Callable[..., Any], index: Any) -> None:
    with pytest.raises(IndexError, match=r"dimension -?\d is out of range for a tensor of 2 dimensions"):
        mark(torch.ones(3, 4), index)


@pytest.mark.parametrize("mark", MARKS)
def test_what_is_no_dimension_is_refused(mark: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="not 1.5"):
        mark(torch.ones(3, 4), 1.5)
    with pytest.raises(TypeError, match="only tensors"):
        mark([1], 0)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"min": 5, "max": 4}, "no size is both"),
        ({"min": -1}, "min is a size"),
        ({"max": 2.5}, "max is a size"),
        ({"min": 9}, "has 3 entries"),
        ({"max": 2}, "has 3 entries"),
    ],
)
def test_ranges_that_cannot_be_are_refused(bounds: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        framelift.mark_dynamic(torch.ones(3, 4), 0, **bounds)


@pytest.mark.parametrize(
    ("mark", "captures"),
    [
        (framelift.mark_dynamic, 1),
        (framelift.maybe_mark_dynamic, 1),
        (framelift.mark_static, 4),
        (framelift.mark_unbacked, 1),
    ],
)
@pytest.mark.parametrize("index", [0, -2, [-2], (0,)])
def test_dimensions_are_counted_from_either_end(mark: Callable[..., Any], captures: int, index: Any) -> None:
    def given(n: int) -> tuple[torch.Tensor]:
        x = torch.ones(n, 4)
        mark(x, index)
        return (x,)

    assert _captures(lambda x: x * 2, [given(n) for n in (3, 5, 6, 7)]) == captures


@pytest.mark.parametrize(("index", "captures"), [(0, 3), (-2, 3), (None, 3), (1, 1)])
def test_sizes_made_static_inside_are_constants(index: int | None, captures: int) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        framelift.mark_static(x, index)
        return x + 1

    compiled = framelift.compile(fn, backend="eager", dynamic=True, fullgraph=True)
    before = framelift.stats()["captures"]
    for n in (12, 13, 14):
        assert compiled(torch.ones(n, 3)).shape == (n, 3)
    assert framelift.stats()["captures"] - before == captures


def test_marks_of_torch_that_name_no_dimension_say_nothing() -> None:
    x = torch.ones(3, 4)
    torch._dynamo.mark_dynamic(x, 7)
    torch._dynamo.mark_static(x, 9)
    assert _captures(lambda x: x * 2, [(x,), (torch.ones(3, 4),), (torch.ones(3, 5),)]) == 2


def test_a_tensor_outside_of_the_range_torch_was_told_is_an_error() -> None:
    x = torch.ones(3, 4)
    torch._dynamo.mark_dynamic(x, 0, min=10)
    with pytest.raises(ConstraintViolation, match=r"x.size\(0\) is 3, but was marked dynamic from 10"):
        framelift.compile(lambda x: x * 2, backend="eager")(x)


def test_several_ranges_all_hold() -> None:
    x = torch.ones(3, 4)
    torch._dynamo.mark_dynamic(x, -2, min=2)
    torch._dynamo.mark_dynamic(x, 0, max=20)
    assert _captures(lambda x: x * 2, [(x,), (torch.ones(20, 4),), (torch.ones(21, 4),)]) == 2


def _equals(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] == 3 else x


def _reshapes(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(3, 4) + 1


def _counts(x: torch.Tensor) -> torch.Tensor:
    return x * sum(range(x.shape[0]))


def _is_short(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] < 10 else x


def _is_long(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] > 2 else x


@pytest.mark.parametrize("fn", [_equals, _reshapes, _counts])
def test_a_size_made_a_constant_names_the_line(fn: Any) -> None:
    x = torch.ones(3, 4)
    framelift.mark_dynamic(x, 0)
    with pytest.raises(
        ConstraintViolation,
        match=rf"x.size\(0\).*fixes it to 3 at .*test_shapes_said.py:{fn.__code__.co_firstlineno + 1} in {fn.__name__}",
    ):
        framelift.compile(fn, backend="eager")(x)


@pytest.mark.parametrize(
    ("fn", "bounds", "words"),
    [
        (_is_short, {"max": 64}, "up to 64, but what was captured holds up to 9 only"),
        (_is_long, {"min": 2}, "from 2, but what was captured holds from 3 only"),
    ],
)
def test_a_range_that_does_not_hold_names_the_line(fn: Any, bounds: dict[str, int], words: str) -> None:
    x = torch.ones(3, 4)
    framelift.mark_dynamic(x, 0, **bounds)
    with pytest.raises(
        ConstraintViolation,
        match=rf"{words} at .*test_shapes_said.py:{fn.__code__.co_firstlineno + 1} in {fn.__name__}",
    ):
        framelift.compile(fn, backend="eager")(x)
    framelift.mark_dynamic(y := torch.ones(3, 4), 0, min=3, max=9)
    assert _captures(fn, [(y,), (torch.ones(9, 4),)]) == 1


def test_exports_name_the_line_too() -> None:
    class Short(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return _is_short(x)

    with pytest.raises(
        Exception,
        match=rf"size\(\)\[0\] < 10 at .*test_shapes_said.py:{_is_short.__code__.co_firstlineno + 1} in _is_short",
    ):
        framelift.export.export(
            Short(), (torch.ones(3, 4),), dynamic_shapes={"x": {0: torch.export.Dim("b", min=2, max=64)}}, strict=True
        )


@pytest.mark.parametrize("wrong", ["yes", 2, "auto"])
def test_dynamic_is_yes_no_or_automatic(wrong: Any) -> None:
    with pytest.raises(TypeError, match="dynamic is None, True or False"):
        framelift.compile(_equals, dynamic=wrong)


# ---- what forced a constant ------------------------------------------------------------------------------------------


class FixesItsBatch(torch.nn.Module):
    def forward(self, rows):
        if rows.shape[0] == 4:
            return rows + 1
        return rows * 2


class Reshapes(torch.nn.Module):
    def forward(self, rows):
        return rows.view(4, 3)


def _line(module, text):
    lines, first = inspect.getsourcelines(type(module).forward)
    return first + next(i for i, line in enumerate(lines) if text in line)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("module, text", [(FixesItsBatch(), "== 4"), (Reshapes(), "view(")])
def test_export_names_the_line_that_forced_a_constant(module, text, strict):
    with pytest.raises(Exception, match="Constraints violated") as caught:
        framelift.export(
            module, (torch.ones(4, 3),), dynamic_shapes={"rows": {0: torch.export.Dim("rows")}}, strict=strict
        )
    reported = str(caught.value)
    assert (
        "rows.size()[0]" in reported
        and f"{__file__}:{_line(module, text)} in {type(module).__name__}.forward" in reported
    )


def test_a_modules_parameters_are_told_by_their_names():
    rows = torch.ones(4, 3)
    framelift.mark_dynamic(rows, 0)
    with pytest.raises(
        framelift.exc.ConstraintViolation,
        match=r"^rows\.size\(0\) was marked dynamic, but the program fixes it to 4 at .* in FixesItsBatch\.forward\n"
        r"  fix: .*maybe_mark_dynamic",
    ):
        framelift.compile(FixesItsBatch())(rows)
    captured = framelift.compile(Reshapes().requires_grad_(False))
    captured(torch.ones(4, 3))
    captured(torch.ones(2, 6))
    (one,) = captured.recompiles()
    assert one.function == "Reshapes.forward" and one.origin == "rows" and one.reader.line == _line(Reshapes(), "view(")
    assert one.sentence.startswith("rows has size (2, 6), had (4, 3)")


def test_sizes_nought_and_one_share_a_capture_in_any_order():
    for order in itertools.permutations((0, 1, 2, 3)):
        framelift.reset()
        captured = framelift.compile(lambda x: x + 1)
        for n in (*order, 5, 7, *order):
            assert torch.equal(captured(torch.ones(n, 3)), torch.ones(n, 3) + 1)
        if order[0] >= 2:  # a constant first; then a symbol, unless one for all sizes comes before it
            assert framelift.stats()["captures"] == (2 if order[1] < 2 else 3), order
        elif order[1] < 2:  # one more for all sizes serves what comes after
            assert framelift.stats()["captures"] == 2, order
        else:
            assert framelift.stats()["captures"] == 3, order


class Named(torch.nn.Module):
    def forward(self, rows, mode):
        return rows + len(mode)


def test_limits_and_stances_call_a_module_as_its_author_does():
    rows = torch.ones(2)
    captured = framelift.compile(Named())
    captured(rows, "a")
    with (
        framelift.set_stance("fail_on_recompile"),
        pytest.raises(RuntimeError, match=r"function name: 'forward', line number: \d+\n.*\n *- mode is now 'b'"),
    ):
        captured(rows, "b")
    with (
        framelift.config.patch(error_on_recompile=True),
        pytest.raises(framelift.exc.RecompileError, match="^Named.forward would be .*: mode is now 'b'"),
    ):
        captured(rows, "b")
    with (
        framelift.config.patch(recompile_limit=2),
        pytest.warns(UserWarning, match="Named.forward was compiled 2 times .* because of mode run eagerly"),
    ):
        for mode in "abcd":
            captured(rows, mode)
