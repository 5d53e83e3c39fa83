"""The Python code of graphs: the text, the names and the lines that torch's own generator gives, whatever is in the
graph.
"""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.graph import CodeGen

import framelift
from framelift.graph.fx.plain_code import PlainCode

X = torch.rand(2, 2)


def _both(graph: torch.fx.Graph) -> None:
    graph.set_codegen(PlainCode())
    mine = graph.python_code("self")
    graph.set_codegen(CodeGen())
    assert mine == graph.python_code("self")


def _inplace(x: torch.Tensor) -> Any:
    x = x.clone()
    x += 1
    x[0:1, None] = 2
    x[..., 0] *= 3
    return x, x[:, None, 1:], -x


def _parts(x: torch.Tensor) -> Any:
    first, second = torch.split(x, [1, 1])
    return torch.max(x, 0).values, first.T, second.real, x.sum(dim=(0,), keepdim=True)


def _values(x: torch.Tensor) -> Any:
    made = torch.zeros(3, 2, dtype=torch.float64, device="cpu", layout=torch.strided)
    return (
        x * float("inf"),
        x + float("nan"),
        made,
        x.expand(-1, 2),
        x.contiguous(memory_format=torch.contiguous_format),
    )


def _state(x: torch.Tensor) -> Any:
    with torch.no_grad():
        y = x.exp()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return y @ x, torch.rand(2)


def _body(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


def _sizes(x: torch.Tensor) -> Any:
    return x.reshape(x.shape[0] * x.shape[1]), x.new_zeros(x.shape[0] + 1)


@pytest.mark.parametrize("program", [_inplace, _parts, _values, _state, _body, _sizes])
@pytest.mark.parametrize("dynamic", [False, True])
def test_graphs_of_captures(program: Callable[[Any], Any], dynamic: bool) -> None:
    seen = []

    def backend(module: torch.fx.GraphModule, _inputs: Any) -> Any:
        assert type(module.graph._codegen) is PlainCode
        for part in module.modules():
            if isinstance(part, torch.fx.GraphModule):
                _both(part.graph)
        seen.append(module)
        return module.forward

    framelift.compile(program, backend=backend, dynamic=dynamic)(X)
    assert seen


def _named(name: str) -> torch.fx.Graph:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(torch.sin, (x,))
    node.name = name
    graph.output(node)
    return graph


def _with(fill: Callable[[torch.fx.Graph, torch.fx.Node], Any]) -> torch.fx.Graph:
    graph = torch.fx.Graph()
    graph.output(fill(graph, graph.placeholder("x")))
    return graph


class _Own:
    def __repr__(self) -> str:
        return "_Own()"


GRAPHS = {
    "a name of Python's": lambda: _named("len"),
    "a keyword": lambda: _named("class"),
    "a global": lambda: _named("torch"),
    "no name": lambda: _named("a.b"),
    "a name twice": lambda: _named("x"),
    "a function of no library": lambda: _with(lambda g, x: g.call_function(_inplace, (x,))),
    "a function of Python's": lambda: _with(lambda g, x: g.call_function(len, (x,))),
    "an operator without a sign": lambda: _with(lambda g, x: g.call_function(operator.setitem, (x, 0, 1))),
    "an operator in place": lambda: _with(lambda g, x: g.call_function(operator.iadd, (x, 1))),
    "getattr": lambda: _with(lambda g, x: g.call_function(getattr, (x, "shape"))),
    "getattr with a default": lambda: _with(lambda g, x: g.call_function(getattr, (x, "shape", None))),
    "getattr of no name": lambda: _with(lambda g, x: g.call_function(getattr, (x, "a b"))),
    "a dictionary": lambda: _with(lambda g, x: {"a": x, "b": [x, (x,), ()]}),
    "a slice": lambda: _with(lambda g, x: g.call_function(operator.getitem, (x, (slice(None, x, 2), ..., None)))),
    "a size": lambda: _with(lambda g, x: g.call_method("view", (x, torch.Size([2, 2])))),
    "an overload": lambda: _with(lambda g, x: g.call_function(torch.ops.aten.add.Tensor, (x, x), {"alpha": 2})),
    "a module": lambda: _with(lambda g, x: g.call_module("inner", (x,))),
    "an attribute": lambda: _with(lambda g, x: g.get_attr("inner.weight")),
    "an attribute with a number": lambda: _with(lambda g, x: g.get_attr("inner.0.weight")),
    "a type": lambda: _with(lambda g, x: g.call_function(torch.sin, (x,), type_expr=torch.Tensor)),
    "a default": lambda: _with(lambda g, x: g.placeholder("y", default_value=1)),
    "a value of another type": lambda: _with(lambda g, x: g.call_function(torch.sin, (x, 1j))),
    "nothing": torch.fx.Graph,
}


@pytest.mark.parametrize("case", GRAPHS)
def test_unusual_graphs(case: str) -> None:
    _both(GRAPHS[case]())


def test_code_to_be_read_is_torchs() -> None:
    graph = _with(lambda g, x: g.call_function(torch.sin, (x,)))
    graph.set_codegen(PlainCode())
    mine = graph.python_code("self", verbose=True).src
    graph.set_codegen(CodeGen())
    assert mine == graph.python_code("self", verbose=True).src


def test_code_that_a_program_transforms() -> None:
    graph = _with(lambda g, x: g.call_function(torch.sin, (x,)))
    graph.set_codegen(PlainCode())
    with graph.on_generate_code(lambda _before: lambda body: [*body, "# the end\n"]):
        assert "# the end" in graph.python_code("self").src
    assert "# the end" not in graph.python_code("self").src


def test_copies_have_torchs_generator() -> None:
    for made in (copy.deepcopy(PlainCode()), pickle.loads(pickle.dumps(PlainCode()))):
        assert type(made) is CodeGen and vars(made) == vars(CodeGen())
