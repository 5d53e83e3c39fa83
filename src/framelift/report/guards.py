"""Guards for people: the tree of a program, and the list of values it is specialized on."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .._core import is_a
from ..guards.kinds import TensorFacts
from ..guards.misses import items
from ..guards.sentences import _show, path
from ..vocabulary.origins import STEPS
from ..vocabulary.places import Place, brief, place_of
from .model import Guard

if TYPE_CHECKING:
    from .._core import GuardProgram

_WORDS = {
    "TYPE": "is a",
    "IS": "is",
    "EQ": "==",
    "CODE": "has the code",
    "LEN": "has length",
    "KEYS": "has the keys",
    "HAS_KEY": "has as a key the very object",
    "ABSENT": "has no entry",
    "NO_LOOKUP": "has no attribute",
    "DUNDERS": "has the same special methods",
    "EMPTY": "is an empty cell",
    "TENSOR": "is a",
    "SAME": "is the same object as",
    "CHECK": "satisfies",
    "JOINT": "satisfies",
    "UNMARKED": "bears no mark of TorchDynamo's",
}


def guard_tree(program: GuardProgram | None, named: Callable[[str], str] = str) -> tuple[Guard, ...]:
    """The nodes in the order of the program, each with its depth; nodes without checks below them are left out.

    `named` says a path in the user's words.
    """
    if program is None:
        return ()
    described = [program.describe(node) for node in range(program.stats()["nodes"])]
    words = collections.Counter(node for node, _ in program.records())
    visited = set(program.unsettled())
    useful = [bool(row[3]) for row in described]
    for node in range(len(described) - 1, -1, -1):
        if useful[node] and described[node][0] >= 0:
            useful[described[node][0]] = True
    children: dict[int, list[int]] = {}
    for node, row in enumerate(described):
        if useful[node]:
            children.setdefault(row[0], []).append(node)
    rows: list[Guard] = []
    pending = [(node, 0) for node in reversed(children.get(-1, []))]
    while pending:
        node, depth = pending.pop()
        _, step, key, checks = described[node]
        whole = named(path(program, node))
        name = whole if depth == 0 else STEPS[step].show("", key)
        rows.append(
            Guard(
                depth,
                name,
                whole,
                tuple(check_words(program, kind, value) for kind, value in checks),
                _where(program, node),
                words[node],
                node in visited,
            )
        )
        pending.extend((child, depth + 1) for child in reversed(children.get(node, [])))
    return tuple(rows)


def tree_text(program: GuardProgram | None, indent: str, mark: str, reads: bool) -> str:
    """The tree as text, a line for each guard; `reads`: with the line of the program that made it."""
    rows = guard_tree(program)
    return "\n".join(
        f"{indent * g.depth}{mark}{g.step} {'; '.join(g.checks)}" + (f"   {g.source}" if reads and g.source else "")
        for g in rows
    )


def check_words(program: GuardProgram, kind: str, value: Any) -> str:
    """A check in words."""
    word = _WORDS.get(kind, kind)
    if kind == "SAME":
        return f"{word} {path(program, value)}"
    if kind == "TENSOR":
        return f"{word} {tensor_words(value)}" if is_a(value, TensorFacts) else "is a tensor of the same properties"
    if kind in ("DUNDERS", "EMPTY", "UNMARKED"):
        return word
    if kind == "KEYS":
        keys = ", ".join(map(_show, list(value)[:8]))
        return f"{word} {keys}{' ...' if len(value) > 8 else ''}"
    if kind in ("CHECK", "JOINT"):
        return f"{word}: {value[1] if is_a(value, tuple) and len(value) > 1 else _show(value)}"
    if kind == "CODE":
        return f"{word} of {getattr(value, 'co_qualname', '?')}"
    return f"{word} {_show(value)}"


def tensor_words(facts: TensorFacts) -> str:
    """float32 tensor (2, 3) on cpu"""
    size = "(" + ", ".join("any" if n is None else str(n) for n in facts.size) + ")"
    extra = ", requires grad" if facts.requires_grad else ""
    return f"{str(facts.dtype).removeprefix('torch.')} {facts.python_type.__name__} {size} on {facts.device}{extra}"


def _lines(program: GuardProgram, node: int) -> tuple[Any, ...]:
    return program.info[node] if program.info else ()


def _where(program: GuardProgram, node: int) -> str:
    for line in _lines(program, node):
        if is_a(line, tuple):
            place = place_of(*line)
            return f"{brief(place.file)}:{place.line}"
        if line:
            return str(line)
    return ""


def constants(program: GuardProgram) -> Iterator[tuple[str, str, str, Place | None]]:
    """(path, value, kind, place of the read) for every value that the captured code is specialized on."""
    if program is None:
        return
    of_torch: list[bool] = []  # parents come before their children
    for node in range(program.stats()["nodes"]):
        lines = _lines(program, node)
        parent, _, key, checks = program.describe(node)
        of_torch.append(_is_torchs(key) if parent < 0 else of_torch[parent])
        if of_torch[node]:
            continue
        for number, (kind, value) in enumerate(checks):
            found = _constant(kind, value)
            if found is None:
                continue
            line = lines[number] if number < len(lines) else None
            yield path(program, node), found[0], found[1], place_of(*line) if is_a(line, tuple) else None


def is_free(program: GuardProgram, origin: str) -> bool:
    """Return whether a capture holds for other sizes or values at `origin` too: these are symbolic in it."""
    if program is None:
        return False
    for node in range(program.stats()["nodes"]):
        checks = program.describe(node)[3]
        if checks and path(program, node) == origin:
            sizes = [value.size for kind, value in checks if kind == "TENSOR" and is_a(value, TensorFacts)]
            if any(kind == "EQ" for kind, _ in checks) or any(None not in size for size in sizes):
                return False
            return bool(sizes) or all(kind == "TYPE" for kind, _ in checks)
    return False


def _is_torchs(root: Any) -> bool:
    """Return whether a path starts from a module of torch, its globals, or something defined there: not a user's
    choice.
    """
    name = (
        dict.get(root, "__name__")
        if is_a(root, dict)
        else getattr(root, "__module__", None) or getattr(root, "__name__", None)
    )
    return is_a(name, str) and name.partition(".")[0] == "torch"


def relied_on(relations: Any) -> Iterator[tuple[str, str, str, Place | None]]:
    """The same for symbolic numbers: what an expression of the user's fixed them to, or took for granted."""
    for text, line in relations.checks if relations is not None else ():
        if is_a(line, tuple):
            fixed = _FIXED.match(text)
            origins = ", ".join(relations.mentioned(text).values())
            yield (
                origins,
                fixed[1] if fixed else relations.said(text),
                "fixed" if fixed else "relation",
                place_of(*line),
            )


_FIXED = re.compile(r"^\(?\w+\)? == \(?(-?[\d.]+)\)?$")


def _constant(kind: str, value: Any) -> tuple[str, str] | None:
    if kind == "EQ":
        name = (
            "number"
            if is_a(value, (int, float, complex)) and not is_a(value, bool)
            else "text"
            if is_a(value, (str, bytes))
            else "other"
        )
        return _show(value), name
    if kind == "LEN":
        return items(value), "length"
    if kind == "TENSOR" and is_a(value, TensorFacts) and value.python_type.__name__ == "Tensor":
        return "(" + ", ".join("any" if n is None else str(n) for n in value.size) + ")", "shape"
    return None
