"""What marks on tensors say beyond "dynamic": sizes with captures of their own, sizes to tune for, and what is declared
of unbacked sizes.
"""

from __future__ import annotations

import logging

import pytest
import torch
import torch._dynamo
from torch._dynamo.decorators import mark_unbacked
from torch._dynamo.testing import CompileCounter, EagerAndRecordGraphs
from torch.fx.experimental import _config as shape_options

import framelift

pytestmark = pytest.mark.usefixtures("installed")


def _specialized(sizes):
    backend, counts = EagerAndRecordGraphs(), []
    f = torch.compile(lambda x: x.view(-1) * x.shape[0], backend=backend)
    for n in sizes:
        x = torch.ones(n, 2)
        if not counts:  # said once, with the first tensor
            conditions = [lambda n: n == 8, lambda n: n == 16, lambda n: n % 5 == 0]
            torch._dynamo.mark_dynamic(x, 0, specialize_on=conditions)
        assert torch.equal(f(x), torch.ones(2 * n) * n)
        counts.append(len(backend.graphs))
    return backend.graphs, counts


def test_sizes_with_captures_of_their_own():
    graphs, counts = _specialized((4, 7, 8, 9, 16, 8, 10, 15, 20, 16, 11))
    assert counts == [1, 1, 2, 2, 3, 3, 4, 4, 4, 4, 4]
    inputs = [sum(node.op == "placeholder" for node in graph.graph.nodes) for graph in graphs]
    assert inputs == [2, 1, 1, 2]  # the size is an input, too, but where it is a constant


def test_the_first_size_may_be_one_of_them():
    assert _specialized((8, 7, 9, 8))[1] == [1, 2, 2, 2]


def _hints(f, x):
    found = []

    def backend(graph_module, inputs):
        env = torch._guards.TracingContext.get().fake_mode.shape_env
        found.extend(env.var_to_hint_override.values())
        return graph_module.forward

    torch.compile(f, backend=backend, fullgraph=True)(x)
    return found


@pytest.mark.skipif(not hasattr(torch._dynamo, "override_optimization_hint"), reason="this torch has no such hints")
def test_sizes_to_tune_for():
    x = torch.ones(4)
    torch._dynamo.mark_dynamic(x, 0, hint_override=100)
    assert _hints(lambda x: x + 1, x) == [100]

    def f(x):
        n = x.sum().long().item()
        torch._dynamo.override_optimization_hint(n, 42)
        torch._dynamo.override_optimization_hint(3, 42)
        return torch.zeros(n) + 1

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        assert _hints(f, torch.ones(3)) == [42]


def test_what_is_declared_of_unbacked_sizes_is_checked():
    counter = CompileCounter()
    f = torch.compile(lambda x, y: x + y.sum(), backend=counter)

    def call(n, m):
        x, y = torch.ones(n), torch.ones(m)
        mark_unbacked(x, 0, shape_id="batch", min=2, max=10)
        mark_unbacked(y, 0, shape_id="batch")
        return f(x, y)

    for n in (3, 4, 2):
        assert torch.equal(call(n, n), torch.ones(n) + n)
    assert counter.frame_count == 1
    for sizes, text in (((11, 11), "up to 10"), ((1, 1), "from 2"), ((3, 4), "shape_id='batch'")):
        with pytest.raises(framelift.exc.ConstraintViolation, match=text):
            call(*sizes)


@pytest.mark.parametrize("strict", [False, True])
def test_unbacked_sizes_are_no_constants(strict):
    x = torch.ones(3)
    mark_unbacked(x, 0, strict=strict)
    with pytest.raises(torch._dynamo.exc.UserError, match="range"):
        torch.compile(lambda x: x[: range(x.shape[0]).stop], backend="eager", fullgraph=True)(x)


def _oblivious_frames(sizes, mark, dynamic=None):
    counter = CompileCounter()
    with shape_options.patch(backed_size_oblivious=True):
        f = torch.compile(lambda x: x * 2 + x.sum(), backend=counter, dynamic=dynamic)
        for n in sizes:
            x = torch.ones(n)
            if mark:
                torch._dynamo.mark_dynamic(x, 0)
            assert torch.equal(f(x), x * 2 + n)
    return counter.frame_count


def test_one_capture_for_sizes_zero_and_one():
    assert _oblivious_frames((1, 4, 5, 0), mark=True) == 1
    assert _oblivious_frames((4, 5, 1, 0), mark=True) == 1
    assert _oblivious_frames((4, 1, 0), mark=False, dynamic=True) == 1


def test_a_branch_decides_all_the_same():
    def f(x):
        return x * 2 if x.shape[0] > 3 else x - 1

    with shape_options.patch(backed_size_oblivious=True):
        compiled = torch.compile(f, backend="eager", dynamic=True)
        for n in (5, 1, 6, 0, 2):
            assert torch.equal(compiled(torch.ones(n)), f(torch.ones(n)))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_checks_on_floats_of_the_graph(backend):
    def f(x):
        total = x.sum().item()
        torch._check(total > 1)
        return x * total

    x = torch.ones(3)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(f, backend=backend, fullgraph=True)
        assert torch.equal(compiled(x), f(x)) and torch.equal(compiled(2 * x), f(2 * x)) and len(compiled.entries) == 1
        with pytest.raises(RuntimeError, match="Expected cond to be True"):
            compiled(-x)


def test_the_log_of_symbols_names_the_programs_lines(caplog):
    def f(x):
        return x * 2 if x.shape[0] > 2 else x

    torch._logging.set_logs(dynamic=logging.INFO)
    try:
        with caplog.at_level("INFO"):
            torch.compile(f, backend="eager", dynamic=True)(torch.ones(5))
    finally:
        torch._logging.set_logs()
    (line,) = [text for text in caplog.messages if text.startswith("eval ")]
    assert "test_marked_sizes.py" in line and "create_symbol" in caplog.text
