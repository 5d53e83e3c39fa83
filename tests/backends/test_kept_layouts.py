"""Operations in place on tensors whose layout is another than the order of their dimensions, with compilers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import framelift
from framelift.backends.kept_layouts import MOVING

INDEX, ROW = torch.zeros(2, 3, dtype=torch.long), torch.tensor([0, 1])


def _programs() -> dict[str, Callable[[torch.Tensor], Any]]:
    def scatter(y):
        return y.scatter_(0, INDEX, 3.0)

    return {
        "a result": lambda x: (scatter(y := x * 1), y, y + 1)[1:],
        "its storage": lambda x: (scatter(y := x * 1), y.as_strided((6,), (1,)))[1],
        "a view": lambda x: (y := x * 1, scatter(y).t().view(-1).mul_(2), y)[2],
        "an input": lambda x: (scatter(x.detach()), x.detach().t().view(-1) * 2)[1],
        "a view of a result": lambda x: (scatter((y := x.t() * 1).t()), y.view(-1), y)[1:],
        "sums": lambda x: (y := x * 1, y.cumsum_(0), y.as_strided((6,), (1,)), F.relu(y))[1:],
        "products": lambda x: (y := x * 1, y.cumprod_(1), y.t().view(-1))[1:],
        "a mask": lambda x: (y := x * 1, y.masked_fill_(x > 2, 0.0), y.as_strided((6,), (1,)))[1:],
        "matrices": lambda x: (y := x * 1, y.addmm_(x.detach(), torch.ones(3, 3)), y.t().view(-1))[1:],
        "elements": lambda x: (y := x * 1, y.index_add_(0, ROW, x.detach()), y.as_strided((6,), (1,)))[1:],
        "triangles": lambda x: (y := x * 1, y.tril_(), y.as_strided((6,), (1,)))[1:],
        "channels last": lambda x: (
            y := x.reshape(1, 2, 3, 1).contiguous(memory_format=torch.channels_last) * 1,
            y.masked_fill_(y > 2, 0.0),
            F.relu(y),
        ),
    }


def _described(value: Any, x: torch.Tensor, grad: bool) -> list[Any]:
    results = [one for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, torch.Tensor)]
    rows: list[Any] = [(one.stride(), one.detach().tolist()) for one in (*results, x)]
    if grad:
        total = sum(one.square().sum() for one in results)
        rows.append(torch.autograd.grad(total, x)[0].tolist() if total.requires_grad else None)
    return rows


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", _programs())
def test_as_in_eager_mode(name: str, backend: str, grad: bool) -> None:
    def made():
        return (torch.arange(6.0) / 2).view(3, 2).t().requires_grad_(grad)

    f = _programs()[name]
    x, again = made(), made()
    framelift.reset()
    compiled = framelift.compile(f, backend=backend, fullgraph=True)
    assert _described(compiled(again), again, grad) == _described(f(x), x, grad)
    assert framelift.stats()["graphs"] == 1


def test_sizes_that_change() -> None:
    def f(x):
        y = x * 1
        y.cumsum_(0)
        return y.as_strided((x.numel(),), (1,)), y

    framelift.reset()
    compiled = framelift.compile(f, backend="aot_eager", fullgraph=True)
    for size in (3, 4, 5):
        x = torch.arange(2.0 * size).view(size, 2).t()
        assert _described(compiled(x), x, False) == _described(f(x), x, False)
    assert framelift.stats()["captures"] == 2


def test_no_other_operation_moves_elements() -> None:
    """Each method of tensors that writes in place, with arguments that it takes."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    def made():
        return (torch.arange(6.0) / 8).view(3, 2).t()

    other, mask = torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool)
    tries: list[tuple[Any, ...]] = [(), (0.5,), (1,), (other,), (torch.tensor(0.5),), (mask, 0.5), (mask, other)]
    tries += [(0, INDEX, 0.5), (0, INDEX, other), (0, INDEX, other, "sum"), (0, ROW, other), (0, ROW, other, "prod")]
    tries += [(torch.ones(2, 4), torch.ones(4, 3)), (torch.ones(5, 2, 4), torch.ones(5, 4, 3)), (0,), (0, 1)]
    tries += [(2, 0, 1.0), (other, other), (torch.ones(2), torch.ones(3)), (0.1, 0.9), (other, 0.5), (ROW, other[0])]
    tries += [((ROW,), other), (0, ROW, 0.5), (other.t().contiguous().t(),)]
    moving, seen = set(), 0
    for name in [one for one in dir(torch.Tensor) if one.endswith("_") and not one.endswith("__")]:
        for arguments in tries:

            def written(x, name=name, arguments=arguments):
                y = x.clone()
                getattr(y, name)(*arguments)
                return y

            try:
                want = written(made())
                with FakeTensorMode(allow_non_fake_inputs=True) as mode:
                    got = torch.func.functionalize(written)(mode.from_tensor(made()))
            except Exception:  # noqa: BLE001  other arguments, or an operation that has no functional form
                continue
            seen += 1
            if want.shape == made().shape and want.stride() != got.stride():
                moving.add(name)
    moving -= {"resize_as_", "div_", "divide_"}  # another size; fakes alone, with a tensor of no dimension
    assert seen > 150 and moving <= MOVING, moving - MOVING
