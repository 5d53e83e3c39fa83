"""Which sizes and numbers become symbolic in one rehearsal: what earlier calls showed, what the user marked, what was
asked for.

The marks are the attributes that `torch._dynamo.mark_dynamic` and similar functions leave on tensors.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from inspect import CO_NESTED
from typing import Any

import torch

from .. import _core, config
from .._core import code_of, id, is_a
from ..graph.metadata.facts import is_parameter
from ..graph.symbols.meanings import NO_MARKS, Marks, is_ordinary
from ..torch_ports.symbols import shapes_config as shape_options
from ..vocabulary.feature_state import FeatureState
from ..vocabulary.origins import Origin
from ..vocabulary.shown_values import shown_value
from .becomes.leaves import is_leaf
from .declared_shapes import Declared
from .named_sources import named_now

#: attributes that say something about a tensor's dimensions
_DYNAMIC, _MAYBE, _STATIC = "_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices", "_dynamo_static_indices"
_UNBACKED = ("_dynamo_unbacked_indices", "_dynamo_strict_unbacked_indices")
_LARGEST = 2**62


def _known(bound: int | None) -> bool:
    return bound is not None


def marks_of(tensor: torch.Tensor) -> tuple[Marks, frozenset[int], frozenset[int]]:
    """(declared dynamic or unbacked, to be tried as dynamic, static), as the user marked the tensor's dimensions."""
    own = _core.own_dict(tensor)
    rank = _rank(tensor)
    dynamic: dict[int, tuple[int | None, int | None]] = {
        dim % rank: (None, None) for dim in own.get(_DYNAMIC, ()) if -rank <= dim < rank
    }
    for entry in own.get("_dynamo_dynamic_range", ()):
        if -rank <= entry.dim < rank and entry.dim % rank in dynamic:  # several: all of them hold
            low, high = dynamic[entry.dim % rank]
            dynamic[entry.dim % rank] = (
                max(filter(_known, (low, entry.min)), default=None),
                min(filter(_known, (high, entry.max)), default=None),
            )
    unbacked, maybe, static = (
        frozenset(dim % rank for name in names for dim in own.get(name, ()) if -rank <= dim < rank)
        for names in (_UNBACKED, (_MAYBE,), (_STATIC,))
    )
    special, bounds, shared, hints = (
        {dim % rank: what for dim, what in own.get(name, {}).items() if -rank <= dim < rank and what}
        for name in ("_specialize_on", "_dynamo_unbacked_bounds", "_dynamo_shape_ids", "_dynamo_hint_overrides")
    )
    conditions = {dim: tuple(what) for dim, what in special.items()}
    return Marks(dynamic, unbacked, frozenset(), conditions, bounds, shared, hints), maybe, static


@dataclass(frozen=True, slots=True)
class FunctionSeen:
    """A function that was found at a place, and its code by name.  `changes`: others of the same code were, too."""

    code: str
    function: Callable[[], Any]  # a weak reference: another may lie at the address of one that is gone
    changes: bool = False


@dataclass(frozen=True, slots=True)
class KeysSeen:
    """The keys of a dictionary that was found at a place.  `changes`: others were, too."""

    text: str
    changes: bool = False


def code_name(function: types.FunctionType) -> str:
    """A function's code, by where it is written."""
    code = code_of(function)
    return f"{code.co_filename}:{code.co_firstlineno}:{code.co_qualname}"


def keys_text(keys: Iterable[Any]) -> str:
    """A dictionary's keys as text."""
    return shown_value([key if is_leaf(key) else id(key) for key in keys])


class Dynamism:
    """The decision for each place.

    `known` maps a place's text to True (a number that changes), False (one to keep constant), or to the dimensions
    that change; `values` to what was found there in an earlier capture: what differs now changes.
    """

    def __init__(
        self,
        known: Mapping[str, Any],
        *,
        everything: bool = False,
        values: Mapping[str, Any] | None = None,
        marks: bool = True,
        read_fully: Container[str] | None = None,
        functions: bool = False,
        scalars: bool = False,
        general: bool = False,
        special: dict[str, Any] | None = None,
        declared: Declared | None = None,
    ) -> None:
        self.known = known
        # places -> conditions on sizes with captures of their own
        self.special = special if special is not None else {}
        self.everything = everything
        self.values = values or {}
        self.marks = marks
        self.read_fully = read_fully  # dictionaries among the arguments that are not read key by key; None: none is
        self.functions = functions  # those that may be made anew at each call are guarded by their code and contents
        self.scalars = scalars  # scalars of numpy among the arguments are symbolic before they were seen to change
        self.early: list[str] = []  # the places of those
        self.general = general  # sizes 0 and 1 that were seen to change are numbers that nothing is known of
        self.lone = False  # there are such sizes, and they are constants
        self._once: dict[
            str, str
        ] = {}  # places of functions guarded by their code -> what they were called when they were constants
        self.keyed: list[
            str
        ] = []  # places of dictionaries that are read key by key, and lengths of lists read element by element
        self.named = named_now() if marks else None
        self.declared = declared  # what the program says of its arguments: then nothing else of them is symbolic
        self.quiet = not known and not everything and not self.values and self.named is None and declared is None

    def number(self, value: Any, origin: Origin) -> bool:
        """Return whether the number found at `origin` becomes symbolic."""
        if self.quiet:
            return False
        if type(value) is float:
            if config.specialize_float or not is_ordinary(value):
                return False
        elif config.specialize_int or not -_LARGEST < value < _LARGEST:
            return False
        if self.declared is not None and type(value) is int:
            return self.declared.number(value, origin)
        if self.named is not None and self.named.kept(origin, 1):
            return False
        root = _root(origin)
        if root.step == "const" and type(root.key) in (tuple, list):  # as a cache keeps: all look alike by name
            return False
        place = str(origin)
        known = self.known.get(place)
        if known is not None:
            return known is True
        if self.named is not None and self.named.number(value, origin):
            return True
        if self.everything and is_argument(origin) and value not in (0, 1):
            return True
        old = self._before(place)
        return type(old) is type(value) and (old != value or str(old) != str(value))

    def scalar(self, value: Any, origin: Origin) -> bool:
        """Return whether the scalar of numpy's at `origin` becomes symbolic: many are results, few are constants."""
        if self.number(value, origin):
            return True
        place = str(origin)
        if not self.scalars or not is_argument(origin) or place in self.values or self.known.get(place) is not None:
            return False
        if (
            config.specialize_float
            if type(value) is float
            else config.specialize_int or not -_LARGEST < value < _LARGEST
        ):
            return False
        if not is_ordinary(value):
            return False
        self.early.append(place)
        return True

    def by_code(self, function: types.FunctionType, origin: Origin) -> bool:
        """Return whether the function at `origin` is guarded by its code: functions of one factory take turns there."""
        if not self.functions:
            return False
        old = self.values.get(str(origin)) if self.values else None
        wanted = (
            type(old) is FunctionSeen
            and old.code == code_name(function)
            and (old.changes or old.function() is not function)
            or _root(origin).step == "arg"
            and _may_be_fresh(function, origin)
        )
        if wanted:
            self._once[str(origin)] = function.__qualname__
        return wanted

    def guarded_by_code(self) -> list[str]:
        """The places of functions that are guarded by their code in this rehearsal."""
        return list(self._once)

    def _before(self, place: str) -> Any:
        """Return the value found at a place before; in the cells of a function, also when that was a constant."""
        for prefix, name in self._once.items():
            if place.startswith(f"{prefix}."):
                return self.values.get(place, self.values.get(name + place[len(prefix) :]))
        return self.values.get(place)

    def by_key(self, table: dict[Any, Any], origin: Origin) -> bool:
        """Return whether the dictionary at `origin` is read key by key: it is an argument, or its keys changed
        before.
        """
        place = str(origin)
        old = self.values.get(place) if self.values else None
        if type(old) is KeysSeen and (old.changes or old.text != keys_text(table)):
            wanted = self.known.get(place) is None
        else:
            wanted = (
                self.read_fully is not None
                and origin.step == "arg"
                and place not in self.read_fully
                and not place.startswith(".")
            )
        if wanted:
            self.keyed.append(place)
        return wanted

    def keys_change(self, origin: Origin) -> bool:
        """Return whether the dictionary found at `origin` had other keys before."""
        return type(self.values.get(str(origin))) is KeysSeen

    def by_length(self, length: int, origin: Origin) -> bool:
        """Return whether the list found at `origin` is read element by element: its length changed before."""
        if self.quiet or str(origin).startswith("."):
            return False
        place = origin.to("len")
        wanted = self.known.get(str(place)) is not False and self.number(length, place)
        if wanted:
            self.keyed.append(str(place))
        return wanted

    def inside(self, value: tuple[Any, ...], origin: Origin) -> bool:
        """Return whether a number inside the tuple found at `origin` becomes symbolic."""
        if self.quiet:
            return False
        for i, item in enumerate(value):
            place = origin.to("item", i)
            if (
                type(item) in (int, float)
                and self.number(item, place)
                or type(item) is tuple
                and self.inside(item, place)
            ):
                return True
            if type(item) is slice and self.inside_slice(item, place):
                return True
        return False

    def inside_slice(self, value: slice, origin: Origin) -> bool:
        """Return whether a number inside the slice found at `origin` becomes symbolic."""
        parts = (
            ()
            if self.quiet
            else ((getattr(value, name), origin.to("attr", name)) for name in ("start", "stop", "step"))
        )
        return any([type(part) is int and self.number(part, place) for part, place in parts])

    def dims(self, tensor: torch.Tensor, origin: Origin) -> tuple[frozenset[int], Marks]:
        """The dimensions of a tensor whose sizes become symbolic, and the user's marks."""
        if self.declared is not None:
            return self.declared.dims(tensor, origin)
        if self.named is not None and _core.of_tensor(tensor, "layout") is torch.strided:
            dynamic, unbacked = self.named.dims(tensor, origin)
            if dynamic or unbacked:
                return dynamic | unbacked | self._dims(tensor, origin), Marks({}, unbacked)
        if not _core.own_dict(tensor) or not self.marks:
            if self.quiet:
                return _NONE, NO_MARKS
            # others have no sizes or strides to ask for
            if _core.of_tensor(tensor, "layout") is not torch.strided or _core.of_tensor(tensor, "is_nested"):
                return _NONE, NO_MARKS
            strides, dims = self._strides(tensor, origin), self._dims(tensor, origin)
            unknown = self._unknown(tensor, dims)
            special = self.special.get(str(origin)) if self.special else None
            if special is not None:
                return dims, Marks({}, unknown, strides, special)
            return dims, Marks({}, unknown, strides) if strides or unknown else NO_MARKS
        marks, maybe, static = marks_of(tensor)
        if marks.special:
            self.special[str(origin)] = marks.special
        asked = self._dims(tensor, origin) | maybe
        dims = frozenset(dim for dim in (asked - static) | set(marks.dynamic) | marks.unbacked if dim < _rank(tensor))
        unbacked = marks.unbacked
        if shape_options.backed_size_oblivious:
            unbacked |= self._unknown(tensor, dims)
        return dims, replace(marks, unbacked=unbacked, strides=self._strides(tensor, origin))

    def _unknown(self, tensor: torch.Tensor, dims: frozenset[int]) -> frozenset[int]:
        """Of the dimensions that change, those of size 0 and 1, where they are to have no capture of their own."""
        if dims and config.automatic_dynamic_shapes_mark_as == "unbacked":
            return dims
        if dims and shape_options.backed_size_oblivious:  # no size is known by its value
            lone = dims
        else:
            lone = frozenset(dim for dim in dims if _core.tensor_size(tensor, dim) < 2 and not self.everything)
        self.lone = self.lone or bool(lone)
        return lone if self.general else _NONE

    def _strides(self, tensor: torch.Tensor, origin: Origin) -> frozenset[int]:
        """The dimensions whose stride was seen to change."""
        if not self.values and not self.known or type(tensor) is torch.nn.Parameter:
            return _NONE
        place = f"{origin}.stride()"
        old = self.values.get(place)
        dims = self._changing(place, tensor)
        if type(old) is tuple and len(old) == _rank(tensor):
            dims |= {
                dim for dim, (before, now) in enumerate(zip(old, _core.of_tensor(tensor, "stride"))) if before != now
            }
        return dims

    def _changing(self, place: str, tensor: torch.Tensor) -> frozenset[int]:
        """The dimensions of this tensor that are known to change; tensors of more dimensions may have been there."""
        known, rank = self.known.get(place), _rank(tensor)
        return frozenset(dim for dim in known if dim < rank) if is_a(known, frozenset) else _NONE

    def _dims(self, tensor: torch.Tensor, origin: Origin) -> frozenset[int]:
        if type(tensor) is torch.nn.Parameter:
            return _NONE
        kept = self.named.kept(origin, _rank(tensor)) if self.named is not None else _NONE
        table = origin.base if origin.step == "item" else None
        owner = table.base if table is not None and table.step == "dict" else None  # wrappers hold tensors so
        if self.everything and not is_parameter(tensor) and is_argument(owner or origin):
            return frozenset(range(_rank(tensor))) - kept
        place = str(origin)
        old = self.values.get(place)
        dims = self._changing(place, tensor)
        if type(old) is tuple and len(old) == _rank(tensor):
            dims |= {
                dim for dim, (before, now) in enumerate(zip(old, _core.of_tensor(tensor, "size"))) if before != now
            }
        return dims - kept


def _rank(tensor: torch.Tensor) -> int:
    return _core.of_tensor(tensor, "dim")


def _root(origin: Origin) -> Origin:
    while origin.base is not None:
        origin = origin.base
    return origin


def _may_be_fresh(function: types.FunctionType, origin: Origin) -> bool:
    """Return whether a function may be another at each call: made in a function, or under no name of its module."""
    if function.__code__.co_flags & CO_NESTED:
        return True
    # a method's function is its class's
    return origin.step != "func" and function.__globals__.get(function.__name__) is not function


def is_argument(origin: Origin) -> bool:
    """Return whether a place is an argument, or in a container that is one."""
    while origin.step == "item" and origin.base is not None:
        origin = origin.base
    return origin.step == "arg"


_NONE: frozenset[int] = frozenset()

#: nothing is symbolic, but for what the user marked
#: numbers of constants that no guard shows by itself: scalars of numpy, lengths of sets
UNGUARDED_NUMBERS: FeatureState[dict[Origin, Any]] = FeatureState(dict)
STATIC: Dynamism = Dynamism({})
#: nothing at all is
NOTHING = Dynamism({}, marks=False)
