"""flex_attention: its score and mask functions become graphs of their own, over scalars."""

from __future__ import annotations

import operator as operator_module
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from ..graph.fx.targets import Target
from ..graph.fx.values import Body, Value
from ..graph.metadata.facts import Facts, intern_facts
from ..torch_ports.autograd import is_grad_enabled
from ..torch_ports.modes import DisableTorchFunction
from .bodies import Rehearsed, fresh, values_in
from .operators import fresh_results, operator, pure_body, record_step, refuse

if TYPE_CHECKING:
    from ..recording.session import Session

_NAME = "flex_attention"


class _Indexing:
    """The mode under which these functions run: a scalar tensor is an index, never taken into Python."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        recorder = self._session.recorder
        if func is torch.Tensor.__getitem__:
            indices = args[1] if type(args[1]) is tuple else (args[1],)
            if all(recorder.is_stand_in(index) for index in indices):
                with DisableTorchFunction():
                    return recorder.record(_GETITEM, (args[0], indices if len(indices) > 1 else indices[0]), {})
        return _core.captured(func, args, kwargs or {})


def _index(tensor: torch.Tensor, indices: Any) -> torch.Tensor:
    return torch.ops.aten.index.Tensor(tensor, list(indices) if type(indices) is tuple else [indices])


_GETITEM = Target(_index, "call_function", operator_module.getitem, "getitem")


def _plain(dtype: torch.dtype, device: torch.device, size: tuple[int, ...], requires_grad: bool = False) -> Facts:
    stride, step = [], 1
    for length in reversed(size):
        stride.append(step)
        step *= max(length, 1)
    return intern_facts(
        dtype, device, torch.Size(size), tuple(reversed(stride)), requires_grad, not requires_grad, False, False, False
    )


def _function(session: Session, function: Any, operands: list[Any]) -> tuple[Rehearsed, Any, list[Value]]:
    """A function of scalars: what ran, its graph, and the values it takes from around it."""
    modes = session.modes
    modes.append(_Indexing(session))
    try:
        body = pure_body(session, _NAME, function, tuple(operands))
    finally:
        modes.pop()
    if not session.is_stand_in(body.result) or session.value_of(body.result).facts.size:
        raise refuse(_NAME, "score_mod and mask_mod must return a scalar tensor")
    return body, *body.close(session.recorder, values_in(session.recorder, operands), body.result)


@operator("flex_attention", _NAME)
def _flex_attention(
    session: Session,
    callable_: Any,
    query: Any,
    key: Any,
    value: Any,
    score_mod: Any,
    block_mask: Any,
    scale: Any,
    kernel_options: Any,
    score_mod_other_buffers: Any = (),
    mask_mod_other_buffers: Any = (),
) -> Any:
    recorder = session.recorder
    tensors = [recorder.value_of(x) for x in (query, key, value)]
    facts = tensors[0].facts
    tracked = is_grad_enabled() and any(v.facts.requires_grad for v in tensors)

    def places() -> list[Any]:
        return [
            fresh(recorder, _plain(torch.int32, facts.device, ()), name)
            for name in ("batch", "head", "q_index", "kv_index")
        ]

    score = fresh(recorder, _plain(facts.dtype, facts.device, (), tracked), "score")
    score_body, score_graph, score_around = _function(session, score_mod, [score, *places()])
    mask_body, mask_graph, mask_around = _function(session, block_mask[-1], places())
    mask = [recorder.value_of(x) if recorder.is_stand_in(x) else x for x in block_mask[:-1]]
    inputs = [*tensors, *(x for x in mask if type(x) is Value), *score_around, *mask_around]
    step = record_step(
        recorder,
        callable_,
        [
            *tensors,
            Body(score_graph, "score_mod"),
            (*mask, Body(mask_graph, "mask_mod")),
            scale,
            dict(kernel_options),
            tuple(score_around),
            tuple(mask_around),
        ],
        {},
        inputs,
        score_body.has_effect or mask_body.has_effect,
    )
    tracked = tracked or is_grad_enabled() and any(v.facts.requires_grad for v in score_around)
    rows = tuple(facts.size[:3])
    results = [
        _plain(facts.dtype, facts.device, (*rows, tensors[2].facts.size[-1]), tracked),
        _plain(torch.float32, facts.device, rows, tracked),
        _plain(torch.float32, facts.device, rows),
    ]
    return tuple(fresh_results(recorder, step, results, [False] * 3))
