"""A fact of Inductor: the code of a subgraph checks sizes and strides of its inputs at each call, a microsecond each.

The graph around it has checked them or made them itself.  So while framelift compiles, calls of folded layers
(repeated_layers.py) are written without; the graph's own inputs, and results of kernels that are not Inductor's, are
checked as before.  A part of a graph that Inductor divides is written in the same way, and is no subgraph.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from ..vocabulary.scopes import scope

__all__ = ["inputs_checked_once"]

_CHECKS = "codegen_input_size_asserts"
_lock = threading.Lock()
_compiles = 0  # that are going on


@scope
def inputs_checked_once() -> Iterator[None]:
    """While it lasts, Inductor writes subgraphs that trust the graph around them."""
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen

    if _compiles == 0 and (_CHECKS in vars(SubgraphPythonWrapperCodegen) or not hasattr(PythonWrapperCodegen, _CHECKS)):
        yield  # another version of torch
        return

    def check_parts(self: Any) -> None:
        if getattr(self, "partition_signatures", None) is not None:
            getattr(PythonWrapperCodegen, _CHECKS)(self)

    _count(SubgraphPythonWrapperCodegen, check_parts, 1)
    try:
        yield
    finally:
        _count(SubgraphPythonWrapperCodegen, check_parts, -1)


def _count(codegen: Any, check: Any, change: int) -> None:
    global _compiles
    with _lock:
        _compiles += change
        if _compiles and _CHECKS not in vars(codegen):
            setattr(codegen, _CHECKS, check)
        elif not _compiles:
            delattr(codegen, _CHECKS)
