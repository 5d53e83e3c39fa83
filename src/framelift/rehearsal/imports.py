"""Import statements of captured code: the machinery runs unwatched, so captured code must not have changed it."""

from __future__ import annotations

import builtins
import importlib.util
import sys
import types
from typing import Any

from .. import _core
from .._core import id, is_a
from ..boundary.lazy.lazy_dict import LargeDict
from ..boundary.world import World
from ..calls.frame_views import caller
from ..recording.session import Session
from ..vocabulary.origins import const
from ..vocabulary.reasons import Interrupt

#: of `sys`: what the machinery asks where to look
_WHERE = ("path", "meta_path", "path_hooks", "path_importer_cache")


def import_name(session: Session, globals_: dict[str, Any], level: int, fromlist: Any, name: str) -> Any:
    """`import name`: the module object is what it is in sys.modules."""
    world = session.world
    _check_import(world)
    _check_table(world)
    package: dict[str, Any] = {
        key: globals_[key] for key in ("__package__", "__name__", "__path__", "__spec__") if key in globals_
    }
    if level and _warns(package):
        raise Interrupt("unsupported-code", "a relative import of which Python warns")
    absolute = _absolute(world, globals_, package, level, name)
    if sys.modules.get(absolute) is None or level or fromlist:
        _check_machinery(session, absolute, fromlist)
    before, searches = len(sys.modules), level >= 0 and absolute and absolute not in sys.modules
    try:
        module = builtins.__import__(name, package, None, fromlist, level)
    except Exception as error:
        if searches or absolute and is_a(error, ImportError):
            raise Interrupt("unsupported-code", f"an import of {absolute}, which fails,") from None
        raise
    finally:
        _core.handlers_may_change()
    if len(sys.modules) != before and _opened(world) is not None:
        raise Interrupt("unsupported-code", "an import of a new module after all of sys.modules was read")
    key = absolute if fromlist else absolute.partition(".")[0]
    world.guard(const(sys.modules).to("item", key if sys.modules.get(key) is module else module.__name__), "IS", module)
    if absolute != key and absolute in sys.modules:  # the statement would look for it again
        world.guard(const(sys.modules).to("item", absolute), "IS", sys.modules[absolute])
    return module


def _check_import(world: World) -> None:
    """Import statements call `__import__` of the frame's builtins: Python's own function, which is guarded."""
    if (id(vars(builtins)), "__import__") in world.overlay:
        raise Interrupt("unsupported-code", "an import by an __import__ that captured code put in place")
    imports = caller().f_builtins.get("__import__")
    plain = type(imports) is types.BuiltinFunctionType and imports.__self__ is builtins
    if not plain or imports is not vars(builtins).get("__import__"):
        raise Interrupt("unsupported-code", "an import by an __import__ that is not Python's own")
    world.guard(const(vars(builtins)).to("item", "__import__"), "IS", imports)


def _absolute(world: World, globals_: dict[str, Any], package: dict[str, Any], level: int, name: str) -> str:
    """The whole name of a module; none where a relative import has no beginning, which raises."""
    if not level or type(name) is not str:
        return name if type(name) is str else ""
    where = package.get("__package__")
    for key in ("__package__", "__name__"):
        if key in package and type(package[key]) in (str, types.NoneType):
            world.guard(const(globals_).to("item", key), "EQ", package[key])
    if where is None and type(package.get("__name__")) is str:
        where = package["__name__"] if "__path__" in package else package["__name__"].rpartition(".")[0]
    try:
        return importlib.util.resolve_name("." * level + name, where) if where else ""
    except ImportError:
        return ""


def _check_machinery(session: Session, absolute: str, fromlist: Any) -> None:
    """Where the machinery looks for modules, captured code must have changed nothing."""
    module = sys.modules.get(absolute)
    names = fromlist if type(fromlist) in (tuple, list) else ()
    if module is not None and all(type(one) is str and (one == "*" or hasattr(module, one)) for one in names):
        return  # it does not look
    world = session.world
    for name in _WHERE:
        record = world.memo.get(id(vars(sys)[name]))
        shadow = None if record is None else world.shadows.get(id(record.seen))
        changed = shadow is not None and _differs(shadow.copy, shadow.before)
        if changed or (id(vars(sys)), name) in world.overlay:
            raise Interrupt("unsupported-code", f"an import after a change of sys.{name}")


def _differs(now: Any, before: Any) -> bool:
    return len(now) != len(before) or any(one is not other for one, other in zip(now, before))


def _warns(package: dict[str, Any]) -> bool:
    """Return whether Python warns of a relative import: what its module says of its package is missing, or differs."""
    name, spec = package.get("__package__"), package.get("__spec__")
    if name is None or spec is None:
        return name is None and spec is None
    return bool(getattr(spec, "parent", name) != name)


def import_from(world: World, module: types.ModuleType, name: str) -> Any:
    """`from module import name`: an attribute, or a module below it that is being imported."""
    try:
        return _core.read(module, name)
    except AttributeError:
        _check_table(world)
        below = f"{_core.read(module, '__name__')}.{name}"
        found = sys.modules.get(below)
        if found is not None:
            world.guard(const(sys.modules).to("item", below), "IS", found)
            return found
        raise Interrupt("unsupported-code", f"an import of {below}, which fails,") from None


def _opened(world: World) -> dict[str, Any] | None:
    """Return the dictionary that captured code sees for sys.modules, where it looked at all of it, or changed it."""
    record = world.memo.get(id(sys.modules))
    seen = None if record is None else record.seen
    return seen._whole if type(seen) is LargeDict else seen


def _check_table(world: World) -> None:
    whole = _opened(world)
    shadow = None if whole is None else world.shadows.get(id(whole))
    if (
        whole is not None
        and shadow is not None
        and (whole.keys() != shadow.before.keys() or any(whole[name] is not shadow.before[name] for name in whole))
    ):
        raise Interrupt("unsupported-code", "an import after a change of sys.modules")
