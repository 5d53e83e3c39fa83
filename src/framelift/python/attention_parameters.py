"""What torch chooses a kernel of attention by (`torch.backends.cuda.SDPAParams`): an immutable record of C++ that hands
out the very tensors that it was made of.
"""

from __future__ import annotations

import contextlib
from typing import Any

from ..boundary.attributes.known_classes import HARMLESS
from ..boundary.gateway import let_in
from ..boundary.import_rules import rule
from ..boundary.world import World
from ..calls.call_tables import substitute
from ..calls.pure.lookup import declare
from ..calls.pure.words import Kind
from ..exits.recipe import Node, Recipe, Walk, exact
from ..graph.symbols.numbers import NUMBERS
from ..recording.session import Session
from ..vocabulary.origins import Origin

_NAMES = ("query", "key", "value", "attn_mask", "dropout", "is_causal", "enable_gqa")

with contextlib.suppress(ImportError):
    from torch.backends.cuda import SDPAParams as Params

    @substitute(Params)
    def _make(_session: Session | None, /, *args: Any) -> Any:
        return Params(*[arg.value() if type(arg) in NUMBERS else arg for arg in args])

    @rule(Params)
    def _import(world: World, value: Any, origin: Origin) -> Any:
        world.guard(origin, "TYPE", Params)
        parts = [let_in(world, getattr(value, name), origin.to("attr", name)) for name in _NAMES]
        return world.register(value, _make(None, *parts), origin)

    @exact(Params)
    def _built(walk: Walk, node: Node) -> Recipe:
        parts = [part for name in _NAMES for part in (walk.part(getattr(node.obj, name)), ", ")]
        return Recipe((walk.constant(Params, "SDPAParams"), "(", *parts, ")"))

    HARMLESS.add(Params)
    declare(Kind(Params, words={"effect": "__init__"}))
