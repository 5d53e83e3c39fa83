"""A finished rehearsal as exits see it (exits.scene.Scene): origins, shadows, effects and facts of its objects."""

from __future__ import annotations

import functools
import operator
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

from .. import _core
from .._core import is_a
from ..boundary.becomes.leaves import is_constant
from ..boundary.facts.identities import IDENTITIES, Identities
from ..boundary.records import ABSENT, External, Shadow
from ..boundary.world import World
from ..guards.checks import gives
from ..recording.recorder import TapeRecorder
from ..vocabulary.class_reads import has_member, members_of, mro_of
from ..vocabulary.origins import Origin, const
from ..vocabulary.plain_types import FUNCTIONS
from . import call_rule


def via(path: str) -> Any:
    """Return an attribute of a session that is one of its world's or its recorder's, as `Session` types it."""
    return property(operator.attrgetter(path))


def _is_external_function(obj: Any) -> bool:
    return type(obj) in FUNCTIONS and not _core.is_internal(obj)


class RehearsedScene:
    """A scene over the world and the recorder of a rehearsal."""

    world: World
    recorder: TapeRecorder
    features: dict[Any, Any]

    def origin_of(self, obj: Any) -> Origin | None:
        found = self.world.origin_of(obj)
        if found is not None:
            return found
        if is_a(obj, types.CellType):
            return self.world.cell_origin(obj) if self.world.is_external_cell(obj) else None
        if is_constant(obj) and not _core.is_internal(obj) and not _is_bound(obj):
            # C code makes them, unseen
            made = is_a(obj, types.ModuleType) and not any(one is obj for one in tuple(sys.modules.values()))
            return None if made else const(obj)
        if is_a(obj, call_rule.OPERATIONS) or _is_external_function(obj):
            return const(obj)
        return None

    def input_origin(self, stand_in: torch.Tensor) -> Origin | None:
        return self.world.origin_of(stand_in)

    def is_alone(self, stand_in: torch.Tensor) -> bool:
        storage = self.recorder.value_of(stand_in).storage
        return len(storage.values) == 1 and not storage.external

    def is_one_object(self, nan: Any) -> bool:
        identities = IDENTITIES.found(self) or Identities(self.world)
        return identities.pin(nan) or identities.is_code_constant(nan)

    def stores_plainly(self, cls: type, names: Iterable[str]) -> bool:
        if any(effect.kind.endswith("type") for effect in self.world.effects):
            return False
        found = {type(self.world.classes.lookup(cls, name)) for name in names}
        if any(has_member(kind, "__set__") or has_member(kind, "__delete__") for kind in found):
            return False
        for kind in filter(_core.is_python_class, found):  # a class of the program's may become one of data descriptors
            self.world.classes.lookup(kind, "__set__")
            self.world.classes.lookup(kind, "__delete__")
        return True

    @property
    def shadows(self) -> list[Shadow]:
        return list(self.world.shadows.values())

    def shadow_of(self, obj: Any) -> Shadow | None:
        return self.world.shadows.get(id(obj))

    def guard_answer(self, ask: Callable[[], Any], value: Any) -> None:
        """Guard that a function of the process, called without arguments, gives this value."""
        self.world.guard(const(ask), "CHECK", (functools.partial(gives, value), f"() == {value!r}"))

    def record_of(self, seen: Any) -> External | None:
        """Return the record of what captured code holds; None: it was made inside."""
        return self.world.by_seen.get(id(seen))

    def record_of_original(self, original: Any) -> External | None:
        """Return the record of an external object that was imported."""
        return self.world.memo.get(id(original))

    def pending(self, owner: Any, name: str) -> Any:
        """Return what captured code wrote to an attribute or entry: DELETED where it is gone, else ABSENT."""
        return self.world.overlay.get((id(owner), name), ABSENT)

    def is_pending(self, owner: Any, name: str) -> bool:
        return (id(owner), name) in self.world.overlay

    def set_pending(self, owner: Any, name: str, value: Any) -> None:
        self.world.overlay[(id(owner), name)] = value

    # what the session offers of its two parts
    guard, guards, dynamism = via("world.guard"), via("world.guards"), via("world.dynamism")
    lookup, is_external_cell = via("world.classes.lookup"), via("world.is_external_cell")
    pin_function, note_kind = via("world.functions.pin"), via("world.classes.note_kind")
    effects, write = via("world.effects"), via("world.write")
    at_end = via("world.ends.finishing.append")
    modes, runs_as_is, symbols = via("recorder.modes"), via("recorder.runs_as_is"), via("recorder.symbols")
    tape, annotations, live = via("recorder.tape"), via("recorder.annotations"), via("recorder.live")
    settings, known_values = via("recorder.settings"), via("recorder.known_values")
    with_symbols, in_transform = via("recorder.with_symbols"), via("recorder.in_transform")
    tape_is_a_body, is_stand_in = via("recorder.tape_is_a_body"), via("recorder.is_stand_in")
    value_of, external = via("recorder.value_of"), via("recorder.external")
    call, record = via("recorder.call"), via("recorder.record")


def _is_bound(obj: Any) -> bool:
    """Return whether `obj` is a built-in method of an object, which may have been made inside."""
    if not is_a(obj, types.BuiltinMethodType) or is_a(obj.__self__, (types.ModuleType, type)):
        return False
    # In any of its classes: the first that has the name may have a method of its own, past which `super()` reads.
    return any(
        is_a(members_of(base).get(obj.__name__), types.MethodDescriptorType) for base in mro_of(type(obj.__self__))
    )
