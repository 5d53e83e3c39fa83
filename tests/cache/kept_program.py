"""The program of test_kept_processes.py, run in processes of their own: results and counts as JSON."""

from __future__ import annotations

import json
from typing import Any

import torch

import framelift

SCALE = 3


class Block(torch.nn.Module):
    factor = 2

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 4))
        self.drop = torch.nn.Dropout(0.5)
        self.norm = torch.nn.BatchNorm1d(4)
        self.options = {"bias": True, "names": ["a", "b"]}

    def forward(self, x: torch.Tensor, more: Any = None, *, power: float = 1.5) -> dict[str, Any]:
        y = self.norm(x + self.drop(self.inner(x)))
        if more is not None:
            y = y * len(more)
        return {"y": y * SCALE * self.factor, "rows": [x.shape[0], power], "names": tuple(self.options["names"])}


def in_parts(x: torch.Tensor, n: int) -> list[Any]:
    found = [x * n]
    for _ in range(2):
        framelift.graph_break()
        found.append(found[-1].reshape(2, -1) + x.shape[0] + SCALE)
    return found


def shown(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return [round(one, 5) for one in value.detach().double().flatten().tolist()]
    if isinstance(value, dict):
        return {key: shown(one) for key, one in value.items()}
    return [shown(one) for one in value] if isinstance(value, (list, tuple)) else value


def call(function: Any, model: Block, train: bool) -> list[Any]:
    torch.manual_seed(1)
    model.train(train)
    x = torch.arange(12.0).reshape(3, 4).requires_grad_()
    result = function(x, more=("one", "two"))
    if train:
        result["y"].sum().backward()
    return [shown(result), shown(x.grad) if train else None, shown(model.norm.running_mean)]


def main() -> None:
    rows = []
    for train in (False, True):
        torch.manual_seed(0)
        eager, model = Block(), Block()
        model.load_state_dict(eager.state_dict())
        rows.append([call(eager, eager, train), call(framelift.compile(model, backend="eager"), model, train)])
    parts = framelift.compile(in_parts, backend="eager")
    for size, n in ((4, 1), (6, 2), (8, 3)):
        x = torch.arange(float(size))
        rows.append([shown(in_parts(x, n)), shown(parts(x, n))])
    stats = framelift.stats()
    print(json.dumps({"rows": rows, **{name: stats[name] for name in ("captures", "loaded", "not_kept")}}))


if __name__ == "__main__":
    main()
