"""framelift.capture: the contract for engines, and an engine in small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift.exc import IncorrectUsage, PackageError, Unsupported, WrongValue

PROGRAM = Path(__file__).with_name("engine_in_small.py")
KEY = b"a key of 16 bytes"


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, scale: int = 2) -> dict[str, Any]:
        return {"y": torch.relu(self.inner(x)) * scale, "rows": x.shape[0]}


MODEL = Scaled()


def serves(run: Any, *rows: int) -> list[bool]:
    """For each number of rows: whether the callable takes it.  What it gives is compared."""
    found = []
    for count in rows:
        x = torch.randn(count, 3)
        try:
            got = run(x)
        except IncorrectUsage:
            found.append(False)
            continue
        want = MODEL(x)
        assert torch.equal(got["y"], want["y"]) and got["rows"] == want["rows"]
        found.append(True)
    return found


@pytest.mark.parametrize("loaded", (False, True))
@pytest.mark.parametrize(
    ("guards", "sizes", "taken"),
    (
        ("all", {"dynamic": False}, [True, False, False, False]),
        ("all", {"dynamic": True}, [True, True, False, False]),
        ("shapes", {"dynamic": {0: 0}}, [True, True, False, False]),
        ("all", {"unbacked": {"x": 0}}, [True, True, True, True]),
        ("none", {"dynamic": True}, [True, True, True, True]),
        ("none", {"dynamic": {0: [0]}}, [True, True, True, True]),
        ("none", {"unbacked": {0: 0}}, [True, True, True, True]),
    ),
)
def test_which_calls_a_capture_serves(
    guards: str, sizes: dict[str, Any], taken: list[bool], loaded: bool, tmp_path: Path
) -> None:
    named = "x" in next(iter(sizes.values())) if isinstance(next(iter(sizes.values())), dict) else False
    x = torch.ones(4, 3)
    before = dict(x.__dict__)
    found = framelift.capture(
        MODEL, *([] if named else [x]), kwargs={"x": x} if named else None, guards=guards, **sizes
    )
    assert x.__dict__ == before and found.guards_kept == guards
    run = (lambda x: found.callable()(x=x)) if named else found.callable()
    if loaded:
        found.save(tmp_path / "one", key=KEY)
        example = {"x": torch.ones(4, 3)}
        again = framelift.load_capture(
            tmp_path / "one", MODEL, *([] if named else example.values()), kwargs=example if named else None, key=KEY
        )
        assert [(row.place, row.kind) for row in again.guards] == [(row.place, row.kind) for row in found.guards]
        assert [row.place for row in again.inputs] == [row.place for row in found.inputs]
        assert [(row.name, row.modules, row.stack) for row in again.nodes] == [
            (row.name, row.modules, row.stack) for row in found.nodes
        ]
        run = (lambda x: again.callable()(x=x)) if named else again.callable()
    assert serves(run, 4, 7, 1, 0) == taken


def test_what_is_not_looked_at() -> None:
    scale = [2]

    def program(x: torch.Tensor) -> torch.Tensor:
        return x * scale[0]

    runs = {
        name: framelift.capture(program, torch.ones(2), guards=name).callable() for name in ("all", "shapes", "none")
    }
    scale[0] = 3
    with pytest.raises(IncorrectUsage, match="do not hold"):
        runs["all"](torch.ones(2))
    assert runs["shapes"](torch.ones(2)).tolist() == runs["none"](torch.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(IncorrectUsage, match="do not hold"):
        runs["shapes"](torch.ones(3))


def test_the_record() -> None:
    found = framelift.capture(MODEL, torch.ones(4, 3), dynamic=True)
    places = [row.place for row in found.inputs if isinstance(row.example, torch.Tensor)]
    assert places[0] == "args[0]" and "['inner']" in places[1] and found.contract == 1
    linear, relu, _ = found.nodes
    assert linear.modules == ("L['self']", "L['self'].inner") and relu.modules == ("L['self']",)
    assert "test_engine.py" in relu.stack and "torch.relu" in relu.stack
    assert isinstance(linear.example.shape[0], torch.SymInt) and linear.example.shape[1] == 3
    assert any(row.kind == "TENSOR" and row.place == "args[0]" for row in found.guards) and "def entry" in found.source

    def compiled(*inputs: Any) -> Any:
        return [one + 1 for one in found.graph_module(*inputs)]

    x = torch.randn(2, 3)
    assert torch.equal(found.callable(compiled)(x)["y"], MODEL(x)["y"] + 1)


def test_nothing_of_the_program_happens() -> None:
    seen: list[Any] = []

    def program(x: torch.Tensor) -> torch.Tensor:
        seen.append(x)
        return x.add_(1)

    x = torch.zeros(2)
    found = framelift.capture(program, x)
    assert not seen and x.tolist() == [0.0, 0.0]
    assert found.callable()(x) is x and seen == [x] and x.tolist() == [1.0, 1.0]
    number = framelift.capture(lambda n: n + 1, 3)
    assert number.graph_module is None and number.inputs == number.nodes == [] and number.callable()(3) == 4


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(WrongValue, match='"all", "shapes" or "none"'):
        framelift.capture(MODEL, torch.ones(1, 3), guards="some")
    with pytest.raises(Unsupported):
        framelift.capture(lambda x: x * 2 if x.sum() > 0 else x, torch.ones(2))
    framelift.capture(MODEL, torch.ones(4, 3)).save(tmp_path / "one", key=KEY)
    with pytest.raises(PackageError, match="signed with a key that is not known"):
        framelift.load_capture(tmp_path / "one", MODEL, torch.ones(4, 3))
    other = torch.nn.Sequential()
    with pytest.raises((PackageError, IncorrectUsage)):
        framelift.load_capture(tmp_path / "one", other, torch.ones(4, 3), key=KEY)


def test_the_name_is_the_functions_whatever_is_imported_before() -> None:
    said = "import framelift.capture.driver, framelift.testing; print(callable(framelift.capture))"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, timeout=100)
    assert done.stdout == "True\n", done.stderr


def test_an_engine_in_small(tmp_path: Path) -> None:
    def run(how: str) -> dict[str, Any]:
        inside = {**os.environ, "FRAMELIFT_CACHE_DIR": str(tmp_path / f"{how} keys")}
        done = subprocess.run(
            [sys.executable, str(PROGRAM), how, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            env=inside,
            timeout=200,
        )
        assert done.returncode == 0
        return json.loads(done.stdout.splitlines()[-1])

    cold, warm = run("cold"), run("warm")
    assert cold["differs"] == warm["differs"] == [] and cold["guards"] == warm["guards"] == 0
    assert (cold["captures"], cold["compiled"], cold["found"]) == (1, 3, 0)
    assert (warm["captures"], warm["compiled"], warm["found"]) == (0, 0, 3)
    for what in ("places", "modules", "stacks"):
        assert cold[what] == warm[what]
    assert cold["stacks"] and cold["modules"][:2] == ["L['self'].layers.0.before", "L['self'].layers.0"]
