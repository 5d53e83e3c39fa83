"""Hooks on saved tensors: regions in captured code, and hooks around captured calls."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.nn import functional as F

import framelift
from support import compiled

BACKENDS = ["eager", "aot_eager"]
SCALE = 2.0


def double(t):
    return t * 2


def same(t):
    return t


# ---- hooks that change nothing and look at nothing that may change


def ordinary(x, w):
    with saved_tensors_hooks(double, lambda t: t / 2):
        y = (x @ w).sin()
    return y * y


def not_inverse(x, w):
    with saved_tensors_hooks(double, same):
        return (x @ w).sin().exp()


def on_cpu(x, w):
    with save_on_cpu():
        return (x @ w).sin().exp()


def narrower(x, w):
    with saved_tensors_hooks(lambda t: (t.dtype, t.to(torch.bfloat16)), lambda p: p[1].to(p[0])):
        return (x @ w).sin().exp()


def quantized(x, w):
    def pack(t):
        scale = t.abs().max() / 127
        return {"data": (t / scale).round().to(torch.int8), "scale": scale}

    with saved_tensors_hooks(pack, lambda p: p["data"].float() * p["scale"]):
        return (x @ w).sin().exp()


class Box:
    def __init__(self, tensor):
        self.flat, self.shape = tensor.reshape(-1) * 2, tensor.shape


def in_an_object(x, w):
    with saved_tensors_hooks(Box, lambda box: box.flat.reshape(box.shape)):
        return (x @ w).sin()


def parameters_as_they_are(x, w):
    with saved_tensors_hooks(lambda t: t if isinstance(t, nn.Parameter) else t * 3, same):
        return (x @ w).sin()


def by_identity(x, w):
    with saved_tensors_hooks(lambda t: t * 5 if t is w else t, same):
        return (x @ w).sin()


def by_number(x, w):
    known = {id(x)}
    with saved_tensors_hooks(lambda t: t * 5 if id(t) in known else t, same):
        return (x @ w).sin()


def by_what_it_is(x, w):
    with saved_tensors_hooks(lambda t: t * (2 if t.is_leaf else 4) if t.requires_grad else t * t.shape[0], same):
        return ((x.detach() * 2) @ w).sin()


def global_number(x, w):
    with saved_tensors_hooks(lambda t: t * SCALE, same):
        return (x @ w).sin()


def tensor_around(x, w):
    scale = torch.full((), 3.0)
    with saved_tensors_hooks(lambda t: t * scale, lambda t: t / scale + w.sum()):
        return (x @ w).sin()


def tensor_written_meanwhile(x, w):
    scale = torch.ones(())
    with saved_tensors_hooks(lambda t: t * scale, same):
        y = (x @ w).sin()
        scale.add_(1)
        return y.cos()


def nested(x, w):
    with saved_tensors_hooks(double, same):
        y = (x @ w).sin()
        with saved_tensors_hooks(same, lambda t: t * 5):
            y = y.cos()
        return y.exp()


def in_a_loop(x, w):
    context = saved_tensors_hooks(double, same)
    for _ in range(2):
        with context:
            x = (x @ w).sin()
        x = x.cos()
    return x


def by_hand(x, w):
    context = saved_tensors_hooks(double, same)
    context.__enter__()
    y = (x @ w).sin()
    context.__exit__()
    return y.cos()


def left_by_an_exception(x, w):
    try:
        with saved_tensors_hooks(double, same):
            y = (x @ w).sin()
            raise ValueError
    except ValueError:
        return y.cos()


def nothing_to_save(x, w):
    with torch.no_grad(), saved_tensors_hooks(double, same):
        y = (x @ w).sin()
    return x * y.sum()


def backward_inside(x, w):
    with saved_tensors_hooks(double, same):
        y = (x @ w).sin().sum()
        y.backward()
    return w.grad.clone()


def backward_behind(x, w):
    with saved_tensors_hooks(double, same):
        y = (x @ w).sin().sum()
    y.backward()
    return w.grad.clone()


def written_after_it_was_saved(x, w):
    y = x * 2
    with saved_tensors_hooks(double, lambda t: t / 2):
        y.exp_()
        y.mul_(2)
    return y @ w


def layers(x, w):
    with saved_tensors_hooks(
        lambda t: t * 2 if t.is_floating_point() else t, lambda t: t / 2 if t.is_floating_point() else t
    ):
        y = F.layer_norm(F.linear(x, w), (3,)).softmax(-1)
        y = F.scaled_dot_product_attention(y[None], y[None], y[None]).squeeze(0)
        return F.max_pool1d(F.gelu(y), 3).relu() + F.cross_entropy(y, torch.tensor([0, 2]))


WHOLE = [
    ordinary,
    not_inverse,
    on_cpu,
    narrower,
    quantized,
    in_an_object,
    parameters_as_they_are,
    by_identity,
    by_number,
    by_what_it_is,
    global_number,
    tensor_around,
    tensor_written_meanwhile,
    nested,
    in_a_loop,
    by_hand,
    left_by_an_exception,
    nothing_to_save,
    backward_inside,
    backward_behind,
    written_after_it_was_saved,
    layers,
]


# ---- others


def by_identity_of_a_result(x, w):
    y = x @ w
    with saved_tensors_hooks(lambda t: t * 5 if t is y else t, same):
        return y.sin()


def variable_set_meanwhile(x, w):
    factor = 1
    with saved_tensors_hooks(lambda t: t * factor, same):
        y = x @ w
        factor = 2
        return y.sin()


def variable_set_afterwards(x, w):
    factor = 1
    with saved_tensors_hooks(same, lambda t: t * factor):
        y = (x @ w).sin()
    factor = 5
    return y


def counted(x, w):
    log = []
    with saved_tensors_hooks(lambda t: (log.append(t.shape), t)[1], double):
        y = (x @ w).sin()
    return y, log


def random(x, w):
    with saved_tensors_hooks(lambda t: t + torch.rand_like(t), same):
        return (x @ w).sin()


def decided_by_values(x, w):
    with saved_tensors_hooks(lambda t: t if t.sum() > 0 else t * 2, same):
        return (x @ w).sin()


def broken_inside(x, w):
    with saved_tensors_hooks(double, same):
        y = x @ w
        print(end="")
        return y.sin()


def broken_behind(x, w):
    with saved_tensors_hooks(double, same):
        y = (x @ w).sin()
    print(end="")
    return y.cos()


def hook_that_raises(x, w):
    y = None
    try:
        with saved_tensors_hooks(lambda t: 1 // 0, same):
            y = (x @ w).sin()
    except ZeroDivisionError:
        return x.sin(), y


def under_autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16), saved_tensors_hooks(double, same):
        y = x @ w
    return y.float() * x


PLAIN = [
    by_identity_of_a_result,
    variable_set_meanwhile,
    variable_set_afterwards,
    counted,
    random,
    decided_by_values,
    broken_inside,
    broken_behind,
    hook_that_raises,
    under_autocast,
]


def calls(f, count=3):
    torch.manual_seed(0)
    x, w = torch.randn(2, 3, requires_grad=True), nn.Parameter(torch.randn(3, 3))
    found = []
    for _ in range(count):
        x.grad = w.grad = None
        out = f(x, w)
        assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None
        result = out[0] if type(out) is tuple else out
        if result.requires_grad:
            result.sum().backward()
        found.append((out, x.grad, w.grad))
    return found


@pytest.mark.parametrize("f", [*WHOLE, *PLAIN], ids=lambda f: f.__name__)
def test_regions_break_the_graph(f):
    framelift.reset()
    torch.testing.assert_close(calls(compiled(f, backend="eager")), calls(f))
    assert framelift.stats()["breaks"]


@pytest.mark.parametrize("f", [ordinary, on_cpu, nothing_to_save])
def test_compilers_save_other_tensors(f):
    """Hooks that give back what they took may be called with any."""
    framelift.reset()
    torch.testing.assert_close(calls(compiled(f, backend="aot_eager")), calls(f))


def test_what_a_compiler_saves_otherwise():
    def f(x, w):
        with saved_tensors_hooks(double, lambda t: t / 2):
            return F.dropout((x @ w).sin(), 0.5)

    framelift.reset()
    torch.testing.assert_close(calls(compiled(f, backend="aot_eager")), calls(f))


def test_a_graph_that_fails_leaves_no_hooks():
    def f(x, i):
        with saved_tensors_hooks(double, same):
            return x.sin()[i].cos()

    run = compiled(f)
    x = torch.randn(3, requires_grad=True)
    assert torch.equal(run(x, torch.tensor([1])), f(x, torch.tensor([1])))
    with pytest.raises(IndexError):
        run(x, torch.tensor([5]))
    assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None
    calls(ordinary)


def test_a_second_backward():
    def f(x, w):
        with saved_tensors_hooks(double, same):
            return (x @ w).sin() * x

    def again(run):
        x, w = torch.linspace(0, 1, 9).reshape(3, 3).requires_grad_(), torch.ones(3, 3)
        y = run(x, w).sum()
        y.backward(retain_graph=True)
        y.backward()
        (gradient,) = torch.autograd.grad(run(x, w).sum(), x, create_graph=True)
        return x.grad, gradient, torch.autograd.grad(gradient.sum(), x)

    torch.testing.assert_close(again(compiled(f)), again(f))


def test_numbers_and_weights_that_change():
    def f(x, w):
        with saved_tensors_hooks(lambda t: t * SCALE, same):
            return (x @ w).sin()

    def steps(run):
        global SCALE
        torch.manual_seed(0)
        x, w, found = torch.randn(2, 3), nn.Parameter(torch.randn(3, 3)), []
        for SCALE in (1.0, 3.0, 3.0, 4.0):
            w.grad = None
            run(x, w).sum().backward()
            found.append(w.grad)
            with torch.no_grad():
                w -= w.grad
        SCALE = 2.0
        return found

    framelift.reset()
    torch.testing.assert_close(steps(compiled(f, backend="eager")), steps(f))


def test_hooks_of_an_object_that_changes():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.factor = nn.Linear(3, 3), 1

        def pack(self, t):
            return t * self.factor

        def forward(self, x):
            with saved_tensors_hooks(self.pack, same):
                return self.layer(x).sin()

    torch.manual_seed(0)
    net, x = Net(), torch.randn(2, 3)
    run = compiled(net)
    for net.factor in (1, 2, 2, 3):
        found = []
        for call in (net, run):
            net.zero_grad()
            call(x).sum().backward()
            found.append([p.grad for p in net.parameters()])
        torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_around_a_call_see_what_the_frame_does(backend):
    box = [1]

    def f(x):
        y = x.sin()
        box[0] += 1
        return y.cos()

    def around(run):
        x = torch.linspace(0, 1, 3).requires_grad_()
        box[0] = 1
        found = []
        for _ in range(3):
            seen = []
            with saved_tensors_hooks(lambda t: (seen.append(box[0]), t)[1], same):
                y = run(x)
            found.append((torch.autograd.grad(y.sum(), x), seen, box[0]))
        return found

    framelift.reset()
    run = compiled(f, backend=backend)
    run(torch.ones(3, requires_grad=True))
    torch.testing.assert_close(around(run), around(f))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_hook_that_raises_around_a_compiled_function_runs_once_for_each_tensor(backend: str) -> None:
    """Non-reentrant checkpoints end a recomputation so; a program may do so, too."""
    layers = [torch.nn.Linear(2, 2) for _ in range(2)]
    run = framelift.compile(lambda layer, x: layer(x.sin()).exp(), backend=backend)
    for _ in range(2):
        x = torch.ones(2)
        for layer in layers:
            x = torch.utils.checkpoint.checkpoint(run, layer, x, use_reentrant=False)
        x.sum().backward()
    wanted = copy.deepcopy(layers)
    for layer in wanted:
        layer.zero_grad()
    for _ in range(2):
        wanted[1](wanted[0](torch.ones(2).sin()).exp().sin()).exp().sum().backward()
    for one, other in zip(layers, wanted):
        torch.testing.assert_close(one.weight.grad, other.weight.grad)

    seen = []

    def pack(x: torch.Tensor) -> torch.Tensor:
        seen.append(len(seen))
        if len(seen) == 4:
            raise ValueError("enough")
        return x

    with pytest.raises(ValueError, match="enough"), torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        run(layers[0], run(layers[0], torch.ones(2, requires_grad=True)))
    assert seen == [0, 1, 2, 3]
