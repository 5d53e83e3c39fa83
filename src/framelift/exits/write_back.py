"""Shadows written back: the statements that turn the original container into what its shadow became.

Compared by identity with the snapshot taken at the import, so nothing of the user runs, and a shadow whose
elements only changed inside is left alone.  Statements use the built-in base's own methods where the class is a
subclass.
"""

from __future__ import annotations

import collections
import operator
import threading
import types
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from .. import _core
from ..boundary.becomes.copied_objects import is_held
from ..vocabulary.class_reads import members_of, module_of, mro_of, name_of
from ..vocabulary.reasons import Interrupt
from .containers import display
from .hashing import check_keys, has_fixed_order
from .instances import is_of_outside
from .recipe import Text, Walk, type_name
from .scene import Shadow

Method = Callable[..., Text]


def difference(walk: Walk, shadow: Shadow) -> list[Text]:
    """The statements that carry a shadow's changes to its original; none when nothing changed."""
    cls = type(shadow.copy)
    for kind in (cls,) if cls in WRITERS else mro_of(cls):
        if kind in WRITERS:
            return WRITERS[kind](walk, shadow, kind)
    raise Interrupt("effect-object", type_name(type(shadow.copy)))


def methods(walk: Walk, shadow: Shadow, kind: type) -> Method:
    """`call("append", x)` gives `e0.append(x)`, or `list.append(e0, x)` for a subclass."""
    target = walk.part(shadow.copy)
    if type(shadow.copy) is kind:
        return lambda method, *arguments: (target, f".{method}(", *_arguments(arguments), ")")
    name = walk.constant(kind, name_of(kind))
    return lambda method, *arguments: (name, f".{method}(", target, *(p for a in arguments for p in (", ", *a)), ")")


def _arguments(arguments: Iterable[Text]) -> list[Any]:
    return [part for index, text in enumerate(arguments) for part in ((", ", *text) if index else text)]


def same(one: Collection[Any], other: Collection[Any]) -> bool:
    return len(one) == len(other) and (not one or all(map(operator.is_, one, other)))


def _common(one: Sequence[Any], other: Sequence[Any]) -> tuple[int, int]:
    """The lengths of the common beginning and of the common end after it."""
    shorter = min(len(one), len(other))
    head = next((i for i in range(shorter) if one[i] is not other[i]), shorter)
    rest = shorter - head
    tail = next((i for i in range(rest) if one[-1 - i] is not other[-1 - i]), rest)
    return head, tail


def _list(walk: Walk, shadow: Shadow, kind: type) -> list[Text]:
    before, after = shadow.before, list(list.__iter__(shadow.copy))
    if same(before, after):
        return []
    call = methods(walk, shadow, kind)
    plain = type(shadow.copy) is list
    target = walk.part(shadow.copy)
    if not after:
        return [call("clear")]
    head, tail = _common(before, after)
    end = len(before) - tail
    new = after[head : len(after) - tail]
    if head == len(before):
        return [call("append", (walk.part(new[0]),)) if len(new) == 1 else call("extend", display(walk, new))]
    if len(new) == end - head == 1:
        value = walk.part(new[0])
        return [(target, f"[{head}] = ", value) if plain else call("__setitem__", (str(head),), (value,))]
    place = f"{head}:{end}"
    if not new:
        return [("del ", target, f"[{place}]") if plain else call("__delitem__", (_slice(walk, head, end),))]
    shown = display(walk, new, "[", "]")
    return [(target, f"[{place}] = ", *shown) if plain else call("__setitem__", (_slice(walk, head, end),), shown)]


def _slice(walk: Walk, start: int, stop: int) -> str:
    return f"{walk.constant(slice, 'slice')}({start}, {stop})"


def table_changes(walk: Walk, shadow: Shadow, kind: type[Any]) -> list[Text]:
    # Never through a new dictionary: that would ask the keys for their hash.
    old, new = shadow.before, shadow.copy
    out: list[Text] = []
    if not (same(old, kind.keys(new)) and same(old.values(), kind.values(new))):
        before, after = list(old.items()), list(kind.items(new))
        check_keys(walk, iter([key for key, _ in before + after]), type(shadow.copy), "effect-object")
        out = _entry_changes(walk, shadow, kind, before, after)
    if kind is collections.defaultdict:
        factory = vars(kind)["default_factory"].__get__
        if factory(new) is not factory(shadow.original):
            value = walk.part(factory(new))
            name = walk.constant(kind, name_of(kind))
            out.append((name, ".default_factory.__set__(", walk.part(new), ", ", value, ")"))
    return out


Pairs = list[tuple[Any, Any]]


def _entry_changes(walk: Walk, shadow: Shadow, kind: type, before: Pairs, after: Pairs) -> list[Text]:
    target, call = walk.part(shadow.copy), methods(walk, shadow, kind)
    plain = type(shadow.copy) is kind
    if not after:
        return [call("clear")]
    staying = _staying(before, after)
    out: list[Text] = []
    for key, _ in before:
        if id(key) not in staying:
            part = walk.part(key)
            out.append(("del ", target, "[", part, "]") if plain else call("__delitem__", (part,)))
    for key, value in after:
        if id(key) not in staying or staying[id(key)] is not value:
            parts = walk.part(key), walk.part(value)
            out.append(
                (target, "[", parts[0], "] = ", parts[1]) if plain else call("__setitem__", *((p,) for p in parts))
            )
    return out


def _staying(before: Pairs, after: Pairs) -> dict[int, Any]:
    """Keys that keep their place (by id, with old values); the others are deleted and inserted again, in order."""
    old = {id(key): index for index, (key, _) in enumerate(before)}
    staying: dict[int, Any] = {}
    last = -1
    for key, _ in after:
        index = old.get(id(key), -1)
        if index <= last:
            break  # new, or moved: all that follow come after it in order of insertion
        staying[id(key)] = before[index][1]
        last = index
    return staying


def _set(walk: Walk, shadow: Shadow, kind: type) -> list[Text]:
    """What is gone is removed and what is new is added, where the original then iterates as the shadow does.  Where the
    order follows from addresses, none is promised; where captured code popped, the history of the set decides.
    """
    items, start = tuple(set.__iter__(shadow.copy)), tuple(set.__iter__(shadow.original))
    before, after = {id(x): x for x in shadow.before}, {id(x): x for x in items}
    fixed = has_fixed_order(items)
    # an element added and removed again may leave the others in a new order
    popped = _core.layout_of_set(shadow.copy).split()[0] != _core.layout_of_set(shadow.original).split()[0]
    if before.keys() == after.keys() and (not fixed or start == items) and not popped:
        return []
    check_keys(walk, iter((*before.values(), *items)), type(shadow.copy), "effect-object")
    call, trial = methods(walk, shadow, kind), set[Any]()
    steps = [("remove", x) for key, x in before.items() if key not in after]
    steps += [("add", x) for key, x in after.items() if key not in before]
    _core.copy_set(trial, shadow.original)
    for name, x in steps if fixed else ():
        getattr(trial, name)(x)
    if popped or fixed and tuple(trial) != items:
        raise Interrupt("effect-object", f"{type_name(type(shadow.copy))} in an order that depends on its history")
    return [call(name, (walk.part(x),)) for name, x in steps] if after else [call("clear")]


def _exception(walk: Walk, shadow: Shadow, kind: type) -> list[Text]:
    """Arguments, fields and chain.  No traceback of captured code is carried over: it has no frames."""
    out: list[Text] = []
    for name, before in shadow.before.items():
        slot = next(
            members_of(base)[name]
            for base in mro_of(type(shadow.copy))
            if module_of(base) == "builtins" and name in members_of(base)
        )
        value = slot.__get__(shadow.copy)
        if value is not before:
            if name == "__traceback__" and value is not None and not is_of_outside(walk, value):
                if before is not None:
                    raise Interrupt("effect-object", f"{name_of(type(shadow.copy))}, which was raised again")
                continue
            target = walk.constant(slot, f"exception_{name.strip('_')}")
            out.append((target, ".__set__(", walk.part(shadow.copy), ", ", walk.part(value), ")"))
    return out


def _lock(walk: Walk, shadow: Shadow, kind: type) -> list[Text]:
    if is_held(shadow.copy) != shadow.before:
        raise Interrupt("effect-object", "a lock that is held on leaving")
    return []


def _unchanged(_walk: Walk, _shadow: Shadow, _kind: type) -> list[Text]:
    return []


WRITERS: dict[type, Callable[[Walk, Shadow, type], list[Text]]] = {
    list: _list,
    set: _set,
    dict: table_changes,
    collections.defaultdict: table_changes,
    tuple: _unchanged,
    frozenset: _unchanged,
    types.SimpleNamespace: _unchanged,
    BaseException: _exception,
    type(threading.Lock()): _lock,
    type(threading.RLock()): _lock,
}
