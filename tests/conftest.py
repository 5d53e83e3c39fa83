"""Settings of the whole test run: quiet libraries, few threads, no network, a clean framelift before each test."""

from __future__ import annotations

import gc
import logging
import os
import sys
import zlib
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("FRAMELIFT_STRICT", "1")  # a defect of framelift is an error here, not a warning
os.environ.setdefault("FRAMELIFT_CACHE", "0")  # tests count captures; those of the cache turn it on, each in its folder
os.environ.setdefault("FRAMELIFT_SECOND_TIER", "off")  # nothing is compiled behind the tests; those of it turn it on
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.insert(0, str(Path(__file__).parent))

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402
import repeated_tapes  # noqa: E402
from pairwise import pairwise_items  # noqa: E402

settings.register_profile("framelift", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
settings.load_profile("framelift")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", help="run a part of the tests, spread over all files: 1/10, 2/10, ...")
    parser.addoption("--whole", action="store_true", help="run slow tests too, and each combination of parameters")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only `--whole` runs, then keep the tests of `--part`.

    A test that is named on the command line (`file::test`) is run whole.
    """
    dropped: list[pytest.Item] = []
    if not config.getoption("whole") and not any("::" in arg for arg in config.args):
        dropped = [item for item in items if item.get_closest_marker("slow")]
        items[:], others = pairwise_items(item for item in items if not item.get_closest_marker("slow"))
        dropped += others
    part = config.getoption("part")
    if part:  # those whose id's hash falls into it, which are the same everywhere
        number, parts = map(int, part.split("/"))
        if not 1 <= number <= parts:
            raise pytest.UsageError(f"--part {part}: the first number is from 1 to the second")
        dropped += [item for item in items if zlib.crc32(item.nodeid.encode()) % parts != number - 1]
        items[:] = [item for item in items if zlib.crc32(item.nodeid.encode()) % parts == number - 1]
    if dropped:
        config.hook.pytest_deselected(items=dropped)


@pytest.fixture(autouse=True)
def fresh() -> object:
    """Each test starts with empty caches and torch's default state; rehearsals that it repeats are compared."""
    if len(sys.modules) > _modules + 100:
        _look_at_no_more_than_is_made_from_here_on()
    framelift, torch = sys.modules.get("framelift"), sys.modules.get("torch")
    if framelift is not None:
        framelift.reset()
    if torch is not None:  # tests of bytecode/ run without it
        torch.manual_seed(0)
        torch.set_num_threads(1)
        torch.set_grad_enabled(True)
        # pytest listens to loggers that do not propagate; to this one each capture writes all that TORCH_TRACE shows
        trace = logging.getLogger("torch.__trace")
        trace.propagate, trace.handlers = True, []
    if framelift is not None and torch is not None:
        repeated_tapes.watch()
    yield
    assert not (found := repeated_tapes.taken()), found


@pytest.fixture
def plain_guards() -> object:
    """For tests of lifetimes, and of what guards look at: verifying guards keeps alive, and reads, what they name."""
    import framelift

    with framelift.config.patch(verify_guards=False):
        yield


@pytest.fixture
def small_heap() -> None:
    """For tests that collect garbage again and again: collections look at what is made from here on."""
    _look_at_no_more_than_is_made_from_here_on()


_modules = 0  # as many as there were when the collector was last told to leave out what there is


def _look_at_no_more_than_is_made_from_here_on() -> None:
    """Collections leave out what there is now: torch alone holds half a million objects."""
    global _modules
    _modules = len(sys.modules)
    gc.collect()
    gc.freeze()
