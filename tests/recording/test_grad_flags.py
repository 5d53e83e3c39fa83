"""`requires_grad` of external tensors, switched by captured code.

In one graph, and the real tensors are switched too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import framelift

from support import World, check, compiled

X, Y = torch.linspace(-1, 1, 6).reshape(2, 3), torch.linspace(2, 3, 6).reshape(2, 3)


def frozen_for_a_while(x: Any, y: Any) -> Any:
    first = x * y
    x.requires_grad_(False)
    second = x * y
    was = x.requires_grad
    x.requires_grad_(True)
    return first, second, x * 3, was, x.requires_grad


def frozen_for_good(x: Any, y: Any) -> Any:
    first = x.sin()
    x.requires_grad = False
    return first, x.cos(), x.requires_grad


def written_while_frozen(x: Any, y: Any) -> Any:
    x.requires_grad_(False)
    x.mul_(2)
    x.requires_grad_()
    return x * y


def switched_on_and_gone_through(x: Any, y: Any) -> Any:
    y.requires_grad_()
    (slope,) = torch.autograd.grad((y.sin() * x).sum(), y)
    return slope.detach(), y.requires_grad, y.is_leaf


def switched_on_with_backward(x: Any, y: Any) -> Any:
    y.requires_grad = True
    loss = (y.sin() * x).sum()
    loss.backward()
    y.requires_grad = False
    return loss.detach(), y.grad


def on_and_off_and_on(x: Any, y: Any) -> Any:
    y.requires_grad_()
    loss = (y.sin() * x).sum()
    y.requires_grad_(False)
    quiet = y * 2
    y.requires_grad_()
    return torch.autograd.grad(loss, y)[0].detach(), quiet


ONE_GRAPH: list[Callable[..., Any]] = [
    frozen_for_a_while,
    frozen_for_good,
    written_while_frozen,
    switched_on_and_gone_through,
    switched_on_with_backward,
    on_and_off_and_on,
]


def _again(call: int, world: World) -> None:
    """Each call begins as the first one did, or with the other flags."""
    x, y = world.args
    x.requires_grad_(call % 2 == 0)
    y.requires_grad_(call == 3)
    x.grad = y.grad = None


@pytest.mark.parametrize("backend", ("eager", "aot_eager"))
@pytest.mark.parametrize("run", ONE_GRAPH)
def test_one_graph(run: Any, backend: str) -> None:
    check(run, X.clone().requires_grad_(), Y.clone(), calls=1, backend=backend)


@pytest.mark.parametrize("run", ONE_GRAPH)
def test_with_other_flags(run: Any) -> None:
    check(run, X.clone().requires_grad_(), Y.clone(), calls=4, mutate=_again, graphs=None, breaks=None, captures=None)


def outlives(x: Any, y: Any) -> Any:
    """The result's history leads to `y`, which the graph's would not."""
    y.requires_grad_()
    return y * x


def frozen_before_backward(x: Any, y: Any) -> Any:
    """Nothing is added to the gradient of a tensor that is frozen by then."""
    loss = (x * y).sum()
    x.requires_grad_(False)
    z = y.clone().requires_grad_()
    (loss + z.sum()).backward()
    return z.grad, x.grad


def seen_through_views(x: Any, y: Any) -> Any:
    """A view requires grad as soon as what it is a view of does."""
    x.requires_grad_(False)
    row = x[0]
    x.requires_grad_()
    flat = y.view(-1)
    y.requires_grad_()
    return row.requires_grad, flat.requires_grad, row, flat


def view_as_a_result(x: Any, y: Any) -> Any:
    x.requires_grad_(False)
    return x[0]


@pytest.mark.parametrize("run", (outlives, frozen_before_backward, seen_through_views, view_as_a_result))
def test_left_to_plain_python(run: Any) -> None:
    check(run, X.clone().requires_grad_(), Y.clone(), graphs=None, breaks=None, captures=None, calls=1)


def assigned_to_a_result(x: Any, y: Any) -> Any:
    """That is refused, whatever is assigned."""
    z = x * y
    try:
        z.requires_grad = True
    except RuntimeError as error:
        return str(error)
    return z


def test_assignment_to_a_result() -> None:
    check(assigned_to_a_result, X.clone().requires_grad_(), Y.clone(), graphs=None, breaks=None)


def test_a_view_of_a_frozen_tensor_that_is_switched_on_later() -> None:
    for run in (view_as_a_result, compiled(view_as_a_result)):
        x = X.clone().requires_grad_()
        view = run(x, Y)
        x.requires_grad_()
        assert view.requires_grad


def test_a_view_from_outside() -> None:
    def met_before(x: Any, view: Any) -> Any:
        before = view.requires_grad
        x.requires_grad_()
        return before, view.requires_grad, x.requires_grad

    def met_after(x: Any, view: Any) -> Any:
        x.requires_grad_()
        return False, view.requires_grad, x.requires_grad

    for run in (met_before, met_after):
        for call in (run, compiled(run)):
            x = X.clone()
            assert call(x, x[0]) == (False, True, True)


def test_switching_off_stays_in_the_graph() -> None:
    """Though another call of the same code has a result that depends on what it switched on."""

    def switch_on(_call: int, world: World) -> None:
        world.args[0].requires_grad_()

    check(frozen_for_a_while, X.clone(), Y.clone(), mutate=switch_on, graphs=None, breaks=None, captures=None)
    check(frozen_for_a_while, X.clone().requires_grad_(), Y.clone())


def test_gradients_reach_what_was_switched() -> None:
    """After the call, a backward outside acts as it does in plain Python."""
    for run in (frozen_for_a_while, frozen_for_good, written_while_frozen, outlives):
        grads = []
        for call in (run, compiled(run)):
            x, y = X.clone().requires_grad_(), Y.clone()
            result = call(x, y)
            sum(
                one.sum()
                for one in (result if type(result) is tuple else (result,))
                if isinstance(one, torch.Tensor) and one.requires_grad
            ).backward()
            grads.append((x.grad, y.grad, x.requires_grad, y.requires_grad))
        torch.testing.assert_close(grads[0], grads[1])


@pytest.mark.parametrize("backend", ("eager", "aot_eager"))
def test_a_step_of_two_players(backend: str) -> None:
    """One network is frozen while the other one learns."""

    def step(maker: nn.Module, judge: nn.Module, noise: torch.Tensor, real: torch.Tensor) -> Any:
        judge.requires_grad_(True)
        loss = judge(maker(noise).detach()).mean() - judge(real).mean()
        loss.backward()
        with torch.no_grad():
            for p in judge.parameters():
                p.sub_(0.1 * p.grad)
                p.grad = None
        judge.requires_grad_(False)
        other = -judge(maker(noise)).mean()
        other.backward()
        return loss.detach(), other.detach()

    torch.manual_seed(0)
    maker, judge = (
        nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)),
        nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)),
    )
    check(step, maker, judge, X, Y, calls=3, graphs=2, captures=2, backend=backend)


def test_a_result_loses_its_history() -> None:
    def alone(x):
        y = x.sin()
        same = y.detach_() is y
        z = y.clone().requires_grad_()
        return y * x, same, y.requires_grad, y.is_leaf, z * x

    def seen_by_a_view(x):
        y = x.sin()
        v = y[0]
        y.detach_()
        return y * 3 + v

    for backend in ("eager", "aot_eager"):
        results = []
        for run in (alone, framelift.compile(alone, backend=backend, fullgraph=True)):
            x = torch.ones(3, requires_grad=True)
            made = run(x)
            results.append((made[0].detach(), made[1:4], torch.autograd.grad((made[0] + made[4]).sum(), x)[0]))
        assert str(results[0]) == str(results[1])
    want = seen_by_a_view(torch.ones(3, requires_grad=True))
    got = framelift.compile(seen_by_a_view, backend="eager")(torch.ones(3, requires_grad=True))
    assert torch.equal(want, got) and want.requires_grad == got.requires_grad
