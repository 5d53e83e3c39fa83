"""`torch.autograd.graph.saved_tensors_hooks` in captured code.

Which tensors are saved is asked of autograd, over a replay of the tape when the region ends.  The hooks are then
rehearsed with a tensor of each kind: they may change nothing outside, and look at nothing that may change.  Where
that does not do, the region is entered and left in eager mode.
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from .._core import is_a
from ..boundary.becomes.leaves import LEAF_TYPES
from ..calls.call_tables import substitute
from ..graph.fx.saved_tensor_nodes import Pair, SavedHooks, enter_hooks, kind_of, leave_hooks
from ..graph.fx.values import Body, Step, Value
from ..graph.metadata.facts import Facts, facts_of
from ..higher_order.bodies import fresh, parts_of
from ..higher_order.deferred_code import runs_later
from ..higher_order.operators import pure_body, record_step
from ..torch_ports.autograd import is_grad_enabled, saved_hooks_enabled, set_grad_enabled
from ..torch_ports.modes import DisableTorchFunction
from ..vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ..recording.session import Recorder, Session

_NAME = "torch.autograd.graph.saved_tensors_hooks"
_HOOK = "a hook on saved tensors"


class Region:
    """A region that captured code is in: its hooks as the program sees them, and the step that enters it."""

    def __init__(self, context: Any, pack: Any, unpack: Any, step: Step, index: int) -> None:
        self.context, self.pack, self.unpack = context, pack, unpack
        self.step, self.index = step, index
        self.hooks: SavedHooks = step.args[0].module


@substitute(torch.autograd.graph.saved_tensors_hooks.__enter__)
def _enter(session: Session, self: Any) -> None:
    recorder = session.recorder
    if (
        recorder.knowledge.saves_eagerly
        or recorder.in_transform()
        or recorder.tape_is_a_body()
        or recorder.modes
        or recorder.overrides
        or recorder.symbols is not None
        or recorder.wrapped is not None
        or not saved_hooks_enabled()
    ):
        raise Interrupt("torch-state", _NAME)
    pack, unpack = _core.read(self, "pack_hook"), _core.read(self, "unpack_hook")
    for hook in (pack, unpack):
        try:
            runs_later(session, _HOOK, hook, is_later=hook is unpack)
        except Interrupt as stop:
            raise Interrupt("torch-state", _NAME) from stop
        session.at_end(functools.partial(_check, recorder, session.world.ends.finishing.pop()))
    index = len(recorder.tape)
    step = record_step(recorder, enter_hooks, [Body(SavedHooks(), "saved_hooks"), (), ()], {}, [], effect=True)
    recorder.gradients.saving.append(Region(self, pack, unpack, step, index))


@substitute(torch.autograd.graph.saved_tensors_hooks.__exit__)
def _exit(session: Session, self: Any, *args: Any) -> None:
    recorder = session.recorder
    if not recorder.gradients.saving or recorder.gradients.saving[-1].context is not self:
        raise Interrupt("torch-state", _NAME)
    region = recorder.gradients.saving[-1]
    try:
        _close(session, region)
    except (Interrupt, Exception) as stop:  # what a hook raises comes out of an operation
        raise _rather_plain(recorder) from stop
    recorder.gradients.saving.pop()


def _close(session: Session, region: Region) -> None:
    """Rehearse the hooks for the tensors that are saved in a region, which ends here."""
    recorder, hooks = session.recorder, region.hooks
    inside = recorder.tape[region.index + 1 :]
    if (
        recorder.symbols is not None
        or recorder.gradients.flagged
        or any(step.state.autocast is not None or _has_body(step) for step in inside)
    ):
        raise Interrupt("torch-state", _NAME)
    record_step(recorder, leave_hooks, [region.step.args[0]], {}, [], effect=True)
    inputs, kinds = _saved(
        recorder,
        region,
        list(dict.fromkeys(value for step in inside for value in step.inputs if value.external is not None)),
    )
    around: list[Value] = []
    before = is_grad_enabled()
    set_grad_enabled(False)  # as autograd does
    try:
        hooks.own = [_pair(session, region, value, around) for value in inputs]
        pairs = {kind: _pair(session, region, _operand(recorder, facts), around) for kind, facts in kinds.items()}
    finally:
        set_grad_enabled(before)
    made = {id(step) for step in recorder.tape[region.index :]}
    if any(id(value.step) in made for value in around):
        raise Interrupt("torch-state", _NAME)
    hooks.pairs, hooks.otherwise = pairs, functools.partial(_rather_plain, recorder)
    region.step.args[1:] = [tuple(inputs), tuple(around)]
    region.step.inputs.extend(dict.fromkeys((*inputs, *around)))


def _saved(recorder: Recorder, region: Region, inputs: list[Value]) -> tuple[list[Value], dict[Any, Facts]]:
    """Return what a region saves: which inputs of the graph, and what other kinds of tensors.

    None of these may be one that hooks know by identity.
    """
    seen, known = region.hooks.seen, _held(recorder, [region.pack, region.unpack])

    def then(fakes: list[Any]) -> tuple[list[Value], dict[Any, Facts]]:
        saved = {id(tensor) for tensor in seen}
        if any(id(fake) in saved for fake in fakes[len(inputs) :]):
            raise Interrupt("torch-state", _NAME)
        own = {id(fake) for fake in fakes}
        return (
            [value for value, fake in zip(inputs, fakes) if id(fake) in saved],
            {kind_of(tensor): facts_of(tensor) for tensor in seen if id(tensor) not in own},
        )

    seen.clear()
    try:
        with DisableTorchFunction():
            found: tuple[list[Value], dict[Any, Facts]] = recorder.replay(_NAME, [*inputs, *known], then)
    finally:
        seen.clear()
    return found


def _held(recorder: Recorder, roots: list[Any]) -> list[Value]:
    """The results that functions reach by their closures and defaults."""
    found: dict[Value, None] = {}
    seen: set[int] = set()
    while roots:
        obj = roots.pop()
        if id(obj) in seen:
            continue
        seen.add(id(obj))
        if recorder.is_stand_in(obj):
            value = recorder.value_of(obj)
            if value.external is None:
                found[value] = None
        elif not is_a(obj, (type, types.ModuleType, torch.Tensor)) and type(obj) not in LEAF_TYPES:
            roots.extend(parts_of(obj) or [])
    return list(found)


def _operand(recorder: Recorder, facts: Any) -> Value:
    """Return the value that stands for a saved tensor that is no input."""
    if type(facts) is not Facts or facts.requires_grad and facts.is_leaf or facts.is_conj or facts.is_neg:
        raise Interrupt("torch-state", _NAME)
    value: Value = recorder.value_of(fresh(recorder, facts, "saved", exact=False))
    return value


def _pair(session: Session, region: Region, operand: Value, around: list[Value]) -> Pair:
    """The hooks for one tensor; what they take from around them is added to `around`."""
    recorder = session.recorder
    packing = pure_body(session, _HOOK, region.pack, (operand.stand_in,))
    unpacking = pure_body(session, _HOOK, region.unpack, (packing.result,))
    if not recorder.is_stand_in(unpacking.result) or any(
        step.effect or step.effect_level or step.state.grad for step in (*packing.tape, *unpacking.tape)
    ):
        raise Interrupt("torch-state", _NAME)
    kept = packing.escaping(recorder)
    unpack, taken = unpacking.close(recorder, kept, unpacking.result)
    if operand in taken:
        kept = [operand, *kept]
        unpack, taken = unpacking.close(recorder, kept, unpacking.result)
    pack, given = packing.close(recorder, [operand], [value.stand_in for value in kept])
    inside = {id(step) for step in (*packing.tape, *unpacking.tape)}
    if any(id(value.step) in inside for value in (*given, *taken)):
        raise Interrupt("torch-state", _NAME)
    around += [value for value in dict.fromkeys((*given, *taken)) if value not in around]
    return Pair(pack, unpack, tuple(map(around.index, given)), tuple(map(around.index, taken)))


def _has_body(step: Step) -> bool:
    return any(is_a(arg, Body) and type(arg.module) is not SavedHooks for arg in step.args)


def _check(recorder: Recorder, looked: Any) -> None:
    """Interrupts where captured code ends inside of a region, or what a hook looks at was changed."""
    try:
        looked()
    except Interrupt as stop:
        raise _rather_plain(recorder) from stop
    if recorder.gradients.saving:
        raise _rather_plain(recorder)


def _rather_plain(recorder: Recorder) -> Interrupt:
    """An interrupt; in the next rehearsal, there is one where the region is entered."""
    stop = Interrupt("torch-state", _NAME)
    stop.first = recorder.knowledge.lesson("saves_eagerly")
    return stop
