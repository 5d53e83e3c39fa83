"""Functions of torch's that the program replaced before framelift was loaded: they run, as often as in eager mode.

Left out are functions that torch's own Python code calls while it computes metadata: it finds them by name.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

PROGRAM = textwrap.dedent("""
    import torch
    import torch.nn.functional as F

    calls = []

    def wrap(owner, name, factor):
        original = getattr(owner, name)

        def wrapper(*args, **kwargs):
            calls.append(name)
            result = original(*args, **kwargs)
            return torch.mul(result, factor) if isinstance(result, torch.Tensor) else result
        setattr(owner, name, wrapper)

    for owner, names in ((F, "relu dropout linear layer_norm mse_loss"), (torch, "add zeros cat"),
                         (torch.Tensor, "add sum chunk sigmoid")):
        for name in names.split():
            wrap(owner, name, 2)

    import framelift
    framelift.config.strict = True

    linear, norm = torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)
    PROGRAMS = {
        "relu": lambda x: F.relu(x) * torch.nn.ReLU()(x),
        "dropout": lambda x: F.dropout(x, 0.0) * torch.nn.Dropout(0.0)(x),
        "linear": lambda x: linear(x) * F.linear(x, linear.weight),
        "layer_norm": lambda x: norm(x),
        "mse_loss": lambda x: torch.nn.MSELoss()(x, x * 2),
        "torch.add": lambda x: torch.add(x, 1) * x,
        "zeros": lambda x: x - torch.zeros(4),
        "cat": lambda x: torch.cat([x, x]),
        "add": lambda x: x.add(1) * 2,
        "sum": lambda x: x.sum() * torch.sum(x),
        "chunk": lambda x: x.chunk(2)[0] * 2,
        "sigmoid": lambda x: x.sigmoid() * torch.sigmoid(x),
    }
    for backend in ("eager", "aot_eager"):
        for name, program in PROGRAMS.items():
            compiled = framelift.compile(program, backend=backend)
            for _ in range(2):
                x, seen = torch.arange(4.0) - 1, []
                for function in (program, compiled):
                    calls.clear()
                    seen.append((function(x), list(calls)))
                (expected, before), (given, after) = seen
                if not torch.equal(expected, given) or before != after:
                    print(backend, name, expected, given, before, after)
""")


def test_wrappers_run_once_per_call() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout == "", done.stdout + done.stderr[-3000:]
