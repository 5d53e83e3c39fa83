"""Entries that give the first output of their graph run without a frame: the same results, errors and profiles."""

import gc
import traceback
import weakref

import pytest
import torch

import framelift


def _function(x, y):
    return (x + y).sin()


def _compiled(run):
    return framelift.compile(_function, backend=lambda graph_module, inputs: lambda *values: run(graph_module, values))


class _Row:
    def __init__(self, values) -> None:
        self.values = values

    def __getitem__(self, place):
        return self.values[place]

    def __iter__(self):
        return iter(self.values)


@pytest.mark.parametrize("kind", [tuple, list, _Row])
def test_outputs_of_any_kind(kind) -> None:
    compiled = _compiled(lambda graph_module, values: kind(graph_module(*values)))
    x, y = torch.rand(3), torch.rand(3)
    for _ in range(12):
        assert torch.equal(compiled(x, y), _function(x, y))
    assert compiled.entries[0].steps and compiled.hits == 12


def test_arguments_end_with_the_call() -> None:
    compiled = _compiled(lambda graph_module, values: graph_module(*values))
    for _ in range(12):
        x, y = torch.rand(3), torch.rand(3)
        seen = [weakref.ref(x), weakref.ref(y), weakref.ref(compiled(x, y))]
        del x, y
        gc.collect()
        assert [one() for one in seen] == [None, None, None]


def test_what_the_graph_raises() -> None:
    def fails(graph_module, values):
        if values[0].sum() > 100:
            raise KeyboardInterrupt("stop")
        return graph_module(*values)

    compiled = _compiled(fails)
    x = torch.ones(3)
    for _ in range(12):
        assert torch.equal(compiled(x, x), _function(x, x))
    with pytest.raises(KeyboardInterrupt, match="stop") as raised:
        compiled(x * 100, x)
    assert traceback.extract_tb(raised.value.__traceback__)[-1].name == "fails"
    assert torch.equal(compiled(x, x), _function(x, x))


def test_no_outputs_where_one_is_due() -> None:
    compiled = _compiled(lambda graph_module, values: ())
    with pytest.raises(framelift.exc.InternalError, match="tuple index out of range"):
        compiled(torch.ones(1), torch.ones(1))


def test_profiled_runs_show_the_graph() -> None:
    compiled = _compiled(lambda graph_module, values: graph_module(*values))
    x = torch.ones(3)
    for _ in range(12):
        compiled(x, x)
    with torch.profiler.profile() as profile:
        compiled(x, x)
    names = [event.name for event in profile.events()]
    assert any(name.startswith("framelift graph: ") for name in names)
    assert torch.equal(compiled(x, x), _function(x, x))
