"""Logs, listeners, and files that repeat a graph."""

from __future__ import annotations

import itertools
import json
import logging
import os
import runpy
import subprocess
import sys
import threading

import pytest
import torch

import framelift
from framelift.capture.around import ranges
from framelift.capture.records import events
from framelift.capture.records.captures import Capture, Input
from framelift.guards.kinds import tensor_facts
from framelift.report.repro import module_source, repro_source
from framelift.surface import cli, repro_files

X = torch.ones(2, 3)


def program(x, n):
    return (x.sin() * n).cos().exp() + 1


def compiled(function=program, **options):
    return framelift.compile(function, **{"backend": "eager", **options})


# ---- logs ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def quiet():
    yield
    framelift.set_logs()


def test_topics_are_loggers(quiet, capsys) -> None:
    framelift.set_logs(breaks=True, recompiles=True, guards=logging.DEBUG, graph=True, entry=True, perf=True)
    f = compiled()
    f(X, 1), f(X, 2)
    compiled(lambda x: x.sum().item())(X)
    text = capsys.readouterr().err
    assert "framelift.breaks: " in text and "a tensor's value was taken into Python by" in text
    assert "recompiled: n is now 2, was 1 (read at " in text
    assert "framelift.perf: [program test_repro.py:" in text and "rehearse " in text
    assert "def graph(" in text and "def entry(" in text and "n == 1" in text and "test_repro.py:" in text


def test_no_topic_is_shown_unless_asked_for(quiet, capsys) -> None:
    framelift.set_logs(perf=True)
    framelift.set_logs()
    compiled()(X, 1)
    assert capsys.readouterr().err == ""
    with pytest.raises(ValueError, match="no topic is called nothing"):
        framelift.set_logs(nothing=True)


def test_logs_by_environment(quiet, capsys) -> None:
    framelift.vocabulary.log._configure("all,-entry,+guards,wrong,help")
    assert (
        framelift.vocabulary.log.topic("guards").level == logging.DEBUG
        and framelift.vocabulary.log.topic("entry").level == logging.NOTSET
    )
    assert framelift.vocabulary.log.topic("perf").level == logging.INFO
    text = capsys.readouterr().err
    assert "no topic 'wrong'" in text and "why something was recompiled" in text


_TRACED = """
import io, logging, torch, framelift
trace = torch._logging._internal.trace_log
handler = logging.StreamHandler(stream := io.StringIO())
handler.setFormatter(torch._logging._internal.TorchLogsFormatter(trace=True))
trace.addHandler(handler)
trace.setLevel(logging.DEBUG)
framelift.compile(lambda x: x.sin() + 1, backend="eager")(torch.ones(3))
def broken(x):
    y = x + 1
    framelift.graph_break()
    return y * 2
framelift.compile(broken, backend="eager")(torch.ones(3))
print(stream.getvalue())
"""


def test_structured_trace() -> None:
    """In a process of its own: torch's trace log is one per process, and other tests leave it in other states."""
    text = subprocess.run([sys.executable, "-c", _TRACED], capture_output=True, text=True, check=True).stdout
    assert '"dynamo_output_graph"' in text and '"compilation_metrics"' in text and "framelift_entry" in text
    assert '"dynamo_start"' in text and '"frame_id": 0, "frame_compile_id": 0' in text
    assert text.count("dynamo_graph_break_reason") == 1 and '"frame_id": 2, "frame_compile_id": 0' in text
    begun = [json.loads(line[line.index("{") :]) for line in text.splitlines() if '"dynamo_start"' in line]
    last = [one["dynamo_start"]["stack"][-1] for one in begun]
    assert [(frame["line"], frame["name"]) for frame in last] == [(8, "<lambda>"), (9, "broken"), (11, "broken")]


# ---- listeners ----


def test_what_is_being_compiled_in_the_background() -> None:
    waiting = framelift.compile(program, backend="eager", background="manual")
    waiting(X, 1)
    assert not waiting.report().functions[0].captures[0].compiling  # there is nothing to compile
    waiting = framelift.compile(program, backend="aot_eager", background="manual")
    waiting(X, 1)
    assert "1 graph still being compiled in the background" in str(waiting.report())
    waiting.wait()
    waiting(X, 1)
    assert "background" not in str(waiting.report())


def test_what_came_from_the_disk_cache() -> None:
    """Torch counts it; a backend that is not torch's does as if."""
    from torch._dynamo.utils import counters

    def backend(graph_module, _examples):
        counters["aot_autograd"]["autograd_cache_hit"] += 1
        return graph_module.forward

    loaded = compiled(backend=backend)
    loaded(X, 1)
    assert "1 graph loaded from the disk cache" in str(loaded.report())
    counters["aot_autograd"]["autograd_cache_hit"] -= 1


def test_a_listener_that_fails_is_dropped(monkeypatch) -> None:
    def bad(_capture) -> None:
        raise ValueError("no")

    monkeypatch.setitem(events.LISTENERS, "done", [bad])
    with pytest.warns(UserWarning, match="a listener to 'done' failed and was dropped: ValueError: no"):
        assert compiled()(X, 1).shape == X.shape
    assert events.LISTENERS["done"] == []


def test_profile(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setenv("FRAMELIFT_PROFILE", str(tmp_path / "profiles"))
    compiled()(X, 1)
    text = capsys.readouterr().err
    assert "profile of rehearsing program" in text
    assert "(program)" in text or sys.version_info >= (3, 12)  # docs/known_issues.md
    assert len(list((tmp_path / "profiles").glob("*.pstats"))) == 1


def test_ranges_in_the_profiler() -> None:
    f = compiled()
    f(X, 1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        f(X, 1)
    parts = [event for event in profile.events() if event.name.startswith("framelift ")]
    assert [
        event.name.partition(":")[0].split()[1] for event in sorted(parts, key=lambda event: event.time_range.start)
    ] == ["guards", "run", "gather", "graph", "effects"]
    graph = next(event for event in parts if " graph" in event.name).time_range
    sine = next(event for event in profile.events() if event.name == "aten::sin").time_range
    assert graph.start <= sine.start and sine.end <= graph.end
    assert not isinstance(f.entries[0].info.ranges.space["graph"], ranges._Ranged)  # nothing of it stays


def test_ranges_of_a_run_that_fails_or_runs_in_two_threads() -> None:
    def broken(graph_module, _examples):
        def run(*inputs):
            raise ValueError("mine")

        return run

    f = compiled(lambda x: x.add_(1), backend=broken)  # it writes to its input, so that it is not run again
    both = compiled(program)
    both(X, 1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(2):
            with pytest.raises(ValueError, match="mine"):
                f(torch.ones(2))
        workers = [threading.Thread(target=lambda: [both(X, 1) for _ in range(50)]) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert sum(event.name.startswith("framelift effects") for event in profile.events()) >= 2
    assert both(X, 1).equal(program(X, 1))


# ---- repro files -----------------------------------------------------------------------------------------------------


def test_a_repro_file_runs(tmp_path, capsys) -> None:
    f = compiled(backend="aot_eager")
    f(X.t(), 2)
    path = framelift.save_repro(f, tmp_path / "repro.py")
    text = path.read_text()
    assert "BACKEND = 'aot_eager'" in text and "like((3, 2), (1, 3), torch.float32, 'cpu', False),   # x" in text
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(path), run_name="__main__")
    assert stop.value.code == 0 and "same as eager" in capsys.readouterr().out


def test_a_repro_of_a_graph_with_symbolic_numbers(tmp_path, capsys) -> None:
    f = compiled(lambda x, n: x * x.shape[0] + n)
    for size in (2, 3):
        f(torch.ones(size, 3), size + 5)
    path = framelift.save_repro(f, tmp_path / "repro.py")
    assert "like((3, 3), (3, 1), torch.float32" in path.read_text()
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(path), run_name="__main__")
    assert stop.value.code == 0 and "same as eager" in capsys.readouterr().out


def test_nothing_captured_is_said() -> None:
    with pytest.raises(ValueError, match="call the compiled function first"):
        framelift.save_repro(compiled(), "unused.py")


def failing(graph_module, _examples):
    if any("exp" in str(node.target) for node in graph_module.graph.nodes if node.op.startswith("call_")):
        raise RuntimeError("exp is not for me")
    return graph_module.forward


def test_a_failing_backend_leaves_a_repro_that_can_be_made_smaller(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("FRAMELIFT_REPRO_DIR", str(tmp_path))
    monkeypatch.setattr(
        sys.modules["framelift.report.repro"], "_numbers", itertools.count(1)
    )  # a process writes few of them
    with pytest.raises(framelift.exc.BackendCompilerFailed) as caught:
        compiled(backend=failing)(X, 3)
    (path,) = tmp_path.glob("*.py")
    assert str(path) in caught.value.__notes__[0] and "exp is not for me" in path.read_text()
    assert cli.main(["minify", str(path), "-o", str(tmp_path / "small.py")]) == 0
    assert "5 operations became 1" in capsys.readouterr().out
    space = runpy.run_path(str(tmp_path / "small.py"), run_name="small")
    with pytest.raises(framelift.exc.BackendCompilerFailed):
        repro_files.run(space["Repro"](), space["make_inputs"](), space["BACKEND"])


SCRIPT = """
import torch, framelift
LIMIT = 3
print("the script works")

def check(names):
    if len(names) < LIMIT:
        raise RuntimeError("too small for me")
    if "exp" in names:
        raise ValueError("exp is not for me, one of " + str(len(names)))

def picky(graph_module, _examples):
    check([str(node.target) for node in graph_module.graph.nodes if node.op.startswith("call_")])
    return graph_module.forward

if __name__ == "__main__":
    framelift.compile(lambda x: (x.sin() + 1).exp().tanh().cos() * 2, backend=picky)(torch.ones(3))
"""


def test_a_smaller_file_keeps_its_failure_and_the_scripts_backend(tmp_path, capsys, monkeypatch) -> None:
    """Below three operations the backend raises another error: what is left has the first one."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = os.environ | {"FRAMELIFT_REPRO_DIR": str(tmp_path / "repros")}
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "ValueError: exp is not for me, one of 6" in done.stderr and done.stdout == "the script works\n"
    (path,) = (tmp_path / "repros").glob("*.py")
    small = tmp_path / "small.py"
    assert cli.main(["minify", str(path), "-o", str(small)]) == 0
    said = capsys.readouterr().out
    assert "6 operations became 3" in said and "it still fails with ValueError: exp is not for me" in said
    assert "the script works" not in said
    with pytest.raises(framelift.exc.BackendCompilerFailed, match="exp is not for me, one of 3"):
        runpy.run_path(str(small), run_name="__main__")


def test_another_failure_is_not_made_smaller(tmp_path, capsys) -> None:
    module = torch.fx.symbolic_trace(lambda x: (x.exp().sin(),))
    inputs = [Input("x", tensor_facts(torch.ones(2)))]
    for backend, failure, said in (
        ("BACKEND = 'no such backend'\n", None, "no backend is called 'no such backend'"),
        ("BACKEND = None\n", None, "define BACKEND"),
        (
            "def BACKEND(graph, _):\n    raise KeyError(3)\n",
            ("ValueError", "other"),
            "it fails otherwise than it did: KeyError",
        ),
    ):
        path = tmp_path / "repro.py"
        path.write_text(repro_source(module, inputs, backend, failure=failure))
        assert cli.main(["minify", str(path)]) == 1 and said in capsys.readouterr().err
    path.write_text(repro_source(module, inputs, "def BACKEND(graph, _):\n    raise KeyError(3)\n"))
    assert cli.main(["minify", str(path)]) == 0
    assert "def BACKEND(graph, _):" in (tmp_path / "repro_small.py").read_text()


def test_what_does_not_fail_is_not_made_smaller(tmp_path, capsys) -> None:
    f = compiled()
    f(X, 1)
    assert cli.main(["minify", str(framelift.save_repro(f, tmp_path / "fine.py"))]) == 1
    assert "does not fail" in capsys.readouterr().err


def test_subgraphs_are_part_of_a_repro() -> None:
    module = torch.fx.symbolic_trace(lambda x: x + 1)
    module.body = torch.fx.symbolic_trace(lambda x: x + 2)
    text, imports = module_source(module, "Repro")
    space: dict = {"torch": torch}
    exec("\n".join(imports) + "\n" + text, space)
    assert torch.equal(space["Repro"]()(X), X + 1) and torch.equal(space["Repro"]().body(X), X + 2)


def test_a_capture_can_be_made_by_hand() -> None:
    """Tools and tests may build records: every field but the place has a default."""
    assert Capture("f", "file.py", 1).row()["ops"] == 0
