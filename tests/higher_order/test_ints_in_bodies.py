"""Ints from outside in bodies of higher-order operators: a recompile at the first change, and no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import framelift
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


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_changing_int_is_symbolic(name: str, backend: str) -> None:
    program = PROGRAMS[name]
    counting = CompileCounterWithBackend(backend)
    function = framelift.compile(program, backend=counting, fullgraph=True)
    for n in (2, 3, 4, 7):
        mine, plain = (torch.arange(6.0).reshape(2, 3).requires_grad_(name not in ("map", "scan")) for _ in range(2))
        got, wanted = function(mine, n), program(plain, n)
        torch.testing.assert_close(got, wanted)
        if mine.requires_grad:
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


def test_what_is_never_recomputed_has_no_node_for_the_int() -> None:
    graphs: list[Any] = []

    def keep(module: Any, inputs: Any) -> Any:
        graphs.append(module)
        return module.forward

    function = framelift.compile(PROGRAMS["checkpoint"], backend=keep, fullgraph=True)
    for n in (2, 3, 4):
        function(torch.ones(2), n)
    assert [len(graph.graph.find_nodes(op="call_function", target=torch.sym_int)) for graph in graphs] == [0, 0]
