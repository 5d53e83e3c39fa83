"""`compile(verify=)`: calls with effects on whatever they reach are compared with eager mode, and have them once."""

from __future__ import annotations

import collections
import logging
import random
import types
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift

COUNT = 0
ROWS: list[Any] = []


class Counter:
    made = 0

    def __init__(self) -> None:
        self.n, self.history = 0, [0]


class Slotted:
    __slots__ = ("n", "m")

    def __init__(self) -> None:
        self.n = 0


def x() -> torch.Tensor:
    return torch.arange(3.0)


def attributes() -> Any:
    o = Counter()

    def g(x: Any) -> Any:
        o.n += 1
        o.history.append(o.n)
        o.last = x * o.n
        return o.last

    return g, lambda: (vars(o), o.history)


def slots() -> Any:
    o = Slotted()

    def g(x: Any) -> Any:
        o.n += 1
        if o.n == 1:
            o.m = 5
        return x * (o.n + o.m)

    return g, lambda: (o.n, o.m)


def containers() -> Any:
    rows, table, seen, line = [1], collections.OrderedDict(a=1), {1}, collections.deque([1], maxlen=3)

    def g(x: Any) -> Any:
        rows.append(len(rows))
        rows[0] += 1
        table["a"] += 1
        table.move_to_end("a")
        table[f"b{len(rows)}"] = x
        seen.add(len(rows))
        line.append(len(rows))
        return x * rows[0]

    return g, lambda: (rows, table, seen, line)


def globals_and_classes() -> Any:
    def g(x: Any) -> Any:
        global COUNT
        COUNT += 1
        Counter.made += 1
        ROWS.append(COUNT)
        return x * COUNT + Counter.made

    return g, lambda: (COUNT, Counter.made, ROWS)


def closure_variables() -> Any:
    n = 0

    def g(x: Any) -> Any:
        nonlocal n
        n += 1
        return x * n

    return g, lambda: n


def callees() -> Any:
    o = Counter()

    def add(k: int) -> int:
        o.n += k
        return o.n

    def g(x: Any) -> Any:
        return x * add(2)

    return g, lambda: o.n


def tensors() -> Any:
    held, buffer = torch.zeros(3), torch.zeros(1)

    def g(x: Any) -> Any:
        held.add_(x)
        buffer[0] += 1
        return held * 2, held.view(1, 3)

    return g, lambda: (held, buffer)


def gradients() -> Any:
    w = torch.ones(3, requires_grad=True)
    layer = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD([w, *layer.parameters()], lr=0.1, momentum=0.9)

    def g(x: Any) -> Any:
        loss = layer(x * w).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return g, lambda: (w, w.grad, *layer.parameters())


def random_numbers() -> Any:
    def g(x: Any) -> Any:
        return x * random.random() + torch.rand(3)

    return g, lambda: None


def same_object() -> Any:
    """An argument is closed over, too."""
    rows = [1]

    def g(x: Any, given: Any = rows) -> Any:
        given.append(len(rows))
        assert given is rows
        return x * len(rows)

    return g, lambda: rows


PROGRAMS = [
    attributes,
    slots,
    containers,
    globals_and_classes,
    closure_variables,
    callees,
    tensors,
    gradients,
    random_numbers,
    same_object,
]


def run(make: Callable[[], Any], compile: Callable[[Any], Any]) -> Any:
    global COUNT
    COUNT, Counter.made = 0, 0
    ROWS.clear()
    torch.manual_seed(0)
    random.seed(0)
    function, effects = make()
    function = compile(function)
    results = [function(x()) for _ in range(3)]
    return torch.utils._pytree.tree_leaves((results, effects(), random.random(), torch.rand(1)))


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_effects_happen_once(make: Callable[[], Any]) -> None:
    wanted = run(make, lambda f: f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = run(make, lambda f: framelift.compile(f, backend="eager", verify=2))
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted):
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def test_what_is_printed_and_logged(capsys: Any, caplog: Any) -> None:
    logger = logging.getLogger("verified")

    def g(x: Any) -> Any:
        print("printed")
        logger.warning("logged")
        warnings.warn("warned of", stacklevel=2)
        return x + 1

    with pytest.warns(UserWarning, match="warned of") as heard:
        framelift.compile(g, backend="eager", verify=True)(x())
    assert capsys.readouterr().out == "printed\n" and len(heard) == 1
    assert [record.message for record in caplog.records if record.name == "verified"] == ["logged"]


def test_exceptions_and_effects_before_them() -> None:
    rows: list[int] = []

    def g(x: Any) -> Any:
        rows.append(1)
        raise KeyError("no")

    with pytest.raises(KeyError, match="no"):
        framelift.compile(g, backend="eager", verify=True)(x())
    assert rows == [1]


def _forgetful(graph_module: Any, example_inputs: Any) -> Any:
    return lambda *inputs: tuple(torch.zeros_like(out) for out in graph_module.forward(*inputs))


def test_a_wrong_effect_is_found() -> None:
    o = types.SimpleNamespace(last=None)

    def g(x: Any) -> int:
        o.last = x + 1
        return 3

    with pytest.raises(framelift.exc.VerificationFailed, match=r"attributes of a SimpleNamespace\['last'\] has other"):
        framelift.compile(g, backend=_forgetful, verify=True)(x())


def _counting() -> Any:
    n = 0
    while True:
        n += 1
        yield n


@pytest.mark.parametrize(
    "numbers", [_counting(), iter([1, 2, 3]), random.Random(0)], ids=lambda one: type(one).__name__
)
def test_what_cannot_be_put_back(numbers: Any) -> None:
    def g(x: Any) -> Any:
        return x * (numbers.random() if type(numbers) is random.Random else next(numbers))

    compiled = framelift.compile(g, backend="eager", verify=True)
    for n in (1, 2):
        with pytest.warns(UserWarning, match=f"is not verified: it reaches a {type(numbers).__name__}"):
            made = compiled(x())
        assert type(numbers) is random.Random or torch.equal(made, x() * n)


def test_a_tensor_with_a_history_is_not_verified() -> None:
    leaf = x().requires_grad_()
    compiled = framelift.compile(lambda y: y.sin(), backend="eager", verify=True)
    with pytest.warns(UserWarning, match="is not verified: it reaches a tensor with a history"):
        compiled(leaf * 2).sum().backward()
    assert torch.equal(leaf.grad, (x() * 2).cos() * 2)
