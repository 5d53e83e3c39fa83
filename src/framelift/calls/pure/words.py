"""The form of the tables of C callables, and the words they are judged with.  No callable is judged here.

A table says for every function of a module, and for every method of a C type, one *word*.  Three words allow a native
call, the others deny it and say why.  What no table mentions is denied too: tables only make denial explain itself.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..._core import is_a
from ...vocabulary.break_fixes import CLOCK

#: the words that allow a native call
ALLOWED: dict[str, str] = {
    "pure": "safe with any argument: what it does with objects of Python classes goes through Python frames",
    "internals": "safe unless an argument is a handle, whose state it would read unwatched",
    "text": "as `internals`, and safe only if its result shows no address: a handle may lie inside a container",
    "judged": "its arguments decide: ask the judge registered for it",
}

#: the words that deny, each with its reason
DENIALS: dict[str, str] = {
    "address": "the result depends on where objects lie in memory",
    "attributes": "reads or writes attributes of any object from C",
    "callback": "calls, from C, a callable that it holds and that was not judged",
    "class": "makes or changes classes",
    "clock": CLOCK,
    "code": "builds, compiles, imports or runs code",
    "effect": "acts outside the rehearsal",
    "files": "opens, reads or writes files and devices",
    "frames": "looks at the frames that called it",
    "memory": "looks at sizes, reference counts or raw memory",
    "mode": "sees or changes the modes and stacks that the recorder itself uses",
    "operation": "takes or makes tensors: matter of the recorder",
    "process": "reads or changes the process and the system around it",
    "random": "depends on a random generator",
    "state": "reads or changes state of the process that no guard covers",
    "terminal": "reads or writes the terminal",
    "threads": "locks, threads, and what belongs to one thread",
    "unknown": "makes an object of a C type whose behaviour is not known",
}

#: methods that mean the same in every C type: the word unless the type's own table says otherwise
COMMON_METHODS: dict[str, str] = {
    "__call__": "callback",
    "__hash__": "address",  # of what is inside; types of plain values declare theirs pure
    "__repr__": "text",
    "__str__": "text",
    "__format__": "text",
    "__reduce__": "internals",
    "__reduce_ex__": "internals",
    "__getstate__": "internals",
    "__getattribute__": "internals",
    "__setattr__": "internals",
    "__delattr__": "internals",
    "__dir__": "attributes",
    "__sizeof__": "memory",
    "__buffer__": "memory",
    "__release_buffer__": "memory",
}

C_CALLABLES = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.MethodWrapperType,
)


@dataclass(frozen=True, slots=True)
class Functions:
    """The C functions of one module: word -> names, separated by blanks.  Names a Python does not have are skipped."""

    module: str
    words: Mapping[str, str]

    def entries(self) -> Iterator[tuple[Any, str]]:
        """Each function found, with its word."""
        module = found(self.module)
        for word, names in self.words.items() if module is not None else ():
            for name in names.split():
                function = getattr(module, name, None)
                if function is not None:
                    yield function, word


@dataclass(frozen=True, slots=True)
class Kind:
    """One C type: `make` is the word of its constructor, `methods` of its methods, `words` those that differ.

    `cls` is the type or its dotted path.  A kind whose `methods` is "pure" is a safe type for an internal `self`.
    """

    cls: type | str
    make: str = "pure"
    methods: str = "pure"
    words: Mapping[str, str] = field(default_factory=dict)

    def entries(self) -> Iterator[tuple[Any, str]]:
        """The constructor and each C method in the type's own dictionary, with their words."""
        cls = found(self.cls)
        if cls is None:
            return
        yield cls, self.make
        special = {name: word for word, names in self.words.items() for name in names.split()}
        for name, member in vars(cls).items():
            method = getattr(member, "__func__", member)
            if is_a(method, C_CALLABLES):
                yield method, special.get(name) or self._word(name)

    def _word(self, name: str) -> str:
        if name in ("__new__", "__init__"):
            return self.make
        # A denial of all methods is never loosened by what a name commonly means.
        return COMMON_METHODS.get(name, self.methods) if self.methods in ALLOWED else self.methods


def found(path: Any) -> Any:
    """The module or attribute at a dotted path, None where this Python or torch has none; other objects as they are.

    >>> found("functools.reduce").__name__, found("math.no_such_name")
    ('reduce', None)
    """
    if not is_a(path, str):
        return path
    parent, _, name = path.rpartition(".")
    owner = found(parent) if parent else None
    inside = getattr(owner, name, None)
    if inside is not None or (parent and not hasattr(owner, "__path__")):
        return inside
    try:
        return importlib.import_module(path)
    except ImportError:
        return None


def is_c_callable(value: Any) -> bool:
    """Return whether calling `value` enters C directly, a class aside."""
    return is_a(value, C_CALLABLES)
