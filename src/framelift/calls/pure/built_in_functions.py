"""Which built-in functions, and which methods of built-in types, may run natively.  Data only.

A method is judged for an internal `self`: captured code sees private copies (shadows) of external containers, so what a
method does to its own container is no effect.
"""

from __future__ import annotations

import types
from collections.abc import AsyncGenerator
from typing import Any

from ..._core import is_a
from .words import Functions, Kind

FUNCTIONS: tuple[Functions, ...] = (
    Functions(
        "builtins",
        {
            # isinstance and issubclass look at `__class__` and `__bases__`, which are class facts; all others look
            # dunder methods up on the type and call them, which starts a Python frame.
            "pure": "abs aiter all anext any bin callable chr divmod hex isinstance issubclass iter len "
            "max min next oct ord "
            "pow round sorted sum",
            "text": "ascii format repr",
            "files": "open",
            "frames": "breakpoint",
            "terminal": "input print",
        },
    ),
)

#: of the pure ones, those that call their arguments: a C callable given to them must be declared itself
CALLERS: tuple[str, ...] = (
    "builtins.filter",
    "builtins.iter",
    "builtins.map",
    "builtins.max",
    "builtins.min",
    "builtins.sorted",
    "builtins.list.sort",
    "builtins.BaseExceptionGroup.split",
    "builtins.BaseExceptionGroup.subgroup",
)

_HASHABLE = {"pure": "__hash__"}


def _leaves() -> tuple[Kind, ...]:
    """Types of plain values: equal values are interchangeable, so even their hash is a value."""
    return (
        Kind(int, words=_HASHABLE),
        Kind(bool, words=_HASHABLE),
        Kind(complex, words=_HASHABLE),
        Kind(range, words=_HASHABLE),
        Kind(float, words=_HASHABLE | {"state": "__getformat__ __setformat__"}),
        # `%` may ask any operand for its text; `format` may also read attributes, so its template is judged.
        Kind(
            str,
            make="text",
            words={
                "pure": "__hash__",
                "text": "__mod__ __rmod__ __repr__ __str__ __format__",
                "judged": "format format_map",
            },
        ),
        Kind(bytes, words=_HASHABLE | {"text": "__mod__ __rmod__ __repr__ __str__"}),
        Kind(type(None), words=_HASHABLE),
        Kind(type(...), words=_HASHABLE),
        Kind(type(NotImplemented), words=_HASHABLE),
        Kind(slice),
    )


def _containers() -> tuple[Kind, ...]:
    return (
        Kind(list),
        Kind(tuple),
        Kind(set),
        Kind(frozenset),
        Kind(bytearray, words={"text": "__mod__ __rmod__ __repr__ __str__", "memory": "__alloc__"}),
        # A mapping that is no dict is asked for its attribute `keys`: the argument decides.
        Kind(dict, make="judged", words={"pure": "__new__", "judged": "__init__ update __ior__"}),
        Kind(type({}.keys())),
        Kind(type({}.values())),
        Kind(type({}.items())),
        # A proxy reads attributes of the mapping it was made for, so that one must not be a handle.
        Kind(types.MappingProxyType, make="internals"),
        Kind(types.SimpleNamespace, make="judged", words={"pure": "__new__", "judged": "__init__"}),
    )


def _iterators() -> tuple[Kind, ...]:
    """Return the iterator types: captured code made what they walk, and what they call was judged as an argument."""
    samples: tuple[Any, ...] = (
        iter([]),
        reversed([]),
        iter(()),
        iter(""),
        iter("\xe9"),
        iter(b""),
        iter(bytearray()),
        iter(range(0)),
        iter(range(1 << 70)),
        iter(set()),
        iter({}),
        iter({}.values()),
        iter({}.items()),
        reversed({}),
        reversed({}.values()),
        reversed({}.items()),
        iter(lambda: 0, 0),
        iter(_Sequence()),
    )
    kinds: dict[type, None] = dict.fromkeys(type(sample) for sample in samples)
    kinds.update(dict.fromkeys((enumerate, zip, map, filter, reversed)))
    # Generators and coroutines run Python frames, which are watched.
    kinds.update(dict.fromkeys((types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, *_awaitables())))
    return tuple(Kind(kind) for kind in kinds)


def _awaitables() -> tuple[type, ...]:
    """Return the types of awaitables of coroutines and asynchronous generators: awaiting one runs their frames."""
    coroutine, generator = _coroutine(), _generator()
    steps: list[Any] = [coroutine.__await__(), generator.asend(None), generator.aclose(), anext(generator, None)]
    for step in steps:
        step.close()
    return tuple(type(step) for step in steps)


async def _coroutine() -> None:
    """Never awaited."""


async def _generator() -> AsyncGenerator[None]:
    yield


class _Sequence:
    """Gives the iterator type of old-style sequences."""

    def __getitem__(self, index: int) -> None:
        raise IndexError(index)


def _exceptions() -> tuple[Kind, ...]:
    import builtins

    kinds = (value for value in vars(builtins).values() if is_a(value, type) and issubclass(value, BaseException))
    return tuple(Kind(kind) for kind in dict.fromkeys(kinds))


_CODE = _generator.__code__
_COMPARISONS = "__eq__ __ne__ __lt__ __le__ __gt__ __ge__"


def _descriptors_and_code() -> tuple[Kind, ...]:
    """Objects that bind, hold or are code: binding is pure, calling and reading through them is not judged here."""
    binds = {"pure": f"__get__ {_COMPARISONS}"}
    return (
        # Their constructors copy `__doc__`, `__name__`, `__dict__` … from what they wrap.
        Kind(property, make="internals", methods="callback", words={"internals": "getter setter deleter __set_name__"}),
        Kind(classmethod, make="internals", methods="callback"),
        Kind(staticmethod, make="internals", methods="callback", words={"pure": "__get__"}),
        Kind(
            types.FunctionType,
            make="code",
            methods="attributes",
            words={"pure": "__get__ __call__", "text": "__repr__"},
        ),
        Kind(
            types.MethodType,
            methods="attributes",
            words=binds
            | {"callback": "__call__", "address": "__hash__", "text": "__repr__", "internals": "__reduce__"},
        ),
        Kind(types.BuiltinFunctionType, make="code", methods="callback"),
        Kind(types.MethodWrapperType, make="code", methods="callback"),
        Kind(types.MethodDescriptorType, make="code", methods="callback", words=binds),
        Kind(types.WrapperDescriptorType, make="code", methods="callback", words=binds),
        Kind(types.ClassMethodDescriptorType, make="code", methods="callback", words=binds),
        Kind(types.GetSetDescriptorType, make="code", methods="attributes"),
        Kind(types.MemberDescriptorType, make="code", methods="attributes"),
        # A new module is empty; filling one that exists is a write of external state.
        Kind(types.ModuleType, methods="attributes", words={"pure": "__new__"}),
        Kind(types.CellType, words={"text": "__repr__"}),
        # Code is a value; what runs it is judged by itself.
        Kind(
            types.CodeType,
            make="code",
            methods="code",
            words={"pure": f"replace __replace__ co_lines co_positions __hash__ {_COMPARISONS}"},
        ),
        *(Kind(type(part)) for part in (_CODE.co_lines(), _CODE.co_positions())),
        # Frames are reached through exceptions and generators made inside; clearing them drops what they held.
        Kind(types.FrameType, make="frames", methods="frames", words={"pure": "clear"}),
        Kind(types.TracebackType, make="frames", methods="frames"),
        Kind("types.FrameLocalsProxyType", make="frames", methods="frames"),
        Kind("_collections_abc.framelocalsproxy", make="frames", methods="frames"),
        Kind(types.GenericAlias, words={"internals": "__getitem__", "attributes": "__getattribute__"}),
        Kind(types.UnionType, words={"internals": "__getitem__", "attributes": "__getattribute__"}),
    )


KINDS: tuple[Kind, ...] = (
    *_leaves(),
    *_containers(),
    *_iterators(),
    *_exceptions(),
    Kind(object, words={"attributes": "__getattribute__ __setattr__ __delattr__ __dir__"}),
    Kind(
        type,
        make="class",
        methods="attributes",
        words={
            "pure": "__init__ __instancecheck__ __subclasscheck__ __prepare__ __or__ __ror__",
            "text": "__repr__",
            "callback": "__call__",
            "class": "mro __subclasses__",
            "memory": "__sizeof__",
        },
    ),
    Kind(super, make="frames", methods="attributes", words={"frames": "__init__ __get__"}),
    *_descriptors_and_code(),
)
