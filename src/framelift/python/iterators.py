"""Iterators over sequences and dictionaries, and what itertools makes of them.

An external one over a sequence becomes a copy at the same position of what is seen of the sequence; the
original is set to where captured code left it.  Others from outside are placeholders.  One made inside is built again
where its position can be rebuilt exactly.
"""

from __future__ import annotations

import gc
import inspect
import itertools
import operator
import types
from typing import Any

from ..boundary.becomes.opaque import Opaque
from ..boundary.gateway import let_in
from ..boundary.import_rules import let_in_opaque, rule
from ..boundary.records import Shadow
from ..boundary.world import World
from ..exits.recipe import EXACT, LEAVES, Node, Recipe, Text, Walk, exact, joined, type_name
from ..exits.write_back import WRITERS
from ..vocabulary.class_reads import name_of
from ..vocabulary.origins import Origin
from ..vocabulary.plain_types import DICTIONARIES
from ..vocabulary.quiet_capture import quietly
from ..vocabulary.reasons import Interrupt

# ---- external ones ---------------------------------------------------------------------------------------------------

_SEQUENCES: tuple[Any, ...] = ([], (), "", "\xe9", b"", bytearray(), range(0), range(1 << 70))
SEQUENCE_ITERATORS: tuple[type, ...] = (
    *dict.fromkeys(type(iter(sequence)) for sequence in _SEQUENCES),
    type(reversed([])),
    reversed,
)
_TURNED = (tuple, str, bytes)  # what `reversed` walks without asking it


def source_of(iterator: Any) -> Any:
    """The sequence an iterator walks; an empty one when it is exhausted."""
    return iterator.__reduce__()[1][0]


def place_of(iterator: Any) -> int:
    """Where an iterator stands; since CPython 3.12 that of a range stands where the range that is left begins."""
    state = iterator.__reduce__()[2:]
    return state[0] if state and state[0] is not None else 0


def steps_between(before: Any, after: Any) -> int:
    """How far an iterator of a range has gone that stands at the beginning of what is left."""
    first, then = source_of(before), source_of(after)
    return len(first) - len(then) if type(then) is range and after.__reduce__()[2:] == (None,) else 0


def exhausted(kind: type) -> Any:
    """An iterator of this type that has let go of its sequence (those of ranges never do)."""
    copy: Any = next(made for made in (reversed([]), reversed(()), *map(iter, _SEQUENCES)) if type(made) is kind)
    advance(copy)
    return copy


def advance(iterator: Any, steps: int | None = None) -> None:
    """Take some of what an iterator gives, or all of it."""
    for _ in itertools.islice(iterator, steps):
        pass


def is_exhausted(iterator: Any) -> bool:
    """Return whether an iterator has let go of its sequence: it gives nothing more, also when that grows."""
    return len(iterator.__reduce__()) == 2


def is_within(iterator: Any) -> bool:
    """Return whether another iterator over its sequence can be set to its place: places beyond the end are cut."""
    function, arguments, *state = iterator.__reduce__()
    if not state or state[0] is None:
        return True
    another = function(*arguments)
    another.__setstate__(state[0])
    return not is_exhausted(another) and place_of(another) == state[0]


def _import_exhausted(world: World, value: Any, origin: Origin) -> Any:
    """Another one of its type that is exhausted.  The empty sequence that it shows is made when it is asked, so that is
    nothing to know it by.
    """
    copy = exhausted(type(value))
    world.guard(origin, "TYPE", type(value))
    world.guard(origin.to("ask", is_exhausted), "EQ", True)
    world.register(value, copy, origin)
    world.add_shadow(Shadow(copy, value, origin, place_of(value)))
    return copy


@rule(*SEQUENCE_ITERATORS)
def _iterator(world: World, value: Any, origin: Origin) -> Any:
    """A copy at the same place; a placeholder where captured code does not see its sequence as itself."""
    if is_exhausted(value):
        return _import_exhausted(world, value, origin)
    place, source = place_of(value), source_of(value)
    if type(value) is reversed and type(source) not in _TURNED:
        return let_in_opaque(world, value, origin)
    world.guard(origin.to("ask", is_exhausted), "EQ", False)
    inside = let_in(world, source, origin.to("ask", source_of))
    if type(inside) is Opaque or type(inside) is not type(source):
        return let_in_opaque(world, value, origin)
    world.guard(origin, "TYPE", type(value))
    world.guard(origin.to("ask", place_of), "EQ", place)
    copy = value.__reduce__()[0](inside)
    if type(copy) is not type(value) or not is_within(value):  # exhausted, it shows no sequence any more
        return let_in_opaque(world, value, origin)
    if value.__reduce__()[2:] != (None,):
        copy.__setstate__(place)  # also 0: a reversed one begins at the other end
    world.register(value, copy, origin)
    world.add_shadow(Shadow(copy, value, origin, place))
    return copy


# ---- what changed in one --------------------------------------------------------------------------------------------


def _iterator_changes(walk: Walk, shadow: Shadow, kind: type) -> list[Text]:
    """An external iterator stands where captured code left it."""
    place, source = place_of(shadow.copy), source_of(shadow.copy)
    ended = type(source) is range and not len(source) and len(source_of(shadow.original)) > 0
    if ended or is_exhausted(shadow.copy) != is_exhausted(shadow.original):
        return [(walk.constant(advance, "advance"), "(", walk.part(shadow.copy), ")")]
    steps = steps_between(shadow.original, shadow.copy)
    if steps:
        return [(walk.part(shadow.copy), f".__setstate__({steps})")]
    if place == shadow.before:
        return []
    if not is_within(shadow.copy):  # the sequence is changed first
        raise Interrupt("effect-object", f"{type_name(kind)} beyond the end of a sequence that became shorter")
    return [(walk.part(shadow.copy), f".__setstate__({place})")]


WRITERS.update(dict.fromkeys(SEQUENCE_ITERATORS, _iterator_changes))

# ---- how one made inside is built ------------------------------------------------------------------------------------

_DICT_VIEWS: dict[type, tuple[type, str]] = {
    type(view): (kind, name)
    for kind in reversed(DICTIONARIES)
    for name, view in (("keys", kind().keys()), ("values", kind().values()), ("items", kind().items()))
}
_DICT_ITERATORS: dict[type, str] = {
    type(iter(view)): name for name, view in (("keys", {}.keys()), ("values", {}.values()), ("items", {}.items()))
}


@exact(*_DICT_VIEWS)
def _view(walk: Walk, node: Node) -> Recipe:
    kind, name = _DICT_VIEWS[type(node.obj)]
    (of,) = gc.get_referents(node.obj)
    return Recipe((walk.constant(kind, name_of(kind)), f".{name}(", walk.part(of), ")"))


@exact(types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
def _suspended(walk: Walk, node: Node) -> Recipe:
    """A generator that has not begun is made again by its function; the frames of others hold values of the
    rehearsal.
    """
    of = node.obj
    has_begun = type(of) is not types.GeneratorType or of.gi_frame is None or of.gi_suspended or of.gi_running
    copies = [each for each in gc.get_referents(of) if type(each) is types.FunctionType and each.__doc__ is not None]
    function: Any = next((copy.__doc__ for copy in copies if not has_begun and copy.__code__ is of.gi_code), None)
    if type(function) is not types.FunctionType:
        raise Interrupt("generator", type_name(type(of)))
    code, given = function.__code__, of.gi_frame.f_locals
    names, first = code.co_varnames, code.co_argcount
    last = first + code.co_kwonlyargcount
    parts: list[list[str | Node]] = [[walk.part(given[name])] for name in names[:first]]
    parts += [[f"{name}=", walk.part(given[name])] for name in names[first:last]]
    for flag, stars in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
        if code.co_flags & flag:
            parts.append([stars, walk.part(given[names[last]])])
            last += 1
    return Recipe((walk.part(function), "(", *(each for part in parts for each in (*part, ", ")), ")"))


@exact(*SEQUENCE_ITERATORS)
def _position(walk: Walk, node: Node) -> Recipe:
    """Iterators that hold a sequence and an index say so; sequences of Python classes would run their code."""
    function, arguments, *state = node.obj.__reduce__()
    if not state:  # it shows no sequence any more
        kind = type(node.obj)
        return Recipe((walk.constant(exhausted, "exhausted"), "(", walk.constant(kind, name_of(kind)), ")"))
    if (
        function not in (iter, reversed)
        or type(arguments[0]) not in EXACT.keys() | LEAVES.keys()
        or not is_within(node.obj)
    ):
        raise Interrupt("result-object", type_name(type(node.obj)))
    shell = (walk.constant(function, function.__name__), "(", walk.part(arguments[0]), ")")
    if state[0] is None or state[0] == 0 and function is iter:
        return Recipe(shell)
    there = (node, ".__setstate__(", walk.part(state[0]), ")")
    if walk.scene.shadow_of(arguments[0]) is None:
        return Recipe(None, shell, (there,))
    walk.late.append(there)  # a position is cut to the length, and the original is changed only later
    return Recipe(None, shell)


@exact(*_DICT_ITERATORS)
def _dict_position(walk: Walk, node: Node) -> Recipe:
    left = node.obj.__length_hint__()
    of = gc.get_referents(node.obj)
    # Exhausted, or the dictionary changed under it.
    if not left or type(of[0]) is not dict:
        raise Interrupt("result-object", type_name(type(node.obj)))
    part, shadow = walk.part(of[0]), walk.scene.shadow_of(of[0])
    if type(part) is not Node and (shadow is None or not _has_keys_as_before(shadow)):
        raise Interrupt("result-object", type_name(type(node.obj)))
    shell = (walk.constant(iter, "iter"), "(", part, f".{_DICT_ITERATORS[type(node.obj)]}())")
    walk.constant(range, "range"), walk.constant(next, "next")
    skip = len(of[0]) - left
    fills = ((f"for _ in range({skip}): next(", node, ")"),) if skip else ()
    return Recipe(None, shell, fills, complete_first=(part,) if type(part) is Node else ())


def _has_keys_as_before(shadow: Shadow) -> bool:
    """Return whether an original may be walked before or after it is changed: other values change nothing for an
    iterator.
    """
    return len(shadow.before) == len(shadow.copy) and all(map(operator.is_, shadow.before, shadow.copy))


@exact(enumerate, zip, map, filter)
def _combinator(walk: Walk, node: Node) -> Recipe:
    kind: Any = type(node.obj)
    function, arguments, *state = node.obj.__reduce__()
    sources = {enumerate: arguments[:1], zip: arguments}.get(kind, arguments[1:])
    # Making it again asks each source for its iterator, so the sources must not run code of the user.
    if function is not kind or state or not all(type(source) in EXACT for source in sources):
        raise Interrupt("result-object", name_of(kind))
    return Recipe((walk.constant(kind, name_of(kind)), "(", *joined(map(walk.part, arguments)), ")"))


_ITERTOOLS = tuple(
    getattr(itertools, name)
    for name in """accumulate chain combinations combinations_with_replacement compress count
    cycle dropwhile filterfalse islice permutations product repeat starmap takewhile zip_longest""".split()
)


@exact(*_ITERTOOLS)
def _itertools(walk: Walk, node: Node) -> Recipe:
    """They say what makes them again; their sources must be iterators and values that run no user code."""
    kind = type(node.obj)
    with quietly():  # CPython 3.12 warns that this way is deprecated
        try:
            function, arguments, *state = node.obj.__reduce__()
        except TypeError:
            raise Interrupt("result-object", type_name(kind)) from None
    if function is not kind or not all(type(part) in EXACT or type(part) in LEAVES for part in arguments):
        raise Interrupt("result-object", type_name(kind))
    shell = (walk.constant(kind, name_of(kind)), "(", *joined(map(walk.part, arguments)), ")")
    if not state or state[0] is None:
        return Recipe(shell)
    return Recipe(None, shell, ((node, ".__setstate__(", walk.part(state[0]), ")"),))
