"""Kind, read and change -> a program of the law test, whose runner builds the two worlds and compares them.

A world holds the object at one place (a global, an argument, a cell, ...), and the read is in the function itself or in
one it calls; the list of cells goes through places and depths in turn.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from law.generate import Program

from .kind import Change, Kind
from .reads import Read

__all__ = ["DEPTHS", "ENDS", "PLACES", "Place", "filled", "outside", "reading", "world_text", "writing"]

PRELUDE = """
import collections, collections.abc, copy, ctypes, dataclasses, enum, functools, inspect, itertools
import json, operator, pickle, types
import torch
from torch import nn
"""
COMMON = """
def MAKE():
    return {make}
O = FIRST = MAKE()
OTHER = MAKE()
T0 = type(O)
"""


@dataclass(frozen=True)
class Place:
    """Where the object is.

    The statements that put it there, the program's head, how the program gets it, and another is put.
    """

    name: str
    setup: str
    head: str
    get: str
    put: str
    argument: bool = False


PLACES = (
    Place("global", "", "def prog(x):", "O", "pass"),
    Place("argument", "", "def prog(x, given):", "given", "ARGS[1] = O", True),
    Place("default", "", "def prog(x, given=O):", "given", "prog.__defaults__ = (O,)"),
    Place("keyword default", "", "def prog(x, *, given=O):", "given", "prog.__kwdefaults__['given'] = O"),
    Place("list", "BOX = [0, O]", "def prog(x):", "BOX[1]", "BOX[1] = O"),
    Place("dict", "BOX = {'o': O}", "def prog(x):", "BOX['o']", "BOX['o'] = O"),
    Place(
        "attribute",
        "BOX = types.SimpleNamespace()\nclass Box: pass\nBOX = Box()\nBOX.o = O",
        "def prog(x):",
        "BOX.o",
        "BOX.o = O",
    ),
    Place("class attribute", "class Box: pass\nBox.o = O", "def prog(x):", "Box.o", "Box.o = O"),
    Place("module", "BOX = types.ModuleType('box')\nBOX.o = O", "def prog(x):", "BOX.o", "BOX.o = O"),
    Place("cell", "CELL = types.CellType(O)", "def prog(x):", "held", "CELL.cell_contents = O"),
)
DEPTHS = ("here", "helper")
ENDS = ("written", "written and raised")  # how a program ends that makes the change itself


def world_text(kind: Kind, place: Place, body: str) -> str:
    """The text of a world with a program of this body.  A cell is the program's own where the place is one."""
    lines = [PRELUDE, kind.setup, COMMON.format(make=kind.make), place.setup]
    lines.append(f"def PUT(v):\n    global O\n    O = v\n    {place.put}")
    whole = f"{place.head}\n{textwrap.indent(body, '    ')}\n"
    if place.name == "cell":
        lines.append(
            f"def outer():\n    held = O\n{textwrap.indent(whole, '    ')}    return prog\nprog = outer()\n"
            "CELL = prog.__closure__[0]"
        )
    else:
        lines.append(whole)
    lines.append(f"TARGET = prog\nARGS = [torch.tensor([1., 2.]){', O' if place.argument else ''}]\nKWARGS = {{}}\n")
    return "\n".join(lines)


def reading(number: int, kind: Kind, read: Read, change: Change, place: Place, depth: str) -> Program:
    """Call twice, change, call, take it back, call, change again, call."""
    text = filled(read, kind)
    if depth == "helper":
        body = f"def read(o, x):\n{textwrap.indent(text, '    ')}\n    return r\nreturn x + 1, read({place.get}, x)"
    else:
        body = f"o = {place.get}\n{text}\nreturn x + 1, r"
    do, undo = outside(change.do), outside(change.undo)
    return Program(number, world_text(kind, place, body), ((), (), (do,), (undo,), (do,), (undo,)))


def writing(number: int, kind: Kind, read: Read, change: Change, place: Place, end: str) -> Program:
    """The program makes the change itself, between two reads; with the second end an exception follows."""
    text = filled(read, kind)
    names = "\n".join(f"global {n}" for n in ("OLD",) if f"{n} =" in change.do)
    made = change.do.replace("$", "o")
    last = "raise ValueError('after the write')" if end == ENDS[1] else "return x + 1, before, r"
    guarded = f"try:\n{textwrap.indent(text, '    ')}\nexcept Exception as e:\n    r = type(e)"
    body = f"{names}\no = {place.get}\n{guarded}\nbefore = r\ny = x * 2\n{made}\n{guarded}\n{last}"
    undo = outside(change.undo)
    return Program(number, world_text(kind, place, body), ((), (), (undo,), (), ("PUT(MAKE())",), (undo,)))


def outside(statement: str) -> str:
    """A change's statement for the world's own scope."""
    return statement.replace("$", "O")


def filled(read: Read, kind: Kind) -> str:
    return (
        read.text.replace("{{", "\1")
        .replace("}}", "\2")
        .replace("{a}", kind.attr)
        .replace("{k}", kind.key)
        .replace("{v}", kind.item)
        .replace("\1", "{")
        .replace("\2", "}")
    )
