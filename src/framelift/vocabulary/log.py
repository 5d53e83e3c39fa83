"""Loggers by topic, chosen by FRAMELIFT_LOGS or `set_logs`.

    FRAMELIFT_LOGS=breaks,recompiles python train.py
    FRAMELIFT_LOGS=all,+guards                          a plus sign asks for more detail
    FRAMELIFT_LOGS=help                                 lists the topics

They are loggers of `logging` ("framelift.breaks", ...), so an application can also send them where it likes.  What the
application sets for its root logger is not meant for them: below a warning they are silent until one is named.
"""

from __future__ import annotations

import logging
import os
import sys
import types
import warnings

from .own_code import is_own_code

#: topic -> what it shows
TOPICS = {
    "breaks": "what could not be captured, with the line and the reason",
    "recompiles": "why something was recompiled: the value, old and new",
    "guards": "the guards of each capture",
    "graph": "the graph of each capture, with the user's lines",
    "entry": "the generated function that runs instead of the frame",
    "perf": "how long each phase of a capture took",
    "cache": "captures that are kept on disk and loaded, and why others are not",
    "background": "what is compiled in another process, and what cannot be",
}
_handler: logging.Handler | None = None
#: the parent of all topics
_all = logging.getLogger("framelift")
if _all.level == logging.NOTSET:  # else the application has named it
    _all.setLevel(logging.WARNING)


def topic(name: str) -> logging.Logger:
    """The logger of one topic.

    >>> topic("breaks").name
    'framelift.breaks'
    """
    return logging.getLogger(f"framelift.{name}")


def warn(text: str) -> None:
    """A warning at the line of the program that called into framelift."""
    frame: types.FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and is_own_code(frame.f_code):
        frame, level = frame.f_back, level + 1
    warnings.warn(f"framelift: {text}", stacklevel=level)


def printable(text: str) -> str:
    """The text as stdout can write it: what its encoding has no character for is escaped.

    >>> printable("a")
    'a'
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def set_logs(**levels: bool | int) -> None:
    """Show these topics on stderr, and no others: True for the usual detail, or a level of `logging`.

    >>> set_logs(breaks=True, perf=True)
    >>> set_logs()
    """
    unknown = sorted(levels.keys() - TOPICS.keys())
    if unknown:
        text = f"no topic is called {', '.join(unknown)}; the topics are {', '.join(TOPICS)}"
        raise ValueError(text)  # Python's: framelift.exc is above this package
    for name in TOPICS:
        level = levels.get(name, False)
        topic(name).setLevel(logging.INFO if level is True else logging.NOTSET if level is False else level)
    _attach(any(levels.values()))


def _attach(wanted: bool) -> None:
    """Write to stderr as it is at the moment, or no more; the application's own handlers do not write it again."""
    global _handler
    if wanted and _handler is None:
        _handler = _Handler()
        _handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        _all.addHandler(_handler)
    elif not wanted and _handler is not None:
        _all.removeHandler(_handler)
        _handler = None
    _all.propagate = not wanted


class _Handler(logging.StreamHandler):
    @property
    def stream(self) -> object:
        return sys.stderr

    @stream.setter
    def stream(self, _value: object) -> None:
        return


def _configure(text: str) -> None:
    levels: dict[str, bool | int] = {}
    for word in filter(None, (part.strip() for part in text.split(","))):
        name = word.lstrip("+-")
        if name == "help":
            print("\n".join(f"{name:12}{meaning}" for name, meaning in TOPICS.items()), file=sys.stderr)
        elif name != "all" and name not in TOPICS:
            print(
                f"framelift: FRAMELIFT_LOGS has no topic {name!r}; the topics are {', '.join(TOPICS)}", file=sys.stderr
            )
        else:
            for one in TOPICS if name == "all" else (name,):
                levels[one] = {"+": logging.DEBUG, "-": False}.get(word[0], True)
    set_logs(**levels)


if os.environ.get("FRAMELIFT_LOGS"):
    _configure(os.environ["FRAMELIFT_LOGS"])
