"""Numbers taken out of tensors that the graph computes: `config.capture_scalar_outputs`."""

from __future__ import annotations

import functools
from typing import Any

import torch

from ... import config
from ...graph.fx.targets import target_of
from ...torch_ports.autograd import is_grad_enabled
from ...torch_ports.tensors import TensorBase
from ...vocabulary.reasons import Interrupt
from ..session import Recorder
from .ranks import Handler, Rank, around


def _item(recorder: Recorder, tensor: Any) -> Any:
    recorder.with_symbols()
    # a comparison of a number: symbols know no truth values of the graph
    if recorder.value_of(tensor).facts.dtype is torch.bool:
        return (
            recorder.record(
                target_of(torch.Tensor.item),
                (recorder.record(target_of(torch.Tensor.to), (tensor, torch.int64), {}),),
                {},
            )
            != 0
        )
    return recorder.record(target_of(torch.Tensor.item), (tensor,), {})


def _tolist(recorder: Recorder, tensor: Any) -> Any:
    if not recorder.value_of(tensor).facts.size:
        return _item(recorder, tensor)
    return [_tolist(recorder, row) for row in recorder.record(target_of(torch.Tensor.unbind), (tensor, 0), {})]


def _if_asked(func: Any, take: Any, otherwise: Handler | None) -> Handler | None:
    """A value that depends on no input is a constant; another is a number of the graph, unless guards come first."""
    if otherwise is None:
        return None

    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not config.capture_scalar_outputs or len(args) != 1 or kwargs:
            return otherwise(recorder, args, kwargs)
        known = recorder.known(args[0], outside=recorder.policy.guards_values)
        return take(recorder, args[0]) if known is None else func(known)

    return handler


for _func, _take in ((TensorBase.item, _item), (TensorBase.tolist, _tolist)):
    around(Rank.TAKEN, _func, functools.partial(_if_asked, _func, _take))


def _is_mask(recorder: Recorder, index: Any) -> bool:
    if type(index) is tuple:
        return any(_is_mask(recorder, part) for part in index)
    return recorder.is_stand_in(index) and recorder.value_of(index).facts.dtype is torch.bool


def _masked(func: Any, otherwise: Handler | None) -> Handler:
    """The gradient of values assigned through a mask has a size that depends on the mask."""

    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if (
            len(args) == 3
            and recorder.is_stand_in(args[2])
            and recorder.value_of(args[2]).facts.requires_grad
            and is_grad_enabled()
            and (
                not config.capture_dynamic_output_shape_ops
                and recorder.value_of(args[2]).facts.size
                and _is_mask(recorder, args[1])
            )
        ):
            raise Interrupt("data-dependent-shape", "the gradient of an assignment through a mask")
        if otherwise is not None:
            return otherwise(recorder, args, kwargs)
        return recorder.record(target_of(func), args, kwargs)

    return handler


around(Rank.TAKEN, TensorBase.__setitem__, functools.partial(_masked, TensorBase.__setitem__))
