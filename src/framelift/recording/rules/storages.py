"""Storages of tensors: how large they are is known, and what is asked of an input's; their memory is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ... import _core
from ...graph.fx.values import EXCHANGED, Value
from ...torch_ports.tensors import TensorBase, typed_storage
from ...vocabulary.reasons import Interrupt
from .ranks import rule

if TYPE_CHECKING:
    from ..session import Recorder


class _Storage:
    """The storage that captured code sees: it has a size, and nothing else."""

    __slots__ = ("_bytes", "_itemsize")

    def __init__(self, bytes_: Any, itemsize: int) -> None:
        _BYTES.__set__(self, bytes_)
        _ITEMSIZE.__set__(self, itemsize)

    def __getattribute__(self, name: str) -> Any:
        if name in ("size", "_size"):
            return lambda: _BYTES.__get__(self) // _ITEMSIZE.__get__(self)
        if name == "nbytes":
            return lambda: _BYTES.__get__(self)
        raise Interrupt("tensor-data", f"a storage's {name}")


def _refuses(name: str) -> Any:
    def method(_self: Any, *_args: Any) -> Any:
        raise Interrupt("tensor-data", f"a storage's {name}")

    method.__name__ = name
    return method


for _name in (
    "__getitem__ __setitem__ __len__ __iter__ __bool__ __contains__ __eq__ __ne__ __hash__ __repr__ __str__ __format__ "
    "__copy__ __deepcopy__ __reduce__ __reduce_ex__ __sizeof__"
).split():
    setattr(_Storage, _name, _refuses(_name))
_BYTES, _ITEMSIZE = vars(_Storage)["_bytes"], vars(_Storage)["_itemsize"]


def bytes_beside(tensor: torch.Tensor) -> int:
    """How many bytes of its storage a tensor's own elements would not fill."""
    storage = _core.of_tensor(tensor, "untyped_storage")
    return int(storage.nbytes()) - _core.of_tensor(tensor, "numel") * _core.of_tensor(tensor, "itemsize")


def _bytes_of(recorder: Recorder, tensor: Any) -> Any:
    """The size of a tensor's storage.  The size of an input is its own, or what its storage has beside that."""
    value = recorder.value_of(tensor)
    if recorder.in_transform() or recorder.wrapped is not None or _is_exchanged(recorder, value):
        raise Interrupt("tensor-data", "Tensor.untyped_storage")
    whole = next((one for one in value.storage.values if one.external is not None), None)
    if whole is not None and recorder.callbacks.ask is not None:
        beside = recorder.callbacks.ask(whole.stand_in, bytes_beside)
        return whole.facts.size.numel() * whole.facts.dtype.itemsize + beside
    first = value.storage.values[0]
    if value.storage.external or first.view or first.facts is None or not _is_dense(first):
        raise Interrupt("tensor-data", "Tensor.untyped_storage")
    return first.facts.size.numel() * first.facts.dtype.itemsize


def offset_of(tensor: torch.Tensor) -> int:
    """Where in its storage a tensor begins."""
    return int(_core.of_tensor(tensor, "storage_offset"))


@rule(TensorBase.storage_offset)
def _offset(recorder: Recorder, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> Any:
    value = recorder.value_of(args[0])
    if recorder.in_transform() or recorder.wrapped is not None or _is_exchanged(recorder, value):
        raise Interrupt("tensor-data", "Tensor.storage_offset")
    if value.external is not None and recorder.callbacks.ask is not None:
        return recorder.callbacks.ask(value.stand_in, offset_of)
    first = value.storage.values[0]
    if value is not first or value.storage.external or value.view or value.facts is None or not _is_dense(value):
        raise Interrupt("tensor-data", "Tensor.storage_offset")
    return 0


def _is_exchanged(recorder: Recorder, value: Value) -> bool:
    return recorder.gradients.exchanged and any(one.view == EXCHANGED for one in value.storage.values)


def _is_dense(value: Value) -> bool:
    """Return whether an operation's result, of which these are the strides, has memory for just its elements."""
    size, stride = value.facts.size, value.facts.stride
    if not value.exact or any(type(entry) is not int for entry in (*size, *stride)):
        return False
    return 1 + sum((length - 1) * step for length, step in zip(size, stride)) == size.numel()


@rule(TensorBase.untyped_storage)
def _untyped(recorder: Recorder, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> Any:
    return _Storage(_bytes_of(recorder, args[0]), 1)


@rule(torch.Tensor.storage_type)
def _storage_type(recorder: Recorder, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> Any:
    facts = recorder.value_of(args[0]).facts
    if len(args) != 1 or facts.device.type != "cpu" or recorder.wrapped is not None:
        raise Interrupt("tensor-data", "Tensor.storage_type")
    return torch.empty(0, dtype=facts.dtype).storage_type()


@rule(torch.Tensor.storage, typed_storage)
def _typed(recorder: Recorder, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> Any:
    return _Storage(_bytes_of(recorder, args[0]), recorder.value_of(args[0]).facts.dtype.itemsize)
