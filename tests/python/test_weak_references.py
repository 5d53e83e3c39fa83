"""Weak containers from outside: WeakSet, WeakKeyDictionary, WeakValueDictionary, and containers of weak references.

Read, changed, and changed between calls: members come, go and die.  A capture keeps no member alive.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from support import compiled


class Own:
    def __init__(self, n: int) -> None:
        self.n = n


class Outside:
    """What one run lives in: objects that are held, and a container that does not hold them."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.held = [Own(i) for i in range(6)]
        self.weak: Any = self.filled(self.held[:3])

    def filled(self, members: list[Own]) -> Any:
        if self.kind == "set":
            return weakref.WeakSet(members)
        if self.kind == "keys":
            return weakref.WeakKeyDictionary({member: 10 * member.n for member in members})
        return weakref.WeakValueDictionary({f"k{member.n}": member for member in members})

    def contents(self) -> list[Any]:
        """In order where that is the container's; the order of a set follows addresses."""
        if self.kind == "set":
            return sorted(member.n for member in self.weak)
        return [(getattr(a, "n", a), getattr(b, "n", b)) for a, b in self.weak.items()]


def numbers(value: Any) -> Any:
    """A result with the members' numbers in place of the members."""
    if isinstance(value, (list, tuple)):
        return type(value)([numbers(one) for one in value])
    return value.n if isinstance(value, Own) else value.tolist() if isinstance(value, torch.Tensor) else value


def key_of(world: Outside, member: Own) -> Any:
    return member if world.kind != "values" else f"k{member.n}"


def come(world: Outside) -> None:
    put(world, world.held[5])


def put(world: Outside, member: Own) -> None:
    if world.kind == "set":
        world.weak.add(member)
    else:
        world.weak[key_of(world, member)] = 7 if world.kind == "keys" else member


def go(world: Outside) -> None:
    member = world.held[1]
    if world.kind == "set":
        world.weak.discard(member)
    else:
        world.weak.pop(key_of(world, member), None)


def die(world: Outside) -> None:
    world.held[1] = Own(1)


def die_first(world: Outside) -> None:
    world.held[0] = Own(0)


def another_container(world: Outside) -> None:
    world.weak = world.filled(world.held[2:4])


def swap(world: Outside) -> None:
    """What is asked for is another object."""
    world.held[0], world.held[4] = world.held[4], world.held[0]


def other_numbers(world: Outside) -> None:
    world.held[2].n = 50
    world.held[2].n = 2
    world.held[0].n = 0


BETWEEN: dict[str, Callable[[Outside], None]] = {
    function.__name__: function for function in (come, go, die, die_first, another_container, swap, other_numbers)
}

SETS: dict[str, Callable[..., Any]] = {
    "in": lambda x, w: (x + 1, w.held[0] in w.weak, w.held[4] in w.weak, Own(0) in w.weak, 3 in w.weak),
    "len": lambda x, w: x * len(w.weak),
    "truth": lambda x, w: x * bool(w.weak),
    "sorted": lambda x, w: (x, sorted(o.n for o in w.weak)),
    "members": lambda x, w: (x, [o is w.held[0] for o in w.weak].count(True)),
    "compared": lambda x, w: (x, w.weak == weakref.WeakSet(w.held[:3]), w.weak <= weakref.WeakSet(w.held)),
    "isdisjoint": lambda x, w: (x, w.weak.isdisjoint(w.held[3:])),
    "union": lambda x, w: (x, len(w.weak | {w.held[4]}), len(w.weak & {w.held[0], w.held[4]})),
    "copy": lambda x, w: (x, len(w.weak.copy())),
    "add": lambda x, w: (x + 1, w.weak.add(w.held[4]), len(w.weak)),
    "add one that is there": lambda x, w: (x + 1, w.weak.add(w.held[0]), len(w.weak)),
    "add one made inside": lambda x, w: (x + 1, _added(w, Own(9)), len(w.weak)),
    "add one made inside and kept": lambda x, w: (x + 1, _kept(w, Own(9)), len(w.weak)),
    "discard": lambda x, w: (x + 1, w.weak.discard(w.held[0]), w.weak.discard(w.held[4]), len(w.weak)),
    "remove": lambda x, w: (x + 1, w.weak.remove(w.held[0])),
    "add and discard": lambda x, w: (x + 1, w.weak.add(w.held[4]), w.weak.discard(w.held[4]), w.held[4] in w.weak),
    "clear": lambda x, w: (x + 1, w.weak.clear(), len(w.weak)),
    "update": lambda x, w: (x + 1, w.weak.update(w.held[3:]), len(w.weak)),
    "difference_update": lambda x, w: (x + 1, w.weak.difference_update(w.held[:1]), len(w.weak)),
}

KEYS: dict[str, Callable[..., Any]] = {
    "get": lambda x, w: (x + 1, w.weak.get(w.held[0]), w.weak.get(w.held[4], "none"), w.weak.get(Own(0))),
    "item": lambda x, w: x * w.weak[w.held[0]],
    "in": lambda x, w: (x, w.held[0] in w.weak, w.held[4] in w.weak, 3 in w.weak),
    "len": lambda x, w: x * len(w.weak),
    "items": lambda x, w: (x, list(w.weak.items())),
    "keys": lambda x, w: (x, list(w.weak), list(w.weak.keys())),
    "values": lambda x, w: (x, list(w.weak.values())),
    "keyrefs": lambda x, w: (x, [r().n for r in w.weak.keyrefs()]),
    "copy": lambda x, w: (x, list(w.weak.copy().items())),
    "set": lambda x, w: (x, w.weak.__setitem__(w.held[4], 3), list(w.weak.items())),
    "set again": lambda x, w: (x, w.weak.__setitem__(w.held[0], w.weak.get(w.held[0], 0) + 1), list(w.weak.items())),
    "set one made inside": lambda x, w: (x, _kept(w, Own(9)), list(w.weak.items())),
    "delete": lambda x, w: (x, w.weak.__delitem__(w.held[0]), list(w.weak.items())),
    "pop": lambda x, w: (x, w.weak.pop(w.held[0], None), list(w.weak.items())),
    "popitem": lambda x, w: (x, w.weak.popitem(), list(w.weak.items())),
    "setdefault": lambda x, w: (x, w.weak.setdefault(w.held[0], 1), w.weak.setdefault(w.held[4], 2)),
    "update": lambda x, w: (x, w.weak.update({w.held[4]: 4}), list(w.weak.items())),
    "clear": lambda x, w: (x, w.weak.clear(), len(w.weak)),
}

VALUES: dict[str, Callable[..., Any]] = {
    "get": lambda x, w: (x + 1, w.weak.get("k0"), w.weak.get("k4", "none")),
    "item": lambda x, w: (x, w.weak["k0"], w.weak["k0"] is w.held[0]),
    "in": lambda x, w: (x, "k0" in w.weak, "k4" in w.weak),
    "len": lambda x, w: x * len(w.weak),
    "items": lambda x, w: (x, list(w.weak.items())),
    "keys": lambda x, w: (x, list(w.weak), list(w.weak.keys())),
    "values": lambda x, w: (x, list(w.weak.values())),
    "valuerefs": lambda x, w: (x, [(r.key, r().n) for r in w.weak.valuerefs()]),
    "copy": lambda x, w: (x, list(w.weak.copy().items())),
    "set": lambda x, w: (x, w.weak.__setitem__("k4", w.held[4]), list(w.weak.items())),
    "set another": lambda x, w: (x, w.weak.__setitem__("k0", w.held[4]), list(w.weak.items())),
    "set one made inside": lambda x, w: (x, _kept(w, Own(9)), list(w.weak.items())),
    "delete": lambda x, w: (x, w.weak.__delitem__("k0"), list(w.weak.items())),
    "pop": lambda x, w: (x, w.weak.pop("k0", None), list(w.weak.items())),
    "popitem": lambda x, w: (x, w.weak.popitem(), list(w.weak.items())),
    "setdefault": lambda x, w: (x, w.weak.setdefault("k0", w.held[4]), w.weak.setdefault("k4", w.held[4])),
    "update": lambda x, w: (x, w.weak.update({"k4": w.held[4]}), list(w.weak.items())),
    "clear": lambda x, w: (x, w.weak.clear(), len(w.weak)),
}


def _added(world: Outside, made: Own) -> bool:
    world.weak.add(made)
    return made in world.weak


def _kept(world: Outside, made: Own) -> None:
    put(world, made)
    world.held.append(made)


PROGRAMS = [(kind, name) for kind, table in (("set", SETS), ("keys", KEYS), ("values", VALUES)) for name in table]
TABLES = {"set": SETS, "keys": KEYS, "values": VALUES}


def run(kind: str, between: Callable[[Outside], None] | None, call: Callable[..., Any]) -> list[Any]:
    """What three calls give, and the container after each."""
    world, seen = Outside(kind), []
    for number in range(3):
        if number and between is not None:
            between(world)
        try:
            result = numbers(call(torch.ones(2), world))
        except (KeyError, TypeError) as error:
            result = type(error)
            del error
        seen.append((result, world.contents(), [member.n for member in world.held]))
    return seen


@pytest.mark.parametrize("between", [None, *BETWEEN])
@pytest.mark.parametrize(("kind", "name"), PROGRAMS)
def test_as_plain_python(kind: str, name: str, between: str | None) -> None:
    program, change = TABLES[kind][name], BETWEEN[between] if between else None
    expected = run(kind, change, program)
    framelift.reset()
    assert run(kind, change, compiled(program)) == expected


#: these make references with callbacks: graph breaks


@pytest.mark.usefixtures("small_heap")
@pytest.mark.parametrize(("kind", "name"), PROGRAMS)
def test_no_member_is_kept_alive(kind: str, name: str) -> None:
    framelift.reset()
    world = Outside(kind)
    program = compiled(TABLES[kind][name])
    program(torch.ones(2), world)
    gone = [weakref.ref(member) for member in world.held]
    world.held.clear()
    gc.collect()
    assert [reference() for reference in gone] == [None] * len(gone)
    assert len(world.weak) == 0
    world.held = [Own(i) for i in range(6)]
    world.weak = world.filled(world.held[:3])
    assert numbers(program(torch.ones(2), world)) == run(kind, None, TABLES[kind][name])[0][0]


LETS_GO: dict[str, Callable[..., Any]] = {
    "popped": lambda x, w: (x, w.held.pop(1) is None, len(w.weak)),
    "popped between": lambda x, w: (x, len(w.weak), w.held.pop(1) is None, len(w.weak)),
    "cleared": lambda x, w: (x, w.held.clear(), len(w.weak), len(list(w.weak))),
    "overwritten": lambda x, w: (x, w.held.__setitem__(0, None), len(w.weak)),
    "popped afterwards": lambda x, w: (x, len(w.weak), w.held.pop(1).n),
    "popped and put back": lambda x, w: (x, w.held.insert(1, w.held.pop(1)), len(w.weak)),
    "the way to them": lambda x, w: (x, w.__dict__.pop("held") is None, len(w.weak)),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", LETS_GO)
def test_members_that_captured_code_lets_go_of(name: str, kind: str) -> None:
    found = []
    for program in (LETS_GO[name], compiled(LETS_GO[name])):
        world = Outside(kind)
        found.append((numbers(program(torch.ones(2), world)), world.contents(), len(getattr(world, "held", ()))))
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", TABLES)
def test_held_by_an_iterator(kind: str) -> None:
    def program(x: torch.Tensor, members: Any, world: Outside) -> Any:
        return x, len(list(members)), len(world.weak)

    found = []
    for call in (program, compiled(program)):
        world = Outside(kind)
        members, world.held = iter(world.held), []
        found.append((numbers(call(torch.ones(2), members, world)), world.contents()))
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", TABLES)
def test_called_while_iterated_outside(kind: str) -> None:
    """What is left of a rehearsal must not be noted by the container as a member that died."""

    def program(x: torch.Tensor, world: Outside) -> Any:
        made = Own(9)
        put(world, made)
        return x + 1, made, len(world.weak)

    found = []
    for call in (program, compiled(program)):
        world = Outside(kind)
        lengths, kept = [], []
        walk = iter(world.weak)  # until it ends, members that died are only noted (before CPython 3.14)
        next(walk)
        for _ in range(2):
            result = call(torch.ones(2), world)
            kept.append(result[1])
            gc.collect()
            lengths.append((numbers(result), len(world.weak)))
        del walk
        found.append((lengths, world.contents()))
    assert found[0] == found[1]


class Named(weakref.WeakSet[Any]):
    """A subclass with an attribute."""

    name = "named"


def by_functions() -> Any:
    return weakref.WeakKeyDictionary({by_functions: 1, Own: 2})


REFERENCES: dict[str, Callable[[list[Own]], Any]] = {
    "a set": lambda held: {weakref.ref(one) for one in held[:2]},
    "a frozenset": lambda held: frozenset(weakref.ref(one) for one in held[:2]),
    "keys": lambda held: {weakref.ref(one): one.n for one in held[:2]},
    "a subclass": lambda held: Named(held[:2]),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_other_containers_of_references(name: str) -> None:
    def program(x: torch.Tensor, held: list[Own], table: Any) -> Any:
        asked = [one if name == "a subclass" else weakref.ref(one) for one in held]
        return x + 1, [one in table for one in asked], len(table)

    found = []
    for call in (program, compiled(program)):
        held, seen = [Own(i) for i in range(4)], []
        table = REFERENCES[name](held)
        for number in range(4):
            if number == 1:
                held[0], held[3] = held[3], held[0]
            elif number == 2:
                held[1] = Own(1)
            elif number == 3:
                table = REFERENCES[name](held)
            seen.append(numbers(call(torch.ones(2), held, table)))
        found.append(seen)
    assert found[0] == found[1]


@pytest.mark.parametrize("size", [1, 3, 5])
@pytest.mark.parametrize("number", range(3))
def test_the_order_of_a_set(size: int, number: int) -> None:
    """It follows from where the members lie, and from what was added and removed before."""

    def program(x: torch.Tensor, held: list[Own], table: weakref.WeakSet[Own]) -> Any:
        if number == 1:
            table.add(held[-1])
        elif number == 2:
            table.discard(held[0])
        return x + 1, list(table)

    call = compiled(program)
    for _ in range(3):
        held = [Own(i) for i in range(6)]
        table = weakref.WeakSet(held[:size])
        _, shown = call(torch.ones(2), held, table)
        assert [id(one) for one in shown] == [id(one) for one in table]
