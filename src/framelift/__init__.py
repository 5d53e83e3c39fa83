"""framelift: Python frames become FX graphs, guards and readable entries, by running them once over stand-ins.

>>> import torch, framelift
>>> f = framelift.compile(lambda x: x * 2, backend="eager")
>>> f(torch.ones(2))
tensor([2., 2.])
"""

from __future__ import annotations

import torch  # noqa: F401  (the native core needs its libraries)

from . import config, exc, testing
from .api import compile, reset, stats
from .explaining import dry_run, explain
from .run.module import OptimizedModule

__all__ = ["OptimizedModule", "compile", "config", "dry_run", "exc", "explain", "reset", "stats", "testing"]
__version__ = "0.1.0"
