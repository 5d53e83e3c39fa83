"""The environment of the process: variables that captured code sets are set when the entry runs, before its graph (so
is the folder it goes to), and breakpoint(), which looks there for what to call.

Operations may look at the environment while they run: so none may come before the first change.
"""

from __future__ import annotations

import functools
import posix
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import _core
from ..._core import is_a
from ...boundary.becomes.opaque import Opaque
from ...calls.call_tables import substitute
from ...guards.checks import gives
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ...rehearsal.session import Session


class Changes:
    """The changes of the environment by captured code, in order."""

    def __init__(self) -> None:
        self.made: list[tuple[Callable[..., None], tuple[bytes, ...]]] = []
        self.folder: str | None = None  # to which captured code has gone

    def now(self, name: bytes) -> bytes | None:
        """The value of a variable that was set here, None where it was deleted; LookupError: neither."""
        for function, (changed, *value) in reversed(self.made):
            if changed == name and function is not posix.chdir:
                return value[0] if value else None
        raise LookupError

    def carried_out(self) -> Callable[[], None]:
        """Return a function that makes the same changes to the environment of the process."""
        made = tuple(self.made)

        def carry_out() -> None:
            for function, args in made:
                function(*args)

        return carry_out


def changes_of(session: Session) -> Changes | None:
    """Return the changes of the environment by captured code, if any."""
    return session.notes.get(Changes)


@substitute(posix.putenv, posix.unsetenv)
def _change(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    plain = not kwargs and len(args) == (2 if callable_ is posix.putenv else 1) and all(type(a) is bytes for a in args)
    if not plain or not args[0] or b"=" in args[0] or any(b"\0" in one for one in args):
        raise Interrupt("unknown-callable", f"posix.{callable_.__name__}, which may raise an error,")
    change(session, callable_, args)


def change(session: Session, function: Any, args: tuple[bytes, ...]) -> Changes:
    """Note a change that the entry makes before its graph runs."""
    if session.exporting or session.recorder.tape:
        raise Interrupt("unknown-callable", f"posix.{function.__name__} after operations of torch")
    session.own_answers.append(function.__name__)  # of this process
    changes: Changes = session.notes.setdefault(Changes, Changes())
    changes.made.append((function, args))
    return changes


_NAME = b"PYTHONBREAKPOINT"


def _what_to_call() -> bytes | None:
    return None if sys.flags.ignore_environment else _core.environment(_NAME)


@substitute(breakpoint)
def _breakpoint(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A debugger needs the real frames; what the program put in its place is a function like any other."""
    hook = _core.read(sys, "breakpointhook")
    return _core.captured(_named_hook(session) if hook is sys.__breakpointhook__ else hook, args, kwargs)


def _named_hook(session: Session) -> Any:
    """Return the hook that the environment names, as CPython finds it."""
    path = _named(session) or b"pdb.set_trace"
    if path == b"0":
        return _nothing
    module, _, name = (path if b"." in path else b"builtins." + path).decode("ascii", "replace").rpartition(".")
    if module not in sys.modules or not name.isidentifier():
        raise Interrupt("unsupported-code", "breakpoint() of what is not imported")
    try:
        hook = _core.read(session.import_name({}, 0, (name,), module), name)
    except AttributeError:
        raise Interrupt("unsupported-code", "breakpoint() of what its module does not have") from None
    is_debugger = is_a(hook, types.FunctionType) and hook.__globals__ is getattr(sys.modules.get("pdb"), "__dict__", 0)
    if is_debugger or type(hook) is Opaque:
        raise Interrupt("unsupported-code", "breakpoint()")
    return hook


def _named(session: Session) -> bytes | None:
    try:
        return None if sys.flags.ignore_environment else (changes_of(session) or Changes()).now(_NAME)
    except LookupError:
        found = _what_to_call()
        said = f"{_NAME.decode()} is {found!r} in the environment"
        session.world.guard(const(_what_to_call), "CHECK", (functools.partial(gives, found), said))
        return found


def _nothing(*_args: Any, **_kwargs: Any) -> None: ...
