"""Functions that a caller of `compile` may register on guards, and the forms in which guards are shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["GuardEntry", "GuardFail", "Hooks"]


@dataclass(frozen=True, slots=True)
class GuardEntry:
    """One guard as a filter sees it; the names are those of torch.compile's filters."""

    name: str
    guard_type: str
    value: Any
    is_global: bool
    has_value: bool = True
    derived_guard_types: tuple[str, ...] = ()
    orig_guard: Any = None


class GuardFail(NamedTuple):
    """A guard failure that leads to a new capture."""

    reason: str
    orig_code: Any


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks of one compiled callable, and its own limit of captures."""

    guard_filter_fn: Callable[..., Any] | None = None
    guard_fail_fn: Callable[..., Any] | None = None
    guard_export_fn: Callable[..., Any] | None = None
    recompile_limit: int | None = None

    def guards(self, guards: Any) -> Any:
        """The guards that are to be kept, after the filter and shown to the export hook."""
        if self.guard_filter_fn is not None:
            keep = self.guard_filter_fn([_entry(guard) for guard in guards])
            guards = [guard for guard, kept in zip(guards, keep) if kept]
        if self.guard_export_fn is not None:
            self.guard_export_fn([_entry(guard) for guard in guards])
        return guards

    def failed(self, why: str, code: Any) -> None:
        """Tell of a guard failure."""
        if self.guard_fail_fn is not None and why:
            self.guard_fail_fn(GuardFail(why, code))


def _entry(guard: Any) -> GuardEntry:
    root = guard.origin
    while root.base is not None:
        root = root.base
    return GuardEntry(str(guard.origin), guard.kind, guard.value, is_global=root.step == "const", orig_guard=guard)
