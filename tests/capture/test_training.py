"""Training: forward and loss captured, backward outside; outputs, gradients and updated weights equal eager."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from models import MODELS

BACKENDS = ("eager", "aot_eager", "inductor")


class Block(nn.Module):
    """Small, but with the usual parts: buffers that change, normalisation, an in-place operation, a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 12)
        self.norm = nn.LayerNorm(12)
        self.second = nn.Linear(12, 6)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        h = self.norm(torch.nn.functional.gelu(self.first(x)))
        h.mul_(0.5)
        return x + self.second(h)


def train(step: Any, model: nn.Module, data: list[tuple[torch.Tensor, torch.Tensor]]) -> list[torch.Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for x, y in data:
        optimizer.zero_grad()
        loss = step(model, x, y)
        loss.backward()
        losses.append(loss.detach().clone())
        optimizer.step()
    return losses


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return ((model(x) - y) ** 2).mean()


def same(a: nn.Module, b: nn.Module) -> None:
    for (name, p), (_, q) in zip(a.named_parameters(), b.named_parameters()):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5, msg=name)
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5, msg=f"{name}.grad")
    for (name, p), (_, q) in zip(a.named_buffers(), b.named_buffers()):
        torch.testing.assert_close(p, q, msg=name)


@pytest.mark.parametrize("backend", BACKENDS)
def test_forward_and_loss_captured(backend: str) -> None:
    torch.manual_seed(0)
    model = Block()
    twin = copy.deepcopy(model)
    data = [(torch.rand(4, 6), torch.rand(4, 6)) for _ in range(3)]
    want = train(loss_of, model, data)
    before = framelift.stats()["graphs"]
    got = train(framelift.compile(loss_of, backend=backend, fullgraph=True), twin, data)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    same(model, twin)
    assert framelift.stats()["graphs"] == before + 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_module_captured(backend: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Block(), nn.Dropout(0.0), Block())
    twin = copy.deepcopy(model)
    data = [(torch.rand(4, 6), torch.rand(4, 6)) for _ in range(2)]
    want = train(loss_of, model, data)
    compiled = framelift.compile(twin, backend=backend, fullgraph=True)
    got = train(lambda _, x, y: loss_of(compiled, x, y), twin, data)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    same(model, twin)


@pytest.mark.parametrize("backend", ("eager", "aot_eager"))
@pytest.mark.parametrize("name", MODELS)
def test_transformers_gradients(name: str, backend: str) -> None:
    model, kwargs = MODELS[name](layers=2)
    twin = copy.deepcopy(model)
    for target, call in ((model, model), (twin, framelift.compile(twin, backend=backend, fullgraph=True))):
        call(**kwargs).last_hidden_state.pow(2).sum().backward()
    for (label, p), (_, q) in zip(model.named_parameters(), twin.named_parameters()):
        if p.grad is None:
            # AOTAutograd gives zeros to parameters of outputs that took no part in the loss.
            assert q.grad is None or backend != "eager" and not q.grad.any(), label
        else:
            torch.testing.assert_close(q.grad, p.grad, rtol=1e-4, atol=1e-4, msg=label)


@pytest.mark.parametrize("backend", BACKENDS)
def test_frozen_parameters_get_no_gradient(backend: str) -> None:
    torch.manual_seed(0)
    model = Block()
    model.first.requires_grad_(False)
    compiled = framelift.compile(model, backend=backend, fullgraph=True)
    compiled(torch.rand(2, 6)).sum().backward()
    assert model.first.weight.grad is None and model.second.weight.grad is not None


def test_requires_grad_is_guarded() -> None:
    def f(x):
        return x * 2

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    x = torch.rand(3)
    assert not compiled(x).requires_grad
    assert compiled(x.clone().requires_grad_()).requires_grad
    with torch.no_grad():
        assert not compiled(x.clone().requires_grad_()).requires_grad


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("affine", [True, False])
def test_running_statistics_as_a_cumulative_average(backend: str, affine: bool) -> None:
    """The share of a batch is another number in each step: no step is a capture of its own."""

    def steps(wrap: Any) -> list[Any]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv1d(3, 3, 1), nn.BatchNorm1d(3, momentum=None, affine=affine), nn.ReLU())
        run, found = wrap(net), []
        for step in range(8):
            net.train(step != 5)
            net.zero_grad()
            out = run(torch.randn(4, 3, 5))
            out.square().sum().backward()
            found += [out.detach(), *(b.clone() for b in net.buffers()), *(p.grad for p in net.parameters())]
        return found

    framelift.reset()
    want = steps(lambda net: net)
    torch.testing.assert_close(steps(lambda net: framelift.compile(net, backend=backend)), want, rtol=0, atol=0)
    assert framelift.stats()["graphs"] <= 8


def test_statistics_of_averaged_weights() -> None:
    """`update_bn` sets `momentum=None` for its length."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    batches = torch.randn(6, 4, 3).unbind()
    found = []
    for run in (net, framelift.compile(net, backend="eager")):
        net[1].reset_running_stats()
        run(batches[0])
        for _ in range(2):
            torch.optim.swa_utils.update_bn(batches, net if run is net else run)
            found.append([b.clone() for b in net.buffers()])
    torch.testing.assert_close(found[2:], found[:2], rtol=0, atol=0)
