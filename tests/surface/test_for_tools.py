"""What tools around torch.compile find: captures as a library, contexts while a backend works, hooks on guards, the
order of captures for fixed sizes and for all, subgraphs, the minifier.
"""

from __future__ import annotations

import operator

import pytest
import torch
import torch._dynamo
from torch._dynamo import convert_frame, eval_frame
from torch._dynamo.testing import CompileCounter, EagerAndRecordGraphs

import framelift
from framelift.capture import learned_shapes
from framelift.graph.fx.node_functions import compile_region

X = torch.ones(3)
pytestmark = pytest.mark.usefixtures("installed")


@pytest.mark.skipif(not hasattr(convert_frame, "fullgraph_capture"), reason="this torch has no such function")
def test_a_capture_under_torchs_name():
    calls = []

    def f(x):
        calls.append(1)
        return {"y": x + 1}

    found = convert_frame.fullgraph_capture(f, (X,))
    assert not calls and found.backend_input.graph_module is found.graph_module
    assert found.backend_input.fake_mode is not None and len(found.backend_input.example_inputs) == 1
    run = found.forward_callable(compiled_fn=lambda *inputs: (inputs[0] * 10,))
    assert torch.equal(run(X)["y"], X * 10) and calls == [1]
    with pytest.raises(RuntimeError, match="guards"):
        run(torch.ones(4))
    assert convert_frame.fullgraph_capture(lambda x: 3, (X,)).backend_input is None
    with pytest.raises(torch._dynamo.exc.Unsupported):
        convert_frame.fullgraph_capture(lambda x: torch._dynamo.graph_break(), (X,))


def test_contexts_while_a_backend_works():
    found = []

    def backend(graph_module, inputs):
        context = torch._guards.TracingContext.get()
        found.extend((guard.name, guard.create_fn_name()) for guard in context.guards_context.dynamo_guards)
        assert context.fake_mode is not None and f.__code__ in context.traced_code
        assert str(torch._guards.CompileContext.current_compile_id()) == "0/0"
        return graph_module.forward

    def f(x, n):
        return x * n

    torch.compile(f, backend=backend)(X, 3)
    assert ("L['x']", "TENSOR_MATCH") in found and ("L['n']", "EQUALS_MATCH") in found
    assert not torch._guards.TracingContext.try_get()


def test_hooks_on_guards():
    assert eval_frame.set_guard_error_hook(lambda *args: None) is None
    assert eval_frame.set_guard_complete_hook(None) is None


def _entries(**options):
    with torch._dynamo.config.patch(**options):
        counter = CompileCounter()
        f = torch.compile(lambda x: x + 1, backend=counter)
        for n in (3, 4, 5, 3, 1, 0):
            assert torch.equal(f(torch.ones(n)), torch.ones(n) + 1)
    return counter.frame_count, {entry.info.relations is not None: entry.hits for entry in f.entries}


@pytest.mark.skipif(
    not hasattr(torch._dynamo.config, "automatic_dynamic_exclusion_guard"), reason="this torch has no such switch"
)
def test_fixed_sizes_keep_their_capture():
    assert _entries()[1][False] < _entries(automatic_dynamic_exclusion_guard=True)[1][False]


def test_sizes_that_change_may_be_unbacked():
    assert _entries()[0] > _entries(automatic_dynamic_shapes_mark_as="unbacked")[0] == 2


# ---- subgraphs ----


def _region_program():
    @torch.compiler.nested_compile_region
    def layer(x, y):
        return (x @ y).sin() * 2

    @torch.compiler.nested_compile_region
    def other(x):
        return x.cos() * 2

    return lambda x, y: layer(layer(layer(x, y), y), y) + other(x)


def _recorded(f, *args, **options):
    backend = EagerAndRecordGraphs()
    with torch._dynamo.config.patch(**options):
        torch.testing.assert_close(torch.compile(f, backend=backend, fullgraph=True)(*args), f(*args))
    return backend.graphs[0]


@pytest.mark.skipif(not hasattr(torch._dynamo.config, "inline_invoke_subgraph"), reason="this torch has no such switch")
def test_equal_regions_are_one_subgraph():
    x, y = torch.rand(3, 3), torch.rand(3, 3)
    graph = _recorded(_region_program(), x, y)
    assert len(list(graph.named_children())) == 2
    assert sum(node.target is compile_region for node in graph.graph.nodes) == 4
    flat = _recorded(_region_program(), x, y, inline_invoke_subgraph=True)
    assert not list(flat.named_children()) and sum(node.target is operator.matmul for node in flat.graph.nodes) == 3


def test_gradients_of_shared_regions():
    f, x, y = _region_program(), torch.rand(3, 3).requires_grad_(), torch.rand(3, 3).requires_grad_()
    found = torch.autograd.grad(torch.compile(f, backend="aot_eager", fullgraph=True)(x, y).sum(), (x, y))
    torch.testing.assert_close(found, torch.autograd.grad(f(x, y).sum(), (x, y)))


def test_regions_that_close_over_other_tensors_are_not_shared():
    def made(scale):
        return torch.compiler.nested_compile_region(lambda x: (x * scale).sin())

    one, other, x = made(torch.rand(3)), made(torch.rand(3)), torch.rand(3)
    _recorded(lambda x: one(x) + other(x), x)


@pytest.mark.skipif(not hasattr(torch._dynamo.config, "inline_invoke_subgraph"), reason="this torch has no such switch")
def test_equal_operations_are_one_subgraph():
    def f(x):
        for _ in range(4):
            x = (x.sin() @ x).relu()
        return x

    x = torch.rand(3, 3)
    graph = _recorded(f, x, use_graph_deduplication=True)
    assert [node.target for node in graph.graph.nodes].count(torch.ops.higher_order.invoke_subgraph) == 4
    assert len(list(graph.named_children())) == 1
    assert not list(_recorded(f, x).named_children())
    assert not list(_recorded(f, x, use_graph_deduplication=True, inline_invoke_subgraph=True).named_children())


# ---- torch's minifier ----


@pytest.mark.parametrize("level", [2, 4])
def test_the_minifier_of_torch(level, tmp_path):
    kind = "accuracy" if level == 4 else "compile"
    with torch._dynamo.config.patch(repro_after="dynamo", repro_level=level, debug_dir_root=str(tmp_path)):
        f = torch.compile(lambda x: torch.relu(x + 1) * 2, backend=f"relu_{kind}_error_TESTING_ONLY")
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="Minifier script written to"):
            f(X)
    (script,) = tmp_path.glob("run_*/minifier/minifier_launcher.py")
    assert "relu" in script.read_text() and "run_repro" in script.read_text()


def test_sizes_that_earlier_processes_saw(tmp_path):
    def frames(sizes):
        framelift.reset()
        learned_shapes._read.clear()  # as in another process
        counter = CompileCounter()
        compiled = torch.compile(f, backend=counter)
        for n in sizes:
            assert torch.equal(compiled(torch.ones(n)), torch.ones(n) * 2)
        return counter.frame_count

    def f(x):
        return x * 2

    with framelift.config.patch(cache_dir=str(tmp_path)), torch.compiler.config.patch(job_id="a job/1"):
        assert frames((3, 4, 5)) == 2
        assert frames((3, 4, 5)) == 1
        with framelift.config.patch(automatic_dynamic_local_pgo=False):
            assert frames((3, 4, 5)) == 2
        (file,) = (tmp_path / "sizes").iterdir()
        file.write_text("nonsense")
        assert frames((3, 4, 5)) == 2
    assert frames((3, 4, 5)) == 2
