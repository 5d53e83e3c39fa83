"""A fact of torch (seen in 2.11 to 2.13): what asks a tensor without data for its value gets a RuntimeError of no class
of its own, known by its text alone.
"""

from __future__ import annotations

_TEXT = "meta tensor"  # "Tensor.item() cannot be called on meta tensors"


def asks_for_value(error: RuntimeError) -> bool:
    """Return whether torch raised this because a stand-in was asked for its value."""
    return _TEXT in str(error)
