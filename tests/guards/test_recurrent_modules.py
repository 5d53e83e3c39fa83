"""Recurrent modules hold weak references to their weights: calls run no Python code for them, and changes are seen."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import framelift

CHANGES: dict[str, Callable[[torch.nn.LSTM], object]] = {
    "nothing": lambda module: None,
    "written": lambda module: module.weight_ih_l0.data.mul_(2),
    "replaced": lambda module: setattr(
        module, "weight_ih_l0", torch.nn.Parameter(torch.rand_like(module.weight_ih_l0))
    ),
    "other data": lambda module: setattr(module.bias_hh_l0, "data", torch.rand(20)),
    "moved": lambda module: module.double().float(),
    "flattened": lambda module: module.flatten_parameters(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_recurrent_module_settles(change: str) -> None:
    module = torch.nn.LSTM(4, 5)
    compiled = framelift.compile(module, backend="eager")
    x = torch.rand(3, 2, 4)
    with torch.no_grad():
        for _ in range(12):
            assert torch.equal(compiled(x)[0], module(x)[0])
        program = compiled._compiled.entries[0].program
        assert program.stats()["settled"] and not program.unsettled()
        CHANGES[change](module)
        for _ in range(12):
            assert torch.equal(compiled(x)[0], module(x)[0])
