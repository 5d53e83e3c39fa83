"""Capture works without TorchDynamo.

Its tracer, guards and frame hook are poisoned, and models are captured all the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import framelift

TESTS = Path(__file__).resolve().parents[1]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(Path(framelift.__file__).resolve().parents[1]), str(TESTS)]),
}

POISON = """
import sys
import torch
import torch._dynamo, torch._dynamo.convert_frame, torch._dynamo.symbolic_convert
import torch._dynamo.guards, torch._dynamo.eval_frame
import torch._C._dynamo.eval_frame as native

def poisoned(name):
    def refuse(*args, **kwargs):
        print("TorchDynamo was used:", name, flush=True)
        import os
        os._exit(3)
    return refuse

# torch's own code switches the hook off (None) around some functions; installing a tracer is what must not happen.
off = native.set_eval_frame
native.set_eval_frame = torch._dynamo.eval_frame.set_eval_frame = \
    lambda callback: off(callback) if callback in (None, False) else poisoned("set_eval_frame")()
for name in ("convert_frame", "convert_frame_assert", "_compile", "catch_errors_wrapper", "compile_frame"):
    if hasattr(torch._dynamo.convert_frame, name):
        setattr(torch._dynamo.convert_frame, name, poisoned(name))
guards = torch._dynamo.guards
for cls in (torch._dynamo.symbolic_convert.InstructionTranslatorBase, guards.GuardBuilder, guards.CheckFunctionManager):
    cls.__init__ = poisoned(cls.__name__)
torch.compile = poisoned("torch.compile")
torch.set_num_threads(1)
import framelift
"""

BERT = (
    POISON
    + """
from models import MODELS
model, inputs = MODELS["bert"]()
with torch.no_grad():
    want = model(**inputs)
    compiled = framelift.compile(model, backend="eager", fullgraph=True)
    for _ in range(2):
        got = compiled(**inputs)
        assert torch.equal(want.last_hidden_state, got.last_hidden_state)
assert framelift.stats()["graphs"] == 1
print("fine")
"""
)

SMALL = (
    POISON
    + """
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
x = torch.rand(3, 4)
want = net(x)
for backend in ("aot_eager", "inductor"):
    framelift.reset()
    compiled = framelift.compile(net, backend=backend, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), want)
    compiled(x).sum().backward()
    assert net[0].weight.grad is not None
    assert framelift.stats()["graphs"] == 1
print("fine")
"""
)


@pytest.mark.parametrize(
    "program",
    [pytest.param(BERT, id="bert-eager", marks=pytest.mark.slow), pytest.param(SMALL, id="small-aot_eager-inductor")],
)
def test_capture_without_torchdynamo(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=ENVIRONMENT, timeout=300)
    assert done.returncode == 0 and done.stdout.strip().endswith("fine"), done.stdout + done.stderr[-3000:]


def test_importing_framelift_does_not_import_torchdynamo() -> None:
    program = (
        "import torch, sys; before = set(sys.modules); import framelift; "
        "print([m for m in set(sys.modules) - before if m.startswith('torch._dynamo')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=ENVIRONMENT, timeout=120)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr[-2000:]
