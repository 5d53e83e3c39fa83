"""What the functions of torch.compiler and torch._dynamo do while the drop-in is installed: one behaviour for each name
that no other test of torch's names shows.
"""

from __future__ import annotations

import functools
import operator

import pytest
import torch
import torch._dynamo
from torch._dynamo import decorators
from torch._dynamo.testing import CompileCounter, EagerAndRecordGraphs

import framelift
from framelift.surface.drop_in import REDIRECTS

X = torch.ones(3)
pytestmark = pytest.mark.usefixtures("installed")


def _plus(x):
    return x + 1


def _graphs(function, *calls, **options):
    """How many graphs the calls need, with as many operations."""
    counter = CompileCounter()
    compiled = torch.compile(function, backend=counter, **options)
    for args in calls or ((X,),):
        compiled(*args)
    return counter.frame_count, counter.op_count


def test_compile_and_reset():
    for reset in (torch.compiler.reset, torch._dynamo.reset, torch._dynamo.reset_code_caches):
        counter = CompileCounter()
        compiled = torch.compiler.compile(_plus, backend=counter)
        compiled(X)
        reset()
        compiled(X)
        assert counter.frame_count == 2
    torch._dynamo.reset_code(_plus.__code__)
    compiled(X)
    assert counter.frame_count == 3
    assert isinstance(torch.compile(torch.nn.Linear(3, 3), backend="eager"), torch._dynamo.OptimizedModule)


@pytest.mark.parametrize("namespace", [torch.compiler, torch._dynamo])
def test_one_node_and_no_node(namespace):
    def helper(x):
        return x.sin().cos()

    def once():
        calls.append(1)
        return 5

    calls = []
    namespace.allow_in_graph(helper)
    backend = EagerAndRecordGraphs()
    torch.compile(lambda x: helper(x) + 1, backend=backend, fullgraph=True)(X)
    assert [node.op for node in backend.graphs[0].graph.nodes].count("call_function") == 2
    constant = namespace.assume_constant_result(once)
    compiled = torch.compile(lambda x: x + constant(), backend="eager", fullgraph=True)
    assert torch.equal(compiled(X), X + 5) and torch.equal(compiled(X), X + 5) and len(calls) == 1
    alone = namespace.disable(_plus, reason="of mine")
    assert _graphs(lambda x: alone(x * 2) * 3) == (2, 2)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="of mine"):
        torch.compile(lambda x: alone(x), backend="eager", fullgraph=True)(X)


def test_substitutes():
    @torch._dynamo.substitute_in_graph(operator.indexOf)
    def index_of(a, b, /):
        return 40

    assert torch.equal(torch.compile(lambda x: x + operator.indexOf([1, 2], 2), backend="eager")(X), X + 40)
    assert operator.indexOf([1, 2], 2) == 1
    with pytest.raises(ValueError, match="indexOf"):
        torch.compiler.substitute_in_graph(operator.indexOf)(index_of)


def test_forbidden_and_disallowed():
    torch._dynamo.disallow_in_graph(torch.sub)
    try:
        assert _graphs(lambda x: torch.sub(x + 1, 1) * 2) == (2, 2)
    finally:
        torch._dynamo.allow_in_graph(torch.sub)
    with pytest.raises(RuntimeError):
        torch._dynamo.disallow_in_graph(print)
    forbidden = torch._dynamo.forbid_in_graph(lambda x: x)
    with pytest.raises(AssertionError, match="forbidden"):
        torch.compile(lambda x: forbidden(x), backend="eager")(X)


def test_breaks_that_are_asked_for():
    def at(stop):
        def f(x):
            y = x + 1
            stop("of mine")
            return y * 2

        return _graphs(f)

    assert at(torch._dynamo.graph_break) == (2, 2)
    assert at(torch._dynamo.skip_frame) == (0, 0)
    assert at(torch._dynamo.step_unsupported)[0] <= 1
    for stop in (torch._dynamo.graph_break, torch._dynamo.skip_frame, torch._dynamo.step_unsupported):
        assert stop("of mine") is None  # outside of captured code

    def strict(x):
        with torch._dynamo.error_on_graph_break(True):
            torch._dynamo.graph_break()
        return x + 1

    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(strict, backend="eager")(X)


def test_frames_that_are_left_out():
    @decorators.skip
    def skipped(x):
        return inner(x) * 2

    def inner(x):
        return x + 1

    assert _graphs(skipped) == (1, 1)
    assert torch._dynamo.is_dynamo_disable_recursive(torch._dynamo.disable(inner)) is True
    assert torch._dynamo.is_dynamo_disable_recursive(torch._dynamo.disable(inner, recursive=False)) is False
    assert torch._dynamo.is_dynamo_disable_recursive(inner) is None

    def traced(x):
        with torch._dynamo.dont_skip_tracing():
            return x + 1

    assert _graphs(traced) == (1, 1)


def test_run_alone_uses_what_there_is():
    counter = CompileCounter()
    compiled = torch.compile(_plus, backend=counter)
    only = torch._dynamo.run(compiled)
    assert torch.equal(only(X), X + 1) and counter.frame_count == 0
    compiled(X)
    only(X)
    assert counter.frame_count == 1


@pytest.mark.parametrize("set_stance", [torch.compiler.set_stance, torch._dynamo.set_stance])
def test_stances(set_stance):
    import framelift

    if set_stance is not framelift.set_stance:  # bound before the drop-in was installed: torch's own is followed
        assert set_stance.__module__.startswith("torch.")
    counter = CompileCounter()
    compiled = torch.compile(_plus, backend=counter, dynamic=False)
    compiled(X)
    with torch.compiler.set_stance("force_eager"):
        compiled(torch.ones(4))
    with torch._dynamo.set_stance("fail_on_recompile"):
        compiled(X)
        with pytest.raises(RuntimeError):
            compiled(torch.ones(4))
    assert counter.frame_count == 1


def test_sizes_that_are_marked():
    def once(mark, sizes=(4, 5, 6)):
        tensors = [torch.ones(size) for size in sizes]
        for tensor in tensors:
            mark(tensor)
        return _graphs(_plus, *((tensor,) for tensor in tensors))[0]

    assert once(lambda tensor: torch._dynamo.mark_dynamic(tensor, 0)) == 1
    assert once(lambda tensor: torch._dynamo.maybe_mark_dynamic(tensor, 0)) == 1
    assert once(lambda tensor: torch._dynamo.mark_static(tensor, 0)) == 3
    assert once(lambda tensor: decorators.mark_unbacked(tensor, 0), (4, 1, 0)) == 1
    moved = [torch.ones(3), torch.ones(3)]
    for tensor in moved:
        torch._dynamo.mark_static_address(tensor, guard=True)
    assert _graphs(_plus, *((tensor,) for tensor in moved))[0] == 2


def test_a_function_that_only_aotautograd_looks_into():
    for mark in (torch._dynamo.nonstrict_trace, getattr(torch.compiler, "nonstrict_trace", framelift.nonstrict_trace)):

        @mark
        def opaque(x):
            torch._dynamo.graph_break()
            return x.sin() * 2

        backend = EagerAndRecordGraphs()
        found = torch.compile(lambda x: opaque(x) + 1, backend=backend, fullgraph=True)(X)
        assert torch.equal(found, X.sin() * 2 + 1) and len(backend.graphs) == 1


@pytest.mark.skipif(not hasattr(torch.compiler, "get_default_backend"), reason="this torch has no default backend")
def test_backends_by_name():
    def of_mine(graph_module, inputs):
        return lambda *args: (graph_module(*args)[0] + 10,)

    torch._dynamo.register_backend(of_mine, name="of_mine_by_name")
    assert "of_mine_by_name" in torch._dynamo.list_backends() and "of_mine_by_name" in torch.compiler.list_backends()
    assert torch._dynamo.lookup_backend("of_mine_by_name") is of_mine
    before = torch.compiler.get_default_backend()
    torch.compiler.set_default_backend("of_mine_by_name")
    try:
        assert torch.equal(torch.compile(_plus)(X), X + 11)
    finally:
        torch.compiler.set_default_backend(before)


def test_the_name_of_a_compiled_region():
    """torch.compile(name=), from torch 2.12 on."""
    named = torch.compile(_plus, backend="eager", name="my region")
    assert torch.equal(named(X), X + 1)
    assert named.report().name == "my region"
    with pytest.raises(framelift.exc.Unsupported, match="my region"):
        torch.compile(lambda x: x if x.sum() > 0 else -x, backend="eager", fullgraph=True, name="my region")(X)


@pytest.mark.skipif(not hasattr(torch.compiler, "precompile"), reason="torch has precompile from 2.15 on")
def test_torch_precompiles_what_is_compiled(tmp_path):
    """torch's own tracer does it; it refuses compiled callables, as with TorchDynamo."""
    model = torch.nn.Linear(3, 2)
    files = {"artifact_path": tmp_path / "m.py", "cache_path": tmp_path / "m.cache"}
    capture = functools.partial(torch.compiler.precompile.capture, **files, backend="eager")
    with capture(lambda module, x: module(x)) as program:
        assert torch.equal(program(model, X), model(X))
    assert torch.equal(torch.compiler.precompile.load(*files.values())(model, X + 1), model(X + 1))
    with pytest.raises(torch.compiler.PrecompileError), capture(_plus):
        pass
    compiled = torch.compile(_plus, backend="eager")
    with pytest.raises(RuntimeError, match="using FX to symbolically trace"), capture(lambda x: compiled(x)) as program:
        program(X)


@pytest.mark.skipif(
    not hasattr(torch.compiler, "cudagraph_mark_warmup_incomplete"), reason="torch has this mark from 2.15 on"
)
def test_another_warmup_of_cuda_graphs_may_be_asked_for():
    """In eager code, and between the parts of a captured frame: without CUDA graphs it does nothing."""

    def program(x):
        y = x + 1
        torch.compiler.cudagraph_mark_warmup_incomplete()
        return y * 2

    torch.compiler.cudagraph_mark_warmup_incomplete()
    assert torch.equal(torch.compile(program, backend="eager")(X), program(X))


def test_what_optimize_and_explain_give():
    def broken(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    assert torch.equal(torch._dynamo.optimize("eager")(broken)(X), (X + 1) * 2)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch._dynamo.optimize_assert("eager")(broken)(X)
    found = torch._dynamo.explain(broken)(X)
    assert (found.graph_count, found.graph_break_count, found.op_count) == (2, 1, 2)
    graph, guards = torch._dynamo.export(_plus)(X)
    assert torch.equal(graph(X * 2), X * 2 + 1) and guards


def test_who_hears_of_a_compile():
    seen = []
    torch._dynamo.on_compile_start(lambda args: seen.append(args.compile_id))
    torch._dynamo.on_compile_end(lambda args: seen.append("end"))
    torch.compile(_plus, backend="eager")(X)
    assert seen == ["0/0", "end"]


def test_decorators_by_the_module_that_defines_them():
    """Those that would do nothing without being redirected, too."""

    def stopped(x):
        y = x + 1
        decorators.skip_frame("of mine")
        return y * 2

    def strict(x):
        with decorators.error_on_graph_break(True):
            decorators.graph_break()
        return x + 1

    assert _graphs(stopped) == (0, 0)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(strict, backend="eager")(X)
    moved = [torch.ones(3), torch.ones(3)]
    for tensor in moved:
        decorators.mark_static_address(tensor, guard=True)
    assert _graphs(_plus, *((tensor,) for tensor in moved))[0] == 2
    names = [
        name for name in vars(torch._dynamo) if name in REDIRECTS[decorators.__name__] and hasattr(decorators, name)
    ]
    assert len(names) > 15
    assert [name for name in names if getattr(torch._dynamo, name) is not getattr(decorators, name)] == []


def test_settings_in_captured_code():
    def f(x):
        with torch._dynamo.patch_dynamo_config(capture_scalar_outputs=True):
            return x * x.sum().item()

    assert torch.equal(torch.compile(f, backend="eager", fullgraph=True)(X), X * 3)
    assert decorators.patch_dynamo_config is torch._dynamo.patch_dynamo_config
    with torch.compiler.config.patch(dynamic_sources="L['x']"):
        assert _graphs(_plus, (torch.ones(4),), (torch.ones(5),))[0] == 1
