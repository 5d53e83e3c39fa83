"""Why something was recompiled, one record per recompile: what `compiled.recompiles()` lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ... import _core
from ...exc import WrongType
from ...guards.misses import Miss
from ...vocabulary.places import Place
from .captures import innermost_compiled, record_of
from .user_names import Names, names_of

if TYPE_CHECKING:
    from ..._core import Compiled
    from .captures import Capture


@dataclass(frozen=True, slots=True)
class Recompile:
    """One recompile: `origin` is the value whose guard (`kind`) failed, `reader` the user's expression that read it.

    >>> import torch, framelift
    >>> compiled = framelift.compile(lambda x, by: x * by, backend="eager")
    >>> for by in (2, 3, 4):
    ...     _ = compiled(torch.ones(2), by)
    >>> (one,) = compiled.recompiles()
    >>> one.origin, one.old, one.new, one.done
    ('by', '2', '3', 'by is symbolic from now on')
    """

    function: str
    origin: str
    kind: str
    old: str
    new: str
    reader: Place | None
    done: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.function}: {self.sentence}; {self.done}"


def recompiles(compiled: Compiled) -> list[Recompile]:
    """Every recompile of a compiled callable or module, in order, and the causes that reached their limit."""
    record = record_of(compiled)
    if record is None:
        raise WrongType(f"not a compiled callable: {type(compiled).__name__}")
    native = innermost_compiled(compiled)
    names = names_of(native)
    found = [_of(names, note.root, note.name, note.miss, note.done) for note in record.notes if note.miss is not None]
    left = [
        _of(
            names,
            one.name == native.function.__code__.co_qualname,
            one.name,
            one.miss,
            f"{one.calls} calls ran eagerly: config.recompile_limit is reached for this cause",
        )
        for one in record.refused.values()
        if one.why == "limit" and one.miss is not None
    ]
    return found + left


def _of(names: Names, root: bool, name: str, miss: Miss, done: str) -> Recompile:
    old, new, done = (names.text(text, root) for text in (miss.old, miss.new, done))
    place = names.place(miss.origin, miss.place, root) if "RELATION" != miss.kind else miss.place
    return Recompile(
        names.title if root and names.title else name,
        names.origin(miss.origin, root),
        miss.kind,
        old,
        new,
        place,
        done,
        names.sentence(miss, root),
    )


def what_was_done(miss: Miss | None, info: Capture) -> str:
    """Describe what a recompile does about the value that caused it, while it is being made."""
    if miss is None:
        return ""
    if miss.kind == "CALL" and not info.reason_id:
        return "recompiled for this form of the call"
    if info.sessions:
        world = info.sessions[-1].world
        symbolic = [
            *(str(origin) for origin in world.numbers),
            *(info.relations.words.values() if info.relations is not None else ()),
        ]
        names = dict.fromkeys(
            name
            for name in symbolic
            if miss.origin
            and (
                name == miss.origin
                or name.startswith(f"{miss.origin}.size(")
                or name.startswith(f"{miss.origin}.stride(")
            )
        )
        fixed = () if info.relations is None else [info.relations.said(text) for text, _ in info.relations.checks]
        if names and not any(
            text.startswith((f"{name} == ", f"call_same_float({name},", f"call_same_text({name},"))
            for text in fixed
            for name in names
        ):
            return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} symbolic from now on"
        if f"len({miss.origin})" in world.dynamism.keyed:
            return f"{miss.origin} is read element by element from now on"
        if miss.origin in world.dynamism.keyed:
            return f"{miss.origin} is read key by key from now on"
        if miss.origin in world.dynamism.guarded_by_code():
            return f"functions at {miss.origin} are distinguished by their code from now on"
    return "recompiled for this value" if not info.reason_id else f"runs eagerly: {info.reason}"


_core.connect(recompiles_of_compiled=recompiles)
