"""Values that are themselves inside and outside can be returned, and handed over at a graph break."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pytest
import torch

import framelift
from framelift.boundary.becomes.leaves import LEAF_TYPES
from support import check
from torch.nn.attention import SDPBackend, sdpa_kernel

LEAVES: list[Any] = [
    *(None, True, 3, 2.5, 1j, "text", b"data", ..., NotImplemented, range(3), slice(1, 2)),
    *(torch.float16, torch.device("cpu"), torch.strided, torch.channels_last, torch.Size([2, 3])),
    *(torch.per_tensor_affine, torch.finfo(torch.float32), torch.iinfo(torch.int8), SDPBackend.MATH),
    *(datetime.date(2020, 1, 2), datetime.timedelta(3), datetime.timezone.utc, re.compile("a+")),
]


def test_each_type_of_leaf_has_an_example() -> None:
    assert {kind for kind in LEAF_TYPES if kind.__name__ != "code"} <= {type(leaf) for leaf in LEAVES}


@pytest.mark.parametrize("leaf", LEAVES, ids=repr)
def test_leaves_are_returned_and_handed_over(leaf: Any) -> None:
    def returned(x: torch.Tensor) -> Any:
        return x + 1, [leaf], leaf

    def handed_over(x: torch.Tensor) -> Any:
        y, held = x + 1, [leaf]
        framelift.graph_break()
        return y * 2, held, held[0] is leaf or held[0] == leaf

    for function, graphs in ((returned, 1), (handed_over, 2)):
        framelift.reset()
        captured, x = framelift.compile(function, backend="eager"), torch.ones(2)
        for _ in range(2):
            assert repr(captured(x)) == repr(function(x))
        assert framelift.stats()["graphs"] == graphs


def test_a_break_inside_a_choice_of_attention_kernels() -> None:
    def function(x: torch.Tensor) -> Any:
        y = x + 1
        with sdpa_kernel([SDPBackend.MATH]):
            y = y * 2
            framelift.graph_break()
            y = torch.nn.functional.scaled_dot_product_attention(y, y, y)
        return y * 2

    check(function, torch.ones(1, 1, 4, 4), graphs=None, breaks=None)
    assert framelift.stats()["graphs"] > 0
