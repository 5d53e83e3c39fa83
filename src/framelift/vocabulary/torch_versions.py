"""What has another name, or another form, in another version of torch: one function for each, by what this torch has.

Nothing here decides anything: a function returns what the newest torch would, or says that this torch has none.
"""

from __future__ import annotations

from typing import Any

import torch.fx._symbolic_trace as _symbolic_trace
from torch._library import opaque_object as _opaque_object

__all__ = ["FX_TRACING_READS", "fx_tracing_flag", "is_custom_class", "set_fx_tracing_flag"]

#: the functions that return whether torch.fx traces, for programs and for torch's own code
FX_TRACING_READS = tuple(
    getattr(_symbolic_trace, name)
    for name in ("is_fx_tracing", "is_fx_symbolic_tracing", "_get_is_fx_tracing")
    if hasattr(_symbolic_trace, name)
)


def fx_tracing_flag() -> bool:
    """Return whether torch.fx traces.  Up to torch 2.13 the flag is one for all threads."""
    read = getattr(_symbolic_trace, "_get_is_fx_tracing", None)  # the public `is_fx_tracing` logs a warning
    return bool(_symbolic_trace._is_fx_tracing_flag if read is None else read())


def set_fx_tracing_flag(value: bool) -> None:
    """Set the flag that `fx_tracing_flag` returns."""
    write = getattr(_symbolic_trace, "_set_is_fx_tracing", None)
    if write is None:
        _symbolic_trace._is_fx_tracing_flag = value
    else:
        write(value)


def is_custom_class(cls: type[Any]) -> bool:
    """Return whether operators and graphs may hold instances of this class (`register_opaque_type`)."""
    found = getattr(_opaque_object, "is_custom_class", None) or _opaque_object.is_opaque_type
    return bool(found(cls))
