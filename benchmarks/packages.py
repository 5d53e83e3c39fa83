"""How many models of a corpus can be packaged in one process, and run equal to eager in one that cannot capture.

    python benchmarks/packages.py CORPUS --group hf --stride 10 --backend eager

CORPUS is a folder with `corpus.py` (models and inputs, in its table `CASES`) and `measure_lib.py` (comparing results).
Models are taken in chunks; for each a process saves packages of one call, and a fresh process loads and runs them.
There every rehearsal raises.  Models with a graph break are shown apart: a package has one graph for a call.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

_BREAKS = "has graph breaks"


def _cases(corpus: str) -> tuple[Any, Any]:
    sys.path.insert(0, corpus)
    import corpus as cases  # type: ignore[import-not-found]  # of the user's folder
    import measure_lib  # type: ignore[import-not-found]  # of the user's folder

    return cases.CASES, measure_lib


def save(corpus: str, backend: str, folder: str, names: list[str]) -> None:
    """The body of the first process: one line of JSON for each model."""
    import framelift

    cases, library = _cases(corpus)
    for name in names:
        framelift.reset()
        try:
            built = cases[name].build()
            call = built.inputs(0)
            compiled = framelift.compile(built.target, backend=backend)
            with library.grad_ctx(built):
                framelift.save_package(compiled, _path(folder, name), calls=[call])
            found = "saved"
        except framelift.exc.Unsupported:
            found = _BREAKS
        except Exception as error:
            found = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
        print(json.dumps([name, found]), flush=True)


def load(corpus: str, backend: str, folder: str, names: list[str]) -> None:
    """The body of the second process."""
    import torch

    import framelift
    from framelift.rehearsal.session import Session

    def refuse(*_args: Any, **_kwargs: Any) -> None:
        raise AssertionError("something was rehearsed")

    cases, library = _cases(corpus)
    framelift.reset()  # everything is loaded
    setattr(Session, "__init__", refuse)
    for name in names:
        try:
            results = []
            for is_loaded in (False, True):
                built = cases[name].build()
                args, kwargs = built.inputs(0)
                function = built.target
                if is_loaded:
                    function = framelift.load_package(_path(folder, name), function)
                torch.manual_seed(70)
                with library.grad_ctx(built):
                    results.append(library.flatten(function(*args, **kwargs)))
            compared = library.flat_compare(*results)
            found = "equal" if compared["ok"] else f"differs: {compared['why']}"
        except Exception as error:
            found = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
        print(json.dumps([name, found]), flush=True)


def _path(folder: str, name: str) -> str:
    return os.path.join(folder, name.replace("/", "__"))


def _inside(what: str, asked: argparse.Namespace, folder: str, names: list[str]) -> dict[str, str]:
    options = ["--backend", asked.backend, "--inside", what, folder]
    environment = {**os.environ, "FRAMELIFT_CACHE_DIR": os.path.join(folder, "keys")}
    if what == "load":
        environment["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
    command = [sys.executable, os.path.abspath(__file__), asked.corpus, *names, *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["')]
    return {**dict.fromkeys(names, f"the process ended with {done.returncode}"), **dict(rows)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus")
    parser.add_argument("names", nargs="*", help="models (default: all of the groups)")
    parser.add_argument("--group", nargs="+", default=["hf", "timm"])
    parser.add_argument("--stride", type=int, default=1, help="every n-th model")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--chunk", type=int, default=20, help="so many models for each pair of processes")
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--json")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        {"save": save, "load": load}[asked.inside[0]](asked.corpus, asked.backend, asked.inside[1], asked.names)
        return
    if asked.names:
        names = asked.names
    else:
        cases, _ = _cases(asked.corpus)
        names = [name for name in cases if name.split("/")[0] in asked.group][asked.first :: asked.stride]
    found: dict[str, str] = {}
    for start in range(0, len(names), asked.chunk):
        chunk = names[start : start + asked.chunk]
        with tempfile.TemporaryDirectory() as folder:
            saved = _inside("save", asked, folder, chunk)
            ready = [name for name in chunk if saved[name] == "saved"]
            loaded = _inside("load", asked, folder, ready) if ready else {}
        for name in chunk:
            found[name] = loaded.get(name, saved[name])
            print(f"{name:40} {found[name]}", flush=True)
    counts = collections.Counter("equal" if words == "equal" else words for words in found.values())
    whole = len(found) - counts[_BREAKS]
    share = 100 * counts["equal"] / max(whole, 1)
    print(f"{len(found)} models, {whole} of one graph, {counts['equal']} run equal from a package: {share:.1f} %")
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
