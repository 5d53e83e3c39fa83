"""Partial objects (`functools.partial`): what they hold is imported and rebuilt, and their attributes as an instance's.

The call rule calls what they hold.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from .. import _core
from ..boundary.becomes.containers import import_attributes
from ..boundary.gateway import let_in
from ..boundary.import_rules import rule
from ..boundary.lazy.lazy_dict import LargeDict
from ..boundary.records import Shadow
from ..boundary.world import World
from ..calls.call_tables import substitute
from ..exits.recipe import Node, Recipe, Text, Walk, exact
from ..exits.typefacts import is_shared
from ..exits.write_back import WRITERS
from ..vocabulary.origins import Origin

if TYPE_CHECKING:
    from ..recording.session import Session


@rule(functools.partial)
def _import(world: World, value: functools.partial[Any], origin: Origin) -> Any:
    world.guard(origin, "TYPE", functools.partial)
    function = let_in(world, value.func, origin.to("partial_func"))
    args = let_in(world, value.args, origin.to("partial_args"))
    keywords = let_in(world, value.keywords, origin.to("partial_keywords"))
    if type(keywords) is LargeDict:  # opened: C code reads the table
        keywords = keywords.plain()
    copy: Any = functools.partial(function)
    # the tuple and the table themselves: captured code may hold them, and write to the table
    copy.__setstate__((function, args, keywords, None))
    world.register(value, copy, origin)
    import_attributes(world, copy, value, origin, let_in)
    world.add_shadow(Shadow(copy, value, origin, ()))
    return copy


@substitute(functools.partial.__call__)
def _call(session: Session, made: Any, /, *args: Any, **kwargs: Any) -> Any:
    """`super().__call__(...)` of a subclass of partial."""
    return _core.captured(made.func, (*made.args, *args), {**made.keywords, **kwargs})


def _changes(_walk: Walk, _shadow: Shadow, _kind: type) -> list[Text]:
    return []  # but for its attributes, and what it holds has records of its own


WRITERS[functools.partial] = _changes


@exact(functools.partial)
def _built(walk: Walk, node: Node) -> Recipe:
    of = node.obj
    kind = walk.constant(functools.partial, "partial")
    function, arguments, keywords = walk.part(of.func), walk.part(of.args), walk.part(of.keywords)
    found = vars(of)
    attributes = walk.part(found) if found or is_shared(found) else "None"
    fill = (node, ".__setstate__((", function, ", ", arguments, ", ", keywords, ", ", attributes, "))")
    return Recipe(None, (kind, "(", walk.constant(object, "object"), ")"), (fill,))
