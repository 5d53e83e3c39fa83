"""What C code sees of external objects without a call of the program: each look must be watched, guarded or refused.

The programs run on the very objects of the plain run, since what is compared depends on where objects lie in memory.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import framelift


class Thing:
    def __init__(self, n: int) -> None:
        self.n = n

    def method(self) -> int:
        return self.n


def same_objects(program: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> None:
    """Each call plainly, then captured; a program that breaks is right as well."""
    framelift.reset()
    captured = framelift.compile(program, backend="eager")
    for arguments in calls:
        assert torch.equal(program(*arguments), captured(*arguments))


# ---- walks over sets, which follow from addresses -------------------------------------------------------------------

def _things() -> list[tuple[Any, ...]]:
    """Calls with three objects whose addresses stand in different orders."""
    things = sorted((Thing(n) for n in range(1, 7)), key=id)
    return [(torch.ones(2), *(things[i] for i in places)) for places in ((0, 2, 4), (4, 2, 0), (1, 5, 0), (5, 3, 1))]


def unpacked(x: Any, *things: Any) -> Any:
    a, b, c = {*things}
    return x + a.n * 100 + b.n * 10 + c.n


def unpacked_with_rest(x: Any, *things: Any) -> Any:
    first, *_ = set(things)
    return x + first.n


def spread_in_call(x: Any, *things: Any) -> Any:
    return x + (lambda a, b, c: a.n * 100 + b.n * 10 + c.n)(*set(things))


def added_to_list(x: Any, *things: Any) -> Any:
    found: list[Any] = []
    found += set(things)
    return x + found[0].n


def assigned_to_slice(x: Any, *things: Any) -> Any:
    found: list[Any] = []
    found[:] = frozenset(things)
    return x + found[0].n


def delegated_to(x: Any, *things: Any) -> Any:
    def walk() -> Any:
        yield from set(things)
    return x + next(walk()).n


def inside_another(x: Any, *things: Any) -> Any:
    return x + next(itertools.chain.from_iterable([set(things)])).n


def walked_by_a_callback(x: Any, *things: Any) -> Any:
    return x + list(map(list, [set(things)]))[0][0].n


def of_tuples(x: Any, *things: Any) -> Any:
    return x + next(iter({(thing, 1) for thing in things}))[0].n


def of_frozen_sets(x: Any, *things: Any) -> Any:
    return x + next(iter(next(iter({frozenset((thing,)) for thing in things})))).n


def of_methods(x: Any, *things: Any) -> Any:
    return x + next(iter({thing.method for thing in things}))()


def of_references(x: Any, *things: Any) -> Any:
    return x + next(iter({weakref.ref(thing) for thing in things}))().n


class Own(set):  # type: ignore[type-arg]
    pass


def of_a_subclass(x: Any, *things: Any) -> Any:
    return x + next(iter(Own(things))).n


def hash_of_method(x: Any, *things: Any) -> Any:
    return x + hash(things[0].method) % 97


def hash_of_tuple(x: Any, *things: Any) -> Any:
    return x + functools.partial(hash, (1, (things[0],)))() % 97


@pytest.mark.parametrize("program", [
    unpacked, unpacked_with_rest, spread_in_call, added_to_list, assigned_to_slice, delegated_to, inside_another, walked_by_a_callback, of_tuples,
    of_frozen_sets, of_methods, of_references, of_a_subclass, hash_of_method, hash_of_tuple], ids=lambda f: f.__name__)
def test_order_follows_addresses(program: Any) -> None:
    same_objects(program, _things())


def test_walks_are_native_again() -> None:
    before = {*range(5)}.__iter__
    same_objects(unpacked, _things())
    assert type(iter({1})) is type(before())


# ---- operations whose result nobody needs ---------------------------------------------------------------------------

def test_unused_operations_still_raise() -> None:
    def program(x: Any, i: Any) -> int:
        torch.index_select(x, 0, i)
        return len(x)

    captured = framelift.compile(program, backend="eager", fullgraph=True)
    assert captured(torch.ones(3), torch.tensor([1])) == 3
    with pytest.raises(IndexError):
        captured(torch.ones(3), torch.tensor([7]))
