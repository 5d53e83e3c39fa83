"""Answers that are given while capturing because they cannot be otherwise.

They are what the program would get, errors included.
"""

from __future__ import annotations

import itertools

import pytest
import torch

import framelift
from support import check

X = torch.ones(3)
TAKES = {
    "bool": bool,
    "item": lambda b: b.item(),
    "if": lambda b: 1 if b else 2,
    "int": int,
    "is_nonzero": torch.is_nonzero,
    "any": lambda b: bool(b.any()),
    "all": lambda b: b.all().item(),
    "and": lambda b: b and 5,
    "list": lambda b: b.tolist(),
}


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (3,), (0,), (2, 0)], ids=str)
@pytest.mark.parametrize("take", TAKES)
def test_a_random_number_compared_with_a_bound_of_its_range(take, shape) -> None:
    """A tensor of several elements, or of none, has neither a truth nor an item."""
    taken = TAKES[take]
    for below, bound in itertools.product((False, True), (0.0, 1, -1, 2.0)):

        def f(x, bound):
            drawn = torch.rand(shape)
            return taken(drawn < bound if below else drawn >= bound), x * 2

        check(f, X, bound, graphs=None, breaks=None, fullgraph=False)


def test_a_certain_answer_needs_no_break() -> None:
    def f(x, p):
        return x * 2 if torch.rand(1) < p else x * 3

    for p in (0.0, 1.0):
        check(f, X, p)


def written_result(x):
    b = torch.rand(()) < 0.0
    b.logical_not_()
    return x * 2 if b else x * 3


def written_draw(x):
    r = torch.rand(())
    r -= 5
    return x * 2 if r < 0.0 else x


def written_by_a_view(x):
    r = torch.rand(())
    r.view(1).sub_(3)
    return x * 2 if r < 0 else x


def written_by_data(x):
    r = torch.rand(())
    r.data.sub_(4)
    return x * 2 if r < 0 else x


def written_later(x):
    r = torch.rand(())
    s = r < 0.0
    r -= 5
    return x * 2 if s else x


def compared_in_place(x):
    return x * 2, torch.rand(()).lt_(0.0).item()


def made_smaller(x):
    b = torch.rand(1) < 0.0
    b.resize_(0)
    return x * 2 if b else x


def drawn_into_another(x):
    return x * 2 if torch.rand((), out=x.sum()) < 0 else x


def not_comparable(x):
    return x * 2 if torch.rand((), dtype=torch.complex64) < 0 else x


def not_a_number(x):
    return x * 2 if torch.rand(()) < float("nan") else x


@pytest.mark.parametrize(
    "f",
    [
        written_result,
        written_draw,
        written_by_a_view,
        written_by_data,
        written_later,
        compared_in_place,
        made_smaller,
        drawn_into_another,
        not_comparable,
        not_a_number,
    ],
    ids=lambda f: f.__name__,
)
def test_what_happened_since_counts(f) -> None:
    check(f, X, graphs=None, breaks=None, fullgraph=False)


class TransformerEncoder(torch.nn.Module):
    """Called like a class of torch's, for which torch itself computes something else when it is compiled."""

    def forward(self, x):
        return x + 1 if torch.compiler.is_compiling() else x - 1


def test_whether_this_is_compiled_does_not_depend_on_names() -> None:
    def breaking(self, x):
        framelift.graph_break()
        return x + 1 if torch.compiler.is_compiling() else x - 1

    for fullgraph in (False, True):
        assert torch.equal(framelift.compile(TransformerEncoder(), backend="eager", fullgraph=fullgraph)(X), X + 1)
    breaking.__qualname__ = "TransformerEncoder.forward"
    breaking.__code__ = breaking.__code__.replace(co_qualname="TransformerEncoder.forward")
    assert torch.equal(framelift.compile(breaking, backend="eager")(None, X), X + 1)
