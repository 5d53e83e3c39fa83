"""Checks on what tensors hold remember the bytes for which they held: Python is asked again after every change."""

import pytest
import torch

import framelift
from framelift import _core


class Asked(_core.Remembered):
    """A check that holds of tensors whose sum is that of its first ones; `asked` counts."""

    def __init__(self) -> None:
        self.asked = 0
        self.total = None

    def holds(self, *tensors) -> bool:
        self.asked += 1
        total = sum(float(tensor.sum().real) for tensor in tensors)
        self.total = total if self.total is None else self.total
        return total == self.total


def test_equal_bytes_are_not_asked_again() -> None:
    check, one, two = Asked(), torch.tensor([1, 2]), torch.tensor([3])
    assert check(one, two) and check(one, two) and check(one.clone(), two.clone()) and check.asked == 1
    one[0] = 2
    assert not check(one, two) and not check(one, two) and check.asked == 3  # what does not hold is not remembered
    one[0] = 1
    assert check(one, two) and check.asked == 3
    one[0], two[0] = 0, 4
    assert check(one, two) and check(one, two) and check.asked == 4  # other bytes for which it holds
    assert check(two, one) and check.asked == 5
    assert not check(one) and check.asked == 6


_CHANGES = {
    "shape": lambda t: t.reshape(2, 2),
    "dtype": lambda t: t.view(torch.int32)[::2].clone(),
    "dtype of one size": lambda t: t.view(torch.uint64),
    "stride": lambda t: torch.stack([t, t], 1)[:, 0],
    "size one more": lambda t: t.unsqueeze(0),
    "class": lambda t: t.as_subclass(type("Own", (torch.Tensor,), {})),
    "parameter": lambda t: torch.nn.Parameter(t, requires_grad=False),
}


@pytest.mark.parametrize("change", _CHANGES)
def test_other_tensors_are_asked(change: str) -> None:
    check, tensor = Asked(), torch.tensor([1, 2, 3, 4])
    assert check(tensor)
    other = _CHANGES[change](tensor)
    check(other)
    assert check.asked == (1 if change == "parameter" else 2)
    assert check(tensor)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6).reshape(2, 3).t(),
        torch.tensor([1 + 2j]).conj(),
        torch.tensor([1.0 + 2j]).conj().imag,
        torch.zeros(1024, dtype=torch.int64),
        torch.eye(2).to_sparse(),
    ],
    ids=["strided", "conjugate", "negative", "large", "sparse"],
)
def test_what_cannot_be_read_is_asked_every_time(tensor: torch.Tensor) -> None:
    check = Asked()
    assert check(tensor) and check(tensor) and check.asked == 2


def test_errors_and_ends() -> None:
    class Raises(_core.Remembered):
        def holds(self, tensor) -> bool:
            raise KeyError(1)

    with pytest.raises(KeyError):
        Raises()(torch.ones(1))
    with pytest.raises(AttributeError):
        _core.Remembered()(torch.ones(1))
    empty = Asked()
    assert empty(torch.ones(0)) and empty(torch.ones(0)) and empty.asked == 1
    assert empty() and empty() and empty.asked == 3


def _by_values(x, counts):
    return [part.sum() for part in x.split(counts.tolist())]


def _by_result(x, mask):
    return x + 1 if bool((mask > 2).any()) else x - 1


@pytest.mark.parametrize("function", [_by_values, _by_result])
def test_captured_calls_follow_every_change(function) -> None:
    compiled = framelift.compile(function, backend="eager")
    x, held = torch.arange(6.0), torch.tensor([1, 2, 3])

    def same() -> bool:
        return torch.equal(torch.as_tensor(compiled(x, held)), torch.as_tensor(function(x, held)))

    for _ in range(8):
        assert same()
    captured = len(compiled.entries)
    for values in ([3, 2, 1], [2, 2, 2], [1, 2, 3], [0, 0, 6], [1, 2, 3]):
        for place, value in enumerate(values):
            held[place] = value
        assert same() and same()
        held = held.clone()
        assert same()
        held = torch.stack([held, held], 1)[:, 0]  # with holes
        assert same()
        held = held.contiguous()
    assert len(compiled.entries) > captured
    held = held.to(torch.int32)
    assert same() and same()
