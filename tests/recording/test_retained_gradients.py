"""Gradients of results: `Tensor.retain_grad`, and backward passes and differentiations that are asked for results."""

from __future__ import annotations

import pytest
import torch

import framelift
from support import compiled

BACKENDS = ["eager", "aot_eager"]


def read_back(x, w):
    y = x @ w
    y.retain_grad()
    y.sin().sum().backward()
    return y.grad


def every_layer(x, w):
    layers = []
    for _ in range(3):
        x = (x @ w).tanh()
        x.retain_grad()
        layers.append(x)
    x.sum().backward()
    return [layer.grad for layer in layers]


def twice(x, w):
    y = x @ w
    y.retain_grad()
    z = y.sin().sum()
    z.backward(retain_graph=True)
    first = y.grad
    z.backward()
    return y.grad, first, y.grad is first


def the_root_itself(x, w):
    z = (x @ w).sum()
    z.retain_grad()
    z.backward(torch.tensor(3.0))
    return z.grad


def not_reached(x, w):
    y, other = x @ w, x * 2
    other.retain_grad()
    y.sum().backward()
    return other.grad


def written_in_place(x, w):
    y = x @ w
    y.retain_grad()
    y.mul_(2)
    y.sin().sum().backward()
    return y.grad


def of_a_view(x, w):
    y = (x @ w)[0]
    y.retain_grad()
    y.sin().sum().backward()
    return y.grad


def transposed(x, w):
    y = (x @ w).t()
    y.retain_grad()
    y.sin().sum().backward()
    return y.grad * 2


def changed_gradient(x, w):
    y = x @ w
    y.retain_grad()
    y.sum().backward()
    gradient = y.grad
    gradient.mul_(3)
    return y.grad, y.grad is gradient


def of_a_leaf(x, w):
    x.retain_grad()
    (x @ w).sum().backward()
    return x.grad * 2, x.retains_grad


def without_grad_mode(x, w):
    y = x @ w
    y.retain_grad()
    z = y.sin().sum()
    with torch.no_grad():
        z.backward()
    return y.grad, y.grad.requires_grad


def asked_for_a_result(x, w):
    y = x @ w
    y.sin().sum().backward(inputs=[y])
    return y.grad, y.retains_grad, w.grad is None


def asked_for_a_result_and_a_leaf(x, w):
    y = x @ w
    torch.autograd.backward(y.sin().sum(), inputs=(y, w))
    return y.grad, w.grad, x.grad is None


def asked_for_one_leaf(x, w):
    (x @ w).sin().sum().backward(inputs=w)
    return x.grad is None


def several_roots(x, w):
    y, z = x @ w, (x * 2).sum()
    y.retain_grad()
    torch.autograd.backward([y.sin(), z], [torch.ones_like(y) * 3, None])
    return y.grad


def only_asked_whether(x, w):
    y = x @ w
    before = y.retains_grad
    y.retain_grad()
    return before, y.retains_grad


def nobody_holds_it(x, w):
    y = x @ w
    y.retain_grad()
    return y.sin().sum()


def refused(x, w):
    y = x.detach() @ w.detach()
    try:
        y.retain_grad()
    except RuntimeError as error:
        return str(error)


WHOLE = [of_a_leaf, asked_for_one_leaf, refused]


def of_a_hooked_one(x, w):
    y = x @ w
    y.register_hook(lambda grad: grad * 2)
    y.retain_grad()
    y.sin().sum().backward()
    return y.grad


def hooked_afterwards(x, w):
    y = x @ w
    y.retain_grad()
    y.register_hook(lambda grad: grad * 2)
    y.sin().sum().backward()
    return y.grad


def beside_a_differentiation(x, w):
    y = x @ w
    y.retain_grad()
    (gradient,) = torch.autograd.grad(y.sin().sum(), x)
    return gradient, y.grad


def asked_for_some(x, w):
    y = x @ w
    z = y.sin()
    y.retain_grad()
    z.sum().backward(inputs=[z])
    return y.grad, z.grad


def written_through_a_view(x, w):
    y = x @ w
    y.retain_grad()
    y[0].mul_(2)
    y.sin().sum().backward()
    return y.grad


def forgotten(x, w):
    y = x @ w
    y.retain_grad()
    z = y.sin().sum()
    z.backward(retain_graph=True)
    y.grad = None
    z.backward()
    return y.grad


def left_with_its_gradient(x, w):
    y = x @ w
    y.retain_grad()
    y.sin().sum().backward()
    return y, y.grad


def behind_a_break(x, w):
    y = x @ w
    y.retain_grad()
    print(end="")
    y.sin().sum().backward()
    return y.grad


def batched(x, w):
    y = x @ w
    return torch.autograd.grad(y.sin(), y, torch.eye(4).reshape(4, 2, 2), is_grads_batched=True)


def beside_a_new_hook(x, w):
    y = x @ w
    w.register_hook(lambda grad: grad * 2)
    y.sin().sum().backward(inputs=[y])
    return y.grad


OTHERS = [
    read_back,
    every_layer,
    twice,
    the_root_itself,
    not_reached,
    written_in_place,
    of_a_view,
    transposed,
    changed_gradient,
    without_grad_mode,
    asked_for_a_result,
    asked_for_a_result_and_a_leaf,
    several_roots,
    only_asked_whether,
    nobody_holds_it,
    of_a_hooked_one,
    hooked_afterwards,
    beside_a_differentiation,
    asked_for_some,
    written_through_a_view,
    forgotten,
    left_with_its_gradient,
    behind_a_break,
    batched,
    beside_a_new_hook,
]


def calls(f, count=3):
    torch.manual_seed(0)
    x, w = torch.randn(2, 2, requires_grad=True), torch.randn(2, 2, requires_grad=True)
    found = []
    for _ in range(count):
        x.grad = w.grad = None
        found += [f(x, w), x.grad, w.grad]
    return found


def same(got, want):
    assert type(got) is type(want)
    if isinstance(want, torch.Tensor):
        torch.testing.assert_close(got, want)
        assert (got.requires_grad, got.stride(), got.is_leaf) == (want.requires_grad, want.stride(), want.is_leaf)
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for pair in zip(got, want):
            same(*pair)
    else:
        assert got == want


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [*WHOLE, *OTHERS], ids=lambda f: f.__name__)
def test_gradients_of_results(f, backend):
    framelift.reset()
    got = calls(compiled(f, backend=backend, fullgraph=f in WHOLE))
    same(got, calls(f))
    assert f in OTHERS or framelift.stats()["graphs"] == 1


def result(x, w):
    y = x @ w
    y.retain_grad()
    return y, y.sin().sum()


def two_results(x, w):
    y = x @ w
    z = y.sin()
    z.retain_grad()
    y.retain_grad()
    return {"y": y, "z": z}["y"], z, z.sum()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [result, two_results])
def test_a_backward_outside_comes_by_results(f, backend):
    def outer(run):
        def call(x, w):
            *kept, loss = run(x, w)
            before = [(one.retains_grad, one.is_leaf) for one in kept]
            loss.backward()
            return before, [one.grad for one in kept]

        return call

    framelift.reset()
    same(calls(outer(framelift.compile(f, backend=backend))), calls(outer(f)))


def test_kept_by_a_module():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, x):
            self.kept = self.layer(x)
            self.kept.retain_grad()
            return self.kept.relu().sum()

    torch.manual_seed(0)
    net, x = Net(), torch.randn(3, 2)
    for backend in BACKENDS:
        framelift.reset()
        run = framelift.compile(net, backend=backend)
        for _ in range(4):
            found = []
            for call in (net, run):
                net.zero_grad()
                call(x).backward()
                found.append([net.kept.grad, *(p.grad for p in net.parameters())])
            same(found[1], found[0])
