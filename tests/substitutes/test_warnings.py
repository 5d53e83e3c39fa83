"""warnings.warn inside captured code: ignored and raised ones are followed, all others are given outside."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import framelift
from support import check

X = torch.ones(2)


class Own(UserWarning):
    pass


def ignored(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("unheard")
        return x + 1


def inner(text: str, level: int) -> None:
    warnings.warn(text, Own, stacklevel=level)


def raised(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="no")
        warnings.filterwarnings("error", category=Own, append=True)
        warnings.warn("no, not this one", Own)
        try:
            warnings.warn("this one", Own)
        except Own as error:
            return x + 1, str(error), type(error)
    return x


@pytest.mark.parametrize("program", [ignored, raised])
def test_warnings_that_stay_inside(program: Any) -> None:
    check(program, X)


def test_filters_from_outside() -> None:
    """The same function under filters that ignore, show and raise."""

    def program(x: Any) -> Any:
        warnings.warn("heard or not", Own)
        return x + 1

    captured = framelift.compile(program, backend="eager")
    for function in (program, captured):
        for action, heard in (("ignore", 0), ("always", 1), ("ignore", 0), ("always", 1)):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter(action)  # type: ignore[arg-type]
                assert torch.equal(function(X), X + 1) and len(seen) == heard
        with warnings.catch_warnings(), pytest.raises(Own, match="heard or not"):
            warnings.simplefilter("error")
            function(X)


def test_what_is_shown_once_is_shown_once() -> None:
    def program(x: Any) -> Any:
        warnings.warn("once", Own)
        return x + 1

    for function in (program, framelift.compile(program, backend="eager")):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("default")
            assert [torch.equal(function(X), X + 1) for _ in range(3)] == [True] * 3 and len(seen) == 1


class _Half(float):
    pass


class _AsFloat:
    def __float__(self) -> float:
        return _Half(2.0)


def from_c_raised(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return x + float(_AsFloat())
        except DeprecationWarning as error:
            return x - 1, str(error)


def from_c_ignored(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return x + float(_AsFloat())


def from_the_compiler(x: Any) -> Any:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        value = eval("1 is 1")
        try:
            eval("(1 is 1) +")
        except SyntaxError as error:
            said = error.msg
        warnings.simplefilter("error")
        try:
            compile("\n1 is 1", "there.py", "exec")
        except SyntaxError as error:
            where = error.msg, error.filename, error.lineno
    return x + value, said, where, [(str(row.message), row.category, row.filename, row.lineno) for row in seen]


@pytest.mark.parametrize("program", [from_c_raised, from_c_ignored])
def test_warnings_of_c_code_that_stay_inside(program: Any) -> None:
    check(program, X)


def test_warnings_of_the_compiler_run_eagerly() -> None:
    check(from_the_compiler, X, graphs=None, breaks=None)


def test_warnings_of_c_code_under_filters_from_outside() -> None:
    """C code looks at the process's filters: they are facts, and so are those that captured code set."""

    def program(x: Any) -> Any:
        return x + float(_AsFloat())

    compiled = framelift.compile(program, backend="eager")
    before = warnings.filters
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("ignore")
        compiled(X)
        assert not seen
        warnings.simplefilter("always")
        compiled(X)
        compiled(X)
        assert len(seen) == 2 and seen[0].filename == __file__
        warnings.simplefilter("error")
        with pytest.raises(DeprecationWarning):
            compiled(X)
        warnings.simplefilter("ignore")
        assert torch.equal(compiled(X), X + 2)
    assert warnings.filters is before and len(seen) == 2


def test_a_warning_of_c_code_that_is_told_once_is_told() -> None:
    def program(x: Any) -> Any:
        return x + float(_AsFloat())

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        framelift.compile(program, backend="eager")(X)
    assert len(seen) == 1
