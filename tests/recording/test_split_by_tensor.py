"""`tensor_split` by a tensor that says where: torch takes its numbers, so does a capture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift

PROGRAMS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "function": lambda x, by: torch.tensor_split(x, by),
    "method": lambda x, by: x.tensor_split(by),
    "named": lambda x, by: torch.tensor_split(x, tensor_indices_or_sections=by, dim=-1),
    "dimension": lambda x, by: torch.tensor_split(x.reshape(2, 3), by, dim=1),
    "used": lambda x, by: [part.sum() for part in x.tensor_split(by)],
    "by a constant": lambda x, by: x.tensor_split(torch.tensor([1, 4])) + x.tensor_split(by.numel() + 1),
}
PLACES = ([2, 4], [1, 3], [5, 3], [0, 9], [-1, 2], 2, 3, [1, 2, 3], [])


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_eager_mode(name: str, backend: str, fullgraph: bool) -> None:
    program = PROGRAMS[name]
    function = framelift.compile(program, backend=backend, fullgraph=fullgraph)
    for places in PLACES:
        x, by = torch.arange(6.0), torch.tensor(places, dtype=torch.int64)
        got, wanted = function(x, by), program(x, by)
        assert type(got) is type(wanted)
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("by", [torch.tensor([1.5]), torch.tensor([[1]]), torch.tensor([1], dtype=torch.int32)])
def test_what_torch_refuses(by: torch.Tensor) -> None:
    with pytest.raises(RuntimeError) as wanted:
        torch.arange(6.0).tensor_split(by)
    with pytest.raises(RuntimeError) as got:
        framelift.compile(PROGRAMS["method"], backend="eager")(torch.arange(6.0), by)
    assert str(got.value) == str(wanted.value)
