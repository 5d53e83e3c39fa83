"""Reasons about the `*args` and `**kwargs` of a root that hands its call on, in terms of the parameters that the user
wrote.

A module's root is torch's `__call__`, a decorated function's is the wrapper.  A call with other arguments fails at
the length of `args` or at the keys of `kwargs`; what the user did is to give a parameter or not, by position or by
keyword.
"""

from __future__ import annotations

import inspect
import types
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...guards.kinds import builtin_length, dict_keys
from ...guards.misses import Miss
from ...guards.sentences import described
from ...vocabulary.places import first_use, place_of
from .user_names import Names

if TYPE_CHECKING:
    from ..._core import GuardProgram


def of_call(
    miss: Miss, program: GuardProgram, function: types.FunctionType, names: Names, locals_: tuple[Any, ...]
) -> Miss:
    """`miss` about the parameters of the function below the root; as it is where it is about something else."""
    code = function.__code__
    packed = _packed(code)
    if names.code is None or miss.kind not in ("LEN", "KEYS") or miss.origin not in packed.values():
        return miss
    old_args, old_keys = _expected(program, packed)
    args, kwargs = (
        locals_[code.co_varnames.index(packed[sort])] if sort in packed else () for sort in ("args", "kwargs")
    )
    new_args, new_keys = builtin_length(args), dict_keys(kwargs) if kwargs else ()
    before = _given(names, new_args if old_args is None else old_args, new_keys if old_keys is None else old_keys)
    now = _given(names, new_args, new_keys)
    rows = {
        "not given": "given",
        "given": "not given",
        "given by keyword": "given by position",
        "given by position": "given by keyword",
    }
    found: dict[str, list[str]] = {row: [] for row in rows}
    for name in {**before, **now}:
        if name not in now or name not in before:
            found["not given" if name not in now else "given"].append(name)
        elif before[name] != now[name]:
            found[f"given by {now[name]}"].append(name)
    changes = [(", ".join(which), row, rows[row]) for row, which in found.items() if which]
    if not changes:
        return miss
    place = _place(names.code, changes[0][0].split(", ")[0])
    text = "; ".join(
        f"{who} {'are' if ',' in who else 'is'} {new}, {'were' if ',' in who else 'was'} {old}"
        for who, new, old in changes
    )
    return replace(
        miss,
        origin=changes[0][0],
        kind="CALL",
        old=changes[0][2],
        new=changes[0][1],
        sentence=f"{text} (read at {place})",
        place=place,
    )


def _packed(code: types.CodeType) -> dict[str, str]:
    """The root's parameters that take any number of arguments, by what they take."""
    at = code.co_argcount + code.co_kwonlyargcount
    found = {}
    for sort, flag in (("args", inspect.CO_VARARGS), ("kwargs", inspect.CO_VARKEYWORDS)):
        if code.co_flags & flag:
            found[sort] = code.co_varnames[at]
            at += 1
    return found


def _expected(program: GuardProgram, packed: dict[str, str]) -> tuple[int | None, tuple[Any, ...] | None]:
    """How many positional arguments and which keywords an entry is for; None where it does not mind."""
    length = keys = None
    for node, checks in described(program):
        _, step, key, _ = program.describe(node)
        if step == "arg":
            for kind, value in checks:
                if kind == "LEN" and key[1] == packed.get("args"):
                    length = value
                elif kind == "KEYS" and key[1] == packed.get("kwargs"):
                    keys = value
    return length, keys


def _given(names: Names, count: int, keys: Any) -> dict[str, str]:
    """Parameter -> how it is given."""
    by_position = {names.parameter(i) or f"positional argument {i + 1}": "position" for i in range(count)}
    return {**by_position, **{str(key): "keyword" for key in keys}}


def _place(code: types.CodeType, name: str) -> Any:
    """Where the parameter is first used; the function's first line where it never is, or is one of its `**kwargs`."""
    return place_of(code, first_use(code, name) if name in code.co_varnames else 0)
