"""Exported programs: what they give, their signature, shapes, files and structure, compared with the program itself."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch.export import Dim, load, save, unflatten

import framelift
from framelift.export import export, export_graph


class Net(torch.nn.Module):
    """Parameters, both kinds of buffers, a tensor attribute, a module called twice, a region without grad."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 3)
        self.seq = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(3, 3))
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("kept", torch.ones(3), persistent=False)
        self.shift = torch.full((3,), 0.5)

    def forward(self, x: torch.Tensor, *, more: dict[str, torch.Tensor]) -> dict[str, Any]:
        self.calls = self.calls + 1
        with torch.no_grad():
            side = self.seq(more["side"])
        return {"out": [self.seq(self.first(x)) + self.shift * self.kept, side], "calls": self.calls * 1}


def _call() -> tuple[Net, tuple[Any, ...], dict[str, Any]]:
    torch.manual_seed(0)
    return Net(), (torch.randn(5, 4),), {"more": {"side": torch.randn(5, 3)}}


def _same(a: Any, b: Any) -> bool:
    left, right = torch.utils._pytree.tree_flatten(a), torch.utils._pytree.tree_flatten(b)
    return left[1] == right[1] and all(torch.allclose(x, y) if isinstance(x, torch.Tensor) else x == y for x, y in zip(left[0], right[0]))


@pytest.mark.parametrize("strict", [True, False])
def test_program_gives_what_the_module_gives(strict: bool) -> None:
    net, args, kwargs = _call()
    program = export(net, args, kwargs, strict=strict)
    assert net.calls.item() == 0
    assert [spec.target for spec in program.graph_signature.input_specs if spec.target] == [
        "first.weight", "first.bias", "seq.1.weight", "seq.1.bias", "calls", "kept", "shift"]
    got = program.module()(*args, **kwargs)
    net.calls.zero_()
    assert _same(got, net(*args, **kwargs))


@pytest.mark.parametrize("strict", [True, False])
def test_program_is_saved_and_unflattened(strict: bool) -> None:
    net, args, kwargs = _call()
    program = export(net, args, kwargs, strict=strict)
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    again = load(file)
    tree = unflatten(program)
    assert isinstance(tree.seq, torch.nn.Module)
    wanted = program.run_decompositions().module()(*args, **kwargs)["out"]
    assert _same(again.module()(*args, **kwargs)["out"], wanted) and _same(tree(*args, **kwargs)["out"], wanted)


def test_both_modes_make_the_same_program() -> None:
    net, args, kwargs = _call()
    strict, plain = (export(net, args, kwargs, strict=mode) for mode in (True, False))
    def rows(program: Any) -> list[Any]:
        return [(node.op, str(node.target)) for node in program.graph.nodes]
    assert rows(strict) == rows(plain)
    assert strict.graph_signature == plain.graph_signature
    assert [entry.fqn for entry in strict.module_call_graph] == [entry.fqn for entry in plain.module_call_graph]


def test_exported_parameters_train() -> None:
    net, args, kwargs = _call()
    module = export(net, args, kwargs, strict=True).module()
    module(*args, **kwargs)["out"][0].sum().backward()
    found = {name: p.grad.clone() for name, p in module.named_parameters()}
    net.zero_grad()
    net(*args, **kwargs)["out"][0].sum().backward()
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad)


@pytest.mark.parametrize("strict", [True, False])
def test_dynamic_shapes(strict: bool) -> None:
    net, args, kwargs = _call()
    batch = Dim("batch", max=64)
    program = export(net, args, kwargs, dynamic_shapes={"x": {0: batch}, "more": {"side": {0: batch}}}, strict=strict)
    assert [str(bounds) for bounds in program.range_constraints.values()] == ["VR[0, 64]"]
    given = torch.randn(9, 4), {"side": torch.randn(9, 3)}
    assert _same(program.module()(given[0], more=given[1])["out"], net(given[0], more=given[1])["out"])


class Branching(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.cos() if x.shape[0] > 10 else x.sin()


@pytest.mark.parametrize("strict", [True, False])
def test_a_branch_on_a_dynamic_size_is_an_error_with_a_fix(strict: bool) -> None:
    x = torch.ones(4, 2)
    with pytest.raises(Exception, match=r"size\(\)\[0\] <= 10(?s:.*)batch = Dim\('batch', max=10\)"):
        export(Branching(), (x,), dynamic_shapes={"x": {0: Dim("batch")}}, strict=strict)
    program = export(Branching(), (x,), dynamic_shapes={"x": {0: Dim("batch", max=10)}}, strict=strict)
    assert _same(program.module()(torch.ones(7, 2)), torch.ones(7, 2).sin())


@pytest.mark.parametrize("hint", [Dim.AUTO, Dim.DYNAMIC])
def test_example_tensors_keep_no_marks(hint: Any) -> None:
    x = torch.ones(4, 2)
    export(torch.nn.ReLU(), (x,), dynamic_shapes=({0: hint},), strict=True)
    assert not x.__dict__
    with pytest.raises(Exception, match="4"):
        export(_Fixed(), (x,), dynamic_shapes=({0: Dim.DYNAMIC},), strict=True)
    assert not x.__dict__


class _Fixed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + len(range(int(x.shape[0])))


def test_static_and_automatic_dimensions() -> None:
    x = torch.ones(4, 2)
    program = export(_Fixed(), (x,), dynamic_shapes=({0: Dim.AUTO, 1: Dim.STATIC},), strict=True)
    assert program.range_constraints == {} and program.module()(x)[0, 0] == 5


def test_what_cannot_be_captured_is_said() -> None:
    class Prints(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if x.sum() > 0 else x

    with pytest.raises(framelift.exc.Unsupported, match="a branch depends on the values of a tensor"):
        export(Prints(), (torch.ones(2),), strict=True)


def test_graph_has_the_signature_of_the_function() -> None:
    def function(x: torch.Tensor, pair: dict[str, torch.Tensor], *rest: Any, scale: float = 1.0) -> Any:
        return [x.sin() * scale + pair["a"], {"same": pair["a"]}, rest[0]]

    args = (torch.randn(3), {"a": torch.randn(3)}, 7)
    graph, guards = export_graph(function)(*args, scale=2.0)
    assert _same(graph(*args, scale=2.0), function(*args, scale=2.0))
    wider = (torch.randn(8), {"a": torch.randn(8)}, 7)
    assert _same(graph(*wider, scale=2.0), function(*wider, scale=2.0))
    assert any("size()" in text for guard in guards for text in guard.code_list)


def test_graph_of_a_module_keeps_its_names() -> None:
    net, args, kwargs = _call()
    graph, _ = export_graph(net)(*args, **kwargs)
    assert {node.target for node in graph.graph.nodes if node.op == "get_attr"} == {
        "first.weight", "first.bias", "seq.1.weight", "seq.1.bias", "calls", "kept", "shift"}
    assert dict(graph.named_parameters())["seq.1.weight"] is net.seq[1].weight
    assert _same(graph(*args, **kwargs)["out"], net(*args, **kwargs)["out"])


def test_aten_graph() -> None:
    graph, _ = export_graph(lambda x: x.sin() + 1, aten_graph=True)(torch.ones(3))
    assert [str(node.target) for node in graph.graph.nodes if node.op == "call_function"] == ["aten.sin.default", "aten.add.Tensor"]
    assert _same(graph(torch.ones(5)), torch.ones(5).sin() + 1)


def test_program_knows_that_it_is_exported() -> None:
    class Asks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if torch.compiler.is_exporting() else x

    for strict in (True, False):
        assert export(Asks(), (torch.ones(1),), strict=strict).module()(torch.ones(1)).item() == 2
    assert not torch.compiler.is_exporting()
    assert framelift.compile(Asks(), backend="eager")(torch.ones(1)).item() == 1
