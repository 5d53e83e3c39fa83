"""Torch programs for the tests of the recorder and the backends: name -> (function, makers of its inputs).

Each function touches no external tensor, so it can run under a recorder without any twin.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Callable[[], torch.Tensor], ...]]] = {}


def program(*makers: Callable[[], torch.Tensor]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = (function, makers)
        return function

    return register


def real(*size: int, grad: bool = False, dtype: torch.dtype = torch.float32) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(*size, dtype=dtype, requires_grad=grad)


def whole(*size: int, high: int = 5) -> Callable[[], torch.Tensor]:
    return lambda: torch.randint(0, high, size)


def truth(*size: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.rand(*size) > 0.5


# ---- operators and methods -------------------------------------------------------------------------------------------


@program(real(3, 4), real(3, 4, grad=True))
def arithmetic(x, y):
    return x + y, x - 1, 2 * y, x / y, 1 / (x * x + 1), x**2, 2**x, -x, abs(y), 3 - x, x // 2, 7 // (x.abs() + 1), x % 3


@program(real(4, 4), real(4, 4, grad=True))
def matmuls(x, y):
    return (
        x @ y,
        torch.matmul(x, y.T),
        x.mm(y),
        torch.einsum("ij,kj->ik", x, y),
        x.bmm if False else x.addmm(y, x),
        x.mT @ x,
    )


@program(real(5), real(5))
def comparisons(x, y):
    return x < y, x <= 0, 0 < x, x == y, x != 1, (x > 0) & (y > 0), (x > 0) | (y > 0), ~(x > 0), (x > 0) ^ (y > 0)


@program(whole(6, high=8), whole(6, high=8))
def integers(a, b):
    return a + b, a // (b + 1), a % 3, a << 1, a >> 1, a & b, a | 3, ~a, a / 2, a**2, a.float().mean(), (a == b).sum()


@program(real(3, 4))
def inplace_operators(x):
    y = x.clone()
    y += 1
    y *= 2
    y -= x
    y /= 3
    z = y
    z **= 2
    assert z is y
    return y


@program(real(3, 4, grad=True))
def method_chain(x):
    return x.sin().cos().relu().sigmoid().sum(dim=1, keepdim=True).exp().log1p().squeeze(1).unsqueeze(0)


@program(real(2, 3, 4))
def answers_from_metadata(x):
    assert x.shape == (2, 3, 4) and x.size(1) == 3 and x.size(-1) == 4 and x.dim() == x.ndim == 3 and len(x) == 2
    assert x.dtype is torch.float32 and x.device == torch.device("cpu") and not x.is_cuda and x.is_cpu and not x.is_meta
    assert x.numel() == 24 and x.stride() == (12, 4, 1) and x.stride(0) == 12 and x.is_contiguous()
    assert (
        not x.transpose(0, 1).is_contiguous() and x.is_floating_point() and not x.is_complex() and x.element_size() == 4
    )
    assert x.is_leaf and not x.requires_grad and x.grad_fn is None
    assert x.layout is torch.strided and not x.is_sparse and x.nbytes == 96 and x.itemsize == 4
    assert torch.is_floating_point(x) and torch.is_tensor(x) and isinstance(x, torch.Tensor) and type(x) is torch.Tensor
    assert torch.result_type(x, 1) is torch.float32 and x.type() == "torch.FloatTensor" and x.get_device() == -1
    return x.reshape(x.shape[0], -1).new_zeros(x.size(0)) + x.numel()


# ---- views -----------------------------------------------------------------------------------------------------------


@program(real(2, 3, 4, grad=True))
def views(x):
    return (
        x.view(6, 4),
        x.reshape(-1),
        x.transpose(0, 1),
        x.permute(2, 0, 1),
        x.T if x.dim() == 2 else x.mT,
        x[0],
        x[:, 1:],
        x.unsqueeze(1),
        x.flatten(1),
        x.expand(2, 3, 4),
        x.narrow(2, 0, 2),
        x.select(1, 0),
        x.diagonal(0, 1, 2),
        x.unfold(2, 2, 1),
        x.movedim(0, 2),
        x.swapaxes(0, 1),
        x.view_as(x),
        x.as_strided((2, 2), (1, 2)),
    )


@program(real(3, 4, grad=True))
def masked_reductions(x):
    from torch import masked

    mask = x > 0.5
    return (
        masked.sum(x, dim=1, mask=mask),
        masked.softmax(x, 1, mask=mask),
        masked.mean(x, mask=None),
        masked.normalize(x, 2.0, 1, mask=mask),
        masked.argmax(x, dim=0, mask=mask),
        masked.logaddexp(x, x * 2, input_mask=mask, other_mask=~mask),
    )


@program(real(3, 4))
def view_then_write(x):
    y = x * 1
    y[:, 1:3].add_(10)
    y.view(-1)[0] = 5
    y[1] *= 2
    y.T[0, 0] = -1
    return y


@program(real(4, 3, grad=True))
def write_gives_history(p):
    buffer = torch.zeros(4, 3)
    row = buffer[0]
    assert not buffer.requires_grad and buffer.is_leaf
    buffer[1:] = p[1:]
    assert buffer.requires_grad and not buffer.is_leaf and row.requires_grad
    buffer[0].mul_(p[0])
    return buffer * 2, row


@program(real(4, 6))
def multiple_results(x):
    a, b = x.chunk(2, dim=1)
    c, d, e = torch.split(x, [1, 2, 3], dim=1)
    values, indices = x.max(dim=1)
    top = x.topk(2)
    q = x.sort(descending=True)
    mean, var = torch.var_mean(x, dim=0)[1], torch.var_mean(x, dim=0)[0]
    rows = list(x)
    assert len(rows) == 4 and top.values.shape == (4, 2) and type(q).__name__ == "sort"
    return a, b, c, d, e, values, indices, top.indices, q.values, mean, var, rows[2], x.unbind(1)[3], *x.aminmax(dim=0)


@program(real(3, 4))
def no_operation(x):
    assert x.contiguous() is x and x.to(torch.float32) is x and x.float() is x and x.cpu() is x
    assert F.dropout(x, 0.5, training=False) is x and x.real is x
    return x.to("cpu").expand_as(x) + 0


# ---- indexing --------------------------------------------------------------------------------------------------------


@program(real(5, 6, 7), whole(3), truth(5))
def indexing(x, i, m):
    return (
        x[0],
        x[-1],
        x[1:3],
        x[..., 0],
        x[:, None],
        x[i],
        x[i, i],
        x[:, i],
        x[[0, 2]],
        x[:, [1, 2], 3:],
        x[..., None, :],
        x[(0, 1)],
        x[::2, 1::2],
        torch.where(m[:, None], x[..., 0], 0.0),
        x.index_select(0, i),
        x.gather(0, i.view(3, 1, 1)),
        x.take(i),
        x[i][:, i],
        x[range(2)],
    )


@program(real(5, 6), whole(3), real(3, 6))
def index_writes(x, i, v):
    y = x.clone()
    y[i] = v
    y[0, 1:3] = 7
    y[:, -1] += 1
    y[..., 2] = y[..., 3]
    y.index_add_(0, i, v)
    y.scatter_(0, i.view(3, 1).expand(3, 6), v)
    y.masked_fill_(y > 1, 0.5)
    return y, x.index_copy(0, torch.tensor([0, 1, 2]), v), x.index_fill(1, i, 2.0)


@program(real(3, 4))
def iteration(x):
    total = 0
    for row in x:
        total = total + row * 2
    for i, item in enumerate(x[0]):
        total = total + item * i
    return total, sum(x), max(x.shape)


# ---- factories and conversion ----------------------------------------------------------------------------------------


@program(real(3, 4))
def factories(x):
    n = x.shape[1]
    return (
        torch.zeros(3, n),
        torch.ones(n) * x,
        torch.arange(n),
        torch.arange(0, 1, 0.25),
        torch.full((2, 2), 3.5),
        torch.tensor([1.0, 2.0]),
        torch.tensor([[1, 2], [3, 4]]),
        torch.tensor(True),
        torch.eye(3),
        torch.linspace(0, 1, 5),
        torch.zeros_like(x),
        torch.full_like(x, 2),
        x.new_ones(2),
        x.new_tensor([1, 2]),
        torch.ones(2, dtype=torch.int32),
        torch.tensor(3),
        torch.tensor(2.5, dtype=torch.float64),
        torch.as_tensor([1, 2]),
        torch.empty(2).fill_(4),
        torch.tril(torch.ones(n, n)),
        torch.scalar_tensor(2.0),
        torch.zeros(2, 3, dtype=float),
    )


@program(real(3, 4, grad=True))
def conversions(x):
    return (
        x.double(),
        x.half(),
        x.to(torch.bfloat16),
        x.int(),
        x.long(),
        x.bool(),
        x.to("cpu", torch.float64),
        x.type(torch.float64),
        x.type_as(torch.zeros(1, dtype=torch.float64)),
        x.to(x.int()),
        x.detach(),
        x.to(dtype=torch.complex64),
        x.byte(),
    )


@program(real(3, 4), whole(3, 4))
def promotion(x, i):
    return x + i, i + 1.5, i * True, i / 2, x.double() + x, torch.add(i, 2, alpha=3), i + torch.tensor(0.5), (i > 1) + 1


@program(real(4, dtype=torch.complex64))
def complex_numbers(z):
    return (
        z.real,
        z.imag,
        z.abs(),
        z.conj() * z,
        torch.view_as_real(z),
        z.conj().resolve_conj(),
        z * 1j,
        torch.fft.fft(z),
        z.angle(),
    )


# ---- reductions ------------------------------------------------------------------------------------------------------


@program(real(4, 5, grad=True))
def reductions(x):
    return (
        x.sum(),
        x.mean(0),
        x.std(),
        x.var(1),
        x.prod(),
        x.amax(1),
        x.argmax(),
        x.argmin(1),
        x.norm(),
        x.norm(dim=1),
        x.cumsum(0),
        x.logsumexp(1),
        x.median(),
        x.any(),
        (x > 0).all(1),
        x.max(),
        x.min(0).values,
        x.sum((0, 1)),
        torch.linalg.norm(x),
        torch.linalg.vector_norm(x, dim=0),
        x.nansum(),
        x.kthvalue(2).values,
        x.mode(1).values,
        x.sum(dtype=torch.float64),
    )


@program(real(4, 5), real(4, 5))
def joining(x, y):
    parts = [x]
    parts.append(y)
    joined = torch.cat(parts, 1)
    parts.append(joined)
    return (
        joined,
        torch.stack((x, y)),
        torch.hstack([x, y]),
        torch.vstack([x, y]),
        torch.block_diag(x, y),
        x.repeat(2, 1),
        x.tile(2),
        x.repeat_interleave(2, dim=0),
        *torch.meshgrid(x[0], y[0], indexing="ij"),
        *torch.broadcast_tensors(x, y[0]),
        x.roll(1, 0),
        x.flip(1),
    )


@program(real(4, 5, grad=True), real(5))
def selecting(x, y):
    return (
        torch.where(x > 0, x, y),
        x.clamp(-1, 1),
        x.clamp(min=0),
        torch.minimum(x, y),
        x.masked_fill(x > 0, -1.0),
        x.tril(),
        x.triu(1),
        torch.lerp(x, x * 2, 0.3),
        x.nan_to_num(),
        torch.isfinite(x),
        x.sign(),
        x.round(),
        x.floor(),
        torch.addcmul(x, x, x, value=2),
        torch.outer(y, y),
        torch.searchsorted(torch.arange(5.0), y),
        torch.bucketize(y, torch.arange(5.0)),
        torch.cdist(x, x),
    )


# ---- nn.functional ---------------------------------------------------------------------------------------------------


@program(real(2, 8, grad=True), real(16, 8, grad=True), real(16, grad=True), real(4, 16, grad=True))
def perceptron(x, w, b, v):
    return F.linear(F.gelu(F.linear(x, w, b)), v).softmax(-1)


@program(real(2, 3, 8, 8, grad=True), real(4, 3, 3, 3, grad=True), real(4, grad=True))
def convolution(x, w, b):
    y = F.conv2d(x, w, b, padding=1)
    y = F.max_pool2d(F.relu(y), 2)
    z, where = F.max_pool2d(y, 2, return_indices=True)
    return (
        F.adaptive_avg_pool2d(y, 1).flatten(1),
        z,
        where,
        F.interpolate(y, scale_factor=2.0),
        F.pad(y, (1, 1)),
        F.avg_pool2d(x, 2),
    )


@program(real(4, 3, 5), real(3, grad=True), real(3, grad=True), real(3), lambda: torch.rand(3) + 1)
def batch_norm(x, w, b, mean, var):
    train = F.batch_norm(x, mean, var, w, b, training=True)
    return train, F.batch_norm(x, mean, var, w, b, training=False)


@program(real(2, 6, grad=True), real(6, grad=True), real(6))
def norms(x, w, b):
    return (
        F.layer_norm(x, (6,), w, b),
        F.group_norm(x, 3, w, b),
        F.rms_norm(x, (6,), w),
        F.normalize(x, dim=1),
        F.softmax(x, dim=1),
        F.log_softmax(x, -1),
        F.instance_norm(x[None]),
    )


@program(real(2, 4, 5, 8, grad=True), real(2, 4, 5, 8), real(2, 4, 5, 8))
def attention(q, k, v):
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return (
        F.scaled_dot_product_attention(q, k, v),
        F.scaled_dot_product_attention(q, k, v, is_causal=True),
        scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v,
    )


@program(whole(2, 3, high=10), real(10, 4, grad=True), real(6, 10, grad=True))
def losses(i, table, logits):
    e = F.embedding(i, table)
    return (
        F.cross_entropy(logits, i.flatten()),
        F.nll_loss(F.log_softmax(logits, 1), i.flatten()),
        F.mse_loss(e, e * 2),
        F.l1_loss(e, e + 1),
        F.binary_cross_entropy_with_logits(logits, torch.zeros_like(logits)),
        F.smooth_l1_loss(e, e * 3),
        F.one_hot(i, 10),
        F.kl_div(F.log_softmax(logits, 1), F.softmax(logits, 1), reduction="batchmean"),
        F.cosine_similarity(e, e + 1, dim=-1),
    )


@program(real(3, 4, grad=True))
def activations(x):
    return [
        f(x)
        for f in (
            F.relu,
            F.gelu,
            F.silu,
            F.elu,
            F.leaky_relu,
            F.softplus,
            F.tanh,
            F.sigmoid,
            F.hardtanh,
            F.mish,
            F.selu,
            F.logsigmoid,
            F.softsign,
            F.hardswish,
        )
    ] + [F.glu(x), F.relu(x * 1, inplace=True), F.threshold(x, 0.1, 20)]


@program(real(2, 3, 4, grad=True), real(8, 4), real(8, 2), real(8), real(8))
def recurrent(x, w_ih, w_hh, b_ih, b_hh):
    h = (torch.zeros(1, 2, 2), torch.zeros(1, 2, 2))
    out, hn, cn = torch.lstm(x, h, (w_ih, w_hh, b_ih, b_hh), True, 1, 0.0, False, False, True)
    return out, hn, cn


# ---- gradients, state ------------------------------------------------------------------------------------------------


@program(real(3, 4, grad=True), real(3, 4))
def no_grad_blocks(p, x):
    y = p * x
    assert y.requires_grad and not y.is_leaf
    with torch.no_grad():
        z = y * 2
        assert not z.requires_grad and not torch.is_grad_enabled()
        with torch.enable_grad():
            w = y * 3
            assert w.requires_grad
    with torch.set_grad_enabled(False):
        d = p.sum()
    assert torch.is_grad_enabled() and not d.requires_grad
    return y + z, w, d * p, y.detach() * x


@program(real(3, 4, grad=True))
def decorated(p):
    @torch.no_grad()
    def inner(x):
        return x * 2

    return inner(p) + p


@program(real(3, 4, grad=True), real(4, 4, grad=True))
def autocast_cpu(x, w):
    a = x @ w
    with torch.autocast("cpu", dtype=torch.bfloat16):
        b = x @ w
        assert b.dtype is torch.bfloat16
        with torch.autocast("cpu", enabled=False):
            c = x @ w
            assert c.dtype is torch.float32
        d = F.linear(b, w)
    assert (x @ w).dtype is torch.float32
    return a, b.float(), c, d.float()


@program(real(3, 4), real(3, 4))
def input_mutation(x, y):
    x.add_(1)
    y[0] = 5
    y.mul_(x)
    return x + y


@program(real(3, 4), real(3, 4))
def out_argument(x, y):
    z = torch.empty(3, 4)
    assert torch.add(x, y, out=z) is z
    torch.mul(z, 2, out=z)
    return z


@program(real(3, 4))
def metadata_in_place(x):
    y = x * 2
    y.unsqueeze_(0)
    assert y.shape == (1, 3, 4)
    y.transpose_(1, 2)
    assert y.shape == (1, 4, 3) and y.stride() == (12, 1, 4)
    y.squeeze_(0)
    return y + 1


@program(real(3, 4, grad=True))
def data_attribute(p):
    return p.data * 2, p.detach() + p


@program(real(3, 4))
def random_numbers(x):
    torch.rand(3)  # unused, but it moves the generator
    return (
        F.dropout(x, 0.5, training=True),
        torch.rand(3, 4) + x,
        torch.randn_like(x),
        torch.randint(0, 5, (3,)),
        x.clone().normal_(),
        torch.bernoulli(torch.full((3,), 0.5)),
        torch.randperm(4),
    )


@program(real(3, 4, grad=True))
def unused(x):
    x.sin().cos()
    torch.zeros(3)
    return x * 2


@program(real(3, 4))
def operators_of_torch_ops(x):
    return torch.ops.aten.add(x, x), torch.ops.aten.mul.Tensor(x, 2), torch.ops.aten.max.dim(x, 1)[0]


@program(real(4, 4))
def linear_algebra(x):
    y = x @ x.T + 4 * torch.eye(4)
    return (
        torch.linalg.solve(y, x),
        torch.linalg.inv(y),
        torch.linalg.det(y),
        torch.linalg.cholesky(y),
        torch.trace(y),
        torch.linalg.eigvalsh(y),
    )


@program(real(3, 4), real(3, 4))
def foreach(x, y):
    a, b = torch._foreach_add([x, y], 1.0)
    torch._foreach_mul_([a, b], 2.0)
    return a, b


@program(real(3, 4))
def same_argument_twice(x):
    y = x + x
    y.add_(y)
    return torch.cat([y, y]), y * y, torch.stack((x, y, x))


@program(real(2, 3, grad=True))
def long_chain(x):
    for i in range(20):
        x = (x * 0.9 + i).tanh()
    return x


@program(lambda: torch.randn(4, 3).T, lambda: torch.randn(1, 4).expand(3, 4), lambda: torch.randn(8)[::2])
def odd_strides(x, y, z):
    return (
        x + y,
        x * 2,
        y.contiguous(),
        x.reshape(-1),
        z + x,
        x.clone(),
        torch.empty_like(y).zero_(),
        y.sum(0),
        x.to(memory_format=torch.contiguous_format),
    )


@program(lambda: torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last), real(5, 3, 1, 1))
def channels_last(x, w):
    assert x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    return F.conv2d(x, w), x * 2, x.contiguous(), x.mean((2, 3)), F.relu(x)


@program(lambda: torch.nn.Parameter(torch.randn(3, 3)), real(2, 3))
def parameters(p, x):
    assert type(p) is torch.nn.Parameter and isinstance(p, torch.nn.Parameter) and p.requires_grad and p.is_leaf
    y = x @ p
    assert type(y) is torch.Tensor and not isinstance(y, torch.nn.Parameter)
    return y, p * 2, p.detach()


@program(real(3, 1), real(4))
def broadcasting(x, y):
    return (
        x + y,
        torch.broadcast_to(y, (3, 4)),
        torch.atleast_2d(y),
        torch.broadcast_shapes(x.shape, y.shape) == (3, 4) and x * y,
    )
