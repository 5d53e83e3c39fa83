"""functools.lru_cache and partial: a cache made inside works by itself; one from outside is called through (verdicts.py)."""

from __future__ import annotations

import functools
import types
from typing import Any

from .. import _core
from ..reasons import Interrupt
from .bodies import Surroundings
from .registry import substitute

__all__ = ["call_through", "is_own_cache"]

_WRAPPER = functools._lru_cache_wrapper


def is_own_cache(wrapper: Any) -> bool:
    """Whether a cache was made inside, around a Python function: what it calls is watched, and what it keeps is nobody else's."""
    return _core.is_internal(wrapper) and isinstance(wrapper.__wrapped__, (types.FunctionType, types.MethodType))


def call_through(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A cache from outside: what it wraps is captured, in case its answer is not kept; but what that changes, it changes once, not at each call."""
    function = _core.read(callable_, "__wrapped__") if _core.is_external(callable_) else callable_.__wrapped__
    recorder = session.recorder
    around, steps, written = Surroundings(session, function, *args), len(recorder.tape), len(recorder.written)
    result = _core.captured(function, args, kwargs)
    changed = around.changed() or len(recorder.written) > written and "a tensor" or any(
        step.effect for step in recorder.tape[steps:]) and "random numbers or tensors"
    if changed:
        name = getattr(function, "__qualname__", "a function")
        raise Interrupt("unknown-callable", f"{name} under functools.lru_cache (it changes {changed} the first time it is called)")
    return result


@substitute(_WRAPPER)
def _make(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    made = _core.natively(callable_, args, kwargs)
    _core.mark_internal(made)
    made.__wrapped__ = args[0]   # functools sets it a moment later
    return made


@substitute(_WRAPPER.cache_info, _WRAPPER.cache_clear, _WRAPPER.cache_parameters if hasattr(_WRAPPER, "cache_parameters") else None)
def _look(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not args or not _core.is_internal(args[0]):
        raise Interrupt("unknown-callable", f"lru_cache.{callable_.__name__} of a cache from outside")
    return _core.natively(callable_, args, kwargs)


@substitute(functools.partial.__call__)
def _partial_call(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`super().__call__(...)` of a subclass of partial."""
    made, *more = args
    return _core.captured(made.func, (*made.args, *more), {**made.keywords, **kwargs})
