"""The second tier: flat graphs of folded layers, compiled by another process for later ones, with real Inductor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from framelift import config
from framelift.backends import second_tier
from framelift.capture.background import Interim

# ---- when one begins


@pytest.mark.parametrize(
    "setting, cores, load, why",
    [
        ("off", 64, 0.0, 'config.second_tier is "off"'),
        ("auto", 2, 0.0, "there are 2 cores, and 4 are needed"),
        ("auto", 8, 7.5, "no cores are free"),
        ("auto", 8, 1.0, ""),
        ("now", 2, 9.0, ""),
    ],
)
def test_where_cores_are_free(setting: str, cores: int, load: float, why: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    quota = Path("/sys/fs/cgroup/cpu.max")
    if cores > 2 and quota.exists() and not quota.read_text().startswith("max"):
        pytest.skip("this container has a limit of its own")
    with config.patch(second_tier=setting, cache_url=""):
        assert second_tier._why_not() == why


def test_ranks_of_one_machine_share_its_cores(monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    with config.patch(second_tier="auto", cache_url=""):
        assert second_tier._why_not() == "there are 2 cores, and 4 are needed"
    with config.patch(second_tier="now", cache_url="/a/file"):
        assert "one file" in second_tier._why_not()


@pytest.mark.parametrize("state, is_compiled, swaps, over", [
    ("compiling", False, True, False),
    ("failed: no", False, True, True),  # the graph has to be compiled here
    ("failed: no", True, True, False),  # the folded graph stays
    ("made", True, True, True),
    ("made", True, False, False),
])  # fmt: skip
def test_which_entries_are_exchanged(state: str, is_compiled: bool, swaps: bool, over: bool) -> None:
    class Job:
        def __init__(self) -> None:
            self.state = state

        def is_ready(self) -> bool:
            return state != "compiling"

        def wait(self, seconds: float | None = None) -> bool:
            return True

    assert Interim(Job(), is_compiled, swaps).is_over() is over


# ---- with Inductor

PROGRAM = textwrap.dedent("""
    import json, sys, torch, framelift
    from torch._dynamo.utils import counters

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.up, self.down = torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

        def forward(self, x):
            h = self.up(self.norm(x)).relu() * 0.5
            return x + self.down(h.sigmoid() * h.tanh() + 1).cos()

    def difference(trains):
        if not trains:
            with torch.no_grad():
                return float((compiled(x) - model(x)).abs().max())
        found = []
        for call in (compiled, model):
            model.zero_grad()
            call(x).sum().backward()
            found.append(torch.cat([one.grad.flatten() for one in model.parameters()]))
        return float((found[0] - found[1]).abs().max())

    def cache_counts():
        found = {**counters["inductor"], **counters["aot_autograd"]}
        counters.clear()
        return {kind: count for kind, count in found.items() if "_cache_" in kind}

    rows = {}
    for name in sys.argv[2:]:
        framelift.reset()
        torch.manual_seed(0)
        model, x = torch.nn.Sequential(*[Block() for _ in range(4)]), torch.rand(4, 8)
        compiled = framelift.compile(model)
        row = rows[name] = {"differences": [difference(name == "training")], "first": cache_counts()}
        row["begun"] = dict(framelift.stats()["second_tier"])
        if sys.argv[1] == "kill":
            from framelift.backends import elsewhere
            elsewhere.worker.process.kill()
        row["waited"] = framelift.wait()
        row["differences"] += [difference(name == "training") for _ in range(2)]
        row["then"], row["second tier"] = cache_counts(), dict(framelift.stats()["second_tier"])
        row["captures"], row["report"] = framelift.stats()["captures"], str(compiled.report())
    print(json.dumps(rows))
""")


def run(folder: Path, setting: str, what: str, *names: str) -> dict[str, dict[str, Any]]:
    places = {"TORCHINDUCTOR_CACHE_DIR": folder / "inductor", "FRAMELIFT_CACHE_DIR": folder / "kept"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, what, *names],
        env={**os.environ, **{k: str(v) for k, v in places.items()}, "FRAMELIFT_SECOND_TIER": setting},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, dict[str, Any]] = json.loads(done.stdout.strip().splitlines()[-1])
    assert all(max(row["differences"]) < 1e-4 for row in found.values()), found
    return found


@pytest.mark.slow
def test_the_next_process_loads_the_flat_graph(tmp_path: Path) -> None:
    first = run(tmp_path, "now", "wait", "inference", "training")
    for row in first.values():
        assert row["begun"] in ({"compiling": 1}, {"made": 1}) and row["waited"], row
        assert "fxgraph_cache_miss" not in row["then"], row  # nothing more is compiled in this process
    assert first["inference"]["second tier"] == {"made": 1, "used": 1}, first  # between two calls
    assert first["training"]["second tier"] == {"made": 1}, first
    assert (
        "layers folded" in first["training"]["report"] and "its flat graph is compiled" in first["training"]["report"]
    )
    for name, row in run(tmp_path, "auto", "wait", "inference", "training").items():
        assert row["second tier"] == row["begun"] == {"used": 1}, (name, row)
        assert not [kind for kind in row["first"] if "miss" in kind], (name, row)
        assert "the flat graph was compiled behind the program" in row["report"], row
    (row,) = run(tmp_path, "off", "wait", "inference").values()
    assert row["second tier"] == {'not begun: config.second_tier is "off"': 1}, row
    assert 'no flat graph is compiled for later processes: config.second_tier is "off"' in row["report"], row


@pytest.mark.slow
def test_a_compiler_that_is_killed(tmp_path: Path) -> None:
    (row,) = run(tmp_path, "now", "kill", "inference").values()
    (state,) = row["second tier"]
    assert state.startswith("failed: the process that compiles ended with code -9") and row["captures"] == 1, row
