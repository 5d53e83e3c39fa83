"""Warnings of torch's own operations come when the graph runs: as often as in plain Python, whatever was tried."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from support import compiled

ONCE = """
import sys, warnings, torch, framelift
cross, grid = lambda x: torch.cross(x, x), lambda x: torch.meshgrid(x[0], x[1])[0]
programs = [cross, grid, lambda x: x[None].T, lambda x: x.T.to(torch.int64)]
for program in programs:
    program = framelift.compile(program, backend="eager") if sys.argv[1] == "captured" else program
    for dtype in (torch.float32, torch.complex64):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            for _ in range(2):
                program(torch.ones(3, 5, dtype=dtype))
        print([str(one.message) for one in heard])
"""


def test_what_torch_says_once_in_a_process_is_said() -> None:
    said = [
        subprocess.run([sys.executable, "-c", ONCE, how], capture_output=True, text=True, check=True).stdout
        for how in ("plain", "captured")
    ]
    assert said[0] == said[1] and said[0].count("deprecated") >= 2


def _heard(program: Any, *args: Any) -> list[str]:
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            program(*args)
    finally:
        torch.set_warn_always(before)
    return [str(one.message) for one in heard]


@pytest.mark.parametrize(
    "program, arg",
    [
        pytest.param(lambda x: torch.cross(x, x), torch.ones(3, 5, dtype=torch.int64), id="tried for its dtype"),
        pytest.param(lambda x: x.to(torch.float32), torch.ones(3, dtype=torch.complex64), id="a cast"),
        pytest.param(lambda x: x.fill_(0).T, torch.ones(2, 2, 2, dtype=torch.int64), id="behind a write"),
        pytest.param(lambda x: F.dropout2d(x, 0.5, training=False), torch.ones(2, 3, 4), id="gives its input"),
        pytest.param(lambda x: torch.std(x[:0]), torch.ones(3), id="of a size"),
    ],
)
def test_as_often_as_in_plain_python(program: Any, arg: torch.Tensor) -> None:
    wanted = _heard(program, arg.clone())
    assert len(wanted) == 1
    captured = compiled(program)
    for _ in range(2):
        assert _heard(captured, arg.clone()) == wanted
