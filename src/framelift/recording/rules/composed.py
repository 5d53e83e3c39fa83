"""Operations that torch composes in C++ by looking at values that sizes decide: composed here of the same ones."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import torch

from ...graph.fx.targets import target_of
from .ranks import Handler, rule

if TYPE_CHECKING:
    from ..session import Recorder

_MOST_ROWS = 4096


def _plain(recorder: Recorder, tensor: Any, kwargs: dict[str, Any]) -> bool:
    """Return whether sizes are plain numbers; and nothing else is asked for."""
    return (
        recorder.is_stand_in(tensor)
        and not kwargs
        and all(type(n) is int for n in recorder.value_of(tensor).facts.size)
    )


def _combinations(func: Any) -> Handler:
    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensor, r, again = bound(*args, **kwargs)
        size: tuple[int, ...] = (
            recorder.value_of(tensor).facts.size
            if _plain(recorder, tensor, {}) and type(r) is int and type(again) is bool
            else ()
        )
        if (
            len(size) != 1
            or not 0 < r <= 8
            or not 0 < math.comb(size[0] + r - 1 if again else size[0], r) <= _MOST_ROWS
        ):
            return recorder.record(target_of(func), args, kwargs)
        rows = (itertools.combinations_with_replacement if again else itertools.combinations)(range(size[0]), r)
        places = recorder.call(
            torch.tensor, (list(map(list, rows)),), {"device": recorder.value_of(tensor).facts.device}
        )
        return recorder.call(torch.Tensor.__getitem__, (tensor, places), {})

    def bound(input: Any, r: Any = 2, with_replacement: Any = False) -> tuple[Any, Any, Any]:
        return input, r, with_replacement

    return handler


def _covariance(recorder: Recorder, tensor: Any, correction: int) -> Any:
    """Rows are variables.  As torch does it: the mean by a sum and a division, then one product."""
    call = recorder.call
    if len(recorder.value_of(tensor).facts.size) < 2:
        tensor = call(torch.Tensor.reshape, (tensor, (1, -1)), {})
    count = recorder.value_of(tensor).facts.size[1]
    mean = call(torch.Tensor.div, (call(torch.Tensor.sum, (tensor, 1), {}), count), {})
    centred = call(torch.Tensor.sub, (tensor, call(torch.Tensor.unsqueeze, (mean, 1), {})), {})
    product = call(torch.mm, (centred, call(torch.Tensor.conj, (call(torch.Tensor.t, (centred,), {}),), {})), {})
    return call(torch.Tensor.squeeze, (call(torch.Tensor.div, (product, count - correction), {}),), {})


def _is_simple(recorder: Recorder, tensor: Any, correction: Any) -> bool:
    if not _plain(recorder, tensor, {}) or type(correction) is not int:
        return False
    facts = recorder.value_of(tensor).facts
    count = facts.size[-1] if facts.size else 1
    return (
        0 < len(facts.size) <= 2
        and (facts.dtype.is_floating_point or facts.dtype.is_complex)
        and count - correction > 0
    )


def _cov(func: Any) -> Handler:
    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if (
            len(args) == 1
            and not kwargs.keys() - {"correction"}
            and _is_simple(recorder, args[0], kwargs.get("correction", 1))
        ):
            return _covariance(recorder, args[0], kwargs.get("correction", 1))
        return recorder.record(target_of(func), args, kwargs)

    return handler


def _corrcoef(func: Any) -> Handler:
    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if (
            len(args) != 1
            or kwargs
            or not _is_simple(recorder, args[0], 1)
            or recorder.value_of(args[0]).facts.dtype.is_complex
        ):
            return recorder.record(target_of(func), args, kwargs)
        call = recorder.call
        found = _covariance(recorder, args[0], 1)
        if not recorder.value_of(found).facts.size:
            return call(torch.Tensor.div, (found, found), {})
        deviation = call(torch.Tensor.sqrt, (call(torch.Tensor.diag, (found,), {}),), {})
        for dim in (1, 0):
            found = call(torch.Tensor.div, (found, call(torch.Tensor.unsqueeze, (deviation, dim), {})), {})
        return call(torch.Tensor.clip, (found, -1, 1), {})

    return handler


for _owner in (torch, torch.Tensor):
    for _name, _made in (("cov", _cov), ("corrcoef", _corrcoef)):
        _func = getattr(_owner, _name)
        rule(_func)(_made(_func))
rule(torch.combinations)(_combinations(torch.combinations))


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
        by: Any = args[1] if len(args) > 1 else kwargs.get("tensor_indices_or_sections")
        facts = recorder.value_of(by).facts if recorder.is_stand_in(by) else None
        if facts is None or facts.dtype is not torch.int64 or facts.device.type != "cpu" or len(facts.size) > 1:
            return recorder.record(target_of(func), args, kwargs)
        named = {name: value for name, value in kwargs.items() if name != "tensor_indices_or_sections"}
        numbers = recorder.call(torch.Tensor.tolist, (by,), {})
        return recorder.record(target_of(func), (args[0], numbers, *args[2:]), named)

    return handler


for _owner in (torch, torch.Tensor):
    rule(_owner.tensor_split)(_split_by_tensor(_owner.tensor_split))


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
