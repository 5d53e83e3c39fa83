"""Views of dictionaries, and read-only proxies of them, that come in from outside."""

from __future__ import annotations

import collections
import types

import pytest
import torch

import framelift

X = torch.ones(3)


@pytest.mark.parametrize(
    "make",
    [dict.keys, dict.values, dict.items, types.MappingProxyType, lambda d: collections.OrderedDict(d).items()],
    ids=["keys", "values", "items", "proxy", "ordered items"],
)
def test_views_of_dictionaries_come_in(make) -> None:
    def f(x, view):
        found = [v for v in view]
        return x + len(view), found, list(view), view

    table = {"a": 1, "b": 2.5}
    compiled, plain = framelift.compile(f, backend="eager", fullgraph=True), f
    for step in range(3):
        view = make(table)
        (got, *rest), (want, *others) = compiled(X, view), plain(X, view)
        assert torch.equal(got, want) and rest[:2] == others[:2] and rest[2] is view
        table[f"k{step % 2}"] = step


def test_a_proxy_is_read_by_key_and_its_tensors_are_inputs() -> None:
    def f(x, settings):
        return (
            x * settings["scale"] + settings["bias"],
            settings.get("no", 3),
            "bias" in settings,
            dict(settings) == {**settings},
        )

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    for scale in (1.5, 2.0):
        settings = types.MappingProxyType({"scale": scale, "bias": torch.full((3,), scale)})
        got, want = compiled(X, settings), f(X, settings)
        assert torch.equal(got[0], want[0]) and got[1:] == want[1:]


def test_the_dictionary_behind_a_view_changes_inside() -> None:
    def f(x, table, view):
        table["new"] = 3
        return x + sum(view), list(table)

    table = {"a": 1}
    got, names = framelift.compile(f, backend="eager")(X, table, table.values())
    assert torch.equal(got, X + 4) and names == ["a", "new"] and table == {"a": 1, "new": 3}


def test_a_view_of_an_objects_own_dictionary() -> None:
    class Thing:
        def __init__(self):
            self.n = 5

    def f(x, o, view):
        o.n = 7
        return x + sum(view)

    def g(x, view, o):
        before = sum(view)
        o.n = 7
        return x + sum(view) + before

    for step in (
        lambda run: run(f, lambda o: (o, vars(o).values())),
        lambda run: run(g, lambda o: (vars(o).values(), o)),
    ):

        def run(function, arguments):
            compiled, o, other = framelift.compile(function, backend="eager"), Thing(), Thing()
            for _ in range(2):
                assert torch.equal(compiled(X, *arguments(o)), function(X, *arguments(other)))

        step(run)
