"""The self-test of `framelift doctor`: small programs, each compared with plain Python in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

from .core_build import BuildFailed, compiler


class Result(NamedTuple):
    """The outcome of one program."""

    name: str
    passed: bool
    text: str


_SAME = "\ntorch.testing.assert_close(found, wanted)\n"
#: name -> (program, how often it is run in a process of its own, what the last run has to print)
PROGRAMS: dict[str, tuple[str, int, str]] = {
    "module": (
        "net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())\n"
        "x = torch.rand(3, 4)\nwanted, found = net(x), framelift.compile(net, backend='eager')(x)" + _SAME,
        1,
        "graphs 1",
    ),
    "training step": (
        "net = torch.nn.Linear(4, 1)\nx = torch.rand(3, 4)\n"
        "def step():\n"
        "    net.zero_grad()\n    net(x).square().sum().backward()\n    return net.weight.grad.clone()\n"
        "wanted, found = step(), framelift.compile(step, backend='aot_eager')()" + _SAME,
        1,
        "",
    ),
    "graph break in a loop": (
        "def f(x):\n"
        "    for i in range(3):\n        x = x + i\n        if x.sum() > 4:\n            x = x * 2\n    return x\n"
        "x = torch.ones(2)\nwanted, found = f(x), framelift.compile(f, backend='eager')(x)" + _SAME,
        1,
        "",
    ),
    "float that changes": (
        "g = framelift.compile(lambda x, s: x * s, backend='eager')\nx = torch.rand(3)\n"
        "for s in (1.5, 2.5, 3.5, float('inf')):\n    wanted, found = x * s, g(x, s)" + _SAME.replace("\n", "\n    "),
        1,
        "",
    ),
    "Inductor": (
        "def f(x):\n    return torch.sin(x) * 2 + 1\n"
        "x = torch.rand(8)\nwanted, found = f(x), framelift.compile(f, backend='inductor')(x)" + _SAME,
        1,
        "graphs 1",
    ),
    "kept capture": (
        "framelift.config.cache = True\n"
        "def f(x):\n    return torch.cos(x) + 1\n"
        "x = torch.rand(8)\nwanted, found = f(x), framelift.compile(f, backend='eager')(x)" + _SAME,
        2,
        "loaded 1",
    ),
}
_BEGIN = "import torch, framelift\n"
_END = "stats = framelift.stats()\nprint('graphs', stats['graphs'])\nprint('loaded', stats['loaded'])\n"
_LIMIT = 300  # seconds


def results() -> Iterator[Result]:
    """Run the programs, one after the other; they keep nothing that outlives the self-test."""
    with tempfile.TemporaryDirectory(prefix="framelift_doctor_") as place:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FRAMELIFT_")}
        environment |= {
            "FRAMELIFT_CACHE_DIR": os.path.join(place, "captures"),
            "TORCHINDUCTOR_CACHE_DIR": os.path.join(place, "inductor"),
        }
        for number, (name, (program, times, wanted)) in enumerate(PROGRAMS.items()):
            if name == "Inductor" and not has_compiler():
                yield Result(name, True, "left out: there is no C++ compiler")
                continue
            script = os.path.join(place, f"program_{number}.py")
            with open(script, "w") as file:
                file.write(_BEGIN + program + _END)
            yield _result(name, [sys.executable, "-W", "ignore", script], times, wanted, environment)


def has_compiler() -> bool:
    """Return whether Inductor can compile for the CPU."""
    try:
        return bool(compiler())
    except BuildFailed:
        return False


def _result(name: str, command: list[str], times: int, wanted: str, environment: dict[str, str]) -> Result:
    begin = time.perf_counter()
    for _ in range(times):
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=_LIMIT)
        except subprocess.TimeoutExpired:
            return Result(name, False, f"not done after {_LIMIT} s")
        if done.returncode:
            last = done.stderr.strip().rpartition("\n")[2]
            return Result(name, False, f"failed: {last or f'exit status {done.returncode}'}")
    took = f"{time.perf_counter() - begin:.1f} s, with the start of {times} process{'es' * (times > 1)}"
    if wanted and wanted not in done.stdout.splitlines():
        return Result(name, False, f"the result is right, but not `{wanted}`: {' '.join(done.stdout.split())}; {took}")
    return Result(name, True, took)
