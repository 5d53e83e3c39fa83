"""Tensor.register_hook in captured code: on inputs an effect, on results a graph of its own."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

import framelift


def add(grad: torch.Tensor, *, k: float = 0.0) -> torch.Tensor:
    return grad + k


def agree(fn: Any, backend: str = "eager") -> None:
    framelift.reset()
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for _ in range(2):
        rows = []
        for run in (fn, compiled):
            x = torch.ones(3, requires_grad=True)
            out = run(x)
            out.sum().backward()
            rows.append((out, x.grad))
        torch.testing.assert_close(rows[1], rows[0])
    assert framelift.stats()["graphs"] == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_on_a_result(backend: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        scale = torch.arange(3.0)
        y.register_hook(lambda grad: grad * scale)
        y.register_hook(functools.partial(add, k=3.0))
        z = y.sin()
        z.register_hook(lambda grad: None)
        return z * 3

    agree(fn, backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_on_an_input(backend: str) -> None:
    hook = functools.partial(add, k=3.0)

    def fn(x: torch.Tensor) -> torch.Tensor:
        x.register_hook(hook)
        x.register_hook(lambda grad: grad * 2)
        return x.sin()

    agree(fn, backend)


def test_a_hook_on_an_input_may_have_effects() -> None:
    seen: list[int] = []

    def fn(x: torch.Tensor) -> torch.Tensor:
        x.register_hook(lambda grad: seen.append(1))
        return x * 2

    x = torch.ones(3, requires_grad=True)
    out = framelift.compile(fn, backend="eager", fullgraph=True)(x)
    assert seen == []
    out.sum().backward()
    assert seen == [1]


def test_after_the_gradient_is_there() -> None:
    seen: list[float] = []

    def fn(x: torch.Tensor) -> torch.Tensor:
        x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.sum().item()))
        return x * 2

    x = torch.ones(3, requires_grad=True)
    framelift.compile(fn, backend="eager", fullgraph=True)(x).sum().backward()
    assert seen == [6.0]

    def inside(x: torch.Tensor) -> None:
        x.register_post_accumulate_grad_hook(lambda leaf: seen.append(1.0))
        (x * 3).sum().backward()

    framelift.compile(inside, backend="eager")(x := torch.ones(2, requires_grad=True))
    assert seen == [6.0, 1.0] and x.grad.tolist() == [3.0, 3.0]


def test_a_hook_on_a_result_may_not() -> None:
    seen: list[int] = []

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.register_hook(lambda grad: seen.append(1))
        return y

    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(3, requires_grad=True))
    x = torch.ones(3, requires_grad=True)
    framelift.compile(fn, backend="eager")(x).sum().backward()
    assert seen == [1]


class Keeper:
    handle: Any = None


KEEPER = Keeper()


def _returned(x: torch.Tensor) -> Any:
    first, second = x.register_hook(lambda grad: grad * 3), x.register_hook(lambda grad: grad + 1)
    return x * 2, [first, first], second


def _stored(x: torch.Tensor) -> Any:
    KEEPER.handle = x.register_hook(lambda grad: grad * 3)
    other = x.register_hook(lambda grad: grad + 1)
    return x * 2, [KEEPER.handle, KEEPER.handle], other


def _after_accumulation(x: torch.Tensor) -> Any:
    def reset(leaf: torch.Tensor) -> None:
        leaf.grad = leaf.grad * 5  # type: ignore[operator]

    first = x.register_post_accumulate_grad_hook(reset)
    return x * 2, [first, first], x.register_hook(lambda grad: grad + 1)


@pytest.mark.parametrize("removed", [0, 1, 2])
@pytest.mark.parametrize("fn", [_returned, _stored, _after_accumulation])
def test_handles_of_hooks_on_inputs_can_be_kept(fn: Any, removed: int) -> None:
    rows = []
    for run in (fn, framelift.compile(fn, backend="eager", fullgraph=True)):
        for _ in range(2):
            x = torch.ones(3, requires_grad=True)
            out, (first, again), second = run(x)
            assert first is again and type(first) is type(second) is torch.utils.hooks.RemovableHandle
            assert first.id < second.id and (fn is not _stored or KEEPER.handle is first)
            for handle in (first, second)[:removed]:
                handle.remove()
            out.sum().backward()
            rows.append((out, x.grad))
    torch.testing.assert_close(rows[2:], rows[:2])


def test_handles_over_a_graph_break() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        handle = x.register_hook(lambda grad: grad * 3)
        y = x * 2
        framelift.graph_break()
        handle.remove()
        return y + 1

    x = torch.ones(3, requires_grad=True)
    framelift.compile(fn, backend="eager")(x).sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 2.0))  # type: ignore[arg-type]


def test_handles_that_are_not_kept() -> None:
    def of_a_result(x: torch.Tensor) -> Any:
        y = x * 2
        return y.sum(), y.register_hook(lambda grad: grad * 3)

    def removed(x: torch.Tensor) -> Any:
        handle = x.register_hook(lambda grad: grad * 3)
        handle.remove()
        return x.sum(), handle

    for fn in (of_a_result, removed):
        x = torch.ones(3, requires_grad=True)
        with pytest.raises(framelift.exc.Unsupported, match="RemovableHandle"):
            framelift.compile(fn, backend="eager", fullgraph=True)(x)
        _, handle = framelift.compile(fn, backend="eager")(x)
        handle.remove()


def _of_an_input(x: torch.Tensor) -> torch.Tensor:
    kept, removed = x.register_hook(lambda grad: grad + 1), x.register_hook(lambda grad: grad * 3)  # noqa: F841
    y = (x * 2).sum()
    removed.remove()
    removed.remove()
    return y


def _of_results(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    handles = [one.register_hook(lambda grad, n=n: grad * n) for n, one in enumerate((x, y, x, y), 2)]
    handles[0].remove()
    handles[3].remove()
    return (y * x).sum()


def _in_a_handler(x: torch.Tensor) -> torch.Tensor:
    try:
        handle = x.register_hook(lambda grad: grad * 3)
        raise ValueError
    except ValueError:
        handle.remove()
    return (x * 2).sum()


def _not_called(x: torch.Tensor) -> torch.Tensor:
    handle = x.register_hook(lambda grad: grad * 3)
    return (x * 2).sum() if handle.remove else x


def _after_a_gradient(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    handle = y.register_hook(lambda grad: grad * 3)
    remove = handle.remove
    (grad,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    remove()
    return (grad * y).sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [_of_an_input, _of_results, _in_a_handler, _not_called, _after_a_gradient])
def test_hooks_that_are_removed_again(fn: Any, backend: str) -> None:
    found = []
    for run in (fn, framelift.compile(fn, backend=backend)):
        x = torch.ones(3, requires_grad=True)
        result = run(x)
        result.backward()
        found.append((result.item(), x.grad.tolist(), len(x._backward_hooks or ())))
    assert found[0] == found[1]
    assert bool(framelift.stats()["breaks"]) == (fn is _after_a_gradient)


class Settings:
    scale = 2.0


FACTOR = 2.0


def _by_variable(x):
    y = x * 2
    y.register_hook(lambda grad: grad * FACTOR)
    return y


def _by_class(x):
    y = x * 2
    y.register_hook(lambda grad: grad * Settings.scale)
    return y


def _by_module_of_hooks(x):
    return LAYER(x)


def _by_unpacking(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * FACTOR):
        return x * x


LAYER = torch.nn.Linear(3, 3, bias=False)
torch.nn.init.ones_(LAYER.weight)
LAYER.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * FACTOR,))


@pytest.mark.parametrize("program", [_by_variable, _by_class, _by_module_of_hooks, _by_unpacking])
def test_values_that_change_between_forward_and_backward(program, monkeypatch) -> None:
    found = []
    for function in (program, framelift.compile(program, backend="eager")):
        grads = []
        for value in (2.0, 3.0, 4.0):
            x = torch.ones(3, requires_grad=True)
            result = function(x)
            monkeypatch.setitem(globals(), "FACTOR", value)
            monkeypatch.setattr(Settings, "scale", value)
            result.sum().backward()
            grads.append(x.grad.tolist())
        found.append(grads)
    assert found[0] == found[1]


def _refusing(*_: Any) -> Any:
    raise KeyError("not now")


def _raises_on_a_result(x):
    y = x * 2
    y.register_hook(_refusing)
    return y


def _raises_on_an_input(x):
    x.register_hook(_refusing)
    return x * 2


def _raises_behind_a_module(x):
    layer = torch.nn.Linear(3, 3)
    layer.register_full_backward_hook(_refusing)
    return layer(x)


def _raises_unpacking(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, _refusing):
        return x * x


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "program", [_raises_on_a_result, _raises_on_an_input, _raises_behind_a_module, _raises_unpacking]
)
def test_hooks_that_raise(program, backend: str) -> None:
    """In the backward, and not where they are captured."""
    for function in (program, framelift.compile(program, backend=backend)):
        for _ in range(2):
            x = torch.ones(3, requires_grad=True)
            result = function(x).sum()
            with pytest.raises(KeyError, match="not now"):
                result.backward()
            assert x.grad is None
