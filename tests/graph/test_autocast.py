"""Regions of autocast.

Torch keeps the casts of weights until the outermost one is left, and gradients are added up in that cast.
"""

from __future__ import annotations

import contextlib

import pytest
import torch

import framelift
from support import check, compiled

B16 = torch.bfloat16


def region(**options):
    return torch.autocast("cpu", **{"dtype": B16, **options})


def nesting() -> int:
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def off_inside(x, w):
    with region():
        a = x @ w
        with region(enabled=False):
            b = a.float() @ w
        return b @ w


def two_regions(x, w):
    context = region()
    with context:
        a = x @ w
    with context:
        return a @ w


def region_in_region(x, w):
    with region():
        with region():
            a = x @ w
        return a @ w


def on_in_off(x, w):
    with region(enabled=False):
        x = x.sin()
        for _ in range(2):
            with region():
                y = x @ w
            x = y.float().cos()
    return x


def without_cache(x, w):
    with region(cache_enabled=False):
        a = x @ w
        with region():
            b = a @ w
        return b @ w


def by_hand(x, w):
    context = region()
    context.__enter__()
    a = x @ w
    context.__exit__(None, None, None)
    return a @ w.to(B16)


def decorated(x, w):
    @region()
    def inner(x):
        return x @ w

    return inner(x) + inner(x.sin())


def on_a_stack(x, w):
    with contextlib.ExitStack() as stack:
        stack.enter_context(region())
        a = x @ w
        stack.enter_context(region(enabled=False))
        later = stack.pop_all()
    b = a.float() @ w
    later.close()
    return b @ w


def waiting_generator(x, w):
    def steps():
        with region():
            yield x @ w
            yield x.sin() @ w

    first, second = steps()
    return first + second


def caught(x, w):
    try:
        with region():
            a = x @ w
            raise ValueError
    except ValueError:
        with region():
            return a @ w


def broken_inside(x, w):
    with region():
        a = x @ w
        print(end="")
        return a @ w


def broken_and_opened_again(x, w):
    with region():
        a = x @ w
        print(end="")
        b = a @ w
    with region():
        return b @ w


def broken_in_the_second(x, w):
    with region(enabled=False):
        x = x @ w
    with region(enabled=False):
        for _ in range(2):
            with region():
                y = x @ w
            print(end="")
            x = y.float().cos()
    return x


def broken_in_both(x, w):
    with region(enabled=False):
        print(end="")
        x = x.sin()
    with region(enabled=False):
        for _ in range(2):
            with region():
                y = x @ w
            print(end="")
            x = y.float().cos()
    return x


def broken_in_a_loop(x, w):
    for _ in range(3):
        with region():
            x = (x @ w).sin()
            print(end="")
            x = (x @ w).sin()
    return x


WHOLE = [
    off_inside,
    on_in_off,
    two_regions,
    region_in_region,
    without_cache,
    by_hand,
    decorated,
    on_a_stack,
    waiting_generator,
    caught,
]
BROKEN = [broken_inside, broken_in_both, broken_in_the_second, broken_and_opened_again, broken_in_a_loop]


def steps(f, count=4):
    """Results and gradients of training steps: the weights change between calls."""
    torch.manual_seed(0)
    x, w = torch.randn(2, 3), torch.randn(3, 3, requires_grad=True)
    found = []
    for _ in range(count):
        w.grad = None
        out = f(x, w)
        out.float().sum().backward()
        found += [out.detach().clone(), w.grad]
        with torch.no_grad():
            w -= 0.1 * w.grad.clamp(-1, 1)
        assert nesting() == 0 and not torch.is_autocast_enabled("cpu")
    return found


@pytest.mark.parametrize("f", [*WHOLE, *BROKEN], ids=lambda f: f.__name__)
def test_gradients_of_weights_are_added_up_where_torch_adds_them(f):
    framelift.reset()
    got = steps(compiled(f, fullgraph=f in WHOLE))
    torch.testing.assert_close(got, steps(f), rtol=0, atol=0)
    assert f in BROKEN or framelift.stats()["graphs"] == 1


@pytest.mark.parametrize("f", [*WHOLE, *BROKEN], ids=lambda f: f.__name__)
def test_with_a_compiler_that_keeps_no_casts(f):
    got = steps(compiled(f, backend="aot_eager", fullgraph=f in WHOLE))
    torch.testing.assert_close(got, steps(f), rtol=0.1, atol=0.1)


@pytest.mark.parametrize("f", [*WHOLE, *BROKEN], ids=lambda f: f.__name__)
def test_around_calls_in_a_region(f):
    def around(run):
        def call(x, w):
            with region():
                return run(x, w) + run(x, w)

        return call

    torch.testing.assert_close(steps(around(compiled(f))), steps(around(f)), rtol=0, atol=0)


def test_weights_written_between_regions_behind_a_break():
    def f(x, w):
        with region():
            a = x @ w
            print(end="")
            b = a @ w
        with torch.no_grad():
            w.mul_(2)
        with region():
            return (b + x @ w).sum()

    check(f, torch.randn(3, 3), torch.randn(3, 3, requires_grad=True), graphs=None, breaks=1, calls=3)


def test_a_region_that_is_left_inside():
    def f(x, w):
        a = x @ w
        context.__exit__(None, None, None)
        return a, x @ w, torch.is_autocast_enabled("cpu")

    w = torch.randn(3, 3, requires_grad=True)
    for run in (f, compiled(f), compiled(f, backend="aot_eager")):
        for _ in range(2):
            context = region()
            context.__enter__()
            a, b, on = run(torch.ones(3, 3), w)
            assert a.dtype is B16 and b.dtype is torch.float32 and not on
            assert nesting() == 0 and not torch.is_autocast_enabled("cpu")


def test_a_region_that_stays_open():
    def f(x, w):
        context = region()
        context.__enter__()
        return x @ w, context

    w = torch.randn(3, 3, requires_grad=True)
    for run in (f, compiled(f), compiled(f, backend="aot_eager")):
        for _ in range(2):
            out, context = run(torch.ones(3, 3), w)
            assert out.dtype is B16 and nesting() == 1 and torch.is_autocast_enabled("cpu")
            context.__exit__(None, None, None)
            assert nesting() == 0 and not torch.is_autocast_enabled("cpu")


def test_a_graph_that_fails_in_a_region_that_stays_open():
    def f(x, i, w):
        context = region()
        context.__enter__()
        out = (x @ w)[i]
        return out, context

    run = compiled(f)
    x, w = torch.ones(3, 3), torch.randn(3, 3, requires_grad=True)
    run(x, torch.tensor([1]), w)[1].__exit__(None, None, None)
    with pytest.raises(IndexError):
        run(x, torch.tensor([7]), w)
    torch.set_autocast_enabled("cpu", False)
    while nesting() > 0:
        torch.autocast_decrement_nesting()
    torch.clear_autocast_cache()


def test_one_callee_inside_and_outside_of_a_region():
    """Which `autocast` is the outermost one, at whose end torch lets go of the casts, depends on the caller."""

    def callee(x, w):
        with region():
            a = x.float() @ w
            print(end="")
            return (a @ w).float().sin()

    def twice(x, w):
        context = region()
        with context:
            x = x.float() @ w
        with context:
            return (x @ w).float().sin()

    def f(x, w, callee):
        with region(enabled=False):
            x = callee(x, w)
        x = callee(x, w)
        with region():
            with region():
                x = callee(x, w)
            return callee(x, w) + x @ w

    for inner in (callee, twice):
        framelift.reset()
        got = steps(compiled(lambda x, w: f(x, w, inner)))
        torch.testing.assert_close(got, steps(lambda x, w: f(x, w, inner)), rtol=0, atol=0)
        framelift.reset()
        alone = compiled(inner)
        torch.testing.assert_close(
            steps(lambda x, w: f(x, w, alone)), steps(lambda x, w: f(x, w, inner)), rtol=0, atol=0
        )


def test_a_region_in_which_nothing_is_cast_leaves_no_nodes():
    def f(x):
        with region(enabled=False):
            x = x.sin()
        return x.cos()

    graphs = []
    compiled(f, backend=lambda graph, _: graphs.append(graph) or graph.forward, fullgraph=True)(torch.ones(3))
    assert all("autocast" not in node.name for node in graphs[0].graph.nodes)
