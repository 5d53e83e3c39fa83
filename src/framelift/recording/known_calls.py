"""Operations that need values, not only shapes, asked again with the values that are known (known_values.py).

Their results enter the graph as constants, since no backend could follow a shape that depends on values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .._core import is_a
from ..graph.fx.targets import Getter, OneNode, Target, target_of
from ..graph.fx.values import Value
from ..torch_ports.graphs import tree_leaves
from ..torch_ports.operators import OpOverload, OpOverloadPacket
from ..torch_ports.tensors import TensorBase
from ..vocabulary.reasons import Interrupt
from .session import Recorder

UNDECIDED = object()
_MOST_LITERALS = 1 << 16
_GETITEM = (torch.Tensor.__getitem__, TensorBase.__getitem__)
_REASONS = ("tensor-item", "data-dependent-shape", "torch-operation")


def call_known(
    recorder: Recorder,
    target: Target,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    found: list[Value],
    stopped: Interrupt,
    symbolic: bool,
) -> Any:
    """The result of a call that was `stopped` because values decide about it; UNDECIDED where they are not known.

    `symbolic`: there are symbolic numbers among its arguments, so it cannot be run for real.
    """
    if (
        stopped.reason.id not in _REASONS
        or not found
        or type(target) is OneNode
        or is_a(target.func, (OpOverload, OpOverloadPacket))
    ):
        return UNDECIDED  # the last may be the program's own, with effects
    if target.func in _GETITEM and not symbolic:
        return _indexed(recorder, target, args)
    if stopped.reason.id == "tensor-item":
        numbers: list[Any] = []
        rest = with_numbers(recorder, args[1:], numbers)
        named = {name: with_numbers(recorder, arg, numbers) for name, arg in kwargs.items()}
        if numbers:
            return recorder.record(target, (*args[:1], *rest), named)
    if symbolic:
        return UNDECIDED
    real: dict[int, Any] = {id(value.stand_in): recorder.known(value.stand_in, outside=True) for value in found}
    if any(one is None for one in real.values()):
        return UNDECIDED
    copies = {key: one.clone() for key, one in real.items()}
    try:
        given = _replaced(args, copies), {name: _replaced(arg, copies) for name, arg in kwargs.items()}
        result = getattr(given[0][0], target.name) if type(target) is Getter else target.func(*given[0], **given[1])
    except Exception:
        return UNDECIDED
    if any(not torch.equal(real[key], copies[key]) for key in real):
        return UNDECIDED  # it writes to what it is given
    return _literals(recorder, result, list(copies.values()))


def _replaced(arg: Any, copies: dict[int, torch.Tensor]) -> Any:
    if id(arg) in copies:
        return copies[id(arg)]
    return type(arg)(_replaced(item, copies) for item in arg) if type(arg) in (list, tuple) else arg


def with_numbers(recorder: Recorder, arg: Any, numbers: list[Any]) -> Any:
    """The arguments with integers in place of tensors that hold one and are known; `numbers` are those put in."""
    if type(arg) in (list, tuple):
        return type(arg)(with_numbers(recorder, item, numbers) for item in arg)
    if type(arg) is slice:
        return slice(*(with_numbers(recorder, bound, numbers) for bound in (arg.start, arg.stop, arg.step)))
    if not recorder.is_stand_in(arg):
        return arg
    facts = recorder.value_of(arg).facts
    if facts.size.numel() != 1 or facts.dtype.is_floating_point or facts.dtype.is_complex:
        return arg
    known = recorder.known(arg, outside=True)
    if known is None:
        return arg
    numbers.append(known.item())
    return numbers[-1]


def _indexed(recorder: Recorder, target: Target, args: tuple[Any, ...]) -> Any:
    """An index by masks: by the places where they are true.  One by tensors of one integer: by the numbers."""
    tensor, index = args
    if not recorder.is_stand_in(tensor):
        return UNDECIDED
    parts: list[Any] = []
    replaced: list[Any] = []
    given = index if type(index) is tuple else (index,)
    size = recorder.value_of(tensor).facts.size
    # of the tensor, from the left; of an ellipsis what is left over
    takes = [_dimensions(recorder, part) for part in given]
    rest, place = len(size) - sum(takes), 0
    for part, dims in zip(given, takes):
        start = place
        place += dims if part is not ... else rest
        if not recorder.is_stand_in(part) or recorder.value_of(part).facts.dtype not in (torch.bool, torch.uint8):
            single = recorder.is_stand_in(part) and not recorder.value_of(part).facts.size
            parts.append(with_numbers(recorder, part, replaced) if single or type(part) is slice else part)
            continue
        known = recorder.known(part, outside=True)
        if (
            known is None
            or not known.ndim
            or known.dtype is not torch.bool
            or tuple(size[start:place]) != tuple(known.shape)
        ):
            return UNDECIDED  # a mask of another shape is an error, places are not
        replaced.append(part)
        parts += [_literal(recorder, places.contiguous(), {}) for places in known.nonzero(as_tuple=True)]
    if not replaced or any(part is UNDECIDED for part in parts):
        return UNDECIDED
    return recorder.record(target, (tensor, tuple(parts)), {})


def _dimensions(recorder: Recorder, part: Any) -> int:
    """How many dimensions of a tensor a part of an index is about; an ellipsis itself has no number."""
    if part is None or part is ... or type(part) is bool:
        return 0
    facts = recorder.value_of(part).facts if recorder.is_stand_in(part) else None
    return len(facts.size) if facts is not None and facts.dtype in (torch.bool, torch.uint8) else 1


def _literals(recorder: Recorder, result: Any, given: Sequence[torch.Tensor]) -> Any:
    """A result as constants of the graph; UNDECIDED where it looks at memory of what was given."""
    made = [one for one in tree_leaves(result) if is_a(one, torch.Tensor)]
    if any(type(one) is not torch.Tensor or one.layout is not torch.strided or one.is_quantized for one in made):
        return UNDECIDED
    memories = [_memory(one) for one in made]
    if not {_memory(one) for one in given}.isdisjoint(memories):
        return UNDECIDED
    bases: dict[int, Any] = {}
    for one in made:  # those that look at one memory
        if memories.count(_memory(one)) > 1 and _memory(one) not in bases:
            whole = one.new_empty(0).set_(one.untyped_storage())
            bases[_memory(one)] = _literal(recorder, whole, {})
    return _literal(recorder, result, bases)


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _literal(recorder: Recorder, result: Any, bases: dict[int, Any]) -> Any:
    """A part of a result; `bases`: constants of the memory that several parts look at."""
    if is_a(result, torch.Tensor):
        if result.numel() > _MOST_LITERALS:
            return UNDECIDED
        base = bases.get(_memory(result))
        laid = (tuple(result.shape), result.stride())
        if base is not None:
            if base is UNDECIDED or recorder.value_of(base).facts.dtype is not result.dtype:
                return UNDECIDED
            return recorder.record(target_of(torch.as_strided), (base, *laid, result.storage_offset()), {})
        options = {"dtype": result.dtype, "device": result.device}
        if not result.numel():
            return recorder.record(target_of(torch.empty_strided), laid, options)
        made = recorder.record(target_of(torch.tensor), (result.tolist(),), options)
        if recorder.value_of(made).facts.stride == result.stride():
            return made
        empty = recorder.record(target_of(torch.empty_strided), laid, options)
        return recorder.record(target_of(torch.Tensor.copy_), (empty, made), {})
    if type(result) in (list, tuple):
        parts = [_literal(recorder, part, bases) for part in result]
        return UNDECIDED if any(part is UNDECIDED for part in parts) else type(result)(parts)
    return result if type(result) in (bool, int, float, complex, str, type(None)) else UNDECIDED
