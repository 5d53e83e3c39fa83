"""What only a CUDA machine shows: tensors there, Inductor and CUDA graphs, mixed precision, streams, random numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift
from models import MODELS
from support import check

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

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


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(64), torch.nn.Linear(64, 192), torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = self.up(self.norm(x)).view(2, 8, 4, 48).transpose(1, 2).chunk(3, -1)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.down(mixed.transpose(1, 2).reshape(2, 8, 64)).cos().exp()


class Layers(torch.nn.Module):
    """Results of layers are read again, behind each other and side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.arange(8, device=x.device)[:, None] >= torch.arange(8, device=x.device)[None]
        total = x
        for layer in self.layers[:3]:
            x = layer(x, mask)
            total = total + x.sin()
        for layer in self.layers[3:]:
            total = total + layer(x, mask)
        return total


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_folded_layers_train(mode: str) -> None:
    torch.manual_seed(0)
    model, x = Layers().cuda(), on_cuda(2, 8, 64).requires_grad_()
    inputs = [x, *model.parameters()]
    want = model(x)
    gradients = torch.autograd.grad((want * want.detach().cos()).sum(), inputs)
    with framelift.config.patch(repeated_layers="always"):
        compiled = framelift.compile(model, mode=mode, fullgraph=True)
        for _ in range(4):
            got = compiled(x)
            close(got, want)
            for a, b in zip(torch.autograd.grad((got * want.detach().cos()).sum(), inputs), gradients, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-2)


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


@pytest.mark.parametrize(
    "how", [{"mode": "reduce-overhead"}, {"backend": "cudagraphs"}, {"mode": "max-autotune-no-cudagraphs"}]
)
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
        return (
            there + 1,
            there.cpu() + 1,
            torch.zeros(3, device="cuda"),
            x.to("cuda:0", torch.float16),
            torch.arange(3, device=there.device),
        )

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


if triton is not None:

    @triton.jit
    def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = places < n
        tl.store(
            out_ptr + places, tl.load(x_ptr + places, mask=inside) + tl.load(y_ptr + places, mask=inside), mask=inside
        )

    tuned_kernel = triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])(
        add_kernel
    )

    class Added(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            out = torch.empty_like(x)
            add_kernel[(triton.cdiv(x.numel(), 64),)](x, y, out, x.numel(), BLOCK=64)
            return out

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return grad, grad

    def launched(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        n = x.numel()
        add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x.sin(), y, out, n, BLOCK=64)
        return out * 2

    def writing(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        add_kernel[(8,)](x, y, y, x.shape[0], 64)
        return y + 1

    def tuned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x.sin(), y, out, x.numel())
        return out.cos()


@pytest.mark.skipif(triton is None, reason="needs Triton")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", ["launched", "writing"])
def test_kernels_of_the_program(name: str, backend: str) -> None:
    fn = globals()[name]
    framelift.reset()
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for i, n in enumerate((500, 500, 400, 300)):
        x, y = on_cuda(n, seed=i), on_cuda(n, seed=i + 10)
        other = y.clone()
        close(compiled(x, y), fn(x, other))
        close(y, other)
    assert framelift.stats()["graphs"] == 2  # the second for sizes that change


@pytest.mark.skipif(triton is None, reason="needs Triton")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_kernels_with_gradients(backend: str) -> None:
    framelift.reset()
    compiled = framelift.compile(lambda x, y: Added.apply(x * 2, y).square().sum(), backend=backend)
    x, y = on_cuda(500).requires_grad_(), on_cuda(500, seed=1)
    for _ in range(2):
        close(torch.autograd.grad(compiled(x, y), x)[0], torch.autograd.grad((x * 2 + y).square().sum(), x)[0])


@pytest.mark.skipif(triton is None, reason="needs Triton")
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_kernels_that_are_tuned(backend: str) -> None:
    framelift.reset()
    compiled = framelift.compile(tuned, backend=backend)
    for i in range(3):
        x, y = on_cuda(500, seed=i), on_cuda(500, seed=i + 10)
        close(compiled(x, y), (x.sin() + y).cos())


def test_parameters_have_static_addresses() -> None:
    import torch._dynamo.utils as utils

    trees = pytest.importorskip("torch._inductor.cudagraph_trees")
    trees.reset_cudagraph_trees()
    utils.counters.clear()
    framelift.reset()
    model = net().eval()
    compiled = framelift.compile(model, mode="reduce-overhead", fullgraph=True)
    with torch.no_grad():
        for i in range(8):
            if i == 4:
                for parameter in model.parameters():
                    parameter.mul_(2)
            x = on_cuda(8, 16, seed=i)
            close(compiled(x).clone(), model(x))
    manager = trees.get_container(torch.cuda.current_device()).tree_manager
    recorded = [node for nodes in manager.roots.values() for node in nodes]
    assert len(recorded) == 1
    assert len(recorded[0].static_input_idxs) >= 4  # two weights, two biases
    assert utils.counters["inductor"]["cudagraph_skips"] == 0
    assert framelift.stats()["captures"] == 1


def test_a_buffer_that_the_graph_writes_has_a_static_address() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(16, device="cuda"))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.add_(x.sum(0))
            return x + self.seen

    framelift.reset()
    plain, other = Counting(), Counting()
    compiled = framelift.compile(other, mode="reduce-overhead", fullgraph=True)
    with torch.no_grad():
        for i in range(6):
            x = on_cuda(8, 16, seed=i)
            close(compiled(x).clone(), plain(x))
    close(other.seen, plain.seen)


def test_streams_and_events_from_outside() -> None:
    stream, event = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)

    def f(x: torch.Tensor, stream: Any, event: Any) -> torch.Tensor:
        y = x * 2
        event.record()
        with torch.cuda.stream(stream):
            stream.wait_event(event)
            z = y + 1
            done = torch.cuda.Event()
            done.record(stream)
        torch.cuda.current_stream().wait_event(done)
        return z.cos() * 3

    framelift.reset()
    for backend in ("eager", "inductor"):
        compiled = framelift.compile(f, backend=backend)
        for i in range(3):
            x = on_cuda(4096, seed=i)
            got, want = compiled(x, stream, event), f(x, stream, event)
            torch.cuda.synchronize()
            close(got, want)
        assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_wrapper_subclasses_and_jagged_tensors() -> None:
    layer = torch.nn.Linear(16, 16).cuda()
    framelift.reset()
    compiled = framelift.compile(lambda x: layer(x).relu() * 2, fullgraph=True)
    for i, lengths in enumerate(((3, 5), (4, 6), (9, 2))):
        x = torch.nested.nested_tensor([on_cuda(n, 16, seed=i) for n in lengths], layout=torch.jagged)
        close(compiled(x).values(), (layer(x).relu() * 2).values())


def test_a_cache_written_at_an_index_is_not_copied_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that is out of bounds raises in no call there, so that there is nothing to take back."""
    monkeypatch.setattr(framelift._core, "memory_copies", None)
    cache, seen = torch.zeros(8, 4).cuda(), []

    def f(position: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        seen.append(len(seen))
        cache.index_copy_(0, position, x)
        return torch.nn.functional.embedding(position, cache)

    compiled = framelift.compile(f, backend="aot_eager", fullgraph=True)
    for i in range(3):
        x = on_cuda(1, 4, seed=i)
        assert torch.equal(compiled(torch.tensor([i]).cuda(), x), x)
    assert torch.equal(cache[2:3], x) and seen == [0, 1, 2]
