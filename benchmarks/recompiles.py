"""How often programs whose world changes are captured over 100 calls, beside TorchDynamo.  Counts, not times.

    python benchmarks/recompiles.py [--calls 100] [--json out.json]

Both front ends run the same program with a backend that compiles nothing; a capture is one call of that backend.
Steps of optimizers with a schedule are run with AOTAutograd: what it cannot follow it takes for a constant, and a
capture is one call of its compiler.
"""

from __future__ import annotations

import argparse
import json
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch
from common import reset

import framelift

__all__ = ["PROGRAMS", "count"]

Compile = Callable[..., Any]
PROGRAMS: dict[str, Callable[[Compile, int], Iterator[Any]]] = {}


def program(make: Callable[[Compile, int], Iterator[Any]]) -> Callable[[Compile, int], Iterator[Any]]:
    """Register a generator that calls compiled code once per step."""
    PROGRAMS[make.__name__.replace("_", " ")] = make
    return make


@program
def step_counter_attribute(compile_: Compile, calls: int) -> Iterator[Any]:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.step += 1
            return x * self.step

    net = compile_(Net())
    for _ in range(calls):
        yield net(torch.ones(4))


@program
def learning_rate_schedule(compile_: Compile, calls: int) -> Iterator[Any]:
    weight, grad = torch.ones(4), torch.ones(4)
    group = {"lr": 0.1}

    @compile_
    def update() -> torch.Tensor:
        return weight - group["lr"] * grad

    for i in range(calls):
        group["lr"] = 0.1 * 0.97**i
        yield update()


@program
def layer_index(compile_: Compile, calls: int) -> Iterator[Any]:
    class Layer(torch.nn.Module):
        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

        def forward(self, x: torch.Tensor, cache: list[Any]) -> torch.Tensor:
            return x + self.index

    forward = compile_(Layer.forward)
    layers = [Layer(i) for i in range(calls)]
    for layer in layers:
        yield forward(layer, torch.ones(4), [])


@program
def factory_made_closures(compile_: Compile, calls: int) -> Iterator[Any]:
    def make(scale: int) -> Callable[[torch.Tensor], torch.Tensor]:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return x * scale

        return inner

    @compile_
    def apply(f: Any, x: torch.Tensor) -> torch.Tensor:
        return f(x) + 1

    for i in range(calls):
        yield apply(make(i), torch.ones(4))


@program
def batch_1_to_16(compile_: Compile, calls: int) -> Iterator[Any]:
    net = compile_(torch.nn.Linear(4, 2))
    for i in range(calls):
        yield net(torch.ones(i % 16 + 1, 4))


@program
def sequence_1_to_128(compile_: Compile, calls: int) -> Iterator[Any]:
    @compile_
    def attend(q: torch.Tensor) -> torch.Tensor:
        scores = q @ q.transpose(1, 2) / q.shape[1] ** 0.5
        return torch.softmax(scores, -1) @ q

    for i in range(calls):
        yield attend(torch.ones(2, i % 128 + 1, 8))


@program
def float_argument(compile_: Compile, calls: int) -> Iterator[Any]:
    @compile_
    def scale(x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by + by / 2

    for i in range(calls):
        yield scale(torch.ones(4), i / 7)


@program
def dict_with_changing_keys(compile_: Compile, calls: int) -> Iterator[Any]:
    @compile_
    def total(x: torch.Tensor, table: dict[str, int]) -> torch.Tensor:
        return x * table["base"]

    for i in range(calls):
        yield total(torch.ones(4), {"base": 2, f"extra{i % 10}": i})


@program
def list_growing_by_one(compile_: Compile, calls: int) -> Iterator[Any]:
    @compile_
    def last(x: torch.Tensor, seen: list[int]) -> torch.Tensor:
        return x * len(seen)

    seen: list[int] = []
    for i in range(calls):
        seen.append(i)
        yield last(torch.ones(4), seen)


@program
def set_growing_by_one(compile_: Compile, calls: int) -> Iterator[Any]:
    @compile_
    def count_them(x: torch.Tensor, seen: set[int]) -> torch.Tensor:
        return x * len(seen)

    seen: set[int] = set()
    for i in range(calls):
        seen.add(i)
        yield count_them(torch.ones(4), seen)


@program
def deque_appended_to(compile_: Compile, calls: int) -> Iterator[Any]:
    @compile_
    def remember(x: torch.Tensor, history: deque[Any]) -> torch.Tensor:
        history.append(x.sum())
        return x * len(history)

    history: deque[Any] = deque()
    for _ in range(calls):
        yield remember(torch.ones(4), history)


@program
def numpy_scalar_argument(compile_: Compile, calls: int) -> Iterator[Any]:
    @compile_
    def scale(x: torch.Tensor, by: Any) -> torch.Tensor:
        return x * by

    for i in range(calls):
        yield scale(torch.ones(4), numpy.float64(i / 7))


@program
def argument_that_is_not_read(compile_: Compile, calls: int) -> Iterator[Any]:
    @compile_
    def double(x: torch.Tensor, name: str) -> torch.Tensor:
        return x * 2

    for i in range(calls):
        yield double(torch.ones(4), f"step {i}")


@program
def batch_16_to_1(compile_: Compile, calls: int) -> Iterator[Any]:
    net = compile_(torch.nn.Linear(4, 2))
    for i in range(calls):
        yield net(torch.ones(16 - i % 16, 4))


@program
def train_and_eval(compile_: Compile, calls: int) -> Iterator[Any]:
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.0))
    net = compile_(module)
    for i in range(calls):
        module.train(i % 2 == 0)
        yield net(torch.ones(2, 4))


def steps_with(
    make: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer],
    schedule: Callable[[Any], Any],
    inside: bool = False,
) -> Callable[[Compile, int], Iterator[Any]]:
    """A program that takes steps with a schedule, which is captured too or is not."""

    def program(compile_: Compile, calls: int) -> Iterator[Any]:
        parameters = [torch.nn.Parameter(torch.randn(4, 4)) for _ in range(3)]
        optimizer = make(parameters)
        scheduler = schedule(optimizer)

        @compile_
        def step() -> None:
            optimizer.step()
            if inside:
                scheduler.step()

        for _ in range(calls):
            for parameter in parameters:
                parameter.grad = torch.randn(4, 4)
            yield step()
            if not inside:
                scheduler.step()

    return program


def _one_cycle(optimizer: torch.optim.Optimizer) -> Any:
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10_000)


def _milestones(optimizer: torch.optim.Optimizer) -> Any:
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, [30, 60])


COMPILED: dict[str, Callable[[Compile, int], Iterator[Any]]] = {
    "SGD, OneCycleLR": steps_with(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), _one_cycle),
    "AdamW with foreach, OneCycleLR": steps_with(lambda p: torch.optim.AdamW(p, 0.1, foreach=True), _one_cycle),
    "SGD, MultiStepLR inside": steps_with(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), _milestones, inside=True),
}
PROGRAMS.update(COMPILED)


def count(name: str, front_end: str, calls: int) -> int:
    """How often a program's frames were handed to the backend."""
    reset()
    torch.manual_seed(0)
    seen = 0

    def backend(graph_module: Any, _examples: Any) -> Any:
        nonlocal seen
        seen += 1
        return graph_module.forward

    compile_ = framelift.compile if front_end == "framelift" else torch.compile
    if name in COMPILED:
        from torch._dynamo.backends.common import aot_autograd

        backend = (framelift.aot_autograd if front_end == "framelift" else aot_autograd)(fw_compiler=backend)
    for _ in PROGRAMS[name](lambda f: compile_(f, backend=backend), calls):
        pass
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--json", default="")
    given = parser.parse_args()
    rows = {name: {end: count(name, end, given.calls) for end in ("framelift", "dynamo")} for name in PROGRAMS}
    print(f"captures over {given.calls} calls{'':12}framelift  TorchDynamo")
    for name, row in rows.items():
        print(f"{name:34}{row['framelift']:9}{row['dynamo']:13}")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
