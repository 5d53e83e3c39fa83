"""The contents of a report, as frozen records of plain values. Text, HTML and JSON are made of these and of nothing
else.

Ids are made of names, files and lines, never of numbers that differ from run to run, so that two reports can be
compared.  The meaning of every field is said where it stands; `SCHEMA` is the same as data.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from .._core import is_a
from ..vocabulary.log import printable

SCHEMA_VERSION = 6
#: text, html and fragment: report -> str.  Filled by the files that make them, which stand above this one.
FORMS: dict[str, Callable[..., str]] = {}


def took(seconds: float) -> str:
    """A time in words.

    >>> took(0.0123), took(12.34)
    ('12.3 ms', '12.3 s')
    """
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"


def many(number: int, word: str) -> str:
    """A number of things.

    >>> many(1, "graph"), many(2, "graph")
    ('1 graph', '2 graphs')
    """
    return f"{number} {word}{'' if number == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Source:
    """A place in the user's source."""

    file: str  # as reports show it: relative where that is shorter
    path: str  # the whole path
    line: int  # from 1
    column: int  # from 0, in characters; -1 where it is not known
    end_line: int
    end_column: int
    function: str  # qualified name
    expression: str  # the source text of the place
    caret: str  # the source line, and below it carets under the expression


@dataclass(frozen=True, slots=True)
class Link:
    """One operation on the way to a value."""

    text: str
    source: Source | None


@dataclass(frozen=True, slots=True)
class Phase:
    """A span of time."""

    name: str  # rehearse, graph, backend, entry, guards
    start: float  # seconds since the report's first event
    seconds: float


@dataclass(frozen=True, slots=True)
class Break:
    """One root cause why something runs eagerly, however often it was met."""

    id: str
    reason: str  # declared id, e.g. tensor-bool
    sentence: str
    source: Source | None  # the user's own expression
    inner: Source | None  # the library's expression below it, where it struck
    stack: tuple[Source, ...]  # from the captured function down, outermost first
    provenance: tuple[Link, ...]
    functions: tuple[str, ...]  # ids of the functions it splits
    callers: tuple[Source, ...]  # the expressions that call its function, where that is not the compiled one itself
    loops: tuple[Source, ...]  # loops around it: once it is met, their steps run eagerly too
    times: int  # captures that it ended
    graphs: int  # graphs that end at it
    extra: int  # further captures that it made necessary: of what follows it, of callees on their own
    seconds: float  # wall time of these
    cost: str  # the same in words
    fix: str
    page: str  # the command that explains the reason
    example: str  # the source of the reason's example, "" where it has none


@dataclass(frozen=True, slots=True)
class RecompileCause:
    """One guarded value that changed, and made further captures necessary."""

    id: str
    function: str  # id of the function that was recompiled first
    functions: tuple[str, ...]  # ids of all that were
    origin: str  # the value, as the guard reaches it
    kind: str  # the guard's kind
    what: str  # the same in words
    changes: tuple[tuple[str, str], ...]  # (old, new), in order
    sentence: str  # of the last one
    source: Source | None  # the expression that reads the value
    result_of: str  # id of the break whose result the value is: fixed with it; "" for any other value
    settled: bool  # the last capture holds for other values too: they are symbolic there
    times: int
    seconds: float  # wall time of the captures it caused
    fix: str


@dataclass(frozen=True, slots=True)
class Specialisation:
    """A value of the outside that a capture is specialized on."""

    id: str
    function: str
    origin: str
    value: str
    kind: str  # number, text, shape, length, other; fixed: a number that could change, but for the expression; relation
    source: Source | None  # the expression that made it one
    how: str  # what a change of the value does, and how to avoid that


@dataclass(frozen=True, slots=True)
class Refusal:
    """A function whose calls run eagerly without a capture being tried."""

    name: str
    source: Source  # of its `def`
    why: str  # limit, defect, first: see report/text.py
    sentence: str  # what failed last
    calls: int  # that ran eagerly for it
    fix: str


@dataclass(frozen=True, slots=True)
class Guard:
    """One node of the guard tree; children follow their parent with a greater depth."""

    depth: int
    step: str  # the last step of the path
    path: str  # the whole path
    checks: tuple[str, ...]  # in words
    source: str  # "file:line", the read that made it
    words: int  # comparisons that each call makes for it; 0 where a check above it speaks for it
    visited: bool  # each call looks at it in full: nothing remembered speaks for it


@dataclass(frozen=True, slots=True)
class Time:
    """Where rehearsing spent its time, by function of the program."""

    name: str
    source: Source  # of its `def`
    library: bool  # an installed package's function rather than the user's own
    calls: int
    own: float  # seconds in its own code, and in what framelift did for it
    total: float  # seconds with all that it calls


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the time that a capture's rehearsals took: a function, called by the span before it of the next
    smaller depth."""

    depth: int
    name: str
    place: str  # "file:line" of its `def`
    library: bool  # an installed package's function rather than the user's own
    calls: int  # a layer that is used twelve times is one span with twelve calls
    own: float  # seconds in its own code, and in what framelift did for it
    total: float  # seconds with all that it calls


@dataclass(frozen=True, slots=True)
class Capture:
    """One capture of one function."""

    id: str
    status: str  # captured, broken, raised
    hits: int  # calls it served; -1 once it was dropped
    backend: str  # that compiled its graph
    operations: int
    guards: int
    inputs: tuple[str, ...]  # what the graph is given
    reason: str  # id of the break that ended it, or ""
    after: str  # id of the break after which it resumes, or ""
    resume: str  # where and with which values it resumes, and the source from there; "" for a whole function
    recompile: str  # id of the recompile that caused it, or ""
    phases: tuple[Phase, ...]
    spans: tuple[Span, ...]  # where the time of rehearsing went
    seconds: float
    cpu_seconds: float
    graph: str  # as readable code with the user's lines
    entry: str  # the generated function that runs instead
    guard_tree: tuple[Guard, ...]
    shared_with: str  # the callable whose capture it is, "" for one of its own
    shares_graph: bool  # its graph was compiled before, for a capture with an equal graph
    from_cache: bool  # the disk cache had its compiled graph
    loaded: bool  # it was kept on disk by another process: nothing was rehearsed
    not_kept: str  # why it is not kept on disk, "" where it is, or where none is to be
    fallbacks: tuple[str, ...]  # parts of the graph compiled as captured: the backend failed on what was made of them
    rewrites: tuple[str, ...]  # what was changed of the graph before the backend got it, and what that saves
    generated: tuple[str, ...]  # files of the code that Inductor generated for it
    compiling: bool  # its graph runs uncompiled: the backend is at work in the background


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the program, with all its captures."""

    id: str
    name: str
    source: Source
    root: bool  # the function that was compiled, rather than one that is captured below it
    library: bool  # torch's own function, captured because something below it broke
    hits: int
    captures: tuple[Capture, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All that is known of one compiled callable, or of a whole run."""

    schema: int
    name: str
    versions: dict[str, str]
    calls: int
    graphs: int
    operations: int
    guards: int
    captures: int
    seconds: float
    cpu_seconds: float
    phases: dict[str, float]  # wall seconds by phase
    times: tuple[Time, ...]  # the same by function, the most expensive first
    functions: tuple[Function, ...]
    breaks: tuple[Break, ...]
    recompiles: tuple[RecompileCause, ...]
    refusals: tuple[Refusal, ...]
    specialisations: tuple[Specialisation, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing was called, so that there is nothing to say."""
        return not (self.captures or self.refusals)

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists, text and numbers."""
        return dataclasses.asdict(self)

    def to_json(self, *, indent: int | None = None) -> str:
        """The report as JSON; `SCHEMA` describes it.

        >>> import json, torch, framelift
        >>> f = framelift.compile(lambda x: x + 1, backend="eager")
        >>> _ = f(torch.ones(2))
        >>> json.loads(f.report().to_json())["graphs"]
        1
        """
        return json.dumps(self.to_dict(), indent=indent)

    def to_html(self, *, title: str = "") -> str:
        """The report as one HTML page that needs nothing else."""
        return FORMS["html"](self, title=title or f"framelift: {self.name}")

    def save(self, path: Any) -> None:
        """Write the report; the name's ending (.html, .json, .txt) chooses the form."""
        target = pathlib.Path(path)
        forms: dict[str, Callable[[], str]] = {".html": self.to_html, ".json": self.to_json}
        target.write_text(forms.get(target.suffix, lambda: self.to_text())(), encoding="utf-8")

    def to_text(self, *, colour: bool = False, width: int = 110) -> str:
        """The report as text."""
        return FORMS["text"](self, colour=colour, width=width)

    def __str__(self) -> str:
        return printable(self.to_text(colour=bool(getattr(sys.stdout, "isatty", bool)())))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return FORMS["fragment"](self)


def schema(cls: type) -> dict[str, Any]:
    """A JSON schema of one of the records."""
    hints = get_type_hints(cls)
    return {
        "type": "object",
        "description": (cls.__doc__ or "").strip(),
        "additionalProperties": False,
        "required": [f.name for f in dataclasses.fields(cls)],
        "properties": {f.name: _type(hints[f.name]) for f in dataclasses.fields(cls)},
    }


_PLAIN = {str: {"type": "string"}, int: {"type": "integer"}, float: {"type": "number"}, bool: {"type": "boolean"}}


def _type(hint: Any) -> dict[str, Any]:
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    if is_a(hint, UnionType):
        return {"anyOf": [{"type": "null"} if part is NoneType else _type(part) for part in get_args(hint)]}
    args = get_args(hint)
    if get_origin(hint) is tuple:
        if len(args) == 2 and args[1] is ...:
            return {"type": "array", "items": _type(args[0])}
        return {"type": "array", "prefixItems": [_type(a) for a in args], "items": False}
    if get_origin(hint) is dict:
        return {"type": "object", "additionalProperties": _type(args[1])}
    return {"$ref": f"#/$defs/{hint.__name__}"}


#: the JSON schema of `Report.to_json()`
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "framelift report",
    **schema(Report),
    "$defs": {
        c.__name__: schema(c)
        for c in (Source, Link, Phase, Time, Break, RecompileCause, Refusal, Specialisation, Guard, Span)
        + (Capture, Function)
    },
}
