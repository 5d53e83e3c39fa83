"""`comptime`: run a function of your own while a frame is captured, and look at its state.  In eager mode it does
nothing.
"""

from __future__ import annotations

import dis
import sys
import time
import traceback
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

import torch

from ..boundary.gateway import looked_at
from ..exc import WrongType, WrongValue
from ..substitutes.marks import on_code
from ..substitutes.python.code_objects import caller
from ..torch_ports.modes import DisableTorchFunction
from ..vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ..recording.session import Session


class ComptimeVar:
    """One value as captured code sees it.

    >>> from framelift.surface.comptime import ComptimeVar
    >>> ComptimeVar(3).as_python_constant(), ComptimeVar(3).python_type()
    (3, <class 'int'>)
    """

    def __init__(self, value: Any) -> None:
        self._value = value

    def as_proxy(self) -> Any:
        """The stand-in of a tensor, or the value itself."""
        return self._value

    as_fake = as_proxy

    def is_proxy(self) -> bool:
        return isinstance(self._value, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool))

    def size(self, dim: int | None = None) -> Any:
        return self._value.size() if dim is None else self._value.size(dim)

    def python_type(self) -> type:
        return type(self._value)

    def is_python_constant(self) -> bool:
        return not self.is_proxy()

    def as_python_constant(self) -> Any:
        if self.is_proxy():
            raise WrongType(f"{self!r} is not known while capturing")
        return self._value

    def is_dynamic(self) -> bool:
        return isinstance(self._value, (torch.SymInt, torch.SymFloat))

    def force_static(self) -> None:
        """Make a symbolic number a constant of this capture."""
        if self.is_dynamic():
            int(self._value) if isinstance(self._value, torch.SymInt) else float(self._value)

    def __repr__(self) -> str:
        if isinstance(self._value, torch.Tensor):
            with DisableTorchFunction():
                return f"FakeTensor(..., size={tuple(self._value.shape)})"
        return repr(self._value)


class ComptimeContext:
    """The argument of a function run by `comptime`: the frame that called it.

    >>> import torch, framelift
    >>> @framelift.compile(backend="eager")
    ... def f(x):
    ...     y = x * 2
    ...     framelift.comptime(lambda ctx: print(ctx.get_local("y")))
    ...     return y
    >>> _ = f(torch.ones(3))
    FakeTensor(..., size=(3,))
    """

    def __init__(self, session: Session, frame: types.FrameType) -> None:
        self._session, self._frame = session, frame

    def get_local(self, name: str, *, stacklevel: int = 0) -> ComptimeVar:
        return ComptimeVar(looked_at(self._session.world, self._at(stacklevel).f_locals[name]))

    def graph_break(self, msg: str = "ComptimeContext.graph_break") -> None:
        raise Interrupt("graph-break", f": {msg}")

    def graph(self) -> list[Any]:
        """The operations recorded so far."""
        return list(self._session.tape)

    def assert_static(self, val: ComptimeVar) -> None:
        assert not val.is_dynamic(), f"{val!r} is symbolic"

    def parent(self) -> ComptimeContext:
        return ComptimeContext(self._session, self._at(1))

    def print(self, val: Any, *, file: TextIO | None = None) -> None:
        print(repr(val), file=file)

    def print_graph(self, *, verbose: bool = True, file: TextIO | None = None) -> None:
        for step in self.graph():
            print(step, file=file)

    def print_disas(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        frame = self._at(stacklevel)
        print(dis.Bytecode(frame.f_code, current_offset=frame.f_lasti).dis(), file=file)

    def print_locals(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        for name, value in self._at(stacklevel).f_locals.items():
            print(f"{name} = {ComptimeVar(looked_at(self._session.world, value))!r}", file=file)

    def print_value_stack(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        """CPython's own frame runs: what is on its value stack cannot be looked at."""
        print(f"the value stack of {self._at(stacklevel).f_code.co_qualname} is not visible", file=file)

    def print_value_stack_and_return(self, e: Any, *, stacklevel: int = 0) -> Any:
        self.print_value_stack(stacklevel=stacklevel)
        return e

    def force_static(self, val: ComptimeVar) -> None:
        val.force_static()

    def breakpoint(self) -> None:
        """Python's debugger, in the frame that is captured."""
        import pdb  # where it is used: a program's own `code.py` would be imported with it

        pdb.Pdb().set_trace(self._frame)

    def print_bt(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        traceback.print_stack(self._at(stacklevel), file=file or sys.stdout)

    def print_guards(self, *, file: TextIO | None = None) -> None:
        print("\n".join(map(str, self._session.guards)), file=file)

    def sleep(self, sec: float) -> None:
        time.sleep(sec)

    def _at(self, level: int) -> types.FrameType:
        frame: types.FrameType | None = self._frame
        for _ in range(level):
            frame = frame.f_back if frame is not None else None
        if frame is None:
            raise WrongValue("there is no such frame")
        return frame


class _Comptime:
    """Call a function while capturing: `comptime(fn)` gives it a `ComptimeContext`; the methods are the common cases.

    >>> import torch, framelift
    >>> framelift.comptime(print)   # eager mode: nothing
    >>> framelift.comptime.print_locals()
    """

    def __call__(self, fn: Callable[[ComptimeContext], Any], fallback_fn: Callable[[], Any] = lambda: None) -> Any:
        fallback_fn()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...


def _direct(session: Session, self: Any, fn: Any, fallback_fn: Any = None) -> None:
    fn(ComptimeContext(session, caller()))


def _method(name: str, in_eager_mode: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method of `comptime` that calls the one of this name of a `ComptimeContext`."""

    def call(session: Session, /, *args: Any, **kwargs: Any) -> Any:
        given = [ComptimeVar(arg) for arg in args] if name in _OF_VALUES else args
        return getattr(ComptimeContext(session, caller()), name)(*given, **kwargs)

    def eager(*args: Any, **kwargs: Any) -> Any:
        return in_eager_mode(*args)

    eager.__code__ = eager.__code__.replace(co_name=name)  # code of its own: handlers go by it
    return on_code(call)(eager)


_OF_VALUES = ("print", "assert_static", "force_static")
on_code(_direct)(_Comptime.__call__)
for _name in (
    *("assert_static", "breakpoint", "force_static", "graph_break", "print_bt", "print_disas", "print_graph"),
    *("print_guards", "print_locals", "print_value_stack", "sleep"),
):
    setattr(_Comptime, _name, staticmethod(_method(_name, lambda *args: None)))
setattr(_Comptime, "print", staticmethod(_method("print", print)))
setattr(_Comptime, "print_value_stack_and_return", staticmethod(_method("print_value_stack_and_return", lambda e: e)))

comptime = _Comptime()
