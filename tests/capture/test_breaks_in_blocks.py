"""A graph break inside a `with` block: what was captured before the block stays, whatever its manager is."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framelift
from support import check


@contextlib.contextmanager
def _made_by_a_generator() -> Iterator[None]:
    with torch.no_grad():
        yield


class _Counts:
    entered = 0

    def __enter__(self) -> _Counts:
        self.entered += 1
        return self

    def __exit__(self, *error: object) -> None:
        self.entered -= 1


#: managers, and the least number of graphs: 1 is the part before the block, 2 the block's two halves as well
MANAGERS: dict[str, tuple[Callable[[], Any], int]] = {
    "no_grad": (torch.no_grad, 2),
    "autocast": (lambda: torch.autocast("cpu", dtype=torch.bfloat16), 2),
    "record_function": (lambda: torch.profiler.record_function("part"), 2),
    "error_on_graph_break": (lambda: torch._dynamo.error_on_graph_break(False), 2),
    "patch_dynamo_config": (lambda: torch._dynamo.patch_dynamo_config(verbose=True), 1),
    "without subclasses": (torch._C.DisableTorchFunctionSubclass, 1),
    "without torch functions": (torch._C.DisableTorchFunction, 1),
    "save_on_cpu": (torch.autograd.graph.save_on_cpu, 1),
    "saved_tensors_hooks": (lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t), 1),
    "flags": (lambda: torch.backends.cudnn.flags(enabled=False), 2),
    "sdpa_kernel": (lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH), 2),
    "inference_mode": (torch.inference_mode, 2),
    "lock": (threading.Lock, 1),
    "file": (io.StringIO, 1),
    "redirect_stdout": (lambda: contextlib.redirect_stdout(io.StringIO()), 1),
    "closing": (lambda: contextlib.closing(io.StringIO()), 1),
    "ExitStack": (contextlib.ExitStack, 2),
    "suppress": (lambda: contextlib.suppress(ValueError), 2),
    "generator": (_made_by_a_generator, 2),
    "class": (_Counts, 2),
}


def _one(make: Callable[[], Any], x: Any) -> Any:
    y = x + 1
    with make():
        z = y * 2
        framelift.graph_break()
        z = z.sin()
    return z + y


def _two(make: Callable[[], Any], x: Any) -> Any:
    y = x + 1
    with make(), _Counts() as counts:
        z = y * 2
        with make():
            framelift.graph_break()
            z = z.sin() + counts.entered
    return z + y


def _loop(make: Callable[[], Any], x: Any) -> Any:
    y = x + 1
    for i in range(3):
        y = y * 2
        with make():
            y = y + i
            framelift.graph_break()
    return y.sin()


def _left_by_an_exception(make: Callable[[], Any], x: Any) -> Any:
    y = x + 1
    try:
        with make():
            y = y * 2
            framelift.graph_break()
            y = y.sin()
            raise KeyError(1)
    except KeyError as error:
        y = y + error.args[0]
    return y.cos()


@pytest.mark.parametrize("name", MANAGERS)
@pytest.mark.parametrize("program", [_one, _two, _loop, _left_by_an_exception])
def test_break_inside(program: Any, name: str) -> None:
    make, least = MANAGERS[name]
    framelift.reset()
    before = framelift.stats()["graphs"]
    check(lambda x: program(make, x), torch.ones(3), graphs=None, breaks=None)
    assert framelift.stats()["graphs"] - before >= least


def _of_itself() -> Iterator[int]:
    yield 1
    raise AssertionError("not run")


def _values(x: Any, *more: Any, scale: Any = 2, **named: Any) -> Iterator[Any]:
    for each in (x, *more, *named.values()):
        yield each * scale


@pytest.mark.parametrize(
    "program",
    [
        lambda x: _values(x + 1),
        lambda x: _values(x.sin(), x, scale=x + 1, last=x.cos()),
        lambda x: (y * i for y in [x + 1, x + 2] for i in range(3)),
        lambda x: [y for y in (x + 1,)] and (x + i for i in range(2)),
        lambda x: (_values(x + 1), x.sin()),
        lambda x: map(lambda y: y.sin(), _values(x + 1)),
    ],
)
def test_generators_that_have_not_begun_are_results(program: Any) -> None:
    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    x = torch.arange(3.0)
    for _ in range(2):
        expected, found = program(x), compiled(x)
        if type(expected) is tuple:
            (expected, one), (found, other) = expected, found
            assert torch.equal(one, other)
        assert type(expected) is type(found) and repr(expected).partition(" at ")[0] == repr(found).partition(" at ")[0]
        if hasattr(found, "gi_code"):
            assert found.gi_code is expected.gi_code
        for one, other in zip(expected, found, strict=True):
            assert torch.equal(one, other)
    assert len(compiled.entries) == 1


def test_generators_behind_a_break() -> None:
    """They share variables with the frame, which writes to them before they begin."""

    def shared(x: Any) -> Any:
        scale = 1

        def values(y: Any) -> Iterator[Any]:
            nonlocal scale
            for i in range(2):
                scale += i
                yield y * scale

        made = values(x + 1)
        framelift.graph_break()
        scale = 5
        return [*made, scale, _of_itself().__name__]

    check(shared, torch.ones(2), graphs=None, breaks=None)
