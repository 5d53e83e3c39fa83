"""Dtypes that kernels refuse and torch's meta functions take.

The error comes, and what the program did before stays.
"""

from __future__ import annotations

import operator

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from support import compiled

BOOL, INT, FLOAT, COMPLEX = (
    torch.ones(2, 2).to(dtype) for dtype in (torch.bool, torch.int64, torch.float32, torch.complex64)
)
REFUSED = {
    "a mask minus numbers": (operator.sub, BOOL, FLOAT),
    "numbers minus a mask": (torch.sub, INT, BOOL),
    "a method": (torch.Tensor.subtract, BOOL, FLOAT),
    "rounding a mask": (torch.floor, BOOL),
    "shifting a mask": (operator.lshift, BOOL, BOOL),
    "bits of fractions": (operator.and_, FLOAT, INT),
    "an order of complex numbers": (operator.lt, COMPLEX, FLOAT),
    "the largest complex number": (torch.amax, COMPLEX),
    "the spread of integers": (torch.std, INT),
    "the median of a mask": (torch.median, BOOL),
    "a rest of masks": (torch.fmod, BOOL, BOOL),
    "in place": (lambda a, b: a.clone().sub_(b), BOOL, BOOL),
}


@pytest.mark.parametrize("is_used", [True, False], ids=["used", "unused"])
@pytest.mark.parametrize("name", REFUSED)
def test_the_error_comes_after_what_was_done_before(name: str, is_used: bool) -> None:
    function, *args = REFUSED[name]
    log: list[str] = []

    def program(x: torch.Tensor, *args: torch.Tensor) -> object:
        x.add_(1)
        log.append("before")
        result = function(*args)
        log.append("behind")
        return result if is_used else x

    def outcome(call: object) -> tuple[object, ...]:
        log.clear()
        x = torch.ones(2)
        with pytest.raises(Exception) as raised:
            call(x, *args)
        return type(raised.value), str(raised.value), tuple(log), x.tolist()

    captured = compiled(program)
    assert outcome(program) == outcome(captured) == outcome(captured)


def test_what_kernels_take_is_captured_and_draws_nothing() -> None:
    def program(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return a // b, a[b], torch.where(a > 1, a, b), (a == b) & (b > 0), a.cumsum(0), a.double() / b

    a, b = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 1])
    state = torch.get_rng_state()
    got = compiled(program, fullgraph=True)(a, b)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(one, other) for one, other in zip(got, program(a, b), strict=True))


class Dispatched(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        SEEN.append(str(func))
        return func(*args, **(kwargs or {}))


class Called(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        SEEN.append(func.__name__)
        return func(*args, **(kwargs or {}))


SEEN: list[str] = []


@pytest.mark.parametrize("mode", [Dispatched, Called])
def test_modes_do_not_see_that_a_kernel_is_tried(mode: type) -> None:
    def program(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return a // b, a < b, (a > 0) & (b > 0), a.cumsum(0), a * 2.5

    args, seen = (torch.tensor([4, 5]), torch.tensor([2, 3])), []
    for call in (program, compiled(program)):
        SEEN.clear()
        with mode():
            call(*args)
        seen.append(list(SEEN))
    assert seen[0] == seen[1] and len(seen[0]) == 7


def test_what_fakes_do_not_write_is_written() -> None:
    """`matrix_rank` and its like give tensors of a dispatch mode back as they are."""

    def f(x, out):
        return torch.linalg.matrix_rank(x, out=out) is out, out + 1

    captured = compiled(f)
    for _ in range(2):
        outs = [torch.zeros(2, dtype=torch.int64) for _ in range(2)]
        same, ranks = captured(torch.eye(3).expand(2, 3, 3), outs[0])
        assert same and f(torch.eye(3).expand(2, 3, 3), outs[1])[0]
        assert torch.equal(ranks, outs[0] + 1) and torch.equal(*outs) and outs[0]._version == outs[1]._version


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_given_is_given_back(kind: type) -> None:
    def f(tensors):
        made = torch._foreach_add_(tensors, 1)
        return made is tensors, made

    given, other = [kind([torch.zeros(2), torch.ones(3)]) for _ in range(2)]
    captured = compiled(f)
    for _ in range(2):
        (same, made), (wanted, _) = captured(given), f(other)
        assert same == wanted and (made is given) == same
        assert all(map(torch.equal, given, other))
