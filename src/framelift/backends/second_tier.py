"""The second tier: a graph whose layers were folded, compiled once more as it was captured, for later processes.

Folded layers are compiled sooner and run a little slower: the end of a layer does not fuse with the next one.  So
where cores are free, a process beside the program compiles the flat graph too (elsewhere.py), and its note takes the
place of the folded graph's (warm_start.py): later processes load it.  This process keeps the folded graph, so that no
result depends on when a compiler was done; with `config.second_tier = "now"`, calls without gradients change over
between two calls (capture/background.py).  Where anything fails the folded graph stays.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import torch

from .. import config
from ..capture.background import Interim
from ..capture.compile_entry import capture_now
from ..capture.records.captures import counts
from .elsewhere import NotPacked, submit, unhurried, worker

FOLDED, FLAT = "folded", "flat"
_FEWEST = 4  # cores of a machine that has free ones
_FREE = 2
_MOST = 8  # graphs that wait


def begin(pack: Callable[[], bytes], trains: bool) -> None:
    """The graph that is being compiled runs with folded layers: have the flat one compiled, where that may be."""
    info, why = capture_now(), _why_not()
    if info is None:
        return
    try:
        if not why:
            now = config.second_tier == "now"
            job = submit(pack(), worker if now else unhurried)
            info.interim = Interim(job, is_compiled=True, swaps=now and not trains)
            counts.second_tier.append(job)
            info.rewrites.append("its flat graph is compiled behind the program, for later processes")
            return
    except NotPacked as error:
        why = str(error)
    counts.second_tier.append(f"not begun: {why}")
    info.rewrites.append(f"no flat graph is compiled for later processes: {why}")


def used() -> None:
    """Note that the graph that is being compiled was loaded as an earlier process compiled it behind the program."""
    counts.second_tier.append("used")
    if (info := capture_now()) is not None:
        info.rewrites.append("equal layers are not folded: the flat graph was compiled behind the program")


def _why_not() -> str:
    if config.second_tier == "off":
        return 'config.second_tier is "off"'
    if config.cache_url:
        return "captures are in one file (config.cache_url)"
    if len(worker.jobs) + len(unhurried.jobs) >= _MOST:
        return f"{_MOST} graphs wait already"
    if config.second_tier == "now":
        return ""
    if torch.cuda.is_initialized():  # another process on the device takes memory that the program may need
        return 'the device is the program\'s own (config.second_tier = "now" compiles there, too)'
    cores = _cores()
    if cores < _FEWEST:
        return f"there are {cores:g} cores, and {_FEWEST} are needed"
    return "" if cores - os.getloadavg()[0] >= _FREE else "no cores are free"


def _cores() -> float:
    """The cores that this process may use, beside others of one program."""
    cores: float = len(os.sched_getaffinity(0))
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
        cores = min(cores, int(quota) / int(period))
    except (OSError, ValueError):  # there is no limit
        pass
    return cores / max(int(os.environ.get("LOCAL_WORLD_SIZE") or 1), 1)
