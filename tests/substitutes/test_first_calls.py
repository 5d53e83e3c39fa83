"""What a function under `functools.lru_cache` does in its first call alone: warn, print, ask for the time.

The call runs eagerly, once, with all it calls; the next one is captured whole.
"""

from __future__ import annotations

import functools
import io
import logging
import time
import warnings
from typing import Any

import pytest
import torch

import framelift
from framelift.exc import Unsupported

OUT = io.StringIO()
BOX: list[int] = []
LOGGER = logging.getLogger("framelift.tests.first_calls")
LOGGER.propagate = False
WEIGHT = torch.nn.Parameter(torch.ones(3))


class _Keeping(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        OUT.write(record.getMessage())


LOGGER.addHandler(_Keeping())


def _functions(limit: int | None) -> dict[str, Any]:
    cached = functools.lru_cache(limit)

    @cached
    def log_once(logger: Any, text: str) -> None:
        logger.warning(text)

    @cached
    def print_once(text: str) -> None:
        print(text, file=OUT)

    @cached
    def warn_once(text: str) -> None:
        warnings.warn(text, stacklevel=2)

    @cached
    def started(name: str) -> float:
        return time.time()

    @cached
    def length(name: str) -> int:
        return len(BOX)

    def logs(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        log_once(LOGGER, "logged")
        return y.cos()

    def prints(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        print_once("printed")
        return y.cos()

    def warns(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        warn_once("warned")
        return y.cos()

    def asks_the_time(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + (started("run") > 0)

    def changes_something(x: torch.Tensor) -> torch.Tensor:
        BOX.append(1)
        y = x * length("box")
        BOX.pop()
        return y

    def below(x: torch.Tensor) -> torch.Tensor:
        return prints(x) + prints(x)

    return {one.__name__: one for one in (logs, prints, warns, asks_the_time, changes_something, below)}


NAMES = tuple(_functions(None))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("limit", [None, 8])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_second_call_is_one_graph(name: str, limit: int | None, backend: str) -> None:
    def run(function: Any) -> list[Any]:
        OUT.seek(0)
        OUT.truncate()
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            results = [function(torch.full((3,), float(i))).tolist() for i in range(4)]
        return [results, OUT.getvalue(), [str(one.message) for one in heard], BOX]

    want = run(_functions(limit)[name])
    framelift.reset()
    compiled = framelift.compile(_functions(limit)[name], backend=backend)
    assert run(compiled) == want
    stats = framelift.stats()
    assert (stats["graphs"], stats["breaks"], stats["recompiles"]) == (1, {}, [])
    ran = "1 call ran eagerly, a cached function had no answer yet" in str(compiled.report())
    assert ran is (name != "changes_something")


@pytest.mark.parametrize("wrapped", [False, True])
def test_modules(wrapped: bool) -> None:
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(3, 3)
            self.prints = _functions(None)["prints"]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.prints(self.inner(x))

    framelift.reset()
    module: Any = Module()
    with torch.no_grad():
        expected = module.inner(torch.ones(3)).sin().cos()
        if wrapped:
            module = framelift.compile(module, backend="eager")
        else:
            module.forward = framelift.compile(module.forward, backend="eager")
        for _ in range(4):
            assert torch.equal(module(torch.ones(3)), expected)
    assert framelift.stats()["graphs"] == 1 and not framelift.stats()["breaks"]


def test_what_is_done_at_every_call_breaks() -> None:
    """The cache keeps nothing of a function that raises, or where it has no room."""

    @functools.lru_cache
    def raises(text: str) -> None:
        print(text, file=OUT)
        raise ValueError(text)

    @functools.lru_cache(0)
    def keeps_nothing(text: str) -> None:
        print(text, file=OUT)

    def program(x: torch.Tensor) -> torch.Tensor:
        try:
            raises("a")
        except ValueError:
            x = x + 1
        keeps_nothing("b")
        return x * 2

    framelift.reset()
    compiled = framelift.compile(program, backend="eager")
    for _ in range(4):
        assert compiled(torch.ones(3)).tolist() == [4, 4, 4]
    captures = framelift.stats()["captures"]
    compiled(torch.ones(3))
    assert framelift.stats()["captures"] == captures and framelift.stats()["breaks"]


def test_part_of_a_frame_behind_a_break() -> None:
    prints = _functions(None)["prints"]

    def program(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        framelift.graph_break()
        return prints(x) * 2

    framelift.reset()
    compiled = framelift.compile(program, backend="eager")
    for _ in range(4):
        assert torch.equal(compiled(torch.ones(3)), program(torch.ones(3)))
    assert framelift.stats()["graphs"] == 2


def test_compiled_callables_inside_of_such_a_call_are_compiled() -> None:
    prints, inner = _functions(None)["prints"], framelift.compile(lambda x: x * 3, backend="eager")

    def program(x: torch.Tensor) -> torch.Tensor:
        return inner(prints(x))

    framelift.reset()
    framelift.compile(program, backend="eager")(torch.ones(3))
    assert framelift.stats()["graphs"] == 1


def test_one_graph_is_asked_for() -> None:
    with pytest.raises(Unsupported, match="print"):
        framelift.compile(_functions(None)["prints"], backend="eager", fullgraph=True)(torch.ones(3))


def test_explain_shows_what_one_call_shows() -> None:
    assert framelift.explain(_functions(None)["prints"])(torch.ones(3)).graph_count == 2
    assert framelift.dry_run(_functions(None)["prints"], torch.ones(3)).breaks
