"""Where something may strike.

At the start or the end of a function of framelift, or at a place of the program's own code.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["POINTS", "Point", "reach"]


class Struck:
    """Strikes once, when it is asked for the n-th time."""

    def __init__(self, strike: Callable[[], None], turn: int) -> None:
        self.strike, self.left, self.done = strike, turn, False

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.done = True
            self.strike()


_waiting: dict[str, Struck] = {}


def reach(where: str, value: Any = None) -> Any:
    """A place of a program: what waits for it strikes here."""
    if where in _waiting:
        _waiting[where]()
    return value


@dataclass(frozen=True)
class Point:
    """`where` is a place of the program's, else `owner` and `attribute` are a function of framelift."""

    name: str
    where: str | None = None
    owner: str = ""
    attribute: str = ""
    after: bool = False
    turn: int = 1
    calls_before: bool = False  # the call that is struck runs an entry that is there already
    effects: bool = False  # the entry may have done something before

    @contextlib.contextmanager
    def reached(self, strike: Callable[[], None]) -> Iterator[Struck]:
        """While it lasts the point strikes, once."""
        struck = Struck(strike, self.turn)
        if self.where is not None:
            _waiting[self.where] = struck
            try:
                yield struck
            finally:
                del _waiting[self.where]
            return
        with _wrapped(self.owner, self.attribute, struck, self.after):
            yield struck


@contextlib.contextmanager
def _wrapped(owner: str, attribute: str, struck: Struck, after: bool) -> Iterator[None]:
    """The function is another one, in its class or in every module of framelift that has it."""
    module, _, cls = owner.partition(":")
    home = getattr(sys.modules[f"framelift.{module}"], cls) if cls else sys.modules[f"framelift.{module}"]
    original = vars(home)[attribute]

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not after:
            struck()
            return original(*args, **kwargs)
        result = original(*args, **kwargs)
        struck()
        return result

    homes = (
        [home]
        if cls
        else [
            one
            for name, one in list(sys.modules.items())
            if name.startswith("framelift.") and vars(one).get(attribute) is original
        ]
    )
    for one in homes:
        setattr(one, attribute, wrapper)
    try:
        yield
    finally:
        for one in homes:
            setattr(one, attribute, original)


#: functions of framelift by phase: (module or module:class, names)
_FUNCTIONS = (
    ("capture.driver:Driver", ("capture", "_make_entry", "_count", "_captured", "_take_over", "_exchange", "_offer")),
    (
        "rehearsal.session:Rehearsal",
        (
            "__init__",
            "start",
            "finish",
            "break_off",
            "close",
            "note_function",
            "load_global",
            "load_cell",
            "load_attr",
            "store_attr",
            "classify",
            "load_tensor",
        ),
    ),
    ("boundary.attributes.known_classes:KnownClasses", ("note_class",)),
    ("recording.recorder:TapeRecorder", ("call", "call_operation", "_begin", "_end", "mark_end", "finish", "record")),
    ("recording.stand_ins:StandIns", ("stand_in",)),
    ("graph.metadata.fakes:Fakes", ("observe", "_run", "_borrow")),
    ("graph.state.torch_state:SavedState", ("__init__", "restore")),
    ("boundary.gateway", ("let_in",)),
    ("graph.fx.tape", ("build_graph",)),
    ("graph.fx.placeholder_names", ("name_placeholders",)),
    ("exits.entry", ("build_entry",)),
    ("guards.native_program", ("build_program",)),
    ("backends.surroundings:ProcessState", ("__init__", "restore")),
    ("capture.attempts", ("attempt",)),
    ("capture.attempts:Attempts", ("found", "rehearse")),
    ("capture.compile_entry", ("compile_entry", "_compiled_graph", "_compiler_of")),
    ("capture.policy", ("may_capture", "may_exchange")),
    ("capture.background", ("ready_entry",)),
    ("capture.sharing:Pool", ("taken", "offer")),
    ("capture.records.callbacks", ("entry_made",)),
    ("vocabulary.quiet_capture:_Use", ("end",)),
    ("vocabulary.quiet_capture:_Block", ("end",)),
)
_TWICE = frozenset({"call", "_call", "let_in", "restore", "record"})  # also at the second time
POINTS = (
    *(
        Point(
            f"{owner.rpartition('.')[2]}.{name} {'returns' if after else 'starts'}{'' if turn == 1 else ' again'}",
            None,
            owner,
            name,
            after,
            turn,
        )
        for owner, names in _FUNCTIONS
        for name in names
        for after in (False, True)
        for turn in ((1, 2) if name in _TWICE else (1,))
    ),
    *(Point(where, where) for where in ("backend starts", "backend ends", "fake kernel")),
    Point("the first run of the graph", "graph", effects=True),
    Point("a later run of the graph", "graph", calls_before=True, effects=True),
    Point("the eager part behind a break", "eager part", effects=True),
    Point("the eager part in a later call", "eager part", calls_before=True, effects=True),
    Point("the backward of a graph", "backward", effects=True),
    Point("the backward in a later call", "backward", calls_before=True, effects=True),
)
