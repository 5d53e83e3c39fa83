"""The demo: three models and a function captured, compared with eager and with TorchDynamo, run through Inductor.

make demo
python demo/demo.py --only bert
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import call as call_benchmark  # noqa: E402
import capture as capture_benchmark  # noqa: E402
import torch  # noqa: E402
from common import PROGRAMS, Program  # noqa: E402

import framelift  # noqa: E402

#: an 82-layer stack is measured by the benchmarks alone: Inductor needs minutes for it
SHOWN = [program for program in PROGRAMS if program.name != "stack"]
HEAD = (
    "program",
    "backend",
    "equal to eager",
    "graphs",
    "breaks",
    "capture: TorchDynamo / framelift",
    "call: TorchDynamo / framelift",
)


def main_output(result: Any) -> torch.Tensor:
    return result if isinstance(result, torch.Tensor) else result[0]


def run(program: Program, backend: str) -> tuple[str, str, str]:
    """Equal to eager on three calls, with the numbers of graphs and breaks."""
    framelift.reset()
    target, kwargs = program.make()
    compiled = framelift.compile(target, backend=backend)
    with torch.no_grad():
        want = main_output(target(**kwargs))
        results = [main_output(compiled(**kwargs)) for _ in range(3)]
    exact = all(torch.equal(want, got) for got in results)
    close = all(torch.allclose(want, got, rtol=1e-3, atol=1e-4) for got in results)
    stats = framelift.stats()
    verdict = "bit for bit" if exact else "within rounding" if close else "NO"
    return verdict, str(stats["graphs"]), str(sum(stats["breaks"].values()))


def rows(only: str) -> list[tuple[str, ...]]:
    found = []
    for program in SHOWN:
        if only not in program.name:
            continue
        print(f"... {program.name}", file=sys.stderr, flush=True)
        capture = capture_benchmark.measure(program, rounds=1)
        call = call_benchmark.measure(program, calls=100, rounds=3)
        found.append((program.name, "eager", *run(program, "eager"), f"{capture.ratio:.1f}x", f"{call.ratio:.1f}x"))
        found.append((program.name, "inductor", *run(program, "inductor"), "", ""))
    return found


def show(found: list[tuple[str, ...]]) -> None:
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        for row in (HEAD, *found):
            print(" | ".join(f"{cell:18}" for cell in row))
        return
    table = Table(*HEAD, title=f"framelift beside TorchDynamo, torch {torch.__version__}")
    for row in found:
        table.add_row(*row)
    Console(width=120).print(table)


def show_example() -> None:
    """What was captured, readable: graph, guards and entry of a small function."""
    scale = {"by": 3}

    def example(x: torch.Tensor, history: list[float]) -> torch.Tensor:
        history.append(scale["by"])
        return torch.sin(x) * scale["by"]

    compiled = framelift.compile(example, backend="eager")
    compiled(torch.rand(2), [])
    info = compiled.entries[0].info
    guards = [f"  {str(g)[:114]}" for g in info.guards]
    print("\nguards:", *guards, "\ngraph:", info.graph_module.code.strip(), "\nentry:", info.source.strip(), sep="\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a part of a program's name")
    found = rows(parser.parse_args().only)
    show(found)
    show_example()
    return 1 if any("NO" in row for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
