"""Marks on tensors: which sizes change.

They are the attributes that `torch._dynamo.mark_dynamic` and similar functions set, so either spelling is
understood by either side.

>>> import torch, framelift
>>> x = torch.ones(4, 3)
>>> framelift.mark_dynamic(x, 0, min=2, max=64)
>>> f = framelift.compile(lambda x: x * 2, backend="eager")
>>> f(x).shape, f(torch.ones(7, 3)).shape   # one capture serves both
(torch.Size([4, 3]), torch.Size([7, 3]))
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..exc import WrongType, WrongValue
from ..substitutes.marks import forbidden, on_code

if TYPE_CHECKING:
    from ..recording.session import Session


@dataclass(frozen=True)
class _Range:
    """Bounds of a dimension, with the fields that torch gives its own."""

    dim: int
    min: int | None
    max: int | None


def _each(tensor: torch.Tensor, index: int | Iterable[int]) -> list[int]:
    """The dimensions meant, counted from the front."""
    if not isinstance(tensor, torch.Tensor):
        raise WrongType(f"only tensors have dimensions to mark, not {type(tensor).__name__}")
    try:
        dims = [operator.index(dim) for dim in (index if isinstance(index, Iterable) else (index,))]
    except TypeError:
        raise WrongType(f"a dimension is an int, or several are a sequence of ints, not {index!r}") from None
    rank = tensor.dim()
    for dim in dims:
        if not -rank <= dim < rank:
            raise IndexError(f"dimension {dim} is out of range for a tensor of {rank} dimension{'s' * (rank != 1)}")
    return [dim % rank for dim in dims]


def _all(tensor: Any) -> range:
    return range(tensor.dim()) if isinstance(tensor, torch.Tensor) else range(0)


def _check_range(length: int, dim: int, low: int | None, high: int | None) -> None:
    for name, bound in (("min", low), ("max", high)):
        if bound is not None and (not isinstance(bound, int) or bound < 0):
            raise WrongValue(f"{name} is a size, not {bound!r}")
    if low is not None and high is not None and low > high:
        raise WrongValue(f"no size is both at least min={low} and at most max={high}")
    if low is not None and length < low or high is not None and length > high:
        raise WrongValue(
            f"dimension {dim} of this tensor has {length} entries, which is not between min={low} and max={high}"
        )


def _mark(tensor: torch.Tensor, name: str, entries: Iterable[Any]) -> None:
    tensor._has_dynamo_dim_marking = True
    tensor.__dict__.setdefault(name, set()).update(entries)


def _note(tensor: torch.Tensor, name: str, dim: int, value: Any) -> None:
    """A fact of one dimension, under the name that torch has for it."""
    if value is not None:
        tensor.__dict__.setdefault(name, {})[dim] = value


def mark_dynamic(
    tensor: torch.Tensor,
    index: int | Iterable[int],
    *,
    min: int | None = None,
    max: int | None = None,
    hint_override: int | None = None,
    specialize_on: Iterable[Callable[[Any], Any]] | None = None,
) -> None:
    """The size of this dimension changes: captures keep it symbolic, between `min` and `max`.

    A program that makes a constant of it, or that was captured for a part of the range only, is an error that
    names the line (`exc.ConstraintViolation`).  `hint_override` is the size that compilers tune for.  Sizes for
    which one of the conditions `specialize_on` holds have a capture of their own, which relies on it.

    >>> import torch, framelift
    >>> framelift.mark_dynamic(torch.ones(4, 3), 0, min=2, max=64)
    """
    dims = _each(tensor, index)
    for dim in dims:
        _check_range(tensor.size(dim), dim, min, max)
    _mark(tensor, "_dynamo_dynamic_indices", dims)
    _mark(tensor, "_dynamo_dynamic_range", [_Range(dim, min, max) for dim in dims])
    for dim in dims:
        _note(tensor, "_dynamo_hint_overrides", dim, hint_override)
        _note(tensor, "_specialize_on", dim, list(specialize_on) if specialize_on is not None else None)


def maybe_mark_dynamic(tensor: torch.Tensor, index: int | Iterable[int]) -> None:
    """As `mark_dynamic`, but a program may make a constant of it.

    >>> import torch, framelift
    >>> framelift.maybe_mark_dynamic(torch.ones(4, 3), [0, 1])
    """
    _mark(tensor, "_dynamo_weak_dynamic_indices", _each(tensor, index))


def mark_static(tensor: Any, index: int | Iterable[int] | None = None) -> Any:
    """The sizes of these dimensions (all, by default) are constants, however often they change.

    Given a module's class (as a decorator, too), the numbers that its instances hold are constants.

    >>> import torch, framelift
    >>> framelift.mark_static(torch.ones(4, 3), 0)
    """
    if isinstance(tensor, type) and issubclass(tensor, torch.nn.Module):
        tensor._dynamo_marked_static = True  # type: ignore[attr-defined]  # TorchDynamo's own mark
        return tensor
    _mark(tensor, "_dynamo_static_indices", _each(tensor, _all(tensor) if index is None else index))


def mark_unbacked(
    tensor: torch.Tensor,
    index: int | Iterable[int],
    hint_override: int | None = None,
    strict: bool = False,
    specialize_on: Iterable[Callable[[Any], Any]] | None = None,
    shape_id: str | None = None,
    min: int | None = None,
    max: int | None = None,
) -> None:
    """The size of this dimension decides nothing: a program that asks for it has a graph break; 0 and 1 are no special
    cases.  It is between `min` and `max`; dimensions with one `shape_id` have one size.

    >>> import torch, framelift
    >>> framelift.mark_unbacked(torch.ones(4, 3), 0)
    """
    dims = _each(tensor, index)
    _mark(tensor, "_dynamo_strict_unbacked_indices" if strict else "_dynamo_unbacked_indices", dims)
    for dim in dims:
        _note(tensor, "_dynamo_hint_overrides", dim, hint_override)
        _note(tensor, "_specialize_on", dim, list(specialize_on) if specialize_on is not None else None)
        _note(tensor, "_dynamo_shape_ids", dim, shape_id)
        _note(tensor, "_dynamo_unbacked_bounds", dim, (min, max) if (min, max) != (None, None) else None)


def mark_static_address(tensor: torch.Tensor, guard: bool = False) -> None:
    """The tensor stays where it is: compilers may rely on its address.  With `guard` another tensor recompiles.

    >>> import torch, framelift
    >>> framelift.mark_static_address(torch.ones(4, 3))
    """
    if not isinstance(tensor, torch.Tensor):
        raise WrongType(f"mark_static_address expects a tensor but received {type(tensor).__name__}")
    tensor._dynamo_static_input_type = "guarded" if guard else "unguarded"


def _fix_sizes(session: Session, tensor: Any, index: Any = None) -> None:
    """mark_static in captured code: the sizes are constants of this capture."""
    size = session.call(torch.Tensor.size, (tensor,), {})
    for dim in range(len(size)) if index is None else _each(tensor, index):
        int(size[dim])


on_code(_fix_sizes)(mark_static)
for _function in (mark_dynamic, maybe_mark_dynamic, mark_unbacked, mark_static_address):  # they are about calls to come
    _function._dynamo_forbidden = True  # type: ignore[union-attr]  # TorchDynamo's own mark
    on_code(forbidden)(_function)
