"""Training over several ranks: losses, gradients and parameters are those of eager mode.

The programs are in distributed_training.py; each rank is a process, and the group is gloo's.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from overriding.distributed_training import PROGRAMS

_SCRIPT = str(pathlib.Path(__file__).with_name("distributed_training.py"))
#: one for each cause: inputs that wait for a collective, results and inputs without gradients
_FIRST = ("tensor_parallel", "unused_result", "detached_input", "embedding", "other_placements")


def agree(ranks: int, backends: str, names: tuple[str, ...], store: pathlib.Path) -> None:
    """Train on this many ranks; all have to find that nothing differs."""
    given = [str(ranks), str(store), backends, *names]
    processes = [
        subprocess.Popen([sys.executable, _SCRIPT, str(rank), *given], stdout=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]
    wanted = {f"{name} {backend}": "" for name in names for backend in backends.split(",")}
    try:
        for process in processes:
            assert json.loads(process.communicate(timeout=600)[0].splitlines()[-1]) == wanted
    finally:
        for process in processes:
            process.kill()


def test_two_ranks(tmp_path: pathlib.Path) -> None:
    agree(2, "aot_eager", _FIRST, tmp_path / "store")


@pytest.mark.slow
def test_all_programs_on_two_ranks(tmp_path: pathlib.Path) -> None:
    agree(2, "eager,aot_eager", tuple(PROGRAMS), tmp_path / "store")


#: buckets are compressed in the order in which gradients come, which a compiled backward gives all at once
_OTHER_ORDER = {"ddp_power_sgd"}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_wrappers_on_two_ranks(backend: str, tmp_path: pathlib.Path) -> None:
    script = str(pathlib.Path(__file__).with_name("distributed_wrappers.py"))
    given = ["2", str(tmp_path / "store"), "framelift", backend]
    ranks = [
        subprocess.Popen([sys.executable, script, str(rank), *given], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        for rank in ranks:
            found = [json.loads(line) for line in rank.communicate(timeout=900)[0].splitlines() if line[0] == "{"]
            assert len(found) > 60 and not rank.returncode
            assert {one["name"]: one["differs"] for one in found if one["differs"]}.keys() <= _OTHER_ORDER
    finally:
        for rank in ranks:
            rank.kill()


@pytest.mark.slow
def test_four_ranks(tmp_path: pathlib.Path) -> None:
    names = ("tensor_parallel", "checkpointed", "sequence_parallel", "parallel_loss", "sharded_parameters", "replicas")
    agree(4, "aot_eager", names, tmp_path / "store")


@pytest.mark.slow
def test_inductor_on_two_ranks(tmp_path: pathlib.Path) -> None:
    agree(2, "inductor", ("tensor_parallel", "unused_result", "sharded_parameters"), tmp_path / "store")
