"""Reads of attributes of handles that the native core answers: those of a class that the session has met before.

Each program reads the same names of two objects of one class: the session answers for the first, the native core for
the second.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift

X = torch.arange(4.0)


class Layer(torch.nn.Module):
    """Its attributes lie everywhere that a read looks into."""

    of_class = 2
    shift: float | None = None

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.register_buffer("seen", torch.ones(4))
        self.inner = torch.nn.Linear(4, 4)
        self.scale = 3
        self.factor = 0.5
        self.name = "layer"
        self.sizes = [1, 2]
        self.is_on = True
        self.table: collections.OrderedDict[str, int] = collections.OrderedDict()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.table:
            x = x + len(self.table)
        if self.shift is not None:
            x = x + self.shift
        x = self.inner(x) * self.weight + self.seen * self.of_class
        return (x * self.scale + self.factor if self.is_on else x) + self.method(len(self.name)) + sum(self.sizes)

    def method(self, number: int) -> int:
        return number + self.scale


class Pair(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer(), Layer()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def _replaced_method(layer: Layer) -> None:
    layer.method = lambda number: number * 7  # type: ignore[method-assign]


def _hidden_buffer(layer: Layer) -> None:
    layer.__dict__["seen"] = torch.full((4,), 5.0)


def _moved(layer: Layer) -> None:
    del layer.weight
    layer.register_buffer("weight", torch.full((4,), 2.0))


def _other_class(layer: Layer) -> None:
    class Other(Layer):
        of_class = 9

    layer.__class__ = Other


CHANGES: list[Callable[[Layer], Any]] = [
    lambda layer: setattr(layer, "scale", 4),
    lambda layer: setattr(layer, "factor", float("nan")),
    lambda layer: setattr(layer, "name", "another"),
    lambda layer: setattr(layer, "is_on", False),
    lambda layer: setattr(layer, "is_on", 1),
    lambda layer: setattr(layer, "shift", 1.5),
    lambda layer: setattr(layer, "of_class", 5),
    lambda layer: layer.sizes.append(3),
    lambda layer: layer.table.update(a=1),
    lambda layer: setattr(layer, "table", {}),
    lambda layer: setattr(layer, "table", 7 * [0]),
    lambda layer: setattr(layer, "inner", torch.nn.Identity()),
    lambda layer: layer.register_forward_hook(lambda _module, _args, out: out * 2),
    _replaced_method,
    _hidden_buffer,
    _moved,
    _other_class,
]


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_a_change_of_either_object_is_seen(number: int, which: int) -> None:
    torch.manual_seed(0)
    model = Pair()
    compiled = framelift.compile(model, backend="eager")
    torch.testing.assert_close(compiled(X), model(X))
    CHANGES[number](model.layers[which])  # type: ignore[arg-type]
    torch.testing.assert_close(compiled(X), model(X), equal_nan=True)


def test_both_have_the_same_guards() -> None:
    model = Pair()
    compiled = framelift.compile(model, backend="eager")
    compiled(X)
    guards = [str(guard) for guard in compiled._compiled.entries[0].info.guards]
    first, second = (
        sorted(text.replace(f"'{which}'", "'i'") for text in guards if f"['{which}']" in text) for which in "01"
    )
    assert len(first) > 30
    assert first == second


class Box:
    kind = "box"

    def __init__(self, value: Any) -> None:
        self.value = value

    def read(self) -> Any:
        return self.value


def test_one_value_in_two_objects() -> None:
    """That both hold the same list is a fact: what is written to one is seen in the other."""

    def step(x: torch.Tensor, one: Box, other: Box) -> torch.Tensor:
        one.read()
        one.value.append(1)
        return x + len(other.value)

    shared: list[int] = []
    compiled = framelift.compile(step, backend="eager")
    assert torch.equal(compiled(X, Box(shared), Box(shared)), X + 1)
    assert shared == [1]
    assert torch.equal(compiled(X, Box([]), Box([])), X)


def test_what_was_written_is_read() -> None:
    def step(x: torch.Tensor, one: Box, other: Box) -> torch.Tensor:
        x = x * one.value + len(one.kind)
        other.value = one.value + 1
        other.kind = "another"
        return x * other.value + len(other.kind) + other.read()

    compiled = framelift.compile(step, backend="eager")
    for value in (2, 3):
        boxes, plain = (Box(value), Box(0)), (Box(value), Box(0))
        assert torch.equal(compiled(X, *boxes), step(X, *plain))
        assert [vars(box) for box in boxes] == [vars(box) for box in plain]


def test_what_is_not_there_raises() -> None:
    def step(x: torch.Tensor, one: Layer, other: Layer) -> torch.Tensor:
        found = [hasattr(layer, "bias") for layer in (one, other)]
        try:
            return x + other.bias
        except AttributeError as error:
            return x + len(str(error)) + sum(found)

    compiled = framelift.compile(step, backend="eager")
    layers = Layer(), Layer()
    assert torch.equal(compiled(X, *layers), step(X, *layers))
    layers[1].bias = torch.ones(4)
    assert torch.equal(compiled(X, *layers), step(X, *layers))
