"""What the logs say of a recompile: in the names of what the user wrote."""

from __future__ import annotations

import logging

import torch

import framelift


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)
        self.scale = 2

    def forward(self, idx, targets=None):
        out = self.lin(idx) * self.scale
        return out if targets is None else out - targets


def test_a_recompile_is_told_in_the_users_names(caplog) -> None:
    net = Net()
    compiled = framelift.compile(net, backend="eager")
    with caplog.at_level(logging.INFO, "framelift.recompiles"):
        compiled(torch.ones(2, 4))
        compiled(torch.ones(2, 4), torch.ones(2, 4))
        net.scale = 3
        compiled(torch.ones(2, 4))
        compiled(torch.ones(2, 4, requires_grad=True))
    reported = [record.getMessage() for record in caplog.records]
    line = Net.forward.__code__.co_firstlineno
    assert len(reported) == 3 and all(
        text.startswith(f"[Net.forward test_logs.py:{line}] recompiled: ") for text in reported
    )
    assert "targets is given, was not given" in reported[0]
    assert "self.scale is now 3, was 2" in reported[1]
    assert "idx has requires_grad True, had False" in reported[2]
    assert not any("args[" in text or "__dict__" in text or "module.py" in text for text in reported)
