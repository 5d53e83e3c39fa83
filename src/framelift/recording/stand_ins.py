"""The stand-ins of one rehearsal: what captured code sees for tensors and numbers, and the records of what they are.

External tensors come in here, with symbols for sizes that are to be symbolic.  How calls on stand-ins are recorded
is recorder.py.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from .. import _core
from .._core import id
from ..exc import InternalError
from ..graph.fx.placeholder_names import identifier
from ..graph.fx.values import Storage, Value
from ..graph.metadata.arguments import take
from ..graph.metadata.facts import check_kind, facts_of, is_overriding, new_stand_in, plain_kind
from ..graph.metadata.fakes import Fakes
from ..graph.metadata.live_fakes import Live, is_wrapped, storage_of
from ..graph.metadata.wrapper_fakes import Wrapped
from ..graph.metadata.wrappers import WrapperFacts, is_wrapper
from ..graph.symbols.environment import Symbols
from ..graph.symbols.meanings import NO_MARKS, Marks
from ..torch_ports.modes import DisableTorchFunction
from ..vocabulary.class_reads import name_of
from ..vocabulary.reasons import Interrupt
from .recorder_parts import Callbacks, Gradients, Policy
from .wrapper_results import new_wrapper


class StandIns:
    """All tensors that captured code has seen, and the symbols of its numbers."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.callbacks, self.gradients = Callbacks(), Gradients()
        self.overrides = False  # a tensor of an overriding subclass was met
        self.by_stand_in: dict[int, Value] = {}
        self._inputs: dict[int, Value] = {}  # by id of the real tensor
        self.storages: dict[int, Storage] = {}  # of real tensors
        self._bytes: list[tuple[int, int, int]] = []  # from where to where each of them goes, and its key
        self._foreign: list[tuple[int, int, int]] = []  # of these, memory that torch did not allocate
        self.fakes = Fakes()
        self._live: Live | None = None  # function transforms, once the program uses one
        self.wrapped: Wrapped | None = None  # tensors of wrapper subclasses, once there is one
        self.symbols: Symbols | None = None  # made when the first number becomes symbolic

    def stand_in(
        self, tensor: torch.Tensor, name: str = "", dims: frozenset[int] = frozenset(), marks: Marks = NO_MARKS
    ) -> torch.Tensor:
        """Return the stand-in of an external tensor; always the same object for the same tensor.

        The sizes of its dimensions `dims` are symbolic.
        """
        value = self._inputs.get(id(tensor))
        if value is None:
            with DisableTorchFunction():
                value = self._new_input(tensor, name, dims, marks)
        return value.stand_in

    def number(self, value: Any, place: Any) -> Any:
        """Return what captured code sees for an external number that is to be symbolic."""
        with DisableTorchFunction():
            return self.with_symbols().number(value, place, str(place))

    def with_symbols(self) -> Symbols:
        """The rehearsal's symbols, from now on in use."""
        if self.symbols is None:
            self.symbols = Symbols()
            self.symbols.exporting = self.policy.exporting
            if self.callbacks.answer is not None:
                self.symbols.answers.by_values = functools.partial(self.callbacks.answer, self.by_stand_in)
            self.fakes.become_symbolic(self.symbols.env)
        return self.symbols

    def _new_input(self, tensor: torch.Tensor, name: str, dims: frozenset[int], marks: Marks) -> Value:
        if id(tensor) in self.by_stand_in:
            raise InternalError("a stand-in was imported as if it were external")
        if is_wrapper(type(tensor)):
            return self._known_as(tensor, new_wrapper(self, tensor), name)
        wrapped = self._live is not None and is_wrapped(tensor)  # a tensor of a transform that the call is inside of
        kind = plain_kind(tensor) if self.policy.takes_fakes else type(tensor)
        if not wrapped and kind is type(tensor):
            check_kind(tensor)
        facts = facts_of(tensor)
        if (dims or marks.strides) and not wrapped:
            facts = self.with_symbols().sizes(tensor, facts, dims, marks, name or "input")
        memory = storage_of(tensor)
        storage = self.storages.get(memory)
        if storage is None:
            storage = self.storages[memory] = self._over_same_bytes(tensor) or Storage(external=True)
        elif self.gradients.flagged:
            raise Interrupt(
                "torch-operation", "a tensor that may be a view of one whose requires_grad was switched inside"
            )
        value = Value(new_stand_in(facts, kind), facts, storage)
        self.overrides = self.overrides or is_overriding(kind)
        if wrapped:
            self.live.born(value, self.live.mirror(tensor))
        return self._known_as(tensor, value, name)

    def _over_same_bytes(self, tensor: torch.Tensor) -> Storage | None:
        """The storage of a known tensor that has bytes in common with this one.  That is possible for memory that torch
        did not allocate, such as that of numpy's arrays.
        """
        memory = _core.memory_of(tensor)
        if memory is None:
            return None
        low, high, is_foreign = memory
        known = self._bytes if is_foreign else self._foreign
        found = {self.storages[key] for start, end, key in known if low < end and start < high}
        if len(found) > 1:
            raise Interrupt("torch-operation", "a tensor whose memory is that of several others")
        for places in (self._bytes, self._foreign)[: 1 + is_foreign]:
            places.append((low, high, storage_of(tensor)))
        return found.pop() if found else None

    def _known_as(self, tensor: torch.Tensor, value: Value, name: str) -> Value:
        value.external, value.name = tensor, identifier(name) if name else ""
        self._inputs[id(tensor)] = self.by_stand_in[id(value.stand_in)] = value
        return value

    def adopt_input(self, value: Value, external: Any, name: str) -> None:
        """Know an external object that is an input of the graph, and no tensor."""
        value.external, value.name = external, identifier(name)
        self.by_stand_in[id(value.stand_in)] = value

    def with_wrappers(self) -> Wrapped:
        """The rehearsal's tensors of wrapper subclasses."""
        if self.wrapped is None:
            self.wrapped = Wrapped(self.fakes)
        return self.wrapped

    @property
    def live(self) -> Live:
        """The function transforms of this rehearsal."""
        if self._live is None:
            self._live = Live(self.fakes)
        return self._live

    def in_transform(self) -> bool:
        """Return whether captured code is inside a function transform."""
        return self._live is not None and self._live.active

    def adopt(self, value: Value) -> torch.Tensor:
        """Know a value that was made elsewhere: an operand of a body, or the result of a higher-order operator."""
        self.by_stand_in[id(value.stand_in)] = value
        return value.stand_in

    def symbolic_entries(self, tensor: torch.Tensor) -> tuple[frozenset[int], frozenset[int]]:
        """The dimensions of an input whose size, and whose stride, is symbolic."""
        facts = self._inputs[id(tensor)].facts
        size, stride = (
            frozenset(i for i, entry in enumerate(entries) if type(entry) is not int)
            for entries in (facts.size, facts.stride)
        )
        return size, stride

    def inputs(self) -> list[Value]:
        """The external tensors."""
        return list(self._inputs.values())

    @property
    def has_tensors(self) -> bool:
        """True if captured code has seen a tensor."""
        return bool(self.by_stand_in)

    def values(self) -> list[Value]:
        """All tensors that captured code has seen, in the order it did."""
        return list(self.by_stand_in.values())

    def input_value(self, tensor: torch.Tensor) -> Value:
        """The record of an external tensor that was met."""
        return self._inputs[id(tensor)]

    def example_of(self, facts: Any) -> torch.Tensor:
        """A fake tensor with these facts."""
        return self.fakes.make(facts) if type(facts) is not WrapperFacts else self.with_wrappers().example(facts)

    def input_facts(self) -> dict[int, Any]:
        """The facts of the external tensors, by their id."""
        return {key: value.facts for key, value in self._inputs.items()}

    def is_stand_in(self, obj: Any) -> bool:
        """Return whether this object is one of the recorder's stand-ins."""
        return id(obj) in self.by_stand_in

    def external(self, stand_in: torch.Tensor) -> torch.Tensor | None:
        """The real tensor an input's stand-in stands for; None for results."""
        return self.by_stand_in[id(stand_in)].external

    def value_of(self, stand_in: Any) -> Value:
        """The record of a stand-in."""
        value = self.by_stand_in.get(id(stand_in))
        if value is None:
            take((stand_in,), self.by_stand_in, [], [])  # says what is wrong with it
            raise InternalError(f"not a stand-in: {name_of(type(stand_in))}")
        return value

    def retyped(self, stand_in: torch.Tensor, kind: type) -> torch.Tensor:
        """The same result as a tensor of another class.  Torch function must be off."""
        value = self.value_of(stand_in)
        made = Value(new_stand_in(value.facts, kind), value.facts, value.storage, value.view)
        made.step, made.path, made.exact = value.step, value.path, value.exact
        return self.adopt(made)
