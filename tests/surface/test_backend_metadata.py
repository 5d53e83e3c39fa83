"""What a backend reads off the graphs it is given: sources, modules, example values, notes, reasons."""

from __future__ import annotations

import contextlib
import gc

import pytest
import torch
import torch._dynamo
from support import check
from torch._dynamo.backends.debugging import ExplainWithBackend
from torch._guards import TracingContext
from torch.fx.traceback import annotate

import framelift

X = torch.ones(3)


class Recording:
    def __init__(self):
        self.graphs, self.modes = [], []

    def __call__(self, graph_module, inputs):
        self.graphs.append(graph_module)
        self.modes.append(TracingContext.get().fake_mode)
        return graph_module.forward


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.lin(x).relu()


def _nodes(graph_module):
    return {node.name: node for node in graph_module.graph.nodes}


def _captured(fn, *args, **options):
    backend = Recording()
    framelift.compile(fn, backend=backend, **options)(*args)
    return backend


def test_modules_and_functions_of_nodes():
    net = Net()
    (graph,) = _captured(net, X).graphs
    linear, relu = _nodes(graph)["linear"], _nodes(graph)["relu"]
    assert list(linear.meta["nn_module_stack"].values()) == [("L['self']", Net), ("L['self'].lin", torch.nn.Linear)]
    assert list(relu.meta["nn_module_stack"].values()) == [("L['self']", Net)]
    assert linear.meta["source_fn_stack"] == [("linear", torch.nn.Linear)]
    assert relu.meta["source_fn_stack"] == [("relu", "relu")]
    assert "_call_impl" not in linear.meta["stack_trace"] and "self.lin(x).relu()" in linear.meta["stack_trace"]


def test_sources_and_names_of_inputs():
    (graph,) = _captured(Net(), X).graphs
    sources = [node._dynamo_source.name for node in graph.graph.find_nodes(op="placeholder")]
    lin = "L['self']._modules['lin']._parameters"
    assert sorted(sources) == ["L['args'][0]", f"{lin}['bias']", f"{lin}['weight']"]
    assert sorted(graph._param_name_to_source) == ["lin.bias", "lin.weight"]
    assert set(graph.meta["dynamo_flat_name_to_original_fqn"].values()) == {"lin.bias", "lin.weight"}
    assert graph.meta["dynamo_compile_id"] is not None and graph.meta["backend_id"].startswith("__compiled_fn")


@pytest.mark.parametrize("dynamic", [None, True])
def test_example_values_are_of_the_backends_mode(dynamic):
    backend = _captured(lambda x: (x.double() + 1).sum(), torch.ones(4, 5, requires_grad=True), dynamic=dynamic)
    nodes = [node for node in backend.graphs[0].graph.nodes if node.op != "output"]
    values = [node.meta["example_value"] for node in nodes]
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    assert [t.dtype for t in tensors] == [torch.float32, *[torch.float64] * 3] and tensors[-1].shape == ()
    assert all(t.fake_mode is backend.modes[0] and t.requires_grad for t in tensors)
    if dynamic:
        assert isinstance(tensors[1].shape[0], torch.SymInt)


def test_notes_of_the_program():
    def f(x):
        with annotate({"stage": 1}):
            y = x + 1
            with annotate({"part": "b"}):
                y = y * 2
        return y - 1

    backend = Recording()
    check(f, X, backend=backend)
    nodes = _nodes(backend.graphs[0])
    assert nodes["add"].meta["custom"] == {"stage": 1}
    assert nodes["mul"].meta["custom"] == {"stage": 1, "part": "b"}
    assert "custom" not in nodes["sub"].meta


class Given(contextlib.nullcontext):
    def __enter__(self):
        return super().__enter__()


OUTSIDE, OF_A_SUBCLASS = contextlib.nullcontext(5), Given(7)


def _given_outside(x):
    with OUTSIDE as n, OF_A_SUBCLASS as m:
        return x * n + m


def _made_inside(x):
    with contextlib.nullcontext(x + 1) as y, contextlib.nullcontext() as nothing:
        return y * 2, nothing


def _on_a_stack(x):
    with contextlib.ExitStack() as stack:
        return x * stack.enter_context(contextlib.nullcontext(3))


@pytest.mark.parametrize("fn", [_given_outside, _made_inside, _on_a_stack])
def test_other_contexts_that_do_nothing(fn):
    check(fn, X)


def test_a_break_between_notes():
    def f(x):
        with annotate({"stage": 1}):
            y = x + 1
            framelift.graph_break()
            y = y * 2
        return y - 1

    check(f, X, graphs=None, breaks=None)


def test_notes_reach_the_graphs_of_autograd():
    seen = []

    def compiler(graph_module, inputs):
        seen.extend(node.meta.get("custom") for node in graph_module.graph.nodes if node.op == "call_function")
        return graph_module.forward

    def f(x):
        with annotate({"stage": 1}):
            return x.sin()

    with torch.fx.traceback.preserve_node_meta():
        framelift.compile(f, backend=framelift.aot_autograd(fw_compiler=compiler))(X)
    assert seen == [{"stage": 1}]


def test_notes_of_a_compiled_graph_module():
    traced = torch.fx.symbolic_trace(lambda x: x.sin() + 1)
    for node in traced.graph.nodes:
        node.meta.update(recompute=7, custom={"tag": 1}, quantization_tag="q")
    (graph,) = _captured(traced, X).graphs
    for node in graph.graph.nodes:
        assert (node.meta["recompute"], node.meta["custom"], node.meta["quantization_tag"]) == (7, {"tag": 1}, "q")


def test_why_a_graph_ends():
    def f(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    explaining = ExplainWithBackend("eager")
    with framelift.installed():
        torch.compile(f, backend=explaining)(X)
    (reason,) = explaining.output().break_reasons
    assert "asked for a graph break" in reason.reason and reason.user_stack[-1].name.endswith("f")


@pytest.mark.skipif(not hasattr(torch._dynamo, "override_cudagraphs"), reason="this torch has no such context")
def test_what_is_said_of_cuda_graphs():
    def f(x):
        with torch._dynamo.override_cudagraphs(fwd=False, bwd=True):
            return x + 1

    (graph,) = _captured(f, X, fullgraph=True).graphs
    annotation = graph.meta["cudagraph_annotation"]
    assert (annotation.fwd, annotation.bwd) == (False, True)


@pytest.mark.skipif(not hasattr(torch._dynamo, "override_cudagraphs"), reason="this torch has no such context")
def test_no_guard_is_about_a_context_that_the_function_made():
    def f(x):
        with torch._dynamo.override_cudagraphs(fwd=False):
            return x + 1

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(X), X + 1)
        gc.collect()  # what only a rehearsal held is gone
    assert len(compiled.entries) == 1
