"""Pickling of what was made inside: the C pickler runs, and every object that it would look into is judged first."""

from __future__ import annotations

import copyreg
import functools
import io
import operator
import pickle
import re
import sys
import types
from typing import TYPE_CHECKING, Any

import torch

from ... import _core
from ..._core import is_a
from ...boundary.becomes.opaque import Opaque
from ...boundary.lazy.lazy_deque_set import LazyDeque, LazySet
from ...boundary.lazy.lazy_dict import LargeDict
from ...boundary.lazy.lazy_list import LazyList
from ...boundary.lazy.view import View
from ...calls.call_tables import substitute
from ...calls.pure import lookup
from ...graph.symbols.numbers import NUMBERS
from ...vocabulary.class_reads import qualname_of
from ...vocabulary.origins import const
from ...vocabulary.own_code import is_captured_function
from ...vocabulary.reasons import Interrupt
from .called_back import watched
from .code_objects import as_called
from .copying import slots_of

if TYPE_CHECKING:
    from ...rehearsal.session import Session

_SAFE = frozenset(
    {*lookup.safe_self_types(), functools.partial, operator.itemgetter, operator.attrgetter, operator.methodcaller}
)
_REGISTERED = frozenset({complex, re.Pattern, types.UnionType})  # reducers that the standard library itself registers
_BY_NAME = (type, types.FunctionType, types.BuiltinFunctionType)


class _Pickler(pickle.Pickler):
    """Asks before the C code looks into an object of any but the plainest types."""

    def __init__(self, session: Session, file: io.BytesIO, **options: Any) -> None:
        super().__init__(file, **options)
        self._session = session

    def reducer_override(self, obj: Any) -> Any:
        cls = type(obj)
        if cls in NUMBERS:  # the pickler writes down plain ones alone as numbers
            raise Interrupt("callable-on-handle", "pickle.dumps of a symbolic number")
        if is_a(obj, _BY_NAME):
            _guard_name(self._session, obj)
        elif cls in (LargeDict, LazyList, LazyDeque, LazySet):
            raise Interrupt("too-large", f"a {cls.builtin_type.__name__} given to pickle.dumps")
        elif _core.is_external(obj) or issubclass(cls, (torch.Tensor, Opaque, View)):
            raise Interrupt("callable-on-handle", "pickle.dumps")
        elif cls in copyreg.dispatch_table and cls not in _REGISTERED:
            raise Interrupt("unknown-callable", f"pickle.dumps of {qualname_of(cls)} (a reducer is registered for it)")
        elif _core.is_python_class(cls):
            self._session.world.note_class(cls)
        elif cls not in _SAFE and cls not in _REGISTERED:
            raise Interrupt("unknown-callable", f"pickle.dumps of {qualname_of(cls)}")
        return NotImplemented


def _guard_name(session: Session, obj: Any) -> None:
    """A class or function is pickled as its name: that the name leads to it is a fact of its module."""
    module, name = getattr(obj, "__module__", None), obj.__qualname__
    if is_a(obj, types.FunctionType) and is_captured_function(obj.__code__):
        raise Interrupt("unknown-callable", "pickling of what C code calls")  # in place of the program's own
    holder = _module(session, module)
    if holder is not None:
        _check_pending(session, holder, name)
    if _core.is_internal(obj):
        return  # no module has it: pickling fails by itself
    renamed = (id(obj), "__module__") in session.world.overlay  # pending: the pickler would not see it
    extensions = copyreg._extension_registry  # type: ignore[attr-defined]  # private in typeshed
    if renamed or holder is None or (module, name) in extensions or _guard_entry(session, holder, name) is not obj:
        raise Interrupt("unknown-callable", f"pickle.dumps of {name}")


def _module(session: Session, name: Any) -> Any:
    """The module of a name, where captured code finds the same one that C code does."""
    found = sys.modules.get(name) if is_a(name, str) else None
    record = session.world.memo.get(id(sys.modules))
    if record is not None and is_a(name, str) and record.seen.get(name) is not found:
        raise Interrupt("unknown-callable", f"pickling of names in {name}, which captured code replaced")
    return found


def _check_pending(session: Session, holder: Any, name: str) -> None:
    """C code would not see what captured code put in the place of a name."""
    first = name.partition(".")[0]
    if is_a(holder, types.ModuleType) and (id(vars(holder)), first) in session.world.overlay:
        raise Interrupt("unknown-callable", f"pickling of {name}, which captured code put into its module")


def _guard_entry(session: Session, module: types.ModuleType, name: str) -> Any:
    """Resolve a name from class to class, where captured code finds the same on its way, and guard it."""
    found: Any = module
    for part in name.split("."):
        if found is not module and not (is_a(found, type) and type(found).__getattribute__ is type.__getattribute__):
            return None
        there = lookup.member(found, part) if is_a(found, type) else vars(found).get(part)
        if not is_a(there, _BY_NAME):
            return None
        session.world.guard(const(sys.modules).to("item", module.__name__), "IS", module)
        if _core.read(found, part) is not there:
            return None
        found = there
    return found


@substitute(pickle.dumps)
def _dumps(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    def bound(obj: Any, protocol: Any = None, *, fix_imports: Any = True, buffer_callback: Any = None) -> bytes:
        if buffer_callback is not None:
            raise Interrupt("unknown-callable", "pickle.dumps with buffers")
        file = io.BytesIO()
        pickler = _Pickler(session, file, protocol=protocol, fix_imports=fix_imports)
        try:
            _core.natively(pickler.dump, (obj,), None)
        except pickle.PicklingError:
            if session.world.overlay:  # C code may have looked for a name that is pending
                raise Interrupt(
                    "unknown-callable", "pickling of what may have a name that captured code gave"
                ) from None
            raise
        return file.getvalue()

    return as_called(bound, callable_, args, kwargs)


@substitute(copyreg._slotnames)  # type: ignore[attr-defined]  # private in typeshed
def _slotnames(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """The slots of a class, without the note that the standard library leaves on the class."""
    return slots_of(args[0])


class _Unpickler(pickle.Unpickler):
    """Names are read as captured code, and what they lead to is called as captured code."""

    def __init__(self, session: Session, file: io.BytesIO, **options: Any) -> None:
        super().__init__(file, **options)
        self._session = session

    def find_class(self, module: str, name: str) -> Any:
        _check_pending(self._session, _module(self._session, module), name)
        found: Any = super().find_class(module, name)
        holder = _module(self._session, getattr(found, "__module__", None) or module)
        if (
            holder is None
            or not is_a(found, _BY_NAME)
            or _guard_entry(self._session, holder, found.__qualname__) is not found
        ):
            raise Interrupt("unknown-callable", f"pickle.loads of {module}.{name}")
        if is_a(found, type):
            if found not in _SAFE and not _core.is_python_class(found):
                raise Interrupt("unknown-callable", f"pickle.loads of {module}.{name}")
            self._session.world.note_class(found)
            return found
        return watched(self._session, found)


@substitute(pickle.loads)
def _loads(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not args:
        return callable_(**kwargs)
    data, *rest = args
    if rest or type(data) not in (bytes, bytearray) or kwargs.get("buffers") is not None:
        raise Interrupt("unknown-callable", "pickle.loads of other than bytes")
    return _core.natively(_Unpickler(session, io.BytesIO(data), **kwargs).load, (), None)
