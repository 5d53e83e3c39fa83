"""torch.autograd.Function: forward and backward captured as graphs, equal to eager in values and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift

BACKENDS = ["eager", "aot_eager"]


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
        ctx.scale = scale
        ctx.save_for_backward(x)
        return x.sin() * scale

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return grad * x.cos() * ctx.scale * 3, None


def grads_agree(
    fn: Any, *shapes: tuple[int, ...], backend: str = "eager", graphs: int = 1, calls: int = 2, change: Any = None
) -> Any:
    """Values and gradients of `fn` on fresh leaves, plain and captured."""
    framelift.reset()
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    before = framelift.stats()["graphs"]
    for call in range(calls):
        if call and change is not None:
            change(call)
        torch.manual_seed(call)
        base = [torch.randn(shape) for shape in shapes]
        rows = []
        for run in (fn, compiled):
            leaves = [b.clone().requires_grad_() for b in base]
            out = run(*leaves)
            outs = out if isinstance(out, tuple) else (out,)
            tracked = [o for o in outs if isinstance(o, torch.Tensor) and o.requires_grad]
            sum((o * (i + 1)).sum() for i, o in enumerate(tracked)).backward()
            rows.append((outs, [leaf.grad for leaf in leaves], [leaf.detach() for leaf in leaves]))
        for want, got in zip(*rows):
            torch.testing.assert_close(got, want)
        assert [type(o) for o in rows[0][0]] == [type(o) for o in rows[1][0]]
        assert [getattr(o, "requires_grad", None) for o in rows[0][0]] == [
            getattr(o, "requires_grad", None) for o in rows[1][0]
        ]
    assert framelift.stats()["graphs"] - before == graphs


@pytest.mark.parametrize("backend", BACKENDS)
def test_custom_backward_is_used(backend: str) -> None:
    grads_agree(lambda x: Scaled.apply(x * 2, 3.0) + 1, (3, 4), backend=backend)


def test_inductor() -> None:
    grads_agree(lambda x: Scaled.apply(x * 2, 3.0) + 1, (3, 4), backend="inductor")


def test_without_grad_the_forward_is_inlined() -> None:
    compiled = framelift.compile(lambda x: Scaled.apply(x, 2.0), backend="eager", fullgraph=True)
    x = torch.randn(3)
    torch.testing.assert_close(compiled(x), x.sin() * 2)
    y = torch.randn(3, requires_grad=True)
    with torch.no_grad():
        out = compiled(y)
    assert not out.requires_grad
    torch.testing.assert_close(out, y.detach().sin() * 2)


FACTOR = 2.0


class ReadsGlobal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * FACTOR


def test_what_the_backward_reads_is_read_when_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, rows = framelift.compile(lambda x: ReadsGlobal.apply(x * 3).sum(), backend="eager"), []
    for factor in (5.0, 7.0):
        monkeypatch.setattr("test_autograd_function.FACTOR", 2.0)
        x = torch.ones(3, requires_grad=True)
        out = compiled(x)
        monkeypatch.setattr("test_autograd_function.FACTOR", factor)
        out.backward()
        assert x.grad is not None
        rows.append(x.grad.tolist())
    assert rows == [[15.0] * 3, [21.0] * 3]


class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor, flag: bool) -> Any:
        big = x.exp()
        ctx.big = big  # an intermediate, kept without save_for_backward
        ctx.save_for_backward(y, x + 1)
        where = x.argmax()
        ctx.mark_non_differentiable(where)
        return big * y, where, 7, x - y

    @staticmethod
    def backward(ctx: Any, g: Any, _where: Any, _seven: Any, g2: Any) -> Any:
        y, x1 = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, True, False)
        return g * ctx.big * y + g2 * x1, g * ctx.big - g2, None


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_outputs(backend: str) -> None:
    grads_agree(lambda x, y: Pair.apply(x, y.tanh(), True), (3, 4), (3, 4), backend=backend)


class WithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor, w: torch.Tensor, power: int = 2) -> torch.Tensor:
        return (x @ w) ** power

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, w, power = inputs
        ctx.save_for_backward(x, w)
        ctx.power = power

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        x, w = ctx.saved_tensors
        g = g * ctx.power * (x @ w) ** (ctx.power - 1)
        return g @ w.T, x.T @ g, None


@pytest.mark.parametrize("backend", BACKENDS)
def test_setup_context_and_defaults(backend: str) -> None:
    grads_agree(lambda x, w: WithSetup.apply(x, w) + WithSetup.apply(x, w, 3), (3, 4), (4, 2), backend=backend)


class Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * 10


@pytest.mark.parametrize("backend", BACKENDS)
def test_input_returned(backend: str) -> None:
    grads_agree(lambda x: Identity.apply(x * 2) * 3, (3,), backend=backend)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_dirty_argument(backend: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 3
        z = Doubled.apply(y)
        assert z is y
        return z + y

    grads_agree(fn, (3,), backend=backend)


WEIGHT = torch.randn(3, requires_grad=True)


def test_closure_tensors_get_no_gradient() -> None:
    class Closed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.weight = WEIGHT
            return x * WEIGHT

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return g * ctx.weight * 2

    grads_agree(lambda x: Closed.apply(x), (3,))
    assert WEIGHT.grad is None


CALLS: list[int] = []


class Counting(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        CALLS.append(1)
        return g * 2


def test_backward_with_an_effect_is_refused() -> None:
    CALLS.clear()
    x = torch.randn(3, requires_grad=True)
    with pytest.raises(framelift.exc.Unsupported, match="changes something outside"):
        framelift.compile(lambda x: Counting.apply(x), backend="eager", fullgraph=True)(x)
    assert CALLS == []
    framelift.compile(lambda x: Counting.apply(x), backend="eager")(x).sum().backward()
    assert CALLS == [1]


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 2 * g * x


def test_once_differentiable() -> None:
    grads_agree(lambda x: Once.apply(x), (3,))
    x = torch.randn(3, requires_grad=True)
    y = framelift.compile(lambda x: Once.apply(x), backend="eager", fullgraph=True)(x)
    (g,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_tensor_given_twice_and_nested() -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(a, b)
            return Scaled.apply(a, 2.0) * b

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            a, b = ctx.saved_tensors
            return g * b * 7, g * a * 11

    grads_agree(lambda x: Product.apply(x, x) + Product.apply(x, x * 2), (3,))


class Optional(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx: Any, g1: Any, g2: Any) -> Any:
        x, y = ctx.saved_tensors
        if g1 is None:
            return g2, None
        if g2 is None:
            return g1 * y, g1 * x
        return g1 * y + g2, g1 * x + g2


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_that_may_be_none(backend: str) -> None:
    grads_agree(lambda x, y: Optional.apply(x, y), (3,), (3,), backend=backend)
    grads_agree(lambda x, y: Optional.apply(x, y)[0], (3,), (3,), backend=backend)
    grads_agree(lambda x, y: Optional.apply(x, y)[1], (3,), (3,), backend=backend)


def test_too_few_gradients() -> None:
    class Few(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, flag: bool) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return g

    out = framelift.compile(lambda x: Few.apply(x, True), backend="eager", fullgraph=True)(
        torch.randn(3, requires_grad=True)
    )
    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        out.sum().backward()


def test_a_compiled_backward_reads_its_context() -> None:
    class Compiled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
            ctx.save_for_backward(x, x * 2)
            ctx.scale = scale
            return x.sin()

        @staticmethod
        @framelift.compile(backend="eager", fullgraph=True)
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            x, twice = ctx.saved_tensors
            assert ctx.needs_input_grad == (True, False)
            return grad * x.cos() * twice * ctx.scale, None

    framelift.reset()
    for scale, graphs in ((3.0, 1), (3.0, 1), (4.0, 2)):
        x = torch.randn(3, requires_grad=True)
        Compiled.apply(x, scale).sum().backward()
        torch.testing.assert_close(x.grad, (x.cos() * x * 2 * scale).detach())
        assert framelift.stats()["graphs"] == graphs


def test_allowed_in_graph_it_is_one_node() -> None:
    @framelift.allow_in_graph
    class Allowed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            CALLS.append(len(CALLS))
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return g * 7

    CALLS.clear()
    grads_agree(lambda x: Allowed.apply(x) + 1, (3,))


class WithTangents(torch.autograd.Function):
    """Both ways of differentiating, each with a factor that tells which one was asked."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        ctx.x = x
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return grad * x.cos() * 3

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor) -> torch.Tensor:
        return tangent * ctx.x.cos() * 5


class WithOwnTangents(WithTangents):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.x = x
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad * ctx.x.cos() * 3


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cls", [WithTangents, WithOwnTangents])
@pytest.mark.parametrize("tracked", [False, True])
def test_tangents_are_those_of_jvp(cls: Any, backend: str, tracked: bool) -> None:
    forward_ad = torch.autograd.forward_ad
    grads_agree(lambda x: cls.apply(x) * 2, (3,), backend=backend)
    compiled = framelift.compile(lambda x: cls.apply(x) * 2, backend=backend)
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=tracked)
    for _ in range(2):
        assert torch.equal(compiled(x), x.sin() * 2)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, torch.ones(3))
            torch.testing.assert_close(forward_ad.unpack_dual(compiled(dual)).tangent, x.cos() * 10)


class InNumpy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.tensor(x.numpy() ** 2)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return grad * torch.from_numpy(x.numpy() * 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_numpy_where_gradients_are_off(backend: str) -> None:
    grads_agree(lambda x: InNumpy.apply(x) * 2, (3,), backend=backend)

    def used_outside(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            array = x.numpy()
        return x * 2 + torch.from_numpy(array) * 3

    grads_agree(used_outside, (3,), backend=backend)
