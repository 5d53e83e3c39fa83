"""A server's program: a model, what it warms up with, and workers that are forked.  Prints what each process saw."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch

import framelift


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()) for _ in "ab"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).sin() * 3 + x.sum()


def seen(compiled: Any, model: Model) -> dict[str, Any]:
    x = torch.arange(16.0).reshape(2, 8)
    with torch.no_grad():
        same = torch.allclose(compiled(x), model(x), atol=1e-6)
    stats = framelift.stats()
    names = ("captures", "loaded", "not_kept", "fallbacks")
    # a process that compiles loads Inductor's compiler
    return {**{name: stats[name] for name in names}, "same": same, "compiler": "torch._inductor.graph" in sys.modules}


def main() -> None:
    torch.manual_seed(0)
    model = Model().eval()
    compiled = framelift.compile(model)
    rows = [seen(compiled, model)]
    for _ in range(int(os.environ.get("WORKERS", "0"))):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                again = Model().eval()
                again.load_state_dict(model.state_dict())
                os.write(writing, json.dumps(seen(framelift.compile(again, isolate_recompiles=True), again)).encode())
            finally:
                os._exit(0)
        os.close(writing)
        rows.append(json.loads(os.read(reading, 1 << 16)))
        os.waitpid(child, 0)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
