"""Placeholders for external objects whose behaviour is not known: any use interrupts, passing them around does not."""

from __future__ import annotations

import _thread
import types
from collections.abc import Callable, Iterable
from typing import Any

from ... import _core
from ...graph.metadata.arguments import PLACEHOLDERS
from ...guards.kinds import full_name
from ...vocabulary.class_reads import flags_of
from ...vocabulary.reasons import Interrupt

#: class or None, reason, detail, and what is done first before another rehearsal that can do without the placeholder
_real: dict[int, tuple[type | None, str, str, Callable[[], None] | None]] = {}


class Opaque:
    """Stands for an external object; only `is`, `isinstance` (its class is guarded) and handing on are possible."""

    __slots__ = ("__weakref__",)

    def __getattribute__(self, name: str) -> Any:
        cls = _real[id(self)][0]
        if name == "__class__" and cls is not None and not _has_own_reads(cls):
            return cls
        read = _readers.get(id(self))
        method = read(self, name) if read is not None else None
        if method is None and cls is not None:
            method = _method_of(self, cls, name)
        if method is None:
            raise refused(self)
        return method

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise refused(self)

    def __bool__(self) -> bool:
        raise refused(self)

    def __del__(self) -> None:
        for table in (_real, _originals, _readers, _handlers):
            table.pop(id(self), None)


#: what placeholders of external objects stand for
_originals: dict[int, Any] = {}
#: what answers reads of attributes of some of them, and what runs when they are called
_readers: dict[int, Callable[[Opaque, str], Any]] = {}
_handlers: dict[int, Callable[..., Any]] = {}
_IMMUTABLE = 1 << 8  # a flag of types


def _method_of(placeholder: Opaque, cls: type, name: str) -> Any:
    """A method that C code gave to a type for good: of an instance another placeholder, else itself.  None: no such."""
    if id(placeholder) not in _originals or not flags_of(cls) & _IMMUTABLE or _has_own_reads(cls) or cls.__dictoffset__:
        return None
    found = _core.type_lookup(cls, name, None)
    if type(found) is types.ClassMethodDescriptorType:
        return found.__get__(None, cls)
    if type(found) is staticmethod and type(found.__func__) is types.BuiltinFunctionType:
        return found.__func__
    if type(found) is not types.MethodDescriptorType:
        return None
    made = Opaque()
    _real[id(made)] = (types.BuiltinMethodType, *_real[id(placeholder)][1:])
    return made


#: they read attributes in their own way, but `__class__` is their type
_READ_CLASS_PLAINLY = frozenset({types.ModuleType, type, _thread._local})


def _has_own_reads(cls: type) -> bool:
    """Return whether code of the program sees that `isinstance` reads `__class__`, or C code answers with another
    class.
    """
    reads = _core.type_lookup(cls, "__getattribute__", None)
    if (
        type(reads) is not types.WrapperDescriptorType
        or _core.type_lookup(cls, "__class__", None) is not object.__dict__["__class__"]
    ):
        return True
    return not (_core.has_generic_reads(reads.__objclass__) or reads.__objclass__ in _READ_CLASS_PLAINLY)


def _refuse(self: Any, *_args: Any, **_kwargs: Any) -> Any:
    raise refused(self)


_SPECIAL = """
    setattr delattr len iter next contains getitem setitem delitem reversed length_hint missing enter exit
    aenter aexit await aiter anext eq ne lt le gt ge hash repr str format bytes index int float complex trunc floor
    ceil round neg pos abs invert add radd iadd sub rsub isub mul rmul imul matmul rmatmul imatmul truediv rtruediv
    itruediv floordiv rfloordiv ifloordiv mod rmod imod divmod rdivmod pow rpow ipow lshift rlshift ilshift rshift
    rrshift irshift and rand iand or ror ior xor rxor ixor reduce reduce_ex getstate sizeof dir copy deepcopy array
""".split()
for _special in _SPECIAL:
    setattr(Opaque, f"__{_special}__", _refuse)


PLACEHOLDERS.add(Opaque)


def opaque_for(value: Any, reason: str = "opaque-object", detail: str = "") -> Opaque:
    """A new placeholder for `value`; the caller records which object it stands for."""
    made = Opaque()
    _real[id(made)] = (type(value), reason, detail or full_name(type(value)), None)
    _originals[id(made)] = value
    return made


def answers_reads(placeholder: Opaque, read: Callable[[Opaque, str], Any]) -> None:
    """Let `read` say what an attribute is; None: any use of it interrupts."""
    _readers[id(placeholder)] = read


def callable_for(cls: type, detail: str, handler: Callable[..., Any]) -> Opaque:
    """A placeholder for an object of a class of C callables: a call of it is given to `handler`."""
    made = Opaque()
    _real[id(made)] = (cls, "opaque-object", detail, None)
    _handlers[id(made)] = handler
    return made


def handler_of(callable_: Any) -> Callable[..., Any] | None:
    """Return the handler of calls of a placeholder, where it has one."""
    return _handlers.get(id(callable_)) if type(callable_) is Opaque else None


def refused(placeholder: Opaque) -> Interrupt:
    """The interrupt for a use of what a placeholder stands for."""
    _cls, reason, detail, first = _real[id(placeholder)]
    interrupt = Interrupt(reason, detail)
    interrupt.first = first
    return interrupt


def unhashed(placeholder: Any) -> Interrupt:
    """The interrupt for a question for the hash of what a placeholder stands for."""
    interrupt = Interrupt("unknown-callable", "hash of an object by its address")
    interrupt.first = _real[id(placeholder)][3] if type(placeholder) is Opaque else None
    return interrupt


def refuse_opaque(args: Iterable[Any]) -> None:
    """Interrupt where C code that reads its arguments is given a placeholder, also in a list or tuple."""
    rest = [*args]
    for arg in rest:
        if type(arg) is Opaque:
            raise refused(arg)
        if type(arg) in (list, tuple):
            rest.extend(arg)


def unknown_object(reason: str, detail: str) -> Opaque:
    """A placeholder for an object that will exist when the graph runs: nothing else is known of it."""
    made = Opaque()
    _real[id(made)] = (None, reason, detail, None)
    return made


def unread_object(detail: str, first: Callable[[], None] | None) -> Opaque:
    """A placeholder that captured code is not expected to look at.  `first` makes the next rehearsal import it."""
    made = Opaque()
    _real[id(made)] = (None, "opaque-object", detail, first)
    return made
