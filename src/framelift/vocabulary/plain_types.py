"""Types that tables of types begin with: plain constants, and objects that graphs are given."""

from __future__ import annotations

import functools
import importlib
import operator
import types
from collections.abc import Callable
from typing import Any

import torch

from .._core import is_a

PYTHON_CONSTANTS = (type(None), bool, int, float, complex, str, bytes)
#: types of one object each; CPython 3.14 has functools.Placeholder
SINGLETONS = tuple({type(...), type(NotImplemented), type(getattr(functools, "Placeholder", ...))})
TORCH_CONSTANTS = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_COLLECTIONS = vars(importlib.import_module("_collections"))
#: the built-in types of dictionaries
DICTIONARIES: tuple[type[Any], ...] = (
    dict,
    *(cls for cls in _COLLECTIONS.values() if is_a(cls, type) and issubclass(cls, dict)),
)
#: callables around another one: what they call
AROUND: dict[type, Callable[[Any], Any]] = {types.MethodType: operator.attrgetter("__func__")}
#: types whose objects are read, written and bound as functions are
FUNCTIONS: set[type] = {types.FunctionType}
#: objects of the program that a graph may be given; all else among its inputs are numbers
OBJECTS = (torch.ScriptObject,)
GIVEN = (torch.Tensor, *OBJECTS)
#: modules whose scalars decide what an operator with them gives, and show themselves without code of a program
SCALAR_MODULES: set[str] = set()
