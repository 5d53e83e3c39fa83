"""Looks at the calling frames: only what names a module is shown, through the same views that attribute reads use."""

from __future__ import annotations

import sys
import types
from typing import Any

from .. import _core
from ..reasons import Interrupt
from .registry import substitute
from .substitutes_code import as_called, caller

__all__ = ["FrameView"]


class FrameView:
    """`sys._getframe(n)` as captured code sees it: globals and callers, no locals and no code."""

    __slots__ = ("_frame", "_session")

    def __init__(self, session: Any, frame: types.FrameType) -> None:
        self._session = session
        self._frame = frame

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return types.FrameType

    @property
    def f_globals(self) -> Any:
        return module_globals(self._session, self._frame)

    @property
    def f_back(self) -> Any:
        frame = self._frame.f_back
        while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            if frame.f_code.co_name == "rehearse":
                raise Interrupt("unsupported-code", "a look at the frames outside the compiled function")
            frame = frame.f_back
        if frame is None:
            raise Interrupt("unsupported-code", "a look at the frames outside the compiled function")
        return FrameView(self._session, frame)

    def __getattr__(self, name: str) -> Any:
        raise Interrupt("unsupported-code", f"a look at {name} of a frame")

    def __reduce_ex__(self, _protocol: Any) -> Any:
        raise Interrupt("unsupported-code", "a copy of a frame")


_PACKAGE = __file__.rsplit("/rehearsal/", 1)[0] + "/"


def module_globals(session: Any, frame: types.FrameType) -> Any:
    """The view of the globals of a frame whose function belongs to a module; others interrupt."""
    found = frame.f_globals
    module = sys.modules.get(found.get("__name__", ""))
    if module is None or vars(module) is not found:
        raise Interrupt("unsupported-code", "globals that are no module's")
    return _core.read(module, "__dict__")


@substitute(sys._getframe)
def _getframe(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> FrameView:
    depth = args[0] if args else 0
    if type(depth) is not int or len(args) > 1 or kwargs:
        return callable_(*args, **kwargs)
    return FrameView(session, caller(max(depth, 0)))


if hasattr(sys, "_getframemodulename"):
    @substitute(sys._getframemodulename)
    def _getframemodulename(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        def bound(depth: int = 0) -> Any:
            return module_globals(session, caller(depth))["__name__"]
        return as_called(bound, callable_, args, kwargs)


@substitute(globals)
def _globals(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if args or kwargs:
        return callable_(*args, **kwargs)
    return module_globals(session, caller())
