"""Functions that a caller of `compile` may register on guards, and the forms in which guards are shown."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ..._core import is_a
from ...vocabulary.class_reads import module_of
from ...vocabulary.outside_exceptions import raise_outside


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

    def guards(self, guards: Any, memo: Mapping[int, Any] | None = None) -> Any:
        """The guards that are to be kept, after the filter and shown to the export hook.

        `memo` has a record with the origin of each object that was met.
        """
        if self.guard_filter_fn is not None or self.guard_export_fn is not None:
            found = {record.origin: record.original for record in (memo or {}).values()}
            modules = {origin: one for origin, one in found.items() if is_a(one, torch.nn.Module)}
        if self.guard_filter_fn is not None:
            keep = self.guard_filter_fn([_entry(guard, modules) for guard in guards])
            guards = [guard for guard, kept in zip(guards, keep) if kept]
        if self.guard_export_fn is not None:
            self.guard_export_fn([_entry(guard, modules) for guard in guards])
        return guards

    def keep_shapes(self) -> bool:
        """Return whether entries look at what they rely on of symbolic numbers: one guard to a filter, SHAPE_ENV."""
        shapes = GuardEntry("", "SHAPE_ENV", None, False, orig_guard=FilterGuard(None, GuardSource("", [])))
        return self.guard_filter_fn is None or bool(self.guard_filter_fn([shapes])[0])

    def failed(self, why: str, code: Any) -> None:
        """Report a guard failure.  What the hook raises is logged: it must not end the program."""
        if self.guard_fail_fn is not None and why:
            try:
                self.guard_fail_fn(GuardFail(why, code))
            except Exception as error:
                raise_outside(error)
                logging.getLogger("framelift.guards").exception("guard_fail_fn failed")


class GuardSource:
    """Where a guarded value comes from, as torch.compiler's ready-made filters ask for it."""

    def __init__(self, name: str, modules: list[Any]) -> None:
        self.name = name
        self._modules = modules  # those on the way to the value, innermost first

    def is_unspecialized_nn_module(self) -> bool:
        return bool(self._modules)

    def is_unspecialized_builtin_nn_module(self) -> bool:
        return bool(self._modules) and module_of(type(self._modules[0])).startswith("torch.nn.")


@dataclass(frozen=True, slots=True)
class FilterGuard:
    """`GuardEntry.orig_guard`: the guard with its source."""

    guard: Any
    source: GuardSource

    @property
    def name(self) -> str:
        return self.source.name


#: kinds of guards under the names that TorchDynamo's filters know
GUARD_TYPES = {
    "TENSOR": "TENSOR_MATCH",
    "TYPE": "TYPE_MATCH",
    "EQ": "EQUALS_MATCH",
    "IS": "ID_MATCH",
    "CODE": "FUNCTION_MATCH",
    "KEYS": "DICT_KEYS_MATCH",
    "LEN": "SEQUENCE_LENGTH",
}


def _entry(guard: Any, modules: Mapping[Any, Any]) -> GuardEntry:
    root, owners = guard.origin, []
    while root.base is not None:
        if root in modules:
            owners.append(modules[root])
        root = root.base
    if root in modules:
        owners.append(modules[root])
    source = GuardSource(str(guard.origin), owners)
    return GuardEntry(
        str(guard.origin),
        GUARD_TYPES.get(guard.kind, guard.kind),
        guard.value,
        is_global=root.step == "const",
        derived_guard_types=(guard.kind,),
        orig_guard=FilterGuard(guard, source),
    )
