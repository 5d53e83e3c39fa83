"""What captures have shown of a code object is forgotten whole by `reset()`.

No store of framelift is left with code of the program among its keys.
"""

from __future__ import annotations

import dataclasses
import random
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framelift
from framelift.capture.driver import Driver
from framelift.vocabulary import code_knowledge
from framelift.vocabulary.code_knowledge import CodeKnowledge, knowledge_of

CONTAINERS = (dict, set, list, weakref.WeakSet, weakref.WeakKeyDictionary)


def draws(x: torch.Tensor) -> torch.Tensor:
    return x + (1 if random.random() < 0.5 else 2)


def reads_values(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x * n.tolist()[0]


def assumes(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        x.add_(1)
    return x * 2


def makes_leaves(x: torch.Tensor) -> Any:
    y = torch.zeros(3, requires_grad=True)
    return y, y * x


def retains(x: torch.Tensor) -> Any:
    y = x * 2
    y.retain_grad()
    return y


def saves(x: torch.Tensor) -> Any:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return x.exp()


def breaks(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    print(end="")
    return x * 2


CALLS: list[tuple[Callable[..., Any], Callable[[], list[tuple[Any, ...]]]]] = [
    (draws, lambda: [(torch.ones(3),)] * 6),
    (reads_values, lambda: [(torch.ones(3), torch.tensor([i])) for i in range(6)]),
    (assumes, lambda: [(torch.ones(3),), (-torch.ones(3),)]),
    (makes_leaves, lambda: [(torch.ones(3),)]),
    (retains, lambda: [(torch.ones(3, requires_grad=True),)]),
    (saves, lambda: [(torch.ones(3, requires_grad=True),)]),
    (breaks, lambda: [(torch.ones(i),) for i in range(2, 6)]),
]


def is_ours(key: Any) -> bool:
    parts = key if type(key) is tuple else (key,)
    return any(type(part) is types.CodeType and part.co_filename == __file__ for part in parts)


def stores() -> Iterator[tuple[str, Any]]:
    """Every container that a module of framelift, or a class's or module's own record in it, has by name."""
    for name, module in list(sys.modules.items()):
        if name == "framelift" or name.startswith("framelift."):
            for attribute, value in list(vars(module).items()):
                if isinstance(value, CONTAINERS):
                    yield f"{name}.{attribute}", value
                elif str(type(value).__module__).startswith("framelift.") and hasattr(value, "__dict__"):
                    for inner, part in list(vars(value).items()):
                        if isinstance(part, CONTAINERS):
                            yield f"{name}.{attribute}.{inner}", part


def remembered(drivers: list[Driver]) -> list[str]:
    """The stores that have code of this file among their keys or items."""
    found = [name for name, store in stores() if any(map(is_ours, list(store)))]
    for driver in drivers:
        found += [
            f"Driver.{name}"
            for name, value in vars(driver).items()
            if isinstance(value, CONTAINERS) and any(map(is_ours, list(value)))
        ]
    return sorted(set(found))


def test_nothing_of_a_code_object_is_remembered_after_a_reset() -> None:
    framelift.reset()
    compiled = [framelift.compile(function, backend="eager") for function, _ in CALLS]
    drivers = [one.miss for one in compiled]
    for one, (_, calls) in zip(compiled, CALLS):
        for args in calls():
            one(*args)
    before = remembered(drivers)
    assert {"framelift.vocabulary.code_knowledge._known", "Driver.seen"} <= set(before)
    framelift.reset()
    assert remembered(drivers) == []


@pytest.mark.parametrize("field", dataclasses.fields(CodeKnowledge), ids=lambda field: field.name)
def test_every_field_of_the_record_is_forgotten(field: dataclasses.Field[Any]) -> None:
    code = (lambda: None).__code__
    record, new = knowledge_of(code), CodeKnowledge()
    value = getattr(record, field.name)
    if isinstance(value, dict):
        value["x"] = 1
    else:
        setattr(record, field.name, value + 1 if type(value) is int else True)
    assert getattr(knowledge_of(code), field.name) != getattr(new, field.name)
    framelift.reset()
    assert knowledge_of(code) == new


def test_the_record_goes_with_the_code() -> None:
    function = eval("lambda: 'a text that no other code has'")
    knowledge_of(function.__code__).ran_eagerly = True
    count = len(code_knowledge._known)
    del function
    assert len(code_knowledge._known) == count - 1


def test_sizes_are_constants_again_after_a_reset() -> None:
    compiled = framelift.compile(lambda x: x * 2, backend="eager")
    for size in (2, 3, 4, 5):
        compiled(torch.ones(size))
    assert compiled.report().captures == 2  # the second for all sizes
    framelift.reset()
    compiled(torch.ones(2))
    assert compiled.miss.seen[compiled.function.__code__].changing == {}
    compiled(torch.ones(3))
    assert compiled.report().captures == 2
