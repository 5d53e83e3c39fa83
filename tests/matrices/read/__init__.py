"""The read matrix: kinds of external objects x ways to read a fact of them x ways to change it between calls.

Each cell builds two equal worlds, runs the program eagerly in one and compiled in the other, and compares results,
exceptions and what the worlds hold after each call.  In a second part the program makes the change itself.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from zlib import crc32

from law.generate import Program
from matrices.cell import Cell

from . import kinds_callables, kinds_classes, kinds_containers, kinds_instances, kinds_torch, kinds_values
from .kind import Change, Kind
from .reads import READS, WRITTEN, Read
from .shows import shown
from .worlds import DEPTHS, ENDS, PLACES, reading, writing

__all__ = ["KINDS", "cells", "find", "program", "worth"]

MODULES = (kinds_classes, kinds_instances, kinds_containers, kinds_callables, kinds_values, kinds_torch)
KINDS: tuple[Kind, ...] = tuple(kind for module in MODULES for kind in module.KINDS)
OTHER = "other kind"
OF_OTHERS = 5  # an object of another kind shows in every read; that many-th part of them is run
#: what can happen to any object: an equal one at its place, and one of another kind
ANYWHERE = (
    Change("equal object", "PUT(MAKE())", inside=False),
    Change(OTHER, "PUT(types.SimpleNamespace(k=7, missing=1))", inside=False),
)


def names() -> Iterator[str]:
    """The names of all cells: kind, read, change, place, and where the read is or how the program that writes ends."""
    number = 0
    for kind in KINDS:
        for read in READS:
            if applies(read, kind):
                for change in kind.changes + ANYWHERE:
                    place, depth = PLACES[number % len(PLACES)], DEPTHS[number // len(PLACES) % len(DEPTHS)]
                    yield f"{kind.name}/{read.name}/{change.name}/{place.name}/{depth}"
                    number += 1
    for kind in KINDS:
        for read in READS:
            if applies(read, kind) and read.name in WRITTEN:
                for change in kind.changes:
                    for end in ENDS if change.inside else ():
                        yield f"{kind.name}/{read.name}/{change.name}/{PLACES[number % len(PLACES)].name}/{end}"
                        number += 1


def applies(read: Read, kind: Kind) -> bool:
    return not (kind.endless and read.long or set(kind.avoid) & set(read.tags))


@functools.cache
def _by_name() -> tuple[dict[str, Kind], dict[str, Read]]:
    return {k.name: k for k in KINDS}, {r.name: r for r in READS}


def program(name: str) -> Program:
    """The program of a cell."""
    kinds, reads = _by_name()
    kind_name, read, change_name, place_name, how = name.split("/")
    kind = kinds[kind_name]
    change = next(c for c in kind.changes + ANYWHERE if c.name == change_name)
    place = next(p for p in PLACES if p.name == place_name)
    build = writing if how in ENDS else reading
    return build(crc32(name.encode()), kind, reads[read], change, place, how)


def _run(name: str) -> str | None:
    from law.runner import judge

    return judge(program(name)).failure


def find(name: str) -> Cell:
    """The cell of a name, without a list of all."""
    return Cell(name, lambda: _run(name))


def cells() -> list[Cell]:
    """All cells.  The names alone are made here: there are very many."""
    return [find(name) for name in names()]


@functools.cache
def showing(kind: Kind) -> frozenset[tuple[str, str]]:
    return shown(kind, tuple(read for read in READS if applies(read, kind)), kind.changes + ANYWHERE)


def worth(chosen: list[str]) -> list[str]:
    """The cells that say most.

    Where eager shows the change in what is read, all that write, and one for each other pair of kind and read.
    """
    kinds, _ = _by_name()
    kept, pairs = [], set[tuple[str, str]]()
    for name in chosen:
        kind, read, change, _, how = name.split("/")
        if (
            how in ENDS
            or (read, change) in showing(kinds[kind])
            and (change != OTHER or crc32(name.encode()) % OF_OTHERS == 0)
        ):
            kept.append(name)
        elif (kind, read) not in pairs:
            pairs.add((kind, read))
            kept.append(name)
    return kept
