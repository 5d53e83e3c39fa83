"""Functions that `torch.jit.script` compiled: captured as the Python code they were made of.

TorchScript's arguments are copies of lists and dictionaries, ints become floats where those are declared, and its
errors have classes of their own.  What was traced (`torch.jit.trace`) is not its code any more, and stays one node.
"""

from __future__ import annotations

import types
from typing import Any

import torch

from ... import _core
from ..._core import is_a
from ...calls.call_tables import handler_form, substitute
from ...graph.symbols.numbers import NUMBERS
from ...recording.session import Session
from ...torch_ports.graphs import try_get_jit_cached_function
from ...vocabulary.feature_state import FeatureState
from ...vocabulary.reasons import Interrupt
from ..marks import allowed

#: the sources of script functions that captured code is in
_RUNNING: FeatureState[list[types.FunctionType]] = FeatureState(list)


@handler_form
def call_scripted(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Its Python code, where it is known and the arguments fit; otherwise one node of the graph."""
    source, declared = _source_of(callable_), callable_.schema.arguments
    if source is None or len(args) > len(declared):
        return allowed(session, callable_, args, kwargs)
    given = [_given(session, value, row.type) for value, row in zip(args, declared)]
    named = {row.name: _given(session, kwargs[row.name], row.type) for row in declared if row.name in kwargs}
    if len(named) != len(kwargs) or any(value is _UNFIT for value in (*given, *named.values())):
        return allowed(session, callable_, args, kwargs)
    running = _RUNNING.of(session)
    running.append(source)
    try:
        return _core.captured(source, tuple(given), named)
    except Exception as error:
        raise Interrupt("unknown-callable", f"{source.__qualname__}, a script function that raises,") from error
    finally:
        running.pop()


def _source_of(function: Any) -> types.FunctionType | None:
    """The Python function that a script function was made of; None for what was traced."""
    source = getattr(function, "_torchdynamo_inline", None)
    if type(source) is not types.FunctionType:
        return None
    scripted = try_get_jit_cached_function(source)
    return source if scripted is not None and scripted.qualified_name == function.qualified_name else None


_UNFIT = object()
_PLAIN = (bool, int, float, str, type(None))


def _given(session: Session, value: Any, kind: Any) -> Any:
    """Return the value that TorchScript makes of an argument; `_UNFIT`: not known."""
    if session.is_stand_in(value):
        return value if kind.kind() in ("TensorType", "OptionalType") else _UNFIT
    if kind.kind() == "FloatType" and type(value) is int:
        return float(value)
    if type(value) is list and kind.kind() == "ListType":
        parts = [_given(session, part, kind.getElementType()) for part in value]
        return _UNFIT if any(part is _UNFIT for part in parts) else parts
    return value if is_a(value, _PLAIN) or type(value) in NUMBERS and kind.kind() == "IntType" else _UNFIT


@substitute(torch.jit.is_scripting)
def _scripting(session: Session) -> bool:
    return bool(_RUNNING.of(session))
