"""`config.optimize_ddp`: graphs in DistributedDataParallel are compiled in parts, one for each bucket of gradients."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import framelift

SIZE = 512  # a weight has a megabyte, as the first bucket


@pytest.fixture(scope="module", autouse=True)
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Normed(nn.Module):
    """Buffers that the forward writes to, and a value that skips a part."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(SIZE, SIZE), nn.BatchNorm1d(SIZE)) for _ in range(3))

    def forward(self, x):
        first = x
        for layer in self.layers:
            x = layer(x).relu()
        return x + first, first


class Tied(nn.Module):
    """One weight that several parts use, a tuple, and numbers of sizes."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)

    def forward(self, x):
        y = self.two(self.one(x))
        left, right = self.one(y).split(x.shape[1] // 2, dim=1)
        return torch.cat([right, left], 1) * x.shape[0]


class Written(nn.Module):
    """An intermediate that is written to through a view, between two layers."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.three = (nn.Linear(SIZE, SIZE) for _ in range(3))

    def forward(self, x):
        y = self.one(x)
        row = y[0]
        row.mul_(2)
        return self.three(self.two(y) + y)


class Switching(nn.Module):
    """Grad mode is switched inside: such a graph stays whole."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)

    def forward(self, x):
        y = self.one(x)
        with torch.no_grad():
            scale = y.abs().max()
        return self.two(y / scale)


def sequential():
    return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(SIZE, SIZE), nn.ReLU())))


class Parts:
    """A backend that counts what AOTAutograd gives it: forward and backward graphs."""

    def __init__(self):
        from torch._dynamo.backends.common import aot_autograd

        self.forwards = self.backwards = 0
        self.compile = aot_autograd(fw_compiler=self.forward, bw_compiler=self.backward)

    def __call__(self, graph_module, examples):
        return self.compile(graph_module, examples)

    def forward(self, graph_module, examples):
        self.forwards += 1
        return graph_module.forward

    def backward(self, graph_module, examples):
        self.backwards += 1
        return graph_module.forward


def run(module, calls=3):
    """Results, gradients and buffers after some steps."""
    seen = []
    for call in range(calls):
        x = torch.randn(8, SIZE, generator=torch.Generator().manual_seed(call)).requires_grad_()
        result = module(x)
        results = result if isinstance(result, tuple) else (result,)
        sum(one.pow(2).mean() for one in results).backward()
        seen += [*results, x.grad]
    return [*seen, *(parameter.grad for parameter in module.parameters()), *module.buffers()]


@pytest.mark.parametrize(("make", "parts"), [(sequential, 4), (Normed, 3), (Tied, 2), (Written, 2), (Switching, 1)])
def test_parts_by_bucket(make, parts):
    torch.manual_seed(0)
    module = make()
    plain = run(DistributedDataParallel(copy.deepcopy(module), bucket_cap_mb=1))
    backend = Parts()
    compiled = framelift.compile(DistributedDataParallel(module, bucket_cap_mb=1), backend=backend)
    found = run(compiled)
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(plain, found, strict=True))
    assert backend.forwards == backend.backwards == parts


def test_where_nothing_is_cut():
    def count(module, **options):
        backend = Parts()
        with framelift.config.patch(**options):
            run(framelift.compile(module, backend=backend))
        return backend.forwards

    wrapped = DistributedDataParallel(sequential(), bucket_cap_mb=1)
    assert count(wrapped, optimize_ddp=False) == 1 and count(wrapped, optimize_ddp="no_optimization") == 1
    assert count(wrapped, verify_correctness=True) == 1
    assert count(sequential()) == 1  # not in DistributedDataParallel
    assert count(DistributedDataParallel(sequential())) == 2  # 25 megabytes hold all, but the first bucket is small
    with pytest.warns(UserWarning, match="optimize_ddp = 'python_reducer' has no effect"):
        assert count(wrapped, optimize_ddp="python_reducer") == 1


def test_compiled_inside():
    torch.manual_seed(0)
    module = sequential()
    plain = run(DistributedDataParallel(copy.deepcopy(module), bucket_cap_mb=1))
    backend = Parts()
    found = run(DistributedDataParallel(framelift.compile(module, backend=backend), bucket_cap_mb=1))
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(plain, found, strict=True))
    assert backend.forwards == 4


def test_inductor():
    torch.manual_seed(0)
    module = Tied()
    plain = run(DistributedDataParallel(copy.deepcopy(module), bucket_cap_mb=1), 1)
    found = run(framelift.compile(DistributedDataParallel(module, bucket_cap_mb=1)), 1)
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(plain, found, strict=True))
