"""C callables whose arguments decide: each judge looks at one call's arguments and answers with a word.

Judges look at types and at immutable values only: they run on captured arguments and must not start user code.
`args` are those of the unbound callable: for `d.update(x)` they are `(d, x)`.
"""

from __future__ import annotations

import _string
import operator
import types
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from ...boundary.becomes.containers import is_watched_factory
from ...vocabulary.plain_types import DICTIONARIES

Judge = Callable[[tuple[Any, ...], dict[str, Any]], str]

#: by the callable's id: the callable and its judge
JUDGES: dict[int, tuple[Any, Judge]] = {}


def judges(*callables: Any) -> Callable[[Judge], Judge]:
    def register(judge: Judge) -> Judge:
        JUDGES.update((id(c), (c, judge)) for c in callables if c is not None)
        return judge

    return register


def _is(value: Any, types_: Any) -> bool:
    # isinstance() would ask the value for its `__class__`, which may be Python code.
    return issubclass(type(value), types_)


#: asked for nothing but their items when a dict is made of them
_NO_MAPPING_HANDLE: tuple[type, ...] = (
    dict,
    list,
    tuple,
    set,
    frozenset,
    zip,
    map,
    enumerate,
    types.GeneratorType,
    type({}.items()),
)


def _mapping_word(mapping: Any) -> str:
    # Anything else is asked for its attribute `keys`, which C would read off a handle unwatched.
    return "pure" if _is(mapping, _NO_MAPPING_HANDLE) else "internals"


_PLAIN_DICTIONARIES = tuple(kind for kind in DICTIONARIES if kind is not defaultdict)


@judges(*_PLAIN_DICTIONARIES, types.SimpleNamespace)
def _made_of_first(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return _mapping_word(args[0]) if args else "pure"


@judges(
    *(getattr(kind, name) for kind in _PLAIN_DICTIONARIES for name in ("__init__", "update", "__ior__")),
    types.SimpleNamespace.__init__,
)
def _made_of_second(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return _mapping_word(args[1]) if len(args) > 1 else "pure"


@judges(operator.ior)
def _ior(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return _made_of_second(args, kwargs) if args and _is(args[0], dict) else "pure"


@judges(defaultdict)
def _default(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    factory = args[0] if args else None
    if not callable(factory) and factory is not None:
        return "pure"  # raises
    if not is_watched_factory(factory):
        return "callback"
    return _mapping_word(args[1]) if len(args) > 1 else "pure"


@judges(defaultdict.__init__)
def _default_init(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return _default(args[1:], kwargs)


@judges(str.format, str.format_map)
def _template(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return "text" if args and _is(args[0], str) and plain_template(args[0]) else "attributes"


def plain_template(template: str) -> bool:
    """Return whether `str.format` with this template reads no attributes.

    >>> plain_template("{} of {total:>{width}}"), plain_template("{0[a]}"), plain_template("{0.shape}")
    (True, True, False)
    """
    try:
        for _, name, spec, _ in _string.formatter_parser(template):
            if name and any(is_attribute for is_attribute, _ in _string.formatter_field_name_split(name)[1]):
                return False
            if spec and "{" in spec and not plain_template(spec):
                return False
    except ValueError:
        return True  # a malformed template raises natively, at once
    return True
