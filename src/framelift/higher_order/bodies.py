"""Bodies: Python functions rehearsed into a graph of their own, for higher-order operators.

`rehearse_body` runs one; `Rehearsed` is what it recorded; `Rehearsed.close` makes the graph.  What a body changes
outside of itself is found by `Surroundings`: a body may run any number of times, or never, so its operator must
refuse such changes.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.fx.graph_module import GraphModule

from .. import _core
from .._core import is_a
from ..boundary.becomes.leaves import LEAF_TYPES
from ..boundary.records import HARMLESS
from ..graph.fx.tape import HANDS_FLOAT, HANDS_INT, build_body
from ..graph.fx.values import Step, Storage, Value
from ..graph.metadata.arguments import take
from ..graph.metadata.facts import Facts, new_stand_in
from ..graph.state.torch_state import State, read_state
from ..graph.symbols.number_nodes import graph_values, numbers_in
from ..graph.symbols.numbers import NUMBERS, Float
from ..graph.symbols.numpy_numbers import NumpyNumber
from ..torch_ports.modes import DisableTorchFunction
from ..vocabulary.class_reads import name_of
from ..vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ..recording.session import Recorder, Session

# nothing in them can be changed
_SIMPLE = frozenset({*LEAF_TYPES, *NUMBERS, NumpyNumber, torch.SymInt, torch.SymFloat, torch.SymBool})


@dataclass
class Rehearsed:
    """One body as it ran: what it returned, what it recorded, and the torch state it began in."""

    result: Any
    tape: list[Step] = field(repr=False)
    base: State
    written: list[Value] = field(repr=False)  # values whose memory it wrote
    within: list[list[Step]] = field(repr=False)  # its tape, and those of bodies inside of it

    @property
    def has_effect(self) -> bool:
        """True if it must run even if nobody needs its results."""
        return any(step.effect for step in self.tape)

    def close(
        self,
        recorder: Recorder,
        operands: Sequence[Value],
        outputs: Any,
        also: Sequence[Value] = (),
        takes: tuple[type, ...] = (),
        gives: Sequence[Value] | None = None,
    ) -> tuple[GraphModule, list[Value]]:
        """Its graph: takes the operands, `also`, and the values returned here too; gives `outputs` (of stand-ins).

        `takes`: which external numbers may be among those values (Int, Float); of others there is a graph for each.
        `gives`: values that it gives beside the outputs, in a list of their own.
        """
        kept, values = kept_of(recorder, outputs)
        if gives is not None:
            kept, values = (kept, list(gives)), [*values, *gives]
        if recorder.symbols is not None:
            values += graph_values(recorder.symbols, numbers_in(kept))
        with DisableTorchFunction():
            return build_body(
                self.tape,
                (*operands, *also),
                kept,
                values,
                self.base,
                recorder.symbols,
                recorder.input_value,
                recorder.example_of,
                functools.partial(_handed_in, recorder, takes) if takes else None,
            )

    def inline(self, recorder: Recorder) -> Any:
        """Its operations stand in the graph around it, as if there were no operator; its result."""
        recorder.tape.extend(self.tape)
        return self.result

    def escaping(self, recorder: Recorder) -> list[Value]:
        """The values made inside that its result holds, wherever in it they are."""
        inside = {id(step) for step in self.tape}
        found: list[Value] = []
        seen: set[int] = set()
        rest = [self.result]
        while rest:
            obj = rest.pop()
            if id(obj) in seen or type(obj) in _SIMPLE or is_a(obj, (type, types.ModuleType)):
                continue
            seen.add(id(obj))
            if recorder.is_stand_in(obj):
                value = recorder.value_of(obj)
                if id(value.step) in inside:
                    found.append(value)
            elif not is_a(obj, torch.Tensor):
                rest.extend(reversed(parts_of(obj) or []))
        return found

    def writes_outside(self) -> list[Value]:
        """The values among `written` whose memory was there before the body."""
        inside = {id(step) for tape in self.within for step in tape}
        return [v for v in self.written if any(id(other.step) not in inside for other in v.storage.values)]


def _handed_in(recorder: Recorder, takes: tuple[type, ...], name: str) -> Value | None:
    """A number outside as a value that bodies on this tape can be given, by its name among the symbols."""
    symbols, tape = recorder.with_symbols(), recorder.tape
    number = symbols.floats[name] if name in symbols.floats else symbols.named[name]
    if type(number) not in takes:
        return None
    for value, known in symbols.handed.items():
        if known == name and any(value.step is step for step in tape):
            return value
    value = Value(None, None, Storage(external=False))  # type: ignore[arg-type]  # a number, which has neither
    value.name = name
    value.step = Step(HANDS_FLOAT if type(number) is Float else HANDS_INT, [number], {}, [], read_state(), False, 0)
    tape.append(value.step)
    symbols.handed[value] = name
    return value


def rehearse_body(
    session: Session,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    once: bool = False,
) -> Rehearsed:
    """Run captured code with a tape of its own.  Called from a handler, that is paused.

    `once`: the body runs exactly once when the graph runs.
    """
    recorder = session.recorder
    calls = _calls_of_objects(recorder)
    if recorder.in_transform():
        raise Interrupt("torch-operation", "a higher-order operator inside a function transform")
    outer, outer_written, before = recorder.tape, recorder.written, len(recorder.bodies)
    recorder.tape, recorder.written = [], []
    base = read_state()
    try:
        result = _core.captured(function, args, kwargs)
        if not once and _calls_of_objects(recorder) > calls:
            raise Interrupt("body-effect", "a body of an operator (a call of an object of the program)")
        recorder.bodies.append(recorder.tape)
        return Rehearsed(result, recorder.tape, base, recorder.written, recorder.bodies[before:])
    finally:
        outer_written.extend(recorder.written)
        recorder.tape, recorder.written = outer, outer_written


def _calls_of_objects(recorder: Recorder) -> int:
    return recorder.objects.calls if recorder.objects is not None else 0


def kept_of(recorder: Recorder, outputs: Any) -> tuple[Any, list[Value]]:
    """A structure of stand-ins and plain values as steps keep it, and the values in it."""
    found: list[Value] = []
    (kept,) = take((outputs,), recorder.by_stand_in, [], found)
    return kept, found


def values_in(recorder: Recorder, items: Iterable[Any]) -> list[Value]:
    """The distinct values among the stand-ins given, in order."""
    return list(dict.fromkeys(recorder.value_of(item) for item in items if recorder.is_stand_in(item)))


def fresh(recorder: Recorder, facts: Facts, name: str = "", exact: bool = True) -> torch.Tensor:
    """A stand-in that belongs to a body alone: one of its operands."""
    with DisableTorchFunction():
        value = Value(new_stand_in(facts), facts, Storage(external=False))
    value.name = name
    value.exact = exact
    recorder.adopt(value)
    return value.stand_in


class Surroundings:
    """Everything a body can reach that is not its own, as it was before it ran.

    External objects are changed through the world's effects and shadows only.  Objects made earlier in the
    rehearsal are reached through the function's closure, its receiver and its arguments, or through pending
    writes.
    """

    def __init__(self, session: Session, *roots: Any) -> None:
        self._world = session.world
        self._effects = len(self._world.effects)
        self._shadows = len(self._world.shadows)
        self._keep: list[Any] = []
        self._before = portrait_of(
            [*roots, *self._world.overlay.values(), *(s.copy for s in self._world.shadows.values())], self._keep
        )

    def changed(self) -> str:
        """Return what was changed since, in words; empty if nothing."""
        world = self._world
        for effect in world.effects[self._effects :]:
            if effect.kind not in HARMLESS or not HARMLESS[effect.kind](effect.value):
                return f"{effect.kind} {effect.key}" if effect.key is not None else effect.kind
        for obj, before in self._before:
            # one that was let in meanwhile has its changes in the overlay
            if contents_of(obj) != before and not _core.is_external(obj):
                return f"a {type(obj).__name__} outside of it"
        for shadow in list(world.shadows.values())[self._shadows :]:
            if contents_of(shadow.copy) != contents_of(shadow.before):
                return f"a {type(shadow.original).__name__} outside of it"
        return ""


def portrait_of(roots: list[Any], keep: list[Any]) -> list[tuple[Any, tuple[int, ...]]]:
    """Each mutable object that the roots lead to, with the ids of what it holds; `keep` keeps them valid."""
    seen: set[int] = set()
    rows = []
    while roots:
        obj = roots.pop()
        if id(obj) in seen or type(obj) in _SIMPLE or is_a(obj, (type, types.ModuleType, torch.Tensor)):
            continue
        seen.add(id(obj))
        keep.append(obj)
        parts = parts_of(obj)
        if parts is not None:
            keep.append(parts)
            rows.append((obj, tuple(map(id, parts))))
            roots.extend(parts)
    return rows


def contents_of(obj: Any) -> tuple[int, ...]:
    """The ids of what an object holds."""
    return tuple(map(id, parts_of(obj) or ()))


_LISTED: tuple[type[Any], ...] = (list, tuple, set, frozenset)


def parts_of(obj: Any) -> list[Any] | None:
    """Return the contents of an object, without running any code of the user's; None if it has none that can change."""
    if is_a(obj, dict):
        return [*dict.keys(obj), *dict.values(obj), *_attributes(obj)]
    for kind in _LISTED:
        if is_a(obj, kind):
            return [*kind.__iter__(obj), *_attributes(obj)]
    if is_a(obj, types.FunctionType):
        return [*(obj.__closure__ or ()), *(obj.__defaults__ or ()), *(obj.__kwdefaults__ or {}).values()]
    if is_a(obj, types.CellType):
        try:
            return [obj.cell_contents]
        except ValueError:
            return []
    if is_a(obj, types.MethodType):
        return [obj.__self__, obj.__func__]
    if name_of(type(obj)) == "partial":
        return [obj.func, *obj.args, *obj.keywords.values()]
    if _core.is_external(obj):
        return None  # its attributes change in the overlay only
    return _attributes(obj)


def _attributes(obj: Any) -> list[Any]:
    try:
        table = object.__getattribute__(obj, "__dict__")
    except AttributeError:
        return []
    return [*table.keys(), *table.values()] if is_a(table, dict) else []
