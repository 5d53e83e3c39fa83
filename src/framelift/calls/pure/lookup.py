"""C callables that may run natively in a rehearsal: the tables put together, declared, and looked up.

The tables themselves are built_in_functions, stdlib_functions, stdlib_types and torch_helpers; judges holds the
callables whose arguments decide.  Importing this module fills the registry; `verdict` answers for any callable.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from typing import Any

from ..._core import id, is_a
from ...vocabulary.class_reads import members_of, module_of, mro_of
from ..call_tables import HIGHER_ORDER, pure, pure_on_internals
from . import built_in_functions, stdlib_functions, stdlib_types, torch_helpers
from .judges import JUDGES
from .words import ALLOWED, DENIALS, Functions, Kind, found, is_c_callable

#: by id: every callable that a table mentions, and its word
WORDS: dict[int, tuple[Any, str]] = {}
#: by id: callables declared pure that read a setting of the process, and the setting's name
STATE_READERS: dict[int, tuple[Any, str]] = {}

_FUNCTIONS = (*built_in_functions.FUNCTIONS, *stdlib_functions.FUNCTIONS, *torch_helpers.FUNCTIONS)
_KINDS = [*built_in_functions.KINDS, *stdlib_types.KINDS, *torch_helpers.KINDS]
_STATE = {**stdlib_functions.STATE, **torch_helpers.STATE}

#: from the most to the least that a word allows; denials, and the empty word of the unknown, come after
_ORDER = ("pure", "internals", "text", "judged")


def entries() -> Iterator[tuple[Any, str]]:
    """Every callable of every table with its word, as the tables say it."""
    tables: tuple[Functions | Kind, ...] = (*_FUNCTIONS, *_KINDS)
    for table in tables:
        yield from table.entries()
    for path in (path for paths in _STATE.values() for path in paths):
        function = found(path)
        if function is not None:
            yield function, "pure"


def declare(kind: Kind) -> None:
    """Add a type to the tables."""
    _KINDS.append(kind)
    _add(kind.entries())


def _add(rows: Iterable[tuple[Any, str]]) -> None:
    rows = list(rows)
    WORDS.update((id(c), (c, word)) for c, word in rows)
    pure(*(c for c, word in rows if word == "pure"))
    pure_on_internals(*(c for c, word in rows if word in ("internals", "text")))


def _declare() -> None:
    _add(entries())
    STATE_READERS.update(
        (id(f), (f, setting)) for setting, paths in _STATE.items() for f in map(found, paths) if f is not None
    )
    callers = map(found, (*built_in_functions.CALLERS, *stdlib_functions.CALLERS))
    HIGHER_ORDER.update((id(c), c) for c in callers if c is not None)


def safe_self_types() -> tuple[type, ...]:
    """The C types whose methods are pure for an internal `self`, but for those that `verdict` says otherwise of."""
    kinds = (found(kind.cls) for kind in _KINDS if kind.methods == "pure")
    return tuple(dict.fromkeys(kind for kind in kinds if kind is not None))


def resolve(callable_: Any) -> tuple[Any, tuple[Any, ...]]:
    """The callable that the tables know, and the arguments it already holds.

    A bound method is led back to its function, a callable instance of a C type to its type's `__call__`.

    >>> resolve([1].append)
    (<method 'append' of 'list' objects>, ([1],))
    """
    kind = type(callable_)
    if id(callable_) in WORDS or issubclass(kind, (type, types.FunctionType)):
        return callable_, ()
    if kind is types.MethodType:
        function, held = resolve(callable_.__func__)
        return function, (*held, callable_.__self__)
    if kind is types.MethodWrapperType:
        return members_of(callable_.__objclass__)[callable_.__name__], (callable_.__self__,)
    if issubclass(kind, types.BuiltinFunctionType):  # C methods that know their class have a type of their own
        return _descriptor(callable_) or (callable_, ())
    if is_c_callable(callable_):
        return callable_, ()
    caller = member(kind, "__call__")
    return (callable_, ()) if caller is None else (caller, (callable_,))


def _descriptor(bound: types.BuiltinFunctionType) -> tuple[Any, tuple[Any, ...]] | None:
    """The descriptor in some class of `__self__`'s order that binds to exactly this C function."""
    owner: Any = bound.__self__
    name = bound.__name__
    if owner is None or is_a(owner, types.ModuleType):
        return None
    if issubclass(type(owner), type):
        for cls in mro_of(owner):
            member = members_of(cls).get(name)
            if type(member) is types.ClassMethodDescriptorType and member.__get__(None, owner) == bound:
                return member, (owner,)
    for cls in mro_of(type(owner)):
        member = members_of(cls).get(name)
        # `super().append` and `append` have one name: only the C function itself distinguishes them.  The class is
        # passed along because CPython 3.11 crashes without it where a C method knows its class.
        if type(member) is types.MethodDescriptorType and member.__get__(owner, type(owner)) == bound:
            return member, (owner,)
    return None


def verdict(callable_: Any, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None) -> str:
    """The word for calling a callable natively; the empty word where no table knows it.

    Python functions are "pure": they run as watched frames.  With `args` (and `kwargs`) the judge is asked where
    there is one; without, the answer is then "judged".

    >>> import time
    >>> verdict(len), verdict({}.get), verdict(repr), verdict(time.time), verdict("{}".format)
    ('pure', 'pure', 'text', 'clock', 'judged')
    """
    key, held = resolve(callable_)
    if issubclass(type(key), type) and id(key) not in WORDS:
        return _class_word(key, args, kwargs)
    return _word(key, None if args is None else (*held, *args), kwargs)


def _word(key: Any, args: tuple[Any, ...] | None, kwargs: dict[str, Any] | None) -> str:
    if type(key) is types.FunctionType:
        return "pure"
    known = WORDS.get(id(key))
    if known is None:
        return _word_of_module(key) if is_c_callable(key) else ""
    if known[1] != "judged" or args is None:
        return known[1]
    return JUDGES[id(key)][1](args, kwargs or {})


def _class_word(cls: type, args: tuple[Any, ...] | None, kwargs: dict[str, Any] | None) -> str:
    """The word for constructing a class that no table names: that of the C parts of its construction."""
    module = module_of(cls)
    if is_a(module, str) and module in stdlib_functions.DENIED_MODULES:
        return stdlib_functions.DENIED_MODULES[module]
    maker = member(type(cls), "__call__")
    if maker is not _TYPE_CALL and type(maker) is not types.FunctionType:
        return ""  # a metaclass in C, which may do anything
    parts = (member(cls, "__new__"), member(cls, "__init__"))
    words = [
        _word(part.__func__ if type(part) is staticmethod else part, None if args is None else (cls, *args), kwargs)
        for part in parts
    ]
    return max(words, key=lambda word: _ORDER.index(word) if word in _ORDER else len(_ORDER))


# Classes are asked past their metaclasses, whose Python code must not run here.
_TYPE_CALL = type.__dict__["__call__"]


def member(cls: type, name: str) -> Any:
    """Look up a name in the order of bases, unbound; None where there is none."""
    for base in mro_of(cls):
        if name in members_of(base):
            return members_of(base)[name]
    return None


def _word_of_module(callable_: Any) -> str:
    """The word of the module that a C callable, or the type it belongs to, comes from."""
    owner: Any = getattr(callable_, "__objclass__", None) or getattr(callable_, "__self__", None)
    module = callable_.__module__ if is_a(owner, types.ModuleType) else None
    names = [module, *(module_of(base) for base in mro_of(owner if issubclass(type(owner), type) else type(owner)))]
    return next(
        (
            stdlib_functions.DENIED_MODULES[name]
            for name in names
            if is_a(name, str) and name in stdlib_functions.DENIED_MODULES
        ),
        "",
    )


def reason(word: str) -> str:
    """Return the meaning of a word, for messages; for the empty word, that the callable is not known."""
    return ALLOWED.get(word) or DENIALS.get(word) or "not known"


_declare()
