"""Deep programs: captured code fails at no depth at which plain Python does not, and a row of breaks adds no frames."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift import graph_break

_FRAMES: list[int] = []


@framelift.disable
def off(value):
    frame, count = sys._getframe(1), 0
    while frame is not None:
        frame, count = frame.f_back, count + 1
    _FRAMES.append(count)
    return value


def in_a_loop(x):
    for i in range(1000):
        x = x + off(1)
    return x


def _row(count: int) -> Callable[..., Any]:
    lines = [f"    x = x + off({i % 3})" for i in range(count)]
    namespace: dict[str, Any] = {"off": off}
    exec(
        compile("\n".join(["def in_a_row(x):", *lines, "    return x"]), "/programs/row.py", "exec", dont_inherit=True),
        namespace,
    )
    return namespace["in_a_row"]


def nested(x, n=200):
    if n == 0:
        return off(x) + 1
    x = x + 1
    graph_break()
    return nested(x, n - 1) + 1


@pytest.mark.parametrize("f", (in_a_loop, _row(40), nested), ids=lambda f: f.__name__)
def test_breaks_add_no_frames(f) -> None:
    found = []
    compiled = framelift.compile(f, backend="eager")
    for call in (f, compiled, compiled):
        _FRAMES.clear()
        result = call(torch.ones(1))
        found.append((result, max(_FRAMES), min(_FRAMES)))
    assert all(torch.equal(found[0][0], one[0]) and found[0][1:] == one[1:] for one in found)


_DEEP = """
import sys, warnings
import torch, framelift
from framelift import graph_break
warnings.simplefilter("ignore")

@framelift.disable
def off(value):
    return value

def broken(x, n):
    if n == 0:
        return off(x) + 1
    x = x + 1
    graph_break()
    return broken(x, n - 1) + 1

def leaf(x, n):
    if n == 0:
        off(0)
        return x * 2 + 1
    graph_break()
    return leaf(x, n - 1)

def fits(f, n):
    try:
        f(torch.ones(1), n)
    except RecursionError:
        return False
    return True

def deepest(f):
    least, most = 0, 1200
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if fits(f, middle) else (least, middle - 1)
    return least

sys.setrecursionlimit(1000)
found = []
for f in (broken, leaf):
    depth, compiled = deepest(f), framelift.compile(f, backend="eager")
    found += [fits(compiled, depth - 1), fits(compiled, depth), fits(framelift.compile(f, backend="eager"), depth)]
print(found)
"""


def test_captured_code_goes_as_deep_as_plain_python() -> None:
    """In a process of its own, where nothing stands below."""
    out = subprocess.run([sys.executable, "-c", _DEEP], capture_output=True, text=True, check=True)
    assert out.stdout.split("\n")[-2] == str([True] * 6), out.stdout


_LIMIT = """
import sys
import torch
import framelift

def down(x, n):
    return x + 1 if n == 0 else down(x, n - 1) + 1

def caught(x, n):
    try:
        return down(x, n)
    except RecursionError:
        return x - 1

sys.setrecursionlimit(1000)
for n in (100, 900, *range(960, 1010, 3), 1100, 1400, 2000):
    framelift.reset()
    compiled = framelift.compile(caught, backend="eager")
    plain, deeper = caught(torch.zeros(1), n).item(), n + 1.0
    found = [compiled(torch.zeros(1), n).item() for _ in range(2)]
    assert found == [plain] * 2 or found == [deeper] * 2 and plain != caught(torch.zeros(1), n - 4).item(), n
"""


def test_captured_code_reaches_the_limit_where_plain_python_does() -> None:
    """Or a few frames later: a callee that is captured by itself needs no frame."""
    done = subprocess.run([sys.executable, "-c", _LIMIT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
