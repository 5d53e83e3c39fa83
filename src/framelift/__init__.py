"""framelift: Python frames become FX graphs, guards and readable entries, by running them once over stand-ins.

>>> import torch, framelift
>>> f = framelift.compile(lambda x: x * 2, backend="eager")
>>> f(torch.ones(2))
tensor([2., 2.])
"""

from __future__ import annotations

import torch  # noqa: F401  (the native core needs its libraries)

from . import config, exc
from .api import compile, reset, stats
from .run.module import OptimizedModule

__all__ = ["OptimizedModule", "compile", "config", "exc", "reset", "stats"]
__version__ = "0.1.0"
