"""Programs of third parties, eager, with framelift and with torch.compile: `make corpus`, and `--page` writes the docs.

    python benchmarks/corpus/run.py [--only vit ode] [--backend eager] [--json FILE] [--page docs/corpus.md]
    CORPUS_MODES=forward python benchmarks/corpus/run.py ...    (also: training, fullgraph)

Each front end has a process of its own for all programs, which compiles something small first.  A program is called
with two sizes, twice each; results are compared with those of eager mode.  Then the same with gradients: a backward
of the sum of the results.  Last, `fullgraph=True` is tried.  A graph compiled after the first call is a recompile.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess
import sys
import textwrap
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
SIDES = ("framelift", "torch.compile")
CALLS = 20

#: why a row has more graphs, breaks or recompiles than torch.compile's
REASONS = {
    "ode_adaptive, ode_parallel, sde, experts, triplet_loss, metrics, prodigy_step": "Values of tensors decide, most in"
    " loops. framelift captures the parts of each round, torch.compile leaves some of these frames to eager mode.",
    "wavelets, wavelet_decomposition, several_losses": "Objects of C (PyWavelets) and `numpy.apply_along_axis` break"
    " in both; framelift counts more of them, since it captures what lies between.",
    "slot_attention": "`torch.manual_seed` breaks in both, here inside two functions that wait for it.",
    "adabelief_step": "A table of ten entries is read at another place in each step: each is a capture. torch.compile"
    " has eight, then its limit.",
    "adapted_step, moving_average, reformer": "A number, or a cache, that changes in each of the first calls.",
}


def all_programs() -> dict[str, Any]:
    """The table of programs, which importing the modules fills."""
    import models  # noqa: F401
    import others  # noqa: F401
    from programs import PROGRAMS

    return PROGRAMS


def measure_all(side: str, backend: str, names: list[str]) -> None:
    """The body of a process: programs with one front end, a line of JSON for each."""
    import torch

    # torchvision's Python part needs these operators, which its native part has where it was built for this torch
    for one in ("nms", "qnms"):
        torch.library.define(f"torchvision::{one}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    linear = torch.nn.Linear(2, 2)
    run(torch, side, backend, linear, linear, lambda n: (torch.rand(n, 2),), "training")
    for name in names:
        try:
            found = measure(name, side, backend)
        except Exception as error:
            found = {"forward": {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"}}
        print(json.dumps([name, found]), flush=True)


def measure(name: str, side: str, backend: str) -> dict[str, Any]:
    """One program with one front end."""
    import torch

    found: dict[str, Any] = {}
    for mode in os.environ.get("CORPUS_MODES", "forward training fullgraph").split():
        torch.manual_seed(0)
        function, inputs = all_programs()[name][1]()
        torch.manual_seed(0)
        other, _ = all_programs()[name][1]()
        is_trained = mode == "training" and any(True for _ in getattr(function, "parameters", list)())
        if mode == "training" and not is_trained:
            continue
        try:
            found[mode] = run(torch, side, backend, function, other, inputs, mode)
        except Exception as error:
            found[mode] = {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"}
    return found


def run(torch: Any, side: str, backend: str, function: Any, eager: Any, inputs: Any, mode: str) -> dict[str, Any]:
    graphs: list[Any] = []

    def counting(module, example_inputs):
        graphs.append(module)
        return module.forward

    compiler: Any = counting
    if backend != "eager":
        from torch._dynamo.backends.registry import lookup_backend

        def compiler(module, example_inputs):
            graphs.append(module)
            return lookup_backend(backend)(module, example_inputs)

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    if side == "framelift":
        import framelift

        framelift.reset()
        compiled = framelift.compile(function, backend=compiler, fullgraph=mode == "fullgraph")
    else:
        compiled = torch.compile(function, backend=compiler, fullgraph=mode == "fullgraph")

    def call(program: Any, args: Any) -> Any:
        torch.manual_seed(1)
        if mode != "training":
            result = program(*args)
        else:
            result = program(*args)
            losses = [one.float().sum() for one in tensors(result) if one.requires_grad]
            if losses:
                sum(losses[1:], losses[0]).backward()
        return result

    def tensors(result: Any) -> list[Any]:
        found = torch.utils._pytree.tree_leaves(result)
        return [one for one in found if isinstance(one, torch.Tensor)]

    first, at_first, right = 0.0, 0, True
    for index, size in enumerate((2, 2, 3, 3)):
        torch.manual_seed(index)
        args = inputs(size)
        began = time.perf_counter()
        got = call(compiled, args)
        if index == 0:
            first, at_first = time.perf_counter() - began, len(graphs)
        want = call(eager, args)
        pairs = list(zip(tensors(got), tensors(want), strict=True))
        right &= all(
            torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True) for a, b in pairs if a.is_floating_point()
        )
        right &= all(torch.equal(a, b) for a, b in pairs if not a.is_floating_point())
    times = []
    for _ in range(CALLS):
        began = time.perf_counter()
        call(compiled, args)
        times.append(time.perf_counter() - began)
    if side == "framelift":
        breaks = sum(framelift.stats()["breaks"].values())
    else:
        breaks = sum(torch._dynamo.utils.counters["graph_break"].values())
    return {
        "graphs": at_first,
        "recompiles": len(graphs) - at_first,
        "breaks": breaks,
        "first": first,
        "call": sorted(times)[len(times) // 2],
        "right": right,
    }


def all_of(side: str, backend: str, names: list[str]) -> dict[str, Any]:
    """What a front end's processes measured: another one goes on where one ended."""
    results: dict[str, Any] = {}
    env = {**os.environ, "FRAMELIFT_CACHE": "0"}
    while rest := [name for name in names if name not in results]:
        command = [sys.executable, "-W", "ignore", str(HERE / "run.py"), "--backend", backend, "--measure", side, *rest]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env) as child:
            for line in child.stdout or ():
                if line.startswith('["'):
                    name, results_of = json.loads(line)
                    results[name] = results_of
                    print(side, name, results_of, file=sys.stderr, flush=True)
        if child.returncode:
            rest = [name for name in names if name not in results]
            results.update(
                {name: {"forward": {"error": f"the process ended with {child.returncode}"}} for name in rest[:1]}
            )
    return results


def row(mode: str, name: str, packages: str, found: dict[str, Any]) -> str | None:
    """A row of the table: framelift / torch.compile."""
    both = [found[side].get(mode) for side in SIDES]
    if None in both:
        return None
    if any("error" in each for each in both):
        said = " / ".join(each.get("error", "works").replace("|", ",") for each in both)
        return f"| {name} | {mode} | {said} | | | | |"
    cells = [f"{both[0][key]} / {both[1][key]}" for key in ("graphs", "breaks", "recompiles")]
    cells.append(f"{both[0]['first']:.2f} / {both[1]['first']:.2f}")
    cells.append(f"{1e3 * both[0]['call']:.2f} / {1e3 * both[1]['call']:.2f}")
    wrong = [side for side, each in zip(SIDES, both) if not each["right"]]
    tried = [found[side].get("fullgraph") for side in SIDES]
    whole = ["-" if each is None else "no" if "error" in each else "yes" for each in tried]
    title = f"{name}{' **other results: ' + ', '.join(wrong) + '**' if wrong else ''}"
    return f"| {title} | {mode} | {' | '.join(cells)} | {' / '.join(whole)} |"


def page(results: dict[str, Any], about: dict[str, Any]) -> str:
    """The page of the documentation, from what was measured."""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(about["packages"].items()))
    lines = [
        "# Programs of third parties",
        "",
        "Small programs of public packages, as PyPI has them: random weights, tiny sizes, sizes that change once. Each",
        "cell is framelift / torch.compile. Written by the command below; nothing of them is in this repository.",
        "",
        f"    {about['command']}",
        "",
        f"{about['machine']}, CPython {about['python']}, torch {about['torch']}, backend `{about['backend']}`,",
        f"framelift at {about['commit']}, {about['date']}. Times are wall clock, {about['load']} on that machine.",
        "",
        "Graphs: compiled in the first call. Recompiles: graphs of the three calls after it, two with another batch.",
        f"A call: median of {CALLS}. Fullgraph: it works for the forward, after the others (-: not tried).",
        "Breaks are those of all calls; framelift counts one for each frame that waits for the call with the break.",
        "",
        "| program | mode | graphs | breaks | recompiles | first call, s | a call, ms | fullgraph |",
        "|---|---|---|---|---|---|---|---|",
    ]
    both, failed = [], []
    for name, entry in results.items():
        for mode in ("forward", "training"):
            made = row(mode, name, entry["packages"], entry)
            if made is not None:
                ends = any("error" in entry[side][mode] for side in SIDES)
                (failed if ends else both).append(made)
    lines += both
    if failed:
        lines += [
            "",
            "What ends with an error, on one side or both:",
            "",
            "| program | mode | framelift / torch.compile |",
            "|---|---|---|",
        ]
        lines += [" | ".join(made.split(" | ")[:3]).rstrip("| ") + " |" for made in failed]
    lines += ["", "Where a row of framelift's has more:", ""]
    lines += [textwrap.fill(f"- {names}: {why}", 118, subsequent_indent="  ") for names, why in REASONS.items()]
    lines += ["", *textwrap.wrap(f"Packages: {versions}.", 118), ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[""])
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--json")
    parser.add_argument("--show", nargs="*", help="make the page of files that --json wrote")
    parser.add_argument("--page")
    parser.add_argument("--measure", nargs="+")
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    if options.measure:
        measure_all(options.measure[0], options.backend, options.measure[1:])
        return
    import torch

    programs = all_programs()
    packages = {}
    for names, _ in programs.values():
        for name in names.split():
            try:
                packages[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                packages[name] = "missing"
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=HERE)
    about = {
        "command": "make corpus",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "backend": options.backend,
        "commit": commit.stdout.strip() or os.environ.get("COMMIT", "unknown"),
        "date": time.strftime("%Y-%m-%d"),
        "load": f"load {os.getloadavg()[0]:.0f}",
        "packages": packages,
    }
    results: dict[str, Any] = {}
    for file in options.show or ():
        kept = json.loads(pathlib.Path(file).read_text())
        about = kept["about"]
        results.update(kept["results"])
    if not options.show:
        names = [name for name in programs if any(text in name for text in options.only)]
        with concurrent.futures.ThreadPoolExecutor() as pool:  # both at once: what else the machine does, they share
            sides = list(pool.map(lambda side: all_of(side, options.backend, names), SIDES))
        for name in names:
            both = {side: found[name] for side, found in zip(SIDES, sides)}
            results[name] = {"packages": programs[name][0], **both}
    for name, entry in results.items():
        for mode in ("forward", "training"):
            print(row(mode, name, entry["packages"], entry) or "", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"about": about, "results": results}, indent=1))
    if options.page:
        pathlib.Path(options.page).write_text(page(results, about))


if __name__ == "__main__":
    main()
