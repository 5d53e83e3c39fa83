"""Operations that take a Python number and are given a tensor instead: eager torch reads its value, a graph must not.

Optimizers that know they are compiled keep their step counts as tensors, and hand such tensors to `alpha=` and
`value=`.  They are recorded as the multiplication they stand for, in the precision that kernels calculate with.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from ...graph.fx.targets import target_of
from ...graph.symbols.number_nodes import graph_values
from ...graph.symbols.numbers import Float
from ...torch_ports.tensors import (
    TensorBase,
    VariableFunctions,
    foreach_div,
    foreach_mul,
    foreach_pow,
    fused_adagrad,
    fused_adam,
    fused_adamw,
    fused_sgd,
)
from ...vocabulary.reasons import Interrupt
from ..session import Recorder
from .ranks import Handler, rule


def _record(recorder: Recorder, func: Any, *args: Any, **kwargs: Any) -> Any:
    return recorder.record(target_of(func), args, kwargs)


def _without(kwargs: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in kwargs.items() if key != name}


_WIDE = (torch.float32, torch.float64)
_NARROW = (torch.float16, torch.bfloat16)


def _multiplied(recorder: Recorder, func: Any, args: tuple[Any, ...], number: Any) -> torch.dtype | None:
    """The dtype to multiply in, where an operation on these tensors may be a multiplication by the number and an
    addition; None where no tensor is in the place of a number, or one that torch refuses there.
    """
    if not recorder.is_stand_in(number) or not all(map(recorder.is_stand_in, args)):
        return None
    facts = recorder.value_of(number).facts
    if facts.size or facts.requires_grad or facts.dtype.is_complex:
        return None
    given = [recorder.value_of(arg).facts for arg in args]
    wide = _promoted(recorder, args)
    if wide not in _WIDE or any(one.dtype is not wide and not one.size for one in given):
        same = len({one.dtype for one in given}) == 1
        if not same or wide not in _NARROW:  # integers are refused, a tensor of one is a number
            raise Interrupt("torch-operation", f"{func.__name__} with a tensor in the place of a number")
        wide = torch.float32
    return wide


def _finished(recorder: Recorder, func: Any, args: tuple[Any, ...], scaled: Any, kwargs: dict[str, Any]) -> Any:
    made = _record(recorder, func, args[0], scaled, **kwargs)
    return made if kwargs or made is args[0] else _in(recorder, _promoted(recorder, args), made)


def _promoted(recorder: Recorder, args: tuple[Any, ...]) -> torch.dtype:
    return functools.reduce(torch.promote_types, [recorder.value_of(arg).facts.dtype for arg in args])


def _in(recorder: Recorder, dtype: torch.dtype, tensor: Any) -> Any:
    is_so = recorder.value_of(tensor).facts.dtype is dtype
    return tensor if is_so else _record(recorder, torch.Tensor.to, tensor, dtype)


def _as_kernels_take_it(recorder: Recorder, args: tuple[Any, ...], number: Any) -> Any:
    """The CPU's kernels of half precision round the number first."""
    dtype, device = _promoted(recorder, args), recorder.value_of(args[0]).facts.device
    return _in(recorder, dtype, number) if dtype in _NARROW and device.type == "cpu" else number


def _scaled(func: Any) -> Handler:
    """add and sub: `alpha` times the other."""

    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) == 2 and (wide := _multiplied(recorder, func, args, kwargs.get("alpha"))):
            number = _in(recorder, wide, _as_kernels_take_it(recorder, args, kwargs["alpha"]))
            scaled = _record(recorder, torch.Tensor.mul, _in(recorder, wide, args[1]), number)
            return _finished(recorder, func, args, scaled, _without(kwargs, "alpha"))
        return _record(recorder, func, *args, **kwargs)

    return handler


def _fused(func: Any, combine: Any, add: Any) -> Handler:
    """addcmul and addcdiv: `value` times the combination of the second and the third."""

    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) == 3 and (wide := _multiplied(recorder, func, args, kwargs.get("value"))):
            combined = _record(recorder, combine, _in(recorder, wide, args[1]), _in(recorder, wide, args[2]))
            scaled = _record(recorder, torch.Tensor.mul, combined, kwargs["value"])
            return _finished(recorder, add, args, scaled, _without(kwargs, "value"))
        return _record(recorder, func, *args, **kwargs)

    return handler


def _is_narrow(recorder: Recorder, lists: Sequence[Any]) -> bool:
    """Return whether kernels calculate more precisely than these lists of tensors hold: an operation in two steps would
    round twice.
    """
    tensors = [one for each in lists for one in each if recorder.is_stand_in(one)]
    return any(recorder.value_of(one).facts.dtype in _NARROW for one in tensors)


def _rows(*lists: Any) -> list[tuple[Any, ...]] | None:
    """The tensors of lists that belong together; None: torch refuses these lists."""
    return list(zip(*lists)) if len({*map(len, lists)}) == 1 else None


def _each_scaled(func: Any, one: Handler, in_place: bool) -> Handler:
    """The same for lists of tensors."""

    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if recorder.is_stand_in(kwargs.get("alpha")) and len(args) == 2 and type(args[1]) in (list, tuple):
            if _is_narrow(recorder, args) and (rows := _rows(*args)):
                results = tuple([one(recorder, row, kwargs) for row in rows])
                return args[0] if in_place else results
            scaled = _record(recorder, foreach_mul, args[1], kwargs["alpha"])
            return _record(recorder, func, args[0], scaled, **_without(kwargs, "alpha"))
        return _record(recorder, func, *args, **kwargs)

    return handler


def _each_fused(func: Any, combine: Any, add: Any, one: Handler, in_place: bool) -> Handler:
    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = {**kwargs, **dict(zip(("self", "tensor1", "tensor2", "value"), args))}
        value: Any = given.get("value", given.get("scalars"))
        packed = recorder.is_stand_in(value) and bool(recorder.value_of(value).facts.size)
        if recorder.is_stand_in(value) and len(args) > 3 and not packed:
            return _record(recorder, func, *args, **kwargs)  # raises
        if recorder.is_stand_in(value) or type(value) in (list, tuple) and any(map(recorder.is_stand_in, value)):
            lists = [given[name] for name in ("self", "tensor1", "tensor2")]
            if packed:  # one number for each tensor
                value = list(_record(recorder, torch.Tensor.unbind, value))
            values = value if type(value) in (list, tuple) else [value] * len(lists[0])
            if _is_narrow(recorder, lists) and (rows := _rows(*lists, values)):
                results = tuple([one(recorder, row[:3], {"value": row[3]}) for row in rows])
                return lists[0] if in_place else results
            combined = _record(recorder, combine, *lists[1:])
            return _record(recorder, add, lists[0], _record(recorder, foreach_mul, combined, value))
        return _record(recorder, func, *args, **kwargs)

    return handler


def _each_power(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A tensor of one number to the power of each of a list, where it does not change what dtype comes out."""
    if (
        not kwargs
        and len(args) == 2
        and recorder.is_stand_in(args[0])
        and type(args[1]) in (list, tuple)
        and all(map(recorder.is_stand_in, args[1]))
    ):
        base = recorder.value_of(args[0]).facts
        if (
            not base.size
            and not base.requires_grad
            and all(recorder.value_of(one).facts.dtype is base.dtype for one in args[1])
        ):
            return tuple(_record(recorder, torch.pow, args[0], one) for one in args[1])
    return _record(recorder, foreach_pow, *args, **kwargs)


def _declare() -> None:
    owners = (torch.Tensor, TensorBase, torch, VariableFunctions)
    found: list[tuple[Any, Handler]] = []
    for owner in owners:
        for name in ("add", "add_", "sub", "sub_", "subtract", "subtract_"):
            if func := getattr(owner, name, None):
                found.append((func, _scaled(func)))
        for name, combine in (("addcmul", torch.Tensor.mul), ("addcdiv", torch.Tensor.div)):
            for suffix, add in (("", torch.Tensor.add), ("_", torch.Tensor.add_)):
                if func := getattr(owner, name + suffix, None):
                    found.append((func, _fused(func, combine, add)))
    for suffix in ("", "_"):
        for name in (f"add{suffix}", f"sub{suffix}"):
            func, one = getattr(torch, f"_foreach_{name}"), _scaled(getattr(torch.Tensor, name))
            found.append((func, _each_scaled(func, one, bool(suffix))))
        add, add_each = getattr(torch.Tensor, f"add{suffix}"), getattr(torch, f"_foreach_add{suffix}")
        for name, combine, combine_each in (
            ("addcmul", torch.Tensor.mul, foreach_mul),
            ("addcdiv", torch.Tensor.div, foreach_div),
        ):
            func = getattr(torch, f"_foreach_{name}{suffix}")
            one = _fused(getattr(torch.Tensor, name + suffix), combine, add)
            found.append((func, _each_fused(func, combine_each, add_each, one, bool(suffix))))
    found.append((foreach_pow, _each_power))
    for func, handler in {id(func): (func, handler) for func, handler in found}.values():  # classes share methods
        rule(func)(handler)


_declare()


def _fused_step(func: Any) -> Any:
    """A step of an optimizer in one kernel, which torch's compilers fail on: some of the lists it writes may be empty,
    or fakes do not know it.

    A learning rate that changes: the operator's schema would make a constant of it, but has an overload that takes the
    value from a tensor.
    """
    takes_tensor = "tensor_lr" in getattr(torch.ops.aten, func.__name__).overloads()

    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not recorder.runs_as_is():
            raise Interrupt("torch-operation", f"torch.{func.__name__}, which the backend could not compile,")
        rate = kwargs.get("lr")
        if type(rate) is Float and takes_tensor:
            kwargs = {
                **kwargs,
                "lr": recorder.call(torch.full, ((), rate), {"dtype": torch.float64, "device": torch.device("cpu")}),
            }
        return recorder.record(target_of(func), args, kwargs)

    return handler


for _func in (fused_adam, fused_adamw, fused_sgd, fused_adagrad):
    rule(_func)(_fused_step(_func))


def _with_changing_momentum(func: Any) -> Handler:
    """A share of the running statistics that changes: the cumulative average, `momentum=None`.

    Nothing about the result depends on it, and torch itself takes any number; compilers would make a constant of it.
    """

    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        momentum = kwargs.get("momentum", args[6] if len(args) > 6 else None)
        if type(momentum) is not Float:
            return recorder.record(target_of(func), args, kwargs)
        if not recorder.runs_as_is():
            raise Interrupt("torch-operation", f"{func.__name__} with a momentum that changes")
        made = recorder.record(target_of(func), *_replaced(args, kwargs, momentum.hint))
        step = recorder.tape[-1]
        step.args[:], named = _replaced(tuple(step.args), step.kwargs, momentum)
        step.kwargs.update(named)
        step.inputs.extend(graph_values(recorder.with_symbols(), [momentum]))
        return made

    return handler


def _replaced(args: tuple[Any, ...], kwargs: dict[str, Any], new: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with another momentum."""
    named = {**kwargs, "momentum": new} if "momentum" in kwargs else kwargs
    return (*args[:6], new, *args[7:]) if len(args) > 6 else args, named


for _func in (torch.nn.functional.batch_norm, torch.batch_norm):
    rule(_func)(_with_changing_momentum(_func))


def _with_constants(func: Any, always: bool) -> Handler:
    """Operations whose kernels check the number, which compilers leave out: a float that changes is a constant to them.
    Most check that it is in the range of the dtype, which symbolic floats are for all but these dtypes.
    """

    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        floats = [one for one in (*args, *kwargs.values()) if type(one) is Float and one.hint is not None]
        if floats and (always or _dtype_of(recorder, args, kwargs) not in _RANGE_OF_FLOATS):
            args = tuple([one.value() if any(one is number for number in floats) else one for one in args])
            kwargs = {
                name: one.value() if any(one is number for number in floats) else one for name, one in kwargs.items()
            }
        return _record(recorder, func, *args, **kwargs)

    return handler


_RANGE_OF_FLOATS = (*_WIDE, torch.bfloat16, torch.complex64, torch.complex128, None)


def _dtype_of(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.dtype | None:
    tensors = [one for one in (*args, *kwargs.values()) if recorder.is_stand_in(one)]
    return kwargs.get("dtype") or (recorder.value_of(tensors[0]).facts.dtype if tensors else None)


def _declare_checked() -> None:
    checked = {func: True for name in ("celu", "celu_") if (func := getattr(torch, name, None))}
    names = "full full_like new_full fill fill_ masked_fill masked_fill_ clamp clamp_ clip clip_ clamp_min clamp_max"
    for owner in (torch, torch.Tensor):
        for name in names.split():
            if func := getattr(owner, name, None):
                checked[func] = False
    checked[torch.nn.functional.celu] = True
    for func, always in checked.items():
        rule(func)(_with_constants(func, always))


_declare_checked()
