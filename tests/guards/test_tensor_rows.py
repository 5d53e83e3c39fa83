"""Settled tensors are recognized by words of memory.

Whatever changes in a tensor, in place or not, is seen as plain Python sees it.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

from framelift import config
from framelift.guards.kinds import Guard, tensor_facts
from framelift.guards.native_program import build_program
from framelift.guards.reference import check_reference
from framelift.vocabulary.origins import arg

OWNER = arg(0, "owner")
NAMES = "abcdef"


class Other(torch.nn.Parameter):
    pass


def _with_history(t: torch.Tensor) -> None:
    t.requires_grad_(False).add_(torch.ones_like(t, requires_grad=True))


def _with_history_and_asked(t: torch.Tensor) -> None:
    _with_history(t)
    t.requires_grad_(True)


def _with_version(t: torch.Tensor) -> None:
    t.data.add_(1)


def _with_attribute_for_a_while(t: torch.Tensor) -> None:
    t.note = 1  # type: ignore[attr-defined]
    del t.note  # type: ignore[attr-defined]


def _marked(t: torch.Tensor, has_dictionary: bool = False) -> torch.Tensor:
    t.mark = "static"  # type: ignore[attr-defined]
    if has_dictionary:
        assert vars(t) == {"mark": "static"}  # once asked for, it is there as an object
    return t


CHANGES: dict[str, Callable[[torch.Tensor], Any]] = {
    "nothing": lambda t: None,
    "values": _with_version,
    "requires_grad": lambda t: t.requires_grad_(not t.requires_grad),
    "a leaf no more": _with_history,
    "a leaf no more, and asked for gradients": _with_history_and_asked,
    "data of another size": lambda t: setattr(t, "data", torch.zeros(7)),
    "data of another rank": lambda t: setattr(t, "data", torch.zeros(2, 3, 4, 1, 1, 1)),
    "data of another dtype": lambda t: setattr(t, "data", t.data.double()),
    "data of another device": lambda t: setattr(t, "data", t.data.to("meta")),
    "data of other strides": lambda t: setattr(
        t, "data", torch.zeros(t.shape[::-1]).permute(tuple(reversed(range(t.dim()))))
    ),
    "data of another last size": lambda t: setattr(t, "data", torch.zeros(*t.shape[:-1], 9)),
    "data of another last stride": lambda t: setattr(t, "data", torch.zeros(*t.shape[:-1], 2 * t.shape[-1])[..., ::2]),
    "the same bytes as another dtype": lambda t: setattr(t, "data", t.data.view(torch.int32)),
    "data further on in the same storage": lambda t: setattr(t, "data", torch.zeros(2, *t.shape)[1]),
    "resized in place": lambda t: t.resize_(3, 3),
    "resized in place, and back": lambda t: t.data.resize_(3, 3).resize_(t.shape),
    "an out= of another size": lambda t: torch.zeros(3, 5, out=t.requires_grad_(False)),
    "a dimension more, in place": lambda t: t.unsqueeze_(0),
    "data of the same kind": lambda t: setattr(t, "data", t.data.clone()),
    "a gradient": lambda t: setattr(t, "grad", torch.zeros_like(t)) if t.is_leaf and not t.is_inference() else None,
    "another class": lambda t: setattr(t, "__class__", Other),
    "an attribute": lambda t: setattr(t, "note", 1),
    "an attribute that hides a method": lambda t: setattr(t, "size", lambda: (1,)),
    "an attribute that came and went": _with_attribute_for_a_while,
    "its dictionary, for one that hides a method": lambda t: setattr(t, "__dict__", {"size": lambda: (1,)}),
    "its dictionary, for one that does not": lambda t: setattr(t, "__dict__", {"note": 1}),
    "its dictionary, that is emptied": lambda t: t.__dict__.clear(),
    "its dictionary, from outside": lambda t: t.__dict__.update(size=lambda: (1,)),
    "a hook": lambda t: t.register_hook(lambda g: g) if t.requires_grad else None,
    "swapped with another": lambda t: torch.utils.swap_tensors(t, torch.zeros(1).requires_grad_()),
    "swapped with one alike": lambda t: torch.utils.swap_tensors(t, t.detach().clone().requires_grad_(t.requires_grad)),
}

TENSORS: dict[str, Callable[[], torch.Tensor]] = {
    "parameter": lambda: torch.nn.Parameter(torch.randn(2, 3)),
    "with an attribute": lambda: _marked(torch.nn.Parameter(torch.randn(2, 3))),
    "with a dictionary": lambda: _marked(torch.nn.Parameter(torch.randn(2, 3)), True),
    "plain": lambda: torch.randn(3),
    "number": lambda: torch.tensor(1.5),
    "four dimensions": lambda: torch.nn.Parameter(torch.randn(2, 1, 3, 2)),
    "three dimensions": lambda: torch.randn(2, 1, 3),
    "five dimensions": lambda: torch.nn.Parameter(torch.randn(2, 1, 3, 2, 2)),
    "six dimensions": lambda: torch.randn(1, 2, 1, 3, 1, 2),
    "view": lambda: torch.randn(4, 3)[1:],
    "transposed": lambda: torch.randn(2, 3).t(),
    "half": lambda: torch.randn(5).half(),
    "empty": lambda: torch.zeros(0, 4),
}


def _program(owner: Any, methods: tuple[str, ...] = ()) -> tuple[Any, list[Guard]]:
    places = [OWNER.to("dict").to("item", name) for name in NAMES]
    facts = [dataclasses.replace(tensor_facts(getattr(owner, name)), methods=methods) for name in NAMES]
    guards = [Guard(place, "TENSOR", one) for place, one in zip(places, facts)]
    with config.patch(verify_guards=False):
        return build_program(guards, places, [], [], None)[0], guards


@pytest.mark.parametrize("tensor", TENSORS)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("methods", [(), ("size",)])
@pytest.mark.parametrize(("calls", "all_alike"), [(4, False), (20, True)])  # few, and enough for a settled program
def test_whatever_changes_is_seen(
    tensor: str, change: str, methods: tuple[str, ...], calls: int, all_alike: bool
) -> None:
    make = TENSORS[tensor] if all_alike else lambda: torch.nn.Parameter(torch.randn(2))
    owner = types.SimpleNamespace(**{name: make() for name in NAMES})
    owner.c = TENSORS[tensor]()
    program, guards = _program(owner, methods)
    for _ in range(calls):
        assert program.check((owner,)) is None
    before = program.stats()["visits"]
    assert program.check((owner,)) is None and program.stats()["visits"] == before
    change_in = threading.Thread(target=_change, args=(change, owner.c))  # guards know nothing of threads
    change_in.start()
    change_in.join()
    expected = check_reference(guards, [], None, (owner,))
    for _ in range(2):
        assert (program.check((owner,)) is None) == (expected is None)
    if expected is None:
        given = program.values((owner,))[0]
        assert all(value is getattr(owner, name) for value, name in zip(given, NAMES))


def _change(change: str, tensor: torch.Tensor) -> None:
    try:
        CHANGES[change](tensor)
    except (RuntimeError, TypeError, IndexError, AttributeError):  # not every tensor can be changed in every way
        pass


@pytest.mark.parametrize(
    "change", ["data of another dtype", "data of the same kind", "a leaf no more", "another class"]
)
def test_references_are_given_back(change: str) -> None:
    owner = types.SimpleNamespace(**{name: torch.nn.Parameter(torch.randn(2)) for name in NAMES})
    tensors = [getattr(owner, name) for name in NAMES]
    program, _ = _program(owner)
    counts = [sys.getrefcount(tensor) for tensor in tensors]
    for _ in range(20):
        program.check((owner,))
    assert [sys.getrefcount(tensor) for tensor in tensors] == counts
    CHANGES[change](owner.d)
    for _ in range(20):
        program.check((owner,))
    assert [sys.getrefcount(tensor) for tensor in tensors] == counts


def test_a_view_asks_its_base() -> None:
    base = torch.randn(4)
    owner = types.SimpleNamespace(**{name: base[1:] for name in NAMES})
    program, guards = _program(owner)
    for _ in range(4):
        assert program.check((owner,)) is None
    base.requires_grad_()
    assert (program.check((owner,)) is None) == (check_reference(guards, [], None, (owner,)) is None)


def test_all_tensors_are_handed_out_when_something_before_them_changed() -> None:
    owner = types.SimpleNamespace(**{name: torch.nn.Parameter(torch.randn(2)) for name in NAMES})
    program, _ = _program(owner)
    for i in range(6):
        owner.unrelated = i  # the dictionary's version: everything below it is visited again
        owner.d = torch.nn.Parameter(torch.randn(2))
        owner.b.data = torch.randn(2)
        assert all(value is getattr(owner, name) for value, name in zip(program.values((owner,))[0], NAMES))
