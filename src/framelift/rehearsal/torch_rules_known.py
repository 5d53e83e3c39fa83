"""Values taken into Python from tensors that depend on nothing outside (known_values.py): answered instead of interrupting."""

from __future__ import annotations

from typing import Any

import torch

from ..reasons import Interrupt
from .torch_rules import RULES, Handler

__all__: list[str] = []

_TAKES = ("__bool__", "is_nonzero", "__contains__", "item", "tolist", "__int__", "__long__", "__float__", "__complex__", "__index__",
          "__repr__", "__str__", "__format__")


def _if_known(func: Any, otherwise: Handler) -> Handler:
    def handler(recorder: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not recorder.is_stand_in(args[0]) or any(map(recorder.is_stand_in, (*args[1:], *kwargs.values()))):
            return otherwise(recorder, args, kwargs)
        known = recorder.known(args[0])
        if known is None:
            try:
                return otherwise(recorder, args, kwargs)
            except Interrupt:   # a guard on values is better than a break, but not than what needs no guard
                known = recorder.known(args[0], outside=True)
                if known is None:
                    raise
        return func(known, *args[1:], **kwargs)
    return handler


for _name in _TAKES:
    for _owner in (torch.Tensor, torch._C.TensorBase, torch, torch._C._VariableFunctions):
        _func = getattr(_owner, _name, None)
        if id(_func) in RULES:
            RULES[id(_func)] = (_func, _if_known(_func, RULES[id(_func)][1]))
