"""Ranks that do not do the same: one compiles again, breaks, raises, loads its captures, or has other data.

Run as a script: rank, number of ranks, the group's store, backend, whether ranks agree before compiled calls ("agree"
or "alone"), and names of programs.  Prints a line of JSON for
each program: what differs from eager mode, and how many collectives were made eagerly and compiled.
"""

from __future__ import annotations

import datetime
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import framelift

PROGRAMS: dict[str, Callable[[Any], list[Any]]] = {}


def program(make: Any) -> Any:
    PROGRAMS[make.__name__] = make
    return make


def odd() -> bool:
    """Return whether this rank is one that differs from the first."""
    return dist.get_rank() % 2 == 1


def data(step: int, *shape: int) -> Any:
    torch.manual_seed(100 * step + dist.get_rank())
    return torch.randn(*(shape or (4, 3)))


def summed(x: Any) -> Any:
    """The sum over ranks of a tensor's own sum."""
    total = x.detach().sum().reshape(1)
    dist.all_reduce(total)
    return total


def outcome(run: Any, *args: Any) -> Any:
    """The result, or the kind of the exception."""
    try:
        return run(*args)
    except (ValueError, IndexError, RuntimeError, framelift.exc.FrameliftError) as error:
        return type(error).__name__


@program
def recompiles(compile: Any) -> Any:
    run = compile(lambda x, n: (summed(x) * x + n).sin())
    return [run(data(i, 4 + i * odd(), 3), i if odd() else 0) for i in range(4)]


@program
def other_dtype(compile: Any) -> Any:
    run = compile(lambda x: x * summed(x.float()).to(x.dtype))
    return [run(data(i).to(torch.float64 if odd() and i % 2 else torch.float32)) for i in range(4)]


@program
def raises_after(compile: Any) -> Any:
    def body(x: Any, fails: bool) -> Any:
        total = summed(x)
        if fails:
            raise ValueError("this rank's own")
        return x + total

    run = compile(body)
    return [outcome(run, data(i), odd() and i % 2 == 1) for i in range(5)]


@program
def raises_before(compile: Any) -> Any:
    def body(x: Any, fails: bool) -> Any:
        if fails:
            raise ValueError("this rank's own")
        return x + summed(x)

    run, found = compile(body), []
    for i in range(5):
        x = data(i)
        found.append(outcome(run, x, odd() and i % 2 == 1))
        if found[-1] == "ValueError":
            found.append(summed(x))
    return found


@program
def raises_in_the_graph(compile: Any) -> Any:
    def body(x: Any, rows: Any) -> Any:
        total = summed(x)
        return x[rows] + total

    run = compile(body)
    return [outcome(run, data(i), torch.tensor([0, 9 if odd() and i % 2 else 1])) for i in range(5)]


@program
def raises_between(compile: Any) -> Any:
    def body(x: Any, rows: Any) -> Any:
        first = summed(x)
        second = x.index_select(0, rows) * first
        return second + summed(second)

    run, found = compile(body), []
    for i in range(4):
        fails = odd() and i % 2 == 1
        x = data(i)
        found.append(outcome(run, x, torch.tensor([0, 9 if fails else 1])))
        if fails:
            found.append(summed(x))
    return found


@program
def breaks(compile: Any) -> Any:
    def body(x: Any) -> Any:
        x = x + summed(x)
        if odd():
            framelift.graph_break()
        return x * summed(x * 2)

    run = compile(body)
    return [run(data(i)) for i in range(3)]


@program
def branches_on_data(compile: Any) -> Any:
    def body(x: Any) -> Any:
        x = x + summed(x)
        x = x.sin() if x[0, 0] > 0 else x.cos() * 2
        return x * summed(x)

    run = compile(body)
    return [run(data(i)) for i in range(6)]


@program
def reads_numbers(compile: Any) -> Any:
    def body(x: Any) -> Any:
        n = int(x.abs().sum())
        return summed(x) * n + x[: n % 3].sum()

    run = compile(body)
    return [run(data(i)) for i in range(4)]


@program
def calls_less(compile: Any) -> Any:
    """One rank leaves its compiled function without what the others compute."""

    def body(x: Any, short: bool) -> Any:
        total = summed(x)
        if short:
            return total
        return total * x.sin() + x.cos().sum()

    run = compile(body)
    return [run(data(i), odd() and i > 1) for i in range(4)]


@program
def other_batches(compile: Any) -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    replicas = DistributedDataParallel(model)
    run, found = compile(replicas), []
    for i in range(4):
        loss = run(data(i, 2 + i * (1 + dist.get_rank()), 3)).pow(2).mean()
        loss.backward()
        found += [loss.detach(), *(one.grad.clone() for one in model.parameters())]
        model.zero_grad()
    return found


@program
def slow(compile: Any) -> Any:
    run = compile(lambda x: x * summed(x), slow=True)
    found = []
    for i in range(3):
        time.sleep(0.2 * odd())
        found.append(run(data(i, 4, 3 + i)))
    return found


def or_plain(run: Any, plain: Any) -> list[Any]:
    """Return the results of three calls; a call that framelift refuses is made plainly."""
    found = []
    for i in range(3):
        x = data(i)
        try:
            found.append(run(x))
        except framelift.exc.FrameliftError:
            found.append(plain(x))
    return found


@program
def backend_fails(compile: Any) -> Any:
    def plain(x: Any) -> Any:
        return x * summed(x)

    return or_plain(compile(plain, fails=True), plain)


@program
def not_captured(compile: Any) -> Any:
    """What cannot be captured whole on one rank is left to eager mode by the program."""

    def plain(x: Any) -> Any:
        total = summed(x)
        if odd():
            framelift.graph_break()
        return x + total

    return or_plain(compile(plain, fullgraph=True), plain)


@program
def loads_from_disk(compile: Any) -> Any:
    """The first process has lost what it kept: it captures while the others load."""
    found = []
    for start in range(3):
        if start == 1 and not odd():
            shutil.rmtree(framelift.config.cache_dir, ignore_errors=True)
        framelift.reset()
        with framelift.config.patch(cache=True):
            run = compile(lambda x, n: (x * summed(x)).sin() + n)
            found += [run(data(i, 3 + i, 2), i) for i in range(3)]
    return found


def message() -> str:
    """Return the error that a rank gets where another one cannot compile."""

    def body(x: Any) -> Any:
        if odd():
            framelift.graph_break()
        return x + summed(x)

    try:
        return str(framelift.compile(body, backend="eager", fullgraph=True)(data(0)))
    except RuntimeError as error:
        return "\n".join([type(error).__name__, str(error), *getattr(error, "__notes__", ())])


def difference(wanted: list[Any], found: list[Any]) -> str:
    """In words; empty where all is equal."""
    for i, (one, other) in enumerate(zip(wanted, found, strict=True)):
        tensors = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
        if not (torch.allclose(one, other, atol=1e-5) if tensors else one == other):
            return f"number {i} is {one} eagerly and {other} compiled"
    return ""


def counted() -> int:
    """The collectives of the group so far."""
    return int(dist.group.WORLD._get_sequence_number_for_group())


def measure(name: str, backend: str) -> dict[str, Any]:
    def compiled(function: Any, slow: bool = False, fails: bool = False, **options: Any) -> Any:
        def called(graph: Any, inputs: Any) -> Any:
            time.sleep(1.5 * (slow and odd()))
            if fails and odd():
                raise ValueError("no code for this rank")
            return framelift.lookup_backend(backend)(graph, inputs)

        return framelift.compile(function, backend=called if slow or fails else backend, **options)

    framelift.reset()
    start = counted()
    wanted = PROGRAMS[name](lambda function, **_: function)
    middle = counted()
    try:
        found = PROGRAMS[name](compiled)
        differs = difference(wanted, found)
    except Exception as error:
        differs = f"{type(error).__name__}: {error}"
    loaded, made = framelift.stats()["loaded"], counted() - middle
    return {"name": name, "differs": differs, "eager": middle - start, "compiled": made, "loaded": loaded}


def main(rank: int, ranks: int, store: str, backend: str, names: list[str]) -> None:
    """Each program has a group of its own: one that fails on one rank stops no other."""
    framelift.config.cache_dir = tempfile.mkdtemp()
    files = dist.FileStore(store, ranks)
    for name in names or PROGRAMS:
        files.set(f"{name} {rank}", "begins")
        for other in range(ranks):
            files.get(f"{name} {other}")
        prefixed, limit = dist.PrefixStore(name, files), datetime.timedelta(seconds=20)
        dist.init_process_group("gloo", store=prefixed, rank=rank, world_size=ranks, timeout=limit)
        print(json.dumps(message() if name == "message" else measure(name, backend)), flush=True)
        dist.destroy_process_group()


if __name__ == "__main__":
    _, _rank, _ranks, _store, _backend, _agree, *_names = sys.argv
    framelift.set_enable_guard_collectives(_agree == "agree")
    main(int(_rank), int(_ranks), _store, _backend, _names)
