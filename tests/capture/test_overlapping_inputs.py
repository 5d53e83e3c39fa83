"""Inputs that share memory, one of them written to: wherever they lie, the compiled function does as plain Python.

A product of kinds of pairs, writes, modes and backends; each function is called several times, with pairs at other
places of memory made anew.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
import pytest
import torch

import framelift
from framelift.capture.around.overlapping_inputs import MOST_LAYOUTS
from support import counts

Pair = tuple[torch.Tensor, torch.Tensor]
#: kind -> pairs of tensors for the calls of one function: (written, read), made with random numbers
PAIRS: dict[str, Callable[[random.Random], Iterator[Pair]]] = {}
#: name -> what is done to the first of a pair, and perhaps to the second
WRITES: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "add_": lambda v, w: v.add_(1),
    "twice": lambda v, w: v.mul_(2).add_(1),
    "out": lambda v, w: torch.add(v, 3, out=v),
    "setitem": lambda v, w: v.__setitem__(0, 5),
    "both": lambda v, w: (v.add_(1), w.mul_(2)),
    "second": lambda v, w: w.add_(1),
    "a view of it": lambda v, w: v[1:].zero_(),
    "detached": lambda v, w: v.detach().add_(2),
    "by the other": lambda v, w: v.add_(w.sum().to(v.dtype)),
}
CALLS = 7


def pairs(function: Callable[[random.Random], Iterator[Pair]]) -> Any:
    """Register a kind."""
    PAIRS[function.__name__] = function
    return function


def _numbers(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.arange(1, count + 1).to(dtype)


@pairs
def slice_and_whole(rng: random.Random) -> Iterator[Pair]:
    base = _numbers(9)
    while True:
        start = rng.randrange(7)
        yield base[start : start + 2], base


@pairs
def two_slices(rng: random.Random) -> Iterator[Pair]:
    base = _numbers(9)
    while True:
        first, second = rng.randrange(6), rng.randrange(6)
        yield base[first : first + 3], base[second : second + 3]


@pairs
def slices_of_new_bases(rng: random.Random) -> Iterator[Pair]:
    while True:
        size = rng.randrange(5, 9)
        base, first, second = _numbers(size), rng.randrange(size - 2), rng.randrange(size - 2)
        yield base[first : first + 3], base[second : second + 3]


@pairs
def rows_and_columns(rng: random.Random) -> Iterator[Pair]:
    base = _numbers(16).view(4, 4)
    while True:
        yield base[rng.randrange(4)], base[:, rng.randrange(4)]


@pairs
def columns(rng: random.Random) -> Iterator[Pair]:
    base = _numbers(24).view(4, 6)
    while True:
        first, second = rng.randrange(5), rng.randrange(5)
        yield base[:, first : first + 2], base[:, second : second + 2]


@pairs
def transposed(rng: random.Random) -> Iterator[Pair]:
    base = _numbers(27).view(3, 3, 3)
    while True:
        yield base[rng.randrange(3)], base[rng.randrange(3)].t()


@pairs
def steps(rng: random.Random) -> Iterator[Pair]:
    base = _numbers(12)
    while True:
        first, second = rng.randrange(3), rng.randrange(3)
        yield base[first : first + 8 : 2], base[second : second + 4]


@pairs
def views_of_views(rng: random.Random) -> Iterator[Pair]:
    base = _numbers(16)
    while True:
        inner = base.view(4, 4)[rng.randrange(2) :]
        yield inner[rng.randrange(2)], inner.t()[rng.randrange(4)][:2].view(2, 1)


@pairs
def another_type(rng: random.Random) -> Iterator[Pair]:
    base = _numbers(9)
    whole = base.view(torch.int32)
    while True:
        first, second = rng.randrange(6), rng.randrange(6)
        yield base[first : first + 3], whole[second : second + 3]


@pairs
def a_smaller_type(rng: random.Random) -> Iterator[Pair]:
    base = _numbers(8, torch.int64)
    while True:
        first, second = rng.randrange(6), rng.randrange(12)
        yield base[first : first + 2], base.view(torch.int32)[second : second + 3]


@pairs
def parts_of_complex(rng: random.Random) -> Iterator[Pair]:
    base = _numbers(8, torch.complex64)
    while True:
        first, second = rng.randrange(6), rng.randrange(6)
        yield base[first : first + 2], torch.view_as_real(base)[second : second + 2]


@pairs
def conjugated(rng: random.Random) -> Iterator[Pair]:
    base = _numbers(8, torch.complex64) * (1 + 2j)
    while True:
        first, second = rng.randrange(6), rng.randrange(6)
        both = base[first : first + 2], base.conj()[second : second + 2]
        yield both if rng.randrange(2) else both[::-1]


@pairs
def negated(rng: random.Random) -> Iterator[Pair]:
    base = _numbers(8, torch.complex64) * (1 + 2j)
    while True:
        first, second = rng.randrange(6), rng.randrange(6)
        yield base.imag[first : first + 2], base.conj().imag[second : second + 2]


@pairs
def strided(rng: random.Random) -> Iterator[Pair]:
    base = _numbers(16)
    while True:
        yield base.as_strided((2, 2), (2, 1), rng.randrange(8)), base.as_strided((2, 2), (4, 1), rng.randrange(8))


@pairs
def expanded(rng: random.Random) -> Iterator[Pair]:
    base = _numbers(6)
    while True:
        start = rng.randrange(4)
        yield base[start : start + 2], base[rng.randrange(6)].expand(2)


@pairs
def other_bases(rng: random.Random) -> Iterator[Pair]:
    base = _numbers(9)
    while True:
        first, second = rng.randrange(6), rng.randrange(6)
        yield base.detach()[first : first + 3], base.data[second : second + 3]


@pairs
def arrays(rng: random.Random) -> Iterator[Pair]:
    base = numpy.arange(9, dtype=numpy.float32)
    while True:
        first, second = rng.randrange(6), rng.randrange(6)
        yield torch.from_numpy(base[first : first + 3]), torch.from_numpy(base[second : second + 3])


@pairs
def an_array_of_a_tensor(rng: random.Random) -> Iterator[Pair]:
    base = _numbers(9)
    while True:
        first, second = rng.randrange(6), rng.randrange(6)
        yield base[first : first + 3], torch.from_numpy(base.numpy()[second : second + 3])


@pairs
def of_one_storage(rng: random.Random) -> Iterator[Pair]:
    storage = _numbers(9).untyped_storage()
    while True:
        yield (
            torch.empty(0).set_(storage, rng.randrange(6), (3,)),  # type: ignore[call-overload]
            torch.empty(0).set_(storage, rng.randrange(6), (3,)),  # type: ignore[call-overload]
        )


@pairs
def memory_of_processes(rng: random.Random) -> Iterator[Pair]:
    base = _numbers(9).share_memory_()
    while True:
        first, second = rng.randrange(6), rng.randrange(6)
        yield base[first : first + 3], base[second : second + 3]


@pairs
def now_shared_now_apart(rng: random.Random) -> Iterator[Pair]:
    base = _numbers(9)
    while True:
        start = rng.randrange(6)
        yield base[start : start + 3], base[2:5] if rng.randrange(2) else base[2:5].clone()


MODES: dict[str, Callable[[], Any]] = {
    "plain": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
}


def outcome(make: Callable[..., Any], kind: str, write: str, mode: str, seed: int) -> list[Any]:
    """What all calls give and leave behind."""
    change = WRITES[write]

    def f(v: torch.Tensor, w: torch.Tensor) -> Any:
        before = w + v.real.sum().to(w.dtype)
        change(v, w)
        return before, w * 2, v + 1, v.sum()

    rng, found = random.Random(seed), []
    with MODES[mode]():
        compiled = make(f)
        memory: list[torch.Tensor] = []
        for _, (v, w) in zip(range(CALLS), PAIRS[kind](rng)):
            try:
                result: Any = [one.clone() for one in compiled(v, w)]
            except Exception as error:
                result = f"{type(error).__name__}"
            versions = None if v.is_inference() else (v._version, w._version)
            found.append((result, v.clone(), w.clone(), versions, v.storage_offset(), w.storage_offset()))
            memory += [v, w]
        found.append([one.clone() for one in memory])
    return found


def same(one: Any, other: Any) -> bool:
    """Whether two nested lists hold equal values, and equal tensors."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and bool(torch.equal(one, other))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def compare(kind: str, write: str, mode: str, backend: str, seed: int) -> None:
    expected = outcome(lambda f: f, kind, write, mode, seed)
    found = outcome(lambda f: framelift.compile(f, backend=backend), kind, write, mode, seed)
    for call, (one, other) in enumerate(zip(expected, found)):
        assert same(one, other), f"call {call}: {other}, plain Python: {one}"


def _seed(kind: str, write: str) -> int:
    return sorted(PAIRS).index(kind) * 100 + sorted(WRITES).index(write)


@pytest.mark.parametrize("kind", PAIRS)
def test_pairs(kind: str) -> None:
    write = sorted(WRITES)[sorted(PAIRS).index(kind) % len(WRITES)]
    compare(kind, write, sorted(MODES)[_seed(kind, write) % len(MODES)], "aot_eager", _seed(kind, write))


@pytest.mark.parametrize("write", WRITES)
def test_writes(write: str) -> None:
    compare("two_slices", write, "plain", "aot_eager", _seed("two_slices", write))


@pytest.mark.parametrize("kind", ["slice_and_whole", "arrays", "columns"])
def test_graphs_that_run_as_recorded(kind: str) -> None:
    compare(kind, "both", "plain", "eager", _seed(kind, "both"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("mode", MODES)
def test_all_pairs_and_writes(kind: str, backend: str, mode: str) -> None:
    for write in WRITES:
        compare(kind, write, mode, backend, _seed(kind, write) + 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PAIRS)
def test_pairs_with_inductor(kind: str) -> None:
    write = sorted(WRITES)[(sorted(PAIRS).index(kind) + 1) % len(WRITES)]
    compare(kind, write, sorted(MODES)[_seed(kind, write) % len(MODES)], "inductor", _seed(kind, write) + 2)


def test_slices_of_one_buffer_are_written_where_they_lie() -> None:
    buffer = torch.zeros(6)
    f = framelift.compile(lambda v: (v.add_(1), buffer * 2)[1], backend="aot_eager")
    for start in (0, 2, 4):
        f(buffer[start : start + 2])
    assert buffer.tolist() == [1] * 6


class Cache(torch.nn.Module):
    """A buffer, and a view of a part of it."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self.register_buffer("buffer", torch.zeros(6))
        self.part = self.buffer[start : start + 2]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.part.add_(x)
        return self.buffer * 2


def test_an_equal_graph_for_other_places_is_another_one() -> None:
    for start in (0, 2, 4):
        expected = torch.zeros(6)
        expected[start : start + 2] = 2
        assert torch.equal(framelift.compile(Cache(start), backend="aot_eager")(torch.ones(2)), expected)


def captures_of(f: Callable[..., Any], calls: Sequence[tuple[Any, ...]], backend: str = "aot_eager") -> int:
    """How many captures the calls need."""
    before, compiled = counts(), framelift.compile(f, backend=backend)
    for args in calls:
        compiled(*args)
    return counts().captures - before.captures


def test_what_is_only_read_may_lie_anywhere() -> None:
    data, total = torch.arange(20.0), torch.zeros(2)

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total.add_(x)
        return x * y

    calls = [(data[i : i + 2], data[j : j + 2]) for i, j in ((0, 4), (2, 3), (5, 5), (7, 1), (9, 8))]
    assert captures_of(f, [*calls, (torch.ones(2), torch.ones(2))]) == 1
    assert total.tolist() == [24, 29]


def test_what_does_not_overlap_may_lie_anywhere() -> None:
    data = torch.zeros(20)

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.add_(1) * y

    assert captures_of(f, [(data[i : i + 2], data[j : j + 2]) for i, j in ((0, 4), (2, 9), (5, 0), (7, 1))]) == 1
    assert data.tolist() == [1] * 4 + [0, 1, 1, 1, 1] + [0] * 11


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_captures_for_ever_new_places_come_to_an_end(backend: str) -> None:
    data = torch.zeros(40)

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.add_(1) * y

    calls = [(data[i : i + 3], data[2 * i : 2 * i + 3]) for i in range(3)] * 2
    calls += [(data[i : i + 4][:3], data[i + 1 : i + 4]) for i in range(20)]
    most = 1 if backend == "eager" else MOST_LAYOUTS + 1
    assert captures_of(f, calls, backend) == most
    expected = torch.zeros(40)
    for x, _ in calls:
        expected[x.storage_offset() : x.storage_offset() + 3] += 1
    assert torch.equal(data, expected)


def test_an_overlap_that_no_compiler_sees_needs_one_capture(caplog: pytest.LogCaptureFixture) -> None:
    array = numpy.zeros(8, dtype=numpy.float32)

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.add_(1) * y

    calls = [(torch.from_numpy(array[i : i + 3]), torch.from_numpy(array[i + 1 : i + 4])) for i in range(5)]
    assert captures_of(f, calls) == 1
    assert "overlap in memory, where compilers do not see it" in caplog.text
    assert array.tolist() == [1, 2, 3, 3, 3, 2, 1, 0]


def test_arrays_of_numpy_as_arguments() -> None:
    def f(x: Any, y: Any) -> Any:
        x += 1
        return y * 2

    for make in (lambda f: f, lambda f: framelift.compile(f, backend="aot_eager")):
        array, run = numpy.zeros(8, dtype=numpy.float32), make(f)
        found = [run(array[i : i + 3], array[j : j + 3]).tolist() for i, j in ((4, 0), (0, 1), (0, 2), (2, 2))]
        assert found == [[0, 0, 0], [2, 2, 0], [4, 0, 2], [6, 2, 4]]


def test_another_size_of_the_base() -> None:
    f = framelift.compile(lambda whole, part: (part.add_(1), whole * 2)[1], backend="aot_eager")
    for size in (8, 6, 10, 5):
        whole = torch.zeros(size)
        assert f(whole[2:4], whole[3:5]).tolist() == [0, 2]
        assert whole.sum() == 2


def test_parameters_in_one_buffer() -> None:
    """Steps of training: gradients and parameters are views of buffers, the step writes to the whole buffer."""

    def run(make: Callable[..., Any]) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
        sizes = [one.numel() for one in model.parameters()]
        flat, grads = torch.cat([one.detach().reshape(-1) for one in model.parameters()]), torch.zeros(sum(sizes))
        parts = zip(model.parameters(), flat.split(sizes), grads.split(sizes))
        for one, part, grad in parts:
            one.data, one.grad = part.view_as(one), grad.view_as(one)

        @make
        def forward(x: torch.Tensor) -> torch.Tensor:
            return model(x).square().mean() + flat.sum() * 0

        @make
        def step() -> None:
            with torch.no_grad():
                flat.sub_(grads, alpha=0.1)
                grads.zero_()
                for one in model.parameters():
                    one.mul_(0.9)

        losses = []
        for _ in range(2):
            loss = forward(torch.ones(5, 3))
            loss.backward()
            step()
            losses.append(loss.detach())
        return [*losses, flat]

    found = run(lambda f: framelift.compile(f, backend="aot_eager"))
    assert all(map(torch.allclose, found, run(lambda f: f)))


def test_training_through_views() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return y * 3

    def run(make: Callable[..., Any]) -> list[Any]:
        found, g = [], make(f)
        for i, j in ((4, 0), (0, 1), (0, 2), (2, 5), (1, 1)):
            leaf = torch.arange(8.0).requires_grad_()
            base = leaf * 1
            result = g(base[i : i + 3], base[j : j + 3])
            (result.sum() + base.sum()).backward()
            found.append((result.detach(), leaf.grad, base.detach()))
        return found

    assert same(run(lambda f: f), run(lambda f: framelift.compile(f, backend="aot_eager")))


PROGRAM = """
import sys
import torch
import framelift

def f(part, whole):
    part.add_(1)
    return whole * 2

whole = torch.zeros(8)
part = whole[int(sys.argv[1]) :][:2] if sys.argv[1] != "apart" else torch.zeros(2)
print(framelift.compile(f, backend=sys.argv[2])(part, whole).tolist())
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_captures_on_disk(backend: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    places = {name: str(tmp_path / name) for name in ("FRAMELIFT_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")}
    for start in ("0", "3", "apart", "3", "6"):
        expected = torch.zeros(8)
        if start != "apart":
            expected[int(start) : int(start) + 2] = 2
        command = [sys.executable, "program.py", start, backend]
        surroundings = os.environ | places
        done = subprocess.run(command, cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == str(expected.tolist()), done.stderr
