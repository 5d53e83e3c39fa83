"""Why an entry was not used, in a sentence: which value, what it was, what it is now, and the user's line that read it.

`ProgramInfo` is what a program remembers for that.  It keeps no object of the user alive but leaves.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..origin import STEPS, Missing
from .kinds import TensorFacts, builtin_length, dict_keys, dunders, immutable_leaf, tensor_facts

__all__ = ["NodeInfo", "ProgramInfo", "explain", "explain_all", "hold"]

Line = str | tuple[types.CodeType, int]
_GONE = object()


def hold(value: Any) -> Any:
    """A value remembered for explanations: a weak reference where possible, else the value in a tuple."""
    if immutable_leaf(value):
        return (value,)
    try:
        return weakref.ref(value)
    except TypeError:
        return (value,)


def _held(held: Any) -> Any:
    if type(held) is tuple:
        return held[0]
    value = held()
    return _GONE if value is None else value


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """One step of a path, and the checks made there: (kind, remembered value, line)."""

    parent: int
    step: str
    key: Any                # of `const` roots: held
    checks: tuple[tuple[str, Any, Line], ...]


@dataclass(frozen=True, slots=True)
class ProgramInfo:
    """Facts about a native program that only explanations need."""

    nodes: tuple[NodeInfo, ...]
    distinct: tuple[int, ...]
    state: Any

    def path(self, index: int) -> str:
        """The origin of a node as text."""
        node = self.nodes[index]
        if node.step == "arg":
            return str(node.key[1])
        if node.step == "const":
            value = _held(node.key)
            return getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or (
                "globals" if isinstance(value, dict) else _show(value))
        return STEPS[node.step].text.format(base=self.path(node.parent), key=node.key)

    def value(self, index: int, arguments: tuple[Any, ...]) -> Any:
        """The value a node leads to now.  Raises `Missing`."""
        node = self.nodes[index]
        if node.step == "arg":
            return arguments[node.key[0]]
        if node.step == "const":
            return _held(node.key)
        return STEPS[node.step].fetch(self.value(node.parent, arguments), node.key)

    def sentence(self, _program: Any, failure: tuple[int, int], arguments: tuple[Any, ...]) -> str:
        """What the native core asks for when it must name a guard."""
        return explain(self, failure, arguments)


# ---- words ----------------------------------------------------------------------------------------------------------

def _show(value: Any, limit: int = 80) -> str:
    if value is _GONE:
        return "an object that is gone"
    if isinstance(value, (type, types.FunctionType, types.ModuleType)):
        return getattr(value, "__qualname__", value.__name__)
    try:
        text = repr(value) if immutable_leaf(value) else object.__repr__(value)
    except Exception:
        text = object.__repr__(value)
    return text if len(text) <= limit else text[:limit] + "…"


def _type(old: Any, now: Any) -> str:
    return f"is now a {type(now).__qualname__}, was a {_show(_held(old))}"


def _is(old: Any, now: Any) -> str:
    return f"is now {_show(now)}, was {_show(_held(old))}"


def _keys(old: Any, now: Any) -> str:
    if not isinstance(now, dict):
        return f"is now a {type(now).__qualname__}, was a dictionary"
    before = [_held(k) for k in old]
    keys = list(dict_keys(now))
    gone = [k for k in before if not any(k is n or (immutable_leaf(k) and k == n) for n in keys)]
    new = [k for k in keys if not any(k is b or (immutable_leaf(b) and k == b) for b in before)]
    parts = [f"{word} {', '.join(map(_show, which[:4]))}{' …' if len(which) > 4 else ''}"
             for word, which in (("has new keys", new), ("lost the keys", gone)) if which]
    return " and ".join(parts) or "has its keys in another order"


def _tensor(old: TensorFacts, now: Any) -> str:
    try:
        facts = tensor_facts(now, ask_grad=old.has_grad is not None)
    except Exception:
        return f"is now a {type(now).__qualname__}, was a tensor"
    rows = []
    if type(now).__qualname__ != old.python_type:
        rows.append(f"is now a {type(now).__qualname__}, was a {old.python_type}")
    for name in ("dtype", "device", "layout", "size", "stride", "requires_grad", "is_leaf", "is_conj", "is_neg", "is_inference", "has_grad"):
        before, after = getattr(old, name), getattr(facts, name)
        if before != after and not (name == "stride" and before is None):
            rows.append(f"has {name} {after}, had {before}")
    return ", ".join(rows) or "has other dispatch keys than before"


def _dunders(old: tuple[int, tuple[str, ...]], now: Any) -> str:
    if not isinstance(now, type):
        return f"is now a {type(now).__qualname__}, was a class"
    mro, pairs = dunders(now)
    changed = sorted({n for n, _ in pairs} ^ set(old[1]))
    if changed:
        return f"gained or lost special methods: {', '.join(changed)}"
    return "has other base classes than before" if len(mro) != old[0] else "has other special methods or base classes than before"


#: kind -> what happened, from what was remembered and the value now
WORDS: dict[str, Callable[[Any, Any], str]] = {
    "TYPE": _type,
    "IS": _is,
    "EQ": lambda old, now: f"is now {_show(now)}, was {_show(old)}",
    "CODE": lambda old, now: f"has other code than before (it was {getattr(_held(old), 'co_qualname', 'code that is gone')})",
    "LEN": lambda old, now: f"now has {builtin_length(now)} items, had {old}",
    "KEYS": _keys,
    "ABSENT": lambda old, now: f"now has the entry {_show(old)}, which it did not have",
    "NO_LOOKUP": lambda old, now: f"now has the attribute {old}, which it did not have",
    "DUNDERS": _dunders,
    "EMPTY": lambda old, now: "now has contents, was an empty cell",
    "TENSOR": _tensor,
    "SAME": lambda old, now: f"is no longer the same object as {old}",
    "CHECK": lambda old, now: f"no longer satisfies: {old}",
}


def where(line: Line) -> str:
    """The user's line as text: "file.py:12 in forward"."""
    if isinstance(line, str):
        return line
    code, offset = line
    number = next((n for start, end, n in code.co_lines() if start <= offset < end), None)
    return f"{code.co_filename}:{number if number is not None else code.co_firstlineno} in {code.co_qualname}"


def _state(info: ProgramInfo) -> str:
    before, now = info.state.as_dict(), _core.torch_state().as_dict()
    changed = [name for name in now if now[name] != before[name]]
    telling = [name for name in changed if not name.startswith("dispatch keys")] or changed
    rows = [f"{name} is now {now[name]}, was {before[name]}" for name in telling]
    return "torch's state changed: " + ("; ".join(rows) or "a mode is active")


def _distinct(info: ProgramInfo, arguments: tuple[Any, ...]) -> str:
    seen: dict[int, int] = {}
    values = []
    for index in info.distinct:
        try:
            values.append(info.value(index, arguments))
        except Exception:
            continue
        other = seen.setdefault(id(values[-1]), index)
        if other != index:
            return f"{info.path(other)} and {info.path(index)} are now the same object, and were different ones"
    return "two values are now the same object, and were different ones"


def explain(program: Any, failure: tuple[int, int], arguments: tuple[Any, ...]) -> str:
    """One sentence for a failure as `GuardProgram.check` returns it.  `program`: the program, or its `ProgramInfo`."""
    info: ProgramInfo = getattr(program, "info", program)
    index, check = failure
    if index < 0:
        return (_distinct(info, arguments), _state(info), "an object that was guarded no longer exists")[check]
    node = info.nodes[index]
    line = where(next((c[2] for c in (node.checks[check:check + 1] if check >= 0 else node.checks)), ""))
    suffix = f" (read at {line})" if line else ""
    try:
        now = info.value(index, arguments)
    except (Missing, Exception):
        return f"{info.path(index)} no longer exists{suffix}"
    kind, old, _ = node.checks[check] if check >= 0 else ("", None, "")
    try:
        words = WORDS[kind](old, now) if kind else "could not be reached"
    except Exception:
        words = f"is now {_show(now)}, a {type(now).__qualname__}"
    return f"{info.path(index)} {words}{suffix}"


def explain_all(entries: Sequence[Any], arguments: tuple[Any, ...]) -> list[str]:
    """For each entry (or program), why it is not used for these locals; empty text for one that would be."""
    sentences = []
    for entry in entries:
        program = getattr(entry, "program", entry)
        failure = program.check(arguments)
        sentences.append("" if failure is None else explain(program, failure, arguments))
    return sentences
