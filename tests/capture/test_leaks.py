"""Nothing is kept alive.

Models, inputs, results and compiled callables die, and no part of a rehearsal stays reachable.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import types
import weakref
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from models import MODELS


class Thing:
    def __init__(self) -> None:
        self.count = 0
        self.items = [1, 2]
        self.child: Any = None


def dies(*references: weakref.ref) -> None:
    gc.collect()
    gc.collect()
    for reference in references:
        found = reference()
        assert found is None, f"{type(found).__name__} is kept alive by {[_name(r) for r in gc.get_referrers(found)]}"


def _name(referrer: Any) -> str:
    return f"{type(referrer).__name__} {repr(referrer)[:200]}"


@pytest.mark.parametrize("backend", ("eager", "aot_eager"))
def test_model_and_callable_die(backend: str) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    compiled = framelift.compile(model, backend=backend)
    x = torch.rand(2, 3)
    out = compiled(x)
    references = [weakref.ref(o) for o in (model, model[0], model[0].weight, compiled, x, out)]
    del model, compiled, x, out
    dies(*references)


@pytest.mark.usefixtures("plain_guards")
def test_classes_of_the_program_die() -> None:
    """What is remembered of a class is forgotten with it, and with it all that its functions see."""

    def used() -> weakref.ref:
        class Local:
            def __init__(self, n):
                self.n = n

            def scaled(self, x):
                return x * self.n

        thing = Local(2)
        framelift.compile(lambda x: thing.scaled(x), backend="eager")(torch.ones(2))
        return weakref.ref(Local)

    dies(used())


def test_inputs_and_results_die_while_the_callable_lives() -> None:
    def f(x, thing):
        thing.count += 1
        return x * 2, [x + thing.count]

    compiled = framelift.compile(f, backend="eager")
    for _ in range(3):
        x, thing = torch.rand(3), Thing()
        out = compiled(x, thing)
        references = [weakref.ref(o) for o in (x, thing, out[0], out[1][0])]
        del x, thing, out
        dies(*references)


def test_objects_captured_code_wrote_into_die() -> None:
    def f(x, thing):
        thing.child = Thing()
        thing.child.items.append(x + 1)
        thing.items.append(lambda v: v + x)
        return thing

    compiled = framelift.compile(f, backend="eager")
    thing, x = Thing(), torch.rand(2)
    result = compiled(x, thing)
    assert result is thing
    references = [weakref.ref(o) for o in (thing, thing.child, thing.child.items[-1], x, thing.items[-1])]
    del thing, x, result
    dies(*references)


def test_function_dies_with_its_closure() -> None:
    def make():
        held = Thing()

        def f(x):
            return x + held.count

        return f, held

    f, held = make()
    compiled = framelift.compile(f, backend="eager")
    compiled(torch.ones(2))
    references = [weakref.ref(o) for o in (f, held, compiled)]
    del f, held, compiled, make
    dies(*references)


def test_nothing_of_a_rehearsal_is_reachable_from_user_objects() -> None:
    """Walk everything reachable from the user's objects.

    No stand-in (meta tensor), no twin code, no framelift object.
    """

    def helper(x, n=2):
        return x * n

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(2, 2)
            self.memory = []
            self.cache = {}

        def forward(self, x):
            self.memory.append(helper(x))
            self.cache["fn"] = lambda v: v + x
            self.cache["last"] = self.lin(x)
            return self.cache

    model = Model()
    codes = {id(c) for c in _codes(test_nothing_of_a_rehearsal_is_reachable_from_user_objects.__code__)}
    out = framelift.compile(model, backend="eager")(torch.rand(1, 2))
    for found in _reachable([model, out, helper]):
        if isinstance(found, torch.Tensor):
            assert found.device.type == "cpu"
        if isinstance(found, types.FunctionType) and found.__code__.co_filename == __file__:
            assert id(found.__code__) in codes, found
        assert not type(found).__module__.startswith("framelift"), _name(found)


def _codes(code: types.CodeType) -> set[types.CodeType]:
    found = {code}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _codes(constant)
    return found


def _reachable(roots: list[Any]) -> list[Any]:
    """Objects reachable through instances, containers and functions; classes, modules and globals are where it ends."""
    seen: dict[int, Any] = {}
    waiting = list(roots)
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, (type, types.ModuleType, str, int, float, types.BuiltinFunctionType)):
            continue
        seen[id(value)] = value
        if isinstance(value, types.FunctionType):
            waiting += [*(value.__closure__ or ()), *(value.__defaults__ or ()), value.__dict__, value.__code__]
        elif not isinstance(value, types.CodeType):
            waiting += gc.get_referents(value)
    return list(seen.values())


def test_memory_does_not_grow_over_calls() -> None:
    def f(x, items):
        items.append(1)
        return [x + len(items)], {"n": len(items)}

    compiled = framelift.compile(f, backend="eager")
    x = torch.ones(2)
    for _ in range(50):
        compiled(x, [])
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(500):
        compiled(x, [])
    gc.collect()
    assert len(gc.get_objects()) - before < 50


_GROWTH = """
import gc, torch, framelift
def once():
    def f(x):
        return x * 2 + 1
    framelift.compile(f, backend="eager")(torch.ones(2))
for _ in range(5):
    once()
framelift.reset()
gc.collect()
before = len(gc.get_objects())
for _ in range(20):
    once()
framelift.reset()
gc.collect()
print(len(gc.get_objects()) - before)
"""


def test_memory_does_not_grow_over_captures() -> None:
    """In a process of its own: pytest keeps every record that is logged."""
    out = subprocess.run([sys.executable, "-c", _GROWTH], capture_output=True, text=True, check=True)
    assert int(out.stdout.split()[-1]) < 400


def test_bert_dies() -> None:
    model, kwargs = MODELS["bert"](layers=2)
    compiled = framelift.compile(model, backend="eager")
    with torch.no_grad():
        out = compiled(**kwargs)
    references = [weakref.ref(o) for o in (model, compiled, out, out.last_hidden_state, next(model.parameters()))]
    del model, compiled, out, kwargs
    dies(*references)


def test_gradients_die_without_the_collector() -> None:
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = framelift.compile(lambda: optimizer.step(), backend="eager")
    model(torch.ones(4)).sum().backward()
    step()
    grad = weakref.ref(model.weight.grad)
    gc.disable()
    try:
        optimizer.zero_grad()
        assert grad() is None
    finally:
        gc.enable()
