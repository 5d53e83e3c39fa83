"""Models whose training is distributed, each trained eagerly and compiled by the ranks of one group.

Run as a script: rank, number of ranks, the group's store, backends, and names of programs.  Prints one line of JSON:
what differs, by program and backend.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import framelift

__all__ = ["PROGRAMS"]

PROGRAMS: dict[str, Callable[[Any], Any]] = {}
PAIR: dict[str, Any] = {"up": ColwiseParallel(), "down": RowwiseParallel()}


def program(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS[make.__name__] = make
    return make


class Layers(nn.Module):
    def __init__(self, checkpoints: bool = False) -> None:
        super().__init__()
        self.up, self.down, self.out = nn.Linear(8, 16), nn.Linear(16, 8), nn.Linear(8, 4)
        self.checkpoints = checkpoints

    def inner(self, x: Any) -> Any:
        return self.down(torch.relu(self.up(x)))

    def forward(self, x: Any) -> Any:
        return self.out(checkpoint(self.inner, x, use_reentrant=False) if self.checkpoints else self.inner(x))


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
        self.norm2, self.out = nn.LayerNorm(8), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.out(self.norm2(self.down(F.gelu(self.up(self.norm(x))))))


class Calling(nn.Module):
    """A model of one weight, or of two layers, and a function."""

    def __init__(self, forward: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.function = forward

    def forward(self, x: Any) -> Any:
        return self.function(self, x)


def squares(model: Any, x: Any) -> Any:
    loss = model(x).pow(2).mean()
    loss.backward()
    return loss


def plain_data() -> Any:
    return torch.randn(4, 8)


def rows_of_ranks() -> Any:
    return torch.randn(2, 4, 8) + dist.get_rank()


@program
def tensor_parallel(mesh: Any) -> Any:
    return parallelize_module(Layers(), mesh, PAIR), plain_data, squares


@program
def checkpointed(mesh: Any) -> Any:
    return parallelize_module(Layers(checkpoints=True), mesh, PAIR), plain_data, squares


@program
def partly_frozen(mesh: Any) -> Any:
    model = parallelize_module(Layers(), mesh, PAIR)
    for one in (model.up.weight, model.down.bias, model.out.bias):
        one.requires_grad_(False)
    return model, plain_data, squares


@program
def distributed_results(mesh: Any) -> Any:
    plan: dict[str, Any] = {
        "up": ColwiseParallel(use_local_output=False),
        "down": RowwiseParallel(use_local_output=False),
        "out": ColwiseParallel(output_layouts=Replicate()),
    }
    return parallelize_module(Layers(), mesh, plan), plain_data, squares


@program
def sequence_parallel(mesh: Any) -> Any:
    plan: dict[str, Any] = {
        "": PrepareModuleInput(input_layouts=(Replicate(),), desired_input_layouts=(Shard(1),)),
        "norm": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1)),
        "norm2": SequenceParallel(),
        "out": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    return parallelize_module(Normed(), mesh, plan), lambda: torch.randn(2, 4, 8), squares


@program
def prepared_results(mesh: Any) -> Any:
    prepare = PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(0))
    return parallelize_module(Layers(), mesh, {**PAIR, "": prepare}), plain_data, squares


@program
def parallel_loss(mesh: Any) -> Any:
    out = ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)

    def step(model: Any, x: Any) -> Any:
        with loss_parallel():
            loss = F.cross_entropy(model(x), torch.arange(4))
            loss.backward()
        return loss

    return parallelize_module(Layers(), mesh, {**PAIR, "out": out}), plain_data, step


@program
def sharded_parameters(mesh: Any) -> Any:
    model = Normed()
    for part in (model.up, model.down, model):
        fully_shard(part, mesh=mesh)
    return model, rows_of_ranks, squares


@program
def replicas(mesh: Any) -> Any:
    return DistributedDataParallel(Normed()), rows_of_ranks, squares


@program
def embedding(mesh: Any) -> Any:
    """The placements of a distributed embedding's result hold a mask; its weight is used twice."""
    model = Calling(
        lambda self, i: self.head(self.words(i)), words=nn.Embedding(8, 8), head=nn.Linear(8, 8, bias=False)
    )
    model.head.weight = model.words.weight
    plan: dict[str, Any] = {
        "words": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Replicate()),
    }
    return parallelize_module(model, mesh, plan), lambda: torch.arange(8).reshape(2, 4), squares


def _weight(mesh: Any, placement: Any) -> nn.Parameter:
    return nn.Parameter(distribute_tensor(torch.randn(8, 8), mesh, [placement]))


@program
def unused_result(mesh: Any) -> Any:
    """Of several results, the first has no gradient."""
    model = Calling(
        lambda self, x: ((x @ self.w).relu(), x @ self.w * 2, self.v * 2),
        w=_weight(mesh, Shard(0)),
        v=nn.Parameter(torch.ones(3)),
    )

    def step(model: Any, x: Any) -> Any:
        _, b, c = model(x)
        loss = b.full_tensor().sum() + c.sum()
        loss.backward()
        return loss

    return model, lambda: distribute_tensor(torch.ones(4, 8), mesh, [Replicate()]), step


@program
def other_placements(mesh: Any) -> Any:
    """Gradients come with other placements than the results have."""
    model = Calling(lambda self, x: (x @ self.w, x @ self.w.t()), w=_weight(mesh, Shard(0)))

    def step(model: Any, x: Any) -> Any:
        a, b = model(x)
        loss = a.redistribute(mesh, [Shard(0)]).to_local().sum()
        loss = loss + b.redistribute(mesh, [Replicate()]).to_local().pow(2).sum()
        loss.backward()
        return loss

    return model, lambda: distribute_tensor(torch.ones(4, 8), mesh, [Replicate()]), step


def _gathered(x: Any, mesh: Any) -> Any:
    return DTensor.from_local(x, mesh, [Partial()]).redistribute(mesh, [Replicate()], async_op=True)


@program
def waiting_tensors(mesh: Any) -> Any:
    """A collective's result is an input of the next part, is viewed there, and viewed once more."""

    def forward(self: Any, x: Any) -> Any:
        y = _gathered(self.a(x), mesh).to_local()
        framelift.graph_break()
        v = y.view(-1)
        framelift.graph_break()
        return self.b(v.view(4, 8)) + y

    return Calling(forward, a=nn.Linear(8, 8), b=nn.Linear(8, 8)), plain_data, squares


@program
def waiting_inside(mesh: Any) -> Any:
    """A distributed tensor holds one that waits."""

    def forward(self: Any, x: Any) -> Any:
        d = _gathered(self.a(x), mesh)
        framelift.graph_break()
        e, v = d * 2, d.view(-1)
        framelift.graph_break()
        return self.b(v.to_local().view(4, 8) + e.to_local())

    return Calling(forward, a=nn.Linear(8, 8), b=nn.Linear(8, 8)), plain_data, squares


@program
def detached_input(mesh: Any) -> Any:
    """A part takes a tensor that has a history, and no result depends on that."""

    def forward(self: Any, x: Any) -> Any:
        d = _gathered(self.a(x), mesh)
        framelift.graph_break()
        e = d.detach() @ self.w
        return (e + 1).to_local().sum(), d.detach().to_local()

    def step(model: Any, x: Any) -> Any:
        a, b = model(x)
        a.backward()
        return a + b.sum()

    return Calling(forward, a=nn.Linear(8, 8), w=_weight(mesh, Replicate())), plain_data, step


@program
def views_as_results(mesh: Any) -> Any:
    def forward(self: Any, x: Any) -> Any:
        y = x @ self.w
        return y, y.view(-1), x.t(), self.w.t()

    def step(model: Any, x: Any) -> Any:
        y, v, t, w = model(x)
        for one, other in ((v, y), (t, x)):
            assert one._local_tensor.untyped_storage().data_ptr() == other._local_tensor.untyped_storage().data_ptr()
        loss = (v * 2).full_tensor().sum() + (w * w).full_tensor().sum()
        loss.backward()
        return loss

    return (
        Calling(forward, w=_weight(mesh, Replicate())),
        lambda: distribute_tensor(torch.randn(4, 8), mesh, [Replicate()]),
        step,
    )


@program
def other_grad_modes(mesh: Any) -> Any:
    def step(model: Any, x: Any) -> Any:
        with torch.no_grad():
            before = model(x)
        loss = (model(x) - before - 1).pow(2).mean()
        loss.backward()
        with torch.inference_mode():
            model(x)
        return loss

    return parallelize_module(Layers(), mesh, PAIR), plain_data, step


@program
def accumulated(mesh: Any) -> Any:
    def step(model: Any, x: Any) -> Any:
        x.requires_grad_()
        for i in range(2):
            loss = model(x * (i + 1)).pow(2).mean()
            loss.backward(retain_graph=True)
            loss.backward()
        return loss + x.grad.sum()

    return parallelize_module(Layers(), mesh, PAIR), plain_data, step


def _whole(tensor: Any) -> Any:
    tensor = tensor.detach()
    return (tensor.full_tensor() if type(tensor) is DTensor else tensor).clone()


def trained(make: Callable[[Any], Any], mesh: Any, compile: Callable[[Any], Any]) -> list[Any]:
    """The losses, gradients and parameters of three steps."""
    torch.manual_seed(0)
    model, data, step = make(mesh)
    run = compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    found: list[Any] = []
    for i in range(3):
        torch.manual_seed(i)
        x = data()
        optimizer.zero_grad()
        found.append(_whole(step(run, x)))
        found += [None if one.grad is None else _whole(one.grad) for one in model.parameters()]
        optimizer.step()
    return found + [_whole(one) for one in model.parameters()]


def difference(wanted: list[Any], found: list[Any]) -> str:
    """In words; empty where all is equal."""
    if len(wanted) != len(found):
        return "other lengths"
    for i, (one, other) in enumerate(zip(wanted, found)):
        if one is None or other is None:
            if one is not other:
                return f"number {i} is {one} eagerly and {other} compiled"
        elif one.shape != other.shape or not torch.allclose(one, other, atol=1e-5):
            return f"number {i} is {one} eagerly and {other} compiled"
    return ""


def main(rank: int, ranks: int, store: str, backends: list[str], names: list[str]) -> dict[str, str]:
    dist.init_process_group("gloo", store=dist.FileStore(store, ranks), rank=rank, world_size=ranks)
    mesh = init_device_mesh("cpu", (ranks,))
    differs = {}
    for name in names:
        wanted = trained(PROGRAMS[name], mesh, lambda model: model)
        for backend in backends:
            framelift.reset()
            try:
                found = trained(PROGRAMS[name], mesh, lambda model: framelift.compile(model, backend=backend))
                differs[f"{name} {backend}"] = difference(wanted, found)
            except Exception as error:
                differs[f"{name} {backend}"] = f"{type(error).__name__}: {error}"
    dist.destroy_process_group()
    return differs


if __name__ == "__main__":
    _, _rank, _ranks, _store, _backends, *_names = sys.argv
    print(json.dumps(main(int(_rank), int(_ranks), _store, _backends.split(","), _names)))
