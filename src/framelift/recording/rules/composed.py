"""Operations that are nothing for the arguments that they are given, or that take a number out of a tensor in C++."""

from __future__ import annotations

from typing import Any

import torch

from ...graph.fx.targets import target_of
from ...vocabulary.reasons import Interrupt
from ..session import Recorder
from .ranks import Handler, rule


def _kept_whole(func: Any, name: str) -> Handler:
    """Dropout that drops nothing gives its very input, which operations on symbolic sizes would give as a copy."""

    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = dict(zip(("input", "p", name, "inplace"), args)) | kwargs
        p, drops = given.get("p", 0.5), given.get(name, True)
        if (
            type(p) in (int, float)
            and 0 <= p <= 1
            and type(drops) is bool
            and (p == 0 or not drops)
            and given.get("inplace", False) is False
            and recorder.is_stand_in(given.get("input"))
            and not recorder.policy.keeps_all
        ):
            return given["input"]
        return recorder.record(target_of(func), args, kwargs)

    return handler


for _dropout, _name in ((torch.nn.functional.dropout, "training"), (torch.dropout, "train")):
    rule(_dropout)(_kept_whole(_dropout, _name))


def _split_by_tensor(func: Any) -> Handler:
    """A tensor on the CPU says where to split: torch takes its numbers, and splits by these."""

    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = "tensor_indices_or_sections"
        by: Any = args[1] if len(args) > 1 else kwargs.get(name)
        facts = recorder.value_of(by).facts if recorder.is_stand_in(by) else None
        if facts is None or facts.dtype is not torch.int64 or facts.device.type != "cpu" or len(facts.size) > 1:
            return recorder.record(target_of(func), args, kwargs)
        numbers = recorder.call(torch.Tensor.tolist, (by,), {})
        named = {key: value for key, value in kwargs.items() if key != name}
        return recorder.record(target_of(func), (args[0], numbers, *args[2:]), named)

    return handler


for _func in (torch.tensor_split, torch.Tensor.tensor_split):
    rule(_func)(_split_by_tensor(_func))


def _by_place(func: Any) -> Handler:
    """`from` is no name that a graph's code can have, neither of an argument nor, in compilers, of the overload."""

    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        named = dict(kwargs)
        if len(args) == 1 and named.keys() >= {"from", "to"}:
            args = (*args, named.pop("from"), named.pop("to"))
        if "from" in named or func is torch.Tensor.random_ and len(args) > 2 and not recorder.runs_as_is():
            raise Interrupt("torch-operation", f"{func.__name__} from a number on")
        return recorder.record(target_of(func), args, named)

    return handler


for _name in ("random_", "uniform_"):
    _func = getattr(torch.Tensor, _name)
    rule(_func)(_by_place(_func))


def _lerp_by(func: Any) -> Handler:
    """A weight that is a tensor of one number is a number that torch takes out of it: it is left in the graph."""

    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given: dict[str, Any] = dict(zip(("self", "tensors1", "weight"), args)) | kwargs
        weight, first = given.get("weight"), given.get("self", ())
        if recorder.is_stand_in(weight) and type(first) in (list, tuple):
            facts = [recorder.value_of(one).facts for one in (weight, *first)]
            if not facts[0].size and len({(one.dtype, one.device) for one in facts}) == 1:
                weight = recorder.call(torch.Tensor.detach, (weight,), {})
                return recorder.record(target_of(func), (first, given["tensors1"], [weight] * len(first)), {})
        return recorder.record(target_of(func), args, kwargs)

    return handler


for _name in ("_foreach_lerp", "_foreach_lerp_"):
    _func = getattr(torch, _name)
    rule(_func)(_lerp_by(_func))
