"""External functions that captured code calls: their code and their default values are facts."""

from __future__ import annotations

import functools
import types
from typing import Any

from .._core import code_of, defaults_of, id, is_a
from ..boundary.becomes.leaves import is_leaf
from ..boundary.gateway import let_in
from ..boundary.world import World
from ..guards.checks import check
from ..recording.session import Session
from ..substitutes.marks import forbidden, handler_of
from ..vocabulary.origins import Origin, const


def _default(world: World, value: Any, origin: Origin) -> Any:
    """Import a parameter's default.

    A frame does not show whether a parameter was given, so it is taken for the default where it is the same
    object.  A number that was given may be that: so numbers are themselves, and guarded by their value.
    """
    if is_a(value, (int, float, complex)) and is_leaf(value):
        world.guard(origin, "EQ", value)
        return value
    return let_in(world, value, origin)


def note_function(session: Session, function: types.FunctionType) -> Any:
    """The first frame of an external function: its code is guarded, its cells and defaults are external.

    Answers with the defaults to replace, or with the handler of the mark that the function bears.
    """
    world = session.world
    world.keep.append(function)
    world.own_root(function.__globals__)
    origin = (
        session.function_origin
        if function is session.function
        else world.functions.origins.get(id(function)) or const(function)
    )
    code = code_of(function)
    world.guard(origin, "CODE", code)
    marked = handler_of(function)
    if marked is not None and (function is not session.function or marked is forbidden):
        return marked if function is not session.function else marked(session, function, (), {})
    for i, cell in enumerate(function.__closure__ or ()):
        if not world.is_external_cell(cell):
            world.add_cell(cell, origin.to("cell", i))
    if "super" in code.co_names and "__class__" in code.co_freevars:  # super() reads the cell off the frame
        _note_class_cell(session, (function.__closure__ or ())[code.co_freevars.index("__class__")])
    replaced = []
    defaults, keyword_defaults = defaults_of(function)
    if defaults:  # which parameters they belong to follows from their number
        world.guard(origin.to("attr", "__defaults__"), "LEN", len(defaults))
    for i, value in enumerate(defaults):
        seen = _default(world, value, origin.to("default", i))
        if seen is not value:
            replaced.append((code.co_argcount - len(defaults) + i, value, seen))
    for name, value in keyword_defaults.items():
        seen = _default(world, value, origin.to("kwdefault", name))
        if seen is not value:
            replaced.append((code.co_varnames.index(name), value, seen))
    return tuple(replaced)


def _note_class_cell(session: Session, cell: types.CellType) -> None:
    try:
        cell.cell_contents  # noqa: B018  empty ones raise, when super() reads them
    except ValueError:
        return
    if session.is_external_cell(cell):
        session.load_cell(cell, "__class__")


@check
def _may_leave_out(count: int, names: tuple[str, ...], now: types.FunctionType) -> bool:
    return len(now.__defaults__ or ()) == count and tuple(now.__kwdefaults__ or ()) == names


def note_unbound(world: World, function: types.FunctionType) -> None:
    """A function's arguments may not have fitted: its parameters, and which may be left out, are facts."""
    world.keep.append(function)
    origin = world.functions.origins.get(id(function)) or const(function)
    world.guard(origin, "CODE", function.__code__)
    world.guard(origin.to("attr", "__qualname__"), "EQ", function.__qualname__)  # the error names it
    count, names = len(function.__defaults__ or ()), tuple(function.__kwdefaults__ or ())
    said = f"has {count + len(names)} parameters that may be left out"
    world.guard(origin, "CHECK", (functools.partial(_may_leave_out, count, names), said), "parameters")
