"""Values taken into Python from tensors that depend on nothing outside (known_values.py): answered instead of interrupting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .._core import is_a
from ..graph.tape import Step
from ..graph.values import Value
from ..reasons import Interrupt
from .torch_rules import RULES, Handler

__all__: list[str] = []

_TAKES = ("__bool__", "is_nonzero", "__contains__", "item", "tolist", "__int__", "__long__", "__float__", "__complex__", "__index__",
          "__repr__", "__str__", "__format__")
_TEXTS = _TAKES[-3:]


#: draw from [0, 1)
_DRAWS = (torch.rand, torch.rand_like)
#: comparison -> the bounds up to and from which a number decides it for all of [0, 1): (answer below, bound), (bound, answer above)
_DECIDED: dict[str, tuple[bool, Callable[[Any], bool], bool, Callable[[Any], bool]]] = {
    "lt": (False, lambda n: n <= 0, True, lambda n: n >= 1), "ge": (True, lambda n: n <= 0, False, lambda n: n >= 1),
    "le": (False, lambda n: n < 0, True, lambda n: n >= 1), "gt": (True, lambda n: n < 0, False, lambda n: n >= 1),
}


def certain(recorder: Any, tensor: Any) -> bool | None:
    """The truth of a comparison between one random number and a plain one, where it is the same whatever is drawn: `torch.rand(()) < 0.0`."""
    step = recorder.value_of(tensor).step
    if not is_a(step, Step) or step.target.name not in _DECIDED or step.target.reflected or len(step.args) != 2 or step.kwargs:
        return None
    drawn, number = step.args
    source = drawn.step if type(drawn) is Value else None
    if not is_a(source, Step) or source.target.func not in _DRAWS or drawn.storage.written or type(number) not in (int, float):
        return None
    below, is_below, above, is_above = _DECIDED[step.target.name]
    return below if is_below(number) else above if is_above(number) else None


def _if_known(func: Any, otherwise: Handler) -> Handler:
    def handler(recorder: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not recorder.is_stand_in(args[0]) or any(map(recorder.is_stand_in, (*args[1:], *kwargs.values()))):
            return otherwise(recorder, args, kwargs)
        known = recorder.known(args[0])
        if known is None and func.__name__ in ("__bool__", "is_nonzero", "item"):
            truth = certain(recorder, args[0])
            if truth is not None:
                return truth
        if known is None:
            try:
                return otherwise(recorder, args, kwargs)
            except Interrupt:   # a guard on values is better than a break, but not than what needs no guard
                known = recorder.known(args[0], outside=True)
                if known is None:
                    raise
        if func.__name__ in _TEXTS and recorder.guard_text is not None:
            recorder.guard_text()
        return func(known, *args[1:], **kwargs)
    return handler


for _name in _TAKES:
    for _owner in (torch.Tensor, torch._C.TensorBase, torch, torch._C._VariableFunctions):
        _func = getattr(_owner, _name, None)
        if id(_func) in RULES:
            RULES[id(_func)] = (_func, _if_known(_func, RULES[id(_func)][1]))
