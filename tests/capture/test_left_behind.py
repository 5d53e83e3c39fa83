"""What captured code leaves behind of transforms, levels of differentiation, inference modes and profiler ranges.

What plain Python leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad
from torch.profiler import record_function

import framelift
from support import check

TABLE = torch.linspace(-1, 1, 4)
RANGE = record_function("outside")


def _dual(i: torch.Tensor) -> Any:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(forward_ad.make_dual(TABLE, TABLE + 1)[i].sin()).tangent


FAILING: dict[str, Callable[[torch.Tensor], Any]] = {
    "vmap": lambda i: torch.vmap(lambda row, j: row[j], in_dims=(None, 0))(TABLE, i),
    "grad": lambda i: torch.func.grad(lambda row: row[i].sin().sum())(TABLE),
    "vmap of grad": lambda i: torch.vmap(lambda j: torch.func.grad(lambda row: row[j[None]].sin().sum())(TABLE))(i),
    "jvp": lambda i: torch.func.jvp(lambda row: row[i].sin(), (TABLE,), (TABLE,)),
    "dual level": _dual,
}


def _transforms() -> tuple[Any, ...]:
    hooks = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message()
    return (
        torch._C._functorch.peek_interpreter_stack(),
        forward_ad._current_level,
        torch._C._is_fwd_grad_enabled(),
        hooks,
    )


@pytest.mark.parametrize("name", FAILING)
def test_a_transform_that_fails_on_data_is_left(name: str) -> None:
    run, before = FAILING[name], _transforms()
    fast = framelift.compile(run, backend="eager")
    for index in ([0, 1], [0, 9], [3, 1]):
        given = torch.tensor(index)
        if 9 in index:
            with pytest.raises(IndexError):
                fast(given)
        else:
            torch.testing.assert_close(fast(given), run(given))
        assert _transforms() == before


@pytest.mark.parametrize("inside", (True, False))
@pytest.mark.parametrize(
    "differentiate",
    (
        lambda x: torch.func.vjp(torch.sin, x)[1](x)[0],
        lambda x: torch.func.grad(lambda y: y.sin().sum())(x),
        lambda x: torch.func.jvp(torch.sin, (x,), (x,)),
    ),
)
def test_differentiating_in_inference_mode(differentiate: Any, inside: bool) -> None:
    """Torch suspends the mode for the length of the transform, so its results are no inference tensors."""

    def step(x: torch.Tensor) -> Any:
        with torch.inference_mode(inside):
            result = differentiate(x)
        return result, x * 2

    check(step, torch.randn(3, requires_grad=True), graphs=None, breaks=None)

    def around(x: torch.Tensor) -> Any:
        return differentiate(x)

    with torch.inference_mode(inside):
        check(around, torch.randn(3), graphs=None, breaks=None)
    assert not torch.is_inference_mode_enabled()


def test_levels_of_forward_mode_that_stay_open() -> None:
    entered = framelift.compile(forward_ad.enter_dual_level, backend="eager")
    left = framelift.compile(forward_ad.exit_dual_level, backend="eager")
    for enter, leave in (
        (entered, left),
        (entered, forward_ad.exit_dual_level),
        (forward_ad.enter_dual_level, left),
    ) * 2:
        level = enter()
        assert (level, forward_ad._current_level) == (0, 0)
        leave()
        assert forward_ad._current_level == -1


def test_kernels_of_attention_where_the_graph_fails() -> None:
    def run(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return torch.nn.functional.scaled_dot_product_attention(x, x, x) + TABLE[i]

    fast, before = framelift.compile(run, backend="eager"), _kernels()
    for index in ([0, 1], [0, 9], [3, 1]):
        given = torch.ones(1, 2, 2), torch.tensor(index)
        if 9 in index:
            with pytest.raises(IndexError):
                fast(*given)
        else:
            torch.testing.assert_close(fast(*given), run(*given))
        assert _kernels() == before


def _kernels() -> tuple[Any, ...]:
    cuda = torch.backends.cuda
    return (
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
        cuda.math_sdp_enabled(),
        torch._C._get_sdp_priority_order(),
    )


def _named(x: torch.Tensor) -> Any:
    with record_function("inside") as region:
        result = x * 2
    return result, region.name, region.args, region


def _broken(x: torch.Tensor) -> Any:
    with record_function("inside") as region:
        result = x * 2
        framelift.graph_break()
        result = result + 1
    return result, region.name


def _outside(x: torch.Tensor) -> Any:
    with RANGE:
        result = x * 2
    return result, RANGE.name


def test_profiler_ranges_are_whole_objects() -> None:
    result = framelift.compile(_named, backend="eager")(torch.ones(2))
    assert result[1:3] == ("inside", None)
    assert vars(result[3]).keys() == vars(record_function("")).keys()
    with result[3]:  # it may be entered for real
        pass


@pytest.mark.parametrize("run", (_broken, _outside))
def test_profiler_ranges_around_breaks_and_from_outside(run: Any) -> None:
    check(run, torch.ones(2), graphs=None, breaks=None)
    assert RANGE.run_callbacks_on_exit


def test_profiler_ranges_entered_and_left_in_different_calls() -> None:
    def enter(region: Any, x: torch.Tensor) -> torch.Tensor:
        region.__enter__()
        return x + 1

    def leave(region: Any, x: torch.Tensor) -> torch.Tensor:
        region.__exit__(None, None, None)
        return x + 1

    fast_enter, fast_leave = framelift.compile(enter, backend="eager"), framelift.compile(leave, backend="eager")
    for first, second in ((enter, fast_leave), (fast_enter, leave), (fast_enter, fast_leave)):
        region = record_function("both")
        first(region, torch.ones(2))
        second(region, torch.ones(2))


def test_parameters_of_lazy_modules_made_in_inference_mode() -> None:
    """They are inference tensors, as all that is made in that mode."""

    def run(module: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return module(x)

    for call in (run, framelift.compile(run, backend="eager")):
        module = torch.nn.Sequential(torch.nn.LazyLinear(3), torch.nn.LazyBatchNorm1d())
        for _ in range(2):
            call(module, torch.ones(2, 4))
        assert all(one.is_inference() for one in module.parameters())
