"""Views made without grad mode of tensors that require grad: they require it too, and their histories lead nowhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift

VIEWS: dict[str, Any] = {
    "view": lambda x: x.view(-1),
    "t": lambda x: x.t(),
    "index": lambda x: x[0],
    "unsqueeze": lambda x: x.unsqueeze(0),
    "chunk": lambda x: x.chunk(2)[0],
    "of a view": lambda x: x.view(-1).view(3, 2),
    "detach": lambda x: x.detach(),
}
USES: dict[str, Any] = {
    "result": lambda x, y, w: y,
    "operand": lambda x, y, w: (y, y * 2),
    "beside its base": lambda x, y, w: (x.sum() * y.sum(), y),
    "beside another": lambda x, y, w: (y.sum() * w).sum(),
    "asked": lambda x, y, w: (y.requires_grad, y.is_leaf, (y * 2).requires_grad, w * 2),
    "viewed": lambda x, y, w: y.view(-1) * w.sum(),
    "written": lambda x, y, w: y.mul_(2),
    "differentiated": lambda x, y, w: torch.autograd.grad((y.sum() * w).sum(), w)[0],
}


def leaf() -> Any:
    x = torch.ones(2, 3, requires_grad=True)
    return x, x


def leaf_that_is_a_view() -> Any:
    x = torch.ones(6).view(2, 3).requires_grad_()
    return x, x


def result() -> Any:
    x = torch.ones(2, 3, requires_grad=True)
    return x, x * 1


def outcome(program: Any, make: Any) -> Any:
    """All that can be seen of a call: results with their flags, and where their gradients go."""
    (x, given), w = make(), torch.ones(3, requires_grad=True)
    try:
        found = program(given, w)
    except RuntimeError as error:
        return str(error)[:60]
    seen: list[Any] = []
    for part in found if isinstance(found, tuple) else (found,):
        if not isinstance(part, torch.Tensor):
            seen.append(part)
            continue
        seen.append((part.tolist(), part.requires_grad, part.is_leaf, part.grad_fn is None))
        if part.requires_grad:
            part.sum().backward(retain_graph=True)
    return seen, [None if one.grad is None else one.grad.tolist() for one in (x, w)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("make", [leaf, leaf_that_is_a_view, result])
@pytest.mark.parametrize("view", VIEWS)
def test_as_in_eager_mode(view: str, make: Any, backend: str) -> None:
    for use in USES:

        def program(x: Any, w: Any, use: str = use) -> Any:
            with torch.no_grad():
                y = VIEWS[view](x)
            return USES[use](x, y, w)

        framelift.reset()
        assert outcome(framelift.compile(program, backend=backend), make) == outcome(program, make), use


@pytest.mark.parametrize("use", ["result", "operand", "beside its base", "beside another", "asked", "differentiated"])
@pytest.mark.parametrize("view", VIEWS)
def test_one_graph(view: str, use: str) -> None:
    def program(x: Any, w: Any) -> Any:
        with torch.no_grad():
            y = VIEWS[view](x)
        return USES[use](x, y, w)

    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    for make in (leaf, leaf, result):
        outcome(compiled, make)
    assert framelift.stats()["captures"] == 2 and not framelift.stats()["breaks"]


def test_a_leaf_that_is_a_view_later() -> None:
    def program(x: Any) -> Any:
        with torch.no_grad():
            y = x.view(-1)
        return y.requires_grad, y * 2

    compiled = framelift.compile(program, backend="eager")
    for make in (leaf, leaf_that_is_a_view, leaf):
        x = make()[1]
        want, got = program(x), compiled(x)
        assert got[0] == want[0] and got[1].requires_grad == want[1].requires_grad and torch.equal(got[1], want[1])


def test_backends_of_a_program() -> None:
    """One is supposed to run graphs as they are, until it gives back something else."""
    leaf = torch.ones(3, 3, requires_grad=True)
    given: list[int] = []

    def gives_graph(graph: Any, examples: Any) -> Any:
        given.append(len(graph.graph.nodes))
        return graph.forward

    def gives_other(graph: Any, examples: Any) -> Any:
        given.append(len(graph.graph.nodes))
        return lambda *inputs: graph(*inputs)

    def changes(graph: Any, examples: Any) -> Any:
        given.append(len(graph.graph.nodes))
        for node in list(graph.graph.nodes):
            if node.op == "call_function" and node.target is torch._C._set_grad_enabled:
                graph.graph.erase_node(node)
        graph.recompile()
        return graph.forward

    def fails(graph: Any, examples: Any) -> Any:
        given.append(len(graph.graph.nodes))
        raise RuntimeError("cannot")

    def fn(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            rows = leaf.t()
        return rows * x

    x = torch.ones(3)
    for backend in (gives_graph, gives_other, changes, fails):
        framelift.reset()
        given.clear()
        compiled = framelift.compile(fn, backend=backend)
        for _ in range(3):
            made, expected = compiled(x), fn(x)
            assert torch.equal(made, expected) and made.requires_grad is expected.requires_grad
        assert len(given) == 1 and framelift.stats()["graphs"] == (backend is gives_graph)
