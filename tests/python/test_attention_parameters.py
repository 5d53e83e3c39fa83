"""What torch chooses a kernel of attention by: made, read, returned, and given."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.backends.cuda import SDPAParams

import framelift

X = torch.ones(1, 2, 4, 8)
NAMES = ("query", "key", "value", "attn_mask", "dropout", "is_causal", "enable_gqa")


def made(x: Any, rate: float) -> Any:
    parameters = SDPAParams(x, x * 2, x, None, rate, True, False)
    return parameters, parameters.key + 1, parameters.query is x, parameters.dropout


def given(parameters: Any, rate: float) -> Any:
    return parameters, parameters.query * 2, parameters.attn_mask, parameters.dropout + rate, parameters.is_causal


def parts(result: Any) -> list[Any]:
    return [getattr(result[0], name) for name in NAMES] + list(result[1:])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(("program", "first"), [(made, X), (given, SDPAParams(X, X + 1, X, None, 0.5, True, False))])
def test_parameters_of_attention(program: Any, first: Any, backend: str) -> None:
    framelift.reset()
    compiled = framelift.compile(program, backend=backend, fullgraph=True)
    for rate in (0.1, 0.2, 0.3):
        torch.testing.assert_close(parts(compiled(first, rate)), parts(program(first, rate)))
    other = SDPAParams(X + 1, X, X, X, 0.25, False, False) if program is given else X + 1
    torch.testing.assert_close(parts(compiled(other, 0.1)), parts(program(other, 0.1)))
    assert framelift.stats()["captures"] <= 4
