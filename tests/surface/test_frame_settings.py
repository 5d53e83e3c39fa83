"""Options, hooks and records that are about one frame at a time: overrides by compile id, side effects, hooks on the
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


def _two_frames(sizes, backend):
    def f(x, n):
        return x + n

    def g(x, n):
        return x * n

    one, other = torch.compile(f, backend=backend), torch.compile(g, backend=backend)
    for n in sizes:
        assert torch.equal(one(X, n), X + n)
    before = backend.frame_count
    for n in sizes:
        assert torch.equal(other(X, n), X * n)
    return before, backend.frame_count - before


@pytest.mark.skipif(not hasattr(config, "debug_dynamo_config_override"), reason="this torch has no such switch")
def test_options_by_compile_id():
    assert _two_frames((3, 4, 5), CompileCounter()) == (2, 2)
    torch._dynamo.reset()
    with config.patch(debug_dynamo_config_override="1:specialize_int=True"):
        assert _two_frames((3, 4, 5), CompileCounter()) == (2, 3)


@pytest.mark.skipif(not hasattr(config, "debug_dynamo_config_override"), reason="this torch has no such switch")
@pytest.mark.parametrize(
    "text", ["specialize_int=True", "0:specialize_int", "0:nonsense=1", "0:verbose=1;>=0:verbose=2"]
)
def test_rules_that_are_none(text):
    with config.patch(debug_dynamo_config_override=text), pytest.raises(ValueError, match="debug_dynamo_config"):
        torch.compile(lambda x: x + 1, backend="eager")(X)


def test_options_of_inductor_by_compile_id():
    seen = []

    def backend(graph_module, inputs):
        seen.append(torch._inductor.config.max_autotune)
        return graph_module.forward

    def other(x):
        return x - 1

    with config.patch(debug_inductor_config_override="0:max_autotune=True"):
        torch.compile(lambda x: x + 1, backend=backend)(X), torch.compile(other, backend=backend)(X)
    assert not torch._inductor.config.max_autotune and seen == [True, False]
    with config.patch(debug_inductor_config_override="0:nonsense=1"), pytest.raises(ValueError, match="nonsense"):
        torch._dynamo.reset()
        torch.compile(lambda x: x + 1, backend=backend)(X)


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
    assert convert_frame.get_compiled_code_side_effects(test_rules_that_are_none.__code__) is None


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


def test_instructions_are_counted(monkeypatch):
    counter = torch._dynamo.utils.CompileTimeInstructionCounter
    calls = []
    monkeypatch.setattr(counter, "start", lambda: calls.append("start"))
    monkeypatch.setattr(counter, "end", lambda: calls.append("end"))
    with config.patch(record_compile_time_instruction_count=True):
        torch.compile(lambda x: x + 1, backend="eager")(X)
    torch.compile(lambda x: x + 2, backend="eager")(X)
    assert calls == ["start", "end"]
    assert "torch._dynamo.utils" in sys.modules
