"""Differentiation in captured code: training steps as one graph, `torch.autograd.grad`, leaves made inside."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from torch import nn

import framelift
from support import check

BACKENDS = ("eager", "aot_eager")


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.1), nn.Linear(8, 3))


def _train(optimizer: Any, backend: str | None, detached: bool, clip: bool = False) -> tuple[Any, ...]:
    model = _model()
    made = optimizer(model.parameters())

    def step(x, y):
        made.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        made.step()
        return loss.detach() if detached else loss

    run = step if backend is None else framelift.compile(step, backend=backend, fullgraph=True)
    losses = []
    for i in range(4):
        torch.manual_seed(i)
        x = torch.randn(5 if i < 3 else 7, 4)
        losses.append(run(x, torch.randint(0, 3, (len(x),))))
    return losses, [p.detach().clone() for p in model.parameters()], [p.grad for p in model.parameters()]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "optimizer", [lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: torch.optim.AdamW(p, lr=0.1)]
)
def test_a_training_step_is_one_graph(optimizer: Any, backend: str) -> None:
    before = framelift.stats()["graphs"]
    got = _train(optimizer, backend, detached=True)
    assert (
        framelift.stats()["graphs"] - before == 3
    )  # the optimizer's state is made in the first, the batch differs in the last
    torch.testing.assert_close(got, _train(optimizer, None, detached=True), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_history_can_be_gone_through_once(backend: str) -> None:
    losses = _train(lambda p: torch.optim.SGD(p, lr=0.1), backend, detached=False, clip=True)
    want = _train(lambda p: torch.optim.SGD(p, lr=0.1), None, detached=False, clip=True)
    torch.testing.assert_close(losses, want, rtol=1e-4, atol=1e-5)
    for loss in (losses[0][0], want[0][0]):
        assert loss.requires_grad
        with pytest.raises(RuntimeError, match="a second time"):
            loss.backward()


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_are_added_up(backend: str) -> None:
    def step(p, q, x, twice):
        loss = (x * p).sum() + (p + q).sum()
        loss.backward(retain_graph=twice)
        if twice:
            loss.backward()
        return p.grad * 2

    def run(call: Any) -> Any:
        p, q = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(2, 3))
        found = []
        for twice in (False, True, False):
            before = p.grad
            found.append(call(p, q, torch.full((2, 3), 3.0), twice))
            assert before is None or p.grad is before  # in place
        assert p.grad.untyped_storage().data_ptr() != q.grad.untyped_storage().data_ptr()
        return found, p.grad, q.grad

    torch.testing.assert_close(run(framelift.compile(step, backend=backend, fullgraph=True)), run(step))


def test_layout_of_gradients_is_the_parameters() -> None:
    p = nn.Parameter(torch.rand(3, 2).t())

    def step(x):
        (x @ p).sum().backward()

    framelift.compile(step, backend="eager", fullgraph=True)(torch.rand(4, 2))
    assert p.grad.stride() == p.stride()


def _second(w, x):
    w = w.detach().requires_grad_()
    y = (x @ w).tanh().sum()
    (g,) = torch.autograd.grad(y, w, create_graph=True)
    (h,) = torch.autograd.grad(g.pow(2).sum(), w)
    return g.detach(), h


def _made_inside(w, x):
    p = nn.Parameter(w * 2)
    (x @ p).sum().backward()
    return p.grad


def _module_inside(w, x):
    layer = nn.Linear(4, 2)
    with torch.no_grad():
        layer.weight.fill_(0.5)
        layer.bias.zero_()
    return layer(x)


def _leaf(w, x):
    return torch.zeros(2, requires_grad=True), nn.Parameter(w * 2), nn.Parameter(w.clone(), requires_grad=False)


def _unused(w, x):
    w = w.clone().requires_grad_()
    v = torch.ones(2, requires_grad=True)
    a, b = torch.autograd.grad((x @ w).exp().sum(), [w, v], allow_unused=True)
    c, d = torch.autograd.grad((x @ w).exp().sum(), [w, v], materialize_grads=True, allow_unused=True)
    return a, b, c, d


def _hvp(w, x):
    return torch.autograd.functional.hvp(lambda w: (x @ w).tanh().sum(), w, torch.ones_like(w))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", [_second, _made_inside, _module_inside, _leaf, _unused, _hvp])
def test_leaves_made_inside(fn: Any, backend: str) -> None:
    w, x = torch.rand(4, 3), torch.rand(5, 4)
    want, got = fn(w, x), framelift.compile(fn, backend=backend, fullgraph=True)(w, x)
    torch.testing.assert_close(got, want)
    for one, other in zip(*(out if isinstance(out, tuple) else (out,) for out in (got, want))):
        if isinstance(one, torch.Tensor):
            assert (
                type(one) is type(other) and one.requires_grad == other.requires_grad and one.is_leaf == other.is_leaf
            )
            if other.requires_grad and not other.is_leaf:
                one.sum().backward()


def test_hooks_on_leaves_are_plain_pythons() -> None:
    p = nn.Parameter(torch.ones(2))
    seen = []

    def step(x):
        (x * p).sum().backward()

    compiled = framelift.compile(step, backend="eager")
    compiled(torch.ones(2))
    handle = p.register_hook(lambda grad: seen.append("hook"))
    compiled(torch.ones(2))
    handle.remove()
    p.register_post_accumulate_grad_hook(lambda tensor: seen.append("after"))
    compiled(torch.ones(2))
    assert seen == ["hook", "after"] and torch.equal(p.grad, torch.full((2,), 3.0))
    q = nn.Parameter(torch.ones(2))
    gathers = q.view_as(q).grad_fn.next_functions[0][0]

    def other(x):
        (x * q).sum().backward()

    compiled = framelift.compile(other, backend="eager")
    compiled(torch.ones(2))
    gathers.register_hook(lambda *grads: seen.append("node"))
    compiled(torch.ones(2))
    assert seen[-1] == "node"


def test_hooks_elsewhere_do_not_matter() -> None:
    p, other = nn.Parameter(torch.ones(2)), torch.ones(2, requires_grad=True)
    other.register_hook(lambda grad: grad)

    def step(x, y):
        (x * p).sum().backward()
        return y * 2

    compiled = framelift.compile(step, backend="eager", fullgraph=True)
    before = framelift.stats()["captures"]
    for _ in range(3):
        compiled(torch.ones(2), other)
    assert framelift.stats()["captures"] - before == 2  # p.grad is None, then a tensor


def test_histories_from_outside_are_plain_pythons() -> None:
    p = torch.ones(2, requires_grad=True)

    def step(y):
        (y * y).sum().backward()
        return y + 1

    compiled = framelift.compile(step, backend="eager")
    before = framelift.stats()["breaks"]
    compiled(p * 3)
    assert torch.equal(p.grad, torch.full((2,), 18.0))
    assert sum(framelift.stats()["breaks"].values()) > sum(before.values())

    def one(y):
        return torch.autograd.grad((y * y).sum(), y)

    torch.testing.assert_close(framelift.compile(one, backend="eager", fullgraph=True)(p * 3), (torch.full((2,), 6.0),))


def test_what_is_not_captured_falls_back() -> None:
    p = nn.Parameter(torch.ones(2))

    def again(x):
        (x * p).pow(3).sum().backward(create_graph=True)
        return p.grad.sum()

    with pytest.warns(UserWarning, match="create_graph"):
        got = framelift.compile(again, backend="eager")(torch.ones(2))
    assert got == 6 and got.requires_grad

    def hooked(x):
        p.grad = None
        p.register_hook(lambda grad: grad * 2)
        (x * p).sum().backward()
        return p.grad.clone()

    assert torch.equal(framelift.compile(hooked, backend="eager")(torch.ones(2)), torch.full((2,), 2.0))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backward_that_is_differentiated_outside(backend: str) -> None:
    def first(x):
        y = x.sin().exp()
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return g

    x = torch.rand(3, requires_grad=True)
    g = framelift.compile(first, backend=backend)(x)
    torch.testing.assert_close(torch.autograd.grad(g.sum(), x), torch.autograd.grad(first(x).sum(), x))


def test_a_gradient_penalty_is_one_graph_where_torch_runs_it() -> None:
    def penalty(x, w):
        y = torch.tanh(x @ w).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return y + (g.norm() - 1) ** 2, g

    found = []
    for run in (penalty, framelift.compile(penalty, backend="eager", fullgraph=True)):
        for seed in range(2):
            torch.manual_seed(seed)
            x, w = torch.rand(3, 4, requires_grad=True), torch.rand(4, requires_grad=True)
            loss, g = run(x, w)
            (loss + g.sum()).backward()
            found.append((loss.detach(), g.detach(), x.grad, w.grad))
    torch.testing.assert_close(found[:2], found[2:])


def test_grad_mode_at_the_beginning() -> None:
    p = nn.Parameter(torch.ones(3))

    def step(x):
        p.mul_(2)
        with torch.enable_grad():
            loss = (p * x).sum()
            loss.backward()
        p.sub_(p.grad)
        return loss.detach()

    with torch.no_grad():
        got = framelift.compile(step, backend="eager", fullgraph=True)(torch.full((3,), 0.5))
    assert got == 3 and torch.equal(p.detach(), torch.full((3,), 1.5))


P = nn.Parameter(torch.full((3, 3), 0.3))


class _Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return grad * 3 * ctx.saved_tensors[0]


def _kept(x):
    loss = (x @ P).tanh().sum()
    loss.backward(retain_graph=True)
    return loss


def _checkpointed(x):
    h = torch.utils.checkpoint.checkpoint(lambda t: (t @ P).tanh(), x, use_reentrant=False)
    h.sum().backward()
    return h.detach()


def _autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = (x @ P).float().pow(2).mean()
    loss.backward()
    return loss.detach()


def _custom(x):
    _Square.apply(x @ P).sum().backward()
    return x + 1


def _hooked(x):
    y = x @ P
    y.register_hook(lambda grad: grad * 2)
    y.sum().backward()
    return y.detach()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", [_kept, _checkpointed, _autocast, _custom, _hooked])
def test_kinds_of_histories(fn: Any, backend: str) -> None:
    x = torch.rand(2, 3)

    def run(call: Any) -> Any:
        P.grad = None
        out = call(x)
        if out.requires_grad:
            out.backward()
        return out.detach(), P.grad

    torch.testing.assert_close(run(framelift.compile(fn, backend=backend, fullgraph=True)), run(fn))


def test_a_backward_behind_a_break_with_values_on_the_stack() -> None:
    def step(p, x):
        loss = (p * x).sum() + sum([framelift.graph_break() or p.sum(), (p * 3).sum()])
        loss.backward()
        return loss.detach()

    def nested(p, x):
        return (x, x * 1)[bool(framelift.graph_break())].pow(2) + torch.cond(
            p.sum() > 0, lambda t: t * 2, lambda t: t - x, (x,)
        )

    found = []
    for run in (lambda f: f, lambda f: framelift.compile(f, backend="eager")):
        p, x = nn.Parameter(torch.ones(3)), torch.arange(3.0)
        found.append((run(step)(p, x), p.grad, run(nested)(p.detach(), x)))
    torch.testing.assert_close(found[0], found[1])


def test_names_of_placeholders_are_names() -> None:
    from framelift.graph.fx.placeholder_names import identifier

    assert [identifier(text) for text in ("self.layers[0]", "(0)", "0", "", "...")] == [
        "self_layers_0",
        "value_0",
        "value_0",
        "",
        "",
    ]


def test_what_cannot_be_differentiated_says_why_itself() -> None:
    def inside(x):
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(torch.linalg.ldl_factor(leaf).LD.sum(), leaf)

    def outside(x):
        leaf = x.detach().requires_grad_()
        return torch.linalg.ldl_factor(leaf).LD

    check(inside, torch.eye(3), breaks=None, graphs=None, captures=None, fullgraph=False, raises=RuntimeError)
    result = framelift.compile(outside, backend="eager")(torch.eye(3))
    with pytest.raises(RuntimeError, match="ldl_factor_ex is not implemented"):
        result.sum().backward()
