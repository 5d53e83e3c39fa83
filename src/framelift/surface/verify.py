"""`compile(..., verify=n)`: the first calls run twice, eagerly and compiled, and are compared.

What eager mode changed in memory is put back before compiled code runs (repeatable.py), and nothing is printed, logged
or warned of while it runs, so effects happen once.  A call that cannot be repeated is not verified, with a warning.
"""

from __future__ import annotations

import contextlib
import io
import logging
import types
import warnings
from collections.abc import Iterator
from typing import Any

from .. import _core
from ..backends.correctness import difference
from ..exc import VerificationFailed
from ..graph.state.torch_state import SavedState
from ..substitutes.marks import on_code
from ..vocabulary.scopes import scope
from .around_compiled import AroundCompiled
from .repeatable import NotRepeatable, Reached


class Verified(AroundCompiled):
    """A compiled callable whose first `calls` calls (True: all) are compared with eager mode.

    >>> import torch, framelift
    >>> def wrong(graph_module, example_inputs):
    ...     return lambda *inputs: (torch.zeros(1),)
    >>> framelift.compile(lambda x: x + 1, backend=wrong, verify=2)(torch.ones(1))
    Traceback (most recent call last):
    framelift.exc.VerificationFailed: ...
    """

    def __init__(self, compiled: Any, calls: int | bool) -> None:
        super().__init__(compiled)
        self.left = float("inf") if calls is True else calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.left <= 0 or _core.get_mode() != 0:
            return self._compiled(*args, **kwargs)
        self.left -= 1
        return self.compare(args, kwargs)

    def compare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run both ways; what the captured way gives, or `VerificationFailed`."""
        function, bound = _plain_call(self._compiled)
        given = ((*bound, *args), kwargs)
        try:
            reached = Reached([function, given])
        except NotRepeatable as error:
            warnings.warn(f"framelift: a call of {function.__qualname__} is not verified: {error}", stacklevel=3)
            return self._compiled(*args, **kwargs)
        before = SavedState()
        with _silence():
            want = _outcome(lambda: function(*given[0], **kwargs))
        wanted = reached.put_back()
        before.restore()
        got = _outcome(lambda: self._compiled(*args, **kwargs))
        found = self._difference(want, got) or reached.difference(wanted)
        if found:
            raise VerificationFailed(f"{function.__qualname__}, compiled, differs from eager: {found}")
        if got[0] == "raised":
            raise got[1]
        return got[1]

    @staticmethod
    def _difference(want: tuple[str, Any], got: tuple[str, Any]) -> str:
        if want[0] != got[0]:
            return f"eager {want[0]} {want[1]!r}, compiled code {got[0]} {got[1]!r}"
        if want[0] == "raised":
            return "" if type(want[1]) is type(got[1]) else f"eager raised {want[1]!r}, compiled code {got[1]!r}"
        return difference(want[1], got[1])


def _plain_call(compiled: Any) -> tuple[Any, tuple[Any, ...]]:
    """The function that a call without compiling would run, and its first arguments."""
    receiver = compiled.receiver
    call = _core.type_lookup(type(receiver), "__call__", None) if receiver is not None else None
    return (call, (receiver,)) if type(call) is types.FunctionType else (compiled.function, compiled.bound)


def _outcome(call: Any) -> tuple[str, Any]:
    try:
        return "returned", call()
    except Exception as error:
        return "raised", error


@scope
def _silence() -> Iterator[None]:
    """Nothing is printed, logged or warned of."""
    handlers = logging.Logger.callHandlers
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        with warnings.catch_warnings(record=True):
            setattr(logging.Logger, "callHandlers", lambda self, record: None)
            try:
                yield
            finally:
                setattr(logging.Logger, "callHandlers", handlers)


# In captured code it is the function that it compiles.
on_code(lambda session, self, /, *args, **kwargs: _core.captured(self._compiled, args, kwargs))(Verified.__call__)
