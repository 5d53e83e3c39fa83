"""Triton kernels launched from captured code, run by Triton's interpreter where there is no accelerator.

Skipped without Triton.
"""

from __future__ import annotations

import os
import subprocess
import sys
import importlib.util

import pytest

PROGRAM = """
import logging, os, sys
os.environ["TRITON_INTERPRET"] = "1"
import torch, triton, triton.language as tl
import framelift
# the interpreter's kernels have no code to look at
logging.getLogger("torch._higher_order_ops.triton_kernel_wrap").setLevel(logging.ERROR)

@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < n
    tl.store(out_ptr + places, tl.load(x_ptr + places, mask=inside) + tl.load(y_ptr + places, mask=inside), mask=inside)

def launched(x, y):
    out = torch.empty_like(x)
    n = x.numel()
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x.sin(), y, out, n, BLOCK=64)
    return out * 2

def writing(x, y):
    add_kernel[(2,)](x, y, y, x.shape[0], 64)
    return y + 1

for backend in ("eager", "aot_eager"):
    for fn in (launched, writing):
        framelift.reset()
        compiled = framelift.compile(fn, backend=backend, fullgraph=True)
        for n in (100, 100, 90, 80):
            x, y = torch.randn(n), torch.randn(n)
            other = y.clone()
            assert torch.equal(compiled(x, y), fn(x, other)) and torch.equal(y, other)
        assert framelift.stats()["captures"] == framelift.stats()["graphs"] == 2, framelift.stats()
"""

HELPERS = """
import torch, triton
import framelift

def sized(x):
    return x + triton.cdiv(x.numel(), 64)

assert framelift.compile(sized, backend="eager", fullgraph=True)(torch.ones(130))[0] == 4
assert framelift.stats()["graphs"] == 1, framelift.stats()
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
@pytest.mark.parametrize("program", [PROGRAM, HELPERS])
def test_launches_are_captured(tmp_path: object, program: str) -> None:
    path = os.path.join(str(tmp_path), "program.py")  # kernels are read from their file
    with open(path, "w") as file:
        file.write(program)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
