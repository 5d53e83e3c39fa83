"""What the logs say of a recompile: in the names of what the user wrote."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys

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


_FIRST_CAPTURE = """
import torch, framelift
from framelift.report import logs

asked, guard_tree = [], logs.guard_tree
logs.guard_tree = lambda program: asked.append(program) or guard_tree(program)
framelift.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
print(len(asked))
"""


def _texts_made(**variables: str) -> int:
    environment = {name: value for name, value in os.environ.items() if name not in ("TORCH_TRACE", "TORCH_LOGS")}
    done = subprocess.run(
        [sys.executable, "-c", _FIRST_CAPTURE], capture_output=True, text=True, check=True, env=environment | variables
    )
    return int(done.stdout)


def test_the_first_capture_of_a_process_makes_no_text_that_nobody_reads() -> None:
    assert _texts_made() == 0


def test_a_trace_has_the_guards(tmp_path) -> None:
    assert _texts_made(TORCH_TRACE=str(tmp_path)) == 1
    (file,) = tmp_path.iterdir()
    records = [line[line.index("{") :] for line in file.read_text().splitlines() if "{" in line and "V" in line[:1]]
    names = [json.loads(record).get("artifact", {}).get("name") for record in records]
    assert {"framelift_guards", "framelift_entry"} <= set(names)
