"""Strides that captured code asks for: the meta kernels that are believed lay results out as real kernels do, however the arguments lie."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F

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


def _lying_oddly() -> Iterator[torch.Tensor]:
    for sizes in ((2, 3), (1, 4), (2, 3, 4), (3, 1, 2), (2, 3, 4, 5), (2, 1, 3, 1)):
        for order in itertools.permutations(range(len(sizes))):
            tensor = torch.rand(sizes).permute(order)
            yield from (tensor, tensor[::2], tensor.unsqueeze(1), tensor[:1].expand(4, *tensor.shape[1:]), tensor.narrow(-1, 0, 1))


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
        odd = (mask != 0)[:, :, None].transpose(0, 1)
        like = odd.type_as(x).masked_fill(odd, 2.0)
        fresh = like.new_ones(like.size())
        padded = F.pad(x.transpose(0, 1), (0, 0, 1, 1), value=-1.0)
        return like * 2, fresh, padded.as_strided((2, 2), padded.stride()[:2]), [t.stride() for t in (odd, like, fresh, padded, x.t().to(torch.bool))]

    check(f, torch.rand(4, 3), torch.ones(3, 4), fullgraph=True)


def test_other_modes_of_padding_break() -> None:
    def f(x):
        return x * F.pad(x.transpose(1, 2), (1, 1), mode="reflect").stride()[0]

    check(f, torch.rand(2, 3, 4), graphs=None, breaks=None)
