"""Options, hooks and records that are about one frame at a time: side effects, hooks on the
code of entries, Chrome events.
"""

from __future__ import annotations

import sys

import pytest
import torch
import torch._dynamo
import torch._inductor
from torch._dynamo import config, convert_frame
from torch._dynamo.testing import CompileCounter

import framelift

X = torch.ones(3)
pytestmark = pytest.mark.usefixtures("installed")


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.seen = 0, []

    def forward(self, x):
        self.calls += 1
        self.seen.append(x + 1)
        return x + 2


def test_side_effects_may_be_errors():
    model = Counting()
    with config.patch(side_effect_replay_policy="error"), pytest.raises(RuntimeError, match="certain side effects"):
        torch.compile(model, backend="eager")(X)
    assert model.calls == 0 and not model.seen
    with config.patch(side_effect_replay_policy="warn"), pytest.warns(UserWarning, match="calls"):
        torch.compile(model, backend="eager")(X)
    assert model.calls == 1 and len(model.seen) == 1
    with config.patch(side_effect_replay_policy="error"):
        assert torch.equal(torch.compile(lambda x: x + 1, backend="eager", fullgraph=True)(X), X + 1)


@pytest.mark.skipif(
    not hasattr(convert_frame, "get_compiled_code_side_effects"), reason="this torch has no such function"
)
def test_code_hooks_see_side_effects():
    found: dict = {}
    handle = convert_frame.register_bytecode_hook(
        lambda old, new: found.update({old.co_name: convert_frame.get_compiled_code_side_effects(new)})
    )
    try:
        torch.compile(Counting(), backend="eager")(X)

        def pure(x):
            return x + 1

        torch.compile(pure, backend="eager")(X)
    finally:
        handle.remove()
    assert found.pop("pure") == ()
    assert any("calls" in place for place in next(iter(found.values())))
    assert convert_frame.get_compiled_code_side_effects(Counting.forward.__code__) is None


def test_code_that_a_hook_returns_is_used():
    def f(x):
        return x + 1

    def hook(old, new):
        assert old is f.__code__
        space = {}
        exec("def entry(inputs, externals):\n    return graph(*inputs)[0] * 10\n", space)
        return space["entry"].__code__

    handle = convert_frame.register_bytecode_hook(hook)
    try:
        compiled = torch.compile(f, backend="eager")
        assert torch.equal(compiled(X), (X + 1) * 10) and torch.equal(compiled(X), (X + 1) * 10)
    finally:
        handle.remove()


def test_logs_of_side_effects(caplog):
    torch._logging.set_logs(side_effects=True)
    try:
        with caplog.at_level("DEBUG"):
            torch.compile(Counting(), backend="eager")(X)
    finally:
        torch._logging.set_logs()
    assert "Mutating object at" in caplog.text and "seen" in caplog.text


def test_chrome_events(monkeypatch):
    log = torch._dynamo.utils.get_chromium_event_logger()
    events = []
    monkeypatch.setattr(log, "_log_timed_event", lambda *args: events.append(args[:3]) or {})
    torch.compile(lambda x: x + 1, backend="eager")(X)
    names = [name for name, _, kind in events if kind == "B"]
    assert names[0] == "_compile.compile_inner" and "bytecode_tracing" in names and "build_guards" in names
    open_, times = [], [time for _, time, _ in events]
    for name, _, kind in events:  # nested, and in order
        open_.append(name) if kind == "B" else open_.pop(open_.index(name))
    assert not open_ and times == sorted(times) and not log.get_stack()
