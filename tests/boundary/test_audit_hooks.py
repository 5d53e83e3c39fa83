"""Audit hooks of the program (sys.addaudithook) while a function is captured: our own work tells them little."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys, torch, framelift

heard = []
sys.addaudithook(lambda event, args: heard.append(event) if event in ("builtins.id", "object.__getattr__") else None)

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)

    def forward(self, x):
        return self.b(self.a(x)).relu()

model = torch.nn.Sequential(*[Layer() for _ in range(4)])
x = torch.ones(2, 4)
expected = model(x)
compiled = framelift.compile(model, backend="eager")
compiled(x)
framelift.reset()
heard.clear()
assert torch.equal(compiled(x), expected)
print(len(heard))
"""


def test_a_capture_reads_little_that_hooks_hear_of():
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100, done.stdout  # 36; 158 where code and identities are read as Python reads them
