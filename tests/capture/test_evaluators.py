"""Other users of the interpreter's frame evaluator (PEP 523), TorchDynamo and debuggers, come and go in any order and
in any thread.
"""

from __future__ import annotations

import importlib.util
import itertools
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift

FACTOR = 2
CALLS = [0]


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> Any:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    made = tmp_path_factory.mktemp("native") / f"evaluator{sysconfig.get_config_var('EXT_SUFFIX')}"
    source = Path(__file__).parent / "native" / "evaluator.c"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", f"-I{sysconfig.get_path('include')}", str(source), "-o", str(made)],
        check=True,
    )
    spec = importlib.util.spec_from_file_location("evaluator", made)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def own_evaluator(evaluator: Any) -> Iterator[None]:
    evaluator.clear()
    yield
    evaluator.clear()


def inner(i: int) -> int:
    return FACTOR


class Step:
    def __radd__(self, other: int) -> int:  # started by C code: no probe is between the instruction and this frame
        CALLS[0] += 1
        return other + FACTOR


STEP = Step()


def by_calls(x: torch.Tensor, n: int) -> torch.Tensor:
    total = 0
    for i in range(n):
        total += inner(i)
    return x * total


def by_special_methods(x: torch.Tensor, n: int) -> torch.Tensor:
    total = 0
    for _ in range(n):
        total = total + STEP
    return x * total


def checked(program: Callable[..., Any], n: int = 20) -> None:
    """Two worlds, each captured and called again."""
    global FACTOR
    compiled = framelift.compile(program, backend="eager", dynamic=False)
    x = torch.ones(2)
    for FACTOR in (2, 3, 2):  # noqa: B007
        for _ in range(2):
            CALLS[0] = 0
            wanted, calls = program(x, n), CALLS[0]
            CALLS[0] = 0
            assert torch.equal(compiled(x, n), wanted)
            assert CALLS[0] == calls


#: what the other does, in words: (i)nstall with a chain, install (o)nly CPython's behind it, (u)ninstall
STEPS = {
    "i": lambda e: e.install(True),
    "o": lambda e: e.install(False),
    "u": lambda e: e.uninstall(),
    "-": lambda e: None,
}


@pytest.mark.parametrize("order", ["".join(p) for p in itertools.product("iou-", repeat=3)])
def test_orders_around_captures(order: str, evaluator: Any) -> None:
    for step in order:
        STEPS[step](evaluator)
        checked(by_special_methods, 5)
    assert framelift._core.hook_users()[0] == 0


@pytest.mark.parametrize("order", ["".join(p) for p in itertools.product("iou", repeat=2)])
@pytest.mark.parametrize("program", [by_calls, by_special_methods])
def test_steps_in_the_midst_of_a_capture(
    order: str, program: Any, evaluator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are taken by framelift's own code here, which is where another thread would run as well."""
    from framelift.boundary import gateway

    steps = iter(order)
    let_in = gateway.let_in

    def stepping(*args: Any, **kwargs: Any) -> Any:
        STEPS[next(steps, "-")](evaluator)
        return let_in(*args, **kwargs)

    for module in [
        m
        for name, m in list(sys.modules.items())
        if name.startswith("framelift") and getattr(m, "let_in", None) is let_in
    ]:
        monkeypatch.setattr(module, "let_in", stepping)
    checked(program, 5)


def test_a_debugger_sees_the_frames_it_would_see(evaluator: Any) -> None:
    def work() -> int:
        return 1

    def shown(x: torch.Tensor) -> torch.Tensor:
        return x + work()

    @torch.compiler.disable
    def left_out(x: torch.Tensor) -> torch.Tensor:
        return shown(x)

    def f(x: torch.Tensor) -> torch.Tensor:
        return left_out(x * 2) + 1

    compiled = framelift.compile(f, backend="eager")
    evaluator.install(True)
    for _ in range(3):
        compiled(torch.ones(2))
    assert evaluator.is_in_front()
    evaluator.names.clear()
    compiled(torch.ones(2))
    seen = dict(evaluator.names)
    assert seen.get("left_out") == 1 and seen.get("shown") == 1 and seen.get("work") == 1


def test_other_threads_frames_are_the_debuggers(evaluator: Any) -> None:
    evaluator.install(True)
    stop, calls = threading.Event(), [0]

    def watched() -> None:
        calls[0] += 1

    def work() -> None:
        while not stop.is_set():
            watched()
            time.sleep(0)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(10):
        checked(by_calls, 200)
    stop.set()
    thread.join()
    assert evaluator.names["watched"] == calls[0] > 0
    assert evaluator.is_in_front()


@pytest.mark.parametrize("program", [by_calls, by_special_methods])
def test_beside_torchdynamo_in_another_thread(program: Any) -> None:
    x = torch.ones(3)
    other = torch.compile(lambda x: x + 1, backend="eager")
    other(x)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            other(x)

    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-4)
    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(6):
            checked(program, 300)
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(before)
        torch._dynamo.reset()


def test_inside_a_function_that_torchdynamo_compiled() -> None:
    inner_function = framelift.compile(lambda x: x * 3, backend="eager")

    def f(x: torch.Tensor) -> torch.Tensor:
        return inner_function(x + 1) + 1

    compiled = torch.compile(f, backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 7.0))
    torch._dynamo.reset()
