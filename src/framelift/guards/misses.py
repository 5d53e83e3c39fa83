"""A failing guard as data: which value, what it was and is, and the user's expression that read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import _core
from .._core import GuardProgram, is_a
from ..vocabulary.outside_exceptions import raise_outside
from ..vocabulary.places import Place, place_of
from .kinds import TensorFacts, builtin_length, class_name, dict_keys, tensor_facts
from .sentences import _show, changed_properties, explain, hidden_methods, path


@dataclass(frozen=True, slots=True)
class Miss:
    """Why an entry was not used.  `kind` is a guard's, or "state", "distinct", "gone"."""

    origin: str
    kind: str
    old: str
    new: str
    sentence: str
    place: Place | None

    def __str__(self) -> str:
        return self.sentence


def miss_of(program: GuardProgram, failure: tuple[int, int], arguments: tuple[Any, ...]) -> Miss:
    """Convert a result of `GuardProgram.check` to words and data."""
    node, check = failure
    sentence = explain(program, failure, arguments)
    if node < 0:
        return Miss("", {1: "state", 2: "gone"}.get(check, "distinct"), "", "", sentence, None)
    place = _place(program, node, check)
    name = path(program, node)
    checks = program.describe(node)[3]
    if not 0 <= check < len(checks):
        return Miss(name, "REACH", "", "", sentence, place)
    kind, old = checks[check]
    try:
        before, after = _shown(kind, old, program.fetch(node, arguments))
    except Exception as error:  # the value's own code may fail; the sentence says enough
        raise_outside(error)
        before, after = "", ""
    return Miss(name, kind, before, after, sentence, place)


def _place(program: _core.GuardProgram, node: int, check: int) -> Place | None:
    lines = program.info[node] if program.info else ()
    if not lines:
        return None
    line = lines[min(max(check, 0), len(lines) - 1)]
    return place_of(*line) if is_a(line, tuple) else None


def _shown(kind: str, old: Any, now: Any) -> tuple[str, str]:
    """The old and the new value, as briefly as they can be distinguished."""
    if kind == "TENSOR" and is_a(old, TensorFacts):
        facts = tensor_facts(now, ask_grad=old.has_grad is not None, ask_marks=old.marks is not None)
        names = changed_properties(old, facts)
        if "size" in names:
            names = [n for n in names if n != "stride"]
        before, after = ([f"{n} {_brief(getattr(f, n))}" for n in names] for f in (old, facts))
        if type(now) is not old.python_type:
            before.insert(0, class_name(old.python_type))
            after.insert(0, class_name(type(now)))
        for name in hidden_methods(old, now):
            before.append(f"{name} of its class")
            after.append(f"{name} of its own")
        return ", ".join(before), ", ".join(after)  # nothing at all: the sentence says it
    if kind == "LEN":
        return items(old), items(builtin_length(now))
    if kind == "KEYS":
        return _brief(list(old)), _brief(list(dict_keys(now)))
    if kind == "TYPE":
        return _show(old), class_name(type(now))
    if kind in ("CHECK", "JOINT"):
        return str(old[1]).removeprefix("is "), _show(now)
    return _show(old), _show(now)


def items(count: int) -> str:
    """A length in words."""
    return f"{count} item" if count == 1 else f"{count} items"


def _brief(value: Any) -> str:
    text = str(value) if is_a(value, (tuple, list, bool, int)) or value is None else _show(value)
    return text if len(text) <= 120 else text[:120] + "..."
