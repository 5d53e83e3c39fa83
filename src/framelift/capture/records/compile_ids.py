"""Compile ids: which function is captured, and how often before.  Torch's logs, traces and backends read them
where they read TorchDynamo's.
"""

from __future__ import annotations

import types
from collections.abc import Iterator

from ..._core import insist
from ...torch_ports.compiling import is_compiling_flag
from ...torch_ports.fakes import TLS, CompileContext, CompileId
from ...vocabulary.scopes import scope

#: by file, line and name of the code, and where in it the capture begins, which outlives the code: its number, and the
#: number of its last capture
_frames: dict[tuple[str, int, str, int], list[int]] = {}


def numbered(code: types.CodeType, begin: int = -1) -> CompileId:
    """The id of a new capture of this code, which resumes there after a graph break (-1: it does not)."""
    row = _frames.setdefault((code.co_filename, code.co_firstlineno, code.co_qualname, begin), [len(_frames), -1])
    row[1] += 1
    return CompileId(frame_id=row[0], frame_compile_id=row[1])


def forget() -> None:
    """Count from 0 again."""
    _frames.clear()


@scope
def compiling(compile_id: CompileId) -> Iterator[None]:
    """Around one capture: torch.compiler.is_compiling() is true, and torch's compile context has the id."""
    flag, context = is_compiling_flag.read(), getattr(TLS, "compile_context", None)

    def restore() -> None:
        is_compiling_flag.write(flag)
        TLS.compile_context = context

    try:
        is_compiling_flag.write(True)
        TLS.compile_context = CompileContext(compile_id)
        yield
    finally:
        insist(restore)
