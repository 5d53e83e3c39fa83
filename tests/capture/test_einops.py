"""einops notes in its first call which libraries there are: that is done before a capture, so the next call has it."""

from __future__ import annotations

import sys
import types

import pytest
import torch

import framelift


def test_backends_are_noted_before_the_first_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    einops, known = types.ModuleType("einops"), {}

    def rearrange(x: torch.Tensor, pattern: str) -> torch.Tensor:
        if type(x) not in known:
            known[type(x)] = pattern
        return x.view(-1)

    monkeypatch.setattr(einops, "rearrange", rearrange, raising=False)
    monkeypatch.setitem(sys.modules, "einops", einops)
    framelift.testing.assert_captured(lambda x: rearrange(x, "a b -> (a b)") + 1, torch.ones(2, 3), calls=3)
    assert known == {torch.Tensor: "i -> i"}
