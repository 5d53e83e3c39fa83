"""Operations on wrapper subclasses, over a fake per value; results are taken apart into their inner tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import torch

from .._core import id, is_a
from ..boundary.becomes.leaves import is_leaf
from ..boundary.facts.unwatched_reads import note_wrapper_class
from ..graph.fx.targets import Target
from ..graph.fx.values import Storage, Value
from ..graph.metadata.arguments import take
from ..graph.metadata.facts import new_stand_in
from ..graph.metadata.wrapper_fakes import Wrapped, holds_wrapper
from ..graph.metadata.wrappers import (
    WrapperFacts,
    asks_first,
    context_of,
    inner_tensors,
    is_async,
    is_wrapper,
    with_parts,
    wrapper_facts,
)
from ..graph.state.torch_state import State, read_state
from ..graph.symbols.number_nodes import graph_values
from ..graph.symbols.numbers import Int
from ..torch_ports.modes import DisableTorchFunction
from ..vocabulary.class_reads import module_of, name_of, qualname_of
from ..vocabulary.reasons import Interrupt
from .live_recording import Results, record_live

if TYPE_CHECKING:
    from .session import Recorder, Session
    from .stand_ins import StandIns


def record_wrapped(
    recorder: Recorder,
    live: Wrapped,
    target: Target,
    kept: list[Any],
    kept_named: dict[str, Any],
    found: list[Value],
    state: State,
    gives_values: bool,
) -> Any:
    """One operation that has a tensor of a wrapper subclass among its arguments."""
    if recorder.in_transform():
        raise Interrupt("tensor-subclass", "of a wrapper class inside a function transform")
    return record_live(recorder, target, kept, kept_named, found, state, gives_values, live=live, kind=_Results)


def make_wrapper(callable_: Any) -> Any:
    """The handler of calling a wrapper class, else None: one node, made again by the graph."""
    return _construct if is_a(callable_, type) and is_wrapper(callable_) else None


def _construct(session: Session, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    recorder = session.recorder
    note_wrapper_class(session.world, cls)
    with DisableTorchFunction():
        found: list[Value] = []
        kept = take(args, recorder.by_stand_in, [], found)
        named = dict(zip(kwargs, take(kwargs.values(), recorder.by_stand_in, [], found)))
        if not found or recorder.tape_is_a_body():
            raise Interrupt(
                "tensor-subclass", f"{module_of(cls)}.{qualname_of(cls)}, made of no tensor of the program's,"
            )
        target = Target(cls, "call_function", cls, name_of(cls))
        made = record_wrapped(recorder, recorder.with_wrappers(), target, kept, named, found, read_state(), False)
    if not recorder.is_stand_in(made) or type(made) is not cls:
        raise Interrupt("tensor-subclass", f"{module_of(cls)}.{qualname_of(cls)}, whose making gives something else,")
    return made


def new_wrapper(stand_ins: StandIns, tensor: torch.Tensor) -> Value:
    """The value of an external tensor, whose inner tensors were met before.  Torch function must be off."""
    live = stand_ins.with_wrappers()
    if tensor._has_symbolic_sizes_strides:  # the lengths of a jagged tensor's rows: a symbol among fakes
        stand_ins.with_symbols()
    facts, fake = live.take_in(tensor, stand_ins.input_value)
    value = Value(new_stand_in(facts, type(tensor)), facts, Storage(external=True))
    live.born(value, fake)
    if stand_ins.symbols is not None:
        stand_ins.symbols.new_sizes(value)
    stand_ins.overrides = stand_ins.overrides or asks_first(type(tensor))
    return value


class _Results(Results):
    def plain(self) -> Sequence[Value]:
        return [value for value in with_parts(self.found) if type(value.facts) is not WrapperFacts]

    def tensor(self, fake: torch.Tensor, path: tuple[Any, ...]) -> torch.Tensor:
        if not is_wrapper(type(fake)):
            return super().tensor(fake, path)
        names, context = context_of(fake)
        parts = {}
        for name, inner in inner_tensors(fake, names).items():
            parts[name] = self.recorder.value_of(self.read(inner, (*path, name)))
            parts[name].storage.wrapped = True
        facts = wrapper_facts(fake, context, parts)
        storage, shared = self.live.storage(fake, self.found)
        value = Value(new_stand_in(facts, type(fake)), facts, storage, "custom" if shared else "")
        value.step, value.path = self.step, path
        value.exact = all(part.exact for part in parts.values())
        self.live.born(value, fake)
        self.made += 1
        if self.recorder.symbols is not None:
            self.recorder.symbols.new_sizes(value)
        return self.recorder.adopt(value)


def kind_of_memory(recorder: Recorder, value: Value, name: str) -> Any:
    """Return the layout of a wrapper: attributes that are equal for all plain tensors."""
    return getattr(recorder.with_wrappers().fake(value), name)


def check_results(recorder: Recorder, asked: Sequence[Any]) -> None:
    """Interrupt for results of wrappers that graphs cannot have.

    The size of a jagged tensor along its rows means something as an argument only: compilers do not give it.  A
    wrapper that is written to is one input, and compilers do not see that its inner tensors are others.
    """
    taken = {id(value) for step in recorder.tape for value in step.inputs}
    for value in recorder.inputs() if recorder.wrapped is not None else ():
        if (
            type(value.facts) is WrapperFacts
            and value.storage.written
            and (is_async(value.facts.kind) or not taken.isdisjoint(map(id, value.facts.parts.values())))
        ):
            raise Interrupt(
                "tensor-subclass",
                f"{qualname_of(value.facts.kind)}, which is changed and whose inner tensors are used,",
            )
    if recorder.wrapped is not None:
        _check_views(recorder, asked)
    for one in asked:
        if type(one) is Int and any(
            is_a(value.facts, WrapperFacts) for value in graph_values(recorder.with_symbols(), [one])
        ):
            raise Interrupt("tensor-subclass", "with rows of different lengths, whose size is a result,")


def _check_views(recorder: Recorder, asked: Sequence[Any]) -> None:
    """Results that share memory with an input, or with another result, are made again by compilers: as views of it
    with other strides.  Not all wrappers have these; and a tensor that waits for a collective is no result of a graph.
    """
    if recorder.with_wrappers().release_masks():
        raise Interrupt("tensor-subclass", "DTensor, a mask of which is not used in the graph,")
    live, given = recorder.with_wrappers(), [value for value in recorder.inputs() if holds_wrapper(value)]
    known = {id(part) for value in given for part in cast(WrapperFacts, value.facts).context.fixed.values()}
    owners = {live.memory(value): value for value in given}
    for one in asked:
        if type(one) is not Value or not holds_wrapper(one) or one.external is not None:
            continue
        kind = cast(WrapperFacts, one.facts).kind
        if is_async(kind):
            raise Interrupt("tensor-subclass", f"{qualname_of(kind)}, as a result,")
        fixed = cast(WrapperFacts, one.facts).context.fixed.values()
        if one.facts.requires_grad and not recorder.runs_as_is() and not known.issuperset(map(id, fixed)):
            raise Interrupt("tensor-subclass", f"{qualname_of(kind)}, which has a mesh that no input has,")
        owner = owners.setdefault(live.memory(one), one)
        if (one.facts.size, one.facts.stride) != (owner.facts.size, owner.facts.stride):
            if not recorder.runs_as_is() and not live.takes_strides(one):
                raise Interrupt("tensor-subclass", f"{qualname_of(kind)}, a view of which is a result,")


def unreached(recorder: Recorder, given: Sequence[Any], asked: Sequence[Any]) -> tuple[int, ...]:
    """Return which inputs of the graph have a history that leads to no result.  Compilers leave them out of the
    backward, but not where a tensor of a wrapper class is among them.
    """
    if recorder.wrapped is None:
        return ()
    gives: dict[int, list[int]] = {}
    for value in recorder.values():
        gives.setdefault(id(value.step), []).append(id(value))
    reached = {id(value) for value in asked if type(value) is Value and value.facts.requires_grad}
    for step in reversed(recorder.tape):
        if step.effect or not reached.isdisjoint(gives.get(id(step), ())):
            reached.update(id(value) for value in step.inputs if value.facts.requires_grad)
    return tuple(
        i
        for i, value in enumerate(given)
        if type(value) is Value
        and id(value) not in reached
        and value.facts.requires_grad
        and not (value.facts.is_leaf or value.storage.written)
    )


def holds(recorder: Recorder, tensor: torch.Tensor, name: str) -> bool:
    """Return whether a wrapper has an attribute of this name, so that what it is depends on it."""
    value = recorder.value_of(tensor)
    assert type(value.facts) is WrapperFacts
    return name in value.facts.parts or name in vars(recorder.with_wrappers().fake(value))


def attribute_of_result(recorder: Recorder, tensor: torch.Tensor, name: str) -> Any:
    """Return an attribute of a wrapper that an operation returned; KeyError where there is none."""
    value = recorder.value_of(tensor)
    assert type(value.facts) is WrapperFacts
    if name in value.facts.parts:
        return value.facts.parts[name].stand_in
    found = recorder.with_wrappers().constant(value, name)
    if not is_leaf(found):
        raise Interrupt("tensor-subclass", f"{qualname_of(type(tensor))}, whose {name} is an object,")
    return found
