"""Memory that a capture holds, beside TorchDynamo: each front end in processes of its own, backend eager.

    python benchmarks/memory.py [--only NAME...] [--captures 3] [--json]

Each process makes its models and runs them eagerly, captures one (imports, caches of classes and of code), then
captures the others while all live; what the process holds more, by each, after a garbage collection, is a capture.
Whole: bytes that malloc gave out, with Python's own allocator off (PYTHONMALLOC=malloc).  Python: bytes by tracemalloc,
in another process.  Guards of TorchDynamo are the leaves of its guard managers.

The programs `a weight of 16 MiB` and `a model as an argument` show whether a capture holds a copy of a weight (it would
be some 16 MiB large), and whether it keeps a model alive that the program lets go of.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import tracemalloc
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch
from common import FRONT_ENDS, PROGRAMS, three_tensors

from framelift.report.gather import entries_of

Made = tuple[Any, dict[str, Any]]
_KIB = 1024.0


class _MallInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def _given_out() -> int:
    """Bytes that malloc gave out and did not get back."""
    read = ctypes.CDLL(None).mallinfo2
    read.restype = _MallInfo
    found = read()
    return found.uordblks + found.hblkhd


def _fresh(function: Any) -> Any:
    """The same function of a code object of its own: TorchDynamo would use again what it captured for the other."""
    code = function.__code__.replace(co_name=f"{function.__name__}_copy")
    made = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__dict__.update(function.__dict__)
    return made


def _of_its_own_class(made: Made) -> Made:
    """The model with a `forward` of its own."""
    model, kwargs = made
    kind = type(model)
    model.__class__ = type(kind.__name__, (kind,), {"forward": _fresh(kind.forward)})
    return model, kwargs


def _model(make: Callable[[], Made]) -> Callable[[], Made]:
    return lambda: _of_its_own_class(make())


class _Weight(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(2048, 2048, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inner(x)) * self.inner.weight.sum()


def _apply(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x) + 1


MAKERS: dict[str, Callable[[], Made]] = {
    **{program.name: _model(program.make) for program in PROGRAMS if program.name in ("bert", "llama")},
    "function of three tensors": lambda: (_fresh(three_tensors), {name: torch.rand(3) for name in "abc"}),
    "a weight of 16 MiB": _model(lambda: (_Weight(), {"x": torch.rand(2, 2048)})),
    "a model as an argument": lambda: (_fresh(_apply), {"model": _Weight(), "x": torch.rand(2, 2048)}),
}


def _guards(front_end: str, compiled: Any) -> int:
    """The guards of one compiled callable."""
    if front_end == "framelift":
        return sum(
            len(line) for entry in entries_of(getattr(compiled, "_compiled", compiled)) for line in entry.program.info
        )
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    forward = getattr(compiled, "_orig_mod", None)
    function = type(forward).forward if forward is not None else compiled._torchdynamo_orig_callable
    entries = _debug_get_cache_entry_list(function.__code__)
    return _leaves(entries[0].guard_manager.root) if entries else 0


def _leaves(manager: Any) -> int:
    children = list(manager.get_child_managers())
    if hasattr(manager, "get_key_value_managers"):
        children += [one for pair in manager.get_key_value_managers().values() for one in pair if one is not None]
    return len(manager.get_leaf_guards()) + sum(map(_leaves, children))


def measure(front_end: str, name: str, captures: int, how: str) -> dict[str, Any]:
    """The body of a process."""
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 1000
    compile_, _ = FRONT_ENDS[front_end]
    made = [MAKERS[name]() for _ in range(captures + 1)]
    used = _given_out
    if how == "python":
        tracemalloc.start()
        used = lambda: tracemalloc.get_traced_memory()[0]  # noqa: E731
    kept = []
    with torch.no_grad():
        for target, kwargs in made:
            target(**kwargs)
        before = 0
        for number, (target, kwargs) in enumerate(made):
            compiled = compile_(target, backend="eager")
            compiled(**kwargs)
            compiled(**kwargs)
            kept.append(compiled)
            gc.collect()
            if not number:
                before = used()
    held = (used() - before) / captures
    found: dict[str, Any] = {"bytes": held, "guards": _guards(front_end, kept[-1])}
    models = [weakref.ref(kwargs["model"]) for _, kwargs in made if "model" in kwargs]
    made.clear()
    del target, kwargs, compiled
    gc.collect()
    return found | {"alive": sum(model() is not None for model in models), "models": len(models)}


def _in_process(front_end: str, name: str, captures: int, how: str) -> dict[str, Any]:
    environment = {**os.environ, **({"PYTHONMALLOC": "malloc"} if how == "whole" else {})}
    command = [sys.executable, __file__, "--child", front_end, name, str(captures), how]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True)
    if shown.returncode:
        raise SystemExit(shown.stderr[-2000:])
    return json.loads(shown.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="programs whose name contains one of these")
    parser.add_argument("--captures", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        front_end, name, captures, how = options.child
        print(json.dumps(measure(front_end, name, int(captures), how)))
        return
    if not options.json:
        print(f"{'KiB per capture':28}{'framelift':>32}{'TorchDynamo':>32}{'ratio':>8}")
    for name in MAKERS:
        if options.only and not any(text in name for text in options.only):
            continue
        row = {
            front_end: {how: _in_process(front_end, name, options.captures, how) for how in ("whole", "python")}
            for front_end in FRONT_ENDS
        }
        if options.json:
            print(json.dumps({"name": name} | row), flush=True)
            continue
        words = []
        for found in row.values():
            whole, guards = found["whole"]["bytes"], found["whole"]["guards"]
            words.append(f"{whole / _KIB:9.1f} ({found['python']['bytes'] / _KIB:.1f} Python, {guards} guards)")
        ratio = row["dynamo"]["whole"]["bytes"] / max(row["framelift"]["whole"]["bytes"], 1)
        print(f"{name:28}{words[0]:>32}{words[1]:>32}{ratio:>7.1f}x", flush=True)
        if row["framelift"]["whole"]["models"]:
            alive = ", ".join(f"{name} {found['whole']['alive']}" for name, found in row.items())
            print(f"{'':28}models alive after the program let them go: {alive}", flush=True)


if __name__ == "__main__":
    main()
