"""Why an entry was not used, in a sentence: which value, what it was, what it is now, and the user's line that read it.

What the sentence needs is asked of the native program, which keeps no object of the user alive for it.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import _core
from .._core import is_a
from ..vocabulary.class_reads import module_of
from ..vocabulary.origins import step_text
from ..vocabulary.outside_exceptions import raise_outside
from ..vocabulary.places import place_of
from ..vocabulary.plain_types import SCALAR_MODULES
from .kinds import TensorFacts, builtin_length, class_name, dict_keys, dunders, immutable_leaf, same_key, tensor_facts

Line = str | tuple[types.CodeType, int]


def path(program: _core.GuardProgram, node: int) -> str:
    """The origin of a node as text."""
    parent, step, key, _ = program.describe(node)
    if step == "arg":
        return str(key[1])
    if step == "const":
        return name_of(key) or ("globals" if is_a(key, dict) else _show(key))
    return step_text(step, path(program, parent), key)


def described(program: _core.GuardProgram) -> list[tuple[int, tuple[tuple[str, Any], ...]]]:
    """Every node that has checks, with them, in the order of the program."""
    rows = ((node, program.describe(node)[3]) for node in range(program.stats()["nodes"]))
    return [(node, checks) for node, checks in rows if checks]


# ---- words ----------------------------------------------------------------------------------------------------------


def name_of(value: Any) -> str:
    """The name of a class, a function or a module; other objects may make one up."""
    if is_a(value, type):
        return class_name(value)
    if is_a(value, types.ModuleType):
        text = _core.own_dict(value).get("__name__")
        return text if type(text) is str else ""
    return value.__qualname__ if type(value) in _NAMED else ""


_NAMED = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)


def _show(value: Any, limit: int = 80) -> str:
    if is_a(value, (type, types.FunctionType, types.ModuleType)):
        return name_of(value)
    if is_a(value, torch.Tensor):
        return _a(class_name(type(value)))
    try:
        text = repr(value) if immutable_leaf(value) or _is_scalar(value) else object.__repr__(value)
    except Exception as error:
        raise_outside(error)
        text = object.__repr__(value)
    return text if len(text) <= limit else text[:limit] + "..."


def _a(name: str) -> str:
    return f"{'an' if name[:1] in tuple('aeioAEIO') else 'a'} {name}"


def _is_scalar(value: Any) -> bool:
    """Return whether it is a scalar of a library's, whose text runs no code of the program."""
    return module_of(type(value)) in SCALAR_MODULES and hasattr(value, "dtype") and getattr(value, "shape", None) == ()


def _check(old: tuple[Any, str], now: Any) -> str:
    if _is_scalar(now):
        return f"is now {_show(now)}, was {old[1].removeprefix('is ')}"
    return f"no longer satisfies: {old[1]}"


def _type(old: Any, now: Any) -> str:
    return f"is now {_a(class_name(type(now)))}, was {_a(_show(old))}"


def _is(old: Any, now: Any) -> str:
    before, after = _show(old), _show(now)
    return f"is now {after}, was {before}" if before != after else f"is now another object, {after} as before"


def _keys(old: Any, now: Any) -> str:
    if not is_a(now, dict):
        return f"is now {_a(class_name(type(now)))}, was a dictionary"
    before = list(old)
    keys = list(dict_keys(now))
    gone = [k for k in before if not any(same_key(n, k) for n in keys)]
    new = [k for k in keys if not any(same_key(k, b) for b in before)]
    parts = [
        f"{word} {', '.join(map(_show, which[:4]))}{' ...' if len(which) > 4 else ''}"
        for word, which in (("has new keys", new), ("lost the keys", gone))
        if which
    ]
    return " and ".join(parts) or "has its keys in another order"


#: what users know of a tensor; the rest of its facts has words of its own
_PROPERTIES = (
    "dtype",
    "device",
    "layout",
    "size",
    "stride",
    "requires_grad",
    "is_leaf",
    "is_conj",
    "is_neg",
    "is_inference",
    "has_grad",
)


def changed_properties(old: TensorFacts, now: TensorFacts) -> list[str]:
    """Names of what differs between a tensor's facts and those of the one in its place."""
    return [name for name in _PROPERTIES if not _is_same(getattr(old, name), getattr(now, name))]


def hidden_methods(old: TensorFacts, now: Any) -> list[str]:
    """Methods that were called, and that an attribute of the tensor now hides."""
    return [method for method in old.methods if method in _core.own_dict(now)]


def _is_same(old: Any, now: Any) -> bool:
    """Return whether a property is as before; None in sizes and strides stands for any."""
    if type(old) is not tuple or type(now) is not tuple or len(old) != len(now):
        return old is None or bool(old == now)
    return all([before is None or before == after for before, after in zip(old, now)])


def _tensor(old: TensorFacts | None, now: Any) -> str:
    if old is None:
        return f"is now {_a(class_name(type(now)))} of other properties than before"
    try:
        facts = tensor_facts(now, ask_grad=old.has_grad is not None, ask_marks=old.marks is not None)
    except Exception as error:
        raise_outside(error)
        return f"is now {_a(class_name(type(now)))}, was a tensor"
    rows = []
    if type(now) is not old.python_type:
        rows.append(f"is now {_a(class_name(type(now)))}, was {_a(class_name(old.python_type))}")
    for name in changed_properties(old, facts):
        rows.append(f"has {name} {getattr(facts, name)}, had {getattr(old, name)}")
    hidden = hidden_methods(old, now)
    if hidden:
        rows.append(f"has an attribute of its own in place of {', '.join(hidden)}")
    if facts.marks and old.marks is not None and not facts.marks <= old.marks:
        rows.append(f"is marked dynamic in {', '.join(map(str, sorted(facts.marks - old.marks)))}")
    return ", ".join(rows) or "has other dispatch keys than before"


def _dunders(old: tuple[int, list[str]], now: Any) -> str:
    if not is_a(now, type):
        return f"is now {_a(class_name(type(now)))}, was a class"
    mro, pairs = dunders(now)
    changed = sorted({n for n, _ in pairs} ^ set(old[1]))
    if changed:
        return f"gained or lost special methods: {', '.join(changed)}"
    if len(mro) != old[0]:
        return "has other base classes than before"
    return "has other special methods or base classes than before"


#: kind -> what happened, from what was remembered and the value now
WORDS: dict[str, Callable[[Any, Any], str]] = {
    "TYPE": _type,
    "IS": _is,
    "EQ": lambda old, now: f"is now {_show(now)}, was {_show(old)}",
    "CODE": lambda old, now: f"has other code than before (it was {getattr(old, 'co_qualname', 'code that is gone')})",
    "LEN": lambda old, now: (
        f"now has {builtin_length(now)} {'item' if builtin_length(now) == 1 else 'items'}, had {old}"
    ),
    "KEYS": _keys,
    "HAS_KEY": lambda old, now: f"no longer has the very same {_show(old)} as a key",
    "ABSENT": lambda old, now: f"now has the entry {_show(old)}, which it did not have",
    "NO_LOOKUP": lambda old, now: f"now has the attribute {old}, which it did not have",
    "DUNDERS": _dunders,
    "EMPTY": lambda old, now: "now has contents, was an empty cell",
    "TENSOR": _tensor,
    "SAME": lambda old, now: f"is no longer the same object as {old}",
    "CHECK": _check,
    "JOINT": _check,
    "UNMARKED": lambda old, now: "now bears a mark of TorchDynamo's, which it did not bear",
}


def where(line: Line) -> str:
    """The user's line as text: "file.py:12 in forward"."""
    if is_a(line, str):
        return line
    return str(place_of(*line))


def _state(program: _core.GuardProgram) -> str:
    assert program.state is not None
    before, now = program.state.as_dict(), _core.torch_state().as_dict()
    changed = [name for name in now if now[name] != before[name]]
    telling = [name for name in changed if not name.startswith("dispatch keys")] or changed
    rows = [f"{name} is now {now[name]}, was {before[name]}" for name in telling]
    return "torch's state changed: " + ("; ".join(rows) or "a mode is active")


def _distinct(program: _core.GuardProgram, arguments: tuple[Any, ...]) -> str:
    seen: dict[int, int] = {}
    values = []
    for node in program.distinct:
        try:
            values.append(program.fetch(node, arguments))
        except Exception as error:
            raise_outside(error)
            continue
        other = seen.setdefault(id(values[-1]), node)
        if other != node:
            return f"{path(program, other)} and {path(program, node)} are now the same object, and were different ones"
    return "two values are now the same object, and were different ones"


def explain(program: _core.GuardProgram, failure: tuple[int, int], arguments: tuple[Any, ...]) -> str:
    """One sentence for a failure as `GuardProgram.check` returns it."""
    node, check = failure
    if node < 0:
        if check == 2:
            return "an object that was guarded no longer exists"
        return _state(program) if check == 1 else _distinct(program, arguments)
    name = path(program, node)
    lines = program.info[node] if program.info else ()
    line = where(lines[max(check, 0)]) if lines else ""
    suffix = f" (read at {line})" if line else ""
    try:
        now = program.fetch(node, arguments)
    except Exception as error:
        raise_outside(error)
        return f"{name} no longer exists{suffix}"
    if check < 0:
        return f"{name} could not be reached{suffix}"
    kind, old = program.describe(node)[3][check]
    if kind == "SAME":
        old = path(program, old)
    try:
        words = WORDS[kind](old, now)
    except Exception as error:
        raise_outside(error)
        words = f"is now {_show(now)}, a {class_name(type(now))}"
    return f"{name} {words}{suffix}"


def explain_all(entries: Sequence[Any], arguments: tuple[Any, ...]) -> list[str]:
    """For each entry (or program), why it is not used for these locals; empty text for one that would be."""
    sentences = []
    for entry in entries:
        program = getattr(entry, "program", entry)
        failure = program.check(arguments)
        sentences.append("" if failure is None else explain(program, failure, arguments))
    return sentences
