"""How many models of a corpus can be packaged in one process, and run equal to eager in one that cannot capture.

    python benchmarks/packages.py CORPUS --group hf --stride 10 --backend eager

CORPUS is a folder with `corpus.py` (models and inputs, in its table `CASES`) and `measure_lib.py` (comparing results).
One process saves packages of one call of each model, a fresh process loads and runs them; each model has a fork of its
own.  Where packages are run, every rehearsal raises.  Models with a graph break are shown apart: a package has one
graph for a call.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any

_SAVED, _EQUAL, _BREAKS = "saved", "equal", "has graph breaks"


def _cases(corpus: str) -> tuple[Any, Any]:
    sys.path.insert(0, corpus)
    import corpus as cases  # type: ignore[import-not-found]  # of the user's folder
    import measure_lib  # type: ignore[import-not-found]  # of the user's folder

    return cases.CASES, measure_lib


def save(cases: Any, library: Any, backend: str, folder: str, name: str) -> str:
    """Package one call of a model."""
    import framelift

    built = cases[name].build()
    call = built.inputs(0)
    try:
        compiled = framelift.compile(built.target, backend=backend)
        with library.grad_ctx(built):
            framelift.save_package(compiled, _path(folder, name), calls=[call])
    except framelift.exc.Unsupported:
        return _BREAKS
    return _SAVED


def load(cases: Any, library: Any, _backend: str, folder: str, name: str) -> str:
    """Run the package of a model, and the model."""
    import torch

    import framelift
    from framelift.rehearsal.session import Session

    def refuse(*_args: Any, **_kwargs: Any) -> None:
        raise AssertionError("something was rehearsed")

    setattr(Session, "__init__", refuse)
    results = []
    for is_loaded in (True, False):
        built = cases[name].build()
        args, kwargs = built.inputs(0)
        function = framelift.load_package(_path(folder, name), built.target) if is_loaded else built.target
        torch.manual_seed(70)
        with library.grad_ctx(built):
            results.append(library.flatten(function(*args, **kwargs)))
    compared = library.flat_compare(results[1], results[0])
    return _EQUAL if compared["ok"] else f"differs: {compared['why']}"


def each(what: str, corpus: str, backend: str, folder: str, names: list[str]) -> None:
    """The body of a process: one line of JSON for each model, which has a fork of its own."""
    import torch  # noqa: F401  (once for all of them)

    import framelift

    cases, library = _cases(corpus)
    framelift.reset()  # all of framelift is loaded
    for name in names:
        child = os.fork()
        if child == 0:
            try:
                found = {"save": save, "load": load}[what](cases, library, backend, folder, name)
            except Exception as error:
                found = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
            print(json.dumps([name, found]), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


def _path(folder: str, name: str) -> str:
    return os.path.join(folder, name.replace("/", "__"))


def _inside(what: str, asked: argparse.Namespace, folder: str, names: list[str]) -> dict[str, str]:
    options = ["--backend", asked.backend, "--inside", what, folder]
    compiled = os.path.join(folder, "inductor")  # one name, since programs read the environment; empty at the start
    shutil.rmtree(compiled, ignore_errors=True)
    places = {"FRAMELIFT_CACHE_DIR": os.path.join(folder, "keys"), "TORCHINDUCTOR_CACHE_DIR": compiled}
    environment = {**os.environ, **places}
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
    parser.add_argument("--chunk", type=int, default=50, help="so many models for each pair of processes")
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--json")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        each(asked.inside[0], asked.corpus, asked.backend, asked.inside[1], asked.names)
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
            ready = [name for name in chunk if saved[name] == _SAVED]
            loaded = _inside("load", asked, folder, ready) if ready else {}
        for name in chunk:
            found[name] = loaded.get(name, saved[name])
            print(f"{name:40} {found[name]}", flush=True)
    counts = collections.Counter(found.values())
    whole = len(found) - counts[_BREAKS]
    share = 100 * counts[_EQUAL] / max(whole, 1)
    print(f"{len(found)} models, {whole} of one graph, {counts[_EQUAL]} run equal from a package: {share:.1f} %")
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
