"""Containers that import an entry when it is asked for (`handle.__dict__`, large tables, tables whose keys change,
lists that grow).

To C code that looks inside they are empty, so a native call may be given one only where it asks by Python's own
protocols.  The methods of `dict` and `list` themselves, called on one, are its own methods.
"""

from __future__ import annotations

import abc
import builtins
import itertools
import operator
import types
from typing import Any

from ... import _core
from ..._core import is_a
from ...boundary.becomes.opaque import Opaque, refused
from ...boundary.lazy.instance_dict import InstanceDict
from ...boundary.lazy.lazy_dict import LargeDict
from ...boundary.lazy.lazy_list import LazyList
from ...calls.call_tables import HIGHER_ORDER, substitute
from ...calls.pure import lookup
from ...graph.symbols.numbers import NUMBERS
from ...recording.session import Session
from ...vocabulary.reasons import Interrupt

VIEWS = (InstanceDict, LargeDict, LazyList)

#: what asks by `iter`, `len`, `[]` and their like, or does not look at all
_ASKS = """
    all any bool callable enumerate filter frozenset hash id isinstance issubclass iter len list map max min next
    print repr reversed set sorted str sum tuple zip
"""
_PROTOCOL: dict[int, Any] = {id(getattr(builtins, name)): getattr(builtins, name) for name in _ASKS.split()}
_PROTOCOL.update((id(f), f) for f in vars(operator).values() if is_a(f, types.BuiltinFunctionType))
_PROTOCOL.update((id(f), f) for f in vars(itertools).values() if is_a(f, type))
for _looks_inside in (operator.concat, operator.iconcat):
    del _PROTOCOL[id(_looks_inside)]
_RECEIVERS = (str, list, tuple, set, frozenset)
_DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType)


def own_method(callable_: Any, args: tuple[Any, ...]) -> Any:
    """Return the view's own method for `dict.name(view, ...)` and a bound `view.name`, as a call; None for others."""
    receiver = getattr(callable_, "__self__", None)
    if is_a(receiver, VIEWS):
        args = (receiver, *args)
    elif not (
        is_a(callable_, _DESCRIPTORS)
        and args
        and is_a(args[0], VIEWS)
        and callable_.__objclass__ in (args[0].builtin_type, object)
    ):
        return None
    method = getattr(type(args[0]), callable_.__name__, None)
    if not is_a(method, types.FunctionType):
        raise refusal(callable_.__qualname__, args)
    return method, args


def refusal(name: str, args: tuple[Any, ...]) -> Interrupt:
    """Why native code that looks inside is not given these arguments."""
    large = next((a for a in args if is_a(a, (LargeDict, LazyList))), None)
    if large is None:
        return Interrupt("callable-on-handle", name)
    return Interrupt("too-large", f"a {large.builtin_type.__name__} of {len(large._table)} entries, given to {name},")


def _call(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    unknown = next((part for part in (*args, *kwargs.values()) if type(part) is Opaque), None)
    if unknown is not None:
        return _given_unknown(unknown, callable_, args, kwargs)
    own = own_method(callable_, args)
    if own is not None:
        return own[0](*own[1], **kwargs)
    if callable_ is len and len(args) == 1 and is_a(args[0], VIEWS) and not kwargs:
        return args[0].length()
    if (
        _PROTOCOL.get(id(callable_)) is callable_
        or is_a(callable_, types.BuiltinMethodType)
        and is_a(callable_.__self__, _RECEIVERS)
    ):
        return _core.natively(callable_, args, kwargs)
    raise refusal(getattr(callable_, "__qualname__", str(callable_)), (*args, *kwargs.values()))


def natively(callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A native call.  Where it fails and was given a placeholder, nothing is known of the object itself."""
    try:
        return _core.natively(callable_, args, kwargs)
    except Exception as error:
        unknown = next((part for part in (*args, *kwargs.values()) if type(part) is Opaque), None)
        if unknown is None:
            raise
        raise refused(unknown) from error


def _asks_itself(classes: Any) -> bool:
    """Return whether the program's code says which objects are instances of a class; not asked for its direct
    instances.
    """
    if type(classes) is tuple:
        return any(map(_asks_itself, classes))
    check = _core.type_lookup(type(classes), "__instancecheck__", None)
    return type(check) is types.FunctionType and check is not abc.ABCMeta.__instancecheck__


def _given_unknown(unknown: Opaque, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A native call with a placeholder, which it may keep: what it says is true of the placeholder alone."""
    if callable_ is callable or callable_ is isinstance and len(args) == 2 and _asks_itself(args[1]):
        raise refused(unknown)
    parts = (*args, *kwargs.values())
    if id(callable_) in HIGHER_ORDER or any(type(part) in NUMBERS or is_a(part, VIEWS) for part in parts):
        raise refused(unknown)
    if lookup.verdict(callable_, args, kwargs) != "pure" and any(map(_core.is_external, parts)):
        raise Interrupt("callable-on-handle", getattr(callable_, "__qualname__", str(callable_)))
    return natively(callable_, args, kwargs)


_core.connect(view_types=(InstanceDict, LargeDict, LazyList, Opaque), view_handler=_call)


@substitute(BaseException.add_note)
def _add_note(session: Session, callable_: Any, error: Any, note: Any, /) -> Any:
    """The list of an exception's notes may be one that grows; C code would append to the empty list it sees."""
    notes = getattr(error, "__dict__", {}).get("__notes__")
    if is_a(notes, LazyList) and is_a(note, str):
        notes.append(note)
        return None
    return _core.natively(callable_, (error, note), None)
