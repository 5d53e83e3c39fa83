"""How a torch callable is written into a graph: `Target`, one per callable, found by `target_of`.

Functions are written as themselves, Tensor methods by name, operators as the functions of the module `operator`, so
that a graph reads as the torch API that backends of torch.compile expect.
"""

from __future__ import annotations

import operator
import types
from typing import Any

import torch

from ... import _core
from ..._core import id, is_a
from ...torch_ports.autograd import get_data_attr
from ...torch_ports.graphs import get_qualified_name, is_from_torch
from ...torch_ports.modes import DisableTorchFunction
from ...torch_ports.operators import OpOverload, OpOverloadPacket
from ...torch_ports.tensors import TensorBase, VariableFunctions
from ...vocabulary.reasons import Interrupt
from ...vocabulary.torch_code import is_replacement


class Target:
    """One callable.

    `reflected` is the name of a method like `__rsub__`: the graph's target takes its two arguments in the other order.
    """

    __slots__ = ("func", "fx_target", "name", "op", "reflected")

    def __init__(self, func: Any, op: str, fx_target: Any, name: str, reflected: str = "") -> None:
        self.func = func
        self.op = op
        self.fx_target = fx_target
        self.name = name
        self.reflected = reflected

    def __repr__(self) -> str:
        return f"<target {self.op} {self.name}>"


_BINARY = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "truediv",
    "floordiv": "floordiv",
    "mod": "mod",
    "pow": "pow",
    "matmul": "matmul",
    "and": "and_",
    "or": "or_",
    "xor": "xor",
    "lshift": "lshift",
    "rshift": "rshift",
}

#: Tensor's operator methods -> (function of `operator`, arguments swapped)
OPERATORS: dict[str, tuple[Any, bool]] = {
    **{f"__{name}__": (getattr(operator, word), False) for name, word in _BINARY.items()},
    **{f"__r{name}__": (getattr(operator, word), True) for name, word in _BINARY.items()},
    **{f"__i{name}__": (getattr(operator, f"i{word.rstrip('_')}"), False) for name, word in _BINARY.items()},
    **{
        f"__{name}__": (getattr(operator, name), False)
        for name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "getitem", "setitem")
    },
    "__div__": (operator.truediv, False),
    "__rdiv__": (operator.truediv, True),
    "__idiv__": (operator.itruediv, False),
}


def _tensor_methods() -> dict[int, str]:
    """id -> name of everything callable that Tensor's classes define; kept alive by those classes."""
    found: dict[int, str] = {}
    for cls in (TensorBase, torch.Tensor):
        for name, member in cls.__dict__.items():
            if is_a(member, (types.FunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)):
                # One function may serve as several operators (__rdiv__, __rtruediv__): any of the names will do.
                if not is_replacement(member):
                    found[id(member)] = name
    return found


_METHODS = _tensor_methods()

_WRITTEN = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "truediv",
    "matmul": "matmul",
    "remainder": "mod",
    "neg": "neg",
    "ne": "ne",
    "lt": "lt",
    "le": "le",
    "gt": "gt",
    "ge": "ge",
    "add_": "iadd",
    "sub_": "isub",
    "mul_": "imul",
    "div_": "itruediv",
    "floor_divide_": "ifloordiv",
}
#: torch function reports `x + y` as Tensor.add: id of that method -> the operator's own
WRITTEN_AS_OPERATORS: dict[int, Any] = {
    id(TensorBase.__dict__[method]): TensorBase.__dict__[f"__{name}__"]
    for method, name in _WRITTEN.items()
    if method in TensorBase.__dict__ and f"__{name}__" in TensorBase.__dict__ and f"__{name}__" in OPERATORS
}
#: the program put functions of its own in the places of torch's before framelift was loaded
_REPLACED_BEFORE = any(
    is_replacement(vars(space).get(name))
    for space in (torch.Tensor, torch, torch.nn.functional, torch.functional)
    for name in (*vars(TensorBase), *dir(VariableFunctions), *vars(torch.nn.functional))
)
_targets: dict[int, Target] = {}
_getters: dict[str, Target] = {}


#: C methods of tensors that torch itself puts nothing in front of
_C_METHODS = {
    name: member
    for name, member in vars(TensorBase).items()
    if is_a(member, (types.MethodDescriptorType, types.WrapperDescriptorType))
    and (name not in vars(torch.Tensor) or is_replacement(vars(torch.Tensor)[name]))
}
#: the methods of tensors as torch has them: its own in Python, and those
_OWN_METHODS = {
    name: member for name, member in vars(torch.Tensor).items() if callable(member) and not is_replacement(member)
}
_BEHIND = {**_C_METHODS, **_OWN_METHODS}
_C_KINDS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.BuiltinFunctionType, types.MethodWrapperType)


def method_behind(func: Any) -> Any:
    """Return the function that runs where a C method of tensors passes itself to torch function as `func`.

    It passes what `torch.Tensor` has under its name, and that may be something that the program put there.
    """
    if type(func) in _C_KINDS:
        return func
    names = [name for name, member in vars(torch.Tensor).items() if member is func and name in _BEHIND]
    names = [name for name in names if _BEHIND[name] is not func]
    if len(names) > 1:
        raise Interrupt("torch-operation", f"Tensor.{names[0]} or Tensor.{names[1]}")
    return _BEHIND[names[0]] if names else func


def tensor_method_name(func: Any) -> str | None:
    """The name under which Tensor defines this function, if it does."""
    return _METHODS.get(id(func))


def target_of(func: Any) -> Target:
    """The target of a torch callable."""
    found = _targets.get(id(func))
    if found is None:
        found = _targets[id(func)] = _make(func)
    return found if not (_REPLACED_BEFORE or _core.torch_patches()) or _is_found(found) else _pinned(func, found)


def _is_found(target: Target) -> bool:
    """Return whether a graph's code finds the callable by name: a program may have replaced functions of torch's."""
    name = _METHODS.get(id(target.func))
    if name is not None:  # operators tell modes of a tracer the name of a method: `x * y` that of `Tensor.mul`
        return _core.type_lookup(torch.Tensor, name, None) is target.func and not _has_replaced_methods()
    written = target.fx_target
    if not is_from_torch(written) or is_a(written, (OpOverload, OpOverloadPacket)):
        return True
    name = get_qualified_name(written)
    found: Any = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found is written


def _has_replaced_methods() -> bool:
    """Return whether the program replaced a method of all tensors."""
    now = vars(torch.Tensor)
    return any(name in now for name in _C_METHODS) or any(
        now.get(name) is not member for name, member in _OWN_METHODS.items()
    )


_pinned_targets: dict[int, Target] = {}


def _pinned(func: Any, target: Target) -> Target:
    """A target that is the callable itself, whatever is there under its name.

    A mode would see it by its name, so it has none.
    """
    found = _pinned_targets.get(id(func))
    if found is None:

        def run(*args: Any, **kwargs: Any) -> Any:
            with DisableTorchFunction():
                return func(*args, **kwargs)

        run.__name__ = run.__qualname__ = f"original_{target.name}"
        found = _pinned_targets[id(func)] = Target(func, "call_function", run, target.name)
    return found


def _make(func: Any) -> Target:
    name = _METHODS.get(id(func))
    if name is None:
        return Target(func, "call_function", _written(func), _plain_name(func))
    if name in OPERATORS:
        target, swap = OPERATORS[name]
        return Target(func, "call_function", target, target.__name__.rstrip("_"), name if swap else "")
    return Target(func, "call_method", name, name.strip("_") or name)


#: as it is without what the program puts there
_TORCH = {name: member for name, member in vars(torch).items() if not is_replacement(member)}


def _written(func: Any) -> Any:
    """A function as the code of a graph has it: C functions are written there as `torch.name`, which may be a Python
    function of torch's that takes other arguments.  Those are written as the operator that they call.
    """
    if not is_a(func, types.BuiltinFunctionType):
        return func
    name = func.__name__
    if getattr(VariableFunctions, name, None) is not func or _TORCH.get(name, func) is func:
        return func
    return getattr(torch.ops.aten, name, func)


def getter_target(name: str) -> Target:
    """The target of reading Tensor's attribute `name`, for attributes that are tensors themselves."""
    found = _getters.get(name)
    if found is None:
        if name == "data":  # does not share the version counter, which getattr loses in functionalised graphs
            get = get_data_attr
            found = Target(get, "call_function", get, "data")
        else:
            found = Getter(name)
        found = _getters.setdefault(name, found)
    return found


class Getter(Target):
    """`getattr(tensor, name)`: the name is an argument of the node."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        super().__init__(getattr, "call_function", getattr, name)


class OneNode(Target):
    """A callable declared to be one node.  What it gives may depend on anything: no cache, never dropped."""

    __slots__ = ()

    def __init__(self, func: Any) -> None:
        super().__init__(func, "call_function", func, _plain_name(func))


def _plain_name(func: Any) -> str:
    name = getattr(func, "__name__", None) or "call"
    return "".join(c if c.isalnum() else "_" for c in name).strip("_") or "call"
