"""Reading and writing the attributes of tensors: `ATTRIBUTES` maps a name to `answer(recorder, value)`.

Attributes that torch defines and that have no answer here interrupt.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from ...boundary.becomes.opaque import unknown_object
from ...graph.fx.targets import getter_target
from ...graph.fx.values import Value
from ...vocabulary.reasons import Interrupt
from ..histories import is_certain, is_leaf_view
from ..session import Recorder

Answer = Callable[["Recorder", Value], Any]

ATTRIBUTES: dict[str, Answer] = {
    "shape": lambda _, v: v.facts.size,
    "dtype": lambda _, v: v.facts.dtype,
    "device": lambda _, v: v.facts.device,
    "ndim": lambda _, v: len(v.facts.size),
    "layout": lambda _, v: torch.strided,
    "itemsize": lambda _, v: v.facts.dtype.itemsize,
    "nbytes": lambda _, v: v.facts.dtype.itemsize * v.facts.size.numel(),
    "name": lambda _, v: None,
    "_has_symbolic_sizes_strides": lambda _, v: False,
}


def _is_on(device: str) -> Answer:
    return lambda _, v: v.facts.device.type == device


def _recorded(name: str) -> Answer:
    target = getter_target(name)
    return lambda recorder, v: recorder.record_getter(target, v.stand_in)


for _name in ("cpu", "cuda", "meta", "mps", "xpu", "xla", "ipu", "hpu", "mtia", "maia", "vulkan"):
    ATTRIBUTES[f"is_{_name}"] = _is_on(_name)
#: the same for all plain tensors
OF_MEMORY = ("layout", "is_sparse", "is_sparse_csr", "is_mkldnn", "is_quantized", "is_nested")
for _name in OF_MEMORY[1:]:
    ATTRIBUTES[_name] = lambda _, v: False
for _name in ("T", "mT", "H", "mH", "real", "imag", "data"):
    ATTRIBUTES[_name] = _recorded(_name)


def answer(name: str) -> Callable[[Answer], Answer]:
    """Register the answer to reading attribute `name`."""

    def register(function: Answer) -> Answer:
        ATTRIBUTES[name] = function
        return function

    return register


@answer("requires_grad")
def _requires_grad(recorder: Recorder, value: Value) -> bool:
    if is_leaf_view(value) and not is_certain(recorder, value):
        raise Interrupt("tensor-data", "Tensor.requires_grad of a view that was made without grad mode")
    return value.facts.requires_grad


@answer("is_leaf")
def _is_leaf(_recorder: Recorder, value: Value) -> bool:
    return value.facts.is_leaf


@answer("_grad")
@answer("grad")
def _grad(recorder: Recorder, value: Value) -> Any:
    if value.external is None:
        return None  # no backward runs inside a rehearsal
    if recorder.callbacks.grad_of is None:
        raise Interrupt("torch-operation", "Tensor.grad of an input")
    return recorder.callbacks.grad_of(value.external)


@answer("_grad_fn")
@answer("grad_fn")
def _grad_fn(recorder: Recorder, value: Value) -> Any:
    """That there is a history is known, which object it is is not: the program may hold one at a time."""
    if value.facts.is_leaf:
        return None
    key = (value, sum(one.storage is value.storage for one in recorder.written))
    last, reference = recorder.gradients.history or (None, None)
    held = reference() if reference is not None else None
    if held is not None:
        if last != key:
            raise Interrupt("tensor-data", "Tensor.grad_fn")
        return held
    made = unknown_object("tensor-data", "Tensor.grad_fn")
    recorder.gradients.history = (key, weakref.ref(made))
    return made


@answer("retains_grad")
def _retains_grad(recorder: Recorder, value: Value) -> bool:
    if value.external is not None and not value.facts.is_leaf:
        raise Interrupt("tensor-data", "Tensor.retains_grad")
    return False


def assign(_recorder: Recorder, value: Value, name: str, new: Any) -> None:
    """Assignment to an attribute that torch defines: only what changes nothing is done."""
    # of others it must not be set at all
    if name == "requires_grad" and new is value.facts.requires_grad and value.facts.is_leaf:
        return
    raise Interrupt("torch-operation", f"assignment to Tensor.{name}")
