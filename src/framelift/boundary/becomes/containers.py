"""Shadows: private copies of external built-in containers, same type, contents imported.

One row per container kind in `KINDS`: how to copy it, how its contents are guarded.  Python subclasses of these
types get a copy of their own class with its instance attributes imported too.
"""

from __future__ import annotations

import collections
import enum
import functools
import gc
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from ... import _core, config
from ..._core import id, is_a
from ...guards.checks import check
from ...guards.equality import indistinguishable
from ...guards.kinds import TensorKey
from ...vocabulary.class_reads import members_of, module_of, mro_of, name_of, qualname_of
from ...vocabulary.feature_state import FeatureState
from ...vocabulary.origins import Origin, const
from ...vocabulary.plain_types import AROUND, DICTIONARIES
from ...vocabulary.reasons import Interrupt
from ...vocabulary.shown_values import shown_value
from ..dynamism import UNGUARDED_NUMBERS
from ..lazy.lazy_dict import LargeDict
from ..lazy.lazy_list import LazyList
from ..records import Shadow
from ..world import World
from .leaves import holds_nan, is_constant, is_leaf
from .opaque import opaque_for

LetIn = Callable[[World, Any, Origin], Any]


@dataclass(frozen=True, slots=True)
class CopyRule:
    """How objects of one C type are copied.  `fill` may run after the empty copy is registered (cycles).

    `refill`: of a container, the method that puts in what `snapshot` gave, after `clear`.
    """

    empty: Callable[[Any], Any]
    fill: Callable[[World, Any, Any, Origin, LetIn], None]
    snapshot: Callable[[Any], Any]
    refill: str = ""


def _fill_list(world: World, copy: Any, value: Any, origin: Origin, let_in: LetIn) -> None:
    world.guard(origin, "LEN", list.__len__(value))
    for i in range(list.__len__(value)):
        list.append(copy, let_in(world, list.__getitem__(value, i), origin.to("item", i)))


def _fill_dict(world: World, copy: Any, value: Any, origin: Origin, let_in: LetIn) -> None:
    """A tensor that is a key is found by its place: nothing refers to it, and another may be there at the next call."""
    keys = tuple(dict.keys(value))
    world.guard(origin, "KEYS", tuple([TensorKey if is_a(key, torch.Tensor) else key for key in keys]))
    for i, key in enumerate(keys):
        if is_a(key, torch.Tensor):
            world.guard(origin.to("key", i), "TYPE", type(key))
            seen, place = let_in(world, key, origin.to("key", i)), origin.to("value", i)
        else:
            seen, place = key_inside(world, key, let_in), origin.to("item", key)
        dict.__setitem__(copy, seen, let_in(world, dict.__getitem__(value, key), place))


def _fill_default(world: World, copy: Any, value: Any, origin: Origin, let_in: LetIn) -> None:
    factory, place = _FACTORY(value), origin.to("attr", "default_factory")
    if _core.is_python_class(factory):
        world.classes.note_class(factory)
    made = let_in(world, factory, place) if is_watched_factory(factory) else _unwatched_factory(world, factory, place)
    _SET_FACTORY(copy, made)
    _fill_dict(world, copy, value, origin, let_in)


_FACTORY, _SET_FACTORY = (
    getattr(vars(collections.defaultdict)["default_factory"], name) for name in ("__get__", "__set__")
)

#: C callables that may be called for a missing key from C, beside the containers
_FACTORIES: tuple[Any, ...] = (None, tuple, frozenset, int, float, bool, complex, str, bytes, bytearray)


def is_watched_factory(factory: Any) -> bool:
    """Return whether what a call of it from C does is seen: Python code, or making something empty."""
    kind = type(factory)
    if kind in AROUND:
        return type(AROUND[kind](factory)) is types.FunctionType
    return (
        kind is types.FunctionType
        or any(factory is known for known in _FACTORIES)
        or any(factory is cls for cls, row in KINDS.items() if row.refill)
        or _core.is_python_class(factory)
    )


def _unwatched_factory(world: World, factory: Any, origin: Origin) -> Any:
    world.guard(origin, "IS", factory)
    return world.register(factory, opaque_for(factory), origin, mutable=False)


def _fill_set(world: World, copy: Any, value: Any, origin: Origin, let_in: LetIn) -> None:
    # Sets iterate in an order of their own history, so that order is part of the guard; nobody's own __repr__ runs.
    order = tuple(set.__iter__(value))
    UNGUARDED_NUMBERS.of(world)[origin.to("len")] = len(order)
    said = ", ".join(shown_value(key) if is_leaf(key) else f"a {qualname_of(type(key))}" for key in order)
    world.guard(origin, "CHECK", (functools.partial(_same_order, order), f"iterates as ({said})"))
    _keys_are_themselves(world, order, let_in)
    _core.copy_set(copy, value)  # where each lies, too: what is added, and what `pop` gives, goes by that
    layout = _core.layout_of_set(copy)

    def took_in() -> None:
        now = _core.layout_of_set(copy)
        if now.count(b".") != layout.count(b".") or now.split()[0] != layout.split()[0]:  # more than removals
            asked = functools.partial(_same_layout, layout)
            world.guard(origin, "CHECK", (asked, "lies in memory as it did"), "layout")

    world.ends.finishing.append(took_in)


@check
def _same_order(order: tuple[Any, ...], value: Any) -> bool:
    now = tuple(set.__iter__(value))
    return len(now) == len(order) and all(
        a is b or (is_leaf(a) and indistinguishable(a, b)) for a, b in zip(now, order)
    )


_core.connect(order_function=_same_order)  # where the elements are the same objects, it need not be called


@check
def _same_layout(layout: bytes, value: Any) -> bool:
    return _core.layout_of_set(value) == layout


KINDS: dict[type, CopyRule] = {
    list: CopyRule(lambda v: list.__new__(type(v)), _fill_list, list.copy, refill="extend"),
    dict: CopyRule(lambda v: dict.__new__(type(v)), _fill_dict, lambda c: dict(dict.items(c)), refill="update"),
    collections.defaultdict: CopyRule(
        lambda v: collections.defaultdict.__new__(type(v)),
        _fill_default,
        lambda c: dict(dict.items(c)),
        refill="update",
    ),
    set: CopyRule(lambda v: set.__new__(type(v)), _fill_set, lambda c: set(set.__iter__(c)), refill="update"),
}


def builtin_container(cls: type) -> type | None:
    """The built-in container type that `cls` is, or is a Python subclass of; None otherwise."""
    for base in mro_of(cls):
        if base in KINDS or base is tuple or base is frozenset:
            return base
        if not _core.is_python_class(base):
            return None
    return None


def is_container(cls: type) -> bool:
    """Return whether instances of `cls` are imported as shadows."""
    return builtin_container(cls) is not None


def import_container(world: World, value: Any, origin: Origin, let_in: LetIn) -> Any:
    """A shadow of `value`; registered before it is filled, so that cycles end."""
    cls = type(value)
    builtin_type = builtin_container(cls)
    assert builtin_type is not None
    owner = world.owners.of(value) if cls is dict else None
    if owner is not None:
        return _attributes_of(world, value, origin, let_in, *owner)
    if id(value) in world.parts.tested:
        _, known = world.parts.tested.pop(id(value))
        if known != origin:
            world.guard(origin, "SAME", known)
            origin = known
    world.guard(origin, "TYPE", cls)
    if cls is not builtin_type:
        world.classes.note_class(cls)
    size = builtin_type.__len__(value) if hasattr(builtin_type, "__len__") else 0
    # The table of modules grows at any moment, also while capturing.
    if cls is dict and (
        size > config.large_container
        or value is sys.modules
        or not _has_unsafe_keys(dict, value)
        and world.dynamism.by_key(value, origin)
    ):
        for noted, note in UNREAD.items():
            for one in dict.values(value):
                if is_a(one, noted):
                    note(world, one)
        whole = functools.partial(_shadow_behind, world, value, origin, let_in)
        changes = world.dynamism.keys_change(origin)
        return world.register(value, LargeDict.of(world, value, origin, let_in, whole, _changes=changes), origin)
    unsafe = _has_unsafe_keys(builtin_type, value)
    if cls is list and (size > config.large_container or world.dynamism.by_length(size, origin)):
        whole = functools.partial(_shadow_behind, world, value, origin, let_in)
        return world.register(value, LazyList.of(world, value, origin, let_in, whole, _tail=[]), origin)
    if size > world.largest or unsafe:
        reason = "too-large" if size > world.largest else "opaque-object"
        detail = f"a {name_of(cls)} of {size} entries" if reason == "too-large" else f"{name_of(cls)} keyed by objects"
        return world.register(value, opaque_for(value, reason, detail), origin)
    if cls is not builtin_type and (
        builtin_type is frozenset
        and _core.own_dict(value) is not None
        or any(map(_has_slots, mro_of(cls)[: mro_of(cls).index(builtin_type)]))
    ):
        # a placeholder could be raised natively, and that would be another exception
        if issubclass(cls, BaseException):
            raise Interrupt("opaque-object", f"{module_of(cls)}.{qualname_of(cls)}, an exception with slots")
        return world.register(
            value,
            opaque_for(value, "opaque-object", f"{qualname_of(cls)}, a {builtin_type.__name__} with attributes"),
            origin,
        )
    if builtin_type is tuple:
        return _import_tuple(world, value, origin, let_in)
    if builtin_type is frozenset:
        world.guard(origin, "IS", value)
        _keys_are_themselves(world, frozenset.__iter__(value), let_in)
        return world.register(value, value, origin, mutable=False)
    kind = KINDS[builtin_type]
    copy = kind.empty(value)
    world.parts.table_opened(value)
    world.register(value, copy, origin)
    kind.fill(world, copy, value, origin, let_in)
    import_attributes(world, copy, value, origin, let_in)
    world.add_shadow(Shadow(copy, value, origin, kind.snapshot(copy)))
    return copy


def _attributes_of(world: World, value: dict[str, Any], origin: Origin, let_in: LetIn, owner: Any, at: Origin) -> Any:
    """A dictionary that is an object's: what is written there are the object's attributes."""
    if let_in(world, owner, at) is not owner:
        raise Interrupt("effect-object", f"the __dict__ of a {qualname_of(type(owner))}")
    world.view_of(world, owner)
    return let_in(world, value, origin)


def _shadow_behind(world: World, value: Any, origin: Origin, let_in: LetIn) -> Any:
    """The shadow of a container that a view stands for: what the view does is done to it."""
    kind = KINDS[type(value)]
    copy = kind.empty(value)
    world.parts.table_opened(value)
    kind.fill(world, copy, value, origin, let_in)
    world.add_shadow(Shadow(copy, value, origin, kind.snapshot(copy)))
    return copy


def _has_unsafe_keys(builtin_type: type, value: Any) -> bool:
    """Keys compare and hash natively: only leaves, and what is distinguished by identity, can be trusted."""
    if issubclass(builtin_type, dict):
        return not all(_is_plain_key(key) or _is_object_key(key) for key in builtin_type.__iter__(value))
    return builtin_type in (set, frozenset) and not all(
        (is_leaf(key) and not holds_nan(key) or _is_plain_constant(key)) or _is_handle_key(key)
        for key in builtin_type.__iter__(value)
    )


def _is_plain_constant(key: Any) -> bool:
    """A function, class or module that is hashed and compared by identity: a metaclass may change that."""
    if type(key) is types.BuiltinFunctionType and not is_a(key.__self__, (types.ModuleType, type, type(None))):
        return False  # bound to an object, of which captured code may see a copy
    return is_constant(key) and (not is_a(key, type) or _core.is_plain_class(key))


def _is_handle_key(key: Any) -> bool:
    """An object found by its identity that is itself inside: where it lies in a set is the same there."""
    return all(base is object or _core.is_python_class(base) for base in mro_of(type(key))) and _is_object_key(key)


#: by type, what is noted of the values of a dictionary that is read key by key
UNREAD: dict[type, Callable[[World, Any], None]] = {}


def _is_plain_key(key: Any) -> bool:
    """A key that is itself inside and outside."""
    if is_leaf(key):
        return not holds_nan(key)
    return _is_plain_constant(key) or type(key) is tuple and all(map(_is_plain_key, key))


def _is_object_key(key: Any) -> bool:
    """A key that is found by its identity, which the guard on the keys checks: so it is its own origin."""
    if not _core.is_plain_class(type(key)):
        return False
    # past a metaclass
    hashing, comparing = (_core.type_lookup(type(key), name, None) for name in ("__hash__", "__eq__"))
    if is_a(key, torch.Tensor):
        return hashing is torch.Tensor.__hash__ and comparing is torch.Tensor.__eq__
    if is_a(key, enum.Enum):  # exists once; its hash is its name's
        return any(hashing is cls.__hash__ for cls in (enum.Enum, object, str, int)) and any(
            comparing is cls.__eq__ for cls in (object, str, int)
        )
    return hashing is object.__hash__ and comparing is object.__eq__


def key_inside(world: World, key: Any, let_in: LetIn) -> Any:
    if not _is_plain_key(key):
        return let_in(world, key, const(key))
    world.functions.meet_key(key)
    return key


def _keys_are_themselves(world: World, keys: Iterable[Any], let_in: LetIn) -> None:
    for key in keys:
        if key_inside(world, key, let_in) is not key:
            raise Interrupt("opaque-object", f"a set with a {qualname_of(type(key))}")


def _has_slots(cls: type) -> bool:
    return any(type(entry) is types.MemberDescriptorType for entry in members_of(cls).values())


def _import_tuple(world: World, value: Any, origin: Origin, let_in: LetIn) -> Any:
    world.guard(origin, "LEN", tuple.__len__(value))
    items = [let_in(world, item, origin.to("item", i)) for i, item in enumerate(tuple.__iter__(value))]
    copy = tuple.__new__(type(value), items)
    has_attributes = _core.own_dict(value) is not None
    world.register(value, copy, origin, mutable=has_attributes)
    if has_attributes:
        import_attributes(world, copy, value, origin, let_in)
        world.add_shadow(Shadow(copy, value, origin, ()))
    return copy


#: instance attributes of shadows by the ids of these, right after import
_ATTRIBUTES_BEFORE: FeatureState[dict[int, dict[str, Any]]] = FeatureState(dict)


def import_attributes(world: World, copy: Any, value: Any, origin: Origin, let_in: LetIn) -> None:
    """The instance attributes of what is seen as a copy; those of its shadow are pending writes."""
    own = _core.own_dict(value)
    if not own:
        if own is not None:
            world.guard(origin.to("dict"), "KEYS", ())
        return
    world.guard(origin.to("dict"), "KEYS", tuple(own))
    inside = _core.own_dict(copy)
    for name, item in own.items():
        inside[name] = let_in(world, item, origin.to("dict").to("item", name))
    _ATTRIBUTES_BEFORE.of(world)[id(copy)] = dict(inside)


def note_attribute_changes(world: World) -> None:
    """Instance attributes of container subclasses changed on the copy: pending writes like any other."""
    known = _ATTRIBUTES_BEFORE.of(world)
    for shadow in world.shadows.values():
        before = known.get(id(shadow.copy))
        now = _core.own_dict(shadow.copy)
        if now is None:
            continue
        before = before or {}
        place = {name: i for i, name in enumerate(before)}
        staying: list[str] = []  # names that keep their place; the others are deleted and set again, in order
        for name in now:
            if place.get(name, -1) <= (place[staying[-1]] if staying else -1):
                break
            staying.append(name)
        for name in before:
            if name not in staying:
                world.write("deldict", shadow.copy, name, None)
        for name, value in now.items():
            if name not in staying or before[name] is not value:
                world.write("setdict", shadow.copy, name, value)  # whatever a descriptor of the class would make of it


# ---- External views of dictionaries and read-only proxies: the same view of what is seen of the dictionar ----


_MAKERS: dict[type, Callable[[Any], Any]] = {
    **{type(view(kind())): view for kind in reversed(DICTIONARIES) for view in (kind.keys, kind.values, kind.items)},
    types.MappingProxyType: types.MappingProxyType,
}
MAPPING_VIEWS: tuple[type, ...] = tuple(_MAKERS)


def behind(view: Any) -> Any:
    """The dictionary that a view or proxy looks at."""
    (table,) = gc.get_referents(view)
    return table


def import_view(world: World, value: Any, origin: Origin, let_in: Callable[[World, Any, Origin], Any]) -> Any:
    """Import a view; None where captured code does not see the dictionary as itself."""
    table = behind(value)
    if type(table) not in DICTIONARIES or "__doc__" in table:  # a class's or module's own: read by attributes
        return None
    world.guard(origin, "TYPE", type(value))
    inside = let_in(world, table, origin.to("ask", behind))
    if type(inside) is LargeDict:  # opened, it reads and writes what the view looks at
        inside = inside.plain()
    if type(inside) is not type(table):
        return None
    return world.register(value, _MAKERS[type(value)](inside), origin, mutable=False)
