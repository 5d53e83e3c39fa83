"""Empty OrderedDicts that captured code asks for their truth alone.

No shadow and no guard on attributes, and yet nothing is missed.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from support import counts

Table = collections.OrderedDict


class Box:
    shared: Any = Table()

    def __init__(self) -> None:
        self.one: Any = Table()
        self.two: Any = Table()
        self.same: Any = self.one
        self.log: list[Any] = []


class Property(Box):
    @property
    def double(self) -> Any:
        return Table(a=1)


class Reading(Box):
    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        return Table(a=1) if name == "two" else found


def branch(box: Any) -> Any:
    return 1 if box.one else 2


def negated(box: Any) -> Any:
    return not box.one, not box.two


def several(box: Any) -> Any:
    return 1 if not (box.one or box.two or box.same) else 2


def chosen(box: Any) -> Any:
    found = box.one or box.two
    return found is box.two, hasattr(found, "note"), len(found)


def kept(box: Any) -> Any:
    found = box.one and box.two
    return found is box.one, getattr(found, "note", None)


def loop(box: Any) -> Any:
    count = 0
    while box.one and count < 3:
        count += 1
    return [count, *(1 if box.two else 2 for _ in range(2))]


def read_after(box: Any) -> Any:
    return 1 if box.one else 2, getattr(box.one, "note", None), list(box.one.keys())


def attributes_after(box: Any) -> Any:
    return 1 if box.one else 2, dict(vars(box.one))


def identity_after(box: Any) -> Any:
    return 1 if box.one else 2, 1 if box.same else 2, box.one is box.same, box.one is box.two


def write_after(box: Any) -> Any:
    first = 1 if box.one else 2
    box.one["k"] = first
    second = 1 if box.one else 2
    box.one.pop("k")
    return first, second, 1 if box.one else 2


def write_elsewhere(box: Any) -> Any:
    first = 1 if box.one else 2
    box.same["k"] = first
    second = 1 if box.one else 2
    box.same.clear()
    return first, second


def write_before(box: Any) -> Any:
    box.two["k"] = 1
    first = 1 if box.one else 2
    box.two.clear()
    return first, 1 if box.two else 2


def attribute_written(box: Any) -> Any:
    first = 1 if box.one else 2
    box.one.note = first
    return first, box.one.note, 1 if box.one else 2


def replaced(box: Any) -> Any:
    first = 1 if box.one else 2
    box.one, before = Table(k=1), box.one
    second = 1 if box.one else 2
    box.one = before
    return first, second, 1 if box.one else 2


def deleted(box: Any) -> Any:
    first, before = 1 if box.one else 2, box.one
    del box.one
    found = hasattr(box, "one")
    box.one = before
    return first, found, 1 if box.one else 2


def given_away(box: Any) -> Any:
    first = 1 if box.one else 2
    box.log.append(box.one)
    return first, box.log.pop() is box.one


def through_vars(box: Any) -> Any:
    return 1 if box.one else 2, bool(vars(box)["one"]), 1 if box.__dict__["same"] else 2


def of_the_class(box: Any) -> Any:
    return 1 if box.shared else 2, 1 if Box.shared else 2


def missing(box: Any) -> Any:
    try:
        return 1 if box.none else 2
    except AttributeError as error:
        return str(error)


def fill(box: Any) -> None:
    box.one["a"] = 1


def fill_two(box: Any) -> None:
    box.two["a"] = 1


def empty(box: Any) -> None:
    box.one.clear()


def name_it(box: Any) -> None:
    box.one.note = "n"


def hidden() -> list[str]:
    return ["hidden"]


def hide(box: Any) -> None:
    box.one.keys = hidden


def join(box: Any) -> None:
    box.two = box.same = box.one


def part(box: Any) -> None:
    box.same, box.two = Table(), Table()


def other_kind(box: Any) -> None:
    box.one = {}


def nothing(box: Any) -> None:
    box.one = None


def subclass(box: Any) -> None:
    box.one = type("Sub", (Table,), {"__bool__": lambda self: True})()


def descriptor(box: Any) -> None:
    computed = property(lambda self: Table(z=1), lambda self, value: None, lambda self: None)
    type(box).one = computed  # type: ignore[attr-defined]


def class_entry(box: Any) -> None:
    type(box).one = Table(z=1)  # type: ignore[attr-defined]


PROGRAMS = [
    branch,
    negated,
    several,
    chosen,
    kept,
    loop,
    read_after,
    attributes_after,
    identity_after,
    write_after,
    write_elsewhere,
    write_before,
    attribute_written,
    replaced,
    deleted,
    given_away,
    through_vars,
    of_the_class,
    missing,
]
CHANGES = [fill, fill_two, empty, name_it, hide, join, part, other_kind, nothing, subclass, descriptor, class_entry]


def outcome(function: Callable[..., Any], box: Any) -> Any:
    try:
        result = function(torch.ones(2), box)
    except Exception as error:
        return type(error), str(error)
    parts = [
        (name, type(one).__name__, list(one) if one is not None else None, sorted(getattr(one, "__dict__", {})))
        for name, one in sorted(vars(box).items())
    ]
    return (
        float(result[0].sum()),
        result[1],
        parts,
        [box.__dict__["one"] is box.__dict__.get(name) for name in ("two", "same")],
    )


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_change_between_calls(program: Callable[[Any], Any], change: Callable[[Any], None]) -> None:
    def f(x: torch.Tensor, box: Any) -> Any:
        return x + 1, program(box)

    run = framelift.compile(f, backend="eager")
    boxes = [type("Own", (Box,), {"shared": Table()})() for _ in range(2)]
    for step in (None, None, change, None, fill):
        for box in boxes:
            if step is not None:
                with contextlib.suppress(AttributeError, TypeError):  # a change before it may have left nothing to fill
                    step(box)
        assert outcome(f, boxes[0]) == outcome(run, boxes[1])


@pytest.mark.parametrize("cls", [Property, Reading])
def test_reads_that_are_not_the_dictionary_entry(cls: Any) -> None:
    def f(x: torch.Tensor, box: Any) -> Any:
        return x + 1, (1 if box.two else 2, 1 if getattr(box, "double", None) else 2)

    box = cls()
    box.__dict__["double"] = Table()
    assert outcome(framelift.compile(f, backend="eager"), box) == outcome(f, box)


def test_a_module_of_the_program() -> None:
    space = types.ModuleType("space")
    space.hooks = Table()  # type: ignore[attr-defined]

    def f(x: torch.Tensor) -> Any:
        return x + (1 if space.hooks else 2)

    run = framelift.compile(f, backend="eager")
    for change in (lambda: None, lambda: space.hooks.update(a=1), lambda: space.hooks.clear()):
        change()
        assert run(torch.ones(2)).tolist() == f(torch.ones(2)).tolist()


def test_attributes_that_nobody_reads_are_not_guarded() -> None:
    model = torch.nn.Linear(2, 2)
    run = framelift.compile(model, backend="eager")
    run(torch.ones(2))
    before = counts()
    model._forward_hooks.note = 1  # type: ignore[attr-defined]
    run(torch.ones(2))
    assert counts() == before
    model.register_forward_hook(lambda module, given, result: result + 1)
    assert run(torch.ones(2)).tolist() == model(torch.ones(2)).tolist()


def test_a_hook_registered_inside() -> None:
    def f(model: Any, x: torch.Tensor) -> Any:
        before = model(x)
        handle = model.register_forward_hook(lambda module, given, result: result + 1)
        between = model(x)
        handle.remove()
        return before, between, model(x)

    model = torch.nn.Linear(2, 2)
    expected = f(copy.deepcopy(model), torch.ones(2))
    run = framelift.compile(f, backend="eager")
    for _ in range(2):
        assert all(map(torch.equal, run(model, torch.ones(2)), expected))
        assert not model._forward_hooks


def test_a_class_is_written_to_between_two_of_its_objects() -> None:
    def f(x: torch.Tensor, first: Any, second: Any) -> Any:
        seen = [1 if first.one else 2]
        type(first).one = property(lambda self: Table(z=1))
        seen.append(1 if second.one else 2)
        del type(first).one
        return x + 1, [*seen, 1 if second.one else 2]

    kinds = [type("Own", (Box,), {}) for _ in range(2)]
    run = framelift.compile(f, backend="eager")
    for _ in range(2):
        rows = [function(torch.ones(2), kind(), kind())[1] for function, kind in zip((f, run), kinds)]
        assert rows[0] == rows[1]
        assert not any("one" in vars(kind) for kind in kinds)
