"""Recording inside function transforms: steps of operations over live fakes (graph/metadata/live_fakes.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .._core import is_a
from ..graph.fx.targets import Target
from ..graph.fx.values import Step, Value
from ..graph.metadata.cache import VALUES, are_believed
from ..graph.metadata.facts import SymbolicFacts, facts_of, new_stand_in
from ..graph.metadata.live_fakes import Live, LiveOutcome
from ..graph.metadata.wrappers import WrapperFacts
from ..graph.state.torch_state import State
from ..torch_ports.autograd import is_grad_enabled
from ..vocabulary.class_reads import qualname_of
from ..vocabulary.reasons import Interrupt
from .asking import over_fakes
from .session import Recorder


def record_live(
    recorder: Recorder,
    target: Target,
    kept: list[Any],
    kept_named: dict[str, Any],
    found: list[Value],
    state: State,
    gives_values: bool = False,
    effect: bool = False,
    live: Live | None = None,
    kind: Any = None,
) -> Any:
    """Run one operation under the interpreters and record it.  `effect`: it stays in the graph whoever needs its
    result.

    `live` and `kind` are what else runs it and reads its results: for wrapper subclasses (wrapper_results.py).
    """
    live = recorder.live if live is None else live
    found = list(dict.fromkeys(found))

    outcome = live.run(target.name, found, over_fakes(recorder, target, kept, kept_named, found))
    _take_writes(recorder, target, outcome, found)
    if outcome.effect_level or outcome.written:
        recorder.note_effect(target, outcome, found)
    step = Step(
        target,
        kept,
        kept_named,
        found,
        state,
        effect or bool(outcome.effect_level) or bool(outcome.written) or bool(outcome.changes),
    )
    results = (kind or Results)(recorder, live, target, step, found)
    answer = results.read(outcome.result, ())
    if not results.made and not step.effect:
        if type(outcome.result) in VALUES and not gives_values and outcome.result is not NotImplemented:
            raise Interrupt("torch-operation", f"{target.name}, which gives a Python value")
        return answer
    recorder.tape.append(step)
    return answer


def _take_writes(recorder: Recorder, target: Target, outcome: LiveOutcome, found: list[Value]) -> None:
    for index in outcome.written:
        value = found[index]
        if value.external is not None and any(v.facts.requires_grad for v in found):
            if type(value.facts) is not WrapperFacts:
                raise Interrupt(
                    "torch-operation", f"{target.name}, which writes to an input inside a function transform"
                )
            if is_grad_enabled():
                raise Interrupt(
                    "torch-operation",
                    f"{target.name}, which writes to a {qualname_of(value.facts.kind)} and is to be differentiated,",
                )
        if value.storage.shared:
            raise Interrupt("torch-operation", f"{target.name} into a tensor that may be another one too")
        value.storage.written = True
        recorder.written.append(value)
    for index, facts in outcome.changes:
        value = found[index]
        if value.external is not None or facts.size != value.facts.size:
            raise Interrupt(
                "torch-operation", f"{target.name}, which changes the metadata of a tensor inside a function transform"
            )
        fake = recorder.live.fake(value)
        value.facts = facts
        recorder.live.born(value, fake)


class Results:
    """Turns raw results into stand-ins."""

    def __init__(self, recorder: Recorder, live: Live, target: Target, step: Step, found: list[Value]) -> None:
        self.recorder = recorder
        self.live = live
        self.name = target.name
        self.step = step
        self.found = found
        self.made = 0

    def read(self, raw: Any, path: tuple[Any, ...]) -> Any:
        """A result or a part of it, as captured code sees it."""
        if is_a(raw, torch.Tensor):
            value = self.live.known(raw)
            return value.stand_in if value is not None else self.tensor(raw, path)
        kind = type(raw)
        if kind in VALUES or kind in (torch.SymInt, torch.SymFloat, torch.SymBool):
            return self.recorder.shown(raw)
        if kind in (tuple, list) or is_a(raw, tuple):
            items = [self.read(item, (*path, i)) for i, item in enumerate(raw)]
            return items if kind is list else tuple(items) if kind is tuple or hasattr(kind, "_fields") else kind(items)
        raise Interrupt("torch-operation", f"{self.name}, which gives an object of type {qualname_of(kind)}")

    def plain(self) -> Sequence[Value]:
        """The arguments, whose layout decides that of the results."""
        return self.found

    def tensor(self, fake: torch.Tensor, path: tuple[Any, ...]) -> torch.Tensor:
        """A result that is a new tensor."""
        if fake.layout is not torch.strided:
            raise Interrupt("tensor-kind", f"{self.name} gives layout {fake.layout}")
        facts = facts_of(fake)
        storage, shared = self.live.storage(fake, self.found)
        value = Value(new_stand_in(facts), facts, storage, "custom" if shared else "")
        value.step, value.path = self.step, path
        value.exact = (
            shared
            or all(v.exact for v in self.plain())
            and are_believed([facts], [v.facts for v in self.plain()], False)
        )
        self.live.born(value, fake)
        self.made += 1
        self.recorder.adopt(value)
        if type(facts) is SymbolicFacts:
            self.recorder.with_symbols().new_sizes(value)
        return value.stand_in
