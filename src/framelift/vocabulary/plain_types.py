"""Types of plain constants, for the tables of types that begin with them."""

from __future__ import annotations

import torch

__all__ = ["PYTHON_CONSTANTS", "TORCH_CONSTANTS"]

PYTHON_CONSTANTS = (type(None), bool, int, float, complex, str, bytes)
TORCH_CONSTANTS = (torch.dtype, torch.device, torch.layout, torch.memory_format)
