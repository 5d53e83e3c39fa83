"""Modules that cannot be imported: that no finder finds them is a fact, as long as they are not in `sys.modules`."""

from __future__ import annotations

import functools
import importlib.util
import sys
from typing import Any

from ...guards.checks import check
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt
from ..world import World

_MISSING, _NO_PACKAGE, _THERE = "no finder finds it", "it is in no package", "it is there"


def _state(name: str) -> str:
    """Return the import machinery's result for a name; finders are called as in an import, if the package is there."""
    package = name.rpartition(".")[0]
    if name in sys.modules or package and package not in sys.modules:
        return _THERE
    try:
        return _MISSING if importlib.util.find_spec(name) is None else _THERE
    except ModuleNotFoundError:
        return _NO_PACKAGE
    except Exception:  # noqa: BLE001  of a finder of the program's
        return _THERE


@check
def _is_missing(name: str, state: str, _: Any) -> bool:
    return _state(name) == state


def guard_missing(world: World, name: str, error: ImportError) -> None:
    """An import of `name` failed.  A module that was found and failed while it ran would run again at each call."""
    missing = (error.name or "") if type(error) is ModuleNotFoundError else name
    if name in sys.modules and sys.modules[name] is None:  # which forbids the import
        world.guard(const(sys.modules).to("item", name), "IS", None)
        return
    guard_not_found(world, missing if f"{name}.".startswith(f"{missing}.") else "", (_MISSING, _NO_PACKAGE))


def guard_not_found(world: World, name: str, states: tuple[str, ...] = (_MISSING,)) -> None:
    """No module of this name is found.  What is found and does not become a module would be made in each call."""
    state = _state(name) if name else _THERE
    if state not in states:
        raise Interrupt("unsupported-code", "an import of a module that was found, and fails")
    world.guard(const(sys.modules), "ABSENT", name, name)
    said = f": {name!r} cannot be imported ({state})"
    world.guard(const(_state), "CHECK", (functools.partial(_is_missing, name, state), said), name)
