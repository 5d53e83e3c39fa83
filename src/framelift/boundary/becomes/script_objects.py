"""External script objects (TorchBind): placeholders whose methods are recorded, guarded by what the objects hold.

What an object holds is asked of itself at each call, and guarded: kinds and sizes of tensors, values of all else.
Tensors in it are never inputs of a graph: the object is.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from ..._core import is_a
from ...graph.metadata.script_objects import class_name, contents, fake_class, is_one_object
from ...graph.metadata.wrappers import is_wrapper
from ...graph.symbols.meanings import NO_MARKS
from ...guards.kinds import immutable_leaf, tensor_facts, without_entries
from ...vocabulary.origins import Origin
from ...vocabulary.outside_exceptions import raise_outside
from ...vocabulary.reasons import Interrupt
from .opaque import Opaque, opaque_for

if TYPE_CHECKING:
    from ..world import World


def _is_known_by(name: str, fake: Any, now: Any) -> bool:
    return class_name(now) == name and fake_class(now) is fake


def _are_two(now: Any, other: Any) -> bool:
    return not is_one_object(now, other)


def import_script_object(world: World, value: torch.ScriptObject, origin: Origin) -> Opaque | None:
    """Import a script object; None where its class is not known."""
    fake = fake_class(value)
    if fake is None:
        return None
    others = [known for known in world.memo.values() if is_a(known.original, torch.ScriptObject)]
    if any(is_one_object(known.original, value) for known in others):
        return None
    name = class_name(value)
    try:
        held = _held(world, contents(value), origin.to("ask", contents))
        seen = opaque_for(value, "opaque-object", f"of class {name}")
        world.tensors.script_object(value, seen, name, fake, held, str(origin))
    except Interrupt as stop:  # it may still be passed around
        if stop.reason.id == "symbolic-number":
            raise
        return None
    except Exception as error:  # of the class, or of its fake
        raise_outside(error)
        return None
    world.guard(origin, "TYPE", type(value))
    world.guard(origin, "CHECK", (functools.partial(_is_known_by, name, fake), f"is a {name}"), "script")
    for known in others:
        words = f"is no other name of {known.origin}"
        world.guard(origin, "JOINT", (_are_two, words, (known.origin,)), words)
    world.register(value, seen, origin)
    return seen


def _held(world: World, value: Any, origin: Origin) -> Any:
    """A part of what an object holds, with stand-ins for tensors."""
    kind = type(value)
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        return _tensor(world, value, origin)
    if kind is tuple or kind is list:
        world.guard(origin, "TYPE", kind)
        world.guard(origin, "LEN", len(value))
        return kind([_held(world, item, origin.to("item", i)) for i, item in enumerate(value)])
    if kind is dict and all(map(immutable_leaf, value)):
        world.guard(origin, "TYPE", dict)
        world.guard(origin, "KEYS", tuple(value))
        return {key: _held(world, item, origin.to("item", key)) for key, item in value.items()}
    if not immutable_leaf(value):
        raise Interrupt("opaque-object", f"a script object that holds a {kind.__name__}")
    world.guard(origin, "EQ", value)
    return value


def _tensor(world: World, value: torch.Tensor, origin: Origin) -> Any:
    facts = tensor_facts(value)
    known = world.memo.get(id(value))
    if known is None:
        dims, marks = world.dynamism.dims(value, origin)
        if (dims or marks.strides) and not world.tensors.follows_contents():
            # compilers look at what the object holds now
            dims, marks = frozenset(), NO_MARKS
        seen = world.tensors.stand_in(value, str(origin), dims, marks)
        world.register(value, seen, origin, mutable=False)  # nothing of it is written in such graphs
        facts = without_entries(facts, *world.tensors.symbolic_entries(value))
    elif type(known.seen) is Opaque or is_wrapper(type(value)):
        raise Interrupt("opaque-object", "a script object that holds a tensor of an unknown kind")
    else:
        seen = known.seen
    world.guard(origin, "TENSOR", facts)
    return seen
