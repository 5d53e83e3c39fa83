"""Generators of random numbers around one graph: what captured code does to them, and how a call of the graph does the
same.

Compilers know one generator per device, and nothing of its state.  So a graph's nodes only draw: seeds, states
taken and states set come before the graph or after it, in the program's order, and what would have to come between
two draws is not captured.  An external generator is drawn from through a private one, an attribute of the graph,
which has the state of the real one while the graph runs: so any generator will do, at every call.
"""

from __future__ import annotations

import functools
import operator
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ... import _core
from ..._core import insist, note_place
from ...torch_ports.operators import is_custom_class
from ...vocabulary.reasons import Interrupt
from ..metadata.arguments import AS_IT_IS
from ..symbols.number_nodes import numbers_in

#: the source that operations draw from where they are given none
DEFAULT = -1
_all: weakref.WeakSet[Drawing] = weakref.WeakSet()


def _after_fork() -> None:
    """In a forked child, graphs that other threads ran are not being run."""
    for drawing in list(_all):
        if not drawing._lock._is_owned():  # type: ignore[attr-defined]  # private in typeshed
            drawing._lock._at_fork_reinit()  # type: ignore[attr-defined]  # private in typeshed


os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True, slots=True)
class Action:
    """One thing done to a source: `call(drawing, value)`.  `slot`: where a state is kept, or comes from."""

    call: Callable[[Drawing, Action], None]
    source: int
    value: Any = None
    slot: int = -1


class Drawing:
    """The generators of one capture.  Filled by the rehearsal; then called with each graph.

    `own[i]` is what the graph draws from for source i, `origins[i]` where the real one is found; None: captured code
    made it.
    """

    def __init__(self) -> None:
        self.own: list[torch.Generator] = []
        self.origins: list[Any] = []
        self.tokens: dict[int, tuple[Any, int]] = {}  # what captured code holds as a state -> its slot
        self.before: list[Action] = []
        self.after: list[Action] = []
        self.refused = ""  # why nothing of it is captured
        self.attributes = False  # the graph may hold generators
        self._at_hand: tuple[int, ...] = (DEFAULT,)  # what the operation at hand draws from, if it does
        self._drawn: set[int] = set()
        self._closed: set[int] = set()  # sources that were set after something was drawn from them
        self._place: Any = None  # where the last of them was
        self._late: set[int] = set()  # slots that are filled after the graph
        self._slots = 0
        self._lock = threading.RLock()
        _all.add(self)
        self._given: tuple[torch.Generator, ...] = ()
        self.kept: dict[int, torch.Tensor] = {}

    @property
    def used(self) -> bool:
        """True if calls of the graph need more than the graph."""
        return bool(self.own or self.before or self.after)

    @property
    def outside(self) -> list[Any]:
        """Where the external generators are found."""
        return [origin for origin in self.origins if origin is not None]

    # ---- while capturing ----

    def add(self, own: torch.Generator | None, origin: Any = None) -> torch.Generator:
        """Captured code met a generator, or made one; None: any new one."""
        own = torch.Generator() if own is None else own
        self.own.append(own)
        self.origins.append(origin)
        return own

    def meet(self, generator: torch.Generator, origin: Any) -> torch.Generator:
        """Return the generator that captured code sees for an external one."""
        return self.add(torch.Generator(generator.device), origin)

    def source_of(self, generator: torch.Generator) -> int:
        """The source that a generator is, as captured code sees it."""
        if generator is torch.default_generator:
            return DEFAULT
        found = next((i for i, own in enumerate(self.own) if own is generator), None)
        if found is None:
            raise Interrupt("torch-operation", "with a torch.Generator of unknown state")
        return found

    def at_exit(self, obj: Any) -> tuple[Drawing, str] | None:
        """Of a generator made inside or a token: this, and how an entry asks it for the object."""
        if id(obj) in self.tokens:
            return self, f".kept[{self.tokens[id(obj)][1]}]"
        for i, own in enumerate(self.own):
            if own is obj and self.origins[i] is None:
                return self, f".generator({i})"
        return None

    def meets(self, kept: list[Any], kept_named: dict[str, Any]) -> bool:
        """Return whether an operation is given generators, to draw from.  The default one needs no mention."""
        if kept_named.get("generator") is torch.default_generator:
            kept_named["generator"] = None
        given = list(filter(is_generator, kept))
        if kept_named:
            given += filter(is_generator, kept_named.values())
        self._at_hand = (DEFAULT,)
        if not given:
            return False
        self._allowed()
        if not self.attributes:
            raise Interrupt("torch-operation", "with a torch.Generator, which this version of torch cannot compile,")
        if torch.default_generator in given:
            raise Interrupt("torch-operation", "with torch's own generator")
        if numbers_in([kept, kept_named]):  # torch has no symbolic form of most of these
            raise Interrupt("symbolic-number", "an operation with a torch.Generator")
        self._at_hand = tuple(map(self.source_of, given))
        return True

    def draw(self) -> None:
        """The operation at hand draws."""
        if not self._closed.isdisjoint(self._at_hand):
            interrupt = Interrupt("torch-state", "a seed or state set between random numbers")
            interrupt.before = self._place
            raise interrupt
        self._drawn.update(self._at_hand)

    def act(
        self, call: Callable[[Drawing, Action], None], source: int, value: Any = None, slot: int = -1, sets: bool = True
    ) -> None:
        """Captured code does something to a source now."""
        self._allowed()
        late = source in self._drawn or source in self._closed or slot in self._late
        (self.after if late else self.before).append(Action(call, source, value, slot))
        if late and sets:
            self._closed.add(source)
            self._place = note_place()

    def new_slot(self, call: Callable[[Drawing, Action], None], source: int, value: Any = None) -> int:
        """A place for the state that a source has now, which `call` takes."""
        slot = self._slots
        self._slots += 1
        if source in self._drawn or source in self._closed:
            self._late.add(slot)
        self.act(call, source, value, slot, sets=False)
        return slot

    def _allowed(self) -> None:
        if self.refused:
            raise Interrupt("torch-operation", self.refused)

    # ---- at a call ----

    def around(self, graph: Callable[..., Any] | None) -> Callable[..., Any]:
        """The graph, with what comes before it and after it."""

        def run(*inputs: Any) -> Any:
            outside = states()
            try:
                for own, given, origin in zip(self.own, self._given, self.origins):
                    own.set_state(given.get_state()) if origin is not None else own.manual_seed(_FIRST_SEED)
                for action in self.before:
                    action.call(self, action)
                results = graph(*inputs) if graph is not None else ()
                for action in self.after:
                    action.call(self, action)
            except BaseException:
                insist(lambda: put_back(*outside))
                raise
            for own, given, origin in zip(self.own, self._given, self.origins):
                if origin is not None:
                    given.set_state(own.get_state())
            return results

        return run

    def entry(self, entry: Callable[..., Any]) -> Callable[..., Any]:
        """The entry that is given the real generators after its other externals."""
        places = [i for i, origin in enumerate(self.origins) if origin is not None]
        count = len(places)

        def run(inputs: tuple[Any, ...], externals: tuple[Any, ...]) -> Any:
            with self._lock:
                given: list[Any] = list(self.own)
                for place, generator in zip(places, externals[len(externals) - count :]):
                    given[place] = generator
                around = self._given, self.kept  # a finaliser may call what is being called
                self._given, self.kept = tuple(given), {}
                try:
                    return entry(inputs, externals[: len(externals) - count])
                finally:
                    self._given, self.kept = around

        return run

    def generator(self, index: int) -> torch.Generator:
        """For entries: a generator that captured code made, in the state it has in the end."""
        made = torch.Generator(self.own[index].device)
        made.set_state(self.own[index].get_state())
        return made


@functools.cache
def graphs_may_hold() -> bool:
    """Return whether compilers of this torch take graphs with generators as attributes; others run them as they are."""
    from ...torch_ports.operators import rng_primitives  # noqa: F401  # registers them

    return is_custom_class(torch.Generator)


_FIRST_SEED = torch.Generator().initial_seed()  # of every new generator


def states() -> tuple[Any, list[torch.Tensor] | None]:
    """The states of torch's own generators."""
    return _core.generator_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None


def put_back(cpu: Any, cuda: list[torch.Tensor] | None) -> None:
    """Give torch's own generators these states."""
    _core.restore_generator(cpu)
    if cuda is not None:
        torch.cuda.set_rng_state_all(cuda)


# ---- what can be done to a source ------------------------------------------------------------------------------------


def is_generator(obj: Any) -> bool:
    """Return whether an object is a generator that graphs may draw from."""
    return type(obj) is torch.Generator


class Generators(torch.nn.Module):
    """The generators that a graph draws from.  A copy of the graph draws from the same ones."""

    def __deepcopy__(self, memo: Any) -> Generators:
        return self


def draws_from_generators(module: torch.fx.GraphModule) -> bool:
    """Return whether a graph holds generators that it draws from."""
    held = [node.target for node in module.graph.find_nodes(op="get_attr")]
    return any(is_generator(operator.attrgetter(name)(module)) for name in held)


AS_IT_IS[torch.Generator] = lambda generator: generator.device


def _at(drawing: Drawing, source: int) -> torch.Generator:
    return torch.default_generator if source == DEFAULT else drawing.own[source]


def seed(drawing: Drawing, action: Action) -> None:
    """generator.manual_seed(value)"""
    _at(drawing, action.source).manual_seed(action.value)


def seed_all(drawing: Drawing, action: Action) -> None:
    """torch.manual_seed(value)"""
    torch.manual_seed(action.value)


def take_state(drawing: Drawing, action: Action) -> None:
    """kept = generator.get_state()"""
    drawing.kept[action.slot] = _at(drawing, action.source).get_state()


def set_state(drawing: Drawing, action: Action) -> None:
    """generator.set_state(kept)"""
    _at(drawing, action.source).set_state(drawing.kept[action.slot])


def take_cuda_state(drawing: Drawing, action: Action) -> None:
    """kept = torch.cuda.get_rng_state(value)"""
    drawing.kept[action.slot] = torch.cuda.get_rng_state(action.value)


def set_cuda_state(drawing: Drawing, action: Action) -> None:
    """torch.cuda.set_rng_state(kept, value)"""
    torch.cuda.set_rng_state(drawing.kept[action.slot], action.value)
