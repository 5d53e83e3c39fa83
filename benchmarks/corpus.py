"""Capture time and call overhead over a whole corpus of models, beside TorchDynamo, both in one process for each model.

    python benchmarks/corpus.py CORPUS --group hf timm --jobs 2 [--stride 10 --first 3] [--only bert t5] [--json FILE]
    python benchmarks/corpus.py --show FILE...

CORPUS is a folder with `corpus.py` (models and inputs, in its table `CASES`).  Capture: CPU time of the first call of a
callable in a process that has captured the model before, without the time its graphs run; the better of two, by turns.
Call: CPU time of a call with a backend that answers with stored outputs, the median of batches of 50, by turns.
The backend of both is eager.  A model counts where both front ends capture it and its results can be stored.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

_ROUNDS = 2  # captures of each front end
_BATCHES = 15  # batches of calls of each front end
_CALLS = 50  # of a batch, so that what the other front end left in the processor's caches counts little
_BATCH_SECONDS = 0.05  # and fewer calls where they would take longer
_BARS = (1, 2, 4, 6, 8, 10, 12, 15, 20, 25, 30, 40, 60)


def _cases(corpus: str) -> Any:
    sys.path.insert(0, corpus)
    import corpus as cases  # type: ignore[import-not-found]  # of the user's folder

    return cases.CASES


def _stored_outputs(graph_module: Any, _inputs: Any) -> Callable[..., Any]:
    """A backend that computes once; results that need gradients are leaves, so that no graph of autograd is kept."""
    import torch

    answer: list[Any] = []

    def leaf(value: Any) -> Any:
        is_differentiable = isinstance(value, torch.Tensor) and value.requires_grad
        return value.detach().requires_grad_() if is_differentiable else value

    def run(*inputs: Any) -> Any:
        if not answer:
            answer.append(tuple(map(leaf, graph_module.forward(*inputs))))
        return answer[0]

    return run


def _timed(graphs: list[float]) -> Callable[..., Any]:
    """The eager backend; `graphs` gets one figure for each graph, the CPU seconds of its calls."""

    def backend(graph_module: Any, _inputs: Any) -> Any:
        place = len(graphs)
        graphs.append(0.0)

        def run(*inputs: Any) -> Any:
            start = time.process_time()
            try:
                return graph_module.forward(*inputs)
            finally:
                graphs[place] += time.process_time() - start

        return run

    return backend


def measure(case: Any) -> dict[str, Any]:
    """The figures of one model: seconds for a capture and for a call, and graphs, of each front end."""
    import torch
    from common import FRONT_ENDS, cpu_seconds, reset

    built = case.build()
    grad = contextlib.nullcontext if built.grad else torch.no_grad

    def call(function: Any) -> Any:
        args, kwargs = built.inputs(0)
        with grad():
            return built.driver(function, args, kwargs) if built.driver else function(*args, **kwargs)

    call(built.target)
    figures: dict[str, Any] = {}
    captures: dict[str, list[float]] = {name: [] for name in FRONT_ENDS}
    for _ in range(1 + _ROUNDS):
        for name, (compile_, _) in FRONT_ENDS.items():
            reset()
            built = case.build()
            graphs: list[float] = []
            compiled = compile_(built.target, backend=_timed(graphs))
            captures[name].append(cpu_seconds(functools.partial(call, compiled)) - sum(graphs))
            figures[f"{name}_graphs"] = len(graphs)
    for name, seconds in captures.items():
        figures[f"{name}_capture"] = min(seconds[1:])
    if built.replay and not built.time_driver:
        reset()
        built = case.build()
        figures |= _calls(built, grad, {name: compile_ for name, (compile_, _) in FRONT_ENDS.items()})
    return figures


def _calls(built: Any, grad: Callable[[], Any], compilers: dict[str, Any]) -> dict[str, float]:
    """Seconds for a call of each front end."""
    import statistics

    args, kwargs = built.inputs(0)
    functions = {name: compile_(built.target, backend=_stored_outputs) for name, compile_ in compilers.items()}
    found: dict[str, list[float]] = {name: [] for name in functions}
    with grad():
        slowest = 0.0
        for function in functions.values():
            for _ in range(8):
                start = time.perf_counter()
                function(*args, **kwargs)
            slowest = max(slowest, time.perf_counter() - start)
        count = max(1, min(_CALLS, int(_BATCH_SECONDS / slowest)))
        for _ in range(_BATCHES):
            for name, function in functions.items():
                start = time.process_time()
                for _ in range(count):
                    function(*args, **kwargs)
                found[name].append((time.process_time() - start) / count)
    return {f"{name}_call": statistics.median(seconds) for name, seconds in found.items()}


def each(corpus: str, names: list[str]) -> None:
    """The body of a process: one line of JSON for each model, which has a fork of its own."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import logging

    import common  # noqa: F401  (both front ends, once for all models)

    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
    cases = _cases(corpus)
    for name in names:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                result: dict[str, Any] = measure(cases[name])
            except BaseException as error:
                result = {"error": f"{type(error).__name__}: {error}"[:300]}
            os.write(writing, (json.dumps({"name": name} | result) + "\n").encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            print(pipe.read().strip() or json.dumps({"name": name, "error": "the process ended"}), flush=True)
        os.waitpid(child, 0)


def _mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def show(rows: list[dict[str, Any]], worst: int = 12) -> None:
    """Geometric means, the worst models and a histogram of both ratios."""
    print(f"{len(rows)} models, {sum('error' in row for row in rows)} could not be measured")
    for what in ("capture", "call"):
        ratios = sorted(
            (row[f"dynamo_{what}"] / row[f"framelift_{what}"], row["name"], row[f"framelift_{what}"])
            for row in rows
            if f"dynamo_{what}" in row and f"framelift_{what}" in row
        )
        if not ratios:
            continue
        values = [ratio for ratio, _, _ in ratios]
        print(f"{what}: {_mean(values):.1f} times less (geometric mean of {len(values)}), worst {values[0]:.1f}")
        print("  worst: " + ", ".join(f"{name} {ratio:.1f} ({s * 1e6:.0f} us)" for ratio, name, s in ratios[:worst]))
        for low, high in zip(_BARS, (*_BARS[1:], math.inf)):
            count = sum(low <= value < high for value in values)
            print(f"  {low:3d} to {high:3.0f} {'#' * -(-count * 60 // len(values)):60} {count}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("corpus", nargs="?")
    parser.add_argument("--group", nargs="*", default=["hf", "timm"])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--json", help="where to write one line for each model")
    parser.add_argument("--show", nargs="*", help="files of earlier runs to show")
    parser.add_argument("--child", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.show:
        show([json.loads(line) for file in options.show for line in open(file)])
        return 0
    if options.child is not None:
        each(options.corpus, options.child)
        return 0
    if not options.corpus:
        parser.error("name the folder of the corpus")
    names = [
        name
        for name, case in _cases(options.corpus).items()
        if case.group in options.group and (not options.only or any(part in name for part in options.only))
    ][options.first :: options.stride]
    rows = _in_processes(options.corpus, names, options.jobs, options.minutes, options.json)
    show(rows)
    return 0


def _in_processes(corpus: str, names: list[str], jobs: int, minutes: float, file: str | None) -> list[dict[str, Any]]:
    """Each of several processes measures every n-th model."""
    from concurrent.futures import ThreadPoolExecutor

    end = time.monotonic() + minutes * 60
    rows: list[dict[str, Any]] = []
    sink = open(file, "a") if file else None

    def run(part: list[str]) -> None:
        command = [sys.executable, os.path.abspath(__file__), corpus, "--child", *part]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout
            for line in process.stdout:
                if not line.startswith("{"):
                    continue
                rows.append(json.loads(line))
                if sink:
                    print(line.strip(), file=sink, flush=True)
                if time.monotonic() > end:
                    process.kill()

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run, [part for part in (names[i::jobs] for i in range(jobs)) if part]))
    return rows


if __name__ == "__main__":
    sys.exit(main())
