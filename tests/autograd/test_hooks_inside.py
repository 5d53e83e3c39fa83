"""Hooks that captured code registers on modules.

The number that counts them is other at each call, and decides nothing.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch.utils.hooks import RemovableHandle

import framelift


class Removed(torch.nn.Module):
    """Registers hooks for the length of one call."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        first = self.inner.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        with (
            self.inner.register_forward_hook(lambda module, args, out: out * 3),
            self.inner.register_forward_hook(lambda module, args, kwargs, out: out - 2, with_kwargs=True, prepend=True),
        ):
            y = self.inner(x)
        first.remove()
        return y


class Everywhere(Removed):
    """A hook of all modules."""

    def forward(self, x: torch.Tensor) -> Any:
        handle = torch.nn.modules.module.register_module_forward_hook(lambda module, args, out: out * 3)
        y = self.inner(x)
        handle.remove()
        return y


class Kept(Removed):
    """A hook that stays."""

    def forward(self, x: torch.Tensor) -> Any:
        handle = self.inner.register_forward_hook(lambda module, args, out: out * 3)
        return self.inner(x), handle


class Told(Removed):
    """A program that looks at the number."""

    def forward(self, x: torch.Tensor) -> Any:
        with self.inner.register_forward_hook(lambda module, args, out: out * 3) as handle:
            return self.inner(x), list({handle.id, 3, 1000, 77}), f"{handle.id}", handle.id % 7


def both(model: type[Removed], calls: int, after: Any = None) -> int:
    """Call a model captured and plainly, each with the same numbers; how many captures it took."""
    framelift.reset()
    captured, plain = model(), model()
    plain.load_state_dict(captured.state_dict())
    run = framelift.compile(captured, backend="eager", fullgraph=True)
    x = torch.randn(2, 4)
    for _ in range(calls):
        RemovableHandle.next_id += 3
        start = RemovableHandle.next_id
        got = run(x)
        end, RemovableHandle.next_id = RemovableHandle.next_id, start
        wanted = plain(x)
        assert end == RemovableHandle.next_id
        if model is Kept:
            assert got[1].id == wanted[1].id
            got, wanted = got[0], wanted[0]
        parts = [(got, wanted)] if isinstance(got, torch.Tensor) else zip(got, wanted)
        assert all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in parts)
        for one in (captured, plain):
            if after is not None:
                after(one)
        assert [*captured.inner._forward_hooks] == [*plain.inner._forward_hooks]
    return framelift.stats()["captures"]


@pytest.mark.parametrize("model", [Removed, Everywhere])
def test_hooks_of_one_call_are_captured_once(model: type[Removed]) -> None:
    assert both(model, 4) == 1


def test_a_hook_that_stays_has_its_own_number() -> None:
    assert both(Kept, 4, after=lambda model: model.inner._forward_hooks.clear()) == 1
    assert both(Kept, 3) == 3  # another table of hooks at each call


def test_a_program_that_looks_at_the_number_gets_it() -> None:
    both(Told, 4)


def test_a_number_that_is_a_key_already() -> None:
    start = RemovableHandle.next_id
    layer = torch.nn.Identity()

    def f(x: torch.Tensor) -> Any:
        layer.register_forward_hook(lambda module, args, out: out + 1)
        return layer(x)

    run = framelift.compile(f, backend="eager")
    try:
        for i in (9, 8, 6, 7, 5, 10):
            layer._forward_hooks.clear()
            layer._forward_hooks[start + 6] = lambda module, args, out: out * 10
            RemovableHandle.next_id = start + i
            assert run(torch.ones(())).item() == (2 if i == 6 else 11)
            assert [*layer._forward_hooks] == ([start + 6] if i == 6 else [start + 6, start + i])
    finally:
        RemovableHandle.next_id = start + 11


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_hooks_on_results_and_on_inputs_are_counted_too(backend: str) -> None:
    layer = torch.nn.Linear(4, 4)

    def results(x: torch.Tensor) -> Any:
        y = x * 2
        y.register_hook(lambda grad: grad * 2)
        y.register_hook(lambda grad: grad * 3)
        handle = layer.register_forward_hook(lambda module, args, out: out * 2)
        y = layer(y)
        y.register_hook(lambda grad: grad * 5)
        handle.remove()
        return y, handle.id

    def inputs(x: torch.Tensor) -> Any:
        handle = layer.register_forward_hook(lambda module, args, out: out * 2)
        x.register_hook(lambda grad: grad * 2)
        handle.remove()
        return layer(x), handle.id

    for f in (results, inputs):
        run = framelift.compile(f, backend=backend)
        for _ in range(3):
            found = []
            start = RemovableHandle.next_id
            for call in (run, f):
                RemovableHandle.next_id = start
                x = torch.ones(2, 4, requires_grad=True)
                y, number = call(x)
                found.append((number, RemovableHandle.next_id, y.detach()))
                y.sum().backward()
                found[-1] += (x.grad,)
            torch.testing.assert_close(found[0], found[1])


def test_what_a_compiler_registers_is_not_counted() -> None:
    layer = torch.nn.Linear(4, 4)

    def f(x: torch.Tensor, text: str) -> Any:
        with layer.register_forward_hook(lambda module, args, out: out * len(text)) as handle:
            y = layer(x)
        y.register_hook(lambda grad: grad * 2)
        return y, f"{text}{handle.id}"

    run = framelift.compile(f, backend="aot_eager")
    for text in ("a", "bb", "ccc"):
        start = RemovableHandle.next_id
        assert run(torch.ones(2, 4, requires_grad=True), text)[1] == f"{text}{start}"
        assert RemovableHandle.next_id == start + 2


@pytest.mark.parametrize("lives", [False, True])
def test_a_hook_that_another_thread_registers_meanwhile_is_kept(lives: bool) -> None:
    layer, done, leave = torch.nn.Linear(2, 2), threading.Event(), threading.Event()

    def work() -> None:
        layer.register_forward_hook(lambda module, args, out: out * 2)
        done.set()
        if lives:
            leave.wait(60)

    def backend(graph_module: Any, inputs: Any) -> Any:
        thread = threading.Thread(target=work)
        thread.start()
        done.wait(60)
        if not lives:
            thread.join()
        torch.ones(1, requires_grad=True).register_hook(lambda grad: grad)  # the compiler's own
        return graph_module

    framelift.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
    layer.register_forward_hook(lambda module, args, out: out * 3)
    leave.set()
    assert len(layer._forward_hooks) == 2
    x = torch.ones(1, 2)
    torch.testing.assert_close(layer(x), torch.nn.functional.linear(x, layer.weight, layer.bias) * 6)
