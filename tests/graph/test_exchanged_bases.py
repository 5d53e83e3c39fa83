"""Inputs whose base or gradient is unlike them: memory exchanged by `data` and `set_`, views as another dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift

INPUTS: dict[str, Callable[[], torch.Tensor]] = {}


def given(function: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """Register a way to make an input."""
    INPUTS[function.__name__] = function
    return function


def exchanged(base: torch.Tensor, view: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """The view, once its base has other memory."""
    base.data = new
    return view


def with_gradient() -> torch.Tensor:
    leaf = torch.rand(4, requires_grad=True)
    leaf.sum().backward()
    return leaf


@given
def base_of_another_dtype() -> torch.Tensor:
    base = torch.rand(4).double()
    return exchanged(base, base[:], torch.rand(2, 4))


@given
def smaller_base() -> torch.Tensor:
    base = torch.rand(4)
    return exchanged(base, base[1:], torch.rand(1))


@given
def base_within_its_memory() -> torch.Tensor:
    base = torch.rand(8)
    return exchanged(base, base[2:6], base.data[7:])


@given
def base_set() -> torch.Tensor:
    base = torch.rand(8)
    view = base[2:6]
    base.set_(torch.rand(2))
    return view


@given
def base_resized() -> torch.Tensor:
    base = torch.rand(8)
    view = base[2:6]
    base.resize_(2)
    return view


@given
def view_exchanged() -> torch.Tensor:
    view = torch.rand(8)[2:6]
    return exchanged(view, view, torch.rand(2, 2).double())


@given
def pairs_as_complex() -> torch.Tensor:
    return torch.view_as_complex(torch.rand(8).view(4, 2))


@given
def rows_as_doubles() -> torch.Tensor:
    return torch.rand(4, 3).flatten().view(torch.float64)


@given
def part_of_an_imaginary_part() -> torch.Tensor:
    return torch.randn(4, dtype=torch.complex64).conj().imag[1:]


@given
def result_as_complex() -> torch.Tensor:
    return torch.view_as_complex((torch.rand(4, 2, requires_grad=True) * 1).view(2, 2, 2))


@given
def gradient_of_another_dtype() -> torch.Tensor:
    leaf = with_gradient()
    return exchanged(leaf, leaf, leaf.data.double())


@given
def gradient_of_another_size() -> torch.Tensor:
    leaf = with_gradient()
    return exchanged(leaf, leaf, torch.rand(2))


@given
def gradient_with_an_exchanged_base() -> torch.Tensor:
    leaf, base = torch.rand(4, requires_grad=True), torch.rand(2, 4)
    leaf.grad = base[1]
    return exchanged(base, leaf, torch.rand(3).double())


@given
def view_of_an_exchanged_leaf() -> torch.Tensor:
    leaf = with_gradient()
    return exchanged(leaf, leaf[1:], torch.rand(6))


def reads(w: torch.Tensor) -> Any:
    return w * 2, w.reshape(-1)


def writes(w: torch.Tensor) -> Any:
    w.mul_(2)
    return w + 1


def writes_detached(w: torch.Tensor) -> Any:
    w.detach().mul_(2)
    return w * 3


def outcome(function: Any, make: Callable[[], torch.Tensor], grad: bool) -> Any:
    torch.manual_seed(0)
    w = make()
    try:
        with torch.set_grad_enabled(grad):
            found = function(w)
    except RuntimeError as error:
        return str(error).partition(".")[0][-50:]  # compilers say the same behind words of their own
    results = found if type(found) is tuple else (found,)
    rows = [(one.resolve_conj().resolve_neg().tolist(), one.dtype, one.requires_grad, one.is_leaf) for one in results]
    if w.is_leaf and results[0].requires_grad:
        w.grad = None
        results[0].sum().backward()
        rows.append((None if w.grad is None else w.grad.tolist(), w.dtype, True, True))
    return rows, w.tolist()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("program", [reads, writes, writes_detached])
@pytest.mark.parametrize("make", INPUTS.values(), ids=INPUTS)
def test_as_plain_python(
    make: Callable[[], torch.Tensor], program: Any, grad: bool, backend: str, dynamic: bool | None
) -> None:
    compiled = framelift.compile(program, backend=backend, dynamic=dynamic)
    assert outcome(compiled, make, grad) == outcome(program, make, grad)
