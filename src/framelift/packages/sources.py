"""The source of what was captured: shown by `source_info`, and compared when a package is loaded.

Guards compare the code of functions that are found by name.  Here the lines of files are compared: an edited function
is noticed when the package is loaded, before any call, and also where the package brings the code itself.
"""

from __future__ import annotations

import hashlib
import inspect
import linecache
from dataclasses import dataclass
from typing import Any

from ..exc import PackageError


@dataclass(frozen=True)
class InlinedSource:
    """The source of one function, in the form of torch.compile's packages."""

    module: str
    firstlineno: int
    lastlineno: int
    checksum: str
    content: str


@dataclass
class SourceInfo:
    """The source of all functions of a capture."""

    inlined_sources: set[InlinedSource]


def source_data(codes: Any) -> list[Any]:
    """[module, file, first line, number of lines, checksum] of code objects; what is such a list already is it."""
    if type(codes) is list:
        return codes
    rows = []
    for code in sorted(set(codes), key=lambda code: (code.co_filename, code.co_firstlineno)):
        try:
            lines, first = inspect.getsourcelines(code)
        except (OSError, TypeError):  # code without a file
            continue
        module = inspect.getmodule(code)
        rows.append([module.__name__ if module else "", code.co_filename, first, len(lines), _checksum(lines)])
    return rows


def _checksum(lines: list[str]) -> str:
    return hashlib.sha256("".join(lines).encode("utf-8", "backslashreplace")).hexdigest()


def _lines(row: list[Any]) -> list[str]:
    _, path, first, count, _ = row
    linecache.checkcache(path)
    return linecache.getlines(path)[max(first - 1, 0) : max(first - 1, 0) + count]


def source_info_of(codes: Any) -> SourceInfo:
    return SourceInfo(
        {InlinedSource(row[0], row[2], row[2] + row[3], row[4], "".join(_lines(row))) for row in source_data(codes)}
    )


def check_sources(rows: Any) -> None:
    """Raise where a file has other lines than when a package was made.  Files that are not here are not compared."""
    for row in rows:
        lines = _lines(row)
        if lines and _checksum(lines) != row[4]:
            raise PackageError(
                f"{row[1]} was edited since the package was made (lines {row[2]} to {row[2] + row[3] - 1}); "
                "make it again"
            )
