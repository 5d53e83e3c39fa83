"""The result of an operation that no cache knows: it runs over fakes, and what was observed becomes an outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import config
from ..graph.fx.targets import Getter, OneNode, Target
from ..graph.fx.values import Value
from ..graph.metadata.arguments import has_long_part, rebuild
from ..graph.metadata.cache import Outcome, outcome_of
from ..graph.metadata.facts import SymbolicFacts
from ..graph.metadata.meta_kernels import laid_out_by, runs_on_meta
from ..graph.metadata.refusals import check_arguments, check_dtypes, check_writes
from ..graph.state.torch_state import State
from ..graph.symbols.numbers import NUMBERS
from ..vocabulary.quiet_capture import silenced
from ..vocabulary.reasons import Interrupt
from .session import Recorder

_MOST_KEY_PARTS = 512  # literal data beyond this (torch.tensor of a long list) is not worth a cache entry


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One operation: `kept` and `kept_named` are its arguments with values in place of stand-ins, `found` these values.

    `key` is its place in caches.  `gives_values`: a result without tensors is to be believed.  `numbers`: there are
    symbolic numbers among the arguments.
    """

    key: tuple[Any, ...]
    target: Target
    kept: list[Any]
    kept_named: dict[str, Any]
    found: list[Value]
    gives_values: bool
    state: State
    numbers: bool


def ask(recorder: Recorder, asked: Operation) -> Outcome:
    """The outcome, remembered for the process; with symbols for this rehearsal alone."""
    if recorder.symbols is not None:
        return ask_symbolic(recorder, asked)
    outcome = _observed(recorder, asked)
    if (
        len(asked.key) < _MOST_KEY_PARTS
        and not has_long_part(asked.key, _MOST_KEY_PARTS)
        and type(asked.target) is not OneNode
    ):
        recorder.cache.put(asked.key, outcome)
    return outcome


def gives_a_size(stop: Interrupt) -> bool:
    """Return whether the result's size is one more number that the graph may compute."""
    return stop.reason.id == "data-dependent-shape" and config.capture_dynamic_output_shape_ops


def ask_symbolic(recorder: Recorder, asked: Operation) -> Outcome:
    """The outcome with symbols, which are the rehearsal's own.  What only the graph knows is new each time."""
    symbols = recorder.with_symbols()
    outcome = recorder.own_outcomes.get(asked.key)
    if outcome is None:
        symbolic = asked.numbers or any(type(value.facts) is SymbolicFacts for value in asked.found)
        unknown = len(symbols.env.var_to_range)
        outcome = _observed(recorder, asked, meta_kernels=not symbolic)
        symbols.note_line()
        symbols.env.pending_fresh_unbacked_symbols.clear()  # they are known by the step that makes them
        if len(symbols.env.var_to_range) == unknown and len(asked.key) < _MOST_KEY_PARTS:
            recorder.own_outcomes[asked.key] = outcome
    return outcome


def over_fakes(
    recorder: Recorder,
    target: Target,
    kept: list[Any],
    kept_named: dict[str, Any],
    found: list[Value],
    given_back: list[int] | None = None,
) -> Callable[[list[Any]], Any]:
    """The call of an operation with fakes in place of the values `found`.  `given_back` gets the place of the list or
    tuple that is the result, if it is one of the arguments itself.
    """

    def call(fakes: list[Any]) -> Any:
        fake_of = {id(value): fake for value, fake in zip(found, fakes)}

        def given(value: Any) -> Any:
            return recorder.with_symbols().raw(value) if type(value) in NUMBERS else fake_of[id(value)]

        args = [rebuild(arg, given) for arg in kept]
        named = {name: rebuild(arg, given) for name, arg in kept_named.items()}
        result = getattr(args[0], target.name) if type(target) is Getter else target.func(*args, **named)
        if given_back is not None and type(result) in (list, tuple) and result:
            given_back.extend(i for i, arg in enumerate((*args, *named.values())) if arg is result)
        return result

    return call


def _observed(recorder: Recorder, asked: Operation, meta_kernels: bool = True) -> Outcome:
    target, kept, kept_named, found = asked.target, asked.kept, asked.kept_named, asked.found

    given_back: list[int] = []
    call = over_fakes(recorder, target, kept, kept_named, found, given_back)
    recorder.cache.misses += 1
    facts = [value.facts for value in found]
    check_arguments(target, kept, kept_named, found)
    before = silenced()
    regular = runs_on_meta(target.func, facts, kept, kept_named, asked.state)
    observed = recorder.fakes.observe_on_meta(facts, call) if meta_kernels and regular else None
    if observed is None:
        observed = recorder.fakes.observe(target.name, facts, call)
    follows, warned = laid_out_by(target.func), silenced() > before
    outcome = outcome_of(observed, facts, target.name, asked.gives_values, regular, follows, warned)
    if given_back:
        outcome.given_back = given_back[0]
    check_writes(target, kept, kept_named, found, outcome)
    check_dtypes(target, kept, kept_named, found)
    return outcome
