"""A function that is declared to be one node may lead to large libraries: what torch stands on is not followed."""

from __future__ import annotations

import sympy
import torch

import framelift

_scale = 2


class Settings:
    offset = 1


@framelift.allow_in_graph
def solved(x):
    return x * _scale + Settings.offset + int(sympy.Integer(2) + sympy.Symbol("n").subs("n", 3))


def test_a_function_of_sympy_is_captured_with_guards_on_the_programs_own_values(monkeypatch) -> None:
    compiled = framelift.compile(lambda x: solved(x), backend="eager", fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2)), solved(torch.ones(2)))
    shown = str(compiled.entries[0].info.guards)
    assert "_scale" in shown and "offset" in shown
    assert len(compiled.entries) == 1 and shown.count("sympy") < 20
    monkeypatch.setattr(Settings, "offset", 5)
    assert torch.equal(compiled(torch.ones(2)), solved(torch.ones(2)))
    monkeypatch.setitem(globals(), "_scale", 3)
    assert torch.equal(compiled(torch.ones(2)), solved(torch.ones(2)))
    assert len(compiled.entries) == 3
