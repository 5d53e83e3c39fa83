"""Export: one call of a program as a graph that runs without Python.

`export` makes a `torch.export.ExportedProgram`; `export_graph` gives the graph of torch's own functions with the
signature of the program, `legacy` the same under the names of torch._dynamo.export.  All capture by rehearsal; lowering
to ATen and the program's classes are PyTorch's.  The module itself can be called:

>>> import torch, framelift
>>> framelift.export(torch.nn.ReLU(), (torch.ones(2),), strict=True).module()(-torch.ones(2))
tensor([0., 0.])
"""

from __future__ import annotations

import sys
import types
from typing import Any

from .dynamo_names import legacy
from .exported_program import _export as _export
from .exported_program import draft_export, export
from .graph_export import ExportGuard, ExportResult, export_graph

__all__ = ["ExportGuard", "ExportResult", "draft_export", "export", "export_graph", "legacy"]


class _Export(types.ModuleType):
    """The module, which does what its first function does."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return export(*args, **kwargs)


sys.modules[__name__].__class__ = _Export
