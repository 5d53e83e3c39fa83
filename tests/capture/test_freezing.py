"""Parameters and buffers inside the graph, where Inductor is asked to freeze them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch._inductor.config as inductor
from torch import nn

import framelift
from framelift.backends.registry import lookup

X = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)
        self.register_buffer("scale", torch.full((4,), 2.0))
        self.plain = torch.ones(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * self.scale + self.plain + x.shape[0]


class Seen:
    """A backend that keeps the graphs."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs.append(graph)
        return lookup("aot_eager")(graph, inputs)


@pytest.mark.parametrize("dynamic", [False, True])
def test_state_is_held_by_the_graph_and_told_by_its_identity(dynamic: bool) -> None:
    net, backend = Net(), Seen()
    compiled = framelift.compile(net, backend=backend, fullgraph=True, dynamic=dynamic)
    with torch.no_grad(), inductor.patch(freezing=True):
        for _ in range(2):
            torch.testing.assert_close(compiled(X), net(X))
        held = backend.graphs[0]
        assert len(list(held.parameters())) == 2 and len(list(held.buffers())) == 1
        assert not any(
            "weight" in node.name or "scale" in node.name for node in held.graph.find_nodes(op="placeholder")
        )
        net.scale = torch.full((4,), 3.0)
        torch.testing.assert_close(compiled(X), net(X))
        net.layer.weight = nn.Parameter(torch.zeros(4, 3))
        torch.testing.assert_close(compiled(X), net(X))
    assert len(backend.graphs) == 3


def test_not_where_gradients_are_wanted_or_the_state_is_written() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return x + self.count

    with inductor.patch(freezing=True):
        backend = Seen()
        compiled = framelift.compile(Net(), backend=backend, fullgraph=True)
        compiled(X).sum().backward()
        with torch.no_grad():
            compiled = framelift.compile(Counting(), backend=backend, fullgraph=True)
            assert [compiled(torch.zeros(1)).item() for _ in range(3)] == [1.0, 2.0, 3.0]
    assert not any([*graph.parameters(), *graph.buffers()] for graph in backend.graphs)
