"""Every method, property and function of torch that takes a tensor.

Bodies of programs for tensors that modes or subclasses watch.

What a method is called with is found by trying: the first of a few argument lists with which plain torch raises no
TypeError.
"""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Iterator

import torch

__all__ = ["override_uses"]

_ARGUMENTS = ("", "1", "o", "0, 0", "o, o", "0, 1", "torch.float64", "(3,)", "0, torch.tensor([0])", "[0]", "True")
#: other processes, devices, memory and threads: nothing that a program of one line should touch
_LEFT_OUT = frozenset(
    """share_memory_ module_load register_hook register_post_accumulate_grad_hook cuda xpu hpu ipu mtia pin_memory
    is_pinned is_shared __del__ __reduce_ex__ __reduce__ __init_subclass__ __class_getitem__ __subclasshook__
    __new__ __init__ __dir__ __sizeof__ __getstate__ __setstate__ _add_batch_dim _remove_batch_dim __dlpack__
    __dlpack_device__ storage untyped_storage _typed_storage data_ptr set_ record_stream resize_ resize resize_as_
    resize_as resize_as_sparse_ _make_subclass _make_wrapper_subclass __cuda_array_interface__ __torch_function__
    __torch_dispatch__ __getattribute__ __setattr__ __delattr__ __repr__ __str__ __format__ _view_func
    _view_func_unsafe _rev_view_func_unsafe _lazy_clone _is_view __deepcopy__ __hash__""".split()
)

_ADDRESSES = frozenset({"_cdata", "const_data_ptr", "mutable_data_ptr"})


@functools.cache
def override_uses() -> dict[str, str]:
    """Name -> body of `def program(x, o)`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {**dict(_methods()), **dict(_properties()), **dict(_functions())}


def _methods() -> Iterator[tuple[str, str]]:
    for name in sorted(dir(torch.Tensor)):
        if (
            name not in _LEFT_OUT
            and callable(getattr(torch.Tensor, name, None))
            and type(getattr(torch.Tensor, name)) is not type
        ):
            call = _first_that_fits(f"o.{name}")
            if call is not None:
                yield f"method_{name}", f"return {_filled(name, call)}"


def _properties() -> Iterator[tuple[str, str]]:
    for name in sorted(dir(torch.Tensor)):
        member = next((vars(base)[name] for base in torch.Tensor.__mro__ if name in vars(base)), None)
        if (
            name not in _LEFT_OUT
            and name not in ("__dict__", "__weakref__", "__class__", "__doc__", "__abstractmethods__")
            and hasattr(type(member), "__set__")
        ):
            read = f"o.{name}" if name not in _ADDRESSES else f"type(o.{name}).__name__"
            yield f"property_{name}", f"return {read}, x + 1"


def _functions() -> Iterator[tuple[str, str]]:
    names = [(f"torch.{name}", name) for name in dir(torch._C._VariableFunctions) if hasattr(torch, name)]
    names += [
        (f"F.{name}", name)
        for name, one in sorted(vars(torch.nn.functional).items())
        if type(one) is types.FunctionType
    ]
    for call, name in names:
        if name not in _LEFT_OUT and not name.startswith("__"):
            fitting = _first_that_fits(call, "o")
            if fitting is not None:
                yield call.replace(".", "_"), f"return {_filled(name, fitting)}"


def _filled(name: str, call: str) -> str:
    """What lies in new memory, and where it lies, is no result."""
    if name in _ADDRESSES:
        return f"type({call}).__name__"
    return f"{call}.zero_()" if "empty" in name else call


def _first_that_fits(callable_: str, first: str = "") -> str | None:
    for arguments in _ARGUMENTS:
        call = f"{callable_}({', '.join(filter(None, (first, arguments)))})"
        try:
            eval(call, {"torch": torch, "F": torch.nn.functional, "o": torch.ones(3)})
        except TypeError:
            continue
        except Exception:  # noqa: BLE001  the program raises: so must the captured one
            return None
        return call
    return None
