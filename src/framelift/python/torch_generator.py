"""Torch's generators of random numbers.  Operations draw from torch's own one; whoever names a generator, or asks for
seeds and states, breaks the graph.
"""

from __future__ import annotations

from typing import Any

import torch

from ..boundary.facts.finalisers import UNSEEN_ENDS
from ..boundary.import_rules import let_in_opaque, rule
from ..boundary.world import World
from ..calls.call_tables import substitute
from ..calls.pure.lookup import declare
from ..calls.pure.words import Kind
from ..recording.session import Session
from ..substitutes.python.copying import NOT_COPIED
from ..vocabulary.origins import Origin
from ..vocabulary.reasons import Interrupt


@rule(torch.Generator)
def _generator(world: World, value: torch.Generator, origin: Origin) -> Any:
    return let_in_opaque(world, value, origin, "torch-operation", "with a torch.Generator")


UNSEEN_ENDS.add(torch.Generator)
NOT_COPIED[torch.Generator] = "that copies a torch.Generator"
declare(Kind(torch.Generator, make="random", methods="random"))


@substitute(
    torch.manual_seed, torch.get_rng_state, torch.set_rng_state, torch.cuda.get_rng_state, torch.cuda.set_rng_state
)
def _state(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    raise Interrupt("torch-state", f"{callable_.__name__}, a seed or state of random numbers,")
