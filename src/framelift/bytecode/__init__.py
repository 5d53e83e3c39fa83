"""Twins: instrumented copies of code objects.  `make_twin` is what the rest of framelift uses.

Nothing here knows tensors, guards or sessions: a twin is made from a code object and a mapping of probes alone,
and this package imports nothing outside itself, so that every supported CPython can check it without torch.
"""

from .dialect import EX_ARGS, EX_KWARGS, PROBES, UnsupportedPython
from .maker import layout, make_twin, original_of, source_of

__all__ = ["EX_ARGS", "EX_KWARGS", "PROBES", "UnsupportedPython", "layout", "make_twin", "original_of", "source_of"]
