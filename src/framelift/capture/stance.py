"""The stance: a process-wide policy on what compiled callables do, and what it makes of a miss.

torch.compiler.set_stance keeps its own record in TorchDynamo; the native callable compares that record at every
call and tells `follow_torch` of a change, so that either way of setting a stance works.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import _core
from ..exc import IncorrectUsage

if TYPE_CHECKING:
    from .._core import Compiled


@dataclass(frozen=True)
class Stance:
    """`name` as in STANCES; `backend` is used by every compiled callable while it is set."""

    name: str = "default"
    skip_guard_eval_unsafe: bool = False
    backend: str | Callable[..., Any] | None = None


#: stance -> what it does on a miss
STANCES: dict[str, str] = {
    "default": "capture",
    "force_eager": "run eagerly, and use no entries either",
    "eager_on_recompile": "run eagerly",
    "fail_on_recompile": "raise RuntimeError",
    "eager_then_compile": "run eagerly the first time, capture the second",
    "aot_eager_then_compile": "capture with the backend aot_eager the first time, as always the second",
    "background": "capture, and run the graph uncompiled while another process compiles it",
}

_own = Stance()
_torch: Stance | None = None


def current() -> Stance:
    """The stance in force: framelift's own, unless torch.compiler.set_stance asks for another."""
    if _own == Stance() and _torch is not None:
        return _torch
    return _own


def put(stance: Stance) -> Stance:
    """Set the stance, and return the one before."""
    global _own
    before, _own = _own, stance
    _apply()
    return before


def follow_torch(record: Any) -> None:
    """TorchDynamo's record of the stance changed."""
    global _torch
    _torch = Stance(record.stance, record.skip_guard_eval_unsafe, record.backend) if record is not None else None
    _apply()


def _apply() -> None:
    stance = current()
    if stance.name not in STANCES:
        _core.connect(redirect=_invalid)
    else:
        _core.connect(redirect=REDIRECTS.get("force_backend" if stance.backend is not None else stance.name))


def _plainly(compiled: Compiled, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    before = _core.get_mode()
    try:
        _core.switch_mode(0)  # nothing below it is captured either
        return compiled.function(*args, **kwargs)
    finally:
        _core.switch_mode(before)


def _invalid(compiled: Compiled, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise IncorrectUsage(f"invalid torch.compile stance '{current().name}'; there are {', '.join(STANCES)}")


#: where calls go under a stance; the layer that knows backends adds its own
REDIRECTS: dict[str, Any] = {"force_eager": _plainly}
_core.connect(follow_torch_stance=follow_torch)
