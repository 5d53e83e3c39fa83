"""What you know of sizes: marks on tensors, and what earlier runs showed, kept in a file.

The marks are the attributes that `torch._dynamo.mark_dynamic` and its kin set, so either spelling is understood by either side.

>>> import torch, framelift
>>> x = torch.ones(4, 3)
>>> framelift.shapes.mark_dynamic(x, 0, min=2, max=64)
>>> f = framelift.compile(lambda x: x * 2, backend="eager")
>>> f(x).shape, f(torch.ones(7, 3)).shape   # one capture serves both
(torch.Size([4, 3]), torch.Size([7, 3]))
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any

import torch

from .rehearsal.marks import forbidden, on_code
from .run.shapes import Seen

__all__ = ["load", "mark_dynamic", "mark_static", "mark_static_address", "mark_unbacked", "maybe_mark_dynamic", "save"]

_FORMAT = 1


@dataclass(frozen=True)
class _Range:
    """Bounds of a dimension, with the fields that torch gives its own."""

    dim: int
    min: int | None
    max: int | None


def _each(index: int | Iterable[int]) -> list[int]:
    return [index] if isinstance(index, int) else list(index)


def _marks(tensor: torch.Tensor, name: str) -> Any:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"only tensors have dimensions to mark, not {type(tensor).__name__}")
    tensor._has_dynamo_dim_marking = True  # type: ignore[attr-defined]
    return tensor.__dict__.setdefault(name, set())


def mark_dynamic(tensor: torch.Tensor, index: int | Iterable[int], *, min: int | None = None, max: int | None = None,
                 hint_override: int | None = None, specialize_on: Any = None) -> None:
    """The size of this dimension changes: captures keep it symbolic, between `min` and `max`.

    A program that makes a constant of it is an error that names the line (`exc.ConstraintViolation`).
    `hint_override` and `specialize_on` are accepted for compatibility.

    >>> import torch, framelift
    >>> framelift.mark_dynamic(torch.ones(4, 3), 0, min=2, max=64)
    """
    for dim in _each(index):
        _marks(tensor, "_dynamo_dynamic_indices").add(dim)
        _marks(tensor, "_dynamo_dynamic_range").add(_Range(dim, min, max))


def maybe_mark_dynamic(tensor: torch.Tensor, index: int | Iterable[int]) -> None:
    """As `mark_dynamic`, but a program may make a constant of it.

    >>> import torch, framelift
    >>> framelift.maybe_mark_dynamic(torch.ones(4, 3), [0, 1])
    """
    _marks(tensor, "_dynamo_weak_dynamic_indices").update(_each(index))


def mark_static(tensor: Any, index: int | Iterable[int] | None = None) -> Any:
    """The sizes of these dimensions (all, by default) are constants, however often they change.

    Given a module's class (as a decorator, too), the numbers that its instances hold are constants.

    >>> import torch, framelift
    >>> framelift.mark_static(torch.ones(4, 3), 0)
    """
    if isinstance(tensor, type) and issubclass(tensor, torch.nn.Module):
        tensor._dynamo_marked_static = True
        return tensor
    _marks(tensor, "_dynamo_static_indices").update(range(tensor.dim()) if index is None else _each(index))


def mark_unbacked(tensor: torch.Tensor, index: int | Iterable[int], *, strict: bool = False, **_ignored: Any) -> None:
    """The size of this dimension decides nothing: a program that asks for it cannot be captured whole; 0 and 1 are no special cases.

    >>> import torch, framelift
    >>> framelift.mark_unbacked(torch.ones(4, 3), 0)
    """
    _marks(tensor, "_dynamo_strict_unbacked_indices" if strict else "_dynamo_unbacked_indices").update(_each(index))


def mark_static_address(tensor: torch.Tensor, guard: bool = True) -> None:
    """The tensor's memory stays where it is: compilers may rely on its address.

    >>> import torch, framelift
    >>> framelift.mark_static_address(torch.ones(4, 3))
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"mark_static_address expects a tensor but received {type(tensor).__name__}")
    tensor._dynamo_static_input_type = "guarded" if guard else "unguarded"  # type: ignore[attr-defined]


def _fix_sizes(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """mark_static in captured code: the sizes are constants of this capture."""
    given = dict(zip(("tensor", "index"), args), **kwargs)
    size = given["tensor"].size()
    for dim in range(len(size)) if given.get("index") is None else _each(given["index"]):
        int(size[dim])


on_code(_fix_sizes)(mark_static)
for _function in (mark_dynamic, maybe_mark_dynamic, mark_unbacked, mark_static_address):   # they are about calls to come
    _function._dynamo_forbidden = True  # type: ignore[attr-defined]
    on_code(forbidden)(_function)


# ---- what earlier calls showed -----------------------------------------------------------------------------------------

def _table(compiled: Any) -> dict[Any, Seen]:
    driver = getattr(getattr(compiled, "_compiled", compiled), "miss", None)
    if not isinstance(getattr(driver, "seen", None), dict):
        raise TypeError(f"not a compiled callable: {type(compiled).__name__}")
    return driver.seen


def _name(code: Any) -> str:
    return f"{code.co_qualname}:{code.co_firstlineno}"


def save(compiled: Any, path: str | PathLike[str]) -> None:
    """Write down which sizes and numbers a compiled callable has seen change, so that the next process need not find out.

    >>> import os, tempfile, torch, framelift
    >>> compiled = framelift.compile(lambda x: x * 2, backend="eager")
    >>> for n in (2, 3):
    ...     _ = compiled(torch.ones(n))
    >>> path = os.path.join(tempfile.mkdtemp(), "shapes.json")
    >>> framelift.shapes.save(compiled, path)
    >>> os.path.exists(path)
    True
    """
    rows = {_name(code): seen.as_data() for code, seen in _table(compiled).items()}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"format": _FORMAT, "frames": rows}, file, indent=1, sort_keys=True)


def load(compiled: Any, path: str | PathLike[str]) -> None:
    """Take over what `save` wrote: captures from now on have these sizes and numbers symbolic from the start.

    >>> import os, tempfile, torch, framelift
    >>> path = os.path.join(tempfile.mkdtemp(), "shapes.json")
    >>> seen = framelift.compile(lambda x: x * 2, backend="eager")
    >>> for n in (2, 3):
    ...     _ = seen(torch.ones(n))
    >>> framelift.shapes.save(seen, path)
    >>> again = framelift.compile(seen.function, backend="eager")     # as in another process
    >>> framelift.shapes.load(again, path)
    >>> for n in (2, 3, 4):
    ...     _ = again(torch.ones(n))
    >>> again.report().captures
    1
    """
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    if data.get("format") != _FORMAT:
        raise ValueError(f"{path} was written by another version of framelift")
    driver = getattr(compiled, "_compiled", compiled).miss
    driver.expected = {name: Seen.from_data(row) for name, row in data["frames"].items()}
    _table(compiled).clear()
