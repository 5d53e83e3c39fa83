"""The program of test_processes.py: `save` writes packages, `load` runs them where every rehearsal raises."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

import framelift

SCALE = 2.0


def weighted(x: torch.Tensor, y: torch.Tensor, *, power: int = 3) -> dict[str, Any]:
    return {"sum": torch.relu(x @ y) * SCALE + power, "rows": x.shape[0]}


def around(module: torch.nn.Module, times: int) -> Any:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return module(x) * times

    return inner


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.drop(self.layer(x)))


def model() -> Block:
    torch.manual_seed(0)
    return Block()


def values() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(8.0).reshape(2, 4), torch.eye(4)


def save(folder: Path) -> dict[str, Any]:
    x, y = values()
    module = model().eval()
    function = framelift.compile(weighted, backend="inductor", fullgraph=True)
    function.aot_compile(((x, y), {"power": 5})).save_compiled_function(folder / "function")
    nested = framelift.compile(around(module, 3), backend="eager", fullgraph=True).aot_compile(((x,), {}))
    nested.save_compiled_function(folder / "nested", external_data={"module": module})
    return {"captures": framelift.stats()["captures"]}


def load(folder: Path) -> dict[str, Any]:
    x, y = values()
    module = model().eval()
    function = framelift.load_compiled_function(folder / "function")
    nested = framelift.load_compiled_function(folder / "nested", external_data={"module": module})
    found = {
        "function": function(x, y, power=5)["sum"].tolist() == weighted(x, y, power=5)["sum"].tolist(),
        "nested": torch.equal(nested(x), around(module, 3)(x)),
    }
    try:
        function(x, y)
    except RuntimeError as error:
        found["error"] = str(error)
    return found


def poison() -> None:
    """From now on nothing can be rehearsed."""
    from framelift.rehearsal.session import Rehearsal

    def refuse(*_args: Any, **_kwargs: Any) -> None:
        raise AssertionError("something was rehearsed")

    Rehearsal.__init__ = refuse  # type: ignore[method-assign]


if __name__ == "__main__":
    import programs  # the functions are found again by this module's name

    what, where = sys.argv[1:]
    if what == "load":
        poison()
    found = getattr(programs, what)(Path(where))
    stats = framelift.stats()
    print(json.dumps({**found, "rehearsed": stats["captures"], "loaded": stats["loaded"]}))
