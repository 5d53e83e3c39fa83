"""Pages of docs/adding are followed in a copy of the tree: what each adds is there afterwards, and was not before."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from support import compiled, counts

xxlimited = pytest.importorskip("xxlimited")  # of CPython's own tests: framelift knows nothing of it

#: (file below src/framelift, text that is there, text that stands in its place)
EDITS = {
    "pure_function": (
        "calls/pure/stdlib_functions.py",
        '    Functions("array", {"pure": "_array_reconstructor"}),\n',
        '    Functions("array", {"pure": "_array_reconstructor"}),\n    Functions("xxlimited", {"pure": "foo"}),\n',
    ),
    "torch_special_case": (
        "recording/rules/special_cases.py",
        '@rule(*_named("dim ndimension", *_TENSOR))\n',
        "@rule(torch.Tensor.trace)\n"
        "def _trace(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:\n"
        "    diagonal = recorder.record(target_of(torch.Tensor.diagonal), args, kwargs)\n"
        "    return recorder.record(target_of(torch.Tensor.sum), (diagonal,), {})\n\n\n"
        '@rule(*_named("dim ndimension", *_TENSOR))\n',
    ),
}

PROGRAM = """
import torch, xxlimited, framelift

def scaled(x):
    return x * xxlimited.foo(2, 3)

def traced(x):
    return x.trace() + 1

x, graphs = torch.arange(9.0).reshape(3, 3), []

def backend(graph, inputs):
    graphs.append([node.target.__name__ if callable(node.target) else node.target for node in graph.graph.nodes])
    return graph

for program in (scaled, traced):
    assert torch.equal(framelift.compile(program, backend=backend, fullgraph=True)(x), program(x))
print(framelift.__file__, *graphs[1], sep="|")
"""


def _scaled(x: torch.Tensor) -> Any:
    return x * xxlimited.foo(2, 3)


def test_nothing_of_it_is_there_before() -> None:
    start = counts().total_breaks
    compiled(_scaled)(torch.ones(2))
    assert counts().total_breaks == start + 1
    graphs: list[str] = []

    def backend(graph: torch.fx.GraphModule, _inputs: list[Any]) -> Any:
        graphs.append(graph.code)
        return graph

    framelift.compile(lambda x: x.trace(), backend=backend)(torch.ones(2, 2))
    assert "trace" in graphs[0] and "diagonal" not in graphs[0]


def test_what_the_pages_say_is_enough(tmp_path: Path) -> None:
    copy = tmp_path / "framelift"
    shutil.copytree(Path(framelift.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for file, old, new in EDITS.values():
        text = (copy / file).read_text(encoding="utf8")
        assert text.count(old) == 1
        (copy / file).write_text(text.replace(old, new), encoding="utf8")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    file, *nodes = done.stdout.strip().split("|")
    assert Path(file).parent == copy and nodes[1:3] == ["diagonal", "sum"]
