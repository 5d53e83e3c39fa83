"""Checks on what tensors hold remember the bytes for which they held: Python is asked again after every change."""

import pytest
import torch

import framelift
from framelift import _core
from support import needs_versions_of


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


class _Held(torch.nn.Module):
    """Many tensors whose values choose the way, as the strides that convolutions keep as buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList(torch.nn.Module() for _ in range(8))
        for number, part in enumerate(self.parts):
            part.register_buffer("stride", torch.tensor(number))

    def forward(self, x):
        for part in self.parts:
            x = x * 2 + int(part.stride)
        return x


def _settled(model, compiled, x):
    for _ in range(12):
        assert torch.equal(compiled(x), model(x))
    return compiled._compiled.entries[0].program


_WRITES = {
    "in place": lambda part: part.stride.fill_(9),
    "through data": lambda part: part.stride.data.add_(1),
    "through a view": lambda part: part.stride.view(1)[0:1].sub_(1),
    "through numpy": lambda part: part.stride.numpy().fill(7),
    "another tensor": lambda part: setattr(part, "stride", torch.tensor(11)),
    "an equal tensor": lambda part: setattr(part, "stride", part.stride.clone()),
    "another memory": lambda part: setattr(part.stride, "data", torch.tensor(12)),
    "set_": lambda part: part.stride.set_(torch.tensor(13)),
    "another dtype": lambda part: setattr(part.stride, "data", torch.tensor(2.5)),
    "a parameter": lambda part: (delattr(part, "stride"), setattr(part, "stride", torch.nn.Parameter(torch.ones(())))),
    "a number": lambda part: (delattr(part, "stride"), setattr(part, "stride", 4)),
    "and back": lambda part: (part.stride.add_(1), part.stride.sub_(1)),
}


@pytest.mark.parametrize("write", _WRITES)
def test_values_below_a_module_are_part_of_a_settled_program(write: str) -> None:
    needs_versions_of(torch.nn.Module)
    model, x = _Held(), torch.arange(3.0)
    compiled = framelift.compile(model, backend="eager")
    program = _settled(model, compiled, x)
    assert not program.unsettled() and program.stats()["settled"]
    visits = program.stats()["visits"]
    compiled(x)
    assert program.stats()["visits"] == visits
    for place in (3, 0):
        before = model(x)
        _WRITES[write](model.parts[place])
        for _ in range(12):
            assert torch.equal(compiled(x), model(x))
        assert write in ("an equal tensor", "and back") or not torch.equal(before, model(x))


def test_values_that_stay_true_in_other_bytes() -> None:
    """The check holds of what the tensor holds now: no recompile, and the program settles again or asks."""
    mask, x = torch.tensor([1, 2, 3]), torch.ones(2)
    model = torch.nn.Module()
    model.register_buffer("mask", mask)
    function = lambda x: x + 1 if bool((model.mask > 2).any()) else x - 1  # noqa: E731
    compiled = framelift.compile(function, backend="eager")
    for _ in range(12):
        assert torch.equal(compiled(x), function(x))
    captured = len(compiled.entries)
    for value in (5, 3, 4, 3, 9):
        mask[2] = value
        for _ in range(6):
            assert torch.equal(compiled(x), function(x))
    assert len(compiled.entries) == captured
    mask[2] = 0
    assert torch.equal(compiled(x), function(x)) and len(compiled.entries) == captured + 1
