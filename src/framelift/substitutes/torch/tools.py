"""Substitutes for torch's Python functions that are about tools, not about tensors."""

from __future__ import annotations

import contextlib
import functools
import types
from typing import Any

import torch
import torch.fx.traceback

from ... import _core
from ..._core import is_a
from ...boundary.gateway import let_in
from ...calls.call_tables import substitute
from ...overriding.opened_functions import with_own_code
from ...recording.session import Session
from ...torch_ports.modes import DisableTorchFunction
from ...torch_ports.operators import OpOverloadPacket
from ...torch_ports.state import profiler_enabled
from ...torch_ports.tensors import (
    detect_is_causal_mask,
    group_tensors_by_device_and_dtype,
    infer_parameters,
    multi_tensor_asgd,
    single_tensor_asgd,
)
from ...vocabulary.class_reads import qualname_of
from ...vocabulary.feature_state import FeatureState
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt
from ...vocabulary.torch_code import is_torch_function


@substitute(infer_parameters)
def _infer_parameters(
    session: Session, callable_: Any, self: Any, module: Any, args: tuple[Any, ...], kwargs: Any = None
) -> Any:
    """A lazy module gets its parameters when it is first called.

    torch's own look at the sizes of their arguments alone, so that can be done before the capture; unless random
    numbers were drawn by then, which the program draws first, or a mode or setting of the program's is on, such as
    inference mode, which parameters made in it belong to.
    """
    named = kwargs or {}
    stop = Interrupt("lazy-module", qualname_of(type(self)))
    recorder = session.recorder
    own = (
        is_torch_function(type(module).initialize_parameters, "torch.nn.modules")
        and callable_ is type(module)._infer_parameters
    )
    if (
        own
        and _core.is_external(module)
        and not recorder.effect_level
        and not recorder.settings.touched
        and not session.moment.modes
        and not session.effects
        and all(map(recorder.is_stand_in, (*args, *named.values())))
    ):
        stop.first = functools.partial(callable_, module, module, args, named)
    raise stop


@substitute(torch.Tensor.__deepcopy__, torch.nn.Parameter.__deepcopy__)
def _deepcopy(session: Session, self: Any, memo: Any) -> Any:
    """A copy of its own; only where memory, gradient and attributes are nobody else's business."""
    if id(self) in memo:
        return memo[id(self)]
    recorder = session.recorder
    value, record = recorder.value_of(self), session.record_of(self)
    parameter = type(self) is torch.nn.Parameter
    if (
        type(self) not in (torch.Tensor, torch.nn.Parameter)
        or len(value.storage.values) > 1
        or not value.facts.is_contiguous()
        or (value.facts.requires_grad and not parameter)
        or any(key[0] == id(self) for key in session.world.overlay)
    ):
        raise Interrupt("torch-operation", "Tensor.__deepcopy__")
    if (
        record is not None
        and not parameter
        and let_in(session.world, record.original.__dict__, record.origin.to("dict"))
    ):
        raise Interrupt("torch-operation", "Tensor.__deepcopy__ of a tensor with attributes of its own")
    if parameter:
        data = recorder.call(torch.Tensor.clone, (recorder.call(torch.Tensor.detach, (self,), {}),), {})
        memo[id(self)] = recorder.call(torch.nn.Parameter, (data, value.facts.requires_grad), {})
    else:
        memo[id(self)] = recorder.call(torch.Tensor.clone, (self,), {})
    return memo[id(self)]


_MOST_OF_A_MASK = 1 << 16


@substitute(detect_is_causal_mask)
def _detect_is_causal(session: Session, callable_: Any, mask: Any, is_causal: Any = None, size: Any = None) -> Any:
    """Which attention kernel is taken depends on the mask's values, which hardly ever change: they are guarded."""
    recorder = session.recorder
    if is_causal is None and recorder.is_stand_in(mask) and type(size) in (int, type(None)):
        value = recorder.value_of(mask)
        if (
            value.external is not None
            and not value.storage.written
            and value.external.numel() <= _MOST_OF_A_MASK
            and recorder.known_values.may_know([value])
        ):
            with DisableTorchFunction():
                return callable_(value.external, None, size)
    return _core.captured(_detect_is_causal_mask, (mask, is_causal, size), None)


# its own code is this substitute's
_detect_is_causal_mask = types.FunctionType(
    detect_is_causal_mask.__code__.replace(co_name="_detect_is_causal_mask "),
    vars(torch.nn.modules.transformer),
    "_detect_is_causal_mask",
    (None, None),
)
_detect_is_causal_mask.__module__ = __name__  # where it is found by its name


@substitute(OpOverloadPacket.__getattr__)
def _overload(session: Session, callable_: Any, self: Any, key: str) -> Any:
    """torch makes an operator's overloads when they are first asked for, and keeps them."""
    found = callable_(self, key)
    return let_in(session.world, found, const(found))


@substitute(group_tensors_by_device_and_dtype)
def _group(session: Session, callable_: Any, columns: list[list[Any]], with_indices: bool = False) -> Any:
    """Columns of equal length, sorted by device and dtype of the first one's tensors, groups in torch's order."""
    facts = [session.value_of(tensor).facts for tensor in columns[0]]
    with DisableTorchFunction():
        alike = {one: torch.empty(0, dtype=one.dtype, device=one.device) for one in facts}
        groups = callable_([[alike[one] for one in facts]], True)
    return {
        key: ([[column[i] for i in indices] for column in columns], indices if with_indices else [])
        for key, (_, indices) in groups.items()
    }


@substitute(torch.autograd.profiler.record_function.__init__)
def _record_function_init(session: Session, self: Any, name: Any, args: Any = None) -> None:
    """A profiler range has no result; in a captured graph it names nothing.  Outside of one it is what it is."""
    for attribute, value in {**vars(torch.autograd.profiler.record_function("")), "name": name, "args": args}.items():
        _core.captured(setattr, (self, attribute, value), None)


@substitute(torch.autograd.profiler.record_function.__enter__)
def _record_function_enter(session: Session, self: Any) -> Any:
    """Nothing was begun, so nothing is to be ended: neither here nor, after a break, in eager mode."""
    _core.captured(setattr, (self, "run_callbacks_on_exit", False), None)
    return self


@substitute(torch.autograd.profiler.record_function.__exit__)
def _record_function_exit(session: Session, self: Any, exc_type: Any, exc_value: Any, traceback: Any) -> None:
    if _core.read(self, "run_callbacks_on_exit"):
        raise Interrupt("torch-state", "leaving a profiler range that was entered outside")
    _core.captured(setattr, (self, "run_callbacks_on_exit", True), None)


class _Profiler:
    """A profiler that captured code begins and ends, and never looks at: nothing would be seen of a graph's operations.
    Where the program asks it for anything, it runs eagerly.
    """

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        raise Interrupt("torch-state", "a profiler")

    def __reduce_ex__(self, _protocol: Any) -> Any:
        raise Interrupt("torch-state", "a profiler")

    def __enter__(self) -> _Profiler:
        return self

    def __exit__(self, *_error: Any) -> None:
        pass


#: what a profiler calls, or decides by itself
_ACTS = frozenset(("schedule", "on_trace_ready", "execution_trace_observer", "post_processing_timeout_s"))


@substitute(torch.profiler.profile, torch.autograd.profiler.profile)
def _profile(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    if args or _ACTS.intersection(kwargs) or _core.captured(profiler_enabled, (), None):
        raise Interrupt("torch-state", "a profiler")
    return _Profiler()


@substitute(contextlib.nullcontext.__enter__)
def _enter_nothing(session: Session, self: Any) -> Any:
    """One that stands for torch.fx.traceback.annotate: nodes recorded inside carry its notes."""
    notes = _ANNOTATIONS.of(session).get(id(self))
    if notes is not None:
        stack = session.annotations
        stack.append({**(stack[-1] if stack else {}), **notes[1]})
    return _core.captured(getattr, (self, "enter_result"), None)


@substitute(contextlib.nullcontext.__exit__)
def _leave_nothing(session: Session, self: Any, *excinfo: Any) -> None:
    if id(self) in _ANNOTATIONS.of(session) and session.annotations:
        session.annotations.pop()


#: contexts that stand for annotations, by their ids, each with what it says
_ANNOTATIONS: FeatureState[dict[int, tuple[Any, dict[str, Any]]]] = FeatureState(dict)


if hasattr(torch.fx.traceback, "annotate"):

    @substitute(torch.fx.traceback.annotate)
    def _annotate(session: Session, annotation_dict: Any) -> Any:
        """Notes for whoever reads the graph; eager mode, after a break, has no use for them."""
        made = contextlib.nullcontext()
        _ANNOTATIONS.of(session)[id(made)] = made, annotation_dict
        return made


# ---- Steps of torch's optimizers that look at how many steps there were: while compiling, torch leaves th ----


_STEPS: tuple[Any, ...] = (single_tensor_asgd, multi_tensor_asgd)


_OWN = {step: with_own_code(step) for step in _STEPS}


@substitute(*_STEPS)
def _step(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    devices = {session.value_of(tensor).facts.device for row in args for tensor in row if is_a(tensor, torch.Tensor)}
    # with steps elsewhere than the parameters it is not meant for this
    if kwargs.get("capturable") is False and len(devices) == 1:
        kwargs = {**kwargs, "capturable": True}
    return _core.captured(_OWN[callable_], args, kwargs)
