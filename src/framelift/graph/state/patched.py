"""Functions of torch's that a program replaced.

torch's own Python code finds functions by name, while metadata is computed and while a backend traces a graph; so
what was computed and compiled is for the functions that were there.  The core compares the namespaces below at
each call, by the versions of their dictionaries.  What captured code itself reads is guarded where it is read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.functional
import torch.nn.functional

from ... import _core
from ...torch_ports.tensors import VF, TensorBase, VariableFunctions, nn_functions, tensor_module
from ...vocabulary.torch_code import is_replacement
from ..metadata.cache import shared_cache

#: modules whose functions call each other by name; imported when a backend needs them
_LATER = [
    "torch._decomp.decompositions",
    "torch._refs",
    "torch._refs.nn.functional",
    "torch._refs.linalg",
    "torch._refs.special",
    "torch._refs.fft",
    "torch._refs._conversions",
    "torch._prims",
    "torch._meta_registrations",
]
_last = 0
#: namespaces that torch's Python functions find each other and the tensor's methods in, as they were: by name
_SPACES: tuple[Any, ...] = (torch, torch.functional, torch.nn.functional, torch.Tensor, tensor_module, torch.linalg)
_SPACES += (torch.fft, torch.special, nn_functions, VF)
_BEFORE = [(space, dict(vars(space))) for space in _SPACES]
_ADDED = {id(torch.Tensor): frozenset(vars(TensorBase)), id(VF): frozenset(dir(VariableFunctions))}
#: names under which torch has operations
_OPERATIONS = frozenset(
    {name for owner in (TensorBase, VariableFunctions, nn_functions) for name in dir(owner)}
    | set(torch.nn.functional.__dict__)
    | set(torch.functional.__all__)
    | set(vars(torch.Tensor))
)
_NOTHING: frozenset[str] = frozenset()
_replaced: tuple[int, frozenset[str]] = (-1, _NOTHING)


def _watch_now() -> None:
    operators: tuple[Any, ...] = (vars(torch.functional), vars(torch.nn.functional), vars(tensor_module))
    _core.watch_functions(vars(torch), operators, ())  # not `torch.compile`, `torch.load`, ...: they are no operations
    for space in (*operators, vars(torch.linalg), vars(torch.fft), vars(torch.special), vars(nn_functions)):
        _core.watch_functions(space, (), ())
    _core.watch_functions(torch.Tensor, (), tuple(vars(TensorBase)))
    _core.watch_functions(vars(VF), (), tuple(dir(VariableFunctions)))  # it passes questions on


_watch_now()


def notice_patches() -> None:
    """Called when a capture begins and ends: replaced functions make metadata stale, new modules are watched."""
    global _last
    for name in [name for name in _LATER if name in sys.modules]:
        _LATER.remove(name)
        _core.watch_functions(vars(sys.modules[name]), (), ())
    now = _core.torch_patches()
    if now != _last:
        _last = now
        shared_cache().clear()


def replaced_names(overlay: Mapping[tuple[int, str], Any]) -> frozenset[str]:
    """Names of functions of torch's that the program replaced: before the rehearsal, or in it (`overlay`)."""
    global _replaced
    now = _core.torch_patches()
    if now != _replaced[0]:
        _replaced = now, frozenset(_compared())
    pending = {name for place, name in overlay if place in _PLACES} if overlay else None
    return _replaced[1] | pending if pending else _replaced[1]


_PLACES = frozenset(
    id(place) for space in _SPACES for place in (space, vars(space) if space is not torch.Tensor else space)
)


def _compared() -> Iterator[str]:
    for space, before in _BEFORE:
        now = vars(space)
        for name, function in before.items():
            if callable(function) and (
                now.get(name) is not function or name in _OPERATIONS and is_replacement(function)
            ):
                yield name
        yield from (name for name in _ADDED.get(id(space), ()) if name in now and name not in before)
