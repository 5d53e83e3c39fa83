"""Hooks on the outcome of guards, and ranks that agree on it: two real ranks, with framelift and with TorchDynamo."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest
import torch

import framelift
from framelift.surface.guard_collectives import set_guard_complete_hook

RANK = """
import contextlib, json, sys, torch, torch.distributed as dist, framelift
rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", store=dist.FileStore(store, 2), rank=rank, world_size=2)
SIZES = [(4, 4), (4, 4), (4, 5), (4, 6), (7, 7), (8, 9), (1, 9)]

def compiling_calls(collectives):
    "In which of the calls something was compiled."
    compiled = []

    def backend(graph_module, inputs):
        compiled.append(now)
        return graph_module.forward

    @torch.compile(backend=backend)
    def one_frame(x):
        return x.sin() + x.shape[0]

    @torch.compile(backend=backend)
    def two_frames(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    assert torch.compiler.set_enable_guard_collectives(collectives) is False
    for now, pair in enumerate(SIZES):
        x = torch.arange(pair[rank], dtype=torch.float32)
        assert torch.equal(one_frame(x), x.sin() + pair[rank])
        assert torch.equal(two_frames(x), (x + 1) * 2)
        dist.barrier()
    assert torch.compiler.set_enable_guard_collectives(False) is collectives
    return sorted(set(compiled))

found = {"torch": compiling_calls(True)}
with framelift.installed():
    found |= {"alone": compiling_calls(False), "together": compiling_calls(True)}
print(json.dumps(found))
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_all_ranks_compile_where_one_has_to(tmp_path):
    command = [sys.executable, "-c", RANK]
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store")], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    first, second = (json.loads(process.communicate(timeout=300)[0].splitlines()[-1]) for process in ranks)
    assert first["alone"] == [0, 4, 6] and second["alone"] == [0, 2]
    assert first["together"] == second["together"] == [0, 2, 4, 6]
    assert first["torch"] == second["torch"] == [0, 2, 4, 6]


@pytest.fixture
def heard():
    """What a hook that agrees receives."""
    told: list[bool] = []
    set_guard_complete_hook(lambda served: told.append(served) or served)
    yield told
    set_guard_complete_hook(None)


def test_what_a_hook_hears(heard):
    f = framelift.compile(lambda x, n: x * n, backend="eager")
    for n in (2, 2, 3, 4, 5.0, 4):
        assert torch.equal(f(torch.ones(3), n), torch.ones(3) * n)
    assert heard == [True, False, True, False, True]


def test_relations_between_sizes_are_part_of_the_outcome(heard):
    f = framelift.compile(lambda x: x * 2 if x.shape[0] > 5 else x, backend="eager", dynamic=True)
    for size in (7, 9, 3, 4, 8):
        x = torch.ones(size)
        assert torch.equal(f(x), x * 2 if size > 5 else x)
    assert heard == [True, False, True, True]


def test_asking_draws_no_numbers(heard):
    def draws(x):
        return x * (2 if random.random() < 2 else 3) + random.random()

    f = framelift.compile(draws, backend="eager")
    for seed in range(3):
        random.seed(seed)
        found, state = f(torch.ones(2)), random.getstate()
        random.seed(seed)
        assert torch.equal(found, draws(torch.ones(2))) and random.getstate() == state
    assert False not in heard[1:]


def test_a_hook_that_says_no(heard):
    f = framelift.compile(lambda x: x + 1, backend="eager")
    assert torch.equal(f(torch.ones(2)), torch.full((2,), 2.0))
    set_guard_complete_hook(lambda served: False)
    assert torch.equal(f(torch.ones(2)), torch.full((2,), 2.0))
    assert len(f.entries) == 2
    assert "not on every rank" in framelift.stats()["recompiles"][-1]


def test_a_hook_that_fails(heard):
    f = framelift.compile(lambda x: x + 1, backend="eager")
    f(torch.ones(2))

    def fails(served):
        raise ValueError("no answer")

    set_guard_complete_hook(fails)
    with pytest.raises(ValueError, match="no answer"):
        f(torch.ones(2))
    set_guard_complete_hook(None)
    assert torch.equal(f(torch.ones(2)), torch.full((2,), 2.0))
