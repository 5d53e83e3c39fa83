"""Functions that tools register: at the start and end of a capture, on each new entry, on guards."""

from __future__ import annotations

import enum
import inspect
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ... import config
from ...exc import IncorrectUsage
from ...vocabulary.scopes import scope
from .captures import Capture

if TYPE_CHECKING:
    from .captures import Capture


_F = TypeVar("_F", bound=Callable[..., Any])


class CallbackTrigger(enum.Enum):
    """Why something is compiled."""

    DYNAMO = 1
    LAZY_BACKWARD = 2
    TRITON_AUTOTUNING = 3
    CUDAGRAPH_RECORDING = 4


@dataclass(frozen=True)
class CallbackArgs:
    """The arguments of a callback."""

    callback_trigger: CallbackTrigger
    compile_id: str


class CallbackHandle:
    """Removes what was registered."""

    def __init__(self, table: list[Any], item: Any) -> None:
        self._table, self._item = table, item

    def remove(self) -> None:
        if self._item in self._table:
            self._table.remove(self._item)

    def __enter__(self) -> CallbackHandle:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.remove()


_starts: list[Callable[..., Any]] = []
_ends: list[Callable[..., Any]] = []
_entry_hooks: list[Callable[..., Any]] = []


class _Depth(threading.local):
    depth = 0


_nested = _Depth()


def on_compile_start(callback: _F) -> _F:
    """Call this before each capture, with a `CallbackArgs` if it takes an argument.  `framelift.reset()` forgets it.

    >>> import torch, framelift
    >>> @framelift.on_compile_start
    ... def started(args):
    ...     print("capturing", args.compile_id)
    >>> framelift.reset()
    >>> _ = framelift.on_compile_start(started)
    >>> _ = framelift.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
    capturing 0/0
    >>> framelift.reset()
    """
    _starts.append(callback)
    return callback


def on_compile_end(callback: _F) -> _F:
    """Call this after each capture, with a `CallbackArgs` if it takes an argument.  `framelift.reset()` forgets it.

    >>> import framelift
    >>> ended = framelift.on_compile_end(lambda args: None)
    >>> framelift.reset()
    """
    _ends.append(callback)
    return callback


def register_entry_hook(hook: Callable[[Any, Any], Any]) -> CallbackHandle:
    """Call `hook(code, info)` for each entry made: the code captured, and its `Capture` record with graph, guards and
    source.

    >>> import torch, framelift
    >>> with framelift.register_entry_hook(lambda code, info: print(code.co_name, info.operations)):
    ...     _ = framelift.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
    <lambda> 1
    """
    _entry_hooks.append(hook)
    return CallbackHandle(_entry_hooks, hook)


def entry_made(code: Any, info: Capture) -> None:
    """Tell the entry hooks."""
    for hook in list(_entry_hooks):
        hook(code, info)


@scope
def capturing(compile_id: str) -> Iterator[None]:
    """Around one capture; of nested ones only the outermost is reported."""
    depth, args = _nested.depth, CallbackArgs(CallbackTrigger.DYNAMO, compile_id)
    outermost = depth == 0
    try:
        _nested.depth = depth + 1
        if outermost and _starts:
            _call_all(_starts, args)
        yield
    finally:
        _nested.depth = depth
        if outermost and _ends:
            _call_all(_ends, args)


def _call_all(callbacks: list[Callable[..., Any]], args: CallbackArgs) -> None:
    for callback in list(callbacks):
        called(callback, args)


def called(callback: Callable[..., Any], args: Any) -> Any:
    """Call a callback, with a record if it takes an argument."""
    try:
        takes = bool(inspect.signature(callback).parameters)
    except ValueError:
        takes = True
    return callback(args) if takes else callback()


def clear() -> None:
    """Forget the callbacks; entry hooks have handles of their own."""
    _starts.clear()
    _ends.clear()


# ---- Changes that an entry makes beside its graph: `config.side_effect_replay_policy`, and hooks on its c ----


#: called with a capture and its entry's function, before the entry is used: they may replace its code
CODE_HOOKS: list[Callable[[Capture, types.FunctionType], Any]] = []

_changed: weakref.WeakKeyDictionary[types.CodeType, tuple[str, ...]] = weakref.WeakKeyDictionary()


def show_entry(capture: Capture, entry: Any, changed: tuple[str, ...]) -> None:
    """An entry was made that changes the objects at these places."""
    capture.changed = changed
    if changed and config.side_effect_replay_policy in ("warn", "error"):
        text = (
            f"While compiling, we found certain side effects happened in {capture.name}. "
            f"Here are the list of potential sources you can double check: {list(changed)}"
        )
        if config.side_effect_replay_policy == "error":
            raise IncorrectUsage(text)
        warnings.warn(text, stacklevel=2)
    if CODE_HOOKS:
        _changed[entry.__code__] = changed
        for hook in CODE_HOOKS:
            hook(capture, entry)
        _changed[entry.__code__] = changed


def side_effects_of(code: types.CodeType) -> tuple[str, ...] | None:
    """The places that an entry with this code changes, for hooks on code; None: it is no entry's code."""
    return _changed.get(code)
