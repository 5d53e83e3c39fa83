"""Export: one call of a program as a graph that runs without Python.

`export` makes a `torch.export.ExportedProgram`; `export_graph` (also `legacy`) gives the graph of torch's own functions with the signature of
the program.  Both capture by rehearsal; lowering to ATen and the program's classes are PyTorch's.
"""

from __future__ import annotations

from .graph import ExportGuard, ExportResult, export_graph
from .program import _export, export

__all__ = ["ExportGuard", "ExportResult", "export", "export_graph", "legacy"]

legacy = export_graph
