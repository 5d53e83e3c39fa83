"""Numpy's own answer for a call, found by running it on arrays of the same kinds and sizes with arbitrary values.

torch's implementation of numpy has rules of its own for kinds (an int divided by an int is of torch's default
kind) and for when a result without dimensions is a scalar.  Where numpy's answer is of another kind, the call is
not captured.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from ..._core import is_a
from ...boundary.becomes.arrays import Array, Scalar, array_over, numpy, tensor_of, tnp
from ...boundary.world import World
from ...graph.symbols.numbers import NUMBERS
from ...graph.symbols.numpy_numbers import NumpyNumber
from ...guards.checks import check
from ...torch_ports.modes import DisableTorchFunction
from ...vocabulary.class_reads import name_of
from ...vocabulary.origins import const
from ...vocabulary.quiet_capture import quietly
from ...vocabulary.reasons import Interrupt

_MOST = 1 << 22  # elements of an array that is worth making


class Differs(Exception):
    """numpy gives something else."""


def ask(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """numpy's result for arguments like these.  Raises what numpy raises."""
    with numpy.errstate(all="ignore"), quietly():
        return call(*map(_alike, args), **{name: _alike(value) for name, value in kwargs.items()})


def _alike(value: Any) -> Any:
    kind = type(value)
    if kind in (list, tuple):
        return kind([_alike(item) for item in value])
    if kind in NUMBERS or kind is NumpyNumber:
        return value.hint
    if kind is Scalar:
        return _dtype(tensor_of(value)).type(1)
    if kind is Array or is_a(value, torch.Tensor):
        tensor = tensor_of(value) if kind is Array else value
        with DisableTorchFunction():
            size, dtype = tuple(map(int, tensor.size())), _dtype(tensor)
        if math.prod(size) > _MOST:
            raise Differs("an array of that size is not made to ask numpy")
        if dtype.kind not in "fc":
            return numpy.zeros(size, dtype)
        # no matrix of these is singular
        return (numpy.random.Generator(numpy.random.PCG64(0)).random(size) + 0.5).astype(dtype)
    return value


def _dtype(tensor: torch.Tensor) -> Any:
    return numpy.dtype(str(tensor.dtype).removeprefix("torch."))


def shown(value: Any, expected: Any, sizes: Callable[[Any], Any], given: Collection[int] = ()) -> Any:
    """A result as captured code sees it, where numpy expects it.  `sizes` gives a tensor's sizes, as the recorder knows
    them; `given` are the ids of the tensors of the arguments.
    """
    kind = type(value)
    if kind is tnp.ndarray:
        if not is_a(expected, (numpy.ndarray, numpy.generic)) or _dtype(tensor_of(value)) != expected.dtype:
            raise Differs(f"numpy gives {getattr(expected, 'dtype', name_of(type(expected)))}")
        with DisableTorchFunction():
            size = tuple(map(int, tensor_of(value).size()))
        decided = map(free_unbacked_symbols, sizes(tensor_of(value)))  # by values
        if len(size) != expected.ndim or any(
            not open and length != other for open, length, other in zip(decided, size, expected.shape)
        ):
            raise Differs(f"numpy gives a shape of {expected.shape}")
        if not is_a(expected, numpy.ndarray):
            return array_over(tensor_of(value), Scalar)
        return array_over(tensor_of(value), owns=expected.flags.owndata and id(tensor_of(value)) not in given)
    if kind in (list, tuple) or issubclass(kind, tuple):
        if not is_a(expected, (list, tuple)) or len(expected) != len(value):
            raise Differs(f"numpy gives {name_of(type(expected))}")
        items = [shown(item, one, sizes, given) for item, one in zip(value, expected)]
        return type(expected)(items) if type(expected) in (list, tuple) else type(expected)(*items)
    if kind is type(tnp.dtype("float32")):
        return numpy.dtype(value.name)
    if kind in NUMBERS or type(expected) is kind:
        return value
    raise Differs(f"numpy gives {name_of(type(expected))}")


# ---- Floating-point errors of numpy: a graph knows nothing of them, so none may raise or call the program ----


_geterr: Callable[[], dict[str, str]] | None = getattr(numpy, "geterr", None)
_MILD = frozenset(("ignore", "warn"))


@check
def _warns_at_most(_numpy: Any) -> bool:
    assert _geterr is not None
    kinds = set(_geterr().values())
    if not kinds <= _MILD:
        return False
    return "warn" not in kinds or not any(
        action == "error" and issubclass(RuntimeWarning, category) for action, _, category, *_ in warnings.filters
    )


def note_errors(world: World, name: str) -> None:
    """One of numpy's functions is captured: a floating-point error in it is at most a warning."""
    if not _warns_at_most(numpy):
        raise Interrupt("unknown-callable", f"numpy.{name} (a floating-point error in it may raise or call something)")
    world.guard(const(numpy), "CHECK", (_warns_at_most, "warns of floating-point errors at most"), "errors")


def without_errors(world: World, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call one of numpy's functions on plain values; where it would warn, it does so at each call."""
    note_errors(world, name)
    try:
        with numpy.errstate(divide="raise", over="raise", invalid="raise"):
            return function(*args, **kwargs)
    except FloatingPointError as error:
        raise Interrupt("unknown-callable", f"numpy.{name} ({error})") from None
