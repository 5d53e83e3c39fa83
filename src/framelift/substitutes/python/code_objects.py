"""Source text and classes that captured code would make: left to eager mode.

The code of such a text, and the body of a class, read and write names of a dictionary; a class is known to its bases
from the moment it is made.
"""

from __future__ import annotations

import builtins
import os
import types
from typing import Any

import torch

from ...calls.call_tables import substitute
from ...calls.frame_views import caller
from ...recording.session import Session
from ...vocabulary.class_reads import qualname_of
from ...vocabulary.reasons import Interrupt

_OPTIMIZER = os.path.join(os.path.dirname(torch.__file__), "optim", "optimizer.py")


def optimizer_break(callable_: Any) -> bool:
    """Return whether this is the break that torch.optim asks for around a step, so that it is compiled without grad
    mode.

    The driver sees to that by itself.
    """
    if getattr(callable_, "__name__", "") != "graph_break":
        return False
    frame: types.FrameType | None = caller()
    while frame is not None and frame.f_code.co_name == "graph_break":  # its own frame, where the hook met it
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename == _OPTIMIZER


@substitute(exec, eval)
def _run(session: Session, callable_: Any, source: Any, globals: Any = None, locals: Any = None, /, **_: Any) -> Any:
    stop = Interrupt("unsupported-code", f"{callable_.__name__}()")
    stop.run_eagerly = globals is None  # behind a break, a frame has no variables that the rest does not use
    raise stop


@substitute(builtins.__build_class__)
def _build_class(session: Session, body: Any, name: Any, /, *_bases: Any, **_kwargs: Any) -> Any:
    raise Interrupt("unsupported-code", f"the class statement of {name}")


#: callables that are always left to eager mode, in words: they make code, classes, or what is another in each call
_REFUSED: dict[Any, str] = {
    compile: "compile()",
    types.FunctionType: "types.FunctionType(...)",
    type.__new__: "a class made by calling type",
}


@substitute(*_REFUSED)
def _refuse(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise Interrupt("unsupported-code", _REFUSED[callable_])


def makes_class(meta: type) -> Interrupt:
    """Return the interrupt for a call that makes a class."""
    return Interrupt("unsupported-code", f"a class made by calling {qualname_of(meta)}")
