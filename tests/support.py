"""The one helper of the tests.

Run a program eagerly and captured, compare everything, count graphs, breaks and captures.

    check(f, x, y)                                  one capture, one graph, no break, two equal calls
    check(f, x, mutate=longer, calls=3, captures=2) the world changes between calls
    check(f, x, raises=ValueError)                  the same exception, text and line

Compared on every call: the result (values, types, identity pattern, storage sharing with arguments), or the exception
(type, arguments, line); effects on the arguments, on closure cells and on what `state` names; the random number
generators; torch's global state.
"""

from __future__ import annotations

import copy
import dataclasses
import random
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import framelift
from portrait import Portrait, difference, portrait, without_addresses

__all__ = [
    "Counts",
    "Outcome",
    "World",
    "check",
    "compiled",
    "counts",
    "or_type_error",
    "global_state",
    "needs_versions_of",
    "run_call",
    "same_outcome",
    "without_frames",
]


@dataclasses.dataclass
class World:
    """What one run of a program lives in; `mutate` receives it and may change any of it."""

    fn: Any
    args: list[Any]
    kwargs: dict[str, Any]
    state: list[tuple[Any, str]]

    def roots(self) -> tuple[Any, ...]:
        """Everything external that is compared after a call."""
        cells = [c for c in getattr(self.fn, "__closure__", None) or ()]
        owner = self.fn if not isinstance(self.fn, types.FunctionType) else None
        return (owner, self.args, self.kwargs, [_contents(c) for c in cells], [_read(o, n) for o, n in self.state])


@dataclasses.dataclass(frozen=True)
class Counts:
    """What a captured run did, as the difference of two readings of `framelift.stats()`."""

    graphs: int
    captures: int
    breaks: dict[str, int]
    loaded: int = 0

    @property
    def total_breaks(self) -> int:
        return sum(self.breaks.values())


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One call: what came out, and the world after it."""

    kind: str  # "returned" or "raised"
    words: str  # the exception in words
    line: str  # the innermost line of the program, or IN_GRAPH
    error: type[BaseException] | None
    after: Portrait
    surroundings: tuple[Any, ...]

    @property
    def detail(self) -> str:
        return f"{self.words} (line {self.line})" if self.kind == "raised" else ""


#: the line of an exception that an operation raised on real data while the graph ran; a graph has no lines of the
#: program
IN_GRAPH = "in the graph"
_ABSENT = type("Absent", (), {"__repr__": lambda self: "(absent)"})()


def check(
    fn: Any,
    *args: Any,
    kwargs: dict[str, Any] | None = None,
    calls: int = 2,
    graphs: int | None = 1,
    breaks: int | None = 0,
    captures: int | None = None,
    fullgraph: bool | None = None,
    backend: Any = "eager",
    mutate: Callable[[int, World], None] | None = None,
    state: Sequence[tuple[Any, str]] = (),
    raises: type[BaseException] | None = None,
    exact: bool | None = None,
    **options: Any,
) -> Any:
    """Run `fn` eagerly and captured on equal worlds, `calls` times, and compare all there is to compare.

    `mutate(i, world)` runs before call number i (from 1 on), in each run on its own world.
    `state` names external places beside the arguments as (owner, name): a globals dictionary, class, module or object.
    `graphs`, `breaks`, `captures` are the expected numbers; None leaves a number open.  Unless something is expected to
    break or raise, `fullgraph=True` is asked for, and without `mutate` a second call must not capture again.
    Returns the last captured result.
    """
    fullgraph = (breaks == 0 and raises is None) if fullgraph is None else fullgraph
    exact = backend == "eager" if exact is None else exact
    if captures is None and mutate is None and breaks == 0 and raises is None:
        captures = 1
    template = World(fn, list(args), dict(kwargs or {}), list(state))
    saved = _values(template)
    try:
        expected = [o for o, _ in _run(template, saved, calls, mutate, exact, lambda f: f)]
        framelift.reset()
        start = counts()
        actual = _run(
            template,
            saved,
            calls,
            mutate,
            exact,
            lambda f: compiled(f, backend=backend, fullgraph=fullgraph, **options),
        )
    finally:
        _install(template, saved)
    for number, (want, (got, _)) in enumerate(zip(expected, actual)):
        _compare(want, got, number)
        if raises is not None:
            assert want.error is not None and issubclass(want.error, raises), (
                f"call {number}: {want.kind} {want.detail}"
            )
    _count(start, counts(), graphs, breaks, captures)
    return actual[-1][1]


def compiled(fn: Any, **options: Any) -> Any:
    """`framelift.compile`, with the tests' default backend."""
    return framelift.compile(fn, **{"backend": "eager", **options})


def counts() -> Counts:
    """The running totals."""
    stats = framelift.stats()
    return Counts(stats["graphs"], stats["captures"], dict(stats["breaks"]), stats["loaded"])


def run_call(
    call: Callable[[], Any], roots: Callable[[], Any], exact: bool = True, own: Callable[[Any], bool] = lambda _: False
) -> tuple[Outcome, Any]:
    """Call, and portray the result or exception together with the world after it."""
    result: Any = None
    kind, words, line = "returned", "", ""
    try:
        result = call()
    except Exception as error:  # noqa: BLE001  any exception of the program is an outcome
        kind, words, line, result = "raised", without_addresses(f"{type(error).__name__}: {error}"), _line(error), error
        without_frames(error)
    # One portrait of both, so that identity between results and arguments is part of it.
    shown = result.args if kind == "raised" else result
    after = portrait((shown, roots()), exact=exact, own=own)
    error = type(result) if kind == "raised" else None
    return Outcome(kind, words, line, error, after, global_state()), result


def without_frames(error: BaseException | None, instead: types.TracebackType | None = None) -> None:
    """Let an exception, those it came from and those in it forget their frames.

    `instead` is the traceback of those that had one.

    They hold the caller's, which holds the exception; and how many frames of one function stand in a traceback, so what
    lives for as long as the exception does, is nothing that a program may rely on.
    """
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            if one.__traceback__ is not None:
                one.__traceback__ = instead
            waiting += [
                one.__context__,
                one.__cause__,
                *(one.exceptions if isinstance(one, BaseExceptionGroup) else ()),
            ]


def global_state() -> tuple[Any, ...]:
    """Random number generators and torch's process-wide settings, comparable."""
    return (
        ("torch random state", torch.get_rng_state().numpy().tobytes()),
        ("python random state", random.getstate()),
        ("grad mode", torch.is_grad_enabled()),
        ("inference mode", torch.is_inference_mode_enabled()),
        (
            "autocast",
            torch.is_autocast_enabled("cpu"),
            torch.get_autocast_dtype("cpu"),
            torch.is_autocast_cache_enabled(),
        ),
        ("default dtype", torch.get_default_dtype()),
        (
            "deterministic",
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        ("function modes", torch._C._len_torch_function_stack()),
        ("dispatch modes", torch._C._len_torch_dispatch_stack()),
    )


def _run(
    template: World, saved: Any, calls: int, mutate: Any, exact: bool, wrap: Callable[[Any], Any]
) -> list[tuple[Outcome, Any]]:
    world = _install(template, saved)
    target = wrap(world.fn)
    torch.manual_seed(0)
    random.seed(0)
    seen = []
    for number in range(calls):
        if number and mutate is not None:
            mutate(number, world)
        seen.append(run_call(lambda: target(*world.args, **world.kwargs), world.roots, exact))
    return seen


def _values(world: World) -> Any:
    cells = getattr(world.fn, "__closure__", None) or ()
    callee = None if isinstance(world.fn, types.FunctionType) else world.fn
    values = (callee, world.args, world.kwargs, [_contents(c) for c in cells], [_read(o, n) for o, n in world.state])
    return _copy(values)


def _install(template: World, saved: Any) -> World:
    """A fresh world from the saved values: new arguments, cells and named places set back."""
    callee, args, kwargs, cells, places = _copy(saved)
    for cell, value in zip(getattr(template.fn, "__closure__", None) or (), cells):
        _fill(cell, value)
    for (owner, name), value in zip(template.state, places):
        _write(owner, name, value)
    return World(template.fn if callee is None else callee, args, kwargs, template.state)


def _copy(values: Any) -> Any:
    """A deep copy in one piece, so that sharing is kept.

    Results of operations are copied as leaves that want gradients.
    """
    memo: dict[int, Any] = {id(_ABSENT): _ABSENT}
    return copy.deepcopy(values, memo)


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _ABSENT


def _fill(cell: types.CellType, value: Any) -> None:
    if value is not _ABSENT:
        cell.cell_contents = value
    elif _contents(cell) is not _ABSENT:
        del cell.cell_contents


def _read(owner: Any, name: str) -> Any:
    return (owner if isinstance(owner, dict) else vars(owner)).get(name, _ABSENT)


def _write(owner: Any, name: str, value: Any) -> None:
    present = _read(owner, name) is not _ABSENT
    if isinstance(owner, dict):
        if value is not _ABSENT:
            owner[name] = value
        elif present:
            del owner[name]
    elif value is not _ABSENT:
        setattr(owner, name, value)
    elif present:
        delattr(owner, name)


def needs_versions_of(cls: type) -> None:
    """Skip a test of what a class's version gives where CPython (3.13 and later) has no version left for the class.

    It gives a class 1,000, and each change of the class uses one up: other tests of this process did.
    """
    if sys.version_info >= (3, 13):
        versions = pytest.importorskip("_testcapi")
        versions.type_assign_version(cls)
        if not versions.type_get_version(cls):
            pytest.skip(f"{cls.__name__} has no version left in this process")


def same_outcome(want: Outcome, got: Outcome) -> bool:
    """Returned alike, or raised the same exception at the same line of the program."""
    return (want.kind, want.words) == (got.kind, got.words) and (want.line == got.line or got.line == IN_GRAPH)


def _line(error: BaseException) -> str:
    """The innermost line of the program itself: framelift's and torch's frames left out."""
    place = "?"
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "<eval_with_key>" in name:
            return IN_GRAPH
        if not any(part in name for part in _NOT_PROGRAM):
            line = "?" if _line_depends_on_warmth(error) else trace.tb_lineno
            place = f"{name.rpartition('/')[2]}:{line} in {trace.tb_frame.f_code.co_name}"
        trace = trace.tb_next
    return place


def _line_depends_on_warmth(error: BaseException) -> bool:
    """CPython 3.11 fuses a read of a local into the instruction before it once a function has run a few times, and
    tells that one's line.
    """
    return isinstance(error, UnboundLocalError) and sys.version_info < (3, 12)


#: file names (parts of them) whose frames are not lines of the program under test
_NOT_PROGRAM = ("/framelift/", "<framelift", "/torch/", "tests/support.py", "tests/law/runner.py")


def _compare(want: Outcome, got: Outcome, number: int) -> None:
    where = f"call {number}"
    assert same_outcome(want, got), f"{where}: eager {want.kind} {want.detail}, captured {got.kind} {got.detail}"
    found = difference(want.after, got.after)
    assert found is None, f"{where}: eager and captured differ: {found}"
    for a, b in zip(want.surroundings, got.surroundings):
        assert a == b, f"{where}: {a[0]} differs: eager {a[1:]}, captured {b[1:]}"


def _count(before: Counts, after: Counts, graphs: int | None, breaks: int | None, captures: int | None) -> None:
    new = {k: v - before.breaks.get(k, 0) for k, v in after.breaks.items() if v != before.breaks.get(k, 0)}
    seen = {
        "graphs": after.graphs - before.graphs,
        "breaks": sum(new.values()),
        "captures": after.captures - before.captures,
    }
    for name, want in (("graphs", graphs), ("breaks", breaks), ("captures", captures)):
        assert want is None or seen[name] == want, f"{seen[name]} {name}, expected {want} (breaks: {new or 'none'})"


def or_type_error(*questions: Callable[[], Any]) -> list[Any]:
    """The answer to each question, or the text of the TypeError that it raises."""
    found = []
    for question in questions:
        try:
            found.append(question())
        except TypeError as error:
            found.append(str(error))
    return found
