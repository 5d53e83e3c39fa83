"""TORCH_COMPILE_DEBUG=1: graph, guards and entry of each capture as files, beside those of Inductor.

The entry's file is the one that its code names: a debugger stops at breakpoints in it, and steps through it.
"""

from __future__ import annotations

import os
import re
import types
from pathlib import Path

from ..capture.records.callbacks import CODE_HOOKS
from ..capture.records.captures import Capture
from ..capture.records.events import listen
from .graphs import readable


def _folder(capture: Capture) -> Path | None:
    """The folder of a capture's files, which is made; None where no files are asked for."""
    if os.environ.get("TORCH_COMPILE_DEBUG", "0") != "1":
        return None
    root = Path(os.environ.get("TORCH_COMPILE_DEBUG_DIR") or "torch_compile_debug").absolute()
    name = re.sub(r"[^\w.-]+", "_", f"{capture.compile_id}_{capture.name}")
    folder = root / f"run_pid_{os.getpid()}" / "framelift" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write_entry(capture: Capture, entry: types.FunctionType) -> None:
    """Let the entry's code be that of a file.  It stays Python: with other code there are no native steps for it."""
    folder = _folder(capture)
    if folder is not None:
        file = folder / "entry.py"
        file.write_text(vars(entry)["__source__"])
        entry.__code__ = entry.__code__.replace(co_filename=str(file))


CODE_HOOKS.append(_write_entry)


@listen("done")
def _write(capture: Capture) -> None:
    folder = _folder(capture)
    if folder is None:
        return
    parts = {
        "graph.py": readable(capture.graph_module),
        "guards.txt": "\n".join(capture.guards),
        "break.txt": f"{capture.reason}\n{capture.where}" if capture.reason else "",
    }
    for file, text in parts.items():
        if text:
            (folder / file).write_text(text + "\n")
