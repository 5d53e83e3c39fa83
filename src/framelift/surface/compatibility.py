"""One row for each name of torch.compile's surface: options, environment variables, functions.  What is not honoured
warns, or is refused; nothing is ignored in silence.

docs/compatibility.md is made of this table (tools/compatibility.py).  A test walks torch's own lists of names.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from dataclasses import dataclass

from ..vocabulary.log import warn
from ..vocabulary.options import OPTIONS
from .compatibility_rows import ENVIRONMENT, FUNCTIONS, SHOWN_BY


class Verdict(enum.Enum):
    """The outcome for a program that uses a name."""

    WORKS = "works"  # as with TorchDynamo; `test` shows it
    TORCH = "torch"  # torch's own code does it, which framelift uses
    WARNS = "warns"  # it has no effect, and a warning says why, once
    REFUSED = "refused"  # an error says why
    NOTHING = "nothing"  # there is nothing that it would have to do here


@dataclass(frozen=True, slots=True)
class TorchName:
    """One name."""

    name: str
    verdict: Verdict
    note: str = ""
    test: str = ""  # below tests/


def option_rows() -> dict[str, TorchName]:
    """The options of torch._dynamo.config."""
    rows = {}
    for name, option in OPTIONS.items():
        if option.ignored:
            rows[name] = TorchName(name, Verdict.WARNS, option.ignored)
        elif option.by_torch:
            rows[name] = TorchName(name, Verdict.TORCH, option.meaning)
        else:
            rows[name] = TorchName(name, Verdict.WORKS, option.meaning, SHOWN_BY.get(option.alias or name, ""))
    return rows


def _rows(table: Mapping[str, tuple[str, str, str]]) -> dict[str, TorchName]:
    return {name: TorchName(name, Verdict(verdict), note, test) for name, (verdict, note, test) in table.items()}


def environment_rows() -> dict[str, TorchName]:
    """The environment variables that TorchDynamo and its surroundings read."""
    return _rows(ENVIRONMENT)


def function_rows() -> dict[str, TorchName]:
    """The public functions of torch.compiler and torch._dynamo, by their full names."""
    return _rows(FUNCTIONS)


_warned: set[str] = set()


def warn_environment() -> None:
    """Say once of each variable that is set and has no effect, that it has none, and why."""
    for name, (verdict, note, _) in ENVIRONMENT.items():
        if verdict == "warns" and name not in _warned and os.environ.get(name, "") not in ("", "0"):
            _warned.add(name)
            warn(f"{name}={os.environ[name]} has no effect: {note}")
