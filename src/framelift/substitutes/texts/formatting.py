"""Templates that read attributes: str.format does so from C, the string module does the same in Python."""

from __future__ import annotations

import string
from typing import Any

from ... import _core
from ...vocabulary.reasons import Interrupt

__all__ = ["format_watched"]


def format_watched(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """`str.format(*args, **kwargs)`, read as captured code.  What fails is left to eager mode."""
    template, *values = args
    if type(template) is not str:
        raise Interrupt("unknown-callable", "str.format of a class derived from str")
    try:
        return str(_core.captured(string.Formatter().vformat, (template, tuple(values), kwargs), None))
    except Exception as error:
        raise Interrupt("unknown-callable", "str.format that raises an exception") from error
