"""Sharded and distributed models, and their checkpoints, trained eagerly and compiled by the ranks of one group."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from distributed_training import Layers, Normed, _whole
from distributed_wrappers import PAIR, PROGRAMS, Blocks, Compile, DDP, data, program, squares, train, words
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.utils.checkpoint import checkpoint


# shards
def sharded(
    name: str, step: Any = words, prepare: Any = None, make: Any = Blocks, place: str = "whole", **options: Any
) -> None:
    """`place`: what is compiled: the model, each block, or each block before it is sharded."""

    def run(compile: Compile, mesh: Any) -> list[Any]:
        model, given = make(), {name: one() if callable(one) else one for name, one in options.items()}
        for i, block in enumerate(model.blocks):
            if place == "before":
                model.blocks[i] = block = compile(block)
            fully_shard(block, mesh=mesh, **given)
            if place == "block":
                model.blocks[i] = compile(block)
        fully_shard(model, mesh=mesh, **given)
        if prepare is not None:
            prepare(model)
        return train(model, compile(model) if place == "whole" else model, step)

    PROGRAMS[name] = run


class Checkpointed(Blocks):
    def forward(self, i: Any) -> Any:
        x = self.words(i)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(self.norm(x))


class Tied(Blocks):
    def __init__(self) -> None:
        super().__init__()
        self.head.weight = self.words.weight


class Adapted(Blocks):
    def __init__(self) -> None:
        super().__init__()
        for name, one in self.named_parameters():
            one.requires_grad_("down" in name or "norm" in name)


def shard_accumulated(run: Any, x: Any) -> Any:
    model = getattr(run, "_orig_mod", run)
    model.set_requires_gradient_sync(False)
    words(run, x)
    model.set_requires_gradient_sync(True)
    return words(run, x + 1)


def shard_clipped(run: Any, x: Any) -> Any:
    return words(run, x) + torch.nn.utils.clip_grad_norm_(run.parameters(), 0.1).full_tensor()


def shard_evaluated(run: Any, x: Any) -> Any:
    with torch.no_grad():
        before = run(x.argsort(-1))
    return words(run, x) + before.sum()


def prefetched(model: Any) -> None:
    first, second = (getattr(one, "_orig_mod", one) for one in model.blocks)
    first.set_modules_to_forward_prefetch([second])
    second.set_modules_to_backward_prefetch([first])


sharded("fsdp_whole")
sharded("fsdp_blocks", place="block")
sharded("fsdp_blocks_before", place="before")
sharded("fsdp_kept", reshard_after_forward=False)
sharded("fsdp_kept_blocks", place="block", reshard_after_forward=False)
sharded("fsdp_bfloat16", mp_policy=lambda: MixedPrecisionPolicy(torch.bfloat16, torch.float32))
sharded("fsdp_bfloat16_blocks", place="block", mp_policy=lambda: MixedPrecisionPolicy(torch.bfloat16, torch.float32))
sharded("fsdp_offloaded", offload_policy=lambda: CPUOffloadPolicy(pin_memory=False))
sharded("fsdp_checkpointed", make=Checkpointed)
sharded("fsdp_checkpointed_blocks", make=Checkpointed, place="block")
sharded("fsdp_tied", make=Tied)
sharded("fsdp_adapted", make=Adapted, place="block")
sharded("fsdp_accumulated", shard_accumulated)
sharded("fsdp_clipped", shard_clipped)
sharded("fsdp_evaluated", shard_evaluated, place="block")
sharded("fsdp_prefetched", prepare=prefetched, place="block")


@program
def fsdp_compiled_optimizer(compile: Compile, mesh: Any) -> Any:
    model = Normed()
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return train(model, compile(model), optimizer=optimizer, update=compile(lambda: optimizer.step()))


@program
def fsdp_foreach_optimizer(compile: Compile, mesh: Any) -> Any:
    model = Normed()
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=True)
    return train(model, model, optimizer=optimizer, update=compile(lambda: optimizer.step()))


@program
def fsdp_from_meta(compile: Compile, mesh: Any) -> Any:
    with torch.device("meta"):
        model = Normed()
    fully_shard(model.up, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model.to_empty(device="cpu")
    torch.manual_seed(0)
    for one in model.modules():
        if hasattr(one, "reset_parameters"):
            one.reset_parameters()
    return train(model, compile(model))


@program
def fsdp_replicated_shards(compile: Compile, mesh: Any) -> Any:
    model = Normed()
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(), 1), mesh_dim_names=("dp", "shard")))
    return train(model, compile(model))


@program
def fsdp_of_tensor_parallel(compile: Compile, mesh: Any) -> Any:
    both = init_device_mesh("cpu", (1, dist.get_world_size()), mesh_dim_names=("dp", "tp"))
    model = parallelize_module(Layers(), both["tp"], PAIR)
    fully_shard(model, mesh=both["dp"])
    return train(model, compile(model))


@program
def fsdp_groups(compile: Compile, mesh: Any) -> Any:
    model = Normed()
    fully_shard([model.up, model.down], mesh=mesh)
    fully_shard(model, mesh=mesh)
    return train(model, compile(model))


@program
def fsdp_unsharded_first(compile: Compile, mesh: Any) -> Any:
    model = Normed()
    fully_shard(model, mesh=mesh)
    run = compile(model)

    def step(run: Any, x: Any) -> Any:
        handle = model.unshard(async_op=True)
        if handle is not None:
            handle.wait()
        return squares(run, x)

    return train(model, run, step)


# tensor parallel
HEADS: dict[str, Any] = {
    **{f"blocks.*.{name}": ColwiseParallel() for name in "qkv"},
    "blocks.*.up": ColwiseParallel(),
    "blocks.*.o": RowwiseParallel(),
    "blocks.*.down": RowwiseParallel(),
}


@program
def tp_transformer(compile: Compile, mesh: Any) -> Any:
    model = parallelize_module(Blocks(), mesh, HEADS)
    return train(model, compile(model), words)


@program
def tp_blocks(compile: Compile, mesh: Any) -> Any:
    model = parallelize_module(Blocks(), mesh, HEADS)
    for i, block in enumerate(model.blocks):
        model.blocks[i] = compile(block)
    return train(model, model, words)


@program
def tp_sequence(compile: Compile, mesh: Any) -> Any:
    plan: dict[str, Any] = {
        "words": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "blocks.*.norm1": SequenceParallel(),
        "blocks.*.norm2": SequenceParallel(),
        **{f"blocks.*.{name}": ColwiseParallel(input_layouts=Shard(1)) for name in ("q", "k", "v", "up")},
        "blocks.*.o": RowwiseParallel(output_layouts=Shard(1)),
        "blocks.*.down": RowwiseParallel(output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    model = parallelize_module(Blocks(), mesh, plan)
    return train(model, compile(model), words)


@program
def tp_loss_inside(compile: Compile, mesh: Any) -> Any:
    out = ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)
    model = parallelize_module(Blocks(), mesh, {**HEADS, "head": out})

    def losses(x: Any) -> Any:
        with loss_parallel():
            tokens = x.argsort(-1)
            return F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())

    run = compile(losses)

    def step(_: Any, x: Any) -> Any:
        loss = run(x)
        with loss_parallel():
            loss.backward()
        return loss

    return train(model, model, step)


@program
def tp_optimizer(compile: Compile, mesh: Any) -> Any:
    model = parallelize_module(Layers(), mesh, PAIR)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=False)
    return train(model, compile(model), optimizer=optimizer, update=compile(lambda: optimizer.step()))


@program
def tp_sizes(compile: Compile, mesh: Any) -> Any:
    model = parallelize_module(Layers(), mesh, PAIR)
    return train(model, compile(model), steps=4, shape=lambda i: (2 + 2 * i, 8))


@program
def tp_prepared(compile: Compile, mesh: Any) -> Any:
    prepare = PrepareModuleInput(input_layouts=(Shard(0),), desired_input_layouts=(Replicate(),))
    model = parallelize_module(Layers(), mesh, {**PAIR, "": prepare})
    return train(model, compile(model))


@program
def tp_clipped(compile: Compile, mesh: Any) -> Any:
    model = parallelize_module(Layers(), mesh, {**PAIR, "out": ColwiseParallel(output_layouts=Replicate())})

    def step(run: Any, x: Any) -> Any:
        return squares(run, x) + torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1).full_tensor()

    return train(model, compile(model), step)


# checkpoints
def folder() -> str:
    """One for all ranks."""
    found = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(found)
    return str(found[0])


def states(run: Any) -> Any:
    """A compiled model's state is that of its module."""
    return get_model_state_dict(getattr(run, "_orig_mod", run))


@program
def checkpoint_of_compiled(compile: Compile, mesh: Any) -> Any:
    """Saved from a compiled model, loaded into a plain one, and the other way round."""
    models = [Normed() for _ in range(2)]
    for model in models:
        fully_shard(model, mesh=mesh)
    first, second, where = compile(models[0]), models[1], folder()
    found = train(models[0], first)
    dcp.save({"model": states(first)}, checkpoint_id=where)
    state = {"model": states(second)}
    dcp.load(state, checkpoint_id=where)
    set_model_state_dict(second, state["model"])
    found += train(second, compile(second))
    set_model_state_dict(models[0], states(second))
    return found + train(models[0], first)


@program
def checkpoint_with_optimizer(compile: Compile, mesh: Any) -> Any:
    model = Normed()
    fully_shard(model, mesh=mesh)
    run, optimizer = compile(model), torch.optim.AdamW(model.parameters(), lr=0.01)
    found, where = train(model, run, optimizer=optimizer), folder()
    state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
    assert not any("_orig_mod" in name for name in state["model"])
    dcp.save(state, checkpoint_id=where)
    found += train(model, run, optimizer=optimizer)
    dcp.load(state, checkpoint_id=where)
    return found + [_whole(one) for one in state["model"].values()] + train(model, run, optimizer=optimizer)


@program
def checkpoint_of_replicas(compile: Compile, mesh: Any) -> Any:
    model = DDP(Normed())
    run, where = compile(model), folder()
    found = train(model, run)
    dcp.save({"model": states(run)}, checkpoint_id=where)
    other = Normed()
    state = {"model": get_model_state_dict(other)}
    dcp.load(state, checkpoint_id=where)
    other.load_state_dict(state["model"])
    return found + [_whole(one) for one in other.parameters()] + train(other, compile(other))
