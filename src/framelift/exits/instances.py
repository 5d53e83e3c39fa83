"""Recipes of instances: Python classes, Python subclasses of built-in types, exceptions.

No `__init__` and no overridden method of the class runs: the object is made by its built-in base's `__new__`, its
contents are put in by the base's own methods, its attributes straight into `__dict__` and slots.
"""

from __future__ import annotations

import _thread
import builtins
import collections
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import _core
from .._core import is_a
from ..boundary.becomes.copied_objects import CHAIN, TRACE, exception_fields
from ..vocabulary.class_reads import bases_of, members_of, name_of
from ..vocabulary.own_code import FRAMELIFT
from ..vocabulary.reasons import Interrupt
from .containers import display, pairs
from .hashing import check_keys, insertion_order
from .recipe import Node, Recipe, Text, Walk, base, exact, type_name
from .typefacts import InstanceLayout, is_attribute_name, is_shared, layout_of, lookup, sets_plainly

Contents = tuple[tuple[Text, ...], tuple[Node, ...]]


@dataclass(frozen=True, slots=True)
class Base:
    """A built-in base: what is passed to `__new__` after the class, and how contents are put in afterwards."""

    arguments: Callable[[Walk, Any], Text] = lambda walk, obj: ()
    contents: Callable[[Walk, Node], Contents] = lambda walk, node: ((), ())
    #: given the class, its dictionary and the statements of `contents`: one call that makes the object with both
    at_once: Callable[[Walk, str | Node, str | Node, tuple[Text, ...]], Text] | None = None


def statement(walk: Walk, base: type, method: str, node: Node, *arguments: str | Node) -> Text:
    return (walk.constant(base, name_of(base)), f".{method}(", node, *(p for a in arguments for p in (", ", a)), ")")


def extend(base: type[Any], method: str) -> Callable[[Walk, Node], Contents]:
    def contents(walk: Walk, node: Node) -> Contents:
        items = tuple(base.__iter__(node.obj))
        complete_first: tuple[Node, ...] = ()
        if base is set:
            items = insertion_order(items, type(node.obj))
            complete_first = check_keys(walk, iter(items), set)
        shown = display(walk, items)
        name = walk.constant(base, name_of(base))
        return ((((name, f".{method}(", node, ", ", *shown, ")"),) if items else ()), complete_first)

    return contents


def mapping(base: type[Any], update: bool) -> Callable[[Walk, Node], Contents]:
    def contents(walk: Walk, node: Node) -> Contents:
        items = tuple(base.items(node.obj))
        complete_first = check_keys(walk, (k for k, _ in items), type(node.obj))
        if update and items:
            name = walk.constant(base, name_of(base))
            return ((name, ".update(", node, ", ", *pairs(walk, items), ")"),), complete_first
        part = walk.part
        return tuple(statement(walk, base, "__setitem__", node, part(k), part(v)) for k, v in items), complete_first

    return contents


def _default_dict(walk: Walk, node: Node) -> Contents:
    kind = collections.defaultdict
    fills, complete_first = mapping(dict, True)(walk, node)
    factory = walk.part(vars(kind)["default_factory"].__get__(node.obj))
    return (
        (walk.constant(kind, name_of(kind)), ".default_factory.__set__(", node, ", ", factory, ")"),
        *fills,
    ), complete_first


def _payload(kind: type) -> Callable[[Walk, Any], Text]:
    """Immutable bases hold a plain value of the base itself."""
    readers: dict[type, Any] = {
        int: int.__int__,
        float: float.__float__,
        str: str.__str__,
        bytes: bytes.__bytes__,
        complex: complex.__complex__,
    }
    read = readers[kind]
    return lambda walk, obj: (walk.part(read(obj)),)


def _frozenset(walk: Walk, obj: Any) -> Text:
    items = insertion_order(tuple(frozenset.__iter__(obj)), type(obj))
    if check_keys(walk, iter(items), type(obj)):
        raise Interrupt("result-object", type_name(type(obj)))
    return display(walk, items)


def _exception(fields: dict[str, Any]) -> Base:
    def contents(walk: Walk, node: Node) -> Contents:
        obj = node.obj
        slots = vars(BaseException)
        arguments = slots["args"].__get__(obj)
        fills = [_set_slot(walk, node, "args", slots["args"], arguments)] if arguments else []
        fills += [
            _set_slot(walk, node, name, slot, value)
            for name, slot in (fields | CHAIN).items()
            if (value := slot.__get__(obj)) is not None
        ]
        suppress = slots["__suppress_context__"]
        if suppress.__get__(obj) != (slots["__cause__"].__get__(obj) is not None):
            fills.append(_set_slot(walk, node, "__suppress_context__", suppress, suppress.__get__(obj)))
        if is_of_outside(walk, trace := TRACE.__get__(obj)):  # that of another exception, whole
            fills.append(_set_slot(walk, node, "__traceback__", TRACE, trace))
        return tuple(fills), ()

    return Base(contents=contents)


def is_of_outside(walk: Walk, trace: types.TracebackType | None) -> bool:
    """Return whether a traceback is external.  Frames of captured code leave none; both cannot be combined."""
    first = trace
    while trace is not None:
        if walk.scene.origin_of(trace) is not None:
            if trace is first:
                return True
            raise Interrupt("result-object", "traceback that leads outside")
        trace = trace.tb_next
    return False


BASES: dict[type, Base] = {
    object: Base(),
    list: Base(contents=extend(list, "extend")),
    set: Base(contents=extend(set, "update")),
    dict: Base(contents=mapping(dict, True)),
    collections.defaultdict: Base(contents=_default_dict),
    tuple: Base(arguments=lambda walk, obj: display(walk, tuple.__iter__(obj))),
    frozenset: Base(arguments=_frozenset),
    **{kind: Base(arguments=_payload(kind)) for kind in (int, float, complex, str, bytes)},
}


def _group(walk: Walk, obj: Any) -> Text:
    return (
        walk.part(BaseExceptionGroup.message.__get__(obj)),
        ", ",
        walk.part(BaseExceptionGroup.exceptions.__get__(obj)),
    )


def _add_exceptions() -> None:
    for kind in vars(builtins).values():
        if is_a(kind, type) and issubclass(kind, BaseException):
            fields = exception_fields(kind)
            if fields is not None:
                BASES[kind] = _exception(fields)
    for group in (BaseExceptionGroup, ExceptionGroup):
        BASES[group] = Base(_group, _exception({}).contents)


_add_exceptions()


def set_raw(walk: Walk, target: str | Node, cls: type, name: str, value: str | Node) -> Text:
    """The statement that sets an attribute as object.__setattr__ does, in its plainest form."""
    if sets_plainly(cls) and is_attribute_name(name):
        return (target, f".{name} = ", value)
    return (walk.constant(object, "object"), ".__setattr__(", target, f", {name!r}, ", value, ")")


def _set_slot(walk: Walk, node: Node, name: str, slot: Any, value: Any) -> Text:
    """The statement that sets what a descriptor of a class stands for, also where a subclass hides its name."""
    part = walk.part(value)
    if lookup(type(node.obj), name) is slot:
        return set_raw(walk, node, type(node.obj), name, part)
    return (walk.constant(slot, f"{slot.__objclass__.__name__}_{name}"), ".__set__(", node, ", ", part, ")")


@base(*BASES)
def instance(walk: Walk, node: Node) -> Recipe:
    """The recipe of an instance of a Python class, of an exception, or of a Python subclass of a built-in type."""
    obj, cls = node.obj, type(node.obj)
    name = walk.constant(cls, name_of(cls))
    if "n_sequence_fields" in members_of(cls):
        return _struct_sequence(name, walk, obj)
    layout = walk.layouts.get(cls) or layout_of(cls, BASES)
    if layout is None or _is_own(cls):
        raise Interrupt("result-object", type_name(cls))
    walk.layouts[cls] = layout
    kind = BASES[layout.base]
    arguments = kind.arguments(walk, obj)
    shell = (
        walk.constant(layout.base, name_of(layout.base)),
        ".__new__(",
        name,
        *((", ",) if arguments else ()),
        *arguments,
        ")",
    )
    stores = _stores(walk, node, cls, layout)
    if stores is not None:
        return Recipe(None, (walk.constant(_core.new, "new"), "(", name, ")"), stores)
    items, complete_first = kind.contents(walk, node)
    fills, parts = _attributes(walk, node, cls, layout)
    if not items and not fills and not parts:
        return Recipe(make=shell)
    return Recipe(
        _at_once(walk, layout, name, items, fills, parts),
        shell,
        items + fills,
        parts=parts,
        complete_first=complete_first,
    )


#: CPython keeps so many attributes of an instance without a dictionary
_WITHOUT_DICTIONARY = 30


def _stores(walk: Walk, node: Node, cls: type, layout: InstanceLayout) -> tuple[Text, ...] | None:
    """One store per attribute, where that means the same and nobody else holds the dictionary."""
    if layout.base is not object or layout.dictionary is None or layout.slots or not sets_plainly(cls):
        return None
    found = layout.dictionary.__get__(node.obj)
    if type(found) is not dict or not 0 < len(found) <= _WITHOUT_DICTIONARY or is_shared(found):
        return None
    if not all(type(name) is str and is_attribute_name(name) for name in found) or not walk.scene.stores_plainly(
        cls, found
    ):
        return None
    return tuple((node, f".{name} = ", walk.part(value)) for name, value in found.items())


def _at_once(
    walk: Walk,
    layout: InstanceLayout,
    name: str | Node,
    items: tuple[Text, ...],
    fills: tuple[Text, ...],
    parts: tuple[Node, ...],
) -> Text | None:
    """One native call that makes the object with its contents, where one knows how; the statements say the same."""
    if parts or len(fills) > 1 or (fills and not layout.replaceable) or layout.slots:
        return None
    dictionary = _written(fills[0]) if fills else "None"
    if layout.base is object and fills:
        return (walk.constant(_core.instance, "instance"), "(", name, ", ", dictionary, ")")
    at_once = BASES[layout.base].at_once
    return at_once(walk, name, dictionary, items) if at_once is not None and items else None


def _written(statement: Text) -> str | Node:
    """The value in a statement of `set_raw`."""
    return statement[-1] if statement[-1] != ")" else statement[-2]


def _is_own(cls: type) -> bool:
    """Return whether a class is framelift's: its instances belong to the rehearsal and must not outlive it."""
    module = sys.modules.get(str(members_of(cls).get("__module__")))
    if members_of(cls).get("__module__") == "framelift.surface.decorators":  # programs make them
        return False
    return str(getattr(module, "__file__", None)).startswith(FRAMELIFT)


def _attributes(walk: Walk, node: Node, cls: type, layout: InstanceLayout) -> tuple[tuple[Text, ...], tuple[Node, ...]]:
    fills: list[Text] = []
    parts: tuple[Node, ...] = ()
    if layout.dictionary is not None:
        found = layout.dictionary.__get__(node.obj)
        if not found and not is_shared(found):
            pass
        elif layout.replaceable:
            fills.append(set_raw(walk, node, cls, "__dict__", walk.part(found)))
        else:
            parts = (_inner_dictionary(walk, node, cls, layout, found),)
    for name, slot in layout.slots:
        try:
            value = slot.__get__(node.obj)
        except AttributeError:
            continue
        fills.append(_set_slot(walk, node, name, slot, value))
    return tuple(fills), parts


def _inner_dictionary(walk: Walk, node: Node, cls: type, layout: InstanceLayout, found: dict[Any, Any]) -> Node:
    if lookup(cls, "__getattribute__") in PLAIN_READS:
        read: Text = (node, ".__dict__")
    else:
        read = (walk.constant(layout.dictionary, "dictionary_of"), ".__get__(", node, ")")
    inner = walk.interior(found, lambda inner: _filled_in_place(walk, inner, read))
    if inner is None:
        raise Interrupt("result-object", type_name(cls))
    return inner


def _filled_in_place(walk: Walk, inner: Node, read: Text) -> Recipe:
    complete_first = check_keys(walk, iter(inner.obj), dict)
    fills = ((inner, ".update(", *pairs(walk, inner.obj.items()), ")"),) if inner.obj else ()
    return Recipe(None, read, fills, interior=True, complete_first=complete_first)


#: the built-in types' own __getattribute__, all the generic one
PLAIN_READS = {lookup(kind, "__getattribute__") for kind in (*BASES, types.ModuleType, _thread._local)}


def _struct_sequence(name: str | Node, walk: Walk, obj: Any) -> Recipe:
    cls = type(obj)
    if cls.n_fields != cls.n_sequence_fields or tuple not in bases_of(cls):
        raise Interrupt("result-object", type_name(cls))
    return Recipe(make=(name, "(", *display(walk, tuple.__iter__(obj)), ")"))


@exact(object)
def _object(walk: Walk, _node: Node) -> Recipe:
    return Recipe(make=(walk.constant(object, "object"), "()"))


@exact(types.SimpleNamespace)
def _namespace(walk: Walk, node: Node) -> Recipe:
    inner = walk.interior(vars(node.obj), lambda inner: _filled_in_place(walk, inner, (node, ".__dict__")))
    assert inner is not None  # the type does not let it be replaced
    return Recipe(None, (walk.constant(types.SimpleNamespace, "SimpleNamespace"), "()"), parts=(inner,))
