"""torch.func: transforms captured through their own Python, as one graph, equal to eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap

import framelift
from support import check

W = torch.linspace(-1, 1, 9).reshape(3, 3)

PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "vmap": lambda x: vmap(lambda row: row.sin() * W)(x),
    "vmap of vmap": lambda x: vmap(vmap(lambda v: v * 2 + 1))(x),
    "vmap over a dictionary": lambda x: vmap(
        lambda d: d["a"] + d["b"][0], in_dims=({"a": 0, "b": (None,)},), out_dims=1
    )({"a": x, "b": (W,)}),
    "vmap with random numbers": lambda x: vmap(lambda row: row + torch.rand_like(row), randomness="different")(x),
    "vmap in chunks": lambda x: vmap(lambda row: row.sum(), chunk_size=2)(x),
    "vmap reads strides": lambda x: vmap(lambda row: row * row.stride(0) + row.size(0))(x),
    "grad": lambda x: grad(lambda y: (y.sin() * W).sum())(x),
    "grad with aux and argnums": lambda x: grad(lambda y, z: ((y.sin() * z).sum(), y), has_aux=True, argnums=(0, 1))(
        x, W
    ),
    "grad and value": lambda x: grad_and_value(lambda y: (y.sin() * W).sum())(x),
    "grad of grad": lambda x: grad(lambda x: grad(lambda y: (y.sin() * W).sum())(x).sum())(x),
    "grad without grad mode": lambda x: _no_grad(lambda: grad(lambda y: y.sin().sum())(x)),
    "vmap of grad": lambda x: vmap(vmap(grad(torch.sin)))(x),
    "vmap of cond": lambda x: vmap(lambda row: torch.cond(row.sum() > 0, torch.sin, torch.cos, (row,)))(x),
    "vmap of vmap of cond": lambda x: vmap(
        vmap(lambda v: torch.cond(v > 0, lambda d: (d["a"] * 2,), lambda d: (d["a"] + W.sum(),), ({"a": v},))[0])
    )(x),
    "vjp": lambda x: vjp(lambda y: y.sin(), x)[1](x + 1),
    "jvp": lambda x: jvp(lambda y: y.sin(), (x,), (x,)),
    "jacrev": lambda x: jacrev(lambda y: y.sin())(x),
    "jacfwd": lambda x: jacfwd(lambda y: y.sin())(x),
    "hessian": lambda x: hessian(lambda y: y.sin().sum())(x),
}


def _no_grad(run: Callable[[], Any]) -> Any:
    with torch.no_grad():
        return run()


@pytest.mark.parametrize("name", PROGRAMS)
def test_like_eager(name: str) -> None:
    check(PROGRAMS[name], torch.linspace(-2, 2, 9).reshape(3, 3))


@pytest.mark.parametrize("name", ["vmap", "grad of grad", "vmap of grad", "vjp", "jvp", "hessian"])
def test_gradients_through_aot(name: str) -> None:
    fn = PROGRAMS[name]
    compiled = framelift.compile(fn, backend="aot_eager", fullgraph=True)
    rows = []
    for run in (fn, compiled):
        x = torch.linspace(-2, 2, 9).reshape(3, 3).requires_grad_()
        out = run(x)
        outs = out if isinstance(out, tuple) else (out,)
        sum(o.sum() for o in outs).backward()
        rows.append((outs, x.grad))
    torch.testing.assert_close(rows[1], rows[0])


SIZED: dict[str, Callable[[torch.Tensor], Any]] = {
    "vmap": lambda x: vmap(lambda row: row.sin() * row.shape[0])(x) * x.shape[0],
    "vmap of vmap": lambda x: vmap(vmap(lambda a, b: a + b, (None, 0)), (0, None))(x[:, 0], x[0]),
    "vmap in chunks": lambda x: vmap(lambda row: row.sum(), chunk_size=2)(x),
    "grad": lambda x: vmap(grad(lambda y: (y.sin() * y.shape[0]).sum()))(x),
    "jacobian": lambda x: jacrev(lambda y: y.sin().sum(0))(x),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", SIZED)
def test_sizes_that_change(name: str, backend: str) -> None:
    program = SIZED[name]
    compiled = framelift.compile(program, backend=backend, fullgraph=True, dynamic=True)
    for shape in ((6, 4), (5, 7)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), program(x))
    with framelift.set_stance("fail_on_recompile"):
        x = torch.randn(9, 8)
        if name != "vmap in chunks":  # there are as many calls as chunks
            torch.testing.assert_close(compiled(x), program(x))


def test_module_parameters() -> None:
    net = torch.nn.Linear(3, 1)
    params = {k: v.detach() for k, v in net.named_parameters()}

    def loss(p: dict[str, torch.Tensor], row: torch.Tensor) -> torch.Tensor:
        return functional_call(net, p, (row,)).square().sum()

    def per_sample(p: dict[str, torch.Tensor], x: torch.Tensor) -> Any:
        return vmap(grad(loss), in_dims=(None, 0))(p, x)

    check(per_sample, params, torch.linspace(-2, 2, 12).reshape(4, 3))


def test_effects_inside_happen_once_a_call() -> None:
    seen: list[int] = []

    def fn(x: torch.Tensor) -> torch.Tensor:
        def inner(row: torch.Tensor) -> torch.Tensor:
            seen.append(len(seen))
            return row * 2

        return vmap(inner)(x)

    check(fn, torch.ones(2, 3), graphs=2, captures=2)  # the list's length is read, and another one at the second call


def test_what_is_read_inside_is_guarded() -> None:
    scale = [2.0]

    def change(_call: int, world: Any) -> None:
        world.fn.__closure__[0].cell_contents[0] = 3.0

    check(lambda x: vmap(lambda row: row * scale[0])(x), torch.ones(2, 3), mutate=change, graphs=2)


def test_an_interrupt_inside_a_context_manager_is_not_told_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", reported.append)
    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(lambda x: vmap(lambda row: row + row.sum().item())(x), backend="eager", fullgraph=True)(
            torch.ones(2, 3)
        )
    assert reported == []


def test_a_break_inside_leaves_no_transform_open() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return vmap(lambda row: print(end="") or row.sin())(x)

    x = torch.ones(2, 3)
    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(fn, backend="eager", fullgraph=True)(x)
    assert torch._C._functorch.peek_interpreter_stack() is None
    torch.testing.assert_close(framelift.compile(fn, backend="eager")(x), x.sin())


def test_called_from_a_transform() -> None:
    """Run as it is, a graph is transformed like any Python; compiled, it is not."""
    framelift.reset()
    compiled = framelift.compile(lambda x: x.sin(), backend="aot_eager", fullgraph=True)
    with pytest.raises(framelift.exc.Unsupported, match="torch.func.vmap"):
        vmap(compiled)(torch.ones(2, 3))
    inner = framelift.compile(lambda x: vmap(lambda row: (row * 2).sin())(x), backend="eager", fullgraph=True)
    x = torch.linspace(-1, 1, 24).reshape(2, 3, 4)
    for transform, graphs in (
        (lambda f: f, 1),
        (vmap, 2),
        (vmap, 2),
        (lambda f: vmap(f, randomness="same"), 3),
        (lambda f: grad(lambda x: f(x).sum()), 4),
        (lambda f: grad(lambda x: f(x).sum()), 4),
    ):
        torch.testing.assert_close(transform(inner)(x), transform(lambda x: (x * 2).sin())(x))
        assert framelift.stats()["graphs"] == graphs
    assert torch._C._functorch.peek_interpreter_stack() is None


def test_called_from_a_transform_with_a_backend_of_ones_own() -> None:
    """What a backend gives back tells whether transforms act on it: the graph, or something else."""
    given: list[str] = []

    def gives_graph(graph: Any, examples: Any) -> Any:
        given.append("graph")
        return graph.forward

    def gives_other(graph: Any, examples: Any) -> Any:
        given.append("other")
        return lambda *inputs: graph(*inputs)

    def fails(graph: Any, examples: Any) -> Any:
        given.append("fails")
        raise RuntimeError("cannot")

    x = torch.linspace(-1, 1, 24).reshape(2, 3, 4)
    for backend in (gives_graph, gives_other, fails):
        framelift.reset()
        inner = framelift.compile(lambda x: vmap(lambda row: (row * 2).sin())(x), backend=backend)
        for _ in range(3):
            torch.testing.assert_close(vmap(inner)(x), (x * 2).sin())
        assert framelift.stats()["graphs"] == (backend is gives_graph)
    assert given == ["graph", "other", "fails"]


def test_tensor_that_outlives_its_transform() -> None:
    kept: list[torch.Tensor] = []

    def fn(x: torch.Tensor) -> torch.Tensor:
        def inner(row: torch.Tensor) -> torch.Tensor:
            kept.append(row * 2)
            return row

        return vmap(inner)(x)

    with pytest.raises(framelift.exc.Unsupported, match="function transform"):
        framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(2, 3))
    assert kept == []


@pytest.mark.parametrize("name", ["vmap in chunks", "vmap of grad", "hessian", "jvp"])
def test_with_symbolic_sizes(name: str) -> None:
    compiled = framelift.compile(PROGRAMS[name], backend="eager", fullgraph=True, dynamic=True)
    for size in (3, 4):
        x = torch.linspace(-1, 1, size * size).reshape(size, size)
        torch.testing.assert_close(compiled(x), PROGRAMS[name](x))


def test_under_a_level_of_forward_mode() -> None:
    forward_ad = torch.autograd.forward_ad
    framelift.reset()
    compiled = framelift.compile(lambda x: x.sin() * 2, backend="aot_eager")
    x = torch.ones(3)
    compiled(x)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones(3))
        torch.testing.assert_close(forward_ad.unpack_dual(compiled(dual)).tangent, x.cos() * 2)
    compiled(x)
    assert framelift.stats()["graphs"] == 1
    with pytest.raises(framelift.exc.Unsupported), forward_ad.dual_level():
        framelift.compile(lambda x: x.sin(), backend="aot_eager", fullgraph=True)(x)


class _Picked(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, index):
        return torch.ops.aten.index(x, [index])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def test_a_function_with_a_generated_rule_inside_vmap() -> None:
    x = torch.arange(6.0)

    def f(indices):
        return vmap(lambda index: _Picked.apply(x, index) * 2)(indices)

    check(f, torch.tensor([3, 1, 2]))

    def tracked(x, indices):
        return vmap(lambda index: _Picked.apply(x, index))(indices)

    check(tracked, x.clone().requires_grad_(), torch.tensor([3, 1]), graphs=None, breaks=None)


def test_branches_of_a_vmap_that_change_something() -> None:
    seen: list[int] = []

    def noted(row: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        return row.sin()

    fast = framelift.compile(
        lambda x: vmap(lambda row: torch.cond(row.sum() > 0, noted, torch.cos, (row,)))(x), backend="eager"
    )
    with pytest.raises(framelift.exc.UncapturedHigherOrderOpError):
        fast(W)
    assert not seen
