"""Types that tables of types begin with: plain constants, and objects that graphs are given."""

from __future__ import annotations

import torch

PYTHON_CONSTANTS = (type(None), bool, int, float, complex, str, bytes)
TORCH_CONSTANTS = (torch.dtype, torch.device, torch.layout, torch.memory_format)
#: objects of the program that a graph may be given; all else among its inputs are numbers
GIVEN = (torch.Tensor, torch.ScriptObject)
