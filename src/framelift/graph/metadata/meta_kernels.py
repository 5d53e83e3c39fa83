"""Operations whose metadata torch's own meta kernels give, whatever the device: asked instead of fake tensors, at a
fifth of the cost.

Only for operations that write nothing, draw no random numbers, and whose results lie on the one device of their
arguments, with the same strides there as on any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from ...torch_ports.tensors import TensorBase, nn_functions
from ..fx.values import Value
from ..state.torch_state import State
from .cache import ALL
from .facts import Facts

_METHODS = """
    add sub rsub mul div true_divide neg abs exp exp2 expm1 log log1p log2 sqrt rsqrt reciprocal sin cos tan tanh
    sigmoid relu square pow erf floor ceil round sign clamp clamp_min clamp_max maximum minimum eq ne lt le gt ge
    logical_not __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __rdiv__ __pow__ __neg__
    __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __and__ __or__ __invert__ __matmul__ matmul mm bmm addmm baddbmm
    softmax log_softmax sum mean view reshape transpose permute expand expand_as unsqueeze squeeze flatten unflatten
    select narrow chunk split unbind t swapaxes view_as repeat float double half bfloat16 long int bool masked_fill
    __getitem__
"""
_FUNCTIONS = """
    add sub mul div neg abs exp log sqrt rsqrt reciprocal sin cos tanh sigmoid relu square pow erf clamp maximum
    minimum eq ne lt le gt ge logical_not matmul mm _int_mm bmm addmm baddbmm softmax log_softmax sum mean reshape
    transpose permute unsqueeze squeeze flatten chunk cat stack masked_fill where
"""
_ELSEWHERE: tuple[Any, ...] = (F.linear, F.gelu, F.silu, F.relu, F.softmax, F.log_softmax, F.layer_norm, F.pad)


def _table() -> dict[int, Any]:
    found = [
        getattr(owner, name)
        for names, owners in ((_METHODS, (torch.Tensor, TensorBase)), (_FUNCTIONS, (torch,)))
        for name in names.split()
        for owner in owners
        if hasattr(owner, name)
    ]
    return {id(func): func for func in (*found, *_ELSEWHERE)}


_LIGHT = _table()
_INDEXING = frozenset({id(torch.Tensor.__getitem__), id(TensorBase.__getitem__)})
_CASTS = {id(func): func for func in (torch.Tensor.to, TensorBase.to, torch.Tensor.type_as, TensorBase.type_as)}


#: results of these lie in the order of their dimensions, whatever the arguments do
_IN_ORDER = "new_zeros new_ones new_full new_empty new_tensor mm bmm"
_LAID_OUT_BY = {
    id(func): (count, func)
    for count, funcs in (
        (
            0,
            [
                F.linear,
                nn_functions.linear,
                F.embedding,
                F.layer_norm,
                *(
                    getattr(owner, name)
                    for name in _IN_ORDER.split()
                    for owner in (torch.Tensor, TensorBase, torch)
                    if hasattr(owner, name)
                ),
            ],
        ),
        (1, [torch.Tensor.type_as, TensorBase.type_as]),
    )
    for func in funcs
}


def laid_out_by(func: Any) -> int:
    """From the strides of how many of its first tensors the strides of an operation's results follow."""
    found = _LAID_OUT_BY.get(id(func))
    return ALL if found is None else found[0]


def runs_on_meta(
    func: Any, facts: Sequence[Facts], args: Sequence[Any], named: Mapping[str, Any], state: State
) -> bool:
    """Return whether meta kernels may be asked.  Autocast casts by device, and an index that is a tensor may be a
    mask.
    """
    if not facts or state.autocast is not None or state.inference:
        return False
    if id(func) in _CASTS:
        if any(type(arg) not in (Value, torch.dtype, bool) for arg in (*args, *named.values())):
            return False  # a device, or another order in memory
    elif id(func) not in _LIGHT or "rounding_mode" in named or "out" in named:
        return False
    elif func is F.pad and any(type(arg) is str and arg != "constant" for arg in (*args, *named.values())):
        return False  # kernels of the other modes have layouts of their own
    if id(func) in _INDEXING and len(facts) > 1:
        return False
    device = facts[0].device
    return all(one.device == device and not (one.is_conj or one.is_neg or one.is_inference) for one in facts)
