"""What the benchmarks and the demo share: the programs, the two front ends, CPU time, and the table that is printed.

Only ratios between the two front ends, measured in one process by turns, mean anything: seconds depend on the machine.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
warnings.filterwarnings("ignore")

import torch  # noqa: E402
from models import MODELS  # noqa: E402
from stack import stack  # noqa: E402

import framelift  # noqa: E402

__all__ = ["FRONT_ENDS", "PROGRAMS", "Program", "Row", "cpu_seconds", "print_rows", "reset", "stored_outputs"]

torch.set_num_threads(1)


@dataclass(frozen=True)
class Program:
    """`make()` gives a callable and its keyword arguments, fresh each time."""

    name: str
    make: Callable[[], tuple[Any, dict[str, Any]]]


@dataclass(frozen=True)
class Row:
    """One measured program."""

    name: str
    framelift: float
    dynamo: float

    @property
    def ratio(self) -> float:
        return self.dynamo / self.framelift


def three_tensors(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return a + b * c


PROGRAMS = [
    *(Program(name, make) for name, make in (MODELS | {"stack": stack}).items()),
    Program("function of three tensors", lambda: (three_tensors, {k: torch.rand(3) for k in "abc"})),
]

#: name -> (compile, forget everything)
FRONT_ENDS: dict[str, tuple[Callable[..., Any], Callable[[], None]]] = {
    "framelift": (framelift.compile, framelift.reset),
    "dynamo": (torch.compile, lambda: torch._dynamo.reset()),
}


def reset() -> None:
    """Both front ends forget their entries."""
    for _, forget in FRONT_ENDS.values():
        forget()
    gc.collect()


def stored_outputs(graph_module: Any, example_inputs: Any) -> Callable[..., Any]:
    """A backend that computes once and then answers with the stored outputs: what remains is the front end's own
    cost."""
    answer: list[Any] = []

    def run(*inputs: Any) -> Any:
        if not answer:
            answer.append(graph_module.forward(*inputs))
        return answer[0]

    return run


def cpu_seconds(call: Callable[[], Any]) -> float:
    """CPU time of this process for one call, the collector off."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        call()
        return time.process_time() - start
    finally:
        gc.enable()


def median(values: list[float]) -> float:
    return statistics.median(values)


def print_rows(title: str, unit: str, scale: float, rows: list[Row], as_json: bool) -> None:
    """A plain table, or JSON lines for other programs."""
    if as_json:
        print(json.dumps({"title": title, "rows": [asdict(r) | {"ratio": r.ratio} for r in rows]}))
        return
    print(f"{title}\n{'':28}{'framelift':>14}{'TorchDynamo':>14}{'ratio':>8}")
    for row in rows:
        print(f"{row.name:28}{row.framelift * scale:>11.2f} {unit}{row.dynamo * scale:>11.2f} {unit}{row.ratio:>7.1f}x")
