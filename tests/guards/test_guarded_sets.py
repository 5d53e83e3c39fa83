"""Sets that are guarded by how they iterate: settled programs see every change of one, and call nothing meanwhile."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from framelift.boundary.becomes.containers import _same_order
from framelift.guards.kinds import Guard
from framelift.guards.native_program import build_program
from framelift.guards.reference import check_reference
from framelift.vocabulary.origins import Origin, arg

ROOT = arg(0, "root")


class Sub(set[Any]):
    pass


class Thing:
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7


THING = Thing()
SETS: dict[str, Callable[[], Any]] = {
    "texts": lambda: {"full", "sliding", "chunked"},
    "numbers": lambda: {1, 2**70, 2.5},
    "one": lambda: {"full"},
    "empty": set,
    "objects": lambda: {THING, torch.float32, None},
    "subclass": lambda: Sub({"a", "b"}),
    "large": lambda: set(map(str, range(100))),
    "after removals": lambda: _without(set(map(str, range(20))), "3", "5"),
}


def _without(made: set[Any], *gone: Any) -> set[Any]:
    made.difference_update(gone)
    return made


#: how a root holds the set, and where it is
HOLDERS: dict[str, tuple[Callable[[Any], Any], Origin, Callable[[Any, Any], Any]]] = {
    "argument": (lambda s: s, ROOT, lambda root, s: s),
    "attribute": (
        lambda s: types.SimpleNamespace(s=s),
        ROOT.to("dict").to("item", "s"),
        lambda r, s: _put(r.__dict__, s),
    ),
    "item": (lambda s: {"s": s}, ROOT.to("item", "s"), lambda root, s: _put(root, s)),
    "list": (lambda s: [s], ROOT.to("item", 0), lambda root, s: (root.clear(), root.append(s), root)[2]),
}


def _put(held: dict[str, Any], value: Any) -> None:
    held["s"] = value


def _rebuilt(s: set[Any]) -> None:
    elements = list(s)
    s.clear()
    s.update(reversed(elements))


CHANGES: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda s: None,
    "add": lambda s: s.add("new"),
    "add what is there": lambda s: s.update(list(s)),
    "add and remove": lambda s: (s.add("new"), s.remove("new")),
    "pop": lambda s: s and s.pop(),
    "pop and put back": lambda s: s and s.add(s.pop()),
    "clear": lambda s: s.clear(),
    "one for another": lambda s: s and (s.pop(), s.add("new")),
    "an equal one for another": lambda s: s and (s.remove(next(iter(s))), s.add("".join(["fu", "ll"]))),
    "equal numbers of another type": lambda s: 1 in s and (s.remove(1), s.add(True)),
    "filled in another order": _rebuilt,
    "intersection": lambda s: s.intersection_update({"full"}),
    "symmetric difference": lambda s: s.symmetric_difference_update({"full", "new"}),
}


def _settled(kind: str, holder: str) -> tuple[Any, list[Guard], Any, Any]:
    made = SETS[kind]()
    hold, place, _ = HOLDERS[holder]
    root = hold(made)
    guards = [
        Guard(place, "TYPE", type(made)),
        Guard(place, "CHECK", (functools.partial(_same_order, tuple(made)), "iterates as it did")),
    ]
    with config.patch(verify_guards=False):
        program = build_program(guards, [place], [], [], None)[0]
    for _ in range(12):
        assert program.check((root,)) is None
    assert not program.unsettled()
    return program, guards, root, made


def _agrees(program: Any, guards: list[Guard], root: Any) -> bool:
    expected = check_reference(guards, [], None, (root,))
    for _ in range(3):
        assert (program.check((root,)) is None) == (expected is None)
    return expected is None


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_seen(kind: str, holder: str, change: str) -> None:
    program, guards, root, made = _settled(kind, holder)
    for _ in range(2):
        CHANGES[change](made)
        _agrees(program, guards, root)
        for _ in range(12):
            program.check((root,))


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("other", ["alike", "of another class", "frozen", "of other elements", "no set"])
def test_another_in_its_place_is_seen(kind: str, holder: str, other: str) -> None:
    program, guards, root, made = _settled(kind, holder)
    makers: dict[str, Callable[[], Any]] = {
        "alike": SETS[kind],
        "of another class": lambda: (set if type(made) is Sub else Sub)(made),
        "frozen": lambda: frozenset(made),
        "of other elements": lambda: type(made)({"x", "y"}),
        "no set": lambda: list(made),
    }
    given = HOLDERS[holder][2](root, makers[other]())
    _agrees(program, guards, given if holder == "argument" else root)


def test_a_model_that_walks_a_set_of_its_own_settles() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kinds = {"full", "sliding"}

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {kind: x + len(kind) for kind in self.kinds}

    model = Model()
    compiled = framelift.compile(model, backend="eager")
    x = torch.rand(3)
    for _ in range(12):
        found, plain = compiled(x), model(x)
        assert list(found) == list(plain) and all(torch.equal(found[k], plain[k]) for k in plain)
    assert not compiled._compiled.entries[0].program.unsettled()
    model.kinds.add("chunked")
    for _ in range(3):
        assert list(compiled(x)) == list(model(x))
