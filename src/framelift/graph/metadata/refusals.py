"""Errors that torch's kernels raise where fake tensors raise none.

A graph with such a call would fail when it runs, and the effects that the program had before it would be lost; and
where nobody uses the result, the error would not come at all.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Iterable
from typing import Any

import torch
from torch.random import fork_rng

from ..._core import is_a
from ...torch_ports.modes import DisableTorchFunction, disable_current_modes
from ...torch_ports.state import is_any_autocast_enabled
from ...torch_ports.tensors import VariableFunctions, nn_functions
from ...vocabulary.class_reads import name_of
from ...vocabulary.reasons import Interrupt
from ..fx.targets import Target
from ..fx.values import Value
from ..symbols.numbers import NUMBERS
from .arguments import rebuild
from .cache import Outcome
from .unheard import unheard


def _called(names: str, *others: Any) -> dict[int, Any]:
    """The functions and methods of torch with these names, and others, by their ids."""
    spaces = (torch, torch.Tensor, torch.nn.functional, nn_functions, VariableFunctions, torch.linalg)
    found = [getattr(space, name) for name in names.split() for space in spaces if hasattr(space, name)]
    return {id(function): function for function in (*found, *others)}


#: functions whose kernels want one dtype
_ONE_DTYPE = _called(
    """linear bilinear matmul mm bmm addmm addbmm baddbmm mv addmv dot vdot inner conv1d conv2d conv3d
    conv_transpose1d conv_transpose2d conv_transpose3d multi_dot chain_matmul
    addmm_ addbmm_ baddbmm_ addmv_ __matmul__ __rmatmul__""",
    operator.matmul,
)
#: torch's own meta functions give plain tensors for these
_QUANTIZED = frozenset(
    getattr(torch, name) for name in ("qint8", "quint8", "qint32", "quint4x2", "quint2x4") if hasattr(torch, name)
)
#: these convert whatever they are given
_CONVERT = _called("__setitem__", operator.setitem)
_MOST_ELEMENTS = 10_000  # of a trial


def check_arguments(target: Target, kept: list[Any], named: dict[str, Any], found: list[Value]) -> None:
    """Before fakes are asked."""
    if (
        id(target.func) in _ONE_DTYPE
        and len({value.facts.dtype for value in found}) > 1
        and not is_any_autocast_enabled()
    ):
        raise Interrupt("torch-operation-failed", f"{target.name} on tensors of different dtypes")
    if any(type(arg) is torch.dtype and arg in _QUANTIZED for arg in (*kept, *named.values())):
        raise Interrupt("tensor-kind", f"{target.name} of a quantized dtype")


def check_writes(target: Target, kept: list[Any], named: dict[str, Any], found: list[Value], outcome: Outcome) -> None:
    """An operation that writes fewer kinds of numbers than it is given: most are refused, so it is tried on zeros."""
    out: Any = named.get("out")
    to_write = out if type(out) in (list, tuple) else (out,)
    if any(type(one) is Value and one not in [found[i] for i in outcome.written] for one in to_write):
        # `matrix_rank` gives fakes what it was to write to as it is, and tensors of compilers too
        raise Interrupt("torch-operation", f"{target.name}, which writes to `out` in plain torch alone,")
    if not outcome.written or id(target.func) in _CONVERT:
        return
    given = max(
        map(_kind, [value.facts.dtype for value in found] + [type(arg) for arg in _scalars((*kept, *named.values()))])
    )
    if all(_kind(found[i].facts.dtype) >= given for i in outcome.written):
        return
    # whatever is symbolic: which numbers are taken depends on no size
    sizes = {id(value): value.facts.template().shape for value in found}
    if any(value.facts.device.type != "cpu" or sizes[id(value)].numel() > _MOST_ELEMENTS for value in found):
        raise Interrupt("torch-operation-failed", f"{target.name} of numbers that what it writes cannot hold")
    said = _trial(target, kept, named, {id(value): (sizes[id(value)], value.facts.dtype) for value in found})
    if said:
        raise Interrupt("torch-operation-failed", f"{target.name}: {said}")


#: dtypes that every kernel takes, as long as all arguments have the same
_TAKEN = (torch.float32, torch.float64)
_C_CALLABLES = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
#: (callable, dtypes, classes of other arguments) that a kernel took
_taken: set[tuple[Any, ...]] = set()


def check_dtypes(target: Target, kept: list[Any], named: dict[str, Any], found: list[Value]) -> None:
    """Kernels refuse dtypes that torch's meta functions take: `floor` of truth values, `lt` of complex numbers.  Each
    kernel is tried until it takes such a choice of dtypes."""
    dtypes = tuple([value.facts.dtype for value in found])
    if not dtypes or dtypes[0] in _TAKEN and dtypes.count(dtypes[0]) == len(dtypes):
        return
    others = [arg for arg in (*kept, *named.values()) if type(arg) is not Value]
    if type(target) is not Target or type(target.func) not in _C_CALLABLES:
        return
    if any(type(arg) not in _PLAIN for arg in others):
        return
    if is_any_autocast_enabled():  # other dtypes reach the kernel
        return
    key = (target.func, dtypes, *map(type, others), *named)
    if key in _taken or any(value.facts.device.type != "cpu" for value in found):
        return
    sizes = [value.facts.template().shape for value in found]
    if sum(map(torch.Size.numel, sizes)) > _MOST_ELEMENTS:
        return
    said = _trial(target, kept, named, dict(zip(map(id, found), zip(sizes, dtypes))))
    if said:
        raise Interrupt("torch-operation-failed", f"{target.name}: {said}")
    _taken.add(key)


_PLAIN = (bool, int, float, complex, str, torch.dtype, torch.memory_format, type(None))


def _identities(size: torch.Size, **kind: Any) -> torch.Tensor:
    made = torch.zeros(size, **kind)
    if len(size) > 1:
        made.diagonal(0, -2, -1).fill_(1)
    return made


def _trial(target: Target, kept: list[Any], named: dict[str, Any], tensors: dict[int, Any]) -> str:
    """Return the error of a kernel for zeros, and if it refuses them for others, which it may divide by or invert."""
    said = ""
    for fill in (torch.zeros, torch.ones, _identities):
        made = {key: fill(size, dtype=dtype, device="cpu") for key, (size, dtype) in tensors.items()}

        def real(value: Any, made: dict[int, Any] = made) -> Any:
            return value.hint if type(value) in NUMBERS else made[id(value)]

        try:
            args = [rebuild(arg, real) for arg in kept]
            with unheard(), fork_rng(devices=()), DisableTorchFunction(), disable_current_modes():
                target.func(*args, **{name: rebuild(arg, real) for name, arg in named.items()})
            return ""
        except torch.linalg.LinAlgError:  # of the numbers, not of their kind
            return ""
        except Exception as error:
            said = f"{name_of(type(error))}: {error}"
    return said


def _scalars(args: Iterable[Any]) -> list[Any]:
    """The numbers among the operands that may be of another kind; ints are often dimensions, and bools flags."""
    return [arg for arg in args if type(arg) in (float, complex)]


def _kind(of: Any) -> int:
    """Which numbers a dtype or a class of numbers holds: truth values, integers, fractions, complex numbers."""
    if of is complex or is_a(of, torch.dtype) and of.is_complex:
        return 3
    if of is float or is_a(of, torch.dtype) and of.is_floating_point:
        return 2
    return int(of is not torch.bool)


# ---- A fact of torch (seen in 2.11 to 2.13): what asks a tensor without data for its value gets a Runtime ----


_NO_DATA = "meta tensor"  # "Tensor.item() cannot be called on meta tensors"


def asks_for_value(error: RuntimeError) -> bool:
    """Return whether torch raised this because a stand-in was asked for its value."""
    return _NO_DATA in str(error)
