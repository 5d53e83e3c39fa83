"""What wraps a model for many ranks, trained eagerly and compiled: replicas and pipelines.

Run as a script: rank, number of ranks, the group's store, front end (framelift, torch or eager), backends, and names of
programs; distributed_shards.py has more of them.  Prints a line of JSON for each program: its name and backend, what
differs, and how many graphs were compiled.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import importlib
import json
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from distributed_training import Calling, Layers, Normed, _whole, difference
from torch import nn
from torch.distributed._composable import replicate
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint

import framelift

Compile = Callable[..., Any]
PROGRAMS: dict[str, Callable[[Compile, Any], list[Any]]] = {}
PAIR: dict[str, Any] = {"up": ColwiseParallel(), "down": RowwiseParallel()}


def program(make: Any) -> Any:
    PROGRAMS[make.__name__] = make
    return make


def data(step: int, *shape: int) -> Any:
    torch.manual_seed(100 * step + dist.get_rank())
    return torch.randn(*(shape or (4, 8)))


def squares(run: Any, x: Any) -> Any:
    loss = run(x).pow(2).mean()
    loss.backward()
    return loss


def train(
    model: Any,
    run: Any,
    step: Any = squares,
    steps: int = 3,
    shape: Any = (4, 8),
    optimizer: Any = None,
    update: Any = None,
) -> list[Any]:
    """The losses, gradients and parameters; `update` is the optimizer's step."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    found: list[Any] = []
    for i in range(steps):
        x = data(i, *(shape(i) if callable(shape) else shape))
        found.append(_whole(step(run, x)))
        found += [None if one.grad is None else _whole(one.grad) for one in model.parameters()]
        (update or optimizer.step)()
        optimizer.zero_grad()
    return found + [_whole(one) for one in [*model.parameters(), *model.buffers()]]


class Blocks(nn.Module):
    """A small transformer."""

    def __init__(self, depth: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(16, 8)
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 16, bias=False)

    def forward(self, i: Any) -> Any:
        x = self.words(i)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.q, self.k, self.v, self.o = (nn.Linear(8, 8) for _ in range(4))
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Any) -> Any:
        y = self.norm1(x)
        q, k, v = (one(y).unflatten(-1, (-1, 4)).transpose(1, 2) for one in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def words(run: Any, x: Any) -> Any:
    """A step over tokens, made from the data."""
    tokens = x.argsort(-1)
    loss = F.cross_entropy(run(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    return loss


# replicas
def replicas(name: str, make: Any = Normed, step: Any = squares, prepare: Any = None, **options: Any) -> None:
    def run(compile: Compile, mesh: Any) -> list[Any]:
        model = DDP(make(), **options)
        if prepare is not None:
            prepare(model)
        return train(model, compile(model), step, shape=(2, 4, 8))

    PROGRAMS[name] = run


def no_sync(run: Any, x: Any) -> Any:
    model = getattr(run, "_orig_mod", run)
    with model.no_sync():
        squares(run, x)
    return squares(run, x * 2)


def twice(run: Any, x: Any) -> Any:
    loss = (run(x) + run(x * 2)).pow(2).mean()
    loss.backward()
    return loss


def autocast(run: Any, x: Any) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        loss = run(x).float().pow(2).mean()
    loss.backward()
    return loss


def accumulated(run: Any, x: Any) -> Any:
    squares(run, x)
    squares(run, x + 1)
    return squares(run, x * 2)


def clipped(run: Any, x: Any) -> Any:
    loss = squares(run, x)
    return loss + torch.nn.utils.clip_grad_norm_(run.parameters(), 0.1)


def evaluated(run: Any, x: Any) -> Any:
    run.eval()
    with torch.no_grad():
        before = run(x)
    run.train()
    return squares(run, x) + before.sum()


def own_hook(_, bucket):
    group = dist.group.WORLD
    return dist.all_reduce(bucket.buffer() * 0.5, group=group, async_op=True).get_future().then(lambda f: f.value()[0])


class Unused(nn.Module):
    """Ranks use other layers."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        return self.c(self.a(x) if dist.get_rank() == 0 else self.b(x))


class Frozen(Normed):
    def __init__(self) -> None:
        super().__init__()
        self.up.weight.requires_grad_(False)
        self.norm.requires_grad_(False)


class Counted(nn.Module):
    """Buffers, those of a norm and one of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(8, 8), nn.BatchNorm1d(4), nn.Linear(8, 8)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.b(self.norm(self.a(x))) * self.calls


def reentrant() -> Any:
    def forward(self: Any, x: Any) -> Any:
        return self.b(checkpoint(lambda y: torch.relu(self.a(y)), x.requires_grad_(), use_reentrant=True))

    return Calling(forward, a=nn.Linear(8, 8), b=nn.Linear(8, 8))


replicas("ddp")
replicas(
    "ddp_small_buckets", lambda: nn.Sequential(*(nn.Linear(8 * 8**i, 8 * 8**i) for i in (0, 0, 0))), bucket_cap_mb=5e-4
)
replicas("ddp_static_graph", static_graph=True)
replicas("ddp_unused", Unused, find_unused_parameters=True)
replicas("ddp_bucket_views", gradient_as_bucket_view=True)
replicas("ddp_compressed", prepare=lambda model: model.register_comm_hook(None, default_hooks.fp16_compress_hook))
replicas("ddp_own_hook", prepare=lambda model: model.register_comm_hook(None, own_hook))
replicas(
    "ddp_power_sgd",
    prepare=lambda model: model.register_comm_hook(
        powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2),
        powerSGD_hook.powerSGD_hook,
    ),
)
replicas("ddp_no_sync", step=no_sync)
replicas("ddp_buffers", Counted)
replicas("ddp_checkpointed", lambda: Layers(checkpoints=True))
replicas("ddp_reentrant", reentrant, static_graph=True)
replicas("ddp_called_twice", step=twice)
replicas("ddp_autocast", step=autocast)
replicas("ddp_accumulated", step=accumulated)
replicas("ddp_clipped", step=clipped)
replicas("ddp_evaluated", Counted, evaluated)
replicas("ddp_frozen", Frozen)
replicas(
    "ddp_unused_static", lambda: Calling(lambda s, x: s.a(x), a=nn.Linear(8, 8), b=nn.Linear(8, 8)), static_graph=True
)


@program
def ddp_around_compiled(compile: Compile, mesh: Any) -> Any:
    model = DDP(compile(Normed()))
    return train(model, model)


@program
def ddp_sizes(compile: Compile, mesh: Any) -> Any:
    model = DDP(Normed())
    return train(model, compile(model), steps=4, shape=lambda i: (2 + i + dist.get_rank(), 8))


@program
def ddp_join(compile: Compile, mesh: Any) -> Any:
    model = DDP(Normed())
    run, found = compile(model), []
    with model.join():
        for i in range(2 + dist.get_rank()):
            found.append(squares(run, data(i)).detach())
            found += [one.grad.clone() for one in model.parameters()]
    return found


@program
def ddp_joined_with_zero(compile: Compile, mesh: Any) -> Any:
    model = DDP(Normed())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    run = compile(model)
    with Join([model, optimizer]):
        for i in range(2 + dist.get_rank()):
            squares(run, data(i))
            optimizer.step()
    return [_whole(one) for one in model.parameters()]


@program
def ddp_optimizer_in_backward(compile: Compile, mesh: Any) -> Any:
    model = Normed()
    for one in model.parameters():
        optimizer = torch.optim.SGD([one], lr=0.1)
        one.register_post_accumulate_grad_hook(lambda _, optimizer=optimizer: optimizer.step())
    model = DDP(model)
    return train(model, compile(model), update=lambda: None)


@program
def ddp_whole_step(compile: Compile, mesh: Any) -> Any:
    model = DDP(Normed())
    return train(model, model, compile(squares))


@program
def ddp_compiled_optimizer(compile: Compile, mesh: Any) -> Any:
    model = DDP(Normed())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return train(model, compile(model), optimizer=optimizer, update=compile(lambda: optimizer.step()))


@program
def ddp_zero(compile: Compile, mesh: Any) -> Any:
    model = DDP(Normed())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    return train(model, compile(model), optimizer=optimizer)


@program
def replicated(compile: Compile, mesh: Any) -> Any:
    model = replicate(Normed())
    return train(model, compile(model))


@program
def ddp_transformer(compile: Compile, mesh: Any) -> Any:
    model = DDP(Blocks())
    return train(model, compile(model), words)


# pipelines
def pipeline(name: str, schedule: Any, stages: int = 1) -> None:
    def run(compile: Compile, mesh: Any) -> list[Any]:
        size, rank = dist.get_world_size(), dist.get_rank()
        parts = [nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)) for _ in range(size * stages)]
        mine = [rank + size * i for i in range(stages)]
        made = [PipelineStage(compile(parts[i]), i, len(parts), torch.device("cpu")) for i in mine]
        runs = schedule(made if stages > 1 else made[0], 4, loss_fn=lambda y, target: (y - target).pow(2).mean())
        own, found = nn.ModuleList(parts[i] for i in mine), []
        optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
        for i in range(3):
            torch.manual_seed(i)
            x, target, losses = torch.randn(8, 8), torch.randn(8, 8), []
            given = (x,) if rank == 0 else ()
            last = {"target": target, "losses": losses} if rank == size - 1 else {}
            result = runs.step(*given, **last)
            found += [*losses, *([result] if result is not None else []), *(one.grad for one in own.parameters())]
            found = [one.detach().clone() for one in found]
            optimizer.step()
            optimizer.zero_grad()
        return [*found, *(_whole(one) for one in own.parameters())]

    PROGRAMS[name] = run


pipeline("pipeline_gpipe", ScheduleGPipe)
pipeline("pipeline_1f1b", Schedule1F1B)
pipeline("pipeline_interleaved", ScheduleInterleaved1F1B, stages=2)


FRONT_ENDS: dict[str, tuple[Any, Any, Any]] = {
    "framelift": (framelift.reset, framelift.compile, framelift.lookup_backend),
    "torch": (torch._dynamo.reset, torch.compile, torch._dynamo.lookup_backend),
    "eager": (framelift.reset, lambda function, **_: function, framelift.lookup_backend),
}


def main(rank: int, ranks: int, store: str, front_end: str, backends: list[str], names: list[str]) -> None:
    """Each program has groups of its own: one that fails on one rank stops no other."""
    sys.modules["distributed_wrappers"] = sys.modules[__name__]
    importlib.import_module("distributed_shards")
    files = dist.FileStore(store, ranks)
    for name in names or PROGRAMS:
        for backend in backends:
            files.set(f"{name} {backend} {rank}", "begins")
            for other in range(ranks):
                files.get(f"{name} {backend} {other}")
            limit = datetime.timedelta(seconds=60)
            prefixed = dist.PrefixStore(f"{name} {backend}", files)
            dist.init_process_group("gloo", store=prefixed, rank=rank, world_size=ranks, timeout=limit)
            found = measure(name, front_end, backend, init_device_mesh("cpu", (ranks,)))
            print(json.dumps(found), flush=True)
            dist.destroy_process_group()


def measure(name: str, front_end: str, backend: str, mesh: Any) -> dict[str, Any]:
    reset, compile, lookup_backend = FRONT_ENDS[front_end]
    graphs = 0

    def counted(graph: Any, inputs: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return lookup_backend(backend)(graph, inputs)

    reset()
    try:
        torch.manual_seed(0)
        wanted = PROGRAMS[name](lambda function, **_: function, mesh)
        torch.manual_seed(0)
        found = PROGRAMS[name](lambda function, **_: compile(function, backend=counted), mesh)
        differs = difference(wanted, found)
    except Exception as error:
        differs = f"{type(error).__name__}: {error}"
    return {"name": name, "backend": backend, "differs": differs, "graphs": graphs}


if __name__ == "__main__":
    _, _rank, _ranks, _store, _front_end, _backends, *_names = sys.argv
    main(int(_rank), int(_ranks), _store, _front_end, _backends.split(","), _names)
