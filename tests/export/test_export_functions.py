"""Autograd functions and hooks in exported programs: the program's own gradient, whatever the examples require, or an
error.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from torch import nn

import framelift

Function = torch.autograd.Function
FACTORS = torch.tensor([1.0, 2.0, 3.0])


class Times100(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * 100


class Round(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


class Separate(Function):
    @staticmethod
    def forward(x, k):
        return x * k

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0] * ctx.k * 7, None


class Two(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, first, second):
        x, y = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        return (first * y * 3 if wanted[0] else None), (second * x * 5 if wanted[1] else None)


class Sorted(Function):
    @staticmethod
    def forward(ctx, x):
        order = x.argsort()
        ctx.mark_non_differentiable(order)
        ctx.save_for_backward(order)
        return x[order], order

    @staticmethod
    def backward(ctx, grad, _):
        return torch.zeros_like(grad).scatter(0, ctx.saved_tensors[0], grad) * 5


class Itself(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return -grad


class FromOutside(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.kept, ctx.factors = x * 2, FACTORS
        return (x * FACTORS).sum()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factors * ctx.kept * 17


class MayBeNone(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 1, x * 2

    @staticmethod
    def backward(ctx, first, second):
        return (0 if first is None else first * 7) + (0 if second is None else second * 9)


class InPlace(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.add_(1)

    @staticmethod
    def backward(ctx, grad):
        return grad * 13


class WithoutBackward(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3


class Program(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.5, 2.5, 3.0]))
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def without_grad(m, x):
    with torch.no_grad():
        y = Times100.apply(m.weight * x)
    return y + m.weight


def repeated(m, x):
    for _ in range(3):
        x = Times100.apply(x * m.weight) * 0.01
    return x


def gradient_inside(m, x):
    with torch.enable_grad():
        weight = m.weight.detach().requires_grad_()
        return torch.autograd.grad((weight * x).sum(), weight)[0]


KEPT = {
    "of an input": lambda m, x: Times100.apply(x) * 2,
    "of a parameter": lambda m, x: Times100.apply(m.weight) * x,
    "of both": lambda m, x: Round.apply(m.weight * x),
    "of another function": lambda m, x: Times100.apply(Separate.apply(m.weight * x, 2.0)),
    "with setup_context": lambda m, x: Separate.apply(x, 3),
    "two results": lambda m, x: sum(Two.apply(m.weight, x)),
    "a constant result": lambda m, x: Sorted.apply(m.weight * x)[0],
    "the input itself": lambda m, x: Itself.apply(x) * 2,
    "tensors from outside": lambda m, x: FromOutside.apply(m.weight * x),
    "under no_grad": without_grad,
    "in a loop": repeated,
    "a gradient taken inside": gradient_inside,
}


def run(module: Any, grad: bool) -> Any:
    x = torch.tensor([0.3, 0.4, 0.5], requires_grad=grad)
    for parameter in module.parameters():
        parameter.grad = None
    result = module(x)
    if result.requires_grad:
        result.sum().backward()
    grads = [x.grad, *(parameter.grad for parameter in module.parameters())]
    return result.tolist(), result.requires_grad, [None if one is None else one.tolist() for one in grads]


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "nonstrict"])
@pytest.mark.parametrize("name", KEPT)
def test_an_exported_function_has_its_own_gradient(name, strict) -> None:
    for of_example in (False, True):
        program = Program(KEPT[name])
        exported = framelift.export(program, (torch.ones(3, requires_grad=of_example),), strict=strict)
        for grad in (False, True):
            assert run(exported.module(), grad) == run(program, grad)
    x = torch.rand(3)
    torch.testing.assert_close(exported.run_decompositions().module()(x), program(x))


def hooked(m, x):
    y = m.weight * x
    y.register_hook(lambda grad: grad * 70)
    return y * 2


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.inner = nn.Linear(3, 3)
        self.inner.register_full_backward_hook(lambda module, given, got: (given[0] * 50,))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.weight * x)


def saving_double(m, x):
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved * 2, lambda saved: saved):
        return (m.weight * x) ** 2


def saving_same(m, x):
    with torch.autograd.graph.save_on_cpu():
        return (m.weight * x) ** 2


def checkpointed(m, x):
    return torch.utils.checkpoint.checkpoint(lambda x: (m.weight * x) ** 2, x, use_reentrant=False)


REFUSED = {
    "hooks on saved tensors": lambda: Program(saving_double),
    "a hook": lambda: Program(hooked),
    "a module's hooks": Hooked,
    "gradients that may be None": lambda: Program(lambda m, x: MayBeNone.apply(m.weight * x)[0]),
    "written in place": lambda: Program(lambda m, x: InPlace.apply(m.weight * x)),
    "without backward": lambda: Program(lambda m, x: WithoutBackward.apply(m.weight * x)),
}


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "nonstrict"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_would_have_another_gradient_is_refused(name, strict) -> None:
    apply = torch.autograd.Function.__dict__["apply"]
    with pytest.raises(framelift.exc.Unsupported):
        framelift.export(REFUSED[name](), (torch.ones(3),), strict=strict)
    assert torch.autograd.Function.__dict__["apply"] is apply


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "nonstrict"])
def test_a_function_that_nobody_differentiates_is_exported(strict) -> None:
    program = Program(lambda m, x: WithoutBackward.apply(x))
    exported = framelift.export(program, (torch.ones(3),), strict=strict).module()
    assert exported(torch.full((3,), 2.0)).tolist() == [6.0, 6.0, 6.0]
    with torch.no_grad():
        for name in ("gradients that may be None", "without backward"):
            program = REFUSED[name]()
            exported = framelift.export(program, (torch.ones(3),), strict=strict).module()
            assert exported(torch.full((3,), 2.0)).tolist() == program(torch.full((3,), 2.0)).tolist()


#: torch 2.11 raises a KeyError for a checkpoint without context_fn; strict torch.export of the program fails there, too
OLD = torch.torch_version.TorchVersion(torch.__version__) < (2, 12)


@pytest.mark.parametrize("program", [saving_same, *([] if OLD else [checkpointed])])
def test_hooks_of_torchs_that_keep_what_is_saved_change_no_gradient(program) -> None:
    model, given = Program(program), torch.tensor([1.0, 2.0, 3.0])
    exported = framelift.export(model, (torch.ones(3),), strict=False).module()
    for made in (exported, model):
        made(given).sum().backward()
    assert torch.equal(exported.weight.grad, model.weight.grad)


def test_hooks_around_an_export_are_not_the_programs() -> None:
    model = Program(lambda m, x: (m.weight * x) ** 2)
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved * 2, lambda saved: saved):
        exported = framelift.export(model, (torch.ones(3),), strict=False).module()
    assert exported(torch.ones(3)).tolist() == model(torch.ones(3)).tolist()
