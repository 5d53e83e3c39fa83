"""The source of what was captured: shown by `source_info`, and compared when a package is loaded.

Guards compare the code of all functions when a capture is bound.  Here it is compared when the package is loaded,
before any call, and also where the package brings the code itself.
"""

from __future__ import annotations

import hashlib
import inspect
import types
from dataclasses import dataclass
from typing import Any

from ..cache.code_hash import code_hash
from ..cache.source_files import code_named, module_files
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
    """Return [module:name, hash] of code objects; what is such a list already is it."""
    if type(codes) is list:
        return codes
    modules = module_files()
    return sorted([f"{modules.get(code.co_filename, '')}:{code.co_qualname}", code_hash(code)] for code in set(codes))


def source_info_of(codes: Any) -> SourceInfo:
    """Return the source of code objects, or of rows of `source_data`, where it is here."""
    found = [code_named(row[0]) for row in codes] if type(codes) is list else codes
    modules = module_files()
    return SourceInfo({row for code in found if (row := _inlined(code, modules)) is not None})


def _inlined(code: types.CodeType | None, modules: dict[str, str]) -> InlinedSource | None:
    try:
        lines, first = inspect.getsourcelines(code)  # type: ignore[arg-type]  # None is a TypeError
    except (OSError, TypeError):  # code without a file
        return None
    content = "".join(lines)
    checksum = hashlib.sha256(content.encode("utf-8", "backslashreplace")).hexdigest()
    assert code is not None
    return InlinedSource(modules.get(code.co_filename, ""), first, first + len(lines), checksum, content)


def check_sources(rows: Any) -> None:
    """Raise where a function computes something else than when a package was made.  Those that are not here, or have
    no name, are not compared.
    """
    for name, wanted in rows:
        code = code_named(name)
        if code is not None and code_hash(code) != wanted:
            raise PackageError(
                f"{name} was edited since the package was made ({code.co_filename}, line {code.co_firstlineno}); "
                "make it again"
            )
