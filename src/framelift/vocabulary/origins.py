"""Origins: how to reach an external value again.  Frozen paths, data only; nothing here looks at the world on its own.

An origin is a chain of steps from a root (`arg` or `const`) to the value.  `STEPS` is the one list of steps: for each
its plain Python meaning and how it prints.  The native guard program implements the same list (csrc/guard_steps.cpp),
and a test holds the two together.
"""

from __future__ import annotations

import _thread
import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from .. import _core
from .._core import is_a
from .class_reads import built_in_member, members_of, module_of, mro_of, name_of, qualname_of
from .shown_values import shown_value


class Missing(Exception):
    """The path leads nowhere: a key, attribute or cell content is not there."""


@dataclass(frozen=True, slots=True)
class OriginStep:
    """One kind of step: `fetch(base value, key)` is its meaning, `show(base text, key)` its form in messages."""

    fetch: Callable[[Any, Any], Any]
    show: Callable[[str, Any], str]


class Origin(_core.Path):
    """A frozen path.  `base` is None for roots.  Two are equal where they lead from equal roots by equal steps; keys
    keep their classes, and what a `const` begins at is compared by identity.

    >>> str(arg(0, "self").to("dict").to("item", "scale"))
    "self.__dict__['scale']"
    """

    __slots__ = ()

    def __str__(self) -> str:
        text = self.usual_text()
        if text is None:  # made once: a capture asks for thousands that begin alike
            base = self.base
            if base is None:
                text = _ROOTS[self.step](self.key)
            else:
                text = step_text(self.step, base._text or str(base), self.key)
            self._text = text
        return text

    def __repr__(self) -> str:
        return f"<origin {self}>"


def step_text(step: str, base: str, key: Any) -> str:
    """One step as messages show it."""
    if type(key) is str or key is None:
        return STEPS[step].show(base, key)
    return STEPS[step].show(
        base, _NamedKey(key) if module_of(type(key)) != "builtins" and type(type(key)) is not enum.EnumMeta else key
    )


class _NamedKey:
    """An object that is a dictionary's key, by its class."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __repr__(self) -> str:
        return f"<{qualname_of(type(self.obj))}>"


def _name(obj: Any) -> str:
    if type(obj) is dict:  # a module's globals
        return f"globals of {obj.get('__name__', '?')}"
    read = type.__getattribute__ if is_a(obj, type) else object.__getattribute__  # past the program's own
    for attribute in ("__qualname__", "__name__"):
        try:
            name = read(obj, attribute)
        except AttributeError:
            continue
        if is_a(name, str) and name:
            return name
    return f"<{name_of(type(obj))}>"


#: how roots are shown
_ROOTS: dict[str, Callable[[Any], str]] = {"const": _name, "arg": lambda key: str(key[1])}


def arg(index: int, name: str) -> Origin:
    """The root frame's local number `index`, after arguments were bound."""
    return Origin(None, "arg", (index, name))


#: an object whose identity is guarded where it was met: a function, class or module, or a globals dictionary
const: Callable[[Any], Origin] = functools.partial(Origin, None, "const")


def fetch(origin: Origin, arguments: tuple[Any, ...]) -> Any:
    """The value an origin leads to, by the plain Python meaning of its steps.  Raises `Missing`."""
    if origin.step == "arg":
        return arguments[origin.key[0]]
    if origin.step == "const":
        return origin.key
    assert origin.base is not None
    return STEPS[origin.step].fetch(fetch(origin.base, arguments), origin.key)


def _item(base: Any, key: Any) -> Any:
    try:
        if is_a(base, dict):
            return dict.__getitem__(base, key)
        if is_a(base, list):
            return list.__getitem__(base, key)
        if is_a(base, tuple):
            return tuple.__getitem__(base, key)
        item = built_in_member(type(base), "__getitem__")
        return base[key] if item is None else item(base, key)
    except (KeyError, IndexError):
        raise Missing(key) from None


def _dict(base: Any, _key: Any) -> Any:
    if is_a(base, _thread._local):
        return _thread._local.__getattribute__(base, "__dict__")  # this thread's
    found = None if is_a(base, type) else _core.own_dict(base)
    if found is None:
        found = getattr(base, "__dict__", None)
    if found is None:
        raise Missing("__dict__")
    return found


def _lookup(base: type, name: str) -> Any:
    for cls in mro_of(base):
        found = members_of(cls)
        if name in found:
            return found[name]
    raise Missing(name)


def _slot(base: Any, name: str) -> Any:
    try:
        return _lookup(type(base), name).__get__(base)
    except AttributeError:
        raise Missing(name) from None


def _contents(base: Any, _key: Any) -> Any:
    try:
        return base.cell_contents
    except ValueError:
        raise Missing("cell_contents") from None


def _entry(table_of: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def read(base: Any, key: Any) -> Any:
        try:
            return table_of(base)[key]
        except (TypeError, KeyError, IndexError):
            raise Missing(key) from None

    return read


def _attr(base: Any, name: str) -> Any:
    try:
        return _core.tensor_attribute(base, name)
    except AttributeError:
        raise Missing(name) from None


def _ask(base: Any, function: Callable[[Any], Any]) -> Any:
    try:
        return function(base)
    except Exception as error:
        raise Missing(function.__name__) from error


def _length(base: Any, _key: Any) -> int:
    if not is_a(base, (list, dict)):
        raise Missing("len")
    return list.__len__(base) if is_a(base, list) else dict.__len__(base)


def _plain(attribute: str) -> OriginStep:
    return OriginStep(lambda base, _key: getattr(base, attribute), lambda base, _key: f"{base}.{attribute}")


STEPS: dict[str, OriginStep] = {
    "dict": OriginStep(_dict, lambda base, _key: f"{base}.__dict__"),
    "item": OriginStep(_item, lambda base, key: f"{base}[{shown_value(key)}]"),
    "key": OriginStep(_entry(lambda base: list(dict.keys(base))), lambda base, place: f"list({base})[{place}]"),
    "value": OriginStep(_entry(lambda base: list(dict.values(base))), lambda base, at: f"list({base}.values())[{at}]"),
    "slot": OriginStep(_slot, lambda base, key: f"{base}.{key}"),  # a member descriptor of a class with __slots__
    "len": OriginStep(_length, lambda base, _key: f"len({base})"),  # of a list or dictionary
    "type": OriginStep(lambda base, _key: type(base), lambda base, _key: f"type({base})"),
    "lookup": OriginStep(_lookup, lambda base, key: f"{base}.{key}"),  # base is a class: what its MRO holds, unbound
    "globals": _plain("__globals__"),
    "builtins": _plain("__builtins__"),
    "default": OriginStep(_entry(attrgetter("__defaults__")), lambda base, key: f"{base}.__defaults__[{key}]"),
    "kwdefault": OriginStep(
        _entry(attrgetter("__kwdefaults__")), lambda base, key: f"{base}.__kwdefaults__[{shown_value(key)}]"
    ),
    "cell": OriginStep(_entry(attrgetter("__closure__")), lambda base, key: f"{base}.__closure__[{key}]"),
    "contents": OriginStep(_contents, lambda base, _key: f"{base}.cell_contents"),
    "self": _plain("__self__"),  # bound method
    "func": _plain("__func__"),
    # key is a function of the base: what no other step can reach
    "ask": OriginStep(_ask, lambda base, key: f"{key.__name__}({base})"),
    "attr": OriginStep(_attr, lambda base, key: f"{base}.{key}"),  # any attribute, by getattr: known C types only
}
