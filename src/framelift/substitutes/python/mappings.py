"""dict(mapping), update(mapping) and {**mapping}: what C code asks an object is asked through the probes."""

from __future__ import annotations

import collections
import operator
from typing import Any

from ... import _core
from ...calls.call_tables import substitute
from ...calls.pure import lookup
from ...recording.session import Session
from ...vocabulary.plain_types import DICTIONARIES
from ...vocabulary.reasons import Interrupt
from .lazy_containers import own_method


def as_dict(mapping: Any) -> Any:
    """Convert a mapping that is a handle as C code would: by `keys()`, and `mapping[key]` for each."""
    if not _core.is_external(mapping):
        return mapping
    try:
        keys = _core.read(mapping, "keys")
    except AttributeError:
        return mapping
    return {
        key: _core.natively(operator.getitem, (mapping, key), None)
        for key in _core.captured(list, (_core.captured(keys, (), None),), None)
    }


def _handler(place: int) -> Any:
    def call(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
        own = own_method(callable_, args)
        if own is not None:
            return own[0](*own[1], **kwargs)
        if len(args) > place:
            args = (*args[:place], as_dict(args[place]), *args[place + 1 :])
        for part in args:
            if issubclass(type(part), type) and _core.is_python_class(part):
                session.note_class(part)  # a factory, whose instances C code makes
        word = lookup.verdict(callable_, args, kwargs)
        if word not in ("pure", "internals"):
            raise Interrupt(
                "unknown-callable", f"{getattr(callable_, '__qualname__', callable_)} ({lookup.reason(word)})"
            )
        if word == "internals" and any(_core.is_external(part) for part in args):
            raise Interrupt("callable-on-handle", getattr(callable_, "__qualname__", str(callable_)))
        return _core.natively(callable_, args, kwargs)

    return call


substitute(*(kind for kind in DICTIONARIES if kind is not collections.defaultdict))(_handler(0))
substitute(*{getattr(kind, name) for kind in DICTIONARIES for name in ("__init__", "update")})(_handler(1))
substitute(collections.defaultdict)(_handler(1))
