"""Compiling in the background: when the first result is there, and what calls cost before and after the swap.

    python benchmarks/background.py --device cuda --layers 16

One fresh process with an empty cache folder for each way.  The time of the first result begins at the call, in a
process that has imported framelift.  Results of 1,000 calls across the swap are compared with those of eager mode.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

from first_step import model_and_call

CALLS = 1000


def measure(background: bool, layers: int, device: str) -> dict[str, Any]:
    """The body of a fresh process."""
    import torch

    import framelift

    model, call, _ = model_and_call("llama", layers, device)
    done = torch.cuda.synchronize if device == "cuda" else lambda: None
    framelift.compile  # noqa: B018  (loads framelift)
    with torch.no_grad():
        expected = call(model).logits
        done()
        start = time.perf_counter()
        compiled = framelift.compile(model, background=background)
        call(compiled)
        done()
        first = time.perf_counter() - start
        ready, worst = (0.0 if background else first), 0.0
        for count in range(CALLS):
            if background and count == CALLS // 2:
                compiled.wait()
            worst = max(worst, float((call(compiled).logits - expected).abs().max()))
            if not ready and not framelift.stats()["compiling"]:
                ready = time.perf_counter() - start
        done()
        steady = time.perf_counter()
        for _ in range(50):
            call(compiled)
        done()
        steady = (time.perf_counter() - steady) / 50
    scale = float(expected.abs().max())
    return {"first": first, "ready": ready, "steady_ms": steady * 1e3, "difference": worst / scale}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--child", choices=("background", "blocking"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child == "background", options.layers, options.device)))
        return
    for way in ("background", "blocking"):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "--child", way, "--device", options.device]
            done = subprocess.run(
                [*command, "--layers", str(options.layers)],
                env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder, "FRAMELIFT_CACHE_DIR": folder},
                capture_output=True,
                text=True,
            )
        if done.returncode:
            raise RuntimeError(done.stderr[-3000:])
        found = json.loads(done.stdout.strip().splitlines()[-1])
        print(
            f"{way:12} first result {found['first']:6.2f} s, compiled after {found['ready']:6.2f} s, "
            f"a later call {found['steady_ms']:6.2f} ms, largest difference {found['difference']:.1e} of the largest",
            flush=True,
        )


if __name__ == "__main__":
    main()
