"""Networks over graphs, by torch_geometric, whose numbers of nodes and edges change."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift

geometric = pytest.importorskip("torch_geometric.nn")


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = (
            geometric.GCNConv(8, 16),
            geometric.BatchNorm(16),
            geometric.SAGEConv(16, 4),
        )

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return self.second(self.norm(self.first(x, edges)).relu(), edges)


KINDS: dict[str, Any] = {
    "network": Network,
    "gat": lambda: geometric.GATConv(8, 4, heads=2),
    "sage": lambda: geometric.SAGEConv(8, 4),
    "gin": lambda: geometric.GINConv(torch.nn.Linear(8, 4)),
    "transformer": lambda: geometric.TransformerConv(8, 4),
    "edge": lambda: geometric.EdgeConv(torch.nn.Linear(16, 4)),
    "model": lambda: geometric.GCN(8, 16, 3, 4, dropout=0.0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_over_graphs_is_one_graph(kind: str) -> None:
    torch.manual_seed(0)
    ours = KINDS[kind]()
    torch.manual_seed(0)
    theirs = KINDS[kind]()
    framelift.reset()
    compiled = framelift.compile(ours, backend="eager", fullgraph=True)
    for nodes, edges in ((20, 60), (20, 65), (24, 70)):
        torch.manual_seed(nodes + edges)
        given = torch.randn(nodes, 8), torch.randint(0, nodes, (2, edges))
        made, wanted = compiled(*given), theirs(*given)
        torch.testing.assert_close(made, wanted)
        made.sum().backward()
        wanted.sum().backward()
    torch.testing.assert_close([p.grad for p in ours.parameters()], [p.grad for p in theirs.parameters()])
    assert not framelift.stats()["breaks"] and framelift.stats()["captures"] <= 3
