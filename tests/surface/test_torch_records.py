"""What scripts and tools read under torch's names while the drop-in is installed: records, logs, caches, ids."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
import torch
import torch._dynamo
from torch._dynamo import utils
from torch._dynamo.callback import CallbackTrigger
from torch._dynamo.comptime import comptime
from torch._dynamo.testing import CompileCounter
from torch._guards import CompileContext

import framelift

X = torch.ones(3)


@pytest.fixture(autouse=True)
def installed():
    with framelift.installed():
        torch._dynamo.reset()
        utils.counters.clear()
        yield
        torch._dynamo.reset()


def _with_break(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


def test_counters():
    f = torch.compile(lambda x: x + 1, backend="eager")
    f(X), f(torch.ones(4))
    torch.compile(_with_break, backend="eager")(X)
    assert utils.counters["frames"] == {"total": 4, "ok": 4}
    assert utils.counters["stats"]["unique_graphs"] == 4
    assert list(utils.counters["graph_break"]) == ["the program asked for a graph break"]
    (reasons,) = utils.guard_failures.values()
    assert len(reasons) == 1 and "size" in reasons[0]
    (reason,) = utils.graph_break_reasons
    assert reason.user_stack[-1].name == "_with_break"


def test_times_and_metrics():
    utils.clear_compilation_metrics()
    torch._dynamo.register_hook_for_recompile_user_context(lambda: "of mine")
    try:
        torch.compile(lambda x: x + 1, backend="eager")(X)
    finally:
        torch._dynamo.reset_recompile_user_contexts()
    (found,) = utils.get_compilation_metrics()
    assert (found.co_name, found.graph_op_count, found.compile_id) == ("<lambda>", 1, "0/0")
    assert found.recompile_user_contexts == {"of mine"}
    headers, rows = utils.compile_times(repr="csv")
    assert {"_compile.compile_inner", "OutputGraph.call_user_compiler"} <= set(headers)
    assert torch._dynamo.eval_frame.dynamo_tls.traced_frame_infos[0].startswith("test_times_and_metrics")


def test_compile_ids_for_backends_and_callbacks():
    seen = []
    torch._dynamo.callback.on_compile_start(lambda args: seen.append((args.callback_trigger, args.compile_id)))
    torch._dynamo.on_compile_end(lambda: seen.append("end"))

    def backend(graph_module, inputs):
        seen.append((str(CompileContext.current_compile_id()), torch.compiler.is_compiling()))
        return graph_module.forward

    f = torch.compile(lambda x: x + 1, backend=backend)
    f(X)
    assert seen == [(CallbackTrigger.DYNAMO, "0/0"), ("0/0", True), "end"]
    f(torch.ones(4))
    assert seen[-2] == ("0/1", True)
    assert not torch.compiler.is_compiling() and CompileContext.try_get() is None


def test_parts_behind_a_break_have_ids_of_their_own():
    seen = []

    def backend(graph_module, inputs):
        seen.append(str(CompileContext.current_compile_id()))
        return graph_module.forward

    @torch.compile(backend=backend)
    def f(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    f(X)
    f(torch.ones(4))
    assert seen == ["0/0", "1/0", "0/1", "1/1"]


def test_hooks_find_the_frame_that_is_compiled():
    """As depyf and vLLM look for it: by the names of the function and its file, up the stack."""
    frames = []

    def hook(old, new):
        frame = sys._getframe()
        while (frame.f_code.co_name, Path(frame.f_code.co_filename).name) != ("_compile", "convert_frame.py"):
            frame = frame.f_back
        found = frame.f_locals["frame"]
        assert found.f_code is old and found.f_globals is globals()
        frames.append(found.f_locals)

    offset = torch.ones(3)

    def f(x, *, scale=2):
        return x * scale + offset

    handle = torch._dynamo.convert_frame.register_bytecode_hook(hook)
    compiled = torch.compile(f, backend="eager")
    try:
        compiled(X)
    finally:
        handle.remove()
    ((x, scale, held),) = [(one["x"], one["scale"], one["offset"]) for one in frames]
    assert x is X and scale == 2 and held is offset
    assert compiled.entries[0].info.called is None  # nothing of the call is kept


def test_fake_kernels_know_that_they_compile():
    seen = []

    @torch.library.custom_op("framelift_test::knowing", mutates_args=())
    def knowing(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    @knowing.register_fake
    def _(x):
        seen.append(torch.compiler.is_compiling())
        return torch.empty_like(x)

    torch.compile(lambda x: knowing(x) + 1, backend="eager")(X)
    assert seen and all(seen)


def test_ranges_of_profilers_have_the_names_that_tools_look_for():
    f = torch.compile(lambda x: x + 1, backend="eager")
    f(X)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        f(X)
    names = [event.name for event in sorted(profile.events(), key=lambda event: event.time_range.start)]
    found = [name for name in names if "Torch" in name]
    assert found == ["TorchDynamo Cache Lookup", "Torch-Compiled Region: 0/0"]


def test_lists_and_drops_entries():
    def f(x):
        return x + 1

    counter = CompileCounter()
    compiled = torch.compile(f, backend=counter)
    compiled(X)
    (entry,) = torch._dynamo.eval_frame._debug_get_cache_entry_list(f)
    assert entry.code is compiled.entries[0].run.__code__ and str(entry.compile_id) == "0/0"
    guards = entry.guard_manager
    assert any(part.startswith("x TENSOR") for part in guards.code_parts) and str(guards).count("\n") > 0
    torch._dynamo.reset_code(f.__code__)
    compiled(X)
    assert counter.frame_count == 2
    torch._dynamo.eval_frame.remove_from_cache(f)
    compiled(X)
    assert counter.frame_count == 3
    torch._dynamo.reset_code_caches()
    compiled(X)
    assert counter.frame_count == 4


def test_skipped_code_is_captured_only_inside_of_others():
    def inner(x):
        return x + 1

    torch._dynamo.eval_frame.skip_code(inner.__code__)
    counter = CompileCounter()
    torch.compile(inner, backend=counter)(X)
    assert counter.frame_count == 0
    torch.compile(lambda x: inner(x), backend=counter, fullgraph=True)(X)
    assert counter.frame_count == 1


def test_hooks_see_the_generated_code():
    seen = []
    handle = torch._dynamo.convert_frame.register_bytecode_hook(lambda old, new: seen.append((old, new)))
    try:
        torch.compile(_with_break, backend="eager")(X)
    finally:
        handle.remove()
    assert seen[0][0] is _with_break.__code__ and seen[0][1].co_code


ARTIFACTS = {
    "graph_breaks": "the program asked for a graph break",
    "recompiles": "Recompiling function",
    "recompiles_verbose": "Recompiling function",
    "guards": "GUARDS",
    "graph_code": "TRACED GRAPH",
    "graph": "call_function",
    "graph_sizes": "(3,)",
    "bytecode": "def ",
    "trace_source": "y = x + 1",
    "trace_call": "TRACE FX call",
    "dynamo": "captured",
}


@pytest.mark.parametrize("artifact", ARTIFACTS)
def test_logs(artifact, capfd):
    torch._logging.set_logs(**{artifact: logging.INFO if artifact == "dynamo" else True})
    try:
        f = torch.compile(_with_break, backend="eager")
        f(X), f(torch.ones(4))
    finally:
        torch._logging.set_logs()
    text = capfd.readouterr().err
    assert ARTIFACTS[artifact] in text and "[0/" in text
    f(torch.ones(2, 2))
    assert not capfd.readouterr().err


def test_comptime(capsys):
    seen = []

    @torch.compile(backend="eager", fullgraph=True)
    def f(x):
        y = x * 2
        comptime(lambda ctx: seen.append(repr(ctx.get_local("y"))) or None)
        comptime.print(y)
        comptime.print_value_stack()
        return comptime.print_value_stack_and_return(y)

    f(X)
    assert "FakeTensor(..., size=(3,))" in capsys.readouterr().out
    comptime.print("eager")
    assert capsys.readouterr().out == "eager\n"


def test_another_backend_by_compile_id():
    counter = CompileCounter()
    with torch._dynamo.config.patch(debug_backend_override="0:eager"):
        torch.compile(lambda x: x + 1, backend=counter)(X)
        torch.compile(lambda x: x + 2, backend=counter)(X)
    assert counter.frame_count == 1
    with torch._dynamo.config.patch(debug_backend_override="nonsense"), pytest.raises(ValueError, match="frames:value"):
        torch.compile(lambda x: x + 3, backend=counter)(X)


def test_optimize():
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch._dynamo.optimize("eager", error_on_graph_break=True)(_with_break)(X)
    with pytest.raises(TypeError, match="nonsense"):
        torch._dynamo.optimize("eager", nonsense=True)
    with pytest.raises(NotImplementedError, match="save_package"):
        torch._dynamo.optimize("eager", package=object())
