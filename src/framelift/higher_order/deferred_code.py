"""Code that runs after the frame is over, such as hooks and backwards, but was rehearsed in the middle of it: what it
reads must not change in between.

A variable that the program sets again, a list that it appends to, an attribute that it writes afterwards is another one
when that code runs.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from .._core import is_a
from ..boundary.becomes.leaves import LEAF_TYPES
from ..vocabulary.class_reads import members_of, module_of, mro_of, name_of
from ..vocabulary.reasons import Interrupt
from ..vocabulary.torch_code import is_class_of, is_torch_function
from .bodies import contents_of, portrait_of

if TYPE_CHECKING:
    from ..rehearsal.session import Session

__all__ = ["looks_at_nothing_outside", "runs_later"]

_FIXED = (type, types.ModuleType, types.BuiltinFunctionType, torch.Tensor)


def runs_later(session: Session, name: str, *roots: Any) -> None:
    """Interrupt at the end, or at a break, if what `roots` lead to was changed by then."""
    _Later(session, name, list(roots), ())


def looks_at_nothing_outside(session: Session, name: str, hook: Any, *using: Any, is_later: bool = True) -> None:
    """The same for a hook, which may look at no external object or variable either: others may write to that before the
    hook runs.

    `using`: objects that it is handed, and looks at; `is_later`: it runs when the frame is over.
    """
    later = _Later(session, name, [hook], using)
    if later.exposed or is_later and later.reads_variables:
        raise Interrupt("torch-operation", f"{name} that may read an external object")


class _Later:
    """What one piece of such code looks at."""

    def __init__(self, session: Session, name: str, roots: list[Any], using: tuple[Any, ...]) -> None:
        self._session = session
        self._name = name
        self._effects = len(session.world.effects)
        self._keep: list[Any] = []
        self._rows = portrait_of(roots, self._keep)
        functions = [obj for obj in self._keep if is_a(obj, types.FunctionType)]
        self._named, exposed, self.reads_variables = _by_name(functions)
        self.exposed = exposed or any(map(_is_handle, (*self._keep, *using)))
        session.world.finishing.append(self.check)

    def check(self) -> None:
        changed = next((f"a {name_of(type(obj))}" for obj, before in self._rows if contents_of(obj) != before), "")
        if not changed:
            later = [
                effect
                for effect in self._session.world.effects[self._effects :]
                if self.exposed or id(effect.owner) in self._named
            ]
            changed = later[0].kind if later else ""
        if not changed and self._session.is_stopped:  # the rest of the frame may change it
            changed = (
                "an external object"
                if self.exposed
                else next(
                    (
                        f"a {type(obj).__name__}"
                        for obj, _ in self._rows
                        if is_a(obj, (types.CellType, list, dict, set)) and not _core.is_external(obj)
                    ),
                    "",
                )
            )
        if changed:
            raise Interrupt(
                "torch-operation", f"{self._name} that may read what the frame changes afterwards ({changed})"
            )


def _is_handle(obj: Any) -> bool:
    """Whether this is an external object whose attributes may be written."""
    return (
        _core.is_external(obj)
        and type(obj) not in LEAF_TYPES
        and not is_a(obj, (*_FIXED, types.FunctionType, types.MethodType))
    )


def _by_name(functions: list[types.FunctionType]) -> tuple[dict[int, Any], bool, bool]:
    """Classes and modules that code finds by global names, with their tables; whether it finds other objects so; and
    whether it reads plain values, as variables or as attributes of those classes and modules.
    """
    found: dict[int, Any] = {}
    seen: set[types.CodeType] = set()
    exposed = reads = False
    while functions:
        function = functions.pop()
        if function.__code__ in seen or is_torch_function(function):
            continue
        seen.add(function.__code__)
        found[id(function.__globals__)] = function.__globals__
        for name in _global_names(function.__code__):
            value = function.__globals__.get(name)
            if is_a(value, types.FunctionType):
                functions.append(value)
            elif is_a(value, (type, types.ModuleType)):
                found[id(value)] = value
                reads = reads or _holds_value(value, function.__code__)
            elif type(value) in LEAF_TYPES and name in function.__globals__:
                reads = True
            elif (
                type(value) not in LEAF_TYPES
                and not is_a(value, _FIXED)
                and module_of(type(value)).partition(".")[0] != "triton"
            ):
                exposed = True
    return found, exposed, reads


def _holds_value(owner: Any, code: types.CodeType) -> bool:
    """Whether a class or module of the program has a plain value under a name that the code reads."""
    kept = is_class_of(owner, "torch") if is_a(owner, type) else _is_library(owner)
    if kept or is_a(owner, type) and not _core.is_python_class(owner):
        return False
    places = mro_of(owner) if is_a(owner, type) else ()
    tables = [members_of(cls) for cls in places if _core.is_python_class(cls)] or [_core.own_dict(owner) or {}]
    return any(
        type(table.get(name)) in LEAF_TYPES for name in _attribute_names(code) for table in tables if name in table
    )


def _is_library(module: types.ModuleType) -> bool:
    """Whether a module is torch's, numpy's or Python's: nobody writes to their numbers."""
    first = str(_core.own_dict(module).get("__name__")).partition(".")[0]
    return first in ("torch", "numpy") or first in sys.stdlib_module_names and first != "__main__"


@functools.lru_cache(maxsize=1024)
def _attribute_names(code: types.CodeType) -> set[str]:
    names = {one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_ATTR", "LOAD_METHOD")}
    return names.union(*(_attribute_names(const) for const in code.co_consts if is_a(const, types.CodeType)))


@functools.lru_cache(maxsize=1024)
def _global_names(code: types.CodeType) -> set[str]:
    names = {one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"}
    return names.union(*(_global_names(const) for const in code.co_consts if is_a(const, types.CodeType)))
