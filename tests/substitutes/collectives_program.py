"""Functions with collectives, groups, meshes and distributed tensors, for one rank of several.

`python collectives_program.py RANK RANKS STORE BACKENDS [NAMES]` prints what differs from eager mode, and what was not
one graph though it should be, as JSON.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import local_map

import framelift

#: the function, what it takes beside a tensor, and whether it is one graph
FUNCTIONS: dict[str, tuple[Callable[..., Any], list[str], bool]] = {}


def function(needs: str = "", whole: bool = True) -> Any:
    def add(made: Any) -> Any:
        FUNCTIONS[made.__name__] = made, needs.split(","), whole
        return made

    return add


# in place, on the default group
@function()
def all_reduce(x: Any) -> Any:
    y = x * 2
    dist.all_reduce(y)
    return y + 1


@function()
def all_reduce_argument(x: Any) -> Any:
    dist.all_reduce(x)
    return x * 2


@function()
def result_unused(x: Any) -> Any:
    dist.all_reduce(x * 2)
    return x + 1


@function()
def reduce_op_inside(x: Any) -> Any:
    y = x * 2
    dist.all_reduce(y, op=dist.ReduceOp.MAX)
    z = x * 3
    dist.all_reduce(z, dist.ReduceOp.MIN)
    return y + z


@function()
def all_gather_tensor_out(x: Any) -> Any:
    out = torch.empty(4 * dist.get_world_size())
    dist.all_gather_into_tensor(out, x)
    return out * 2


@function()
def all_gather_list(x: Any) -> Any:
    outs = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(outs, x * 2)
    return torch.cat(outs) + 1


@function()
def reduce_scatter_out(x: Any) -> Any:
    out = torch.empty(4 // dist.get_world_size())
    dist.reduce_scatter_tensor(out, x * 3)
    return out


@function()
def reduce_scatter_list(x: Any) -> Any:
    out = torch.empty(4)
    dist.reduce_scatter(out, [x * (i + 1) for i in range(dist.get_world_size())])
    return out


@function()
def broadcast(x: Any) -> Any:
    y = x * 2
    dist.broadcast(y, src=1)
    return y + x


@function(whole=False)
def reduce(x: Any) -> Any:
    y = x * 2
    dist.reduce(y, dst=0)
    return y + x if dist.get_rank() == 0 else x


@function()
def all_to_all_single(x: Any) -> Any:
    out = torch.empty_like(x)
    dist.all_to_all_single(out, x * 2)
    return out + 1


@function(whole=False)
def all_to_all_list(x: Any) -> Any:
    n = dist.get_world_size()
    outs = [torch.empty(4 // n) for _ in range(n)]
    dist.all_to_all(outs, list((x * 2).chunk(n)))
    return torch.cat(outs)


@function(whole=False)
def gather(x: Any) -> Any:
    n = dist.get_world_size()
    outs = [torch.empty_like(x) for _ in range(n)] if dist.get_rank() == 0 else None
    dist.gather(x * 2, outs, dst=0)
    return torch.cat(outs) if outs is not None else x


@function(whole=False)
def scatter(x: Any) -> Any:
    out = torch.empty_like(x)
    n = dist.get_world_size()
    dist.scatter(out, [x * i for i in range(n)] if dist.get_rank() == 0 else None, src=0)
    return out


@function()
def async_all_reduce(x: Any) -> Any:
    y = x * 2
    work = dist.all_reduce(y, async_op=True)
    z = x.sin()
    work.wait()
    return y + z


@function()
def async_all_gather(x: Any) -> Any:
    out = torch.empty(4 * dist.get_world_size())
    work = dist.all_gather_into_tensor(out, x * 2, async_op=True)
    z = x.sin()
    work.wait()
    return out.sum() + z


@function()
def async_of_several(x: Any) -> Any:
    ys = [x * i for i in range(3)]
    works = [dist.all_reduce(y, async_op=True) for y in ys]
    for work in works:
        work.wait()
    return sum(ys)


@function()
def coalesced(x: Any) -> Any:
    ys = [x * 2, x * 3]
    dist.all_reduce_coalesced(ys)
    return ys[0] + ys[1]


@function(whole=False)
def barrier(x: Any) -> Any:
    y = x * 2
    dist.barrier()
    return y + 1


@function(whole=False)
def p2p(x: Any) -> Any:
    out = torch.empty_like(x)
    rank = dist.get_rank()
    if rank == 0:
        dist.send(x * 2, 1)
        dist.recv(out, 1)
    elif rank == 1:
        dist.recv(out, 0)
        dist.send(x * 2, 0)
    return out if rank < 2 else x


@function(whole=False)
def p2p_async(x: Any) -> Any:
    rank, n = dist.get_rank(), dist.get_world_size()
    out = torch.empty_like(x)
    a = dist.isend(x * 2, (rank + 1) % n)
    b = dist.irecv(out, (rank - 1) % n)
    a.wait()
    b.wait()
    return out + 1


@function(whole=False)
def p2p_batch(x: Any) -> Any:
    rank, n = dist.get_rank(), dist.get_world_size()
    out, given = torch.empty_like(x), x * 2
    ops = [dist.P2POp(dist.isend, given, (rank + 1) % n), dist.P2POp(dist.irecv, out, (rank - 1) % n)]
    for req in dist.batch_isend_irecv(ops):
        req.wait()
    return out + 1


@function(whole=False)
def objects(x: Any) -> Any:
    y = x * 2
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, {"rank": dist.get_rank()})
    return y + sum(one["rank"] for one in found)


@function(whole=False)
def object_broadcast(x: Any) -> Any:
    y = x * 2
    found = [dist.get_rank() + 5]
    dist.broadcast_object_list(found, src=1)
    return y + found[0]


# groups
@function("group")
def ranks(x: Any, group: Any) -> Any:
    return (
        x * dist.get_rank()
        + dist.get_world_size()
        + group.size()
        + group.rank()
        + dist.get_rank(group)
        + dist.get_world_size(group)
    )


@function("group")
def by_group(x: Any, group: Any) -> Any:
    y = x + dist.get_rank(group)
    dist.all_reduce(y, group=group)
    dist.all_reduce(y, dist.ReduceOp.MAX, group)
    return y


@function("group")
def group_ranks(x: Any, group: Any) -> Any:
    y = x + dist.get_global_rank(group, 0) + dist.get_group_rank(group, dist.get_rank())
    return y + len(dist.get_process_group_ranks(group))


@function()
def world_group(x: Any) -> Any:
    y = x * 2
    dist.all_reduce(y, group=dist.group.WORLD)
    return y * dist.group.WORLD.size()


@function()
def is_initialized(x: Any) -> Any:
    if dist.is_available() and dist.is_initialized():
        return x * dist.get_world_size() + (dist.get_backend() == "gloo")
    return x


# functional
@function("group")
def functional_by_group(x: Any, group: Any) -> Any:
    y = funcol.all_reduce(x * 2, "sum", group)
    z = funcol.all_gather_tensor(x, 0, group)
    return y + z.sum()


@function("name")
def functional_by_name(x: Any, name: Any) -> Any:
    y = funcol.all_reduce(x * 2, "max", name)
    z = funcol.reduce_scatter_tensor(torch.cat([x, x]), "sum", 0, name)
    return y.sum() + z


@function("mesh")
def functional_by_mesh(x: Any, mesh: Any) -> Any:
    y = funcol.all_reduce(x * 2, "sum", mesh)
    z = funcol.all_to_all_single(x * 3, None, None, (mesh, 0))
    w = funcol.broadcast(x * 5, 0, mesh)
    return y + z + w


@function("mesh")
def functional_waited(x: Any, mesh: Any) -> Any:
    y = funcol.all_reduce(x * 2, "sum", mesh)
    return funcol.wait_tensor(y) + 1


@function("mesh")
def functional_coalesced(x: Any, mesh: Any) -> Any:
    a, b = funcol.all_reduce_coalesced([x, x * 2], "sum", mesh)
    c = funcol.all_gather_into_tensor_coalesced([x, x * 2], mesh)
    return a + b + c[0].sum() + c[1].sum()


@function("group")
def functional_permute(x: Any, group: Any) -> Any:
    n = dist.get_world_size()
    return funcol.permute_tensor(x * 2, [(i + 1) % n for i in range(n)], group) + 1


@function("group,grad")
def functional_with_gradient(x: Any, group: Any) -> Any:
    y = funcol.all_gather_tensor_autograd(x * 2, 0, group)
    z = funcol.reduce_scatter_tensor_autograd(y, "sum", 0, group)
    return z * 3


# meshes
@function("mesh")
def asks_mesh(x: Any, mesh: Any) -> Any:
    return x * mesh.size() + mesh.get_local_rank() + mesh.get_rank() + mesh.ndim + mesh.size(0) + len(mesh.shape)


@function("mesh")
def mesh_group(x: Any, mesh: Any) -> Any:
    y = x * 2
    dist.all_reduce(y, group=mesh.get_group())
    return y * mesh.get_group().size()


@function("mesh2")
def mesh_slices(x: Any, mesh: Any) -> Any:
    y = x * 2
    dist.all_reduce(y, group=mesh["tp"].get_group())
    return y + mesh["tp"].size() + mesh["dp"].get_local_rank() + mesh.get_coordinate()[0]


# DTensor
@function("mesh")
def dtensor_from_local(x: Any, mesh: Any) -> Any:
    d = DTensor.from_local(x * 2, mesh, [Shard(0)], run_check=False)
    return d.redistribute(mesh, [Replicate()]).to_local() + 1


@function("mesh")
def dtensor_partial(x: Any, mesh: Any) -> Any:
    d = DTensor.from_local(x * 2, mesh, [Partial()], run_check=False)
    return (d.redistribute(placements=[Replicate()]) * 2).full_tensor()


@function("mesh")
def dtensor_placements_compared(x: Any, mesh: Any) -> Any:
    d = DTensor.from_local(x, mesh, [Shard(0)], run_check=False)
    if d.placements[0] == Shard(0) and d.placements != (Replicate(),) and d.placements[0].is_shard():
        d = d * 2
    return d.to_local() + d.placements[0].dim + d.device_mesh.size()


@function("dtensor")
def dtensor_argument(d: Any) -> Any:
    e = d * 2 + 1
    return e.full_tensor(), e.to_local(), e


@function("dtensor")
def dtensor_argument_asked(d: Any) -> Any:
    if isinstance(d, DTensor) and d.placements[0] == Shard(0):
        return d.redistribute(d.device_mesh, [Replicate()]).to_local() * d.shape[0]
    return d


@function("dtensor")
def dtensor_matmul(d: Any) -> Any:
    w = d.redistribute(d.device_mesh, [Replicate()])
    return (d @ w.t()).sum().full_tensor() + torch.ones(2)


@function("mesh", whole=False)
def dtensor_distributed_inside(x: Any, mesh: Any) -> Any:
    return distribute_tensor(x * 2, mesh, [Shard(0)]).full_tensor() + 1


@function("mesh,grad")
def dtensor_gradient(x: Any, mesh: Any) -> Any:
    d = DTensor.from_local(x * 2, mesh, [Partial()], run_check=False)
    return d.redistribute(mesh, [Replicate()]).to_local(grad_placements=[Partial()]) * 3


@function("dtensor")
def mapped_locally(d: Any) -> Any:
    f = local_map(
        lambda a: a * 2 + 1, out_placements=[Shard(0)], in_placements=([Shard(0)],), device_mesh=d.device_mesh
    )
    return f(d).full_tensor()


@function("mesh", whole=False)
def dtensor_factories(x: Any, mesh: Any) -> Any:
    from torch.distributed.tensor import ones, zeros

    return (
        ones(4, device_mesh=mesh, placements=[Shard(0)]) + zeros(4, device_mesh=mesh, placements=[Shard(0)])
    ).full_tensor() + x


@function("dtensor")
def dtensor_methods(d: Any) -> Any:
    return (
        d.sum(0).full_tensor(),
        d.view(-1).redistribute(placements=[Replicate()]).to_local(),
        d.clone().size(),
        d.stride(),
    )


@function(whole=False)
def work_over_a_break(x: Any) -> Any:
    y = x * 2
    work = dist.all_reduce(y, async_op=True)
    framelift.graph_break()
    work.wait()
    return y + 1


@function(whole=False)
def work_returned(x: Any) -> Any:
    y = x * 2
    return dist.all_reduce(y, async_op=True).wait() and y


@function()
def scalars(x: Any) -> Any:
    loss = x.sum()
    dist.all_reduce(loss)
    outs = [torch.zeros(()) for _ in range(dist.get_world_size())]
    dist.all_gather(outs, loss * dist.get_rank())
    return loss / dist.get_world_size() + torch.stack(outs)


@function()
def rows(x: Any) -> Any:
    out, part = torch.empty(dist.get_world_size() * 2, 2), torch.empty(2, 2)
    dist.all_gather_into_tensor(out, x.view(2, 2))
    dist.reduce_scatter_tensor(part, out * 2)
    return out, part


@function(whole=False)
def differentiable(x: Any) -> Any:
    y = x.requires_grad_() * 2
    with torch.no_grad():
        dist.all_reduce(y)
    return y.detach()


@function()
def used_on_one_rank(x: Any) -> Any:
    y = x * 2
    dist.all_reduce(y)
    z = funcol.all_reduce(x, "sum", dist.group.WORLD)
    return y + z if dist.get_rank() == 0 else x + 1


@function()
def rank_decides(x: Any) -> Any:
    """Both sides have the same collectives."""
    if dist.get_rank() == 0:
        y = x.sin()
        dist.all_reduce(y)
        return y
    y = x.cos()
    dist.all_reduce(y)
    return y * 2


#: differs by rank, and changes on the first alone
SETTINGS = {"scale": 1}


@function(whole=False)
def one_rank_recompiles(x: Any) -> Any:
    y = x * SETTINGS["scale"]
    dist.all_reduce(y)
    return y


@function(whole=False)
def one_rank_breaks(x: Any) -> Any:
    y = x * 2
    if dist.get_rank() == 1:
        framelift.graph_break()
    dist.all_reduce(y)
    if dist.get_rank() == 0:
        framelift.graph_break()
    dist.all_reduce(y)
    return y


@function(whole=False)
def one_rank_raises(x: Any) -> Any:
    y = x * 2
    dist.all_reduce(y)
    try:
        if dist.get_rank() == SETTINGS["scale"] % 2:
            raise ValueError("here")
    except ValueError:
        y = y + 1
    dist.all_reduce(y)
    return y


@function(whole=False)
def one_rank_runs_eagerly(x: Any) -> Any:
    y = x * 2
    if dist.get_rank() == 0:
        y = _by_frames(y)
    dist.all_reduce(y)
    return y


def _by_frames(y: Any) -> Any:
    return y + len(sys._getframe().f_code.co_name)


def arguments(needs: list[str], step: int, mesh: Any, named: dict[str, Any]) -> list[Any]:
    """Of one call: they differ by rank, and the last by their size."""
    SETTINGS["scale"] = 1 + step * (dist.get_rank() == 0)
    rank, generator = dist.get_rank(), torch.Generator().manual_seed(step)
    x = torch.randn(4, generator=generator) + rank
    if "dtensor" in needs:
        x = distribute_tensor(torch.randn(4, 4, generator=generator), mesh, [Shard(0)])
    x.requires_grad_("grad" in needs)
    return [x, *(named[one] for one in needs if one in named)]


def plain(value: Any) -> Any:
    if isinstance(value, DTensor):
        return [value.placements, plain(value.to_local())]
    if isinstance(value, torch.Tensor):
        return funcol.wait_tensor(value).detach().clone()
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return torch.allclose(one, other) if isinstance(one, torch.Tensor) else bool(one == other)


def run(name: str, backend: str, mesh: Any, group: Any) -> str:
    """What differs, in words."""
    function, needs, whole = FUNCTIONS[name]
    framelift.reset()
    before = framelift.stats()["graphs"]
    captured = framelift.compile(function, backend=backend, fullgraph=whole)
    named = {"group": group, "name": group.group_name, "mesh": mesh}
    if "mesh2" in needs:
        named["mesh2"] = init_device_mesh("cpu", (1, dist.get_world_size()), mesh_dim_names=("dp", "tp"))
    for step in range(3):
        wanted, given = arguments(needs, step, mesh, named), arguments(needs, step, mesh, named)
        results = function(*wanted), captured(*given)
        if "grad" in needs:
            for result, (x, *_) in zip(results, (wanted, given)):
                result.sum().backward()
            if not same(plain(wanted[0].grad), plain(given[0].grad)):
                return "another gradient"
        if not same(plain(results[0]), plain(results[1])) or not same(plain(wanted[0]), plain(given[0])):
            return "differs"
    return "graphs" if whole and framelift.stats()["graphs"] != before + 1 else ""


def main(rank: int, ranks: int, path: str, backends: list[str], names: list[str]) -> dict[str, str]:
    """Each function has groups of its own: one that fails on one rank stops no other."""
    found, store = {}, dist.FileStore(path, ranks)
    for name in names or FUNCTIONS:
        for backend in backends:
            key = f"{name} {backend}"
            store.set(f"{key} {rank}", "begins")
            for other in range(ranks):
                store.get(f"{key} {other}")
            prefixed, limit = dist.PrefixStore(key, store), datetime.timedelta(seconds=60)
            dist.init_process_group("gloo", store=prefixed, rank=rank, world_size=ranks, timeout=limit)
            try:
                found[key] = run(name, backend, init_device_mesh("cpu", (ranks,)), dist.new_group([*range(ranks)]))
            except Exception as error:
                found[key] = f"{type(error).__name__}: {error}"
            dist.destroy_process_group()
    return {key: what for key, what in found.items() if what}


if __name__ == "__main__":
    _, _rank, _ranks, _path, _backends, *_names = sys.argv
    print(json.dumps(main(int(_rank), int(_ranks), _path, _backends.split(","), _names)))
