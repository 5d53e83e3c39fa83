"""Tensors whose values are known while capturing: they depend on no input, or on small integers that are guarded.
Of a few fractions that an object holds, what is true of them is known.

Where captured code takes such a value into Python (`mask.any()`, `torch.linspace(0, 1, n).tolist()`,
`grid.prod().item()`), the steps that made it are run for real, on private tensors, and the answer is as constant
as the program's own numbers are.  Nothing is computed before somebody asks.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any

import torch

from .. import _core
from .._core import is_a
from ..boundary.world import World
from ..graph.fx.targets import Getter, Target
from ..graph.fx.values import Body, Step, Value
from ..graph.metadata.arguments import rebuild
from ..graph.metadata.facts import Facts, plain_kind
from ..graph.metadata.unheard import unheard
from ..graph.symbols.number_nodes import numbers_in
from ..graph.symbols.numbers import NUMBERS
from ..guards.checks import check as is_check
from ..torch_ports.modes import DisableTorchFunction
from ..torch_ports.tensors import PRINT_OPTS
from ..vocabulary.code_knowledge import knowledge_of
from ..vocabulary.origins import Origin, const

_MOST_ELEMENTS = 1 << 20
_MOST_GUARDED = 256
_MOST_FRACTIONS = 16
_MOST_CAPTURES = 2
_MOST_STEPS = 6
_WHOLE = frozenset({torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})


#: operations that look at the metadata of an argument only -> its position
_LOOKED_AT = {
    "expand_as": 1,
    "view_as": 1,
    "reshape_as": 1,
    "type_as": 1,
    "zeros_like": 0,
    "ones_like": 0,
    "full_like": 0,
    "new_zeros": 0,
    "new_ones": 0,
    "new_full": 0,
    "new_tensor": 0,
}


class SameResult(_core.Remembered):
    """The check of a guard: from what tensors hold follows what followed when that was taken into Python.

    `program` is a row of functions with their arguments, where `ResultPart(n)` is what the n-th of them gave,
    `ResultPart(-1)` the first tensor and `ResultPart(-2)` the second; without any, it is the first tensor itself that
    is compared.  It holds nothing of the rehearsal.  `result` is
    the place of what follows; tensors at the places `written` are copied before, since functions write to them.
    """

    result: ResultPart | None = None  # what the last function gives
    written: tuple[int, ...] = ()

    def __init__(
        self, sources: Sequence[Any], program: list[tuple[Target, list[Any], dict[str, Any]]], expected: torch.Tensor
    ) -> None:
        self.facts = [(source.shape, source.dtype) for source in sources]
        self.program = [(target.func, args, kwargs) for target, args, kwargs in program]
        self.words = ", ".join(
            f"{target.name}{'' if not target.reflected else ' reflected'}{args}{kwargs or ''}"
            for target, args, kwargs in program
        )
        self.expected = expected

    def holds(self, *tensors: Any) -> bool:
        """Return whether it does; not asked while the tensors hold the bytes for which it did."""
        try:
            with DisableTorchFunction():
                if any((one.shape, one.dtype) != facts for one, facts in zip(tensors, self.facts)):
                    return False
                return torch.equal(self.made(*tensors), self.expected)
        except Exception:  # noqa: BLE001  what cannot be computed is not the same
            return False

    def made(self, *tensors: Any) -> Any:
        """Compute the result from tensors."""
        made: list[Any] = []
        with torch.no_grad():
            if self.written:
                tensors = tuple([one.clone() if i in self.written else one for i, one in enumerate(tensors)])
            for func, args, kwargs in self.program:
                made.append(func(*[_given(arg, made, tensors) for arg in args], **kwargs))
        if self.result is not None:
            return _given(self.result, made, tensors)
        return made[-1] if made else tensors[0]


def _given(arg: Any, made: list[Any], tensors: Sequence[Any]) -> Any:
    """An argument of a function of a program."""
    if type(arg) in (list, tuple):
        return type(arg)([_given(part, made, tensors) for part in arg])
    if type(arg) is not ResultPart:
        return arg
    return tensors[~arg.index] if arg.index < 0 else _part(made[arg.index], arg.path)


class ResultPart:
    """The result of an earlier function of a program, or a part of it."""

    __slots__ = ("index", "path")

    def __init__(self, index: int, path: tuple[int | str, ...] = ()) -> None:
        self.index, self.path = index, path

    def __repr__(self) -> str:
        return f"#{self.index + 1}" + "".join([f"[{key!r}]" for key in self.path])


def guard_values(world: World, root: CodeType, tensors: list[torch.Tensor], always: bool) -> bool:
    """Guard what tensors hold; False, and no guard, where the values at one of the origins were others too often
    before.

    Where there are none, values depend on symbolic numbers alone: those are fixed only for a program that must be
    captured whole.
    """
    if not tensors:
        return always
    guarded = knowledge_of(root).guarded_values
    found = []
    for tensor in tensors:
        origin, said = world.memo[id(tensor)].origin, str(tensor.tolist())
        known = guarded.setdefault(str(origin), set())
        if not always and said not in known and len(known) >= (_MOST_CAPTURES if tensor.numel() > 1 else 1):
            knowledge_of(root).taken_numbers_change |= tensor.numel() == 1
            return False
        found.append((tensor, origin, said, known))
    for tensor, origin, said, known in found:
        known.add(said)
        world.guard(origin, "CHECK", (SameResult([tensor], [], tensor.detach().clone()), f"holds {said}"), "values")
    return True


def guard_result(
    world: World, root: CodeType, tensors: Sequence[torch.Tensor], check: SameResult, always: bool
) -> bool:
    """Guard what follows from what tensors hold; False, and no guard, where that changed too often."""
    origins = [world.memo[id(tensor)].origin for tensor in tensors]
    fractions = [one for tensor, one in zip(tensors, origins) if tensor.dtype.is_floating_point]
    if not all(map(_is_held, fractions)):
        return False
    known = knowledge_of(root).results.setdefault((" ".join(map(str, origins)), check.words), set())
    said = str(check.expected.tolist())
    if said not in known and len(known) >= (1 if fractions else _MOST_CAPTURES) and not always:
        return False
    known.add(said)
    guard_together(world, origins, check, f"holds what makes {check.words} {said}", check.words)
    return True


def _is_held(origin: Origin) -> bool:
    """Return whether an object, function or module holds what lies there: it is not given anew to each call."""
    while origin.step in ("item", "key", "value") and origin.base is not None:
        origin = origin.base
    return origin.step != "arg"


def guard_together(world: World, origins: Sequence[Origin], check: Callable[..., bool], said: str, words: str) -> None:
    """Guard that a function holds of the values at one or more places."""
    first, *others = origins
    if others:
        words = f"{words} {' '.join(map(str, others))}"
        world.guard(first, "JOINT", (check, f"{said}, with {', '.join(map(str, others))}", tuple(others)), words)
    else:
        world.guard(first, "CHECK", (check, said), ("result", words))


def guard_text(world: World) -> None:
    """Guard how tensors are printed: the text of one was taken."""
    said = dict(vars(PRINT_OPTS))
    check = functools.partial(_prints_with, tuple(said.items()))
    world.guard(const(PRINT_OPTS), "CHECK", (check, f"prints with {said}"), "print options")


@is_check
def _prints_with(options: tuple[tuple[str, Any], ...], now: Any) -> bool:
    return vars(now) == dict(options)


def is_small(tensor: torch.Tensor) -> bool:
    """Return whether an external tensor holds few integers: such as sizes, counts and flags are."""
    read = _core.of_tensor
    return (
        read(tensor, "dtype") in _WHOLE
        and read(tensor, "numel") <= _MOST_GUARDED
        and read(tensor, "device").type != "meta"
    )


def may_be_guarded(facts: Facts) -> bool:
    """Return whether a tensor may be small, as `is_small` has it, where it is an input."""
    numel = math.prod(facts.size)
    return facts.dtype in _WHOLE and (type(numel) is not int or numel <= _MOST_GUARDED)


class KnownValues:
    """The values that are known of one tape.

    `guard_values` allows external tensors to be known, all of them or none, and guards what they hold;
    `guard_result` does so where all that matters of one is what follows from it.  Both are set by the session.
    """

    guard_values: Callable[[list[torch.Tensor]], bool] | None = None
    guard_result: Callable[[list[torch.Tensor], SameResult], bool] | None = None

    def __init__(self, tape: list[Step]) -> None:
        self._tape = tape
        self._kept: dict[int, Any] = {}  # results of steps that nothing has written to, by id
        self.declared: dict[int, torch.Tensor] = {}  # external tensors that the program declares to be constant, by id

    def tensor(self, value: Value, values: Iterable[Value], outside: bool) -> torch.Tensor | None:
        """The real tensor, or None where it depends on more than is known.  `values` are all there are.  Torch function
        must be off.

        `outside`: inputs may be known too.
        """
        if value.step is not None and id(value.step) in self._kept:
            return _part(self._kept[id(value.step)], value.path)
        given: dict[int, list[Value]] = {}
        for one in values:
            given.setdefault(id(one.step), []).append(one)
        steps, inputs = self._slice(value, given)
        if value.external is None and (value.step is None or all(step is not value.step for step in steps)):
            return None  # of a body: an operand of it, or the result of a step on its own tape
        if any(not _may_run(step) for step in steps):
            return None
        symbolic = any(numbers_in([step.args, step.kwargs]) for step in steps)
        fractions = [one for one in inputs if not self._is_fact(one)]
        if (inputs or symbolic) and not outside or not all(map(_is_few_fractions, fractions)):
            return None
        if symbolic and not self.may_know([]):  # it would fix them: one capture for each of their values
            return None
        program = _program(value, steps, inputs) if inputs and not symbolic and not value.path else None
        if inputs and program is None and (fractions or not self.may_know(inputs)):
            return None
        real: dict[int, Any] = {id(one): one.external.detach().clone() for one in inputs if one.external is not None}
        results: dict[int, Any] = {}

        def of(one: Any) -> Any:
            if type(one) in NUMBERS:
                return _fixed(one)
            return real[id(one)] if one.step is None else _part(results[id(one.step)], one.path)

        try:
            for step in steps:
                results[id(step)] = _run(step, of)
        except Exception:  # the graph will raise it, if it gets there
            return None
        if program is not None:
            made = results[id(value.step)]
            # what lies between is not guarded, so it is not kept
            is_truth = type(made) is torch.Tensor and made.dtype is torch.bool and made.numel() == 1
            if type(made) is torch.Tensor and made.numel() <= _MOST_GUARDED and (is_truth or not fractions):
                sources: list[Any] = [one.external for one in inputs]
                check = SameResult(sources, program, made.clone())
                return made if self.guard_result is not None and self.guard_result(sources, check) else None
            if fractions or not self.may_know(inputs):
                return None
        if not any(step.effect for step in steps):
            self._kept.update(results)
        return real[id(value)] if value.step is None else _part(results[id(value.step)], value.path)

    def program(
        self, value: Value, values: Iterable[Value], taken: Step, any_few: bool = False
    ) -> tuple[list[torch.Tensor], SameResult, torch.Tensor] | None:
        """The external tensors that a value follows from, the functions that lead there, and the real value; guards
        nothing.  None where there are none, or what they hold may not be known.

        `taken`: the step that read the value, so that later writes do not count.  `any_few`: numbers of any kind may be
        known where they are few or none, also if the program has written to them before it read them.
        """
        given: dict[int, list[Value]] = {}
        for one in values:
            given.setdefault(id(one.step), []).append(one)
        steps, inputs = self._slice(value, given, taken)
        is_known = _is_one_of_few if any_few else self._is_fact
        if not (inputs or any_few) or not all(map(is_known, inputs)) or any(not _may_run(step) for step in steps):
            return None
        if any(numbers_in([step.args, step.kwargs]) for step in steps):
            return None
        program = _program(value, steps, inputs, any_few) if steps else [] if [value] == inputs else None
        sources: list[Any] = [one.external for one in inputs]
        if program is None:
            return None
        check = SameResult(sources, program, sources[0] if sources else torch.empty(0))
        if any_few:
            check.result = _placed(value, *_places_of(inputs, steps))
            check.written = tuple(i for i, one in enumerate(inputs) if one.storage.written)
        try:
            made = check.made(*[source.detach().clone() for source in sources])
        except Exception:  # the graph will raise it, if it gets there
            return None
        return sources, check, _part(made, value.path)

    def may_know(self, inputs: list[Value]) -> bool:
        """Return whether what these external tensors hold may be known; guards it then."""
        return self.guard_values is not None and self.guard_values(
            [one.external for one in inputs if one.external is not None]
        )

    def _is_fact(self, one: Value) -> bool:
        """Return whether what an input holds may be known: few integers, or few numbers that are declared constant."""
        tensor: Any = one.external
        if tensor is None or one.storage.written or plain_kind(tensor) is not type(tensor):
            return False
        return (
            is_small(tensor)
            or id(tensor) in self.declared
            and tensor.numel() <= _MOST_GUARDED
            and tensor.device.type != "meta"
        )

    def _slice(
        self, value: Value, made: dict[int, list[Value]], before: Step | None = None
    ) -> tuple[list[Step], list[Value]]:
        """The steps that a value follows from, in order, with writes to its memory, and the inputs they begin with.

        Those that come `before` a step alone, where it is on the tape.
        """
        end = next((i for i, step in enumerate(self._tape) if step is before), len(self._tape))
        memory = {id(value.storage)}
        steps: list[Step] = []
        inputs = {id(value): value} if value.step is None else {}
        for step in reversed(self._tape[:end]):
            touched = [*made.get(id(step), ()), *(step.inputs if step.effect else ())]
            if any(id(one.storage) in memory for one in touched):
                read = _read(step)
                memory.update(id(one.storage) for one in read)
                inputs.update((id(one), one) for one in read if one.step is None)
                steps.append(step)
        return steps[::-1], list(inputs.values())


def _is_one_of_few(one: Value) -> bool:
    """Return whether an input holds few numbers, and no other input has a part in its memory."""
    tensor: Any = one.external
    return (
        tensor is not None
        and plain_kind(tensor) is type(tensor)
        and type(one.facts) is Facts
        and one.facts.size.numel() <= _MOST_GUARDED
        and one.facts.device.type != "meta"
        and not (one.storage.wrapped or one.storage.shared)
        and all(other is one or other.external is None for other in one.storage.values)
    )


def _is_few_fractions(one: Value) -> bool:
    """Return whether an input holds so few fractions that what is true of them may be guarded."""
    return _is_one_of_few(one) and (
        one.facts.dtype.is_floating_point
        and one.facts.size.numel() <= _MOST_FRACTIONS
        and one.facts.device.type == "cpu"
        and not one.storage.written
    )


def _places_of(sources: list[Value], steps: list[Step]) -> tuple[dict[int, int], dict[int, int]]:
    """By id, the places of sources and of steps in a program."""
    return {id(source): ~i for i, source in enumerate(sources)}, {id(step): i for i, step in enumerate(steps)}


def _program(
    value: Value, steps: list[Step], sources: list[Value], writes: bool = False
) -> list[tuple[Target, list[Any], dict[str, Any]]] | None:
    """The steps from inputs to a value as functions and arguments, where they are few and plain.

    `writes`: some may write to what they are given, and the value may be any that they lead to.
    """
    few = 0 < len(steps) <= _MOST_STEPS and len(sources) <= _MOST_STEPS
    if not few or value.step is not steps[-1] and not writes or any(source.external is None for source in sources):
        return None
    given, made = _places_of(sources, steps)
    program = []
    for step in steps:
        if (
            step.effect
            and not writes
            or type(step.target) is Getter
            or _looked_at(step) is not None
            or not all(map(_is_plain_argument, step.kwargs.values()))
        ):
            return None
        try:
            args = [_placed(arg, given, made) for arg in step.args]
        except LookupError:
            return None
        program.append((step.target, args, dict(step.kwargs)))
    return program


def _placed(arg: Any, given: dict[int, int], made: dict[int, int]) -> Any:
    """An argument with places for values; raises LookupError for what a guard cannot keep."""
    if type(arg) in (list, tuple):
        return type(arg)([_placed(part, given, made) for part in arg])
    if type(arg) is Value:
        return ResultPart(given[id(arg)]) if id(arg) in given else ResultPart(made[id(arg.step)], arg.path)
    if not _is_plain_argument(arg):
        raise LookupError
    return arg


def _is_plain_argument(arg: Any) -> bool:
    if type(arg) is slice:
        return all(type(part) in (int, types.NoneType) for part in (arg.start, arg.stop, arg.step))
    return arg is None or arg is ... or type(arg) in (bool, int, float, str, torch.dtype, torch.device)


def _fixed(number: Any) -> Any:
    """A symbolic number as a constant of the capture: values that were taken belong to this size alone."""
    if getattr(number, "hint", None) is None:
        raise ValueError("only the graph knows it")
    return number.value()


def _read(step: Step) -> list[Value]:
    """The arguments whose values an operation reads."""
    seen = _looked_at(step)
    return step.inputs if seen is None else [one for one in step.inputs if one is not seen]


def _looked_at(step: Step) -> Value | None:
    """The argument of which it needs the metadata only."""
    place = _LOOKED_AT.get(step.target.name)
    seen = step.args[place] if place is not None and len(step.args) > place else None
    others = [*(arg for i, arg in enumerate(step.args) if i != place), *step.kwargs.values()]
    return (
        seen if type(seen) is Value and type(seen.facts) is Facts and all(arg is not seen for arg in others) else None
    )


def _part(result: Any, path: tuple[int | str, ...]) -> Any:
    for index in path:
        result = result[index]
    return result


def _run(step: Step, of: Callable[[Value], Any]) -> Any:
    seen = _looked_at(step)
    args = [_blank(seen.facts) if arg is seen and seen is not None else rebuild(arg, of) for arg in step.args]
    named = {name: rebuild(arg, of) for name, arg in step.kwargs.items()}
    if any(is_a(arg, torch.Tensor) and arg.numel() > _MOST_ELEMENTS for arg in args):
        raise OverflowError
    with torch.no_grad(), unheard():  # the step is one of the graph's
        return getattr(args[0], step.target.name) if type(step.target) is Getter else step.target.func(*args, **named)


def _blank(facts: Facts) -> torch.Tensor:
    if facts.size.numel() > _MOST_ELEMENTS:
        raise OverflowError
    return torch.empty_strided(facts.size, facts.stride, dtype=facts.dtype, device=facts.device)


def _may_run(step: Step) -> bool:
    if step.state.dtype is not torch.get_default_dtype():
        return False
    if (
        step.effect_level
        or step.state.autocast is not None
        or step.state.inference
        or any(is_a(arg, Body) for arg in step.args)
    ):
        return False
    return all(one.step is not None or one.external is not None for one in step.inputs) and all(
        abs(size) <= _MOST_ELEMENTS for size in step.args if type(size) is int
    )
