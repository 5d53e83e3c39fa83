"""Graphs that run uncompiled while another process compiles them.

Results, the exchange, failures, and the end of the process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from framelift import config
from framelift.exc import BackendCompilerFailed, IncorrectUsage


class Counting:
    """A backend that compiles nothing, and counts its graphs and the runs of these."""

    def __init__(self) -> None:
        self.graphs = self.runs = 0

    def __call__(self, graph_module: Any, example_inputs: Any) -> Any:
        self.graphs += 1

        def run(*inputs: Any) -> Any:
            self.runs += 1
            return graph_module.forward(*inputs)

        return run


def test_the_graph_runs_uncompiled_until_it_is_waited_for():
    backend = Counting()
    f = framelift.compile(lambda x: x.sin() + 1, backend=backend, background="manual")
    x = torch.rand(3)
    assert all(torch.equal(f(x), x.sin() + 1) for _ in range(3))
    assert (backend.graphs, backend.runs) == (0, 0)
    assert f.wait()
    assert all(torch.equal(f(x), x.sin() + 1) for _ in range(3))
    assert (backend.graphs, backend.runs) == (1, 3) and len(f.entries) == 1


def test_the_exchange_counts_as_the_same_capture():
    f = framelift.compile(lambda x: x + 1, backend=Counting(), background="manual")
    framelift.reset()
    f(torch.ones(2))
    assert framelift.stats()["compiling"] == 1
    f.wait()
    f(torch.ones(2))
    stats = framelift.stats()
    assert (stats["captures"], stats["graphs"], stats["compiling"], stats["recompiles"]) == (1, 1, 0, [])
    assert len(f.miss.record.notes) == 1 and f.recompiles() == []


def test_entries_of_other_sizes_are_exchanged_one_by_one():
    backend = Counting()
    f = framelift.compile(lambda x: (x * x.shape[0]).sum(), backend=backend, background="manual")
    xs = [torch.rand(n) for n in (4, 5, 6)]

    def same() -> bool:
        return all(torch.allclose(f(x), (x * x.shape[0]).sum()) for x in xs)

    assert same() and len(f.entries) == 2 and backend.graphs == 0  # one for 4, one for all others
    f.wait()
    assert same() and same() and len(f.entries) == 2 and backend.graphs == 2
    assert [entry.info.relations is None for entry in f.entries] == [False, True]


def test_a_capture_that_comes_while_others_wait_is_an_interim_one_too():
    backend = Counting()
    f = framelift.compile(lambda x, flag: x + 1 if flag else x - 1, backend=backend, background="manual")
    x = torch.rand(2)
    f(x, True)
    f.wait()
    f(x, False)
    assert backend.graphs == 0
    f(x, True)
    assert backend.graphs == 1
    f.wait()
    assert torch.equal(f(x, False), x - 1) and torch.equal(f(x, True), x + 1) and backend.graphs == 2


def test_a_history_that_began_uncompiled_ends_uncompiled():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    f = framelift.compile(model, backend="aot_eager", background="manual")
    x = torch.rand(3, 4)
    uncompiled = f(x).sum()
    f.wait()
    compiled = f(x).sum()
    assert "CompiledFunction" not in type(uncompiled.grad_fn.next_functions[0][0]).__name__
    assert "CompiledFunction" in type(compiled.grad_fn.next_functions[0][0]).__name__
    gradients = []
    for loss in (uncompiled, compiled, model(x).sum()):
        model.zero_grad()
        loss.backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    assert all(torch.allclose(a, b) for others in gradients[:2] for a, b in zip(others, gradients[2]))


def test_frames_around_a_break_are_exchanged():
    backend = Counting()

    def program(x):
        y = x.sin()
        framelift.graph_break()
        return y.cos()

    f = framelift.compile(program, backend=backend, background="manual")
    x = torch.rand(3)
    assert torch.equal(f(x), program(x)) and framelift.stats()["compiling"] >= 2
    f.wait()
    assert torch.equal(f(x), program(x)) and backend.graphs == 2
    assert torch.equal(f(x), program(x)) and backend.graphs == 2


def test_effects_and_random_numbers_happen_once():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x):
            self.calls += 1
            self.total += x
            return torch.dropout(x, 0.5, True)

    plain, model = Model(), Model()
    f = framelift.compile(model, backend=Counting(), background="manual")
    x = torch.ones(3)
    for one, call in ((plain, plain), (model, f)):
        torch.manual_seed(1)
        results = []
        for step in range(6):
            if step == 3 and call is f:
                f.wait()
            results.append(call(x))
        one.results = results
    assert all(map(torch.equal, plain.results, model.results))
    assert model.calls == plain.calls == 6 and torch.equal(model.total, plain.total)


def failing(graph_module: Any, example_inputs: Any) -> Any:
    raise ValueError("no such luck")


def test_a_failure_of_the_backend_is_raised_by_the_next_call():
    f = framelift.compile(lambda x: x + 1, backend=failing, background="manual")
    x = torch.ones(2)
    assert torch.equal(f(x), x + 1)
    f.wait()
    for _ in range(2):  # and from then on as without a background
        with pytest.raises(BackendCompilerFailed, match="no such luck"):
            f(x)


def test_a_suppressed_failure_leaves_the_call_to_plain_python():
    f = framelift.compile(lambda x: x + 1, backend=failing, background="manual")
    x = torch.ones(2)
    f(x)
    f.wait()
    with config.patch(suppress_errors=True), pytest.warns(UserWarning, match="no such luck"):
        assert torch.equal(f(x), x + 1)


@pytest.mark.parametrize("stance", ["fail_on_recompile", "eager_on_recompile"])
def test_an_exchange_is_no_recompile(stance):
    backend = Counting()
    f = framelift.compile(lambda x: x + 1, backend=backend, background="manual")
    x = torch.ones(2)
    f(x)
    f.wait()
    with framelift.set_stance(stance), config.patch(error_on_recompile=True):
        assert torch.equal(f(x), x + 1)
    assert backend.runs == 1


def test_config_stance_and_option_ask_for_a_background():
    x = torch.ones(2)
    with config.patch(background="manual"):
        f = framelift.compile(lambda x: x + 1, backend="aot_eager")
        f(x)
        off = framelift.compile(lambda x: x + 1, backend="aot_eager", background=False)
        off(x)
    assert framelift.wait(f) and f.entries[0].info.interim is not None and off.entries[0].info.interim is None
    by_option = framelift.compile(lambda x: x + 1, backend=Counting(), options={"background": "manual"})
    with pytest.raises(IncorrectUsage, match="takes no options"):  # and it gets none of framelift's own
        framelift.compile(lambda x: x + 1, backend=Counting(), options={"other": 1})(x)
    by_option(x)
    assert by_option.entries[0].info.interim is not None
    with pytest.raises(ValueError, match="background"):
        framelift.compile(lambda x: x, background="maybe")
    with framelift.set_stance("background"):  # a backend that keeps nothing on disk is waited for
        backend = Counting()
        framelift.compile(lambda x: x + 1, backend=backend)(x)
        assert backend.graphs == 1


def test_many_threads_see_one_exchange():
    backend = Counting()
    f = framelift.compile(lambda x: x.sin() + 1, backend=backend, background="manual")
    x = torch.rand(3)
    f(x)
    wrong: list[Any] = []

    def calls() -> None:
        wrong.extend(i for i in range(200) if not torch.equal(f(x), x.sin() + 1))

    threads = [threading.Thread(target=calls) for _ in range(4)]
    interval = sys.getswitchinterval()
    try:
        sys.setswitchinterval(1e-5)
        for thread in threads:
            thread.start()
        f.wait()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    f(x)  # the threads may be done before the wait
    assert not wrong and backend.graphs == 1 and len(f.entries) == 1


def test_nothing_of_the_first_call_is_kept_alive():
    import gc
    import weakref

    f = framelift.compile(lambda x: x + 1, backend=Counting(), background="manual")
    x = torch.ones(2)
    gone = weakref.ref(x)
    f(x)
    del x
    gc.collect()
    assert gone() is None


def test_a_reset_forgets_what_is_being_compiled():
    backend = Counting()
    f = framelift.compile(lambda x: x + 1, backend=backend, background="manual")
    x = torch.ones(2)
    f(x)
    framelift.reset()
    assert f.wait() and framelift.stats()["compiling"] == 0
    assert torch.equal(f(x), x + 1) and backend.graphs == 0


# ---- another process, with Inductor ----------------------------------------------------------------------------------

PROGRAM = textwrap.dedent("""
    import json, sys, torch, framelift
    from torch._dynamo.utils import counters

    torch.manual_seed(0)

    def inference():
        model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(3)], torch.nn.GELU()).eval()
        f, x, wrong = framelift.compile(model, background=True), torch.rand(4, 8), 0
        with torch.no_grad():
            for step in range(1000):
                if step == 500:
                    assert counters["inductor"]["fxgraph_cache_miss"] == 0
                    f.wait()
                x = torch.rand(4, 8)
                wrong += not torch.allclose(f(x), model(x), atol=1e-5)
        return wrong

    def training():
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        f, wrong = framelift.compile(model, background=True), 0
        for step in range(20):
            if step == 10:
                f.wait()
            x, gradients = torch.rand(4, 8), []
            for call in (model, f):
                model.zero_grad()
                call(x).sum().backward()
                gradients.append([parameter.grad.clone() for parameter in model.parameters()])
            wrong += not all(torch.allclose(a, b, atol=1e-5) for a, b in zip(*gradients))
        return wrong

    def sizes():
        def program(x):
            return (x * x.shape[0]).cos().sum()
        f, wrong = framelift.compile(program, background=True), 0
        for step in range(12):
            if step == 6:
                f.wait()
            x = torch.rand(4 + step % 3)
            wrong += not torch.allclose(f(x), program(x), atol=1e-5)
        return wrong

    def autocast():
        layer = torch.nn.Linear(8, 8)
        f, x, wrong = framelift.compile(layer, background=True), torch.rand(4, 8), 0
        for step in range(4):
            if step == 2:
                f.wait()
            with torch.no_grad(), torch.autocast("cpu"):
                made = f(x)
                wrong += made.dtype is not torch.bfloat16 or not torch.allclose(made, layer(x), atol=1e-2)
        return wrong

    rows = {}
    for program in (inference, training, sizes, autocast):
        counters.clear()
        wrong = program()
        found = {**counters["inductor"], **counters["aot_autograd"]}
        rows[program.__name__] = wrong, {kind: count for kind, count in found.items() if "_cache_" in kind}
    print(json.dumps(rows))
""")


def run(program: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=900,
    )


@pytest.mark.slow
def test_inductor_compiles_in_another_process(tmp_path):
    done = run(PROGRAM, TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]
    for name, (wrong, caches) in json.loads(done.stdout.strip().splitlines()[-1]).items():
        assert wrong == 0, name
        assert caches.get("autograd_cache_hit", 0) >= 1, (name, caches)
        assert not [kind for kind in caches if "miss" in kind or "bypass" in kind], (
            name,
            caches,
        )  # nothing is compiled in this process


ENDING = textwrap.dedent("""
    import os, sys, torch, framelift
    f = framelift.compile(lambda x: x.sin() + 1, background=True)
    x = torch.rand(3)
    assert torch.equal(f(x), x.sin() + 1)
    assert framelift.stats()["compiling"] == 1
    if sys.argv[1] == "fork":
        child = os.fork()
        if child == 0:   # what the parent's process does is not the child's to wait for
            os._exit(0 if f.entries[0].info.interim.job.is_ready() and framelift.stats()["compiling"] == 0 else 1)
        assert os.waitpid(child, 0)[1] == 0 and framelift.stats()["compiling"] == 1
    if sys.argv[1] == "killed":
        from framelift.backends import elsewhere
        elsewhere.worker.process.kill()
        assert f.wait() and "ended" in f.entries[0].info.interim.job.reply["error"]
        assert torch.allclose(f(x), x.sin() + 1) and f.entries[0].info.interim is None
""")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["exit", "fork", "killed"])
def test_a_process_may_end_while_another_compiles_for_it(way, tmp_path):
    done = run(ENDING, way, TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
def test_without_disk_caches_the_backend_is_waited_for(tmp_path):
    program = textwrap.dedent("""
        import torch, framelift
        f = framelift.compile(lambda x: x.sin() + 1, background=True)
        f(torch.rand(3))
        assert f.entries[0].info.interim is None
    """)
    done = run(program, TORCHINDUCTOR_CACHE_DIR=str(tmp_path), TORCHINDUCTOR_FORCE_DISABLE_CACHES="1")
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_compiled_module_waits_too() -> None:
    model = framelift.compile(torch.nn.Linear(2, 2), backend="aot_eager", background="manual")
    model(torch.ones(1, 2))
    assert framelift.stats()["compiling"] == 1
    assert model.wait()
    model(torch.ones(1, 2))
    assert framelift.stats()["compiling"] == 0
