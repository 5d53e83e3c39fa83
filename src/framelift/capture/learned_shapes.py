"""Sizes and numbers of earlier calls, per code; and from them, what is symbolic in the next capture.

Static first.  A size or number that differs between two captures of a frame is symbolic from then on, wherever it
lives.  A number that captured code itself writes is taken for one that changes, before it was seen to.
"""

from __future__ import annotations

import contextlib
import json
import re
import types
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from .. import _core, config
from .._core import is_a
from ..boundary.becomes.leaves import is_constant
from ..boundary.declared_shapes import Declared
from ..boundary.dynamism import UNGUARDED_NUMBERS, Dynamism, FunctionSeen, KeysSeen, code_name, keys_text
from ..cache.files_below import read_below, write_below
from ..cache.refusals import NotMine
from ..cache.store import folder
from ..exc import BackendCompilerFailed
from ..graph.symbols.numbers import Float
from ..graph.symbols.numpy_numbers import NumpyNumber
from ..guards.kinds import Guard, TensorFacts
from ..vocabulary.origins import STEPS, Origin, const
from ..vocabulary.shown_values import shown_value
from .around.specialized_floats import gave_up_on_floats

if TYPE_CHECKING:
    from ..boundary.world import World
    from ..rehearsal.session import Rehearsal


_NUMBERS = (int, float)
_length_text = STEPS["len"].show
_NO_KEYS = KeysSeen("[]")  # of most dictionaries that are looked at: tables of hooks


class Learned:
    """The sizes and numbers of one frame's captures: place -> what was found there last, and which of it changes."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}  # text of an origin -> number, or sizes
        self.changing: dict[str, Any] = {}  # text of an origin -> True (a number), or the dimensions
        self.captures = 0  # so far, whatever became of their entries
        self.entered = False  # whether a capture gave an entry
        self.given_up = False  # a defect of framelift keeps it from being captured
        self.left_by_backend = False  # the backend asked to run it eagerly
        self.blocks = False  # it failed to be compiled in the background
        self.warned: set[Any] = set()  # causes whose limit was reported
        self.full: dict[Any, Any] = {}  # guards that failed where there was no room for another entry -> the Miss
        self.classes: dict[
            str, tuple[weakref.ref[type], int]
        ] = {}  # text of an origin -> the class that some function made, and its number there
        self.special: dict[str, Any] = {}  # text of an origin -> conditions on sizes that have captures of their own
        self.read_fully: set[str] = set()  # texts of origins of dictionaries that are not read key by key

    def learn(self, world: World) -> None:
        """Take over what a capture relied on."""
        self.captures += 1
        for origin in world.numbers:
            self.changing[str(origin)] = True
        for origin, value in UNGUARDED_NUMBERS.of(world).items():
            self.meet(str(origin), value)
        for place in world.dynamism.keyed:
            if type(self.values.get(place)) is KeysSeen:
                self.values[place] = KeysSeen("", True)
        self._learn_guards(world.guards)

    def learn_loaded(self, guards: Iterable[Guard], numbers: Iterable[Origin]) -> None:
        """The same for a capture that was kept on disk; `numbers` are symbolic in it."""
        self.captures += 1
        for origin in numbers:
            self.changing[str(origin)] = True
        self._learn_guards(guards)

    def _learn_guards(self, guards: Iterable[Guard]) -> None:
        for guard in _core.telling_guards(guards):
            kind, value = guard.kind, guard.value
            if kind == "KEYS":
                place = guard.origin._text or str(guard.origin)
                self._keys(place, keys_text(value) if value else "[]")
                self.meet(_length_text(place, None), len(value))
            elif kind == "EQ":
                self._leaf(guard.origin, value)
            elif kind == "LEN":
                if self.changing.get(place := str(guard.origin.to("len"))) is not False:
                    self.meet(place, value)
            elif kind == "TENSOR":
                if type(value) is TensorFacts and value.python_type is not torch.nn.Parameter:
                    self.meet(str(guard.origin), value.size)
                    if value.stride is not None:
                        self.meet(f"{guard.origin}.stride()", value.stride)
            elif is_a(value, type):
                self._class(str(guard.origin), value)
            else:
                self._function(str(guard.origin), guard)

    def _class(self, place: str, now: type) -> None:
        last, count = self.classes.get(place, (None, 0))
        if last is None or last() is not now:
            self.classes[place] = weakref.ref(now), count + 1

    def _keys(self, place: str, now: str) -> None:
        old = self.values.get(place)
        if type(old) is not KeysSeen:
            self.values[place] = KeysSeen(now) if now != "[]" else _NO_KEYS
        elif old.text != now or old.changes:
            self.values[place] = KeysSeen(now, True)

    def _function(self, place: str, guard: Any) -> None:
        if guard.kind == "CODE":
            old = self.values.get(place)
            if type(old) is FunctionSeen:
                self.values[place] = FunctionSeen(old.code, old.function, True)
        else:
            self.values[place] = FunctionSeen(code_name(guard.value), weakref.ref(guard.value))

    def _leaf(self, origin: Origin, value: Any) -> None:
        if type(value) in _NUMBERS:
            self.meet(str(origin), value)
        elif type(value) in (tuple, torch.Size):
            for i, item in enumerate(value):
                self._leaf(origin.to("item", i), item)
        elif type(value) is slice:
            for name in ("start", "stop", "step"):
                self._leaf(origin.to("attr", name), getattr(value, name))

    def meet(self, place: str, value: Any) -> None:
        """One number or one tensor's sizes; where they differ from those before, they change."""
        old = self.values.get(place)
        self.values[place] = value
        if type(value) is tuple:
            dims = {i for i, length in enumerate(value) if length is None}  # symbolic already
            if type(old) is tuple and len(old) == len(value):
                dims |= {i for i, (a, b) in enumerate(zip(old, value)) if a != b}
            known = self.changing.get(place)
            if dims:
                self.changing[place] = frozenset(dims) | (known if is_a(known, frozenset) else frozenset())
        elif type(old) is type(value) and (old != value or shown_value(old) != shown_value(value)):
            self.changing[place] = True

    def as_data(self) -> dict[str, Any]:
        """Return what changes, in JSON's types.

        The dimensions of a tensor, true for a number, false for one to be kept constant, "keys" for a dictionary.
        """
        keyed = {place: "keys" for place, what in self.values.items() if type(what) is KeysSeen and what.changes}
        return {place: sorted(what) if is_a(what, frozenset) else what for place, what in self.changing.items()} | keyed

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Learned:
        """The inverse of `as_data`.  Raises ValueError for what is no such data."""
        made = cls()
        for place, what in data.items():
            if what == "keys":
                made.values[place] = KeysSeen("", True)
            elif type(what) is list and all(type(dim) is int and dim >= 0 for dim in what):
                made.changing[place] = frozenset(what)
            elif type(what) is bool:
                made.changing[place] = what
            else:
                raise ValueError(f"{place}: {what!r}")  # caught by who reads the data
        return made

    def copy(self, without: str = "") -> Learned:
        """The same knowledge, for one more frame; but for what is reached from the parameter `without`."""
        made = Learned()
        made.values, made.changing = _outside(self.values, without), _outside(self.changing, without)
        made.read_fully, made.special = set(self.read_fully), _outside(self.special, without)
        return made

    def keep_static(self, place: str) -> None:
        """A number that could not be followed symbolically."""
        self.changing[place] = False

    def keep_floats_static(self, session: Rehearsal, error: BackendCompilerFailed) -> None:
        """A compiler has no use for floats that are inputs: they are constants of each capture."""
        numbers = _floats(session)
        refused = {
            id(number) for name in error.floats for number in _sources(session.with_symbols().meanings.get(name))
        }
        for origin in [origin for origin, number in numbers.items() if id(number) in refused] or numbers:
            self.keep_static(str(origin))


def refuses_floats(session: Rehearsal, error: BackendCompilerFailed) -> bool:
    """Return whether a compiler failed because of floats among the graph's inputs."""
    return gave_up_on_floats(error.__cause__) and bool(_floats(session))


def _floats(session: Rehearsal) -> dict[Origin, Any]:
    return {origin: number for origin, number in session.world.numbers.items() if type(number) in (Float, NumpyNumber)}


def _outside(places: dict[str, Any], parameter: str) -> dict[str, Any]:
    """The places, texts of origins, that are not reached from a parameter."""
    roots = parameter, f"{parameter}.", f"{parameter}["
    return {
        place: what
        for place, what in places.items()
        if not parameter or place != roots[0] and not place.startswith(roots[1:])
    }


def _sources(value: Any) -> list[Any]:
    """The external numbers that a calculation starts with, or a number made by one."""
    args = getattr(value, "args", ()) if type(value) is not Float or value.func is not None else ()
    return [source for arg in args for source in _sources(arg)] if args else [value]


def dynamism_for(
    seen: Learned, dynamic: bool | None, scalars: bool = False, general: bool = False, declared: Declared | None = None
) -> Dynamism:
    """Return which values are symbolic in the next rehearsal.

    `scalars`: also those of numpy's that were not met before; `general`: also sizes 0 and 1.
    """
    everything = dynamic is True or (dynamic is None and not config.assume_static_by_default)
    automatic = dynamic is not False and config.automatic_dynamic_shapes
    return Dynamism(
        seen.changing if automatic else {},
        everything=everything,
        values=seen.values if automatic else {},
        read_fully=seen.read_fully,
        functions=True,
        scalars=scalars and automatic,
        general=general,
        special=seen.special,
        declared=declared,
    )


def written_numbers(session: Rehearsal) -> list[str]:
    """The places of numbers that captured code read and wrote."""
    world = session.world
    if not world.effects and not world.shadows:
        return []
    told = _core.telling_guards(world.guards)
    read = {guard.origin for guard in told if guard.kind == "EQ" and type(guard.value) in _NUMBERS}
    if not read:
        return []
    found = []
    for effect in world.effects:
        if type(effect.value) not in _NUMBERS:
            continue
        found += [str(place) for place in _places(world, effect) if place in read]
    for shadow in world.shadows.values():
        if is_a(shadow.before, (dict, list)):
            items = shadow.before.items() if is_a(shadow.before, dict) else enumerate(shadow.before)
            for key, before in items:
                if (
                    type(before) in _NUMBERS
                    and (place := shadow.origin.to("item", key)) in read
                    and _now(shadow.copy, key, before) is not before
                ):
                    found.append(str(place))
    return found


def _places(world: World, effect: Any) -> list[Origin]:
    """Where a pending write goes, as a read of the same place would name it."""
    owner = effect.owner
    if is_a(owner, types.CellType):
        return [world.cell_origin(owner).to("contents")] if world.is_external_cell(owner) else []
    origin = const(owner) if is_constant(owner) else world.origin_of(owner)
    if origin is None:
        return []
    return [
        origin.to("item", effect.key),
        origin.to("slot", effect.key),
        origin.to("lookup", effect.key),
        origin.to("dict").to("item", effect.key),
    ]


def _now(copy: Any, key: Any, before: Any) -> Any:
    try:
        now = dict.get(copy, key, before) if is_a(copy, dict) else list.__getitem__(copy, key)
    except (IndexError, TypeError):
        return before
    return now if type(now) in _NUMBERS else before


# ---- Sizes and numbers that earlier processes saw change, by job: TORCH_COMPILE_JOB_ID (`torch.compiler.c ----


_read: dict[tuple[str, str], dict[str, Any]] = {}  # what a file held when it was first read
_MOST = 1 << 26  # bytes of a file


def _place() -> tuple[str, str] | None:
    """The folder and the file of the present job; None: there is no job, or nothing is to be kept."""
    job = getattr(torch.compiler.config, "job_id", None)
    if not job or not config.automatic_dynamic_local_pgo or torch.compiler.config.force_disable_caches:
        return None
    return folder(), f"sizes/{re.sub(r'^[.]|[^A-Za-z0-9_.-]', '_', job)}.json"


def _rows(place: tuple[str, str]) -> dict[str, Any]:
    if place not in _read:
        _read[place] = {}
        with contextlib.suppress(OSError, ValueError, RecursionError, NotMine):
            rows = json.loads(read_below(*place, _MOST))
            _read[place] = rows if type(rows) is dict else {}
    return _read[place]


def _name(code: types.CodeType) -> str:
    return f"{code.co_filename}:{code.co_firstlineno}:{code.co_qualname}"


def expected_of(code: types.CodeType) -> Learned | None:
    """Return what earlier processes of this job saw of a code; None: nothing."""
    place = _place()
    row = _rows(place).get(_name(code)) if place is not None else None
    with contextlib.suppress(ValueError, AttributeError):  # not as it was written
        return Learned.from_data(row) if row else None
    return None


def keep_shapes(code: types.CodeType, seen: Learned) -> None:
    """Write down what changes at the calls of a code, for the next process."""
    place = _place()
    data = seen.as_data() if place is not None else {}
    if place is None or not data or _rows(place).get(_name(code)) == data:
        return
    _rows(place)[_name(code)] = data
    with contextlib.suppress(OSError, NotMine):  # a convenience: the next process finds out by itself
        write_below(*place, json.dumps(_rows(place), indent=1, sort_keys=True).encode())
