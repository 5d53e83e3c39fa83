"""Files that captured code makes, writes, reads again and removes: private ones in memory, while nothing outside is
changed; what became of each is an effect of the entry.  Questions about external files: the answers are facts.

Files are captured only where one graph is asked for: those that are open cannot be handed over at a graph break.
"""

from __future__ import annotations

import errno
import functools
import io
import locale
import os
import posix
import types
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

from ... import _core
from ..._core import is_a
from ...calls.call_tables import substitute
from ...calls.pure import lookup
from ...graph.fx.tape import Step
from ...graph.fx.targets import OneNode
from ...guards.checks import check, gives
from ...torch_ports.operators import HigherOrderOperator, OpOverload, OpOverloadPacket
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt
from ...vocabulary.torch_code import is_torch_function
from .environment import change, changes_of

if TYPE_CHECKING:
    from ...rehearsal.session import Session

_DENIED = "opens, reads or writes files and devices"


def _refusal(callable_: Any, why: str = _DENIED) -> Interrupt:
    name = "io.open" if callable_ is io.open else f"os.{callable_.__name__}"
    return Interrupt("unknown-callable", f"{name} ({why})")


# ---- facts of the real files ----------------------------------------------------------------------------------------


def _folder(path: str) -> str:
    return os.path.dirname(path) or "."


def _is_absent(path: str) -> bool:
    """Nothing is there; of names that no file can have, too long ones among them, nobody says so."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    return False


@check
def _is_free(path: str, folder: str, _: Any) -> bool:
    """No file is there, and one can be made."""
    return (
        _is_absent(path)
        and os.path.realpath(_folder(path)) == folder
        and os.path.isdir(folder)
        and os.access(folder, os.W_OK | os.X_OK)
    )


@check
def _is_missing(path: str, _: Any) -> bool:
    """No file is there, and all folders on the way are."""
    return _is_absent(path) and os.path.isdir(_folder(path)) and os.access(_folder(path), os.X_OK)


@check
def _is_replaceable(path: str, folder: str, _: Any) -> bool:
    """A file of its own is there, under this name alone, and it can be written."""
    return (
        os.path.realpath(_folder(path)) == folder
        and os.path.isfile(path)
        and not os.path.islink(path)
        and os.lstat(path).st_nlink == 1
        and os.access(path, os.W_OK)
        and os.access(folder, os.W_OK | os.X_OK)
    )


@check
def _leads_to(path: str, name: str, is_link: bool, _: Any) -> bool:
    """A path leads to this file, by a link of its own or without."""
    return os.path.realpath(path) == name and os.path.islink(path) is is_link


def leave_file(path: str, *contents: bytes | None) -> None:
    """Files were written under this name one after the other, and removed but for the last, which was, too, where its
    content is None.  Entries call it.
    """
    for number, content in enumerate(contents):
        if number:
            os.unlink(path)
        if content is not None:
            with open(path, "wb") as file:
                file.write(content)


# ---- private files --------------------------------------------------------------------------------------------------


class PrivateFiles:
    """The files of captured code: by path, the memory of each version; the last is None where the file was removed."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.memory: dict[str, list[int | None]] = {}
        self.opened: list[IO[Any]] = []
        self.first = len(session.recorder.tape)  # the operations before the first file was opened
        session.world.leaving.append(self.leave)
        session.world.finishing.append(self.finish)

    def leave(self) -> None:
        for file in self.opened:
            file.close()
        for descriptor in (one for history in self.memory.values() for one in history if one is not None):
            os.close(descriptor)
        self.opened, self.memory = [], {}

    def finish(self) -> None:
        """Record the changes of the files as effects."""
        if not all(file.closed for file in self.opened):
            raise Interrupt("unknown-callable", "a file that is not closed")
        if self.memory and not all(map(_sees_no_files, self.session.recorder.tape[self.first :])):
            raise Interrupt("unknown-callable", "a file written before an operation that may look at it")
        for path, history in self.memory.items():
            self.session.world.write("call", leave_file, path, (path, *map(_content, history)))

    def name_of(self, path: str) -> str:
        """The one name of a file, whatever links lead to it; that they do is guarded."""
        name, is_link = _there(io.open, os.path.realpath, path), os.path.islink(path)
        said = f": {path!r} leads to {name!r}"
        self.session.world.guard(
            const(_leads_to), "CHECK", (functools.partial(_leads_to, path, name, is_link), said), path
        )
        return name

    def now(self, name: str) -> int | None:
        """The memory of a file that is there."""
        return self.memory[name][-1] if name in self.memory else None

    def open(self, path: str, flags: int) -> int:
        """A descriptor for a file, as `os.open` with these flags gives one."""
        name = self.name_of(path)
        if name not in self.memory:
            self._meet(path, name, flags)
        descriptor = self.now(name)
        if descriptor is None and not flags & os.O_CREAT:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if descriptor is not None and flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if descriptor is None:
            if os.path.islink(path) or name.startswith(_NO_STORAGE):
                raise _refusal(io.open)
            descriptor = os.memfd_create("framelift")
            history = self.memory.setdefault(name, [])
            del history[-1:]  # where it was removed
            history.append(descriptor)
        return os.open(f"/proc/self/fd/{descriptor}", flags & ~(os.O_CREAT | os.O_EXCL))

    def _meet(self, path: str, name: str, flags: int) -> None:
        """The first touch of a file: which one is there is guarded, and what is read of an external one is denied."""
        guard, place = self.session.world.guard, const(leave_file)
        folder = os.path.dirname(name)
        if os.path.basename(path) in ("", ".", ".."):
            raise _refusal(io.open)
        if not flags & os.O_CREAT and _is_missing(path, None):
            guard(
                place,
                "CHECK",
                (functools.partial(_is_missing, path), f": there is no file {path!r}"),
                ("missing", path),
            )
        elif flags & os.O_CREAT and _is_free(path, folder, None):
            guard(
                place, "CHECK", (functools.partial(_is_free, path, folder), f": {path!r} can be made"), ("free", path)
            )
        elif flags & os.O_CREAT and flags & os.O_TRUNC and _is_replaceable(path, folder, None):
            guard(
                place,
                "CHECK",
                (functools.partial(_is_replaceable, path, folder), f": {path!r} can be replaced"),
                ("own", path),
            )
        else:
            raise _refusal(io.open)

    def has(self, path: str, follows: bool) -> bool | None:
        """Return whether a file is there, None where captured code has not touched it.  `follows`: so does the
        question.
        """
        name = self.name_of(path)
        return None if name not in self.memory or os.path.islink(path) and not follows else self.now(name) is not None

    def remove(self, path: str) -> None:
        name = self.name_of(path)
        if os.path.islink(path):
            raise _refusal(os.unlink)
        if name not in self.memory:
            if not _is_missing(path, None):
                raise _refusal(os.unlink)
            self._meet(path, name, 0)
        if self.now(name) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self.memory[name].append(None)


#: where files are no storage: what is written there does something
_NO_STORAGE = ("/proc/", "/sys/", "/dev/")


def _content(descriptor: int | None) -> bytes | None:
    return None if descriptor is None else os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def private_files(session: Session) -> PrivateFiles:
    """The files of a rehearsal."""
    found: PrivateFiles | None = session.notes.get(PrivateFiles)
    if found is None:
        found = session.notes[PrivateFiles] = PrivateFiles(session)
        session.own_answers.append("files")
    return found


def changes_files(session: Session) -> bool:
    """Return whether captured code has made files, or gone to another folder: code that runs unwatched sees nothing of
    it.
    """
    files: PrivateFiles | None = session.notes.get(PrivateFiles)
    changes = changes_of(session)
    left = {} if files is None else files.memory
    is_seen = any(history[-1] is not None or os.path.lexists(name) for name, history in left.items())
    return is_seen or changes is not None and changes.folder is not None


def _sees_no_files(step: Step) -> bool:
    """Return whether an operation is torch's own: those of others may look at files while the graph runs."""
    function = step.target.func
    if is_a(step.target, OneNode):
        return False
    if is_a(function, OpOverload):
        return function.namespace in ("aten", "prims")
    if is_a(function, (OpOverloadPacket, HigherOrderOperator)):
        return False
    return type(function) is not types.FunctionType or is_torch_function(function)


def _plain_path(session: Session, callable_: Any, path: Any, shown: bool = False) -> str:
    """The path that a call is given, as a text.  `shown`: the program will see it again."""
    if is_a(path, os.PathLike):
        path = _core.captured(os.fspath, (path,), None)
    if type(path) is not str or "\0" in path:
        raise _refusal(callable_)
    changes = changes_of(session)
    if changes is not None and changes.folder is not None and not os.path.isabs(path):
        if shown:
            raise _refusal(callable_, "a relative path after a change of the folder")
        path = os.path.join(changes.folder, path)
    return path


@substitute(io.open)
def _open(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not lookup.takes(callable_, args, kwargs):
        return callable_(*args, **kwargs)  # raises

    def bound(
        file: Any,
        mode: Any = "r",
        buffering: Any = -1,
        encoding: Any = None,
        errors: Any = None,
        newline: Any = None,
        closefd: Any = True,
        opener: Any = None,
    ) -> Any:
        plain = type(mode) is str and type(buffering) is int and all(type(one) in _PLAIN for one in (encoding, errors))
        if not plain or type(newline) not in _PLAIN or closefd is not True or opener is not None:
            raise _refusal(callable_)
        if not session.fullgraph or session.exporting:
            raise _refusal(callable_)
        path = _plain_path(session, callable_, file, shown=True)
        if encoding is None and "b" not in mode:
            found = locale.getencoding()
            session.world.guard(
                const(locale.getencoding), "CHECK", (functools.partial(gives, found), f"() == {found!r}")
            )
        files = private_files(session)
        opened = callable_(path, mode, buffering, encoding, errors, newline, True, files.open)
        files.opened.append(opened)
        return opened

    return bound(*args, **kwargs)


_PLAIN = (str, types.NoneType)


@substitute(posix.unlink, posix.remove)
def _unlink(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not lookup.takes(callable_, args, kwargs):
        return callable_(*args, **kwargs)  # raises
    if kwargs or len(args) != 1 or not session.fullgraph or session.exporting:
        raise _refusal(callable_)
    private_files(session).remove(_plain_path(session, callable_, args[0], shown=True))


# ---- questions ------------------------------------------------------------------------------------------------------


@check
def _answers(answer: Any, path: str, ask: Callable[[str], Any]) -> bool:
    """A question about a path has this answer."""
    return bool(ask(path) == answer)


#: question -> its answer for a file that captured code made; the functions it asks, which the program may replace
_QUESTIONS: dict[Any, tuple[bool, tuple[str, ...]]] = {
    os.path.exists: (True, ("stat",)),
    os.path.lexists: (True, ("lstat",)),
    os.path.isfile: (True, ("stat",)),
    os.path.isdir: (False, ("stat",)),
    os.path.islink: (False, ("lstat",)),
}


@substitute(*_QUESTIONS)
def _question(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    of_private, asks = _QUESTIONS[callable_]
    path = _plain_path(session, callable_, *args)
    files: PrivateFiles | None = session.notes.get(PrivateFiles)
    there = files.has(path, "stat" in asks) if files is not None else None
    answer: bool = _asked(session, callable_, path, asks)
    return answer if there is None else there and of_private


@substitute(os.path.realpath)
def _realpath(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    path, *strict = args
    if any(strict):
        raise _refusal(callable_)
    answer: str = _asked(session, callable_, _plain_path(session, callable_, path), ("lstat", "readlink", "getcwd"))
    return answer


def _asked(session: Session, question: Any, path: str, asks: tuple[str, ...]) -> Any:
    """The answer of a question about a path outside, guarded."""
    replaced = any(_core.read(os, name) is not getattr(posix, name) for name in asks)
    if replaced or not all(map(_sees_no_files, session.recorder.tape)):
        raise _refusal(question)
    answer = _there(question, question, path)
    said = f"({path!r}) is {answer!r}"
    session.world.guard(const(question), "CHECK", (functools.partial(_answers, answer, path), said), path)
    return answer


@check
def _is_folder(path: str, real: str, _: Any) -> bool:
    """One can go to a folder, and it is this one."""
    return os.path.isdir(path) and os.access(path, os.X_OK) and os.path.realpath(path) == real


@substitute(posix.getcwd)
def _getcwd(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    if args or kwargs:
        return callable_(*args, **kwargs)  # raises
    changes = changes_of(session)
    if changes is not None and changes.folder is not None:
        return changes.folder
    found: str = _there(callable_, callable_)
    session.world.guard(const(callable_), "CHECK", (functools.partial(gives, found), f"() == {found!r}"))
    return found


def _there(callable_: Any, ask: Callable[..., Any], *args: Any) -> Any:
    """An answer; where the folder of the process is gone, it may be back at the next call."""
    try:
        return ask(*args)
    except OSError:
        raise _refusal(callable_, "the folder of the process is gone") from None


@substitute(posix.chdir)
def _chdir(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not lookup.takes(callable_, args, kwargs):
        return callable_(*args, **kwargs)  # raises
    if kwargs:
        raise _refusal(callable_)
    path = _plain_path(session, callable_, args[0])
    real = os.path.realpath(path)
    if not _is_folder(path, real, None):
        raise _refusal(callable_)
    said = f": {path!r} is the folder {real!r}"
    session.world.guard(const(callable_), "CHECK", (functools.partial(_is_folder, path, real), said), path)
    change(session, callable_, (os.fsencode(real),)).folder = real
