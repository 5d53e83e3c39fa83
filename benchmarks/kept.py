"""Captures kept on disk: the first call of a fresh process that rehearses, and of one that loads.

    python benchmarks/kept.py --models llama bert --layers 4 --backend eager

For each model a fresh process captures with an empty folder, and a second one loads what the first one left.  Shown
are the wall time of the first call, and of its parts without the backend: the rehearsal, graph, guards and the
writing; or the loading.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

#: the work of a capture, but for the backend's
_OWN = ("rehearse", "graph", "entry", "guards", "keep", "load")


def first_call(name: str, layers: int, backend: str) -> dict[str, Any]:
    """The body of a fresh process."""
    import time

    import torch
    from first_step import model_and_call

    import framelift

    model, call, grad = model_and_call(name, layers, "cpu")
    with torch.set_grad_enabled(grad):
        call(model)  # torch's own kernels and libraries are loaded
        compiled = framelift.compile(model, backend=backend)
        start = time.perf_counter()
        call(compiled)
        wall = time.perf_counter() - start
    phases = {phase.name: phase.seconds for phase in compiled._compiled.entries[0].info.phases}
    stats = framelift.stats()
    return {"wall": wall, "phases": phases, **{key: stats[key] for key in ("captures", "loaded", "not_kept")}}


def fresh(name: str, layers: int, backend: str, folder: str) -> dict[str, Any]:
    """The first call in a process of its own."""
    places = {"FRAMELIFT_CACHE_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "inductor")}
    command = [sys.executable, os.path.abspath(__file__), "--inside", name, str(layers), backend]
    environment = {**os.environ, "FRAMELIFT_CACHE": "1", **places}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", default=["llama", "bert"])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--inside", nargs=3)
    asked = parser.parse_args()
    if asked.inside:
        name, layers, backend = asked.inside
        print(json.dumps(first_call(name, int(layers), backend)))
        return
    print(f"{'model':8} {'process':8} {'call ms':>8} {'own ms':>8}  counts")
    for name in asked.models:
        with tempfile.TemporaryDirectory() as folder:
            for process in ("first", "second"):
                row = fresh(name, asked.layers, asked.backend, folder)
                own = sum(seconds for phase, seconds in row["phases"].items() if phase in _OWN)
                counts = f"captures {row['captures']}, loaded {row['loaded']} {row['not_kept'] or ''}"
                print(f"{name:8} {process:8} {row['wall'] * 1e3:8.0f} {own * 1e3:8.0f}  {counts}", flush=True)


if __name__ == "__main__":
    main()
