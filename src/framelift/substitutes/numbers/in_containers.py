"""C code that goes through containers it is given, and reads numbers and containers from memory."""

from __future__ import annotations

import json.encoder
import operator
from typing import TYPE_CHECKING, Any

from ... import _core
from ...boundary.becomes.opaque import Opaque, refused
from ...calls.call_tables import substitute
from ...graph.symbols.numbers import NUMBERS
from ...graph.symbols.numpy_numbers import NumpyNumber
from ...vocabulary.class_reads import built_in_member
from ...vocabulary.reasons import Interrupt
from ..python.lazy_containers import VIEWS, refusal

if TYPE_CHECKING:
    from ...recording.session import Session


def _with_plain_numbers(value: Any, name: str, above: tuple[int, ...] = ()) -> Any:
    """A value with plain numbers in place of symbolic ones, also inside of containers."""
    kind = type(value)
    if kind in NUMBERS or kind is NumpyNumber:
        return value.value()
    if issubclass(kind, VIEWS):
        raise refusal(name, (value,))
    if kind is Opaque:
        raise refused(value)
    builtin_type = next((base for base in (list, tuple, dict) if issubclass(kind, base)), None)
    if builtin_type is None or id(value) in above:
        return value
    above = (*above, id(value))
    if kind is not builtin_type:
        return _of_subclass(value, builtin_type, name, above)
    if kind is dict:
        pairs = [
            (_with_plain_numbers(key, name), _with_plain_numbers(item, name, above)) for key, item in value.items()
        ]
        return dict(pairs) if any(a is not b or c is not d for (a, c), (b, d) in zip(pairs, value.items())) else value
    items = [_with_plain_numbers(item, name, above) for item in value]
    return kind(items) if any(map(operator.is_not, items, value)) else value


def _of_subclass(value: Any, builtin_type: type[Any], name: str, above: tuple[int, ...]) -> Any:
    """A container of a subclass: itself, or a plain one of plain numbers where code of its own would give the same."""
    plain = dict(dict.items(value)) if builtin_type is dict else builtin_type(builtin_type.__iter__(value))
    made = _with_plain_numbers(plain, name, above)
    if made is plain:
        return value
    if any(
        getattr(type(value), method, None) is not built_in_member(type(value), method)
        for method in ("__iter__", "items", "__getitem__")
    ):
        raise Interrupt("callable-on-handle", name)
    return made


_encode = json.encoder.c_make_encoder.__call__  # type: ignore[attr-defined]  # private in typeshed


@substitute(_encode, str.translate, str.maketrans)
def _call(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    name = "json.dumps" if "make_encoder" in str(callable_) else callable_.__name__
    return _core.natively(
        callable_,
        tuple([_with_plain_numbers(arg, name) for arg in args]),
        {key: _with_plain_numbers(arg, name) for key, arg in kwargs.items()},
    )
