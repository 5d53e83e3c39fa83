"""Kernels of attention and devices chosen inside, quantized tensors, operations that only decompositions understand,
autograd functions made inside.
"""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import framelift
from support import check


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_kernels_of_attention(backend: str) -> None:
    before = torch._C._get_math_sdp_enabled(), torch._C._get_flash_sdp_enabled(), torch._C._get_sdp_priority_order()
    seen = []

    def f(q, k, v):
        with sdpa_kernel(SDPBackend.MATH):
            a = F.scaled_dot_product_attention(q, k, v)
            with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
                b = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return a, b, F.scaled_dot_product_attention(k, q, v)

    def reported(graph, examples):
        seen.extend(node.target.__name__ for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    q, k, v = torch.rand(3, 2, 2, 5, 8)
    torch.testing.assert_close(framelift.compile(f, backend=backend, fullgraph=True)(q, k, v), f(q, k, v))
    framelift.compile(f, backend=reported, fullgraph=True)(q, k, v)
    chosen = [name for name in seen if name in ("choose_kernels", "scaled_dot_product_attention")]
    assert chosen == [
        "choose_kernels",
        "scaled_dot_product_attention",
        "choose_kernels",
        "choose_kernels",
        "scaled_dot_product_attention",
        "choose_kernels",
        "scaled_dot_product_attention",
    ]
    assert before == (
        torch._C._get_math_sdp_enabled(),
        torch._C._get_flash_sdp_enabled(),
        torch._C._get_sdp_priority_order(),
    )


def test_a_choice_that_stays_is_plain_pythons() -> None:
    def f(q):
        torch._C._set_sdp_use_math(False)
        return q + 1

    try:
        torch.testing.assert_close(framelift.compile(f, backend="eager")(torch.ones(2)), torch.full((2,), 2.0))
        assert not torch._C._get_math_sdp_enabled()
    finally:
        torch._C._set_sdp_use_math(True)


def test_members_of_torchs_enumerations() -> None:
    def f(x, kind):
        return x + int(kind) if kind in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION) else x

    check(f, torch.ones(2), SDPBackend.FLASH_ATTENTION)
    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    x = torch.ones(2)
    for kind in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH):
        assert torch.equal(compiled(x, kind), f(x, kind))


def test_what_only_decompositions_understand() -> None:
    def f(x):
        window = torch.hann_window(8)
        return torch.istft(
            torch.stft(x, 8, hop_length=4, window=window, return_complex=True), 8, hop_length=4, window=window
        )

    check(f, torch.rand(2, 64))


MODEL = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())


def test_deep_copies() -> None:
    def tensors(x):
        d = copy.deepcopy({"a": x, "b": [x]})
        d["a"].add_(1)
        return d, x * 2

    def module(x):
        made = copy.deepcopy(MODEL)
        with torch.no_grad():
            made[0].weight.zero_()
        return made(x).detach()

    check(tensors, torch.rand(2, 3))
    check(module, torch.rand(2, 3))

    def with_attributes(x):
        return copy.deepcopy(x).note

    x = torch.rand(2)
    x.note = 3
    assert framelift.compile(with_attributes, backend="eager")(x) == 3


def test_random_numbers_that_decide_nothing() -> None:
    """As layers are dropped while training, with the probability 0."""

    def f(x, p):
        return x if torch.rand([]) < p else x * torch.rand(())

    def g(x, p):
        return x if torch.rand_like(x[0]) >= p else x * 2

    for fn in (f, g):
        for p in (0.0, 1.0, 0, -1):
            check(fn, torch.ones(2), p)
    check(f, torch.ones(2), 0.5, graphs=None, breaks=None)


def test_operations_that_look_at_values_are_opened() -> None:
    """torch.nn.functional's own Python is captured where it cannot be one node."""
    x, y, variance = torch.rand(3, 4), torch.rand(3, 4), torch.rand(3, 4)
    check(lambda a, b, v: F.gaussian_nll_loss(a, b, v), x, y, variance)
    check(
        lambda a, b, v: F.triplet_margin_with_distance_loss(
            a, b, v, distance_function=lambda p, q: (p - q).abs().sum(-1)
        ),
        x,
        y,
        variance,
    )
    with pytest.raises(ValueError, match="negative"):
        framelift.compile(F.gaussian_nll_loss, backend="eager")(x, y, -variance)


def test_a_device_for_a_block() -> None:
    def f(x: torch.Tensor) -> tuple[object, ...]:
        with torch.device("meta") as device:
            a = torch.ones(3)
            with torch.device("cpu"):
                b = torch.zeros(2)
        return x + 1, a.device, b, device, torch.ones(1)

    check(f, torch.rand(3))

    def breaks(x: torch.Tensor) -> tuple[object, ...]:
        with torch.device("meta"):
            a = torch.ones(3)
            framelift.graph_break()
            b = torch.ones(3)
        return x + 1, a.device, b.device, torch.ones(1)

    compiled = framelift.compile(breaks, backend="eager")
    for _ in range(2):
        assert compiled(torch.zeros(1))[1:3] == (torch.device("meta"), torch.device("meta"))
        assert torch.ones(1).device.type == "cpu"


def test_quantized_tensors_are_plain_pythons() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.quantize_per_tensor(x * 2, 0.1, 0, torch.qint8).dequantize() + 1

    x = torch.rand(4)
    torch.testing.assert_close(framelift.compile(f, backend="eager")(x), f(x))
    with pytest.raises(framelift.exc.Unsupported, match="quantized"):
        framelift.compile(f, backend="eager", fullgraph=True)(x)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_hooks_on_saved_tensors_around_a_call(backend: str) -> None:
    calls: list[str] = []

    def pack(t: torch.Tensor) -> torch.Tensor:
        calls.append("pack")
        return t.half()

    def unpack(t: torch.Tensor) -> torch.Tensor:
        calls.append("unpack")
        return t.float()

    def f(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).sin()

    framelift.reset()
    compiled = framelift.compile(f, backend=backend, fullgraph=True)
    x = torch.rand(3, requires_grad=True)
    found = []
    for run in (f, compiled, compiled):
        calls.clear()
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            out = run(x)
        found.append((*torch.autograd.grad(out.sum(), x), calls.count("pack"), calls.count("unpack")))
    torch.testing.assert_close(found[1:], [found[0]] * 2)
    assert framelift.stats()["graphs"] == 1


def test_determinism_is_switched_inside() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, bool, bool]:
        torch.use_deterministic_algorithms(True, warn_only=True)
        found = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        torch.use_deterministic_algorithms(False)
        return (x + 1, *found)

    def left(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch.use_deterministic_algorithms(True)
        return y

    def around(x: torch.Tensor) -> torch.Tensor:
        torch.use_deterministic_algorithms(True)
        y = x.cumsum(0)
        torch.use_deterministic_algorithms(False)
        return y

    check(f, torch.ones(3))
    try:
        check(left, torch.ones(3), calls=1)
    finally:
        torch.use_deterministic_algorithms(False)
    check(around, torch.ones(3))


# ---- histories that are asked for ------------------------------------------------------------------------------------


def _who_has_a_history(x):
    y = x * 2
    return (
        [t.grad_fn is None for t in (x, y, y.detach(), x * 3)],
        y.grad_fn is not None and y.exp(),
        y.retains_grad,
        getattr(y, "grad_fn", None) is y.grad_fn,
    )


@pytest.mark.parametrize("grad", [False, True])
def test_whether_there_is_a_history_is_known(grad):
    x = torch.ones(3, requires_grad=grad)
    fast = framelift.compile(_who_has_a_history, backend="eager", fullgraph=True)
    got, want = fast(x), _who_has_a_history(x)
    assert got[0] == want[0] and got[2:] == want[2:] and (torch.equal(got[1], want[1]) if grad else got[1] is want[1])


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: (x * 2).grad_fn is (x * 3).grad_fn,
        lambda x: [t.grad_fn for t in (x * 2).unbind()][0] is None,
        lambda x: type((x * 2).grad_fn).__name__,
        lambda x: isinstance((x * 2).grad_fn, torch.autograd.graph.Node),
        lambda x: bool((x * 2).grad_fn),
        lambda x: (x * 2).grad_fn in [None],
        lambda x: (x * 2).grad_fn.name(),
        lambda x: len({(x * 2).grad_fn: 1}),
    ],
    ids=range(8),
)
def test_which_history_it_is_is_plain_pythons(fn):
    x = torch.ones(3, requires_grad=True)
    assert framelift.compile(fn, backend="eager")(x) == fn(x)


def test_a_history_is_another_one_after_a_change_in_place():
    def f(x):
        y = x * 2
        before = y.grad_fn
        y.add_(1)
        return before is y.grad_fn, y

    got, want = framelift.compile(f, backend="eager")(x := torch.ones(3, requires_grad=True)), f(x)
    assert got[0] is want[0] is False and torch.equal(got[1], want[1])
