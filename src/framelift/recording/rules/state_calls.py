"""Calls that change torch's state: they are done for real, and the next operation is recorded with the state it meets
(graph/state/torch_state.py).
"""

from __future__ import annotations

from typing import Any

import torch

from ... import _core
from ...graph.state.settings import SETTERS, asks_default_dtype
from ...graph.state.torch_state import choosing_kernels, nest_autocast, new_autocast_cache, switch_autocast
from ...torch_ports.autograd import set_grad_enabled
from ...torch_ports.state import KERNEL_SETTERS, set_deterministic_algorithms, set_sdp_priority_order
from ...vocabulary.reasons import Interrupt
from ..session import Recorder
from .ranks import Handler, rule


def touch_settings(recorder: Recorder) -> None:
    """A setting is about to be changed that one graph has one choice of."""
    asking = any(
        asks_default_dtype([value.facts.dtype for value in step.inputs if value.facts is not None], step.kwargs)
        for step in recorder.tape
    )
    body = recorder.tape_is_a_body()
    recorder.settings.touch(bool(recorder.tape) or body, asking or body)


def _setter(func: Any) -> Handler:
    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        touch_settings(recorder)
        return func(*args, **kwargs)

    return handler


for _func in SETTERS:
    rule(_func)(_setter(_func))


@rule(torch.autograd.grad_mode.inference_mode.__enter__)
def _enter_inference(recorder: Recorder, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
    mode = _core.read(args[0], "mode")
    if type(mode) is not bool or _core.is_external(args[0]) or recorder.in_transform():
        raise Interrupt("torch-state", "this torch.inference_mode")  # that would remember the mode it enters
    touch_settings(recorder)
    recorder.settings.enter_inference(mode)


@rule(torch.autograd.grad_mode.inference_mode.__exit__)
def _exit_inference(recorder: Recorder, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
    recorder.settings.exit_inference()


@rule(torch.use_deterministic_algorithms)
def _deterministic(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    def bound(mode: Any, *, warn_only: Any = False) -> None:
        if type(mode) is not bool or type(warn_only) is not bool:
            raise Interrupt("torch-state", "use_deterministic_algorithms")
        touch_settings(recorder)
        set_deterministic_algorithms(mode, warn_only=warn_only)

    bound(*args, **kwargs)


_NATIVE = [torch.device, set_grad_enabled, torch.set_autocast_dtype, torch.set_autocast_cache_enabled]


def _native(func: Any) -> Handler:
    def handler(_recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return func(*args, **kwargs)

    return handler


for _func in _NATIVE:
    rule(_func)(_native(_func))
rule(torch.set_autocast_enabled)(_native(switch_autocast))
rule(torch.autocast_increment_nesting)(lambda recorder, _args, _kwargs: nest_autocast(1, recorder.policy.exporting))
rule(torch.autocast_decrement_nesting)(lambda recorder, _args, _kwargs: nest_autocast(-1, recorder.policy.exporting))
rule(torch.clear_autocast_cache)(_native(new_autocast_cache))


def _choosing(func: Any) -> Handler:
    def handler(_recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        choosing_kernels()
        return func(*args, **kwargs)

    return handler


for _func in (*KERNEL_SETTERS, set_sdp_priority_order):
    rule(_func)(_choosing(_func))
