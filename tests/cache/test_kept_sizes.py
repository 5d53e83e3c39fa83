"""A process that starts serves each size by the capture that served it in the process which made the captures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COLD, WARM = "8 8 5 8 7 8", "8 5 8 7 8"


def process(folder: Path, backend: str, sizes: str, **environment: str) -> dict[str, Any]:
    """The calls of a process: [size, capture, bits of the loss and the gradients], and how many were rehearsed."""
    places = {
        "FRAMELIFT_CACHE": "1",
        "FRAMELIFT_CACHE_DIR": str(folder),
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
    }
    command = [sys.executable, str(Path(__file__)), backend, sizes]
    inside = {**os.environ, **places, **environment}
    done = subprocess.run(command, env=inside, stdout=subprocess.PIPE, text=True, timeout=900, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compared(folder: Path, backend: str) -> None:
    cold, warm = process(folder, backend, COLD), process(folder, backend, WARM)
    assert cold["captures"] == 2 and warm["captures"] == 0 and warm["loaded"] == 2
    assert warm["calls"] == cold["calls"][1:]
    assert [row[1] for row in warm["calls"][:2]] == ["8", "symbolic"]


@pytest.mark.slow
def test_a_warm_start_serves_each_size_as_the_cold_one_did(tmp_path: Path) -> None:
    compared(tmp_path, "eager")


@pytest.mark.slow
def test_equal_bits_under_inductor(tmp_path: Path) -> None:
    compared(tmp_path, "inductor")


def main(backend: str, sizes: str) -> None:
    """The body of a process."""
    import torch

    import framelift

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1))
    compiled = framelift.compile(model, backend=backend)
    rows = []
    for size in map(int, sizes.split()):
        hits = {id(entry): entry.hits for entry in compiled._compiled.entries}
        model.zero_grad()
        x = torch.arange(size * 4.0).reshape(size, 4).sin()
        loss = compiled(x).square().mean()
        loss.backward()
        (entry,) = [one for one in compiled._compiled.entries if one.hits > hits.get(id(one), 0)]
        bits = [one.detach().flatten().tolist() for one in (loss, *[p.grad for p in model.parameters()])]
        rows.append(
            [size, "symbolic" if entry.info.relations is not None else str(size), [[v.hex() for v in r] for r in bits]]
        )
    stats = framelift.stats()
    print(json.dumps({"calls": rows, "captures": stats["captures"], "loaded": stats["loaded"]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
