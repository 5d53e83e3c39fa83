"""A live line in the terminal while a capture takes long: what is being done, for which function, since when.

Off without a terminal, in CI, and by FRAMELIFT_PROGRESS=0.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from ..capture.background import in_flight
from ..capture.records.captures import counts
from ..capture.records.counters import cache_hits
from ..capture.records.events import listen
from ..vocabulary.places import Place, brief, places_of, users

if TYPE_CHECKING:
    from ..capture.records.captures import Capture

_PATIENCE = 1.0  # seconds before the line appears
_WORDS = {
    "rehearse": "rehearsing",
    "graph": "building the graph of",
    "backend": "compiling the graph of",
    "entry": "writing the entry of",
    "guards": "building the guards of",
    "keep": "writing to disk the capture of",
    "load": "loading from disk the capture of",
}


def wanted() -> bool:
    """Return whether somebody is there to see a line."""
    if os.environ.get("FRAMELIFT_PROGRESS", "1").lower() in ("0", "false", "no", "") or os.environ.get("CI"):
        return False
    # anything else is the program's own, which counts its calls
    return issubclass(type(sys.stderr), io.TextIOBase) and sys.stderr.isatty()


def sentence(capture: Capture, phase: str, waited: float) -> str:
    """Describe the work in progress: the function, its current line, the backend."""
    rows = [f"framelift: {_WORDS.get(phase, phase)} {capture.name}"]
    if phase == "rehearse":
        place = _reached(capture)
        rows += [f" at {place.function} ({brief(place.file)}:{place.line})"] if place is not None else []
    else:
        rows += [f" ({capture.operations} operations)"] if capture.operations else []
        rows += [f" with {capture.backend}"] if phase == "backend" and capture.backend else []
    return "".join(rows) + f", {waited:.0f} s" + (so_far() if phase == "backend" else "")


def so_far() -> str:
    """The distinct graphs until now, how many captures were loaded from disk, how many graphs a disk cache had, how
    many captures use a graph of another one, and how many graphs are being compiled in the background.
    """
    distinct = counts.graphs - counts.shared_graphs
    rows = [
        (distinct, "distinct graph" if distinct == 1 else "distinct graphs"),
        (counts.loaded, "loaded from disk"),
        (min(cache_hits(), distinct), "from the disk cache"),
        (counts.shared + counts.shared_graphs, "shared"),
        (in_flight(), "compiling in the background"),
    ]
    shown = ", ".join(f"{number} {word}" for number, word in rows if number)
    return f" (so far: {shown})" if shown else ""


def _reached(capture: Capture) -> Place | None:
    """The program's line whose operation was recorded last."""
    try:
        tape = capture.sessions[-1].recorder.tape
        return users(places_of(tape[-1].places))
    except (AttributeError, IndexError):  # nothing yet; or the rehearsal, in another thread, has just ended
        return None


class _Line:
    """The state the watching thread looks at: what is being done now, and since when."""

    def __init__(self) -> None:
        self.busy = threading.Event()
        self.thread: threading.Thread | None = None
        self.capture: Capture | None = None
        self.phase = ""
        self.since = 0.0
        self.shown = False

    def begin(self, capture: Capture, phase: str) -> None:
        if self.capture is not capture:
            self.capture, self.since = capture, time.monotonic()
        self.phase = phase
        if self.thread is None or not self.thread.is_alive():  # also after a fork
            self.thread = threading.Thread(target=self.watch, name="framelift progress", daemon=True)
            self.thread.start()
        self.busy.set()

    def end(self) -> None:
        self.busy.clear()
        self.capture = None
        if self.shown:
            self.shown = False
            self.write("\r\x1b[K")

    def watch(self) -> None:
        while True:
            self.busy.wait()
            time.sleep(0.2)
            capture = self.capture
            waited = time.monotonic() - self.since
            if capture is not None and waited >= _PATIENCE:
                self.shown = True
                self.write(f"\r\x1b[K{sentence(capture, self.phase, waited)}"[: shutil.get_terminal_size().columns + 3])

    def write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except Exception:  # a closed terminal must not end the program
            pass


_line = _Line()


@listen("phase")
def _begin(capture: Capture, phase: str) -> None:
    if wanted() if phase in ("rehearse", "load") else _line.busy.is_set():  # asked once in a capture
        _line.begin(capture, phase)


@listen("done")
def _done(_capture: Any) -> None:
    if _line.busy.is_set():
        _line.end()


@listen("failed")
def _failed(_capture: Any, _phase: str, _error: BaseException) -> None:
    _done(_capture)
