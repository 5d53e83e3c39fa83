"""What Inductor compiles returns tensors as plain torch does.

Copies have memory of their own, and loops find numbers that depend on values.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils._pytree import tree_leaves

import framelift

ROWS = torch.tensor([0, 1])


@torch.library.custom_op("framelift_tests::grow_", mutates_args={"x"})
def grow_(x: torch.Tensor) -> None:
    x.add_(1)


def written_and_returned(p: list[torch.Tensor], q: torch.Tensor) -> Any:
    """Each input is written by another kind of operation that Inductor does in place, and a copy of it, or of a view,
    is returned.
    """
    p[0][ROWS] = q[ROWS]
    grow_(p[1])
    torch._foreach_mul_([p[2], p[3]], 2.0)
    p[4].index_add_(0, ROWS, q[:2])
    sum_ = torch._foreach_add([p[5]], [q])[0]
    p[5].copy_(sum_)
    return (
        p[0].clone(),
        p[1].detach().clone(),
        p[2].view(3, 1).clone(),
        p[3].clone()[1:],
        p[4].to(torch.float32, copy=True),
        sum_,
        p[5],
    )


def copied_twice(p: list[torch.Tensor], q: torch.Tensor) -> Any:
    p[0].mul_(q)
    return p[0].clone(), p[0].detach().clone(), q + 1


def _parts(values: list[torch.Tensor], inputs: list[torch.Tensor]) -> list[int]:
    """For each tensor, the first one that it shares its memory with."""
    memory = [tensor.untyped_storage().data_ptr() for tensor in (*inputs, *values)]
    return [memory.index(pointer) for pointer in memory]


@pytest.mark.parametrize("program", [written_and_returned, copied_twice])
def test_copies_have_their_own_memory(program: Any) -> None:
    compiled = framelift.compile(program, backend="inductor", fullgraph=True)

    def world() -> list[torch.Tensor]:
        torch.manual_seed(0)
        return [torch.randn(3) for _ in range(6)]

    ours, theirs, q = world(), world(), torch.full((3,), 3.0)
    for _ in range(2):
        given, wanted = tree_leaves(compiled(ours, q)), tree_leaves(program(theirs, q))
        if program is written_and_returned or hasattr(
            torch._inductor.custom_graph_pass, "CustomInferenceAwareGraphPass"
        ):
            assert _parts(given, ours) == _parts(wanted, theirs)
        torch.testing.assert_close([*given, *ours], [*wanted, *theirs])
        assert [tensor.shape for tensor in given] == [tensor.shape for tensor in wanted]


def test_a_foreach_optimizer_and_copies_of_its_parameters() -> None:
    def run(wrap: Any) -> Any:
        torch.manual_seed(0)
        parameters = [torch.nn.Parameter(torch.randn(3)) for _ in range(2)]
        optimizer = torch.optim.SGD(parameters, lr=0.1, foreach=True)

        def step() -> list[torch.Tensor]:
            optimizer.step()
            return [parameter.detach().clone() for parameter in parameters]

        step = wrap(step)
        kept = []
        for i in range(3):
            for parameter in parameters:
                parameter.grad = torch.full((3,), float(i + 1))
            kept.append(step())
        return kept

    ours, theirs = run(lambda f: framelift.compile(f, backend="inductor")), run(lambda f: f)
    torch.testing.assert_close(ours, theirs)
    assert all(type(tensor) is torch.Tensor for row in ours for tensor in row)


def test_loops_of_a_graph() -> None:
    """Shapes are static, and what depends on values has a symbol."""

    def program(x: torch.Tensor) -> Any:
        return (
            while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (torch.tensor(0), x)),
            scan(lambda carry, row: (carry + row, carry * row), torch.zeros(3), x),
            torch_map(lambda row, y: row * y, x, torch.ones(3)),
        )

    compiled = framelift.compile(program, backend="inductor", fullgraph=True)
    x = torch.randn(4, 3)
    torch.testing.assert_close(compiled(x), program(x))


@pytest.mark.parametrize("with_body", [False, True])
def test_what_a_compiler_takes_apart_by_values_runs_plainly(with_body: bool) -> None:
    """Groups of rows, whose sizes are in a tensor: compilers make one product of each group."""

    def program(x: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        made = torch._grouped_mm(x, weights, offs=ends)
        return (
            torch_map(lambda row, one: row * one, made, torch.ones(16, dtype=torch.bfloat16))
            if with_body
            else made.relu()
        )

    world = (
        torch.randn(8, 16, dtype=torch.bfloat16),
        torch.randn(2, 16, 16, dtype=torch.bfloat16),
        torch.tensor([3, 8], dtype=torch.int32),
    )
    compiled = framelift.compile(program, backend="aot_eager")
    for _ in range(2):
        torch.testing.assert_close(compiled(*world), program(*world))


def test_shapes_given_to_compilers_are_static_unless_they_change() -> None:
    shapes: list[Any] = []

    def note(graph_module: Any, example_inputs: Any) -> Any:
        shapes.append(
            [
                str(getattr(node.meta["val"], "shape", node.meta["val"]))
                for node in graph_module.graph.find_nodes(op="placeholder")
            ]
        )
        return graph_module.forward

    compiled = framelift.compile(lambda x, y: x @ y, backend=framelift.aot_autograd(fw_compiler=note))
    for rows in (3, 5, 6):
        compiled(torch.randn(rows, 4), torch.randn(4, 5))
    assert shapes[0] == ["torch.Size([3, 4])", "torch.Size([4, 5])"]
    assert len(shapes) == 2 and shapes[1][-1] == "torch.Size([4, 5])" and "s" in shapes[1][0]


def test_fakes_are_made_for_compilers_that_ask() -> None:
    """Plain graphs need none; tensors of a transform around the call could not have any."""
    made: list[Any] = []

    def note(graph_module: Any, example_inputs: Any) -> Any:
        made.append(torch._guards.TracingContext.get()._fake_mode)
        return graph_module.forward

    compiled = framelift.compile(lambda x: torch.func.grad(torch.sin)(x), backend=note)
    x = torch.tensor(0.5)
    torch.testing.assert_close(torch.func.grad(compiled)(x), -torch.sin(x))
    torch.testing.assert_close(compiled(x), torch.cos(x))
    assert made and not any(made)
