"""Dictionaries of keywords and tuples of arguments are new at every call: their items are guarded as arguments are.

Such a call looks at nothing again, and whatever is passed otherwise is seen as plain Python sees it.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from framelift.guards.kinds import Guard, tensor_facts
from framelift.guards.native_program import build_program
from framelift.guards.reference import check_reference
from framelift.vocabulary.origins import Origin, arg

KEYWORDS, ARGS = arg(0, "kwargs"), arg(1, "args")
TENSOR = torch.zeros(2, 3)


class Plain:
    def __init__(self, part: Any = 5) -> None:
        self.parts = [part]


FLAG, OBJECT = 1000, Plain()


def _guards() -> list[Guard]:
    item = KEYWORDS.to("item", "t")
    return [
        Guard(KEYWORDS, "TYPE", dict),
        Guard(KEYWORDS, "KEYS", ("t", "u", "flag", "obj")),
        Guard(item, "TENSOR", tensor_facts(TENSOR)),
        Guard(KEYWORDS.to("item", "u"), "TENSOR", tensor_facts(TENSOR)),
        Guard(KEYWORDS.to("item", "flag"), "EQ", 1000),
        Guard(KEYWORDS.to("item", "obj"), "TYPE", Plain),
        Guard(KEYWORDS.to("item", "obj").to("dict").to("item", "parts").to("item", 0), "EQ", 5),
        Guard(KEYWORDS.to("item", "u").to("dict"), "ABSENT", "note"),
        Guard(ARGS, "TYPE", tuple),
        Guard(ARGS, "LEN", 2),
        Guard(ARGS.to("item", 0), "TENSOR", tensor_facts(TENSOR)),
        Guard(ARGS.to("item", 1), "EQ", "text"),
    ]


INPUTS: list[Origin] = [KEYWORDS.to("item", "t"), KEYWORDS.to("item", "u"), ARGS.to("item", 0)]


def _call(**changes: Any) -> tuple[Any, Any]:
    keywords = {"t": torch.zeros(2, 3), "u": torch.zeros(2, 3), "flag": FLAG, "obj": OBJECT} | changes
    return keywords, (torch.zeros(2, 3), "text")


def _without(key: str) -> tuple[Any, Any]:
    keywords, args = _call()
    del keywords[key]
    return keywords, args


def _twice() -> tuple[Any, Any]:
    one = torch.zeros(2, 3)
    return _call(t=one, u=one)


def _across() -> tuple[Any, Any]:
    keywords, args = _call()
    return keywords, (keywords["t"], args[1])


def _reordered() -> tuple[Any, Any]:
    keywords, args = _call()
    return dict(reversed(keywords.items())), args


def _changed() -> tuple[Any, Any]:
    OBJECT.parts[0] = 6
    return _call()


def _noted() -> tuple[Any, Any]:
    keywords, args = _call()
    keywords["u"].note = 1
    return keywords, args


CALLS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "alike": _call,
    "equal constants": lambda: (_call(flag=int("1000"), obj=Plain())[0], (torch.zeros(2, 3), "".join(["te", "xt"]))),
    "another size": lambda: _call(t=torch.zeros(4)),
    "no tensor": lambda: _call(u=None),
    "another number": lambda: _call(flag=1001),
    "a number of another class": lambda: _call(flag=1000.0),
    "another part of an object": lambda: _call(obj=Plain(6)),
    "another part of the same object": _changed,
    "a tensor with an attribute": _noted,
    "an object of another class": lambda: _call(obj=object()),
    "one more": lambda: _call(more=1),
    "one less": lambda: _without("obj"),
    "another name": lambda: ({**_without("obj")[0], "object": Plain()}, _call()[1]),
    "a name that is an equal object": lambda: (
        {"".join(["o", "bj"]) if k == "obj" else k: v for k, v in _call()[0].items()},
        _call()[1],
    ),
    "another order": _reordered,
    "a dictionary of another class": lambda: (collections.OrderedDict(_call()[0]), _call()[1]),
    "no dictionary": lambda: ((), _call()[1]),
    "a shorter tuple": lambda: (_call()[0], _call()[1][:1]),
    "a longer tuple": lambda: (_call()[0], (*_call()[1], 1)),
    "a list": lambda: (_call()[0], [*_call()[1]]),
    "an empty dictionary for a tuple": lambda: (_call()[0], {}),
    "another text": lambda: (_call()[0], (_call()[1][0], "other")),
    "one tensor twice": _twice,
    "one tensor in both": _across,
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("apart", [False, True])
def test_what_is_passed_otherwise_is_seen(call: str, apart: bool) -> None:
    guards, distinct = _guards(), INPUTS if apart else []
    with config.patch(verify_guards=False):
        program = build_program(guards, INPUTS, [], distinct, None)[0]
    for _ in range(4):
        assert program.check(_call()) is None
    u = torch.zeros(2, 3)  # what hangs on it is asked of each new one
    assert program.check(_call(u=u)) is None
    before = program.stats()["visits"]
    for _ in range(4):
        keywords, args = passed = _call(u=u)
        assert all(a is b for a, b in zip(program.values(passed)[0], (keywords["t"], keywords["u"], args[0])))
    assert program.stats()["visits"] == before
    for _ in range(3):
        passed = CALLS[call]()
        assert (program.check(passed) is None) == (check_reference(guards, distinct, None, passed) is None)
        OBJECT.parts[0] = 5
        assert program.check(_call()) is None


@pytest.mark.parametrize("kind, empty, other", [("KEYS", {}, ()), ("LEN", (), {})])
def test_nothing_in_a_tuple_is_not_nothing_in_a_dictionary(kind: str, empty: Any, other: Any) -> None:
    guards = [Guard(KEYWORDS, "TYPE", type(empty)), Guard(KEYWORDS, kind, () if kind == "KEYS" else 0)]
    with config.patch(verify_guards=False):
        program = build_program(guards, [], [], [], None)[0]
    for _ in range(3):
        assert program.check((type(empty)(),)) is None
    assert program.check((other,)) is not None
    assert program.check((empty,)) is None


def test_a_call_by_keywords_looks_at_nothing_again() -> None:
    def inner(a: torch.Tensor, b: torch.Tensor, scale: int = 1) -> torch.Tensor:
        return a + b * scale

    def outer(*args: Any, **kwargs: Any) -> torch.Tensor:
        return inner(*args, **kwargs)

    compiled = framelift.compile(outer, backend="eager", dynamic=False)
    for _ in range(4):
        x, y = torch.rand(2), torch.rand(2)
        assert torch.equal(compiled(x, b=y, scale=3), outer(x, b=y, scale=3))
    program = compiled.entries[0].program
    before = program.stats()["visits"]
    for _ in range(3):
        x, y = torch.rand(2), torch.rand(2)
        assert torch.equal(compiled(x, b=y, scale=3), outer(x, b=y, scale=3))
    assert program.stats()["visits"] == before and len(compiled.entries) == 1
    assert torch.equal(compiled(x, b=x, scale=3), outer(x, b=x, scale=3))
    assert torch.equal(compiled(x, b=y, scale=4), outer(x, b=y, scale=4))
    assert torch.equal(compiled(x, y), outer(x, y))
