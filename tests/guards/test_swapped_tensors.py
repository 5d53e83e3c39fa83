"""`torch.utils.swap_tensors` refuses tensors that have a weak reference: a capture keeps none on what it reads, and the
guards notice that a tensor has another's contents.
"""

from __future__ import annotations

import collections
import functools
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

import framelift

Tensors = list[torch.Tensor]
Made = tuple[Callable[[torch.Tensor], Any], Tensors, list[torch.Tensor]]
BACKENDS = ["eager", "aot_eager"]


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    framelift.reset()
    yield
    torch.__future__.set_swap_module_params_on_conversion(False)


def module() -> Made:
    made = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    return made, [*made.parameters(), *made.buffers()], [torch.ones(n, 3) for n in (2, 4, 5)]


def closure() -> Made:
    weights = [torch.ones(3), torch.ones(3) * 2]
    return lambda x: x * weights[0] + weights[1], weights, [torch.ones(3), torch.ones(2, 3), torch.ones(4, 3)]


def identity() -> Made:
    one, other = torch.ones(3), torch.ones(3)
    return lambda x: (x is one, x is other, x + one), [one, other], [torch.ones(3), one, other]


def written() -> Made:
    buffer = torch.ones(5, 3)
    return lambda x: (buffer[: x.size(0)].add_(x), buffer + 1), [buffer], [torch.ones(n, 3) for n in (2, 4, 5)]


def keyed() -> Made:
    keys = [torch.ones(3), torch.ones(3) * 2]
    table = {key: key + 1 for key in keys}
    return lambda x: [x + key * value for key, value in table.items()], keys, [torch.ones(n, 3) for n in (2, 4, 5)]


KINDS = {one.__name__: one for one in (module, closure, identity, written, keyed)}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_weak_reference_is_kept(kind: str, backend: str, dynamic: bool | None) -> None:
    fn, tensors, calls = KINDS[kind]()
    compiled = framelift.compile(fn, backend=backend, dynamic=dynamic)
    for x in calls:
        compiled(x)
        assert not any(weakref.getweakrefs(one) for one in tensors)
    assert framelift.stats()["captures"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("other", [lambda: torch.ones(3) * 5, lambda: torch.ones(2, 3), lambda: torch.ones(3).double()])
def test_other_contents(other: Callable[[], torch.Tensor], backend: str) -> None:
    def run(wrap: Callable[[Any], Any]) -> list[Any]:
        weight, new, rows = torch.ones(3), other(), []
        for fn in (wrap(lambda x: x * weight), wrap(lambda x: (weight is new, weight.dtype, x + weight)[2])):
            for n in (1, 2, 1):
                rows.append(fn(torch.ones(n, 1)))
                torch.utils.swap_tensors(weight, new)
                rows.append(fn(torch.ones(n, 1)))
        return rows

    for left, right in zip(run(lambda fn: framelift.compile(fn, backend=backend)), run(lambda fn: fn)):
        assert left.dtype == right.dtype and torch.equal(left, right)


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_of_an_optimizer(backend: str) -> None:
    def run(wrap: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 3)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        step = wrap(optimizer.step)
        for i in range(6):
            net(torch.ones(2, 3)).sum().backward()
            step()
            optimizer.zero_grad()
            if i % 2:
                torch.utils.swap_tensors(net.weight, torch.nn.Parameter(torch.ones(3, 3) * i))
        return [*net.parameters(), *(state["momentum_buffer"] for state in optimizer.state.values())]

    for left, right in zip(run(lambda fn: framelift.compile(fn, backend=backend)), run(lambda fn: fn)):
        torch.testing.assert_close(left, right, rtol=0, atol=0)


@pytest.mark.parametrize("kind", [dict, functools.partial(collections.defaultdict, list)])
def test_keys_by_their_places(kind: Callable[[Any], dict[Any, Any]]) -> None:
    """One capture is for any tensors as keys; their order, what else is a key, and what is looked up are guarded."""

    def read(table: dict[Any, Any], key: Any) -> list[Any]:
        return [key in table, *(one * 2 + value for one, value in table.items() if one is not key), len(table)]

    tables: list[Any] = [kind({torch.ones(2) * i: torch.ones(2), torch.ones(2) * 2: 3}) for i in range(4)]
    pairs = [(table, list(table)[0]) for table in tables[:3]] + [(tables[0], list(tables[1])[0])]
    compiled = framelift.compile(read, backend="eager", fullgraph=True)
    for table, key in pairs:
        torch.testing.assert_close(compiled(table, key), read(table, key))
    assert framelift.stats()["captures"] == 2  # the last key is no key of its table
    turned = kind(reversed(list(tables[3].items())))
    named = kind({"a": torch.ones(2), torch.ones(2) * 2: 3})
    for table, key in [(tables[3], list(tables[3])[1]), (turned, list(turned)[0])]:
        torch.testing.assert_close(compiled(table, key), read(table, key))
    with pytest.raises(Exception) as plain:
        read(named, "b")
    with pytest.raises(Exception) as ours:
        compiled(named, "b")
    assert (type(plain.value), str(plain.value)) == (type(ours.value), str(ours.value))
    gone = weakref.ref(list(tables[0])[1])
    del tables, pairs, table, key, turned
    gc.collect()
    assert gone() is None and framelift.stats()["captures"] < 8


@pytest.mark.parametrize("backend", BACKENDS)
def test_modules_that_swap(backend: str) -> None:
    torch.__future__.set_swap_module_params_on_conversion(True)

    def run(wrap: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 3)
        fn, rows = wrap(net), []
        state = {name: value * 2 for name, value in net.state_dict().items()}
        with torch.no_grad():
            for n in (2, 4, 5):
                rows.append(fn(torch.ones(n, 3)))
            same = list(net.parameters())
            net.to(torch.float64)
            rows.append(fn(torch.ones(2, 3, dtype=torch.float64)))
            net.load_state_dict(state)
            rows.append(fn(torch.ones(3, 3, dtype=torch.float64)))
        assert all(a is b for a, b in zip(same, net.parameters()))
        return rows

    for left, right in zip(run(lambda fn: framelift.compile(fn, backend=backend)), run(lambda fn: fn)):
        torch.testing.assert_close(left, right, rtol=0, atol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_wrapper_subclasses(backend: str) -> None:
    def run(wrap: Callable[[Any], Any]) -> list[Any]:
        one, other = (TwoTensor(torch.ones(n, 3) * n, torch.ones(n, 3)) for n in (2, 4))
        fn, rows = wrap(lambda x: x * 2 + 1), []
        for _ in range(3):
            for tensor in (one, one, other):
                result = fn(tensor)
                rows.append((result.a.tolist(), result.b.tolist()))
            torch.utils.swap_tensors(one, other)
        return rows

    assert run(lambda fn: framelift.compile(fn, backend=backend)) == run(lambda fn: fn)
