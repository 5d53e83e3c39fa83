"""Types that tables of types begin with: plain constants, and objects that graphs are given."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from .._core import is_a

PYTHON_CONSTANTS = (type(None), bool, int, float, complex, str, bytes)
TORCH_CONSTANTS = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_COLLECTIONS = vars(importlib.import_module("_collections"))
#: the built-in types of dictionaries
DICTIONARIES: tuple[type[Any], ...] = (
    dict,
    *(cls for cls in _COLLECTIONS.values() if is_a(cls, type) and issubclass(cls, dict)),
)
#: objects of the program that a graph may be given; all else among its inputs are numbers
GIVEN = (torch.Tensor, torch.ScriptObject)
