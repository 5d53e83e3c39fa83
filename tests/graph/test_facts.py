"""What is known of tensors that say the same of themselves: read once, and never of another tensor."""

from __future__ import annotations

import itertools

import pytest
import torch

from framelift import _core
from framelift.graph.metadata import facts
from framelift.guards import kinds


def _tensors() -> list[torch.Tensor]:
    x = torch.rand(2, 3)
    with torch.inference_mode():
        inference = torch.rand(2, 3)
    grown = torch.rand(2, 3, requires_grad=True)
    base = torch.zeros(4, 3)
    view = base[:2]
    base.mul_(grown.sum())  # the view has a history from now on
    return [
        x,
        view,
        torch.rand(2, 3),
        torch.rand(2, 3).double(),
        torch.rand(3, 2).t(),
        torch.rand(2, 3, 1),
        torch.rand(6),
        grown,
        grown * 2,
        grown.detach(),
        torch.nn.Parameter(torch.rand(2, 3)),
        torch.nn.Parameter(torch.rand(2, 3), requires_grad=False),
        torch.rand(2, 3, dtype=torch.complex64).conj(),
        torch.rand(2, 3, dtype=torch.complex64),
        torch.rand(2, 3, dtype=torch.complex64).conj().imag,
        inference,
        torch.rand(2, 3, device="meta"),
        torch.rand(2, 3).to_sparse(),
        torch.rand(2, 3).to_mkldnn() if torch.backends.mkldnn.is_available() else x,
    ]


def test_equal_keys_are_equal_facts() -> None:
    tensors = _tensors()
    said = [kinds._read_facts(tensor) for tensor in tensors]
    keys = [_core.tensor_key(tensor) for tensor in tensors]
    assert len(set(keys)) > 12 and None in keys
    for (one, first), (other, second) in itertools.combinations(zip(keys, said), 2):
        if one is not None and one == other:
            assert (*_all(first)[1:],) == (*_all(second)[1:],)


def _all(said: kinds.TensorFacts) -> list[object]:
    return [getattr(said, name) for name in said.__slots__]


@pytest.mark.parametrize("again", [False, True])
def test_remembered_facts_are_those_of_the_tensor(again: bool) -> None:
    for tensor in _tensors():
        assert kinds.tensor_facts(tensor) == kinds._read_facts(tensor), again
        assert _core.tensor_keys(tensor) == torch._C._dispatch_keys(tensor).raw_repr()
        if tensor.layout is not torch.strided:
            assert _core.tensor_key(tensor) is None
            continue
        assert facts.facts_of(tensor) is facts._read_facts(tensor)
        assert _core.tensor_memory(tensor) == tensor.untyped_storage()._cdata


def test_marks_and_gradients_are_asked_of_each_tensor() -> None:
    one, other = torch.rand(2, 3, requires_grad=True), torch.rand(2, 3, requires_grad=True)
    other.sum().backward()
    assert not kinds.tensor_facts(one, ask_grad=True).has_grad and kinds.tensor_facts(other, ask_grad=True).has_grad
    torch._dynamo.mark_dynamic(other, 1)
    assert kinds.tensor_facts(one, ask_marks=True).marks == frozenset()
    assert kinds.tensor_facts(other, ask_marks=True).marks == {1}
    assert kinds.tensor_facts(one) is kinds.tensor_facts(other)


def test_a_method_more_is_noted_once_for_equal_facts() -> None:
    said = kinds.tensor_facts(torch.rand(2, 3))
    more = kinds.with_method(said, "dim")
    assert more.methods == ("dim",) and said.methods == () and kinds.with_method(said, "dim") is more
    assert kinds.with_method(more, "size").methods == ("dim", "size")
