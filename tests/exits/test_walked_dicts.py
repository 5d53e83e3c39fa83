"""Graph breaks inside loops over dictionaries: the iterator goes on at the same place of the same dictionary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift


@framelift.disable
def off(value: Any = None) -> Any:
    return value


def _stays(_table: dict[str, Any], _x: Any) -> None:
    pass


def _sets(table: dict[str, Any], x: Any) -> None:
    table["c"] = x


def _grows(table: dict[str, Any], x: Any) -> None:
    table[f"n{len(table)}"] = x


def _shrinks(table: dict[str, Any], _x: Any) -> None:
    table.pop("d", None)


def _moves(table: dict[str, Any], x: Any) -> None:
    if [*table][-1] != "b":
        table["b"] = table.pop("b") + x


WALKS: list[Callable[[dict[str, Any]], Any]] = [
    lambda table: table,
    lambda table: table.keys(),
    lambda table: table.values(),
    lambda table: table.items(),
    lambda table: enumerate(table.items()),
    lambda table: zip(table, table.values()),
    lambda table: reversed(table),
]


@pytest.mark.parametrize("changes", [_stays, _sets, _grows, _shrinks, _moves])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("walk", range(len(WALKS)))
def test_loops_go_on_as_in_plain_python(walk: int, late: bool, changes: Callable[..., None]) -> None:
    iterate = WALKS[walk]

    def function(table: dict[str, Any], x: Any) -> Any:
        made = []
        try:
            for found in iterate(table):
                x = x + 1
                if not late:
                    changes(table, x)
                off()
                if late:
                    changes(table, x)
                made.append((found, x))
        except RuntimeError as error:
            made.append(str(error))
        return made

    captured = framelift.compile(function, backend="eager")
    for _ in range(3):
        tables = [{name: torch.tensor([float(i)]) for i, name in enumerate("abcd")} for _ in range(2)]
        results = [one(table, torch.ones(1)) for one, table in zip((function, captured), tables)]
        assert repr(results[0]) == repr(results[1])
        assert repr(tables[0]) == repr(tables[1])


def test_an_iterator_is_one_object() -> None:
    def function(table: dict[str, Any], x: Any) -> Any:
        walked = iter(table.values())
        names = [walked, walked]
        next(walked)
        off()
        return names[0] is names[1], next(names[0]) + x, walked

    table = {name: torch.tensor([float(i)]) for i, name in enumerate("abcd")}
    same, second, walked = framelift.compile(function, backend="eager")(table, torch.ones(1))
    assert same and second.tolist() == [2.0] and [one.item() for one in walked] == [2.0, 3.0]


def test_equal_layers_share_a_graph() -> None:
    layers = torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(6)])

    def function(x: Any) -> Any:
        for layer in layers:
            x = layer(x)
            off()
        return x

    graphs = []

    def backend(graph: Any, _inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    captured = framelift.compile(function, backend=backend)
    x = torch.ones(1, 2)
    with torch.no_grad():
        assert torch.equal(captured(x), function(x)) and torch.equal(captured(x), function(x))
    assert len(graphs) == 2  # the first layer, and one for all that follow
