"""Which recorded operations cannot fail on real data, once their shapes and types were found good.

A graph that fails is run again eagerly, so what it wrote to its inputs before has to be taken back.  Inputs are
copied for that only where something that may fail comes with or after the first write.  What is in no table may
fail.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ..._core import is_a
from ...bytecode.handlers import decode
from ...torch_ports.operators import OpOverload, OpOverloadPacket
from ...torch_ports.tensors import VariableFunctions, nn_functions
from ..fx.targets import Getter, Target, getter_target, tensor_method_name
from ..fx.values import Step, Value
from ..symbols.meanings import FromSize
from ..symbols.number_nodes import numbers_in
from ..symbols.numbers import Float, Int

#: of integers alone, these fail on a zero or a negative number
_MAY_FAIL = frozenset(
    ("div", "floor_divide", "floordiv", "ifloordiv", "remainder", "mod", "imod", "fmod", "pow", "ipow")
)
#: besides what torch itself says to go element by element
_SURE = frozenset(
    """
    iadd isub imul itruediv truediv invert pos copy fill zero detach requires_grad data view reshape flatten
    unflatten transpose permute movedim t squeeze unsqueeze expand expand_as narrow split chunk unbind select
    contiguous clone to float double half bfloat16 int long bool type_as cat stack zeros ones full empty arange eye
    linspace tensor rand randn rand_like randn_like tril triu all any max min argmax argmin zeros_like ones_like
    full_like empty_like sum mean amax amin cumsum softmax log_softmax flip roll as_tensor
""".split()
)
#: of floating point tensors
_SURE_OF_FLOATS = frozenset(
    """
    matmul mm bmm addmm linear conv1d conv2d conv3d batch_norm layer_norm group_norm instance_norm rms_norm
    max_pool2d avg_pool2d adaptive_avg_pool2d dropout scaled_dot_product_attention interpolate pad norm var std
    linalg_vector_norm
""".split()
)

#: on CUDA alone: an index that is out of bounds ends CUDA for the process, and no call raises for it
_SURE_ON_CUDA = frozenset(
    "embedding index_select index_copy index_add index_fill gather scatter scatter_add take_along_dim".split()
)

#: besides those that go element by element: their numbers become elements
_OF_NUMBERS = frozenset("iadd isub imul itruediv truediv fill full full_like setitem".split())
#: these convert a number to the type of the elements, which may be too narrow for any
_CONVERTING = frozenset(("fill", "full", "full_like", "setitem"))
_CONVERTING_CONSTANTS = _CONVERTING | {
    "new_full",
    "masked_fill",
    "index_fill",
    "clamp",
    "clamp_min",
    "clamp_max",
    "clip",
}


@functools.cache
def goes_by_element(name: str) -> bool:
    """Return whether torch says that an operation of this name goes element by element."""
    packet = getattr(torch.ops.aten, name, None)
    return packet is not None and all(
        torch.Tag.pointwise in getattr(packet, each).tags for each in packet.overloads()[:1]
    )


def _may_overflow(step: Step, name: str) -> bool:
    """Return whether a number that changes becomes an element or a part of one: torch takes ints of 64 bits alone."""
    if name not in _OF_NUMBERS and not goes_by_element(name):
        return False
    numbers = numbers_in(step.args[2:] if name == "setitem" else [step.args, step.kwargs])
    return any(
        type(number) is Int and not _is_of_sizes(number) or type(number) is Float and name in _CONVERTING
        for number in numbers
    )


def _is_out_of_range(step: Step, name: str) -> bool:
    """Return True where a constant is converted to the type of the elements, and may be too large for it."""
    if name not in _CONVERTING_CONSTANTS:
        return False
    facts = next((value.facts for value in step.inputs if value.facts is not None), None)
    dtype = torch.float16 if facts is None else facts.dtype  # what makes a tensor: the narrowest
    if dtype is torch.bool or dtype.is_complex:
        return False
    most = torch.finfo(dtype).max if dtype.is_floating_point else torch.iinfo(dtype).max
    given = step.args[2:] if name == "setitem" else (*step.args, *step.kwargs.values())
    return any(type(one) in (int, float) and most < abs(one) < math.inf for one in given)


def _is_of_sizes(number: Int) -> bool:
    return all(type(number.home.meanings.get(str(symbol))) is FromSize for symbol in number.node.expr.free_symbols)


def _torch_callables() -> dict[int, Any]:
    """Return torch's own callables for the names of the tables: the program may have operators of the same name."""
    owners = (torch, VariableFunctions, nn_functions, torch.nn.functional, torch.special, torch.linalg, operator)
    return {id(member): member for owner in owners for name in dir(owner) if callable(member := getattr(owner, name))}


_OF_TORCH = _torch_callables()


def _is_of_torch(target: Target) -> bool:
    func = target.func
    if (
        type(target) is Getter
        or target is getter_target("data")
        or tensor_method_name(func) is not None
        or id(func) in _OF_TORCH
    ):
        return True
    packet = func.overloadpacket if type(func) is OpOverload else func
    return type(packet) is OpOverloadPacket and getattr(torch.ops.aten, packet.__name__, None) is packet


def _is_sure(step: Step) -> bool:
    name = step.target.name
    if not _is_of_torch(step.target) or _may_overflow(step, name) or _is_out_of_range(step, name):
        return False
    if name in ("getitem", "setitem"):  # numbers were looked at, the elements of tensors were not
        return not _indexed_by_tensors(step.args[1], name == "setitem" and is_a(step.args[2], Value))
    facts = [value.facts for value in step.inputs if value.facts is not None]
    if name in _SURE_ON_CUDA:
        return all(one.device.type == "cuda" for one in facts)
    types = {one.dtype for one in facts}
    if name == "scaled_dot_product_attention":
        types.discard(torch.bool)  # a mask
    floats = [kind.is_floating_point for kind in types]
    if name in _SURE_OF_FLOATS:  # autocast brings all of them to one type, but for the widest
        return all(floats) and (len(types) == 1 or step.state.autocast is not None and torch.float64 not in types)
    if name in _MAY_FAIL:
        return any(floats)
    return name in _SURE or name.startswith(("foreach_", "fused_")) or goes_by_element(name)


def _indexed_by_tensors(index: Any, elements: bool) -> bool:
    """Return whether an index may be out of bounds; masks are not, but `elements` to be put there may be too few."""
    if is_a(index, (tuple, list)):
        return any(_indexed_by_tensors(part, elements) for part in index)
    return is_a(index, Value) and (elements or index.facts.dtype is not torch.bool) or is_a(index, torch.Tensor)


def _writes_inputs(step: Step) -> bool:
    return step.effect and any(value.storage.external and value.storage.written for value in step.inputs)


def writes_uncounted(tape: Sequence[Step]) -> bool:
    """Return whether an input may be written to by way of `Tensor.data`, whose writes are not counted as the
    input's.
    """
    data = getter_target("data")
    return any(
        step.target is data and step.inputs[0].storage.external and step.inputs[0].storage.written for step in tape
    )


def changes_history(tape: Sequence[Step]) -> bool:
    """Return whether an input that is written to becomes another one for autograd."""
    return any(
        value.storage.external
        and value.storage.written
        and value.facts is not None
        and value.facts.requires_grad
        and not value.facts.is_leaf
        for step in tape
        if step.effect
        for value in step.inputs
    )


def fails_late(tape: Sequence[Step], in_order: bool) -> list[Step]:
    """The steps that may fail once an input is written to; all that may fail, unless the graph runs `in_order`."""
    first = next((i for i, step in enumerate(tape) if _writes_inputs(step)), len(tape)) if in_order else 0
    return [step for step in tape[first:] if not _is_sure(step)]


def in_handler(stacks: Iterable[tuple[Any, ...]]) -> bool:
    """Return whether the program sees an exception before it leaves: a frame of these stacks is in a `try` or
    `with`.
    """
    known: set[tuple[int, int]] = set()
    for stack in stacks:
        for code, offset in zip(stack[::2], stack[1::2]):
            if (id(code), offset) in known:
                continue
            known.add((id(code), offset))
            if any(start <= offset // 2 < end for start, end, _, _ in decode(code.co_exceptiontable)):
                return True
    return False
