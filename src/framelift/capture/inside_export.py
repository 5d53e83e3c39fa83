"""Knowledge about an export whose Python runs now, for compiling."""

from __future__ import annotations

from typing import Any

from ..vocabulary.torch_code import is_torch_function

EXPORTS: list[bool] = []  # the exports whose Python runs now: whether a rehearsal would do instead


class BodyMet(BaseException):
    """Plain tracing came to an operator that captures functions of the program (torch.cond and similar ones): the
    program is to be rehearsed instead.
    """


def refuse_bodies(function: Any) -> None:
    """Called where something is to be compiled inside of an export."""
    if EXPORTS and EXPORTS[-1] and is_torch_function(function, "torch._higher_order_ops"):
        raise BodyMet
