"""Recurrent networks: each is one node.  Packed sequences, whose lengths are values, break the graph, and so does what
compilers would get wrong: many steps, which they write out, and dropout between layers, which they forget.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.torch_version import TorchVersion

from ... import config
from ...graph.fx.node_functions import trained_lstm, written_out_lstm
from ...graph.fx.targets import target_of
from ...torch_ports.autograd import is_grad_enabled
from ...torch_ports.tensors import VariableFunctions
from ...vocabulary.reasons import Interrupt
from ..session import Recorder
from .ranks import rule

#: so many steps of a network may be written out by a compiler
_MOST_COMPILED = 16
_OWNER = VariableFunctions


@rule(_OWNER._pack_padded_sequence, _OWNER._pad_packed_sequence)
def _packing(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise Interrupt("tensor-item", "a packed sequence, whose lengths are values,")


def _network(func: Any) -> Any:
    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if kwargs or len(args) != 9:
            return recorder.record(target_of(func), args, kwargs)
        if recorder.is_stand_in(args[1]) and type(args[3]) in (list, tuple):
            raise Interrupt("tensor-item", f"{func.__name__} of a packed sequence, whose lengths are values,")
        data, _, params, _, layers, dropout, train, _, batch_first = args
        facts = recorder.value_of(data).facts
        learns = is_grad_enabled() and any(recorder.value_of(one).facts.requires_grad for one in (data, *params))
        if dropout and train and layers > 1:
            raise Interrupt(
                "torch-operation", f"{func.__name__} with dropout between its layers, which compilers forget,"
            )
        if recorder.policy.unrolls:
            steps = facts.size[1 if batch_first and len(facts.size) == 3 else 0]
            is_one_kernel = func is _OWNER.lstm and not learns and facts.device.type == "cpu"
            if not (is_one_kernel or config.allow_rnn or type(steps) is int and steps <= _MOST_COMPILED):
                raise Interrupt(
                    "torch-operation",
                    f"{func.__name__}, which the backend would write out step by step (config.allow_rnn),",
                )
        node = func
        if func is _OWNER.lstm and learns and not facts.requires_grad:
            node = trained_lstm
        elif func is _OWNER.lstm and TorchVersion(torch.__version__) < (2, 13):
            node = written_out_lstm
        return recorder.record(target_of(node), args, {})

    return handler


for _func in (_OWNER.lstm, _OWNER.gru, _OWNER.rnn_tanh, _OWNER.rnn_relu):
    rule(_func)(_network(_func))
