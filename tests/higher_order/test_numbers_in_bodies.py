"""External numbers in bodies of higher-order operators: a recompile at the first change, and no more."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import framelift
import numpy
import pytest
import torch
from framelift.testing import CompileCounterWithBackend
from functorch.experimental.control_flow import map as torch_map
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.wrap import wrap
from torch.utils.checkpoint import checkpoint


def _nested(x: torch.Tensor, n: int) -> Any:
    def inner(y: torch.Tensor) -> Any:
        return torch.cond(y.sum() > 100, lambda z: z + n, lambda z: z * n, (y,))

    return torch.cond(x.sum() > 3, inner, lambda y: y - n * 2, (x,)) + n


PROGRAMS: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "wrap": lambda x, n: wrap(lambda y: y * n + (n + 1), x),
    "an argument of wrap": lambda x, n: wrap(lambda y, k: y * k, x, n),
    "two in a row": lambda x, n: wrap(lambda y: y + n, wrap(lambda y: y * n, x)),
    "beside a size": lambda x, n: wrap(lambda y: y * (n + x.shape[0]), x),
    "cond": lambda x, n: torch.cond(x.sum() > 3, lambda y: y + n, lambda y: y - n * 2, (x,)),
    "nested": _nested,
    "map": lambda x, n: torch_map(lambda row: row * n, x),
    "scan": lambda x, n: scan(lambda carry, row: (carry + row * n, carry * n), x[0], x)[1],
    "checkpoint": lambda x, n: checkpoint(lambda y: y.sin() * n, x, use_reentrant=False),
    "a size inside": lambda x, n: checkpoint(lambda y: y * y.new_ones(n, 2, 3).sum(0), x, use_reentrant=False),
    "a nested region": lambda x, n: torch.compiler.nested_compile_region(lambda y: y * n)(x),
}


class Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, n: Any, by: Any) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.n, ctx.by = n, by
        return x * n + by

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:  # not the derivative, so that it shows who ran
        return grad * (ctx.n + 1) + ctx.saved_tensors[0] * ctx.by, None, None


class InPart(torch.autograd.Function):
    """Another number in the backward than in the forward, and one that is calculated."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, n: Any) -> torch.Tensor:
        ctx.n = n * 2
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad * ctx.n, None


class Taken(torch.autograd.Function):
    """Numbers that are taken out of tensors."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.n, ctx.k = x.sum().item(), int(x.max().item())
        return x * ctx.n

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * ctx.n * ctx.k


def _hooked(x: torch.Tensor, n: Any) -> torch.Tensor:
    y = x * 2
    y.register_hook(lambda grad: grad * n)
    return y.sin()


#: these take ints and floats
ANY_NUMBER: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    **{name: PROGRAMS[name] for name in ("wrap", "an argument of wrap", "two in a row", "beside a size", "checkpoint")},
    "a checkpoint in a checkpoint": lambda x, n: checkpoint(
        lambda y: checkpoint(lambda z: z * n, y.cos(), use_reentrant=False) + n, x, use_reentrant=False
    ),
    "a checkpoint that draws": lambda x, n: checkpoint(
        lambda y: torch.nn.functional.dropout(y, 1.0) + y * n, x, use_reentrant=False
    ),
    "a function": lambda x, n: Power.apply(x, n, 3),
    "a function with two": lambda x, n: Power.apply(x, n, n),
    "a function's backward": lambda x, n: InPart.apply(x, n),
    "a function in a checkpoint": lambda x, n: checkpoint(
        lambda y: Power.apply(y.cos(), n, n + 1), x, use_reentrant=False
    ),
    "a hook": _hooked,
    "a function in wrap": lambda x, n: wrap(lambda y: InPart.apply(y * n, n), x),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_changing_int_is_symbolic(name: str, backend: str) -> None:
    _compare(PROGRAMS[name], (2, 3, 4, 7), backend, name not in ("map", "scan"))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("numbers", [(2, 3, 4, 7), (2.5, 3.25, -4.5, 0.1)])
@pytest.mark.parametrize("name", ANY_NUMBER)
def test_a_changing_number_is_symbolic(name: str, numbers: tuple[Any, ...], backend: str) -> None:
    _compare(ANY_NUMBER[name], numbers, backend, True)


def _compare(program: Callable[[torch.Tensor, Any], Any], numbers: tuple[Any, ...], backend: str, grad: bool) -> None:
    counting = CompileCounterWithBackend(backend)
    function = framelift.compile(program, backend=counting, fullgraph=True)
    for n in numbers:
        mine, plain = (torch.arange(6.0).reshape(2, 3).requires_grad_(grad) for _ in range(2))
        got, wanted = function(mine, n), program(plain, n)
        torch.testing.assert_close(got, wanted)
        if grad:
            got.sum().backward()
            wanted.sum().backward()
            torch.testing.assert_close(mine.grad, plain.grad)
    assert counting.frame_count == 2


def test_a_loop_takes_the_int_of_each_call() -> None:
    def program(x: torch.Tensor, n: int) -> Any:
        return while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * n), (torch.tensor(0), x))[1]

    function = framelift.compile(program, backend="eager", fullgraph=True)
    for n in (2, 3, 4, 5):
        assert function(torch.ones(2), n).tolist() == [float(n**n)] * 2


@pytest.mark.parametrize("fullgraph", [True, False])
def test_numbers_that_a_function_takes_out_of_tensors(fullgraph: bool) -> None:
    function = framelift.compile(lambda x: Taken.apply(x), backend="eager", fullgraph=fullgraph)
    for n in (1.0, 2.0, 3.5):
        mine, plain = (torch.full((3,), n, requires_grad=True) for _ in range(2))
        got, wanted = function(mine), Taken.apply(plain)
        assert got.tolist() == wanted.tolist()
        got.sum().backward()
        wanted.sum().backward()
        torch.testing.assert_close(mine.grad, plain.grad)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_numbers_calculated_before_the_graph(backend: str) -> None:
    """Scalars of numpy's are symbolic at once; what is calculated of them and of drawn numbers is given to the body."""

    def program(x: torch.Tensor, n: Any) -> torch.Tensor:
        drawn = random.random()
        return wrap(lambda y: y * float(n * 2) + drawn * 3, x)

    counting = CompileCounterWithBackend(backend)
    function = framelift.compile(program, backend=counting, fullgraph=True)
    for n in (2.5, 3.25, -4.5):
        random.seed(3)
        wanted = program(torch.ones(3), numpy.float64(n))
        random.seed(3)
        torch.testing.assert_close(function(torch.ones(3), numpy.float64(n)), wanted)
    assert counting.frame_count == 1


def test_a_number_that_is_handed_in_is_no_operation() -> None:
    counting = CompileCounterWithBackend("eager")
    function = framelift.compile(PROGRAMS["an argument of wrap"], backend=counting, fullgraph=True)
    for n in (2, 3):
        function(torch.ones(2, 3), n)
    assert counting.op_count == 4  # wrap and the part of its result, twice


def test_what_is_never_recomputed_has_no_node_for_the_int() -> None:
    graphs: list[Any] = []

    def keep(module: Any, inputs: Any) -> Any:
        graphs.append(module)
        return module.forward

    function = framelift.compile(PROGRAMS["checkpoint"], backend=keep, fullgraph=True)
    for n in (2, 3, 4):
        function(torch.ones(2), n)
    assert [len(graph.graph.find_nodes(op="call_function", target=torch.sym_int)) for graph in graphs] == [0, 0]
