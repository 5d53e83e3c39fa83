"""Equal layers of a graph folded into one subgraph.

Which layers are, and that results and gradients stay what they were.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from framelift import config
from framelift.backends import builtin


class Block(nn.Module):
    """A residual block of some ten operations; `extra` is called in the midst of it."""

    def __init__(self, extra: Any = None) -> None:
        super().__init__()
        self.norm, self.up, self.down, self.extra = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8), extra

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(self.norm(x)).relu() * 0.5
        h = h.sigmoid() * h.tanh() + 1
        if self.extra is not None:
            h = self.extra(h)
        return x + self.down(h).cos()


class Stack(nn.Module):
    def __init__(self, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        for block in self.blocks:
            x = block(x)
        return x.sum(-1)


def folding(graphs: list[torch.fx.GraphModule]) -> Any:
    """The backend aot_eager, for which layers are folded as they are for Inductor."""

    def backend(graph_module: torch.fx.GraphModule, example_inputs: Any) -> Any:
        from torch._functorch.aot_autograd import aot_module_simplified

        graphs.append(builtin._own(graph_module, example_inputs, folds_layers=True))
        return aot_module_simplified(
            graphs[-1], list(example_inputs), fw_compiler=builtin.boxed, bw_compiler=builtin.boxed
        )

    return backend


def calls(graph_module: torch.fx.GraphModule) -> int:
    return len(graph_module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.invoke_subgraph))


def run(model: nn.Module, x: torch.Tensor, setting: str = "auto", dynamic: bool | None = None) -> int:
    """Compare a step of training and a call without gradients with eager.

    How many calls of a layer the first graph has.
    """
    graphs: list[torch.fx.GraphModule] = []
    x.requires_grad_()  # as the input of a later layer does: the first one is equal to the others
    with config.patch(repeated_layers=setting):
        compiled = framelift.compile(model, backend=folding(graphs), dynamic=dynamic)
        wanted, given = model(x), compiled(x)
    assert torch.allclose(wanted, given)
    wanted.sum().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    given.sum().backward()
    assert all(torch.allclose(a, b.grad, atol=1e-6) for a, b in zip(gradients, model.parameters()))
    with torch.no_grad(), config.patch(repeated_layers=setting):
        assert torch.allclose(model(x), compiled(x))
    return calls(graphs[0])


@pytest.mark.parametrize("dynamic", [None, True])
def test_equal_layers_are_one_subgraph(dynamic):
    assert run(Stack([Block() for _ in range(4)]), torch.rand(3, 8), dynamic=dynamic) in (3, 4)


@pytest.mark.parametrize(
    "setting, count, folded", [("auto", 2, False), ("always", 2, True), ("off", 5, False), ("auto", 3, True)]
)
def test_how_many_layers_it_takes(setting, count, folded):
    assert (run(Stack([Block() for _ in range(count)]), torch.rand(3, 8), setting) > 0) == folded


@pytest.mark.parametrize(
    "extra",
    [lambda h: h.add_(1), nn.BatchNorm1d(16), lambda h: h * torch.rand_like(h).round()],
    ids=["writes", "statistics", "draws"],
)
def test_what_writes_or_draws_is_left_alone(extra):
    graphs: list[torch.fx.GraphModule] = []
    with config.patch(repeated_layers="auto"):
        framelift.compile(Stack([Block(extra) for _ in range(4)]), backend=folding(graphs))(torch.rand(3, 8))
    assert calls(graphs[0]) == 0


class Dropped(Block):
    """A block with a number drawn for each call, as layers that are left out at random have it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * (torch.rand([]) + torch.randn(1))


def test_numbers_drawn_between_layers_are_drawn_in_their_order():
    graphs: list[torch.fx.GraphModule] = []
    model, x = Stack([Dropped() for _ in range(4)]), torch.rand(3, 8)
    with config.patch(repeated_layers="auto"):
        compiled = framelift.compile(model, backend=folding(graphs))
        results, states = [], []
        for one in (model, compiled):
            torch.manual_seed(3)
            results.append(one(x))
            states.append(torch.get_rng_state())
    assert calls(graphs[0]) >= 3
    assert torch.equal(*results) and torch.equal(*states)


def test_layers_with_other_constants_are_others():
    blocks = [Block(lambda h, n=n: h * (n + 2) + n) for n in range(4)]
    assert run(Stack(blocks), torch.rand(3, 8)) == 0


def test_two_kinds_of_layers_are_two_subgraphs():
    blocks = [*(Block() for _ in range(4)), *(Block(lambda h: h.exp().log().neg().abs()) for _ in range(4))]
    assert run(Stack(blocks), torch.rand(3, 8)) >= 6


def test_the_captured_graph_stays_as_it_is():
    model = Stack([Block() for _ in range(4)])
    kept: list[torch.fx.GraphModule] = []

    def backend(graph_module: torch.fx.GraphModule, example_inputs: Any) -> Any:
        kept.append(graph_module)
        with config.patch(repeated_layers="auto"):
            builtin._own(graph_module, example_inputs, folds_layers=True)
        return graph_module.forward

    x = torch.rand(3, 8)
    assert torch.equal(framelift.compile(model, backend=backend)(x), model(x))
    assert calls(kept[0]) == 0


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_layer_is_asked_once_whether_it_writes(dynamic):
    from torch._higher_order_ops.invoke_subgraph import InvokeSubgraphHOP

    asked: list[int] = []
    ask = InvokeSubgraphHOP.gen_schema

    def counting(self: Any, subgraph: Any, identifier: Any, *operands: Any) -> Any:
        asked.append(len(operands))
        return ask(self, subgraph, identifier, *operands)

    counts = []
    for count in (4, 8):
        asked.clear()
        InvokeSubgraphHOP.gen_schema = counting
        try:
            with builtin.one_schema_per_layer(), warnings.catch_warnings():
                warnings.filterwarnings("error", message="invoke_subgraph traced multiple backward graphs")
                assert run(Stack([Block() for _ in range(count)]), torch.rand(3, 8), dynamic=dynamic) in (
                    count - 1,
                    count,
                )
        finally:
            InvokeSubgraphHOP.gen_schema = ask
        counts.append(len(asked))
    assert counts[0] == counts[1] > 0
    assert "gen_schema" not in vars(torch.ops.higher_order.invoke_subgraph)


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [None, True])
def test_inductor_compiles_a_layer_once(dynamic):
    from torch._inductor.graph import GraphLowering

    made: list[str] = []
    begin = GraphLowering.__init__

    def beginning(self: Any, *args: Any, **kwargs: Any) -> None:
        made.append(type(self).__name__)
        begin(self, *args, **kwargs)

    model, x = Stack([Block() for _ in range(5)]), torch.rand(3, 8, requires_grad=True)
    GraphLowering.__init__ = beginning
    try:
        # A graph that is found on disk is not lowered.
        with (
            config.patch(repeated_layers="auto"),
            torch._inductor.config.patch(force_disable_caches=True),
            torch.no_grad(),
        ):
            assert torch.allclose(framelift.compile(model, dynamic=dynamic)(x), model(x), atol=1e-5)
        assert made.count("SubgraphLowering") == 1
    finally:
        GraphLowering.__init__ = begin
    with config.patch(repeated_layers="auto"):
        model(x).sum().backward()
        wanted = [x.grad, *(parameter.grad for parameter in model.parameters())]
        x.grad = None
        model.zero_grad()
        framelift.compile(model, dynamic=dynamic)(x).sum().backward()
    assert all(
        torch.allclose(a, b, atol=1e-4)
        for a, b in zip(wanted, [x.grad, *(parameter.grad for parameter in model.parameters())])
    )


def test_layers_that_cannot_be_one_subgraph_are_compiled_one_by_one(monkeypatch):
    lowered: list[int] = []

    def lower(graph_module: torch.fx.GraphModule, *_others: Any) -> Any:
        lowered.append(calls(graph_module))
        if lowered[-1]:
            raise NotImplementedError("such layers")
        return graph_module.forward

    monkeypatch.setattr(builtin, "lower", lower)
    model, x = Stack([Block() for _ in range(4)]), torch.rand(3, 8)
    with config.patch(repeated_layers="auto", strict=False), pytest.warns(UserWarning, match="equal layers"):
        assert torch.equal(framelift.compile(model)(x), model(x))
    assert len(lowered) == 2 and lowered[0] > 0 and lowered[1] == 0


class Attention(nn.Module):
    """A layer with attention, which is said to draw random numbers on some devices."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.into, self.out, self.dropout = nn.Linear(8, 24), nn.Linear(8, 8), dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.into(x).view(3, 2, 4, -1).chunk(3, -1)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        return x + self.out(mixed.reshape(3, 8)).cos().sin()


@pytest.mark.parametrize("dropout, folded", [(0.0, True), (0.5, False)])
def test_attention_without_dropout_draws_nothing(dropout, folded):
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph_module: torch.fx.GraphModule, example_inputs: Any) -> Any:
        for node in graph_module.graph.find_nodes(
            op="call_function", target=nn.functional.scaled_dot_product_attention
        ):
            node.meta["effect"] = True  # as with kernels for CUDA
        return folding(graphs)(graph_module, example_inputs)

    model, x = Stack([Attention(dropout) for _ in range(4)]), torch.rand(3, 8)
    model.blocks[0].into.weight.requires_grad_()
    with config.patch(repeated_layers="auto"), torch.no_grad():
        made = framelift.compile(model, backend=backend)(x)
    assert (calls(graphs[0]) > 0) == folded
    assert not folded or torch.allclose(made, model(x), atol=1e-6)


class PostNorm(nn.Module):
    """A layer that ends with its norm."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(8, 16), nn.Linear(16, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.down(self.up(x).relu() * 0.5).cos().sin().exp())


class PreNorm(PostNorm):
    """A layer that begins with its norm."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.up(self.norm(x)).relu() * 0.5).cos().sin().exp()


@pytest.mark.parametrize(
    "kind, grad, handed", [(PostNorm, False, 1), (PostNorm, True, 1), (PreNorm, False, 2), (PreNorm, True, 1)]
)
def test_layers_begin_where_kernels_end(kind, grad, handed):
    """What is added and what is normed stay one kernel; for a backward least is handed on.

    All layers are equal ones.
    """
    model, x = (
        nn.Sequential(nn.LayerNorm(8), *(kind() for _ in range(4)), nn.LayerNorm(8)),
        torch.rand(3, 8).add(1).neg(),
    )
    graphs: list[torch.fx.GraphModule] = []
    with torch.set_grad_enabled(grad):
        torch.testing.assert_close(framelift.compile(model, backend=folding(graphs))(x), model(x))
    layer = graphs[0].repeated_layer_0
    first = next(node for node in layer.graph.nodes if node.op != "placeholder")
    assert calls(graphs[0]) == 4
    assert len(layer.graph.output_node().args[0]) == handed
    assert (first.target is torch.nn.functional.linear) == (kind is PostNorm or not grad)


class Checkpointed(Stack):
    """Layers whose backward computes their forward again."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
        return x.sum(-1)


def test_checkpointed_layers_are_folded_where_there_is_no_backward():
    model, x = Checkpointed([Block() for _ in range(4)]), torch.rand(3, 8)
    graphs: list[torch.fx.GraphModule] = []
    before = framelift.stats()["captures"]
    assert run(model, x) == 0  # a region that is computed again stays one
    with torch.no_grad(), config.patch(repeated_layers="auto"):
        assert torch.allclose(framelift.compile(model, backend=folding(graphs))(x), model(x))
    assert calls(graphs[0]) == 4
    assert framelift.stats()["captures"] - before == 3


def test_layers_under_autocast_are_folded():
    model, x = Stack([Block() for _ in range(4)]), torch.rand(3, 8, requires_grad=True)
    graphs: list[torch.fx.GraphModule] = []
    before = framelift.stats()["captures"]
    compiled = framelift.compile(model, backend=folding(graphs))
    made = []
    for step in (model, compiled):
        with torch.autocast("cpu", torch.bfloat16), config.patch(repeated_layers="auto"):
            result = step(x)
        made.append([result, *torch.autograd.grad(result.sum(), [x, *model.parameters()])])
    assert calls(graphs[0]) in (3, 4) and framelift.stats()["captures"] - before == 1
    for a, b in zip(*made, strict=True):
        assert a.dtype is b.dtype
        torch.testing.assert_close(b, a, atol=5e-2, rtol=5e-2)
