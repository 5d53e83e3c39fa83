"""Full backward hooks of modules that captured code calls.

Each is a break that leaves them to plain Python.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.nn.modules.module import register_module_full_backward_hook
from torch.utils.checkpoint import checkpoint

import framelift

FACTOR = torch.full((4,), 2.0)
SEEN: list[Any] = []
FULL, PRE = "register_full_backward_hook", "register_full_backward_pre_hook"


class Net(torch.nn.Module):
    """Three layers; `hooks` are (layer, how it is registered, the hook)."""

    def __init__(self, *hooks: tuple[int, str, Callable[..., Any]]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4)])
        for layer, how, hook in hooks:
            getattr(self.layers[layer], how)(hook)

    def forward(self, x: torch.Tensor) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def steps(make: Callable[[], Any], backend: str | None, needs_grad: bool = True, **options: Any) -> list[Any]:
    """Three calls, each with a backward outside: results and gradients."""
    model = make()
    run = model if backend is None else framelift.compile(model, backend=backend, **options)
    found: list[Any] = []
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(2, 4, requires_grad=needs_grad)
        y = run(x)
        (y * y).sum().backward()
        found += [y.detach(), x.grad, *(p.grad.clone() for p in model.parameters() if p.grad is not None), *SEEN]
        SEEN.clear()
    return found


def same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return len(left) == len(right) and all(
        a is b or torch.allclose(torch.as_tensor(a), torch.as_tensor(b), atol=1e-6) for a, b in zip(left, right)
    )


PURE: dict[str, list[tuple[int, str, Callable[..., Any]]]] = {
    "the gradient of the argument": [(1, FULL, lambda module, given, above: (given[0] * 2,))],
    "both gradients": [(1, FULL, lambda module, given, above: (given[0] + above[0] * 3,))],
    "before": [(1, PRE, lambda module, above: (above[0] * 5,))],
    "several": [
        (1, PRE, lambda module, above: (above[0] * 5,)),
        (1, PRE, lambda module, above: (above[0] - 1,)),
        (1, FULL, lambda module, given, above: (given[0] + above[0],)),
        (1, FULL, lambda module, given, above: [given[0].clamp(min=0)]),
    ],
    "nothing": [(1, FULL, lambda module, given, above: None), (2, PRE, lambda module, above: None)],
}


def note(module: Any, given: Any, above: Any) -> None:
    SEEN.append(above[0].clone())


LEFT: dict[str, tuple[list[tuple[int, str, Callable[..., Any]]], bool]] = {
    "a hook with an effect": ([(1, FULL, note)], True),
    "a hook that looks at its module": (
        [(2, FULL, lambda module, given, above: (given[0] * module.weight.mean(),))],
        True,
    ),
    "a tensor from around": ([(2, FULL, lambda module, given, above: (given[0] * FACTOR,))], True),
    "a tensor from around, before": ([(0, PRE, lambda module, above: (above[0] * FACTOR,))], True),
    "a value taken": ([(1, FULL, lambda module, given, above: (given[0] * above[0].sum().item(),))], True),
    "an argument without a gradient": ([(0, FULL, note)], False),
    **{kind: (hooks, True) for kind, hooks in PURE.items()},
}


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("kind", LEFT)
def test_left_to_plain_python(kind: str) -> None:
    hooks, needs_grad = LEFT[kind]
    wanted = steps(lambda: Net(*hooks), None, needs_grad)
    framelift.reset()
    assert same(steps(lambda: Net(*hooks), "eager", needs_grad), wanted)
    assert framelift.stats()["breaks"]


class Between(torch.nn.Module):
    """A hooked module whose own forward is broken."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 4)
        self.layer.register_full_backward_hook(lambda module, given, above: (given[0] * 2,))
        self.inner = self.Inner()
        self.inner.register_full_backward_hook(lambda module, given, above: (given[0] * 3,))
        self.inner.register_full_backward_pre_hook(lambda module, above: (above[0] * 7,))

    class Inner(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.sin(x)
            framelift.graph_break()
            return y * x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.inner(self.layer(x)))


class Leaking(torch.nn.Module):
    """What the module was given is used beside it, and its result has no history that leads to it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_full_backward_hook(lambda module, given, above: (given[0] * 3,))
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        SEEN.append(x.detach())
        return x.detach().requires_grad_() * self.weight


class Checkpointed(Net):
    def __init__(self) -> None:
        super().__init__((1, FULL, lambda module, given, above: (given[0] * 2 + above[0],)))

    def forward(self, x: torch.Tensor) -> Any:
        return checkpoint(super().forward, x, use_reentrant=False)


class Once(torch.nn.Module):
    """A module of which some arguments and results are no tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = self.Pair()
        self.pair.register_full_backward_hook(lambda module, given, above: (None, given[1] * above[1].mean()))
        self.named = self.Named()
        self.named.register_full_backward_hook(lambda module, given, above: (given[0] * 100,))

    class Pair(torch.nn.Module):
        def forward(self, times: int, x: torch.Tensor) -> Any:
            return times, x.exp() * times

    class Named(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return {"y": x.cos()}  # hooks are not called for what is in it

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        times, y = self.pair(3, x)
        return self.named(y)["y"] * times


@pytest.mark.parametrize(
    ("model", "backend"), itertools.product([Between, Leaking, Checkpointed, Once], ["eager", "aot_eager"])
)
def test_around_hooked_modules(model: type[torch.nn.Module], backend: str) -> None:
    wanted = steps(model, None)
    framelift.reset()
    assert same(steps(model, backend), wanted)


def test_a_backward_inside() -> None:
    def run(compiled: bool) -> list[torch.Tensor]:
        net = Net(*PURE["several"])

        def step(x: torch.Tensor) -> torch.Tensor:
            loss = net(x).square().sum()
            loss.backward()
            return loss.detach()

        call = framelift.compile(step, backend="eager") if compiled else step
        torch.manual_seed(1)
        found = [call(torch.randn(2, 4)) for _ in range(3)]
        return [*found, *(p.grad for p in net.parameters() if p.grad is not None)]

    assert same(run(True), run(False))


def test_hooks_of_all_modules_and_hooks_that_come_and_go() -> None:
    def run(compiled: bool) -> list[Any]:
        net, found = Net(), []
        call = framelift.compile(net, backend="eager") if compiled else net

        def gradient() -> Any:
            x = torch.ones(2, 4, requires_grad=True)
            call(x).sum().backward()
            return x.grad

        found.append(gradient())
        handle = net.layers[1].register_full_backward_hook(lambda module, given, above: (given[0] * 2,))
        found.append(gradient())
        every = register_module_full_backward_hook(lambda module, given, above: (given[0] + 1,))
        try:
            found.append(gradient())
            handle.remove()
            found.append(gradient())
        finally:
            every.remove()
        with torch.no_grad():
            found.append(call(torch.ones(2, 4)))
        return [*found, gradient()]

    assert same(run(True), run(False))


def test_a_value_taken_in_the_hook_of_a_tensor() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.register_hook(lambda grad: SEEN.append(grad.sum().item()))
        return y * 3

    x = torch.ones(2, requires_grad=True)
    framelift.reset()
    framelift.compile(f, backend="eager")(x).sum().backward()
    assert SEEN == [6.0] and framelift.stats()["breaks"]
    SEEN.clear()


def test_recorded_hooks_are_not_captured_again_when_they_run() -> None:
    layer = torch.nn.Linear(4, 4)

    def step(x: torch.Tensor) -> torch.Tensor:
        y = layer(x)
        y.register_hook(lambda grad: grad.clamp(-0.5, 0.5))
        layer.weight.register_hook(lambda grad: grad * 0.5)
        y.sum().backward()  # left to plain Python, for there are hooks on leaves
        return y.detach()

    framelift.reset()
    run = framelift.compile(step, backend="eager")
    run(torch.ones(3, 4))
    assert torch.equal(layer.weight.grad, torch.full((4, 4), 0.75))
    assert [key for key in framelift.stats()["breaks"] if "hooks" not in key] == []
