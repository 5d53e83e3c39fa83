"""TORCH_COMPILE_DEBUG=1: graph, guards and entry of each capture as files, beside those of Inductor."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ..capture.records.events import listen
from .graphs import readable

if TYPE_CHECKING:
    from ..capture.records.captures import Capture


@listen("done")
def _write(capture: Capture) -> None:
    if os.environ.get("TORCH_COMPILE_DEBUG", "0") != "1":
        return
    root = Path(os.environ.get("TORCH_COMPILE_DEBUG_DIR") or "torch_compile_debug")
    name = re.sub(r"[^\w.-]+", "_", f"{capture.compile_id}_{capture.name}")
    folder = root / f"run_pid_{os.getpid()}" / "framelift" / name
    folder.mkdir(parents=True, exist_ok=True)
    parts = {
        "graph.py": readable(capture.graph_module),
        "guards.txt": "\n".join(capture.guards),
        "entry.py": capture.source,
        "break.txt": f"{capture.reason}\n{capture.where}" if capture.reason else "",
    }
    for file, text in parts.items():
        if text:
            (folder / file).write_text(text + "\n")
