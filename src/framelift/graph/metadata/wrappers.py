"""Wrapper subclasses: tensors that hold other tensors and dispatch below the torch API (`__torch_dispatch__`).

A class that has `__tensor_flatten__` and `__tensor_unflatten__` promises that its operations depend on its inner
tensors, its context and its metadata alone.  Then a graph may take its tensors as they are, fakes of them are made
of fakes of the inner ones, and compilers take them apart themselves.  Classes without that protocol, or whose
context holds more than plain values and records of these, are not captured.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch

from ..._core import is_a
from ...torch_ports.modes import DisableTorchFunction, disabled_torch_function_impl
from ...vocabulary.class_reads import module_of, name_of, qualname_of
from ...vocabulary.plain_types import PYTHON_CONSTANTS, TORCH_CONSTANTS
from ...vocabulary.reasons import Interrupt
from ...vocabulary.torch_code import is_torch_class
from .facts import Facts, held_by

_no_dispatch = torch.Tensor.__torch_dispatch__
_PLAIN = (*PYTHON_CONSTANTS, *TORCH_CONSTANTS, type, torch.Size)


def is_wrapper(kind: type) -> bool:
    """Return whether tensors of this class hold others, and say which."""
    if (
        kind is torch.Tensor
        or kind is torch.nn.Parameter
        or held_by(kind, "__torch_dispatch__") in (None, _no_dispatch)
    ):
        return False
    return (
        issubclass(kind, torch.Tensor)
        and not is_torch_class(kind, "torch._subclasses")
        and held_by(kind, "__tensor_flatten__") is not None
        and held_by(kind, "__tensor_unflatten__") is not None
    )


def asks_first(kind: type[Any]) -> bool:
    """Return whether a wrapper class of the program's overrides torch functions too: that is captured code."""
    return (
        is_wrapper(kind)
        and not converts(kind)
        and kind.__torch_function__ is not _disabled
        and not is_torch_class(kind)
    )


def converts(kind: type[Any]) -> bool:
    """Return whether the class inherits what subclasses do by default: results become tensors of it."""
    return kind.__torch_function__.__func__ is _default if hasattr(kind.__torch_function__, "__func__") else False


_disabled, _default = disabled_torch_function_impl, torch.Tensor.__torch_function__.__func__


class WrapperFacts(Facts):
    """Facts of one tensor of a wrapper subclass.  `parts` are the values of its inner tensors, by name."""

    __slots__ = ("context", "kind", "parts")

    def __init__(self, kind: type, context: Any, parts: dict[str, Any], *fields: Any) -> None:
        super().__init__(*fields)
        self.kind = kind
        self.context = context
        self.parts = parts

    def but(self, **changes: Any) -> Facts:
        raise Interrupt("tensor-subclass", f"{qualname_of(self.kind)}, whose metadata changes,")

    def agrees(self, other: Facts) -> bool:
        return self is other or type(other) is WrapperFacts and self.kind is other.kind and self.key() == other.key()

    def is_contiguous(self) -> bool:
        return False  # nothing is known of the memory behind it

    def template(self) -> torch.Tensor:
        if self._template is None:
            with torch.inference_mode(False):
                self._template = torch.empty([_hint(length) for length in self.size], dtype=self.dtype, device="meta")
        return self._template


def with_parts(values: Iterable[Any]) -> Iterator[Any]:
    """The values, and those of their inner tensors."""
    for value in values:
        yield value
        if type(value.facts) is WrapperFacts:
            yield from with_parts(value.facts.parts.values())


def _hint(length: Any) -> int:
    """A size for a stand-in's own memory, which nobody reads."""
    if type(length) is int:
        return length
    if length.node.is_nested_int() or not length.node.has_hint():
        return 2
    hint = length.node.hint
    return hint if type(hint) is int else 2


def wrapper_facts(tensor: torch.Tensor, context: Any, parts: dict[str, Any]) -> WrapperFacts:
    """The facts of a real or fake wrapper.  Torch function must be off."""
    return WrapperFacts(
        type(tensor),
        context,
        parts,
        tensor.dtype,
        tensor.device,
        tensor.size(),
        tensor.stride(),
        tensor.requires_grad,
        tensor.is_leaf,
        False,
        False,
        tensor.is_inference(),
    )


class WrapperContext(NamedTuple):
    """The parts of a wrapper beside its inner tensors: what its class calls context, and parts that are no tensors."""

    said: Any
    fixed: dict[str, Any]


def context_of(tensor: Any) -> tuple[list[str], WrapperContext]:
    """The names of a wrapper's inner tensors, and its context.  Torch function must be off."""
    try:
        names, context = taken_apart(tensor)
    except Exception as error:
        raise _refused(type(tensor), "which cannot be taken apart") from error
    if not all(type(name) is str for name in (*names, *context.fixed)):
        raise _refused(type(tensor), "whose inner tensors have no names")
    if described(context) is None:
        raise _refused(type(tensor), "whose context holds objects")
    return names, context


def taken_apart(tensor: Any) -> tuple[list[str], WrapperContext]:
    """The same without a look at what the context holds."""
    names, said = tensor.__tensor_flatten__()
    parts = {name: getattr(tensor, name) for name in names}
    return (
        [name for name, part in parts.items() if is_a(part, torch.Tensor)],
        WrapperContext(said, {name: part for name, part in parts.items() if not is_a(part, torch.Tensor)}),
    )


def inner_tensors(tensor: Any, names: list[str]) -> dict[str, torch.Tensor]:
    """A wrapper's inner tensors, by name."""
    found = {name: getattr(tensor, name, None) for name in names}
    if not all(is_a(inner, torch.Tensor) for inner in found.values()):
        raise _refused(type(tensor), "which does not hold what it promises")
    return found


def assembled_like(
    tensor: torch.Tensor, parts: dict[str, torch.Tensor], names: list[str], context: Any
) -> torch.Tensor:
    """A wrapper like this external one, made of `parts`: sizes of an inner tensor follow the part's."""
    inner = inner_tensors(tensor, names)
    size, stride = ([_ragged(entry, inner, parts) for entry in entries] for entries in (tensor.size(), tensor.stride()))
    for i in range(len(size)):
        name = followed_by(tensor, inner, i)
        if name is not None:
            size[i] = parts[name].size(i)
            stride[i] = parts[name].stride(i) if inner[name].stride(i) == stride[i] else stride[i]
    return assembled(type(tensor), parts, context, torch.Size(size), tuple(stride))


def _ragged(entry: Any, inner: dict[str, torch.Tensor], parts: dict[str, Any]) -> Any:
    """A size for the lengths of rows belongs to the tensor of these lengths: a symbol of that one's fake."""
    if type(entry) is int or not entry.node.is_nested_int():
        return entry
    from ...torch_ports.tensors import tensor_symint_registry as known

    for name, one in inner.items():
        own = known.get(one)
        if own is not None and own.node.nested_int() == entry.node.nested_int():
            part = parts[name]
            if part.nested_int_memo is None:
                part.nested_int_memo = part.fake_mode.create_symbolic_nested_int(nt_tensor_id=own.node.nested_int())
            return part.get_nested_int(coeff=entry.node.nested_int_coeff())
    raise Interrupt("tensor-subclass", "whose rows have lengths that it does not hold")


def leaf_tensors(given: Iterable[Any]) -> tuple[Any, ...]:
    """The values given, wrappers replaced by the tensors they are made of."""
    found: list[Any] = []
    with DisableTorchFunction():
        for one in given:
            found += leaf_tensors(inner_tensors(one, taken_apart(one)[0]).values()) if is_wrapper(type(one)) else (one,)
    return tuple(found)


def _refused(kind: type, why: str) -> Interrupt:
    return Interrupt("tensor-subclass", f"{module_of(kind)}.{qualname_of(kind)}, {why},")


def described(context: Any) -> Any:
    """A context as nested tuples that compare by type and value; None where it holds an object that could be anything.

    Classes of records (dataclasses, named tuples) and enumerations are part of it.
    """
    kind = type(context)
    if kind in _PLAIN:
        return kind, repr(context) if kind in (float, complex) else context
    if is_a(context, enum.Enum):
        return kind, context.name
    if is_torch_class(kind) and kind.__eq__ is not object.__eq__ and kind.__hash__ not in (None, object.__hash__):
        return kind, context  # torch's own values: layouts of distributed tensors
    parts: Any
    if kind in (tuple, list) or is_a(context, tuple) and hasattr(kind, "_fields"):
        parts = [described(part) for part in context]
    elif kind is dict:
        parts = [(key, described(part)) if type(key) is str else None for key, part in context.items()]
        parts = [None if part is None or part[1] is None else part for part in parts]
    elif dataclasses.is_dataclass(context) and kind.__eq__ is not object.__eq__:
        names = [field.name for field in dataclasses.fields(context)]
        if set(getattr(context, "__dict__", ())) - set(names):
            return None
        parts = [described(getattr(context, name)) for name in names]
    else:
        return None
    return None if any(part is None for part in parts) else (kind, *parts)


def assembled(kind: Any, parts: dict[str, torch.Tensor], context: Any, size: Any, stride: Any) -> torch.Tensor:
    """A wrapper of these inner tensors with this size and stride."""
    try:
        made = kind.__tensor_unflatten__({**parts, **context.fixed}, context.said, size, stride)
    except Interrupt:
        raise
    except Exception as error:
        raise _refused(kind, f"which cannot be put together ({name_of(type(error))}: {error})") from error
    if type(made) is not kind:
        raise _refused(kind, "which is put together as something else")
    return made


def followed_by(tensor: torch.Tensor, inner: dict[str, torch.Tensor], dim: int) -> str | None:
    """The inner tensor whose size a wrapper's size is taken to follow."""
    return next(
        (name for name, one in inner.items() if one.dim() == tensor.dim() and one.size(dim) == tensor.size(dim)), None
    )


# ---- Results of collectives that may not have arrived yet: torch's AsyncCollectiveTensor, a wrapper that  ----


_MODULE = "torch.distributed._functional_collectives"


def is_async(kind: type) -> bool:
    """Return whether tensors of this class wait for a collective."""
    return name_of(kind) == "AsyncCollectiveTensor" and kind is getattr(
        sys.modules.get(_MODULE), "AsyncCollectiveTensor", None
    )


def arrived(tensor: torch.Tensor) -> torch.Tensor:
    """Return a plain tensor of the same memory and history, once the collective is over."""
    with torch.enable_grad():  # as an input of a graph, which may turn gradients on
        found: torch.Tensor = _Arrived.apply(tensor)
    return found


class _Arrived(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any) -> torch.Tensor:
        held: torch.Tensor = tensor.trigger_wait()
        return held.view_as(held)  # history is written into it

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]
