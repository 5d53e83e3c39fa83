"""`config.force_compile_during_fx_trace`: what is compiled while FX traces is part of the trace, as with
TorchDynamo."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import framelift

X, Y = torch.linspace(0, 1, 3), torch.linspace(1, 2, 3)


def _function(x, y):
    return torch.sin(x) * y + 1


def _counting(made):
    def backend(graph_module, inputs):
        made.append(graph_module)
        return graph_module.forward

    return backend


def _traced(backend, mode):
    """The targets of a trace, how many graphs were compiled, and what it computes, with torch.compile as it is now."""
    made: list[torch.fx.GraphModule] = []
    compiled = torch.compile(_function, backend=_counting(made) if backend == "counting" else backend)
    with torch._dynamo.config.patch(force_compile_during_fx_trace=True):
        trace = make_fx(lambda x, y: compiled(x, y) + compiled(y, x), tracing_mode=mode)(X, Y)
    return [str(node.target) for node in trace.graph.nodes], len(made), trace(X + 1, Y)


@pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13), reason="TorchDynamo itself fails there"
)
@pytest.mark.parametrize("mode", ["real", "fake"])
@pytest.mark.parametrize("backend", ["counting", "eager", "aot_eager", "invoke_subgraph"])
def test_graphs_in_a_trace(backend, mode):
    torch._dynamo.reset()
    theirs = _traced(backend, mode)
    with framelift.installed():
        ours = _traced(backend, mode)
    assert ours[:2] == theirs[:2]
    assert torch.equal(ours[2], theirs[2]) and torch.equal(ours[2], _function(X + 1, Y) + _function(Y, X + 1))


def test_symbolic_traces_go_through():
    """Sizes of another trace have no symbols here: what is compiled is traced as if it were not."""
    compiled = framelift.compile(_function, backend="eager")
    with framelift.config.patch(force_compile_during_fx_trace=True):
        trace = make_fx(compiled, tracing_mode="symbolic")(X, Y)
    longer = torch.ones(7)
    assert torch.equal(trace(longer, longer), _function(longer, longer))


@pytest.mark.parametrize("forced", [True, False])
def test_a_trace_leaves_nothing_behind(forced):
    made: list[torch.fx.GraphModule] = []
    compiled = framelift.compile(_function, backend=_counting(made))
    with framelift.config.patch(force_compile_during_fx_trace=forced, error_on_nested_fx_trace=False):
        make_fx(compiled)(X, Y)
    assert len(made) == forced and not compiled.entries
    assert torch.equal(compiled(X, Y), _function(X, Y)) and len(compiled.entries) == 1
    assert torch.equal(compiled(X, Y), _function(X, Y)) and len(made) == 1 + forced


def test_a_mode_that_does_not_trace_is_as_before():
    """The option is about FX: under another mode compiled functions run eagerly."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counts(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            Counts.seen += 1
            return func(*args, **(kwargs or {}))

    compiled = framelift.compile(_function, backend="eager")
    with framelift.config.patch(force_compile_during_fx_trace=True), Counts():
        assert torch.equal(compiled(X, Y), _function(X, Y))
    assert Counts.seen >= 6 and not compiled.entries


def test_breaks_effects_and_many_calls():
    log: list[int] = []

    def program(x, y):
        log.append(1)
        z = x * 2
        framelift.graph_break()
        return z + y

    compiled = framelift.compile(program, backend="eager")
    with framelift.config.patch(
        force_compile_during_fx_trace=True, recompile_limit=2, fail_on_recompile_limit_hit=True
    ):
        trace = make_fx(lambda x, y: sum(compiled(x, y) for _ in range(5)))(X, Y)
    assert len(log) == 5
    assert torch.equal(trace(Y, X), sum(Y * 2 + X for _ in range(5)))


def test_gradients():
    weight = torch.ones(3, requires_grad=True)
    compiled = framelift.compile(lambda x: (x * weight).sin().sum(), backend="aot_eager")

    def step(x):
        (gradient,) = torch.autograd.grad(compiled(x), weight)
        return gradient

    with framelift.config.patch(force_compile_during_fx_trace=True):
        trace = make_fx(step)(X)
    torch.testing.assert_close(trace(Y), Y * (Y * weight).cos().detach())
