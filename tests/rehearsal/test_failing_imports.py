"""Imports that fail, and imports after a change of where modules are looked for."""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framelift
from support import compiled

NAME = "framelift_missing"


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    yield tmp_path
    forget()


def forget() -> None:
    for name in [one for one in sys.modules if one.partition(".")[0] == NAME]:
        del sys.modules[name]
    importlib.invalidate_caches()


def by_statement(x: torch.Tensor) -> Any:
    try:
        import framelift_missing
    except ImportError as error:
        return x, str(error), error.name
    return x + 1, framelift_missing.value


def by_function(x: torch.Tensor) -> Any:
    try:
        return x + 1, importlib.import_module(NAME).value, __import__(NAME).value
    except ImportError as error:
        return x, str(error), error.name


def below(x: torch.Tensor) -> Any:
    try:
        import framelift_missing.inner
    except ImportError as error:
        return x, str(error), error.name
    return x + 1, framelift_missing.inner.value


def from_package(x: torch.Tensor) -> Any:
    try:
        from framelift_missing import inner
    except ImportError as error:
        return x, str(error), error.name
    return x + 1, inner.value


def states(folder: pathlib.Path) -> Iterator[None]:
    """What is there before each call."""
    yield
    (folder / f"{NAME}.py").write_text("value = 1\n")
    importlib.invalidate_caches()
    yield
    (folder / f"{NAME}.py").unlink()
    forget()
    yield
    (folder / NAME).mkdir()
    (folder / NAME / "__init__.py").write_text("value = 2\n")
    importlib.invalidate_caches()
    yield
    (folder / NAME / "inner.py").write_text("value = 3\n")
    importlib.invalidate_caches()
    yield
    sys.modules[f"{NAME}.inner"] = types.ModuleType("inner")
    yield


@pytest.mark.parametrize("program", [by_statement, by_function, below, from_package])
def test_what_was_missing_comes(program: Callable[..., Any], folder: pathlib.Path) -> None:
    found = []
    for number, call in enumerate((program, compiled(program))):
        place = folder / str(number)
        place.mkdir()
        sys.path[-1] = str(place)
        forget()
        seen = []
        for _ in states(place):
            try:
                seen.append(str(call(torch.ones(2))).replace(str(place), ""))
            except AttributeError as error:
                seen.append(str(error))
        found.append(seen)
    assert found[0] == found[1]


BODIES = {"ImportError": "import framelift_no_such", "ValueError": "raise ValueError('own')", "SyntaxError": "a b"}


@pytest.mark.parametrize("kind", BODIES)
def test_a_module_that_fails(kind: str, folder: pathlib.Path) -> None:
    """Its code runs again at each call."""

    def f(x: torch.Tensor) -> Any:
        try:
            import framelift_missing
        except (ImportError, ValueError, SyntaxError) as error:
            return x, type(error)
        return x + 1, framelift_missing.value

    (folder / f"{NAME}.py").write_text(BODIES[kind])
    c = compiled(f)
    for _ in range(2):
        assert str(c(torch.ones(2))) == str(f(torch.ones(2)))
    (folder / f"{NAME}.py").write_text("value = 'it does not fail any more'")
    importlib.invalidate_caches()
    assert c(torch.ones(2))[1] == "it does not fail any more"
    with pytest.raises(framelift.exc.Unsupported):
        forget()
        (folder / f"{NAME}.py").write_text(BODIES[kind])
        compiled(f, fullgraph=True)(torch.ones(2))


@pytest.mark.parametrize("whole", [False, True])
def test_another_path(whole: bool, folder: pathlib.Path) -> None:
    (folder / "library").mkdir()
    (folder / "library" / f"{NAME}.py").write_text("value = 4")

    def f(x: torch.Tensor) -> Any:
        before = sys.path
        if whole:
            sys.path = [str(folder / "library")]
        else:
            sys.path.append(str(folder / "library"))
        try:
            import framelift_missing
        except ImportError:
            return x
        finally:
            sys.path = before
            if not whole:
                sys.path.pop()
        return x + framelift_missing.value

    c = compiled(f)
    for _ in range(2):
        assert c(torch.ones(2)).tolist() == [5, 5]
        forget()


def test_an_alias(folder: pathlib.Path) -> None:
    """The name under which a module is found is what decides, not the one it has."""
    one, other = types.ModuleType("one"), types.ModuleType("one")
    one.value, other.value = 1, 2  # type: ignore[attr-defined]

    def f(x: torch.Tensor) -> Any:
        import framelift_missing

        return x + framelift_missing.value + importlib.import_module(NAME).value

    c = compiled(f, fullgraph=True)
    for module in (one, other):
        sys.modules[NAME] = sys.modules["one"] = module
        assert torch.equal(c(torch.ones(2)), f(torch.ones(2)))
    del sys.modules["one"]


def test_a_file_that_captured_code_wrote(folder: pathlib.Path) -> None:
    def f(x: torch.Tensor) -> Any:
        with open(folder / f"{NAME}.py", "w", encoding="utf-8") as file:
            file.write("value = 6")
        importlib.invalidate_caches()
        import framelift_missing

        return x + framelift_missing.value

    with pytest.raises(framelift.exc.Unsupported):
        compiled(f, fullgraph=True)(torch.ones(2))
    assert compiled(f)(torch.ones(2)).tolist() == [7, 7]


def test_all_names_of_a_module(folder: pathlib.Path) -> None:
    def f(x: torch.Tensor) -> Any:
        names: dict[str, Any] = {}
        exec("from framelift_missing import *", names)
        return x + 1, sorted(names.keys() - {"__builtins__"})

    module = sys.modules[NAME] = types.ModuleType(NAME)
    c = compiled(f)
    for name in ("a", "b"):
        setattr(module, name, 1)
        assert str(c(torch.ones(2))) == str(f(torch.ones(2)))


def test_a_module_that_is_looked_for(folder: pathlib.Path) -> None:
    """What `find_spec` does not find is guarded; what it finds is made anew in each call, and breaks the graph."""

    def program(x: torch.Tensor) -> Any:
        return x * 2 if importlib.util.find_spec(NAME) is None else x + 1

    run = compiled(program)
    assert compiled(program, fullgraph=True)(torch.ones(2)).tolist() == run(torch.ones(2)).tolist() == [2.0, 2.0]
    (folder / f"{NAME}.py").write_text("")
    forget()
    assert run(torch.zeros(2)).tolist() == [1.0, 1.0]
    with pytest.raises(framelift.exc.Unsupported, match="find_spec"):
        compiled(program, fullgraph=True)(torch.ones(2))
