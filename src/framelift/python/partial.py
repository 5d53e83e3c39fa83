"""Partial objects (`functools.partial`): what they hold is imported and rebuilt, and their attributes as an instance's.

The call rule calls what they hold.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

from .. import _core
from ..boundary.becomes.containers import import_attributes
from ..boundary.gateway import let_in
from ..boundary.import_rules import rule
from ..boundary.lazy.lazy_dict import LargeDict
from ..boundary.records import Shadow
from ..boundary.world import World
from ..calls.call_tables import substitute
from ..calls.pure.judges import judges
from ..calls.pure.lookup import declare
from ..calls.pure.words import Kind
from ..exits.recipe import Node, Recipe, Text, Walk, exact
from ..exits.typefacts import is_shared
from ..exits.write_back import WRITERS
from ..recording.session import Session
from ..rehearsal.call_rule import CALLED, UNWRAP, UNWRAPPED
from ..vocabulary.origins import Origin
from ..vocabulary.plain_types import AROUND


@rule(functools.partial)
def _import(world: World, value: functools.partial[Any], origin: Origin) -> Any:
    world.guard(origin, "TYPE", functools.partial)
    function = let_in(world, value.func, origin.to("attr", "func"))
    args = let_in(world, value.args, origin.to("attr", "args"))
    keywords = let_in(world, value.keywords, origin.to("attr", "keywords"))
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
    return _core.captured(*_unwrapped(made, args, kwargs))


def _unwrapped(made: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The call that a call of a partial object is: the first arguments fill its placeholders."""
    blanks = [item is _PLACEHOLDER for item in made.args]
    if sum(blanks) > len(args):
        functools.partial.__call__(made, *args)  # raises
    given = iter(args)
    filled = [next(given) if blank else item for blank, item in zip(blanks, made.args)]
    return made.func, (*filled, *given), {**made.keywords, **kwargs}


_PLACEHOLDER = getattr(functools, "Placeholder", object())  # CPython 3.14


def _changes(_walk: Walk, _shadow: Shadow, _kind: type) -> list[Text]:
    return []  # but for its attributes, and what it holds has records of its own


AROUND[functools.partial] = operator.attrgetter("func")
WRITERS[functools.partial] = _changes
CALLED[functools.partial] = lambda _: (UNWRAP, True)
UNWRAPPED[functools.partial] = _unwrapped
_WORDS = {"pure": "__setstate__", "internals": "__reduce__"}
declare(Kind("_functools._PlaceholderType"))
declare(Kind(functools.partial, make="judged", methods="callback", words=_WORDS))


@judges(functools.partial)
def _made(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    # One of another takes the inner one's arguments over: they were imported with it, unless a subclass keeps more.
    kind = type(args[0]) if args else object
    return "attributes" if issubclass(kind, functools.partial) and kind is not functools.partial else "pure"


@judges(functools.partial.__new__)
def _made_by_new(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return _made(args[1:], kwargs)


@exact(functools.partial)
def _built(walk: Walk, node: Node) -> Recipe:
    of = node.obj
    kind = walk.constant(functools.partial, "partial")
    function, arguments, keywords = walk.part(of.func), walk.part(of.args), walk.part(of.keywords)
    found = vars(of)
    attributes = walk.part(found) if found or is_shared(found) else "None"
    fill = (node, ".__setstate__((", function, ", ", arguments, ", ", keywords, ", ", attributes, "))")
    return Recipe(None, (kind, "(", walk.constant(object, "object"), ")"), (fill,))
