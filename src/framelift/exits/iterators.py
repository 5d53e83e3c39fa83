"""Recipes of dict views, and of iterators whose position can be rebuilt exactly.  All other iterators interrupt."""

from __future__ import annotations

import gc
import itertools
import operator
import types
from typing import Any

from ..boundary.becomes.iterators import exhausted, is_within
from ..boundary.records import Shadow
from ..vocabulary.class_reads import name_of
from ..vocabulary.plain_types import DICTIONARIES
from ..vocabulary.quiet_capture import quietly
from ..vocabulary.reasons import Interrupt
from .recipe import EXACT, LEAVES, Node, Recipe, Walk, exact, joined, type_name

_DICT_VIEWS: dict[type, tuple[type, str]] = {
    type(view): (kind, name)
    for kind in reversed(DICTIONARIES)
    for name, view in (("keys", kind().keys()), ("values", kind().values()), ("items", kind().items()))
}
_DICT_ITERATORS: dict[type, str] = {
    type(iter(view)): name for name, view in (("keys", {}.keys()), ("values", {}.values()), ("items", {}.items()))
}
_SEQUENCES: tuple[Any, ...] = ([], (), "", "ä", b"", bytearray(), range(0), range(1 << 70))


@exact(*_DICT_VIEWS)
def _view(walk: Walk, node: Node) -> Recipe:
    kind, name = _DICT_VIEWS[type(node.obj)]
    (of,) = gc.get_referents(node.obj)
    return Recipe((walk.constant(kind, name_of(kind)), f".{name}(", walk.part(of), ")"))


@exact(types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
def _suspended(walk: Walk, node: Node) -> Recipe:
    """Their frames hold values of the rehearsal."""
    raise Interrupt("generator", type_name(type(node.obj)))


@exact(*{type(iter(sequence)) for sequence in _SEQUENCES}, type(reversed([])), reversed)
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


_TEE: Any = type(itertools.tee(())[0])


@exact(_TEE)
def _tee(walk: Walk, node: Node) -> Recipe:
    """One of several iterators over a source: where it is in what they share."""
    data, index = _reduced(node)[-1]
    shell = (walk.constant(_TEE, "tee"), "(())")
    return Recipe(None, shell, ((node, ".__setstate__((", walk.part(data), f", {index}))"),))


def _reduced(node: Node) -> Any:
    with quietly():  # CPython 3.12 warns that this way is deprecated
        try:
            return node.obj.__reduce__()
        except (AttributeError, TypeError):
            raise Interrupt("result-object", type_name(type(node.obj))) from None


if hasattr(_TEE, "__reduce__") and hasattr(itertools, "_tee_dataobject"):

    @exact(itertools._tee_dataobject)
    def _seen(walk: Walk, node: Node) -> Recipe:
        """Return the common part of the iterators of one tee: the source, and values that some have yet to yield."""
        kind, (source, values, *following) = _reduced(node)
        if type(source) not in EXACT:
            raise Interrupt("result-object", type_name(_TEE))
        rest = [part for one in following for part in (", ", walk.part(one))]
        return Recipe(
            (
                walk.constant(kind, "seen"),
                "(",
                walk.part(source),
                ", [",
                *joined(map(walk.part, values)),
                "]",
                *rest,
                ")",
            )
        )
