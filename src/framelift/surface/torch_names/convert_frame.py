"""`register_bytecode_hook`: hooks see the code of the generated entry, and may return another one.

Tools (depyf, vLLM) want more than a hook is given: they walk up the stack to a function `_compile` in a file
`convert_frame.py` and read its local `frame`.  So this file and its function have these names.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...torch_ports.loaded import dynamo_convert_frame

if TYPE_CHECKING:
    from ...capture.records.captures import Capture


@dataclass(frozen=True, slots=True)
class Frame:
    """The frame that was captured, by the names of a Python frame.

    >>> from framelift.surface.torch_names.convert_frame import Frame
    >>> def f(x):
    ...     return x
    >>> Frame.of(f, (1,)).f_locals
    {'x': 1}
    """

    f_code: types.CodeType
    f_globals: dict[str, Any]
    f_locals: dict[str, Any]
    f_builtins: dict[str, Any]
    closure: tuple[Any, ...]
    func: types.FunctionType
    f_lasti: int = 0

    @property
    def f_lineno(self) -> int:
        return self.f_code.co_firstlineno

    @classmethod
    def of(cls, function: types.FunctionType, values: tuple[Any, ...]) -> Frame:
        """The frame of a call before it begins: its parameters, and what it closes over."""
        code, closure = function.__code__, function.__closure__ or ()
        held = {name: cell.cell_contents for name, cell in zip(code.co_freevars, closure) if _is_set(cell)}
        found = {**dict(zip(code.co_varnames, values)), **held}
        typed: Any = function  # not every version of the type stubs has its builtins
        builtins = typed.__builtins__
        return cls(code, function.__globals__, found, builtins, closure, function)


def _is_set(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  (raises where it is empty)
    except ValueError:
        return False
    return True


def _compile(frame: Frame, entry: types.FunctionType, hooks: list[Any]) -> None:
    for hook in hooks:
        code = hook(frame.f_code, entry.__code__)
        if code is not None:
            entry.__code__ = code


def show_code(capture: Capture, entry: types.FunctionType) -> None:
    """Let all hooks that are registered see an entry."""
    hooks = getattr(dynamo_convert_frame.get(), "_bytecode_hooks", None)
    if hooks and capture.called is not None:
        _compile(Frame.of(*capture.called), entry, list(hooks.values()))
