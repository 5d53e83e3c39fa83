"""Import statements of captured code: the machinery runs unwatched, so captured code must not have changed it."""

from __future__ import annotations

import builtins
import sys
import types
from typing import Any

from .. import _core
from .._core import id
from ..boundary.lazy.lazy_dict import LargeDict
from ..boundary.world import World
from ..vocabulary.origins import const
from ..vocabulary.reasons import Interrupt

__all__ = ["import_from", "import_name"]


def import_name(world: World, globals_: dict[str, Any], level: int, fromlist: Any, name: str) -> Any:
    """`import name`: the module object is what it is in sys.modules."""
    if (id(vars(builtins)), "__import__") in world.overlay:
        raise Interrupt("unsupported-code", "an import by an __import__ that captured code put in place")
    _check_table(world)
    package: dict[str, Any] = {
        key: globals_[key] for key in ("__package__", "__name__", "__path__", "__spec__") if key in globals_
    }
    if level and _warns(package):
        raise Interrupt("unsupported-code", "a relative import of which Python warns")
    before = len(sys.modules)
    try:
        module = builtins.__import__(name, package, None, fromlist, level)
    except ImportError:
        if level == 0:
            _guard_missing(world, name)
        raise
    finally:
        _core.handlers_may_change()
    if len(sys.modules) != before and _opened(world) is not None:
        raise Interrupt("unsupported-code", "an import of a new module after all of sys.modules was read")
    world.guard(const(sys.modules).to("item", module.__name__), "IS", module)
    return module


def _warns(package: dict[str, Any]) -> bool:
    """Whether Python warns of a relative import: what its module says of its package is missing, or differs."""
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
        found = sys.modules.get(f"{module.__name__}.{name}")
        if found is None:
            raise ImportError(
                (
                    f"cannot import name {name!r} from {module.__name__!r} "
                    f"({getattr(module, '__file__', 'unknown location')})"
                ),
                name=module.__name__,
                path=getattr(module, "__file__", None),
            ) from None
        world.guard(const(sys.modules).to("item", found.__name__), "IS", found)
        return found


def _guard_missing(world: World, name: str) -> None:
    """A module that cannot be imported now may be put into the table later."""
    if name in sys.modules:  # None there forbids the import
        world.guard(const(sys.modules).to("item", name), "IS", sys.modules[name])
    else:
        world.guard(const(sys.modules), "ABSENT", name, name)


def _opened(world: World) -> dict[str, Any] | None:
    """What captured code sees of sys.modules where it looked at all of it, or changed it."""
    record = world.memo.get(id(sys.modules))
    seen = None if record is None else record.seen
    return seen._whole if type(seen) is LargeDict else seen


def _check_table(world: World) -> None:
    whole = _opened(world)
    shadow = None if whole is None else world.shadow_ids.get(id(whole))
    if (
        whole is not None
        and shadow is not None
        and (whole.keys() != shadow.before.keys() or any(whole[name] is not shadow.before[name] for name in whole))
    ):
        raise Interrupt("unsupported-code", "an import after a change of sys.modules")
