"""Higher-order operators.

Bodies become graphs of their own; what cannot be captured is an error, never a silent fallback.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import framelift
from framelift.exc import UncapturedHigherOrderOpError

while_loop = torch._higher_order_ops.while_loop
wrap = importlib.import_module("torch._higher_order_ops.wrap").wrap
map_ = importlib.import_module("torch._higher_order_ops.map").map
scan = importlib.import_module("torch._higher_order_ops.scan").scan
associative_scan = importlib.import_module("torch._higher_order_ops.associative_scan").associative_scan
W = torch.linspace(-1, 1, 9).reshape(3, 3).requires_grad_()


@torch.compiler.nested_compile_region
def region(x: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    y = x.sin() * W
    return y, {"twice": y * 2}


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.inner, x, use_reentrant=False).relu()


NET = Net()
#: name -> (program, the same in plain Python)
PROGRAMS: dict[str, tuple[Callable[[torch.Tensor], Any], Callable[[torch.Tensor], Any]]] = {
    "cond": (
        lambda x: torch.cond(
            x.sum() > 0, lambda a, b: {"r": (a * W, b[0] * 2)}, lambda a, b: {"r": (a - 1, b[0] + 1)}, (x, (x + 1,))
        ),
        lambda x: {"r": (x * W, (x + 1) * 2)} if x.sum() > 0 else {"r": (x - 1, x + 2)},
    ),
    "cond decided while capturing": (
        lambda x: torch.cond(x.dim() == 2, lambda a: a * 2, lambda a: a, (x,)),
        lambda x: x * 2,
    ),
    "operations in place in a body of a body": (
        lambda x: torch.cond(
            x.sum() > 0,
            lambda a: map_(lambda b: (b + 1).mul_(W[0]), a).cos_(),
            lambda a: torch.cond(a.max() > 5, lambda b: b.sin().add_(1), lambda b: b + W, (a,)).mul_(2),
            (x,),
        ),
        lambda x: ((x + 1) * W[0]).cos() if x.sum() > 0 else (x.sin() + 1 if x.max() > 5 else x + W) * 2,
    ),
    "cond in cond": (
        lambda x: torch.cond(
            x.sum() > 0,
            lambda a: torch.cond(a.max() > 5, lambda b: b * W, lambda b: b + W, (a,)),
            lambda a: a * 3,
            (x,),
        ),
        lambda x: (x * W if x.max() > 5 else x + W) if x.sum() > 0 else x * 3,
    ),
    "while_loop": (
        lambda x: while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2 + x.detach()), (torch.tensor(0), x * 1)),
        lambda x: _loop(x),
    ),
    "map": (
        lambda x: map_(lambda row, k: row.sin() * k + W, x, x + 1),
        lambda x: torch.stack([row.sin() * (x + 1) + W for row in x]),
    ),
    "scan": (lambda x: scan(lambda c, row: (c + row, c * row), x[0], x, dim=0), lambda x: _scan(x)),
    "associative_scan": (
        lambda x: associative_scan(lambda a, b: a * b, x, dim=0, combine_mode="generic"),
        lambda x: x.cumprod(0),
    ),
    "wrap": (lambda x: wrap(lambda a, k: {"y": a * k + W}, x, 3), lambda x: {"y": x * 3 + W}),
    "checkpoint": (
        lambda x: checkpoint(lambda a, b: (a.sin() * W, b + a), x, x * 2, use_reentrant=False),
        lambda x: (x.sin() * W, x * 3),
    ),
    "checkpoint of a module": (lambda x: NET(x), lambda x: NET.inner(x).relu()),
    "reentrant checkpoint": (
        lambda x: checkpoint(lambda a: (a @ W).sin(), x, use_reentrant=True),
        lambda x: (x @ W).sin(),
    ),
    "nested region": (lambda x: (region(x)[1]["twice"], region(x + 1)), lambda x: ((x.sin() * W) * 2, _region(x + 1))),
}


def _loop(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    a = x * 1
    for _ in range(3):
        a = a * 2 + x.detach()
    return torch.tensor(3), a


def _scan(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    carry, outs = x[0], []
    for row in x:
        outs.append(carry * row)
        carry = carry + row
    return carry, torch.stack(outs)


def _region(x: torch.Tensor) -> Any:
    y = x.sin() * W
    return y, {"twice": y * 2}


def _total(out: Any) -> torch.Tensor:
    leaves = torch.utils._pytree.tree_leaves(out)
    return sum((leaf.double() * (i + 1)).sum() for i, leaf in enumerate(leaves))  # type: ignore[return-value]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_like_plain_python(name: str, backend: str) -> None:
    if name == "while_loop" and backend != "eager":
        pytest.skip("AOTAutograd differentiates loops only with a shape environment")
    captured, plain = PROGRAMS[name]
    framelift.reset()
    compiled = framelift.compile(captured, backend=backend, fullgraph=True)
    for call in range(2):
        rows = []
        for run in (plain, compiled):
            W.grad = None
            NET.zero_grad()
            x = (torch.linspace(-2, 3, 9) * (-1) ** call).reshape(3, 3).requires_grad_()
            out = run(x)
            _total(out).backward()
            rows.append((out, x.grad, [p.grad for p in NET.parameters() if p.grad is not None]))
        torch.testing.assert_close(rows[1], rows[0])
    assert framelift.stats()["graphs"] == 1 and framelift.stats()["captures"] == 1


def test_random_numbers_are_drawn_again_in_the_recomputation() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda a: torch.nn.functional.dropout(a * W, 0.5).sin(), x, use_reentrant=False)

    rows = []
    for run in (fn, framelift.compile(fn, backend="eager", fullgraph=True)):
        torch.manual_seed(0)
        x = torch.ones(3, 3, requires_grad=True)
        out = run(x)
        out.sum().backward()
        rows.append((out, x.grad))
    torch.testing.assert_close(rows[1], rows[0])


def test_nothing_to_recompute_is_captured_in_line() -> None:
    graphs = []

    def keep(gm: Any, _inputs: Any) -> Any:
        graphs.append(gm)
        return gm

    framelift.compile(lambda x: checkpoint(lambda a: a.sin(), x, use_reentrant=False), backend=keep, fullgraph=True)(
        torch.ones(2)
    )
    assert [n.op for n in graphs[0].graph.nodes] == ["placeholder", "call_method", "output"]


SEEN: list[int] = []


def _appends(x: torch.Tensor) -> torch.Tensor:
    SEEN.append(1)
    return x + 1


def _with_inner_list(x: torch.Tensor) -> torch.Tensor:
    rows: list[int] = []

    def true_fn(a: torch.Tensor) -> torch.Tensor:
        rows.append(1)
        return a * 2

    return torch.cond(x.sum() > 0, true_fn, lambda a: a + 1, (x,)) * len(rows)


def _nonlocal(x: torch.Tensor) -> torch.Tensor:
    count = 0

    def true_fn(a: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        return a * 2

    return torch.cond(x.sum() > 0, true_fn, lambda a: a + 1, (x,)) * count


REFUSED: dict[str, Callable[[torch.Tensor], Any]] = {
    "appends to a global": lambda x: torch.cond(x.sum() > 0, _appends, lambda a: a - 1, (x,)),
    "appends to a list made inside": _with_inner_list,
    "writes a variable of the function": _nonlocal,
    "writes its operand": lambda x: torch.cond(x.sum() > 0, lambda a: a.add_(1) * 2, lambda a: a - 1, (x,)),
    "returns its operand": lambda x: torch.cond(x.sum() > 0, lambda a: a, lambda a: a - 1, (x,)),
    "different shapes": lambda x: torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a.sum(), (x,)),
    "different structures": lambda x: torch.cond(x.sum() > 0, lambda a: (a + 1,), lambda a: a * 2, (x,)),
    "depends on data": lambda x: torch.cond(x.sum() > 0, lambda a: a + a.sum().item(), lambda a: a * 2, (x,)),
    "raises": lambda x: torch.cond(x.sum() > 0, lambda a: 1 / 0, lambda a: a * 2, (x,)),
    "another dtype": lambda x: while_loop(lambda a: a.sum() < 3, lambda a: (a.double() + 1,), (x,)),
    "a number": lambda x: map_(lambda row: 3, x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_control_flow_never_falls_back(name: str) -> None:
    with pytest.raises(UncapturedHigherOrderOpError):
        framelift.compile(REFUSED[name], backend="eager")(torch.ones(3, 3))
    assert SEEN == []


def test_a_region_with_an_effect_runs_plainly() -> None:
    log: list[int] = []

    def inner(x: torch.Tensor) -> torch.Tensor:
        log.append(1)
        return x * W

    x = torch.ones(3, 3, requires_grad=True)
    out = framelift.compile(lambda x: checkpoint(inner, x, use_reentrant=False), backend="eager")(x)
    assert log == [1]
    out.sum().backward()
    assert log == [1, 1]


def test_a_tensor_that_leaves_its_body_unseen() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        class Keeper:
            def __call__(self, a: torch.Tensor) -> torch.Tensor:
                globals()["KEPT"] = a * 2
                return a + 1

        return wrap(Keeper(), x)

    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(3))
    assert "KEPT" not in globals()


def test_cond_on_a_symbolic_size_is_decided_while_capturing() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.size(0) > 3, lambda a: a * 2, lambda a: a + 1, (x,))

    compiled = framelift.compile(fn, backend="eager", fullgraph=True, dynamic=True)
    for size in (2, 4, 5, 3):
        x = torch.ones(size)
        torch.testing.assert_close(compiled(x), x * 2 if size > 3 else x + 1)


def test_flex_attention() -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 16, 8) for _ in range(3))
    bias = torch.randn(2)

    def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return s + (i - j) * 0.1 + bias[h]

    mask = create_block_mask(lambda b, h, i, j: i >= j, 1, None, 16, 16, device="cpu")
    rows, columns = torch.arange(16)[:, None], torch.arange(16)[None]
    plain = q @ k.transpose(-1, -2) / 8**0.5 + (rows - columns) * 0.1 + bias[None, :, None, None]
    for block_mask, scores in ((None, plain), (mask, plain.masked_fill(rows < columns, float("-inf")))):
        framelift.reset()
        compiled = framelift.compile(
            lambda q, k, v: flex_attention(q, k, v, score_mod=score, block_mask=block_mask),  # noqa: B023
            backend="aot_eager",
            fullgraph=True,
        )
        torch.testing.assert_close(compiled(q, k, v), scores.softmax(-1) @ v, atol=1e-4, rtol=1e-4)
        assert framelift.stats()["graphs"] == 1


def _keep_products(ctx, operator, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if operator is torch.ops.aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE


def _selective_contexts():
    return create_selective_checkpoint_contexts(_keep_products)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_selective_checkpoints(backend: str) -> None:
    w = torch.rand(3, 3, requires_grad=True)
    by_list = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])

    def f(x):
        a = checkpoint(lambda x: (x @ w).sin() @ w, x, use_reentrant=False, context_fn=_selective_contexts)
        return checkpoint(lambda a: torch.dropout(a.cos(), 0.5, True), a, use_reentrant=False, context_fn=by_list).sum()

    x = torch.rand(3, 3, requires_grad=True)
    found = []
    for run in (f, framelift.compile(f, backend=backend, fullgraph=True)):
        torch.manual_seed(0)
        found.append(torch.autograd.grad(run(x), (x, w)))
    torch.testing.assert_close(found[1], found[0])


def test_contexts_of_the_programs_own_around_a_checkpoint() -> None:
    def f(x):
        return checkpoint(
            lambda x: x.sin(), x, use_reentrant=False, context_fn=lambda: (torch.autocast("cpu"), torch.autocast("cpu"))
        )

    with pytest.raises(framelift.exc.Unsupported, match="context_fn"):
        framelift.compile(f, backend="eager", fullgraph=True)(torch.rand(3, requires_grad=True))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_operators_that_mean_their_function(backend: str) -> None:
    """What torch derives from its base class of such operators is recorded whole, keywords for the backend included."""
    from torch._higher_order_ops import InvokeQuant, invoke_quant_packed

    marked = InvokeQuant()

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        around = x + 1

        def body(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor]:
            return (a.sin() * b + around,)

        return marked(body, x, y, scheme="nf4")[0] * invoke_quant_packed(lambda a: (a.cos(),), x)[0]

    def plain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x.sin() * y + x + 1) * x.cos()

    x, y = torch.rand(4), torch.rand(4)
    assert torch.allclose(framelift.compile(f, backend=backend, fullgraph=True)(x, y), plain(x, y))
    if backend == "inductor":
        return  # its own lowering of these operators has no backward
    sides = [x.clone().requires_grad_() for _ in range(2)]
    framelift.compile(f, backend=backend, fullgraph=True)(sides[0], y).sum().backward()
    plain(sides[1], y).sum().backward()
    torch.testing.assert_close(sides[0].grad, sides[1].grad)


def test_an_operator_that_means_its_function_returns_nothing_it_is_given() -> None:
    from torch._higher_order_ops import invoke_quant_packed

    def f(x: torch.Tensor) -> torch.Tensor:
        return invoke_quant_packed(lambda a: (a.view(-1),), x)[0] + 1

    with pytest.raises(framelift.exc.Unsupported, match="shares memory"):
        framelift.compile(f, backend="eager", fullgraph=True)(torch.rand(2, 2))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_operators_that_are_a_call_of_their_function(backend: str) -> None:
    from torch._higher_order_ops.hints_wrap import hints_wrapper
    from torch._higher_order_ops.strict_mode import strict_mode

    def f(x: torch.Tensor) -> Any:
        around = x * 2
        one, other = strict_mode(lambda a: (a + around, {"k": a.sin()}), (x,))
        return one, other, hints_wrapper(lambda a, n: a * n - around, (x, 3), {}, hints={"level": 1, "name": "n"})

    x = torch.rand(3, 2)
    compiled = framelift.compile(f, backend=backend, fullgraph=True)
    for size in (3, 3, 5, 7):
        x = torch.rand(size, 2)
        torch.testing.assert_close(compiled(x), (x * 3, {"k": x.sin()}, x * 3 - x * 2))
    assert framelift.stats()["captures"] == 2


def test_hints_of_another_kind_raise_as_torch_does() -> None:
    from torch._higher_order_ops.hints_wrap import hints_wrapper

    def f(x: torch.Tensor) -> Any:
        return hints_wrapper(lambda a: a + 1, (x,), {}, hints={"level": [1]}) * 2

    with pytest.raises(RuntimeError, match="hints must be a dict containing int"):
        framelift.compile(f, backend="eager")(torch.ones(2))


@pytest.mark.skipif("print" not in torch._ops._higher_order_ops, reason="a torch without this operator")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_text_printed_by_the_graph(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    show = torch._higher_order_ops.print

    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        y = x + n
        show("first {} of {size}", y.sum(), size=x.shape[0])
        for i in range(2):
            show("{}: {}", i, "text")
        return y * 2

    compiled = framelift.compile(f, backend=backend, fullgraph=True)
    for number in (1, 2, 3):
        x = torch.full((number,), 2.0)
        assert torch.equal(compiled(x, 4), f(x, 4))
        printed = capsys.readouterr().out.splitlines()
        assert printed[:3] == printed[3:] and len(printed) == 6


def test_operands_in_a_list_of_fx() -> None:
    """Exported graphs that are captured again hold such lists."""

    def f(pred: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        operands = torch.fx.immutable_collections.immutable_list([x, x + 1])
        return torch.cond(pred, lambda a, b: a * b, lambda a, b: a - b, operands)

    x = torch.rand(3)
    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.tensor(True), x), x * (x + 1))
