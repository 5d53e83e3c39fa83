"""Sizes of storages, which metadata and one fact of an input answer."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift
from support import check

X = torch.arange(6.0).reshape(2, 3)
PROGRAMS: dict[str, Any] = {
    "of an input": lambda x: (x.untyped_storage().size(), x.untyped_storage().nbytes(), x + 1),
    "in elements": lambda x: (x._typed_storage()._size(), x + 1),
    "of views": lambda x: (x[1:].untyped_storage().size(), x.t().untyped_storage().nbytes(), x.view(-1)[2:] + 1),
    "of results": lambda x: ((x + 1).untyped_storage().size(), (x + 1)[0].untyped_storage().size(), x.sum()),
    "offsets": lambda x: (x.storage_offset(), (x + 1).storage_offset(), x + 1),
    "as a condition": lambda x: x + 1 if x.untyped_storage().size() == x.numel() * x.element_size() else x - 1,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes(name: str) -> None:
    check(PROGRAMS[name], X)
    check(PROGRAMS[name], torch.ones(20)[3:9].view(2, 3))


def test_a_larger_storage_is_noticed() -> None:
    program = PROGRAMS["as a condition"]
    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    for x in (X, torch.ones(4, 3)[:2], X, torch.ones(9, 3), torch.ones(12, 3)[:9]):
        assert torch.equal(compiled(x), program(x))


def test_another_offset_is_noticed() -> None:
    base = torch.arange(20.0)
    compiled = framelift.compile(lambda x: x * x.storage_offset(), backend="eager", fullgraph=True)
    for start in (0, 1, 0, 3, 7, 9):
        x = base[start : start + 4]
        assert torch.equal(compiled(x), x * start)
    assert len(compiled.entries) <= 3
    assert framelift.compile(lambda x: x[1:].storage_offset(), backend="eager")(base[2:]) == 3


@pytest.mark.parametrize("ask", [lambda s: s.data_ptr(), lambda s: s.resize_(0), lambda s: s[0], lambda s: s])
def test_what_needs_memory_is_not_captured(ask: Any) -> None:
    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(lambda x: (ask(x.untyped_storage()), x + 1), backend="eager", fullgraph=True)(X.clone())
