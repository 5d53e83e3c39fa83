"""Torch's generators of random numbers: what an external one becomes, seeds and states.

What draws is an operation like any other; what a call does to generators around its graph is in
`graph/state/random_draws.py`.  A state is never looked at: captured code gets a token for it that can be set again and
handed on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..boundary.becomes.opaque import Opaque, opaque_for
from ..boundary.facts.finalisers import UNSEEN_ENDS
from ..boundary.import_rules import let_in_opaque, rule
from ..boundary.world import World
from ..calls.call_tables import substitute
from ..calls.pure.lookup import declare
from ..calls.pure.words import Kind
from ..exits.recipe import Node, Recipe, Walk, exact, type_name
from ..graph.state import random_draws
from ..graph.state.random_draws import DEFAULT, Drawing
from ..guards.checks import check
from ..substitutes.python.copying import NOT_COPIED
from ..torch_ports.modes import DisableTorchFunction
from ..vocabulary.class_reads import name_of
from ..vocabulary.origins import Origin, const
from ..vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ..recording.session import Session

# ---- external ones, and those made inside at an exit -----------------------------------------------------------------


@check
def _is_no_default(value: Any) -> bool:
    return value is not torch.default_generator


@rule(torch.Generator)
def _generator(world: World, value: torch.Generator, origin: Origin) -> Any:
    """A private generator of the same device, whose state the real one has while a graph runs: no guard on states."""
    if value is torch.default_generator:
        world.guard(origin, "IS", value)
        return world.register(value, value, const(value), mutable=False)
    if value.device.type != "cpu":
        return let_in_opaque(world, value, origin, "torch-operation", f"with a torch.Generator of {value.device}")
    world.guard(origin, "TYPE", torch.Generator)
    world.guard(origin.to("attr", "device"), "EQ", value.device)
    world.guard(origin, "CHECK", (_is_no_default, "is a generator of the program's own"), "generator")
    return world.register(value, world.tensors.drawing.meet(value, origin), origin)


UNSEEN_ENDS.add(torch.Generator)
NOT_COPIED[torch.Generator] = "that copies a torch.Generator"
declare(Kind(torch.Generator, make="random", methods="random"))


@exact(torch.Generator, Opaque)
def _random(walk: Walk, node: Node) -> Recipe:
    """A generator of random numbers that captured code made, or a state that it took from one."""
    found = walk.scene.drawing_of(node.obj)
    if found is None:
        raise Interrupt("result-object", type_name(type(node.obj)))
    return Recipe((walk.constant(found[0], "drawing"), found[1]))


_SEEDS = range(-1 << 63, 1 << 64)


def _drawing(session: Session, callable_: Any) -> Drawing:
    """Return this rehearsal's record of generators; it interrupts inside a body, which may run at any time."""
    recorder = session.recorder
    if recorder.tape_is_a_body() or recorder.in_transform():
        raise Interrupt("torch-state", f"{callable_.__name__} inside the body of an operator")
    return recorder.drawing


def _seed_of(callable_: Any, value: Any) -> int:
    if type(value) is not int or value not in _SEEDS:
        raise Interrupt("torch-state", f"{callable_.__name__} with a {name_of(type(value))}")
    return value


def _take(session: Session, callable_: Any, take: Any, source: int, value: Any = None) -> Any:
    held = _drawing(session, callable_)
    with DisableTorchFunction():
        token = opaque_for(torch.empty(0), "torch-state", "a look into the state of a random generator")
    held.tokens[id(token)] = token, held.new_slot(take, source, value)
    return token


def _set(session: Session, callable_: Any, set_: Any, source: int, token: Any, value: Any = None) -> None:
    held = _drawing(session, callable_)
    if id(token) not in held.tokens:
        raise Interrupt("torch-state", f"{callable_.__name__} to an external state")
    held.act(set_, source, value, held.tokens[id(token)][1])


def _device(callable_: Any, device: Any) -> Any:
    if type(device) not in (int, str, torch.device):
        raise Interrupt("torch-state", f"{callable_.__name__} of a {name_of(type(device))}")
    return device


@substitute(torch.Generator)
def _make(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    made = callable_(*args, **kwargs)
    if made.device.type != "cpu":
        raise Interrupt("torch-operation", f"with a torch.Generator of {made.device}")
    return _drawing(session, callable_).add(made)


@substitute(torch.Generator.manual_seed)
def _manual_seed(session: Session, callable_: Any, generator: Any, seed: Any, /) -> Any:
    held = _drawing(session, callable_)
    held.act(random_draws.seed, held.source_of(generator), _seed_of(callable_, seed))
    return generator


@substitute(torch.Generator.get_state)
def _get_state(session: Session, callable_: Any, generator: Any, /) -> Any:
    return _take(session, callable_, random_draws.take_state, _drawing(session, callable_).source_of(generator))


@substitute(torch.Generator.set_state)
def _set_state(session: Session, callable_: Any, generator: Any, new_state: Any, /) -> Any:
    _set(session, callable_, random_draws.set_state, _drawing(session, callable_).source_of(generator), new_state)
    return generator


@substitute(torch.manual_seed)
def _manual_seed_all(session: Session, callable_: Any, seed: Any) -> Any:
    _drawing(session, callable_).act(random_draws.seed_all, DEFAULT, _seed_of(callable_, seed))
    return torch.default_generator


@substitute(torch.get_rng_state)
def _get_rng_state(session: Session, callable_: Any) -> Any:
    return _take(session, callable_, random_draws.take_state, DEFAULT)


@substitute(torch.set_rng_state)
def _set_rng_state(session: Session, callable_: Any, new_state: Any) -> None:
    _set(session, callable_, random_draws.set_state, DEFAULT, new_state)


@substitute(torch.cuda.get_rng_state)
def _get_cuda_state(session: Session, callable_: Any, device: Any = "cuda") -> Any:
    return _take(session, callable_, random_draws.take_cuda_state, DEFAULT, _device(callable_, device))


@substitute(torch.cuda.set_rng_state)
def _set_cuda_state(session: Session, callable_: Any, new_state: Any, device: Any = "cuda") -> None:
    _set(session, callable_, random_draws.set_cuda_state, DEFAULT, new_state, _device(callable_, device))
