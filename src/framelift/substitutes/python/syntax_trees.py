"""Syntax trees made inside: nodes are plain records, whose fields are facts of their classes."""

from __future__ import annotations

import ast
import types
from typing import TYPE_CHECKING, Any

from ... import _core
from ..._core import is_a
from ...boundary.becomes.leaves import LEAF_TYPES
from ...calls.call_tables import substitute
from ...vocabulary.class_reads import members_of, qualname_of
from ...vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ...rehearsal.session import Session

__all__ = ["check_tree"]

#: CPython's own classes of nodes; those that are kept for old programs make nodes of others
_NODES = frozenset(
    cls
    for cls in vars(ast).values()
    if type(cls) is type
    and issubclass(cls, ast.AST)
    and not is_a(members_of(cls).get("__new__"), (staticmethod, types.FunctionType))
)


@substitute(*_NODES)
def _make(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """C code looks for the names of the fields in the class."""
    for name in ("_fields", "_attributes", "_field_types"):
        session.world.lookup(callable_, name)
    return _core.natively(callable_, args, kwargs)


def check_tree(session: Session, tree: Any) -> None:
    """A tree that the compiler may read unwatched: nodes of CPython's own, made inside, of plain values."""
    waiting, seen = [tree], set()
    while waiting:
        part = waiting.pop()
        kind = type(part)
        if kind in (list, tuple):
            waiting += part
        elif kind in _NODES and id(part) not in session.world.by_seen and not _core.is_external(part):
            if id(part) not in seen:
                seen.add(id(part))
                waiting += vars(part).values()
        elif kind not in LEAF_TYPES and kind is not frozenset:
            raise Interrupt("unsupported-code", f"compile() of a tree that holds {qualname_of(kind)}")
