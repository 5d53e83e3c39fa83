"""Syntax trees made inside: nodes are plain records, whose fields are facts of their classes."""

from __future__ import annotations

import ast
import types
from typing import TYPE_CHECKING, Any

from ... import _core
from ..._core import is_a
from ...boundary.becomes.leaves import LEAF_TYPES
from ...calls.call_tables import substitute
from ...vocabulary.class_reads import members_of, mro_of, qualname_of
from ...vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ...rehearsal.session import Session

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


@substitute(ast.AST.__new__)
def _make_empty(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A node without fields, whatever else it is given."""
    return _core.natively(callable_, args, kwargs)


@substitute(ast.AST.__init__)
def _fill(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not args or _core.is_external(args[0]) or id(args[0]) in session.world.by_seen:
        raise Interrupt("callable-on-handle", "AST.__init__")
    for name in ("_fields", "_attributes", "_field_types"):
        session.world.lookup(type(args[0]), name)
    return _core.natively(callable_, args, kwargs)


def makes_nodes(cls: Any) -> Any:
    """A class of the program's, or one kept for old programs: what is C of making its nodes is as above."""
    if not is_a(cls, type) or not _core.is_python_class(cls) or not any(base is ast.AST for base in mro_of(cls)):
        return None
    parts = [_core.type_lookup(cls, name, None) for name in ("__new__", "__init__")]
    parts += [_core.type_lookup(type(cls), "__call__", None)]
    known = all(any(part is one for one in _IN_C) or _is_python(part) for part in parts)
    return _make if known and _core.type_lookup(cls, "__del__", None) is None else None


_IN_C = (vars(ast.AST)["__new__"], vars(ast.AST)["__init__"], vars(type)["__call__"])


def _is_python(part: Any) -> bool:
    return type(part.__func__ if type(part) is staticmethod else part) is types.FunctionType


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
