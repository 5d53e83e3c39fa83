"""Kinds of classes, one maker each: a fresh class that holds `k = 8`.

Used by tests of what is read from classes and written to them.
"""

from __future__ import annotations

import abc
import ctypes
import dataclasses
import enum
import typing
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["KINDS", "SHARED"]

#: classes of torch's that the program puts attributes on
SHARED = (torch.Tensor, torch.nn.Parameter, torch.nn.Module, torch.autograd.Function)


class Plain(type):
    pass


class Asked(type):
    def __getattr__(cls, name: str) -> Any:
        if name == "k":
            return 100
        raise AttributeError(name)


class Asking(type):
    def __getattribute__(cls, name: str) -> Any:
        return super().__getattribute__(name)


class Writing(type):
    def __setattr__(cls, name: str, value: Any) -> None:
        super().__setattr__(name, value)

    def __delattr__(cls, name: str) -> None:
        super().__delattr__(name)


class Above(type):
    pass


class Below(type, metaclass=Above):
    pass


def _derived(*bases: type, meta: Any = None) -> Callable[[], Any]:
    def make() -> Any:
        return (meta or type(bases[0]) if bases else meta or type)("W", bases, {"k": 8})

    return make


def _inherited() -> Any:
    class Base(torch.Tensor):
        k = 8

    class W(Base):
        pass

    return W


def _overriding() -> Any:
    class W(torch.Tensor):
        k = 8

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return super().__torch_function__(func, types, args, kwargs or {})

    return W


def _enumeration() -> Any:
    class W(enum.Enum):
        A = 1

    W.k = 8  # type: ignore[attr-defined]
    return W


def _named() -> Any:
    class W(typing.NamedTuple):
        a: int = 3

    W.k = 8  # type: ignore[attr-defined]
    return W


def _data() -> Any:
    @dataclasses.dataclass
    class W:
        k: int = 8

    return W


def _generic() -> Any:
    kind = typing.TypeVar("kind")

    class W(typing.Generic[kind]):
        k = 8

    return W


def _protocol() -> Any:
    class W(typing.Protocol):
        k = 8

    return W


def _on(cls: Any) -> Callable[[], Any]:
    def make() -> Any:
        cls.k = 8
        return cls

    return make


KINDS: dict[str, Callable[[], Any]] = {
    "object": _derived(),
    "tensor": _derived(torch.Tensor),
    "inherited": _inherited,
    "overriding": _overriding,
    "parameter": _derived(torch.nn.Parameter),
    "structure": _derived(ctypes.Structure),
    "abstract": _derived(meta=abc.ABCMeta),
    "enum": _enumeration,
    "named tuple": _named,
    "dataclass": _data,
    "generic": _generic,
    "protocol": _protocol,
    "metaclass": _derived(meta=Plain),
    "__getattr__": _derived(meta=Asked),
    "__getattribute__": _derived(meta=Asking),
    "__setattr__": _derived(meta=Writing),
    "metaclass of a metaclass": _derived(meta=Below),
    "module": _derived(torch.nn.Module),
    "error": _derived(ValueError),
    "int": _derived(int),
    "dict": _derived(dict),
    "function": _derived(torch.autograd.Function),
    "on Tensor": _on(torch.Tensor),
    "on Parameter": _on(torch.nn.Parameter),
    "on Module": _on(torch.nn.Module),
}
