"""Switches that steer what is captured, and what a graph holds: modules to skip, C types, tensors as attributes,
compiles inside compiled code, disabled functions in exported programs; and what messages say of the kind of a break.
"""

from __future__ import annotations

import importlib
import struct
import sys

import pytest
import torch
import torch._dynamo
from torch._dynamo.testing import CompileCounter, EagerAndRecordGraphs

import framelift
from framelift.vocabulary.break_kinds import KINDS, SUPPORTABLE
from framelift.vocabulary.reasons import REASONS

X = torch.ones(3)
pytestmark = pytest.mark.usefixtures("installed")


def test_modules_that_are_skipped(tmp_path, monkeypatch):
    (tmp_path / "skipped_module.py").write_text(
        "def outer(x):\n    return inner(x) + 1\n\ndef inner(x):\n    return x * 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("skipped_module")
    torch._dynamo.trace_rules.add("skipped_module")
    try:
        counter = CompileCounter()

        def f(x):
            return module.outer(x + 1) * 2

        assert torch.equal(torch.compile(f, backend=counter)(X), f(X))
        assert counter.frame_count == 2  # before and after the call
        with pytest.raises(torch._dynamo.exc.Unsupported, match="outer"):
            torch.compile(f, backend="eager", fullgraph=True)(X)
    finally:
        sys.modules.pop("skipped_module")
    with pytest.raises(AssertionError):
        torch._dynamo.trace_rules.add(3)


@pytest.mark.skipif(not hasattr(torch._dynamo, "allow_c_slot"), reason="this torch has no such function")
def test_c_types_whose_slots_are_safe():
    key = struct.Struct("i")
    table = {key: 2}

    def f(x):
        return x * table[key] + (key == key) + hash(key) % 7

    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(f, backend="eager", fullgraph=True)(X)
    assert torch._dynamo.allow_c_slot(struct.Struct) is struct.Struct
    compiled = torch.compile(f, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X), f(X))
    key = struct.Struct("q")
    table = {key: 5}
    assert torch.equal(compiled(X), f(X))
    with pytest.raises(TypeError):
        torch._dynamo.allow_c_slot(key)


def test_free_tensors_are_attributes():
    weight, module = torch.ones(3, requires_grad=True), torch.nn.Linear(3, 3)
    backend = EagerAndRecordGraphs()
    with torch._dynamo.config.patch(install_free_tensors=True):
        f = torch.compile(lambda x: module(x) * weight, backend=backend)
        f(X).sum().backward()
        aot = torch.compile(lambda x: module(x) * weight, backend="aot_eager")
        torch.testing.assert_close(aot(X), module(X) * weight)
    ops = [node.op for node in backend.graphs[0].graph.nodes]
    assert ops.count("placeholder") == 1 and ops.count("get_attr") == 3
    torch.testing.assert_close(weight.grad, module(X).detach())


def test_nothing_is_compiled_inside_compiled_code():
    inner = torch.compile(lambda x: x * 2, backend="eager")

    @torch.library.custom_op("framelift_tests::compiles", mutates_args=())
    def compiles(x: torch.Tensor) -> torch.Tensor:
        return inner(x)

    compiles.register_fake(torch.empty_like)
    with torch._dynamo.config.patch(error_on_dynamo_callback_in_fullgraph_compiled_code=True):
        f = torch.compile(lambda x: compiles(x) + 1, backend="eager", fullgraph=True)
        with pytest.raises(RuntimeError, match="fullgraph=True runs"):
            f(X)
        assert torch.equal(torch.compile(lambda x: x + 1, backend="eager")(X), X + 1)  # it is over
    f = torch.compile(lambda x: compiles(x) + 1, backend="eager", fullgraph=True)
    torch._dynamo.reset()
    assert torch.equal(f(X), X * 2 + 1)


def test_nodes_of_disabled_functions_in_exported_programs():
    @torch.compiler.disable(recursive=False)
    def inside(x):
        return x.sin()

    class Model(torch.nn.Module):
        def forward(self, x):
            return inside(x) + 1

    program = torch.export.export(Model(), (X,), strict=True)
    notes = {node.name: node.meta.get("custom") for node in program.graph.nodes}
    assert notes["sin"]["_torchdynamo_disable"] and not notes["sin"]["_torchdynamo_disable_recursive"]
    assert notes["sin"]["_torchdynamo_disable_method"] == "inside" and not notes["add"]


def test_messages_say_what_kind_of_break_it_is():
    def branch(x):
        return x if x.sum() > 1 else -x

    with pytest.raises(torch._dynamo.exc.UserError, match="kind: fundamental(?s:.)*exportdb/index.html#cond-operands"):
        torch.compile(branch, backend="eager", fullgraph=True)(X)
    assert KINDS.keys() == REASONS.keys() and KINDS["unknown-callable"] is SUPPORTABLE
