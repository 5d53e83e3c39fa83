"""Templates that read attributes: str.format does so from C, the string module does the same in Python."""

from __future__ import annotations

import re
import string
from typing import Any

from ... import _core
from ..._core import is_a
from ...vocabulary.reasons import Interrupt

#: `%.3s` in a template, `{!r:.3}` in one of str.format, `.3` behind the colon of an f-string
_CUTS = re.compile(r"%(\([^)]*\))?[^%a-zA-Z(]*\.[\d*]*[hlL]?[sra]|![rsa]:[^!]*\.|^[^%{}]*\.[\d]*s?$")


def cuts_text(how: str | bytes) -> bool:
    """Return whether a template cuts texts: an object shows then what nobody sees whole."""
    return _CUTS.search(how if is_a(how, str) else how.decode("latin-1")) is not None


def format_watched(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """`str.format(*args, **kwargs)`, read as captured code.  What fails is left to eager mode."""
    template, *values = args
    if type(template) is not str:
        raise Interrupt("unknown-callable", "str.format of a class derived from str")
    try:
        return str(_core.captured(string.Formatter().vformat, (template, tuple(values), kwargs), None))
    except Exception as error:
        raise Interrupt("unknown-callable", "str.format that raises an exception") from error
