"""Switches of torch.compile that scripts set: sources of dynamic sizes, guard filters, backends by name, settings."""

from __future__ import annotations

import gc
import logging
import sys
import warnings

import pytest
import torch
import torch._dynamo
from torch._dynamo.testing import CompileCounter

import framelift

X = torch.ones(3)
pytestmark = pytest.mark.usefixtures("installed")


def _count(sizes, dynamic=None, **settings):
    counter = CompileCounter()

    def f(x):
        return x + 1

    with torch.compiler.config.patch(**settings):
        compiled = torch.compile(f, backend=counter, dynamic=dynamic)
        for size in sizes:
            assert torch.equal(compiled(torch.ones(*size)), torch.ones(*size) + 1)
    return counter.frame_count


@pytest.mark.parametrize(
    "settings",
    [
        {"dynamic_sources": "L['x']"},
        {"dynamic_sources": "L['y'], L.*"},
        {"dynamic_sources": "L['x']:1"},
        {"unbacked_sources": "L['x']:1"},
        {"dynamic_values": "77"},
    ],
    ids=str,
)
def test_dynamic_from_the_first_call(settings):
    if not all(hasattr(torch.compiler.config, name) for name in settings):
        pytest.skip("this torch has no such switch")
    assert _count([(2, 77), (2, 5), (2, 9)], **settings) == 1
    assert _count([(2, 77), (2, 5), (2, 9)]) == 2


@pytest.mark.parametrize(
    "settings",
    [{}, {"dynamic_sources": "L['x']"}, {"unbacked_sources": "L.*"}, {"dynamic_values": "5"}, {"dynamic": True}],
    ids=str,
)
def test_static_sources_win(settings):
    if not hasattr(torch.compiler.config, "static_sources"):
        pytest.skip("torch 2.15")
    assert _count([(2, 5), (2, 6), (2, 7)], static_sources="L['x']", **settings) == 3
    assert _count([(2, 5), (2, 6), (2, 7)], static_sources="L['x']:0", **settings) == (1 if settings else 2)
    assert _count([(2, 5), (3, 5), (4, 5)], static_sources="L['x']:0", **settings) == 3


def test_static_numbers_by_source():
    if not hasattr(torch.compiler.config, "static_sources"):
        pytest.skip("torch 2.15")
    counter = CompileCounter()
    with torch.compiler.config.patch(static_sources="L['n']"):
        f = torch.compile(lambda x, n: x * n, backend=counter)
        for n in (3, 4, 5):
            assert torch.equal(f(X, n), X * n)
    assert counter.frame_count == 3


def test_unbacked_sizes_include_zero_and_one():
    assert _count([(1, 4), (0, 4), (7, 4)], unbacked_sources="L['x']") == 1


def test_dynamic_numbers_by_source():
    counter = CompileCounter()
    with torch.compiler.config.patch(dynamic_sources="L['n']"):
        f = torch.compile(lambda x, n: x * n, backend=counter)
        for n in (3, 4, 5):
            assert torch.equal(f(X, n), X * n)
    assert counter.frame_count == 1


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)
        self.scale = 2

    def forward(self, x):
        return self.lin(x) * self.scale


@pytest.mark.parametrize(
    "name",
    [
        "keep_portable_guards_unsafe",
        "keep_tensor_guards_unsafe",
        "skip_guard_on_inbuilt_nn_modules_unsafe",
        "skip_guard_on_all_nn_modules_unsafe",
        "skip_guard_on_globals_unsafe",
        "skip_all_guards_unsafe",
    ],
)
def test_ready_made_guard_filters(name):
    counts = {}
    for kept, options in ((False, {"guard_filter_fn": getattr(torch.compiler, name)}), (True, None)):
        torch._dynamo.reset()
        compiled = torch.compile(Net(), backend="eager", options=options)
        compiled(X)
        counts[kept] = len(compiled._compiled.entries[0].info.guards)
    assert counts[False] < counts[True]


def test_filters_see_torchs_kinds_of_guards():
    seen = []

    def keep_tensors(entries):
        seen.extend(entries)
        return [entry.guard_type == "TENSOR_MATCH" for entry in entries]

    counter = CompileCounter()
    f = torch.compile(Net(), backend=counter, options={"guard_filter_fn": keep_tensors})
    f(X)
    kinds = {entry.guard_type for entry in seen}
    assert {"TENSOR_MATCH", "TYPE_MATCH", "EQUALS_MATCH"} <= kinds
    assert any(entry.orig_guard.source.is_unspecialized_builtin_nn_module() for entry in seen)
    f._orig_mod.scale = 3
    f(X)
    assert counter.frame_count == 1
    f(torch.ones(2, 3))
    assert counter.frame_count == 2


def test_a_hook_on_failures_that_fails(caplog):
    def fails(failure):
        assert failure.reason
        raise ValueError("of the hook")

    f = torch._dynamo.optimize("eager", guard_fail_fn=fails)(lambda x: x + 1)
    with caplog.at_level(logging.ERROR, "framelift.guards"):
        f(X), f(torch.ones(4))
    assert "of the hook" in caplog.text


def test_a_backend_that_skips_is_asked_once():
    asked = []

    def backend(graph_module, inputs):
        asked.append(1)
        raise torch._dynamo.exc.SkipFrame("no")

    f = torch.compile(lambda x: x + 1, backend=backend)
    for size in (3, 4, 5, 6):
        assert torch.equal(f(torch.ones(size)), torch.ones(size) + 1)
    assert len(asked) == 1


def test_backends_of_torch_by_name():
    for name in ("tvm", "openxla", "invoke_subgraph", "relu_compile_error_TESTING_ONLY"):
        assert callable(torch._dynamo.lookup_backend(name))
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
        torch.compile(torch.relu, backend="relu_compile_error_TESTING_ONLY")(X)


def test_compiler_config():
    plain = torch.compile(lambda x: x + 1).get_compiler_config()
    tuned = torch.compile(Net(), options={"max_autotune": True}).get_compiler_config()
    assert (plain["max_autotune"], tuned["max_autotune"]) == (False, True)


def test_contexts_that_change_nothing_are_captured():
    def f(x):
        with torch._dynamo.dont_skip_tracing(), torch._dynamo.disable_nested_graph_breaks():
            return x + 1

    assert torch.equal(torch.compile(f, backend="eager", fullgraph=True)(X), X + 1)


def test_parameters_in_the_graph():
    graphs = []

    def backend(graph_module, inputs):
        graphs.append(graph_module)
        return graph_module.forward

    with torch._dynamo.config.patch(prepare_freezing=True), torch.no_grad():
        torch.compile(Net(), backend=backend)(X)
    assert [node.op for node in graphs[0].graph.nodes].count("get_attr") == 2


def test_collecting_after_each_compile():
    seen = []

    def note(phase, info):
        seen.append(info["generation"])

    gc.callbacks.append(note)
    try:
        with torch._dynamo.config.patch(run_gc_after_compile=True):
            torch.compile(lambda x: x + 1, backend="eager")(X)
    finally:
        gc.callbacks.remove(note)
    assert 1 in seen


def test_a_setting_is_framelifts_own_again_when_a_patch_ends():
    """torch's default is another for some options."""
    own = framelift.config.run_gc_after_compile
    with torch._dynamo.config.patch(run_gc_after_compile=True, recompile_limit=3):
        with torch._dynamo.config.patch(recompile_limit=4):
            assert framelift.config.recompile_limit == 4
        assert framelift.config.run_gc_after_compile and framelift.config.recompile_limit == 3
    assert framelift.config.run_gc_after_compile is own and framelift.config.recompile_limit == 8


def test_settings_made_before():
    framelift.uninstall()
    with torch._dynamo.config.patch(recompile_limit=3):
        with framelift.installed():
            assert framelift.config.recompile_limit == 3
        assert framelift.config.recompile_limit == 8


def test_settings_without_effect_say_so_once():
    framelift.config._warned.clear()
    with pytest.warns(UserWarning, match="nested_graph_breaks = True has no effect: a break in"):
        with torch._dynamo.config.patch(nested_graph_breaks=True):
            pass
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torch._dynamo.config.patch(nested_graph_breaks=True, guard_nn_modules=True, recompile_limit=4):
            pass


def test_settings_that_exclude_each_other():
    with torch._dynamo.config.patch(suppress_errors=True, fail_on_recompile_limit_hit=True):
        with pytest.raises(AssertionError, match="can not both"):
            torch.compile(lambda x: x + 1, backend="eager")


def test_files_for_debugging(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_COMPILE_DEBUG", "1")
    monkeypatch.setenv("TORCH_COMPILE_DEBUG_DIR", str(tmp_path))

    def f(x):
        return x + 1

    compiled, lines = torch.compile(f, backend="eager"), []
    for _ in range(8):  # an entry that is called often runs natively otherwise
        compiled(X)
    (folder,) = tmp_path.glob("run_*/framelift/*")
    with monkeypatch.context() as patch:  # as a debugger sees it
        patch.setattr(sys, "gettrace", sys.gettrace)
        before = sys.gettrace()
        sys.settrace(lambda frame, *_: lines.append((frame.f_code.co_filename, frame.f_lineno)))
        try:
            compiled(X)
        finally:
            sys.settrace(before)
    assert str(folder / "entry.py") in {file for file, _ in lines}
    assert folder.name.startswith("0_0_") and "x + 1" in (folder / "graph.py").read_text()
    assert "x TENSOR" in (folder / "guards.txt").read_text() and (folder / "entry.py").exists()


def test_parameters_can_be_swapped_afterwards():
    model = torch.nn.Linear(3, 3)
    torch.compile(model, backend="aot_eager")(X)
    other = torch.nn.Parameter(torch.zeros(3, 3))
    torch.utils.swap_tensors(model.weight, other)
    assert not model.weight.any()


def test_global_hooks_run_once_for_each_module():
    seen = []
    handle = torch.nn.modules.module.register_module_forward_hook(
        lambda module, args, result: seen.append(type(module))
    )
    try:
        model = Net()
        model(X)
        before = list(seen)
        seen.clear()
        torch.compile(model, backend="eager")(X)
    finally:
        handle.remove()
    assert seen == before == [torch.nn.Linear, Net]


def test_the_second_call_compiles_what_differs_as_dynamic():
    counter = CompileCounter()
    f = torch.compile(lambda x: x + 1, backend=counter)
    counts = []
    with torch.compiler.set_stance("aot_eager_then_compile"):
        for size in (3, 4, 5):
            f(torch.ones(size))
            counts.append(counter.frame_count)
    assert counts == [0, 1, 1]


def test_frames_that_run_eagerly_are_no_recompiles():
    def f(x):
        torch._dynamo.skip_frame()
        return x + 1

    compiled = torch.compile(f, backend="eager")
    compiled(X)
    with torch.compiler.set_stance("fail_on_recompile"):
        assert torch.equal(compiled(torch.ones(4)), torch.ones(4) + 1)


def test_optimize_as_a_block():
    def f(x):
        return x.sin() + 1

    def g(x):
        y = f(x) * 2
        torch._dynamo.graph_break()
        return y + 1

    with pytest.raises(RuntimeError, match="context manager"), torch._dynamo.optimize("eager"):
        pass
    counter, other = CompileCounter(), CompileCounter()
    block = torch._dynamo.optimize(counter)
    with torch._dynamo.config.patch(raise_on_ctx_manager_usage=False):
        with block:
            assert torch.equal(f(X), X.sin() + 1) and torch.equal(g(X), (X.sin() + 1) * 2 + 1)
            assert counter.frame_count == 3
            with torch._dynamo.optimize(other):
                f(X)
            f(X)
            g(X)
        with pytest.raises(ZeroDivisionError), block:
            raise ZeroDivisionError
    f(X)
    assert (counter.frame_count, other.frame_count) == (3, 1)
    assert framelift._core.hook_users()[0] == 0 and framelift._core.get_mode() == 0


@pytest.mark.parametrize("sizes", [(4, 5, 1, 0, 2), (3, 1, 3)])
def test_one_graph_serves_every_size_where_a_filter_drops_all_guards(sizes: tuple[int, ...]) -> None:
    shown: list[str] = []

    def none_of_them(guards):
        shown.extend(guard.guard_type for guard in guards)
        return [False] * len(guards)

    def fn(x):
        return x.sin() + x.shape[0]

    framelift.reset()
    compiled = framelift.compile(fn, backend="eager", dynamic=True, options={"guard_filter_fn": none_of_them})
    for size in sizes:
        x = torch.rand(size, 2)
        assert torch.equal(compiled(x), fn(x))
    assert framelift.stats()["graphs"] == 1 and "SHAPE_ENV" in shown

    kept = framelift.compile(
        fn,
        backend="eager",
        dynamic=True,
        options={
            "guard_filter_fn": lambda guards: [guard.guard_type in ("TENSOR_MATCH", "SHAPE_ENV") for guard in guards]
        },
    )
    for size in (4, 5, 1):
        x = torch.rand(size, 2)
        assert torch.equal(kept(x), fn(x))
