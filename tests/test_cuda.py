"""What only a CUDA machine shows: tensors there, Inductor and CUDA graphs, mixed precision, streams, random numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift
from models import MODELS
from support import check

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


def on_cuda(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).cuda()


def close(got: Any, want: Any) -> None:
    torch.testing.assert_close(got, want, rtol=2e-3, atol=2e-3)


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).cuda()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, backend: str) -> None:
    model, inputs = MODELS[name](layers=2)
    model.cuda()
    inputs = {key: value.cuda() for key, value in inputs.items()}
    compiled = framelift.compile(model, backend=backend, fullgraph=True)
    with torch.no_grad():
        want = model(**inputs).last_hidden_state
        for _ in range(2):
            close(compiled(**inputs).last_hidden_state, want)
    assert framelift.stats()["graphs"] == 1


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_training_step(mode: str) -> None:
    plain, other = net(), net()
    compiled = framelift.compile(other, mode=mode, fullgraph=True)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (plain, other)]
    for i in range(6):
        x, y = on_cuda(8, 16, seed=i), on_cuda(8, 4, seed=100 + i)
        for model, optimizer in zip((plain, compiled), optimizers):
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    for a, b in zip(plain.parameters(), other.parameters()):
        close(b, a)


@pytest.mark.parametrize("how", [{"mode": "reduce-overhead"}, {"backend": "cudagraphs"}, {"mode": "max-autotune-no-cudagraphs"}])
def test_graphs_of_the_device(how: dict[str, str]) -> None:
    model = net().eval()
    compiled = framelift.compile(model, fullgraph=True, **how)
    with torch.no_grad():
        for i in range(6):
            x = on_cuda(8, 16, seed=i)
            close(compiled(x).clone(), model(x))
        model[0].weight.mul_(2)
        close(compiled(on_cuda(8, 16)).clone(), model(on_cuda(8, 16)))


def test_mixed_precision_with_a_scaler() -> None:
    def run(model: torch.nn.Module, forward: Any) -> list[torch.Tensor]:
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cuda")
        for i in range(3):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = forward(on_cuda(8, 16, seed=i)).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        return [p.detach() for p in model.parameters()]

    plain, other = net(), net()
    want = run(plain, plain)
    for a, b in zip(want, run(other, framelift.compile(other))):
        close(b, a)


def test_autocast_inside() -> None:
    layer = torch.nn.Linear(16, 16).cuda()

    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            inner = layer(x)
        return inner, layer(x)

    check(f, on_cuda(4, 16))


def test_where_a_tensor_lives_is_guarded() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.is_cuda else x * 3

    compiled = framelift.compile(f, backend="eager")
    for x in (on_cuda(3), torch.ones(3), on_cuda(3, seed=1)):
        assert torch.equal(compiled(x), f(x))
    assert framelift.stats()["captures"] == 2


def test_moving_between_devices() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        there = x.cuda()
        return there + 1, there.cpu() + 1, torch.zeros(3, device="cuda"), x.to("cuda:0", torch.float16), torch.arange(3, device=there.device)

    check(f, torch.ones(3))


def test_random_numbers() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.nn.functional.dropout(x, 0.5), torch.randn(3, device="cuda"), torch.rand_like(x)

    check(f, on_cuda(64))


def test_questions_about_the_device() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if torch.cuda.is_available() and torch.cuda.device_count() >= 1 and torch.cuda.current_device() == 0:
            x = x + torch.cuda.get_device_capability()[0]
        if torch.cuda.is_bf16_supported():
            x = x.bfloat16().float()
        return x + torch.cuda.get_device_properties(0).multi_processor_count

    check(f, on_cuda(3), breaks=None, graphs=None)


def test_streams_and_events() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            z = y + 1
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        return z * 3

    compiled = framelift.compile(f, backend="eager")
    for i in range(3):
        x = on_cuda(1024, seed=i)
        assert torch.equal(compiled(x), f(x))


def test_breaks_on_the_device() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        total = x.sum()
        if total > 0:
            x = x + total.item()
        for i in range(2):
            framelift.graph_break()
            x = x * (i + 2)
        return x.cpu()

    compiled = framelift.compile(f)
    for i in range(4):
        x = on_cuda(32, seed=i)
        close(compiled(x), f(x))


def test_memory_is_given_back() -> None:
    model = net().eval()
    compiled = framelift.compile(model, backend="eager", fullgraph=True)
    with torch.no_grad():
        compiled(on_cuda(8, 16))
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        for i in range(20):
            compiled(on_cuda(8, 16, seed=i))
        assert torch.cuda.memory_allocated() == before
