"""What the logs say of a recompile: in the names of what the user wrote."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys

import pytest
import torch

import framelift
from framelift.vocabulary.log import TOPICS, topic


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


class _Records(logging.Handler):
    """A program's own handler of its root logger."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.names.append(record.name)


def _f(x, n):
    y = x.sin() * n
    if y.sum() > 0:
        y = y + 1
    return y


def _shown(level: int, named: str | None = None, **topics: bool) -> set[str]:
    """The loggers of ours that reach the handler of a program's root logger at a level."""
    framelift.reset()  # captures that are shared are not logged again
    root, handler = logging.getLogger(), _Records()
    before, own = root.level, logging.getLogger(named) if named else None
    own_before = own.level if own is not None else 0
    root.addHandler(handler)
    try:
        root.setLevel(level)
        if own is not None:
            own.setLevel(logging.INFO)
        if topics:
            framelift.set_logs(**topics)
        compiled = framelift.compile(lambda *given: _f(*given), backend="eager")
        for i in range(4):
            compiled(torch.ones(2 + i), i)
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        if own is not None:
            own.setLevel(own_before)
        framelift.set_logs()
    return {name for name in handler.names if name.startswith("framelift")}


@pytest.mark.parametrize("level", (1, logging.DEBUG, logging.INFO))
def test_what_a_program_sets_for_its_root_logger_shows_nothing_of_ours(level: int) -> None:
    assert _shown(level) == set()


def test_a_topic_is_shown_when_it_is_named(capsys) -> None:
    assert _shown(logging.DEBUG, "framelift.recompiles") == {"framelift.recompiles"}
    assert {"framelift.breaks", "framelift.guards", "framelift.entry"} < _shown(logging.DEBUG, "framelift")
    assert capsys.readouterr().err == ""


def test_what_set_logs_shows_is_not_shown_again_by_the_programs_own_handlers(capsys) -> None:
    assert _shown(logging.DEBUG, breaks=True) == set()
    assert "framelift.breaks: " in capsys.readouterr().err


def test_logging_that_is_set_up_before_the_import_shows_nothing_of_ours() -> None:
    program = """
import logging
logging.basicConfig(level=1)
import torch, framelift
framelift.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "framelift" not in done.stderr + done.stdout


def test_topics_below_a_warning_are_silent_at_every_level_of_the_root() -> None:
    root = logging.getLogger()
    before = root.level
    try:
        for level in (logging.NOTSET, 1, logging.DEBUG, logging.INFO):
            root.setLevel(level)
            assert [name for name in TOPICS if topic(name).isEnabledFor(logging.INFO)] == []
            assert all(topic(name).isEnabledFor(logging.WARNING) for name in TOPICS)
    finally:
        root.setLevel(before)


_FIRST_CAPTURE = """
import torch, framelift
from framelift.report import logs

asked, tree_text = [], logs.tree_text
logs.tree_text = lambda program, *how: asked.append(program) or tree_text(program, *how)
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
