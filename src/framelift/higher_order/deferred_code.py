"""Code that runs after the frame is over, such as hooks and backwards, but was rehearsed in the middle of it: what it
reads must not change in between.

It may look at no external object, container or variable, nor at what was made inside and leaves the frame: others may
write to these before it runs.  Of what stays inside, the frame itself must write nothing afterwards.
"""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from .._core import is_a
from ..boundary.becomes.leaves import CONSTANT_TYPES, LEAF_TYPES
from ..graph.metadata.facts import Facts
from ..vocabulary.class_reads import for_life, members_of, module_of, mro_of, name_of
from ..vocabulary.feature_state import FeatureState
from ..vocabulary.plain_types import AROUND
from ..vocabulary.reasons import Interrupt
from ..vocabulary.torch_code import is_class_of, is_torch_function
from .bodies import contents_of, portrait_of

if TYPE_CHECKING:
    from ..graph.fx.values import Value
    from ..recording.session import Session

#: nobody but autograd has a context; functions and methods hold others
_FUNCTIONS = (types.FunctionType, types.MethodType)
_LASTING = (*_FUNCTIONS, tuple, frozenset, torch.autograd.function.FunctionCtx)
_VARIABLE = (types.CellType, list, dict, set)
_FIXED = (type, types.ModuleType, types.BuiltinFunctionType, torch.Tensor)
#: what leaves the frame, by id
_REACHED: FeatureState[dict[int, Any]] = FeatureState(dict)


def runs_later(
    session: Session,
    name: str,
    code: Any,
    *using: Any,
    around: Sequence[Value] = (),
    is_later: bool = True,
    is_torchs: bool = False,
) -> None:
    """Interrupt where `code`, or an object of `using` that it is handed, leads to what others may change before it
    runs; at the end, or at a break, where the frame itself changed it.

    `around`: tensors that it takes from outside of itself; `is_later`: it runs when the frame is over;
    `is_torchs`: code of torch's, to which nobody but the frame itself matters.
    """
    later = _Later(session, name, code, using, is_torchs)
    if is_torchs:
        return
    live = any(is_a(value.facts, Facts) and value.storage.external for value in around)
    if later.exposed or is_later and (later.reads_variables or live):
        raise Interrupt("torch-operation", f"{name} that may read an external object")


class _Later:
    """The objects that one piece of such code looks at."""

    def __init__(self, session: Session, name: str, code: Any, using: tuple[Any, ...], is_torchs: bool) -> None:
        self._session, self._is_torchs = session, is_torchs
        self._name = name
        self._effects = len(session.effects)
        self._keep: list[Any] = []
        self._rows = portrait_of([code, *using], self._keep)
        self._named, exposed, self.reads_variables = _by_name(self._keep)
        torchs = [cell for obj in self._keep if is_torch_function(obj) for cell in obj.__closure__ or ()]
        kept = set(map(id, torchs))  # nobody sets the variables of its decorators again
        self.exposed = exposed or any(_is_exposed(session, obj) for obj in self._keep if id(obj) not in kept)
        session.at_end(self.check)

    def check(self) -> None:
        changed = next((f"a {name_of(type(obj))}" for obj, before in self._rows if contents_of(obj) != before), "")
        if not changed:
            later = self._session.effects[self._effects :]
            changed = next((effect.kind for effect in later if self.exposed or id(effect.owner) in self._named), "")
        if not changed and self._is_torchs:
            if self._session.end.is_stopped and (self.exposed or any(is_a(obj, _VARIABLE) for obj, _ in self._rows)):
                changed = "by the rest of the frame"
        elif not changed:  # the rest of a stopped frame may change it, or whoever has what leaves the frame
            reached = None if self._session.end.is_stopped else _leaving(self._session)
            changed = next(
                (
                    f"a {name_of(type(obj))}"
                    for obj, _ in self._rows
                    if _may_change(obj) and (reached is None or id(obj) in reached)
                ),
                "",
            )
        if changed:
            raise Interrupt(
                "torch-operation", f"{self._name} that may read what the frame changes afterwards ({changed})"
            )


def _may_change(obj: Any) -> bool:
    """Return whether this was made inside, and others can write to it."""
    if is_a(obj, types.CellType):
        return not _core.is_external_cell(obj)
    return not is_a(obj, (*_LASTING, *AROUND)) and not _core.is_external(obj)


def _leaving(session: Session) -> dict[int, Any]:
    """The objects, by their ids, that the frame's result and what it writes to external objects lead to."""
    found = _REACHED.of(session)
    if not found:
        world = session.world
        roots = [session.end.result, *(shadow.copy for shadow in world.shadows.values())]
        for effect in world.effects:
            roots += [effect.owner, effect.key, effect.value]
        keep: list[Any] = []
        portrait_of(roots, keep)
        found.update((id(one), one) for one in keep)
    return found


def _is_exposed(session: Session, obj: Any) -> bool:
    """Return whether this is an external object or container that may be written to, or a variable of an external
    function that holds more than a function, class or module.
    """
    if is_a(obj, types.CellType):
        if not _core.is_external_cell(obj):
            return False
        try:
            return not is_a(obj.cell_contents, CONSTANT_TYPES)
        except ValueError:
            return True
    if not _core.is_external(obj) and session.record_of(obj) is None:
        return False
    return type(obj) not in LEAF_TYPES and not is_a(obj, (*_FIXED, *_FUNCTIONS, tuple, frozenset))


def _by_name(objects: list[Any]) -> tuple[dict[int, Any], bool, bool]:
    """Return what the functions among `objects` find by names.

    Classes and modules, with their tables; whether they find other objects; and whether they find plain values or
    tensors, as variables or as attributes of those classes and modules.
    """
    found: dict[int, Any] = {}
    exposed = reads = False
    functions = [obj for obj in objects if is_a(obj, types.FunctionType)]
    seen: set[types.CodeType] = set()
    while functions:
        function = functions.pop()
        if function.__code__ in seen or is_torch_function(function):
            continue
        seen.add(function.__code__)
        space = function.__globals__
        found[id(space)] = space
        for value in [space[name] for name in _global_names(function.__code__) if name in space]:
            if is_a(value, (type, types.ModuleType)):
                found[id(value)] = value
                attributes = _attributes_read(value, function.__code__)
                functions += [one for one in attributes if is_a(one, types.FunctionType)]
                reads = reads or not all(is_a(one, CONSTANT_TYPES) for one in attributes)
            elif is_a(value, types.FunctionType):
                functions.append(value)
            elif type(value) in LEAF_TYPES or is_a(value, torch.Tensor):
                reads = True
            elif not is_a(value, CONSTANT_TYPES) and module_of(type(value)).partition(".")[0] != "triton":
                exposed = True
    return found, exposed, reads


def _attributes_read(owner: Any, code: types.CodeType) -> list[Any]:
    """Return the attributes of a class or module of the program that the code names."""
    kept = is_class_of(owner, "torch") if is_a(owner, type) else _is_library(owner)
    if kept or is_a(owner, type) and not _core.is_python_class(owner):
        return []
    places = mro_of(owner) if is_a(owner, type) else ()
    tables = [members_of(cls) for cls in places if _core.is_python_class(cls)] or [_core.own_dict(owner) or {}]
    values = [table[name] for name in _attribute_names(code) for table in tables if name in table]
    return [one.__func__ if is_a(one, (staticmethod, classmethod)) else one for one in values]


def _is_library(module: types.ModuleType) -> bool:
    """Return whether a module is torch's, numpy's, Python's or pytest's own: nobody writes to their numbers."""
    first = str(_core.own_dict(module).get("__name__")).partition(".")[0]
    return first in ("torch", "numpy", "_pytest") or first in sys.stdlib_module_names and first != "__main__"


@for_life
def _attribute_names(code: types.CodeType) -> set[str]:
    names = {one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_ATTR", "LOAD_METHOD")}
    return names.union(*(_attribute_names(const) for const in code.co_consts if is_a(const, types.CodeType)))


@for_life
def _global_names(code: types.CodeType) -> set[str]:
    names = {one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"}
    return names.union(*(_global_names(const) for const in code.co_consts if is_a(const, types.CodeType)))
