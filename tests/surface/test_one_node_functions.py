"""Functions that are one node of a graph (nonstrict_trace, leaf_function) and hold tensors of their own: modules among
their arguments, variables of closures, global variables.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy
import pytest
import torch
import torch._dynamo
from torch._dynamo import decorators

import framelift
from support import check

X = torch.ones(3)
SCALE = torch.full((3,), 7.0)
BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])
pytestmark = pytest.mark.usefixtures("installed")


@BACKENDS
def test_variables_are_inputs(backend):
    weight = torch.ones(3, requires_grad=True)

    @torch._dynamo.nonstrict_trace
    def scaled(x):
        return x * weight + SCALE

    f = torch.compile(lambda x: scaled(x) + 1, backend=backend, fullgraph=True)
    f(X).sum().backward()
    assert torch.equal(weight.grad, X)
    with torch.no_grad():
        weight.mul_(4)
    assert torch.equal(f(X), X * 4 + SCALE + 1) and len(f.entries) == 1


@BACKENDS
def test_parameters_of_modules_are_inputs(backend):
    given, held = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    offset = torch.ones(3)

    @torch._dynamo.nonstrict_trace
    def both(tree, x):
        return tree["module"](x) + held(x) + offset

    f = torch.compile(lambda x: both({"module": given}, x) * 2, backend=backend, fullgraph=True)
    results = []
    for call in (f, lambda x: (given(x) + held(x) + offset) * 2):
        given.zero_grad(), held.zero_grad()
        result = call(X)
        result.sum().backward()
        results.append([result.detach(), given.weight.grad, held.bias.grad])
    for one, other in zip(*results):
        torch.testing.assert_close(one, other)
    assert type(given.weight) is torch.nn.Parameter and len(f.entries) == 1


@BACKENDS
@pytest.mark.skipif(not hasattr(decorators, "leaf_function"), reason="this torch has no leaf_function")
def test_modules_given_to_leaf_functions(backend):
    seen = []

    @decorators.leaf_function
    def leaf(module, x):
        seen.append(x.sum().item())
        return (module(x),)

    if not hasattr(leaf, "_torchdynamo_leaf_mutates_args"):
        pytest.skip("this torch cannot keep a leaf function whole")

    @leaf.register_fake
    def fake(module, x):
        return (x.new_empty(module.weight.shape[0]),)

    module = torch.nn.Linear(3, 3)
    f = torch.compile(lambda x: leaf(module, x)[0] + 1, backend=backend, fullgraph=True)
    f(X).sum().backward()
    found = module.weight.grad
    module.weight.grad = None
    (module(X) + 1).sum().backward()
    torch.testing.assert_close(found, module.weight.grad)
    assert seen == [3.0] and len(f.entries) == 1


@BACKENDS
@pytest.mark.skipif(not hasattr(decorators, "leaf_function"), reason="this torch has no leaf_function")
def test_buffers_that_leaf_functions_write(backend):
    @decorators.leaf_function
    def probe(x):
        return (x,)

    if not hasattr(probe, "_torchdynamo_leaf_mutates_args"):
        pytest.skip("this torch cannot keep a leaf function whole")
    written = {"module.running_mean", "module.running_var", "module.num_batches_tracked"}

    @decorators.leaf_function(mutates_args=written)
    def normed(module, x):
        return (module(x),)

    @normed.register_fake
    def fake(module, x):
        return (torch.empty_like(x),)

    module, plain, x = torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3), torch.arange(15.0).reshape(5, 3)
    result = torch.compile(lambda x: normed(module, x)[0], backend=backend, fullgraph=True)(x)
    torch.testing.assert_close(result, plain(x))
    torch.testing.assert_close(module.running_mean, plain.running_mean)


@BACKENDS
def test_numpy_functions_of_tensors_with_gradients(backend):
    @torch.compile(backend=backend, fullgraph=True)
    @torch.compiler.wrap_numpy
    def f(x, y):
        return {"product": numpy.sum(x[:, :, None] * y[:, None, :], axis=(0, 1)), "sine": numpy.sin(x) + 1}

    x, y = torch.arange(12.0).reshape(4, 3).requires_grad_(), torch.ones(4, 2)
    found = f(x, y)
    (found["product"].sum() + found["sine"].sum()).backward()
    grad, x.grad = x.grad, None
    ((x[:, :, None] * y[:, None, :]).sum() + (x.sin() + 1).sum()).backward()
    torch.testing.assert_close(grad, x.grad)
    plain = f(x.detach(), y)
    torch.testing.assert_close(plain["product"], found["product"].detach())


@dataclasses.dataclass(frozen=True)
class Scaled:
    tensor: torch.Tensor
    factor: int = 3
    inner: Any = None


@framelift.allow_in_graph
def scaled(given: list[Any], more: Any) -> torch.Tensor:
    """One node, given frozen data classes in containers."""
    one = given[1]
    return one.tensor * one.factor + one.inner[0].tensor * given[0] + more["more"].factor


def test_frozen_data_classes_are_given_to_one_node_functions() -> None:
    def program(x: torch.Tensor, outer: Scaled) -> Any:
        made = Scaled(x + 1, inner=(Scaled(x, 2), "text"))
        return scaled([2, made], {"more": outer}) - 1

    check(program, torch.arange(3.0), Scaled(torch.ones(1), 5))
    same = Scaled(torch.ones(1), 5)
    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    for outer in (same, Scaled(torch.ones(1), 7), same):
        assert torch.equal(compiled(torch.ones(2), outer), program(torch.ones(2), outer))


def test_data_classes_that_carry_more_than_their_fields_are_not_taken_apart() -> None:
    def program(x: torch.Tensor) -> Any:
        made = Scaled(x, inner=(Scaled(x, 2),))
        object.__setattr__(made, "more", 1)
        return scaled([2, made], {"more": Scaled(x)})

    check(program, torch.arange(3.0), graphs=None, breaks=None, captures=None)


def test_nonstrict_functions_of_torch_take_registered_data_classes() -> None:
    cls = dataclasses.make_dataclass("Registered", [("tensor", torch.Tensor), ("factor", int)], frozen=True)
    torch.utils._pytree.register_dataclass(cls)

    @torch._dynamo.nonstrict_trace
    def inner(one: Any) -> torch.Tensor:
        return one.tensor * one.factor

    check(lambda x: inner(cls(x + 1, 4)) - 1, torch.arange(3.0))
