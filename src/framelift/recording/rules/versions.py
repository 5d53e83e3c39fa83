"""Version counters: of inputs what they were before the call, of results 0, and the program's own writes since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ... import _core
from ...graph.analysis.infallible import goes_by_element
from ...graph.fx.values import Step, Value
from ...torch_ports.modes import dispatch_has_kernel, dispatch_has_kernel_for_dispatch_key
from ...vocabulary.reasons import Interrupt
from ..finished import counter_of
from .attributes import answer

if TYPE_CHECKING:
    from ..session import Recorder


def version_of(tensor: torch.Tensor) -> int:
    """How often a tensor was written."""
    return int(_core.of_tensor(tensor, "_version"))


@answer("_version")
def _version(recorder: Recorder, value: Value) -> Any:
    inputs = [one for one in value.storage.values if one.external is not None]
    first = inputs[0] if inputs else value.storage.values[0]
    if (
        len(inputs) > 1
        or not inputs
        and not _begins_at_0(first)
        or recorder.callbacks.ask is None
        or recorder.in_transform()
        or recorder.gradients.exchanged
        or torch.is_inference_mode_enabled()
        or inputs
        and _core.of_tensor(first.external, "is_inference")
        or not _is_counted(value, first)
    ):
        raise Interrupt("tensor-data", "Tensor._version")
    before = recorder.callbacks.ask(first.stand_in, version_of) if inputs else 0
    return before + _writes(recorder, first)


def _begins_at_0(value: Value) -> bool:
    """Return whether it is a new tensor that nobody wrote to once it was one."""
    return (
        not value.view
        and not value.storage.external
        and type(value.step) is Step
        and not value.step.state.inference  # such a tensor has no counter
        and goes_by_element(value.step.target.name)
    )


def _writes(recorder: Recorder, source: Value) -> int:
    """How often the counter of an input has gone up since: once for each write in place by an operation of ATen's own.

    What is made of several operations may write more than once.
    """
    writes = [one for one in recorder.written if one.storage is source.storage]
    steps = [step for step in recorder.tape if _may_write(step, source)]
    if len(steps) != len(writes) or not all(map(_writes_once, steps)) or recorder.tape_is_a_body():
        raise Interrupt("tensor-data", "Tensor._version")
    return sum([_is_counted(one, source) for one in writes])


def _is_counted(value: Value, source: Value) -> bool:
    """Return whether a write to a tensor is counted as one to the source."""
    try:
        return counter_of(value) is source
    except LookupError:
        raise Interrupt("tensor-data", "Tensor._version") from None


def _may_write(step: Step, source: Value) -> bool:
    """Return whether a step is an operation in place, or one whose name does not say so, on the memory of an input."""
    name = _name(step)
    in_place = name.endswith("_") and not name.endswith("__") or "out" in step.kwargs or step.effect
    return in_place and any(one.storage is source.storage for one in step.inputs)


def _name(step: Step) -> str:
    name = getattr(step.target.func, "__name__", "")
    return f"{name[3:-2]}_" if name.startswith("__i") else name


def _writes_once(step: Step) -> bool:
    name = _name(step)
    packet = getattr(torch.ops.aten, name, None) if name.endswith("_") and not name.endswith("__") else None
    if packet is None:
        return False
    names = [getattr(packet, overload)._name for overload in packet.overloads()]
    has_kernel = dispatch_has_kernel_for_dispatch_key
    return not any(has_kernel(one, "CompositeImplicitAutograd") for one in names if dispatch_has_kernel(one))
