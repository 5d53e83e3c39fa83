"""numpy arrays inside a rehearsal: torch's own implementation of numpy over stand-ins, under numpy's class.

An external array is a tensor that shares its memory, so that writes inside are the graph's.  Arrays whose kind a
tensor does not have are opaque.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from ...torch_ports.tensors import numpy_functions
from ...vocabulary.class_reads import members_of
from ...vocabulary.own_code import first_above
from ...vocabulary.reasons import Interrupt

try:
    import numpy
except ImportError:
    numpy = None
tnp: Any = numpy_functions if numpy is not None else None

_Base: Any = object if tnp is None else tnp.ndarray
#: the class of what arrays stand for
ARRAY_OUTSIDE: Any = object if tnp is None else numpy.ndarray
#: the globals of the modules of torch's own implementation: its code may ask an array for its tensor
_SPACES = frozenset(
    id(vars(module))
    for name, module in list(sys.modules.items())
    if tnp is not None and (module is tnp or name.startswith(f"{tnp.__name__}."))
)


class _Absent:
    """An attribute that torch's class has and numpy's has not."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, array: Any, kind: Any = None) -> Any:
        if array is None:
            raise AttributeError(self.name)
        raise _no_attribute(array, self.name)


class _LeavesOperators:
    """`__array_ufunc__`: None says to numpy's scalars that an operator is the other operand's affair."""

    def __get__(self, array: Any, kind: Any = None) -> None:
        if array is not None:
            raise Interrupt("unknown-callable", "numpy.__array_ufunc__")


class Array(_Base):
    """The array that captured code sees for an external one. Attributes of torch's class alone are for torch's code."""

    __slots__ = ("_held", "_owns")
    __dict__ = _Absent("__dict__")
    __array_ufunc__ = _LeavesOperators()

    @property  # type: ignore[misc]  # object's can be assigned to
    def __class__(self) -> type:
        return ARRAY_OUTSIDE

    @property
    def tensor(self) -> torch.Tensor:
        """The stand-in, for torch's implementation."""
        if (frame := first_above()) is not None and id(frame.f_globals) in _SPACES:
            return _HELD.__get__(self)
        raise _no_attribute(self, "tensor")

    def __getattr__(self, name: str) -> Any:
        if any(name in members_of(kind) for kind in self.__class__.__mro__):
            raise Interrupt("unknown-callable", f"numpy.{name}")
        raise _no_attribute(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise Interrupt("unknown-callable", f"a write to numpy.{name}")

    def __delattr__(self, name: str) -> None:
        raise Interrupt("unknown-callable", f"a write to numpy.{name}")

    def __dir__(self) -> list[str]:
        return dir(self.__class__)


def _no_attribute(array: Any, name: str) -> AttributeError:
    return AttributeError(f"'numpy.{array.__class__.__name__}' object has no attribute {name!r}", name=name, obj=array)


class Scalar(Array):
    """The scalar that captured code sees for one of numpy's that torch's implementation makes an array of."""

    __slots__ = ()

    @property  # type: ignore[misc]  # object's can be assigned to
    def __class__(self) -> type:
        return numpy.dtype(str(_HELD.__get__(self).dtype).removeprefix("torch.")).type


#: special methods that C code asks a class for, which cannot be answered -> the reason.  Text depends on numpy's print
#: options too; numbers are asked for by torch's operators, before they say whose call it is; without the others C code
#: would say that there is no such operation.
_UNANSWERED = {
    "tensor-item": "__index__ __int__ __float__ __complex__",
    "tensor-repr": "__repr__ __str__ __format__",
    "unknown-callable": (
        "__round__ __floor__ __ceil__ __trunc__ __delitem__ __copy__ __deepcopy__ __reduce__ __reduce_ex__ __sizeof__"
    ),
}


def _unanswered(name: str, reason: str) -> Any:
    def method(self: Any, *_args: Any) -> Any:
        raise Interrupt(
            reason, f"numpy.{self.__class__.__name__}" + (f".{name}" if reason == "unknown-callable" else "")
        )

    method.__name__ = name
    return method


_HELD: Any = Array.__dict__["_held"]
_OWNS: Any = Array.__dict__["_owns"]
if tnp is not None:
    Array.__name__ = "numpy.ndarray"  # what C code calls it in its complaints
    for _reason, _names in _UNANSWERED.items():
        for _name in _names.split():
            setattr(Array, _name, _unanswered(_name, _reason))
    Scalar.__hash__ = _unanswered("__hash__", "tensor-item")  # type: ignore[method-assign]  # replaced on purpose
    for _name in {"__weakref__", "__module__"}.union(dir(tnp.ndarray)).difference(dir(numpy.ndarray), {"__dict__"}):
        setattr(Array, _name, _Absent(_name))


def array_over(tensor: torch.Tensor, kind: type[Any] = Array, owns: bool = False) -> Any:
    """An array over a stand-in.  `owns`: it has memory of its own, and is the only array over this stand-in."""
    made = object.__new__(kind)
    _HELD.__set__(made, tensor)
    _OWNS.__set__(made, owns)
    return made


def tensor_of(array: Any) -> torch.Tensor:
    """The tensor of an array, ours or torch's own."""
    return _HELD.__get__(array) if issubclass(type(array), Array) else array.tensor


def owns_memory(array: Any) -> bool:
    """Return whether numpy's array would have memory of its own."""
    return _OWNS.__get__(array)
