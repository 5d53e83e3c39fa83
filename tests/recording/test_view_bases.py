"""`Tensor._base` and `Tensor.output_nr` in captured code: identities and numbers of plain torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from support import check


def _of_input(x):
    return x + (1 if x._base is None else x._base.sum()), x.output_nr


def _of_views(x):
    first = x[1:]
    second = first[1:]
    return second + 1, first._base is x, second._base is first, second._base is x, first._base is x._base


def _of_views_of_results(x):
    result = x * 2
    first = result[1:]
    return first[1:] + 1, first[1:]._base is result, result._base is None, first._base is x


def _of_aliases(x):
    return x + 1, x.detach()._base is None, x.data._base is None, x.view(torch.int32)._base is None


def _of_several(x):
    first, second = x.split(2)
    rows = (x * 2).unbind(0)
    values, places = (x * 2).max(0, keepdim=True)
    return second * rows[1], second._base is x, [one.output_nr for one in (first, second, *rows, values, places)]


def _made() -> list[torch.Tensor]:
    leaf = torch.arange(8.0).requires_grad_()
    return [torch.rand(4), torch.rand(8)[2:6], torch.rand(4).requires_grad_(), (leaf * 2).split(4)[1]]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("f", [_of_input, _of_views, _of_views_of_results, _of_aliases, _of_several])
def test_bases_and_places(f: Callable[..., Any], backend: str) -> None:
    compiled = framelift.compile(f, backend=backend, fullgraph=True)
    for x in (*_made(), *_made()):
        (tensor, *rest), (expected, *others) = compiled(x), f(x)
        assert torch.equal(tensor, expected) and rest == others
    assert len(compiled.entries) <= 4  # a kind of input each


def test_the_base_is_the_callers_tensor() -> None:
    def f(x):
        x._base.add_(1)
        return x * 2, x._base

    base = torch.zeros(4)
    result, found = framelift.compile(f, backend="eager", fullgraph=True)(base[1:])
    assert found is base and torch.equal(base, torch.ones(4)) and torch.equal(result, torch.full((3,), 2.0))


def test_a_result_whose_base_is_nobodys() -> None:
    def f(x):
        return x + 1, torch.view_as_real(x.to(torch.complex64))._base is None

    check(f, torch.ones(3), graphs=None, breaks=None)


def test_private_names_of_gradients_and_storages() -> None:
    def f(x):
        result = x * 2
        return result, x._grad, result._grad_fn is not None, x._grad_fn is None, x.storage_type() is torch.FloatStorage

    check(f, torch.ones(3).requires_grad_())
