"""Values taken into Python from tensors that depend on no input (known_values.py): answered instead of interrupting."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ..._core import is_a
from ...graph.fx.values import Step, Value
from ...graph.metadata.facts import Facts
from ...torch_ports.tensors import TensorBase, VariableFunctions
from ...vocabulary.reasons import Interrupt
from ..session import Recorder
from .ranks import Handler, Rank, around

_TAKES = (
    "__bool__",
    "is_nonzero",
    "__contains__",
    "item",
    "tolist",
    "__int__",
    "__long__",
    "__float__",
    "__complex__",
    "__index__",
    "__repr__",
    "__str__",
    "__format__",
)
_TEXTS = _TAKES[-3:]


#: draw from [0, 1)
_DRAWS = (torch.rand, torch.rand_like)
#: types for which torch rounds no draw up to 1
_EXACT_DRAWS = (torch.float32, torch.float64)
#: comparison -> (answer, numbers for which it is that, answer, numbers for which it is that), whatever is drawn from
#: [0, 1)
_DECIDED: dict[str, tuple[bool, Callable[[Any], bool], bool, Callable[[Any], bool]]] = {
    "lt": (False, lambda n: n <= 0, True, lambda n: n >= 1),
    "ge": (True, lambda n: n <= 0, False, lambda n: n >= 1),
    "le": (False, lambda n: n < 0, True, lambda n: n >= 1),
    "gt": (True, lambda n: n < 0, False, lambda n: n >= 1),
}
#: the callables behind these names
_COMPARISONS = {
    id(func): name
    for name in _DECIDED
    for func in (getattr(torch, name), getattr(torch.Tensor, name), getattr(torch.Tensor, f"__{name}__"))
}


def certain(recorder: Recorder, tensor: Any) -> bool | None:
    """The one element of a comparison between a random number and a plain one, where it is the same whatever is drawn.

    `torch.rand(()) < 0.0` is False.  None where that is not certain: among others where the tensor has not exactly
    one element (such a tensor has no truth and no item), where it was written to since, or where its memory may be
    the program's.
    """
    value = recorder.value_of(tensor)
    step = value.step
    if not is_a(step, Step) or len(step.args) != 2 or step.kwargs or not _is_one_element(value):
        return None
    decided = _DECIDED.get(_COMPARISONS.get(id(step.target.func), ""))
    drawn, number = step.args
    source = drawn.step if type(drawn) is Value else None
    if decided is None or not is_a(source, Step) or source.target.func not in _DRAWS or "out" in source.kwargs:
        return None
    if not _is_one_element(drawn) or drawn.facts.dtype not in _EXACT_DRAWS or type(number) not in (int, float):
        return None
    below, is_below, above, is_above = decided
    return below if is_below(number) else above if is_above(number) else None


def _is_one_element(value: Value) -> bool:
    """Return whether a result made inside has one element and is what its step gave: nothing has written to it
    since.
    """
    return (
        type(value.facts) is Facts
        and value.facts.size.numel() == 1
        and not value.storage.written
        and not value.storage.external
    )


def _if_known(func: Any, otherwise: Handler | None) -> Handler | None:
    if otherwise is None:
        return None

    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
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
            except Interrupt:  # a guard on values is better than a break, but not than what needs no guard
                known = recorder.known(args[0], outside=True)
                if known is None:
                    raise
        if func.__name__ in _TEXTS:
            if type(known) is not type(args[0]):  # a text begins with the class
                return otherwise(recorder, args, kwargs)
            if recorder.callbacks.guard_text is not None:
                recorder.callbacks.guard_text()
        return func(known, *args[1:], **kwargs)

    return handler


_OWNERS = (torch.Tensor, TensorBase, torch, VariableFunctions)
_found = [getattr(owner, name) for name in _TAKES for owner in _OWNERS if hasattr(owner, name)]
for _func in {id(one): one for one in _found}.values():  # classes share methods
    around(Rank.KNOWN, _func, functools.partial(_if_known, _func))
