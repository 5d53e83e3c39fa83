"""A defect of framelift itself: reported once with a file, eager afterwards; an error with config.strict."""

from __future__ import annotations

import re
import warnings

import pytest
import torch

import framelift
from framelift.calls import call_tables
from framelift.capture import driver
from support import check

X = torch.ones(2)


def double(x):
    return x * 2


@pytest.fixture
def broken(monkeypatch, tmp_path):
    """Planning entries fails, as a defect of ours would make it."""
    fail = eval(compile("lambda *a, **k: [].pop()", driver.__file__, "eval"))  # raised from a file of framelift
    monkeypatch.setattr(driver, "build_program", fail)
    monkeypatch.setenv("FRAMELIFT_REPRO_DIR", str(tmp_path))
    return tmp_path


def test_the_program_goes_on_and_is_told_once(broken) -> None:
    compiled = framelift.compile(double, backend="eager")
    with framelift.config.patch(strict=False):
        with pytest.warns(
            UserWarning,
            match="a defect of framelift itself keeps double from being captured.*IndexError: pop from empty list",
        ):
            assert torch.equal(compiled(X), X * 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert torch.equal(compiled(X), X * 2)
    (path,) = broken.glob("defect_*.txt")
    text = path.read_text()
    assert "pop from empty list" in text and "def double(x):" in text and f"torch {torch.__version__}" in text


def test_strict_raises(broken) -> None:
    with (
        framelift.config.patch(strict=True),
        pytest.raises(framelift.exc.InternalError, match="failed to capture double: IndexError"),
    ):
        framelift.compile(double, backend="eager")(X)


def test_fullgraph_raises(broken) -> None:
    with framelift.config.patch(strict=False), pytest.raises(framelift.exc.InternalError):
        framelift.compile(double, backend="eager", fullgraph=True)(X)


def test_reset_tries_again(broken, monkeypatch) -> None:
    compiled = framelift.compile(double, backend="eager")
    with framelift.config.patch(strict=False), pytest.warns(UserWarning):
        compiled(X)
    monkeypatch.undo()
    framelift.reset()
    compiled(X)
    assert len(compiled.entries) == 1


def test_errors_of_the_users_own_hooks_are_theirs() -> None:
    def backend(graph_module, examples):
        raise KeyError("mine")

    with pytest.raises(framelift.exc.BackendCompilerFailed) as caught:
        framelift.compile(double, backend=backend)(X)
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    "body, fault",
    [
        (
            "session.nothing_of_the_kind",
            "AttributeError in <lambda>: 'Rehearsal' object has no attribute 'nothing_of_the_kind'",
        ),
        ("session.end.point.unit", "AttributeError in <lambda>: 'NoneType' object has no attribute 'unit'"),
        ("a_name_nobody_knows", "NameError in <lambda>: name 'a_name_nobody_knows' is not defined"),
    ],
)
def test_a_handler_that_fails_is_no_exception_of_the_program(monkeypatch, tmp_path, body, fault) -> None:
    """The program would catch it, and be captured with an answer that is none."""
    handler = eval(compile(f"lambda session, callable_, args, kwargs: {body}", driver.__file__, "eval"))
    asked = eval("lambda x: 1")  # code of its own: what the core knows of it outlives the test
    monkeypatch.setitem(call_tables.CODE_HANDLERS, asked.__code__, handler)
    monkeypatch.setenv("FRAMELIFT_REPRO_DIR", str(tmp_path))

    def careful(x):
        try:
            return x + asked(x)
        except (AttributeError, NameError):
            return x - 7

    framelift.reset()
    compiled = framelift.compile(careful, backend="eager")
    with framelift.config.patch(strict=False), pytest.warns(UserWarning, match=re.escape(fault)):
        assert torch.equal(compiled(X), X + 1)


def test_what_a_handler_raises_on_purpose_is_the_programs() -> None:
    def careful(x):
        seen = []
        for ask in (
            lambda: None.unit,
            lambda: getattr(None, "unit"),
            lambda: missing,
            lambda: delattr(x, "zork"),
            lambda: vars(3),
        ):  # noqa: B009, F821
            try:
                ask()
            except (AttributeError, NameError, TypeError) as error:
                seen.append(str(error))
        return x + len(seen), seen

    check(careful, X)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_rehearsal_that_raises_alone_is_told_of(monkeypatch, fullgraph) -> None:
    """The exception left the frame, so it was taken for the program's; plain Python knows better."""
    handler = eval(compile("lambda session, callable_, args, kwargs: [].pop()", driver.__file__, "eval"))
    asked = eval("lambda x: 2")
    monkeypatch.setitem(call_tables.CODE_HANDLERS, asked.__code__, handler)

    def careless(x):
        return x + asked(x)

    framelift.reset()
    compiled = framelift.compile(careless, backend="eager", fullgraph=fullgraph)
    with framelift.config.patch(strict=False):
        with pytest.warns(
            UserWarning,
            match=r"careless .*could not be captured.*raises, while eager does not: "
            r"IndexError: pop from empty list \(.*driver.py:1\)",
        ):
            assert torch.equal(compiled(X), X + 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # reported once
            assert torch.equal(compiled(X), X + 2)
    with framelift.config.patch(strict=True), pytest.raises(framelift.exc.InternalError, match="pop from empty list"):
        compiled(X)


def test_an_exception_of_the_programs_own_is_not() -> None:
    def index(x, n):
        return x + [1, 2][x.shape[0] + n]

    compiled = framelift.compile(index, backend="eager")
    for rows in (2, 3, 4):
        with warnings.catch_warnings(), pytest.raises(IndexError, match="list index out of range"):
            warnings.simplefilter("error")
            compiled(torch.ones(rows), 0)
    assert torch.equal(compiled(torch.ones(3), -2), torch.ones(3) + 2)
