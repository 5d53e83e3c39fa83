"""Strides that captured code asks for.

The meta kernels that are believed lay results out as real kernels do, however the arguments lie.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F

import framelift
from support import check

_CASTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "pad": lambda t: F.pad(t, (1, 1)),
    "pad two": lambda t: F.pad(t, (1, 0, 0, 1)),
    "cut": lambda t: F.pad(t, (-1, 2), value=3.0),
    "to": lambda t: t.to(torch.float64),
    "to bool": lambda t: t.to(dtype=torch.bool),
    "to other": lambda t: t.to(torch.ones(2, dtype=torch.float16)),
    "to same": lambda t: t.to(torch.float32, copy=True),
    "type_as": lambda t: t.type_as(torch.ones(3, 2, dtype=torch.int64).t()),
}


_IN_ORDER: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "linear": lambda t: F.linear(t, torch.ones(t.shape[-1], 5).t()),
    "linear bias": lambda t: F.linear(t, torch.ones(5, t.shape[-1]), torch.ones(5)),
    "embedding": lambda t: F.embedding(t.long(), torch.rand(4, 2).t()),
    "layer_norm": lambda t: F.layer_norm(t, t.shape[-1:]),
    "mm": lambda t: t.reshape(-1, t.shape[-1]).t().mm(t.reshape(-1, t.shape[-1])),
    "bmm": lambda t: t.flatten(2).bmm(t.flatten(2).transpose(1, 2)) if t.ndim > 2 else torch.ones(1),
    "new": lambda t: t.new_full(t.shape, 2.0),
}


def _lying_oddly() -> Iterator[torch.Tensor]:
    for sizes in ((2, 3), (1, 4), (2, 3, 4), (3, 1, 2), (2, 3, 4, 5), (2, 1, 3, 1)):
        for order in itertools.permutations(range(len(sizes))):
            tensor = torch.rand(sizes).permute(order)
            yield from (
                tensor,
                tensor[::2],
                tensor.unsqueeze(1),
                tensor[:1].expand(4, *tensor.shape[1:]),
                tensor.narrow(-1, 0, 1),
            )


@pytest.mark.parametrize("name", _IN_ORDER)
def test_results_that_lie_in_order_whatever_is_given(name: str) -> None:
    for tensor in _lying_oddly():
        for grad in (False, True):
            result = _IN_ORDER[name](tensor.detach().requires_grad_(grad and name != "embedding"))
            assert result.stride() == torch.empty(result.shape).stride(), (tensor.shape, tensor.stride())


@pytest.mark.parametrize("name", _CASTS)
def test_meta_kernels_lay_out_as_real_ones(name: str) -> None:
    for tensor in _lying_oddly():
        on_meta = torch.empty_strided(tensor.shape, tensor.stride(), device="meta")
        with torch.device("meta"):
            answered = _CASTS[name](on_meta)
        real = _CASTS[name](tensor)
        assert (real.shape, real.stride()) == (answered.shape, answered.stride()), tensor.stride()


def test_strides_behind_casts_and_padding() -> None:
    def f(x, mask):
        odd = (mask != 0)[:, :, None].expand(-1, -1, 2).transpose(0, 1)
        like = odd.type_as(x).masked_fill(odd, 2.0)
        fresh = like.new_ones(like.size())
        padded = F.pad(x.transpose(0, 1), (0, 0, 1, 1), value=-1.0)
        return (
            like * 2,
            fresh,
            padded.as_strided((2, 2), padded.stride()[:2]),
            [t.stride() for t in (odd, like, fresh, padded, x.t().to(torch.bool))],
        )

    check(f, torch.rand(4, 3), torch.ones(3, 4), fullgraph=True)


def test_strides_behind_products_of_what_lies_oddly() -> None:
    def f(x, weight):
        odd = torch.einsum("ijk->kji", x * 2)[:, 1:]  # whose layout nobody knows
        y = F.linear(odd, weight)
        return (y if y[:, 0].is_contiguous() else y + 1), y.stride(), F.layer_norm(odd, odd.shape[-1:]).stride()

    check(f, torch.rand(4, 3, 2), torch.rand(5, 4), fullgraph=True)


def test_other_modes_of_padding_are_plain_pythons() -> None:
    def f(x):
        return x * F.pad(x.transpose(1, 2), (1, 1), mode="reflect").stride()[0]

    check(f, torch.rand(2, 3, 4), graphs=None, breaks=None)


def test_sizes_that_are_tensors() -> None:
    """As numbers where they are known, and a break where they are not.

    Never an error that plain Python does not have.
    """

    def known(x):
        half = torch.div(x.size(0), 2, rounding_mode="trunc")
        return x.as_strided(size=(half, 2), stride=(2, half * 0 + 1)) * 2, x.view(half, -1)

    def unknown(x, n):
        return x.as_strided(size=(n, 2), stride=(2, 1)) * 2

    check(known, torch.rand(8), fullgraph=True)
    compiled = framelift.compile(known, backend="eager", fullgraph=True)
    for size in (8, 10, 12):
        x = torch.rand(size)
        assert all(map(torch.equal, compiled(x), known(x)))
    check(unknown, torch.rand(8), torch.ones(300, dtype=torch.int64).cumsum(0)[2], graphs=None, breaks=None)


_BY_OFFSET = {
    "at the beginning": lambda x: x.as_strided((2, 2), (1, 2), 0),
    "further on": lambda x: x.as_strided((2, 2), (1, 2), 3),
    "by name": lambda x: torch.as_strided(x, size=(2, 2), stride=(1, 2), storage_offset=2),
    "its own": lambda x: x.as_strided((2, 2), (1, 2), None),
    "beyond": lambda x: x.as_strided((2,), (1,), 20),
    "of a result": lambda x: (x + 1).as_strided((2, 3), (3, 1), 1),
    "of a view": lambda x: x[1:].as_strided((2,), (1,), 1),
    "of a result's view": lambda x: (x + 1)[1:].as_strided((2,), (1,), storage_offset=7),
    "told": lambda x: x * x.storage_offset() + (x * 2)[1:].storage_offset(),
    "written": lambda x: x.as_strided((2, 2), (1, 2), 3).add_(1).sum() + x.sum(),
}


@pytest.mark.parametrize("name", _BY_OFFSET)
def test_as_strided_with_an_offset_in_the_storage(name) -> None:
    def program(x):
        return _BY_OFFSET[name](x)

    memory = torch.arange(24.0)
    layouts = [((4, 6), (6, 1), 0), ((4, 5), (5, 1), 4), ((3, 6), (6, 1), 6), ((4, 6), (1, 4), 0), ((4, 5), (6, 1), 1)]
    compiled = framelift.compile(program, backend="eager")
    for layout in (*layouts, *layouts):  # calls of one capture, and of others
        eager, captured = (memory.clone().as_strided(*layout) for _ in range(2))
        want, got = program(eager), compiled(captured)
        assert torch.equal(want, got) and torch.equal(eager, captured)
        assert (want.stride(), want.storage_offset()) == (got.stride(), got.storage_offset())
    if name in ("at the beginning", "further on", "by name", "of a result", "of a result's view", "told", "written"):
        framelift.compile(program, backend="eager", fullgraph=True)(torch.rand(4, 6))
