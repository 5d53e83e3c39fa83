"""The recorder: every torch call of a rehearsal comes here, becomes a step of the tape, and answers with stand-ins.

What a call's results are like comes from the metadata cache; special cases are in rules/.  Nothing here
knows of frames, probes or origins.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from .._core import id, insist, is_a
from ..graph.analysis.in_place import apply_writes
from ..graph.analysis.replay import replay, replay_views
from ..graph.fx.tape import build_graph
from ..graph.fx.targets import OneNode, Target, getter_target, target_of
from ..graph.fx.values import AFTER_DATA, EXCHANGED, ObjectFacts, Step, Storage, Value
from ..graph.metadata.arguments import distinct, take
from ..graph.metadata.cache import Const, New, Number, Outcome, Same, shared_cache
from ..graph.metadata.facts import SymbolicFacts, new_stand_in
from ..graph.metadata.fakes import UNKNOWN
from ..graph.metadata.live_fakes import LiveOutcome
from ..graph.metadata.refusals import asks_for_value
from ..graph.metadata.wrappers import WrapperFacts
from ..graph.state.settings import SettingChanges, asks_default_dtype
from ..graph.state.torch_state import LeftState, SavedState, State, check_state, kernel_choice, read_state
from ..graph.symbols.environment import Symbols
from ..graph.symbols.number_nodes import graph_values, numbers_in
from ..graph.symbols.numbers import NUMBERS
from ..graph.symbols.numpy_numbers import given_to_torch
from ..torch_ports.autograd import top_saved_hooks
from ..torch_ports.modes import (
    DisableTorchFunction,
    len_torch_dispatch_stack,
    len_torch_function_stack,
    pop_torch_function_stack,
)
from ..vocabulary.code_knowledge import CodeKnowledge
from ..vocabulary.reasons import Interrupt
from ..vocabulary.scopes import scope
from .asking import Operation, ask, ask_symbolic, gives_a_size
from .assumptions import assume_of_numbers, before_effect
from .chosen import Chosen
from .finished import Finished, counted_writes
from .histories import check_leaf_views, is_captured, is_leaf_view, state_of_write, without_histories
from .known_calls import UNDECIDED, call_known
from .known_values import KnownValues
from .live_recording import record_live
from .overlapping_writes import check_overlaps
from .recorder_parts import Assumptions, Policy
from .recording_mode import RecordingMode
from .rules import composed, indexing, known, number_arguments, sequences, state_calls, taken_values  # noqa: F401
from .rules.attributes import ATTRIBUTES, OF_MEMORY, assign
from .rules.ranks import RULES
from .rules.special_cases import GIVES_VALUES, make_leaf
from .stand_ins import StandIns
from .wrapper_results import check_results, kind_of_memory, record_wrapped, unreached

_MISSING = object()


_USUAL = Policy()


class _Around:
    """Torch around a recording."""

    def __init__(self) -> None:
        self.kernels = kernel_choice()
        self.base: State | None = None
        self.left: LeftState | Interrupt | None = None
        self.saved: SavedState | None = None
        self.mode: RecordingMode | None = None


class TapeRecorder(StandIns):
    """Records one rehearsal, on the tape given."""

    def __init__(
        self, tape: list[Step] | None = None, policy: Policy = _USUAL, knowledge: CodeKnowledge | None = None
    ) -> None:
        super().__init__(policy)
        self.knowledge = knowledge or CodeKnowledge()  # of the root
        self.relied = False  # captured code depends on what is supposed of the backend
        self.tape: list[Step] = [] if tape is None else tape  # of the body being recorded, if there is one
        self.annotations: list[dict[str, Any]] = []  # of torch.fx.traceback.annotate, in force now
        self._main_tape = self.tape
        self.subclasses_off = False  # the program switched overriding by subclasses off
        self.modes: list[Any] = []  # the program's own torch-function modes, outermost first
        self.known_values = KnownValues(self.tape)
        self.settings = SettingChanges()  # those that one graph has one choice of
        self.bodies: list[list[Step]] = []  # tapes of the bodies rehearsed so far, inner ones first
        self.written: list[Value] = []  # whose memory was written, in order
        self.cache = shared_cache()
        self._lookup = self.cache.get
        self.effect_level = 0  # the gravest reason why an operation so far must stay in the graph
        self.assumptions = Assumptions()
        self._around = _Around()
        self.chosen = Chosen()
        self.objects: Any = None  # of a feature, which records operations that are given its objects
        self.own_outcomes: dict[Any, Outcome] = {}  # outcomes of operations that involve symbols

    def with_symbols(self) -> Symbols:
        """The rehearsal's symbols, from now on in use."""
        if self.symbols is None:
            super().with_symbols().answers.by_branch = functools.partial(assume_of_numbers, self)
        return super().with_symbols()

    def close(self) -> None:
        """Let go of the real tensors now, not when the collector comes."""
        for value in self._inputs.values():
            value.external = None
        self.__dict__.clear()

    # ---- calls ----

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One torch API call on stand-ins and plain values."""
        with DisableTorchFunction():
            return self.call_operation(func, args, kwargs)

    def attribute(self, stand_in: torch.Tensor, name: str) -> Any:
        """Read an attribute of a stand-in."""
        value = self.value_of(stand_in)
        answer = ATTRIBUTES.get(name)
        if answer is not None:
            with DisableTorchFunction():
                if name in OF_MEMORY and type(value.facts) is WrapperFacts:
                    return kind_of_memory(self, value, name)
                return self.shown(answer(self, value))
        found = getattr(type(stand_in), name, _MISSING)
        if is_a(found, (types.GetSetDescriptorType, property)) and name not in ("__dict__", "__weakref__"):
            raise Interrupt("tensor-data", f"Tensor.{name}")
        with DisableTorchFunction():
            return object.__getattribute__(stand_in, name)

    def set_attribute(self, stand_in: torch.Tensor, name: str, new: Any) -> None:
        """Assignment to an attribute that torch defines."""
        assign(self, self.value_of(stand_in), name, new)

    def call_operation(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.symbols is not None and self.symbols.scalars:
            args, kwargs = given_to_torch(func, args), given_to_torch(func, kwargs)
        special = RULES.get(id(func))
        if special is not None:
            try:
                return self.shown(special[1](self, args, kwargs))
            except Interrupt as stop:
                stop.given = stop.given or args
                raise
            except RuntimeError as error:
                if asks_for_value(error):  # a rule asked a stand-in for its value, where a plain number is usual
                    raise Interrupt("tensor-item", getattr(func, "__name__", "an operation")) from error
                raise
        kind = type(func)
        if kind is types.MethodWrapperType:
            return self._descriptor(func, args)
        if kind is types.BuiltinFunctionType and id(func.__self__) in self.by_stand_in:
            bound = func.__self__
            return self.call_operation(getattr(type(bound), func.__name__), (bound, *args), kwargs)
        if kwargs and kwargs.get("requires_grad") is True:  # a factory: the leaf is made of what it gives
            made = self.call_operation(func, args, {**kwargs, "requires_grad": False})
            make_leaf(self, made, True)
            return made
        try:
            return self.record(target_of(func), args, kwargs, id(func) in GIVES_VALUES)
        except Interrupt as stop:
            stop.given = stop.given or args
            raise

    def shown(self, result: Any) -> Any:
        """Sizes and other numbers of torch's as captured code sees them."""
        return result if self.symbols is None else self.symbols.shown(result)

    def _descriptor(self, wrapper: Any, args: tuple[Any, ...]) -> Any:
        """Torch function reports attributes as `descriptor.__get__` and `descriptor.__set__`."""
        owner, action = wrapper.__self__, wrapper.__name__
        if action == "__get__":
            return self.attribute(args[0], owner.__name__)
        if action == "__set__":
            return self.set_attribute(args[0], owner.__name__, args[1])
        if id(owner) in self.by_stand_in:  # x.__add__, bound
            return self.call_operation(getattr(type(owner), action), (owner, *args), {})
        raise Interrupt("torch-operation", repr(wrapper))

    def record_getter(self, target: Target, stand_in: torch.Tensor) -> Any:
        """Record reading an attribute that is a tensor."""
        return self.record(target, (stand_in,), {})

    def record(
        self,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        gives_values: bool = False,
        keep: bool = False,
    ) -> Any:
        """Record one operation and answer with its results.  Torch function must be off.

        `gives_values`: a result without tensors is to be believed.  `keep`: it gets its node even if it does nothing.
        """
        state = read_state()
        key: list[Any] = [target, state, kernel_choice() if self.settings.touched else self._around.kernels]
        found: list[Value] = []
        kept = take(args, self.by_stand_in, key, found)
        kept_named: dict[str, Any] = {}
        if kwargs:
            key.append(tuple(kwargs))
            kept_named = dict(zip(kwargs, take(kwargs.values(), self.by_stand_in, key, found)))
        if self.settings.touched:
            dtypes = [value.facts.dtype for value in found if value.facts is not None]
            self.settings.meet(asks_default_dtype(dtypes, kept_named), self._may_mix)
        elif self._around.base is not None and state != self._around.base:
            check_state(self._around.base, state)
        if self.objects is not None and any(is_a(value.facts, ObjectFacts) for value in found):
            return self.objects.record(target, kept, kept_named, found, state)
        if self.wrapped is not None and self.wrapped.concerns(found):
            return record_wrapped(self, self.wrapped, target, kept, kept_named, found, state, gives_values)
        if self._live is not None and self._live.concerns(found):
            return record_live(self, target, kept, kept_named, found, state, gives_values)
        if self.gradients.exchanged and state.grad:
            self._check_exchanged(target, found)
        if len(found) > 1 and len(set(found)) < len(found):
            found, pattern = distinct(found)
            key.append(pattern)  # a tensor given twice may behave unlike two equal ones
        whole = tuple(key)
        outcome = self._lookup(whole)
        read: list[Value] = []  # results that numbers among the arguments come from
        numbers = numbers_in([kept, kept_named]) if self.symbols is not None else ()
        if outcome is None:
            asked = Operation(whole, target, kept, kept_named, found, gives_values, state, bool(numbers))
            try:
                outcome = ask(self, asked)
            except Interrupt as stop:
                if self.symbols is None and gives_a_size(stop):
                    outcome = ask_symbolic(self, asked)
                else:  # values decide, and these may be known
                    made = call_known(self, target, args, kwargs, found, stop, bool(numbers))
                    if made is UNDECIDED:
                        raise
                    return made
        if state.grad:
            check_leaf_views(self, target, outcome, found)
        if numbers:
            read = graph_values(self.symbols, numbers)  # type: ignore[arg-type]  # numbers come with symbols
        if outcome.written or outcome.changes:
            if len(found) > 1:
                check_overlaps(self, target, kept, outcome, found)
            apply_writes(target, outcome, found, state, kept_named.get("out"))
            state = state_of_write(self, target, outcome, found, state)
            self.written.extend(found[i] for i in outcome.written)
        if outcome.effect:
            self.note_effect(target, outcome, found)
        result = outcome.result
        if outcome.silent:
            if not (keep or self.policy.keeps_all) or type(result) is not Same:
                return self._results(result, None, (), found, True)
            result = New(found[result.index].facts, result.index, "view")
        step = self._append_step(target, kept, kept_named, found, read, state, outcome)
        exact = outcome.exact
        if exact:
            for value in found[: outcome.follows]:
                exact = exact and value.exact
        results = self._results(result, step, (), found, exact)
        return results if outcome.given_back < 0 else (*args, *kwargs.values())[outcome.given_back]

    def _check_exchanged(self, target: Target, found: list[Value]) -> None:
        if any(value.view == EXCHANGED for value in found) and target is not getter_target("data"):
            raise Interrupt("torch-operation", AFTER_DATA)

    def _append_step(
        self,
        target: Target,
        kept: list[Any],
        kept_named: dict[str, Any],
        found: list[Value],
        read: list[Value],
        state: State,
        outcome: Outcome,
    ) -> Step:
        own = type(target) is OneNode  # the program's function, whose effects nobody knows
        if own:
            self.effect_level = UNKNOWN
        step = Step(
            target,
            kept,
            kept_named,
            [*found, *read] if read else found,
            state,
            outcome.effect or own,
            UNKNOWN if own else outcome.effect_level,
        )
        step.custom = self.annotations[-1] if self.annotations else None
        self.tape.append(step)
        return step

    def _may_mix(self) -> bool:
        """Return whether the graph can enter and leave an inference mode between its operations."""
        return not self.tape_is_a_body() and not self.in_transform() and self.runs_as_is()

    def append(self, target: Target, values: list[Value]) -> None:
        """A step that changes a tensor's metadata, and whose result nobody asks for."""
        if self.settings.touched:
            self.settings.meet(asks_dtype=False, may_mix=self._may_mix)
        self.tape.append(Step(target, list(values), {}, values, read_state(), True, 0))

    def note_effect(self, target: Target, outcome: Outcome | LiveOutcome, found: list[Value]) -> None:
        if self.assumptions.violated or self.assumptions.assumed:
            before_effect(self, target, outcome, found)
        self.effect_level = max(self.effect_level, outcome.effect_level)

    @property
    def saved(self) -> SavedState | None:
        return self._around.saved

    def runs_as_is(self) -> bool:
        """Return whether the graph will be run as it is, by torch itself; the capture depends on it from now on."""
        self.relied = self.relied or self.policy.habits.is_supposed
        return self.policy.habits.runs_as_is

    def follows_contents(self) -> bool:
        """Return whether tensors that objects of the program hold may have symbolic sizes."""
        return self.runs_as_is()

    def tape_is_a_body(self) -> bool:
        """Return whether a sub-graph is being recorded, not the graph itself."""
        return self.tape is not self._main_tape

    def known(self, tensor: torch.Tensor, outside: bool = False) -> torch.Tensor | None:
        """The real tensor that a stand-in stands for, if known; `outside`: also if that takes guards on values."""
        value = self.value_of(tensor)
        return (
            None if value.facts.requires_grad else self.known_values.tensor(value, self.by_stand_in.values(), outside)
        )

    def _results(
        self,
        result: Any,
        step: Step | None,
        path: tuple[int, ...],
        found: list[Value],
        exact: bool,
        fresh: dict[int, Storage] | None = None,
    ) -> Any:
        kind = type(result)
        if kind is New:
            source = result.source
            if source >= 0:
                storage = found[source].storage
            elif fresh is None:
                storage = Storage(external=False)
            else:
                storage = fresh.get(source) or fresh.setdefault(source, Storage(external=False))
            value = Value(new_stand_in(result.facts), result.facts, storage, result.view)
            value.step = step
            value.path = path
            value.exact = exact
            self.by_stand_in[id(value.stand_in)] = value
            if type(result.facts) is SymbolicFacts:
                self.symbols.new_sizes(value)  # type: ignore[union-attr]  # numbers come with symbols
            return value.stand_in
        if kind is Number:
            value = Value(None, None, Storage(external=False))  # type: ignore[arg-type]  # a number, which has neither
            value.step, value.path = step, path
            return self.symbols.unbacked(result.raw, value)  # type: ignore[union-attr]  # numbers come with symbols
        if kind is Same:
            return found[result.index].stand_in
        if kind is Const:
            return self.shown(result.value)
        fresh = {} if fresh is None else fresh
        items = [self._results(item, step, (*path, i), found, exact, fresh) for i, item in enumerate(result.items)]
        return items if result.kind is list else result.kind(items)

    # ---- the end ----

    def finish(self, outputs: Sequence[torch.Tensor]) -> Finished:
        """The graph that gives these stand-ins, and what it was built on."""
        base = self._around.base or read_state()
        self.check_end()
        asked = [
            out if type(out) in NUMBERS else self.value_of(out)
            for out in (*outputs, *self.assumptions.violated.values())
        ]
        if self._live is not None and any(type(out) is Value and self._live.outlives(out) for out in asked):
            raise Interrupt("torch-operation", "a tensor of a function transform, as a result,")
        if any(type(out) is Value and is_leaf_view(out) and not is_captured(self, out) for out in asked):
            raise Interrupt("torch-operation", "a view made without grad mode, as a result,")
        self.chosen.check(self, asked)
        check_results(self, asked)
        asked, without_history = without_histories(self, asked)
        chosen = self.settings.chosen()
        if chosen is not None and chosen[0] != base.inference:
            base = base._replace(inference=chosen[0], grad=not chosen[0])
        writes = any(storage.written for storage in self.storages.values())
        without_grad = base.grad and writes and not any(step.state.grad for step in self.tape)
        if without_grad:  # else backends cannot write in place: that might concern autograd
            base = base._replace(grad=False)
        with DisableTorchFunction():
            graph_module, given, n_ops = build_graph(self.tape, asked, base, self.symbols)
        inputs = [value for value in given if type(value) is Value]
        left, states = self.check_end(), [step.state for step in self._main_tape]
        groups: dict[int, list[int]] = {}
        for i, value in enumerate(inputs):
            groups.setdefault(id(value.storage), []).append(i)
        return Finished(
            graph_module,
            [value.external for value in inputs],
            n_ops,
            tuple(i for i, value in enumerate(inputs) if value.storage.written),
            tuple(tuple(group) for group in groups.values() if len(group) > 1),
            left.calls(states) if left is not None else (),
            len(self.assumptions.violated),
            self.effect_level,
            any(step.state != base for step in self.tape),
            without_grad,
            None if self.symbols is None else [v.external if type(v) is Value else v for v in given],
            without_history,
            chosen,
            self._live is not None,
            left is not None and left.is_one_region(states),
            counted_writes(self.written, inputs),
            self.assumptions.undoes,
            unreached(self, given, asked),
        )

    def replay(self, name: str, asked: Sequence[Value], then: Callable[[list[Any]], Any]) -> Any:
        """Return the result of `then` for these values, over a replay with histories. Torch function must be off."""
        if self.settings.chosen() is not None:
            raise Interrupt("torch-state", "a setting for the length of a differentiation")
        if self.objects is not None and self.objects.calls:
            raise Interrupt("torch-operation", "a differentiation beside calls of the program's own objects")
        return replay(self.fakes, name, self.tape, asked, self._around.base or read_state(), self.symbols, then)

    def replay_views(self, name: str, first: Value, steps: Sequence[Step], asked: Sequence[Value]) -> list[Any]:
        """Fakes of views that these steps make of `first`.  Torch function must be off."""
        return replay_views(self.fakes, name, steps, first, asked, self._around.base or read_state())

    @scope
    def recording(self) -> Iterator[None]:
        """A block whose torch calls are recorded; torch's state is as it was afterwards."""
        try:
            self._begin()
            yield
            self._take_mode_off()
            self.mark_end()
        finally:
            if self.saved is not None:
                insist(self._end)

    def _begin(self) -> None:
        if len_torch_function_stack():
            raise Interrupt("active-mode", "a torch function mode")  # modes_off takes them off before
        if len_torch_dispatch_stack():
            raise Interrupt("active-mode", "a torch dispatch mode")
        if top_saved_hooks(True) is not None:
            raise Interrupt("active-mode", "a hook on saved tensors")
        self._around.saved = SavedState()
        self._around.base, self._around.left = read_state(), None
        self._around.mode = RecordingMode(self)
        self._around.mode.__enter__()

    def _take_mode_off(self) -> None:
        while len_torch_function_stack():
            pop_torch_function_stack()

    def _end(self) -> None:
        self._take_mode_off()
        if self._live is not None:
            self._live.close()
        if self.wrapped is not None:
            self.wrapped.release_masks()
        self.settings.restore()
        if self.saved is not None:
            self.saved.restore()
        if self._around.mode is not None:
            self._around.mode.recorder = None
        self._around.mode = self._around.saved = None

    def mark_end(self) -> None:
        """Captured code ends here: the torch state of this moment is what `finish` gives.  Only the first call counts.

        Called at an exit in the middle of `with` blocks, whose unwinding must not be mistaken for the program's doing.
        """
        if self._around.left is None and self.saved is not None:
            with DisableTorchFunction():
                try:
                    if self._live is not None:
                        self._live.check_dual("a level of forward-mode differentiation that stays open", -1)
                    self._around.left = LeftState(self.saved, self.settings.left())
                except Interrupt as interrupt:
                    self._around.left = interrupt

    def check_end(self) -> LeftState | None:
        """The torch state that captured code ends in.  Interrupts where it cannot end there."""
        if is_a(self._around.left, Interrupt):
            raise self._around.left
        return self._around.left
