"""Methods of classes made anew at each call: a function that does not look at its receiver leaves it unguarded, but for
which object it is; where something else looks at it, it is imported.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from support import compiled

import framelift

X = torch.arange(4.0) + 1


class Base:
    def __init__(self, k: int = 2) -> None:
        self.k = k


def fresh(k: int = 2) -> Any:
    class Made(Base):
        def method(self, t: torch.Tensor) -> torch.Tensor:
            return t + 1

        @classmethod
        def of_class(cls, t: torch.Tensor) -> torch.Tensor:
            return t + 2

        def reading(self, t: torch.Tensor) -> torch.Tensor:
            return t * self.k

        def looking(self, t: torch.Tensor) -> torch.Tensor:
            return t * len(locals())

        def __eq__(self, other: object) -> bool:
            return self.k == getattr(other, "k", None)

        def __hash__(self) -> int:
            return hash(self.k)

    return Made(k)


def manager(k: int) -> Any:
    @contextlib.contextmanager
    def inner() -> Any:
        yield k

    return inner


def call(x: torch.Tensor, f: Any) -> torch.Tensor:
    return f(x) * 2


def chained(x: torch.Tensor, functions: Any) -> torch.Tensor:
    for f in functions:
        x = f(x)
    return x


def entered(x: torch.Tensor, make: Any) -> torch.Tensor:
    with make() as k:
        return x * k


ONCE: dict[str, tuple[Any, Callable[[], Any]]] = {
    "method": (call, lambda: fresh().method),
    "class method": (call, lambda: fresh().of_class),
    "class method, by the class": (call, lambda: type(fresh()).of_class),
    "partial": (call, lambda: functools.partial(fresh().method)),
    "list": (chained, lambda: [fresh().method, fresh().of_class]),
    "dictionary": (lambda x, fs: chained(x, fs.values()), lambda: {"a": fresh().method, "b": fresh().method}),
    "namespace": (lambda x, o: o.f(x), lambda: types.SimpleNamespace(f=fresh().method)),
    "vmap": (lambda x, f: torch.vmap(f)(x), lambda: fresh().method),
    "map": (lambda x, f: sum(map(f, [x, x])), lambda: fresh().method),
    "the function of it": (lambda x, m: m.__func__(None, x), lambda: fresh().method),
    "context manager": (entered, lambda: manager(2)),
}


@pytest.mark.parametrize("name", ONCE)
def test_one_capture(name: str) -> None:
    program, make = ONCE[name]
    framelift.reset()
    function = compiled(program, fullgraph=True)
    for _ in range(10):
        made = make()
        assert torch.equal(function(X, made), program(X, made))
    assert framelift.stats()["captures"] == 1


SPECIAL = fresh(7)


def _write(m: Any, o: Any, x: torch.Tensor) -> torch.Tensor:
    m.__self__.k += 1
    return m(x) * m.__self__.k  # type: ignore[no-any-return]


QUESTIONS: dict[str, Callable[[Any, Any, torch.Tensor], Any]] = {
    "call": lambda m, o, x: m(x),
    "read": lambda m, o, x: m(x) * m.__self__.k,
    "identity": lambda m, o, x: m(x) + (m.__self__ is o) + 2 * (m.__self__ is SPECIAL),
    "equality": lambda m, o, x: m(x) + (m == o.method) + 2 * (m == SPECIAL.method),
    "equality of receivers": lambda m, o, x: x * (m.__self__ == SPECIAL),
    "hash": lambda m, o, x: m(x) + (hash(m) == hash(SPECIAL.method)),
    "key": lambda m, o, x: {m: x, SPECIAL.method: x * 2}.get(o.method, x * 3),
    "member": lambda m, o, x: x * (m in [SPECIAL.method]) + [m, SPECIAL.method].count(o.method),
    "class": lambda m, o, x: m(x) * isinstance(m.__self__, Base) * len(type(m.__self__).__name__),
    "getter": lambda m, o, x: operator.attrgetter("__self__")(m).k * x,
    "bound again": lambda m, o, x: types.MethodType(m.__func__, o)(x),
    "function": lambda m, o, x: m.__func__(m.__self__, x),
    "truth": lambda m, o, x: x if m.__self__ else -x,
    "attributes": lambda m, o, x: x * vars(m.__self__).get("k", 5),
    "write": _write,
    "behind a break": lambda m, o, x: (m(x), framelift.graph_break(), m(x) * m.__self__.k)[2],
    "torch": lambda m, o, x: torch.add(x, m.__self__.k),
}


def other() -> Any:
    class Made(Base):
        def method(self, t: torch.Tensor) -> torch.Tensor:
            return t - 1

        of_class = looking = reading = method

    return Made()


PAIRS: list[Callable[[], tuple[Any, Any]]] = [
    lambda: (made := fresh(), made),
    lambda: (made := fresh(), made),
    lambda: (fresh(3), fresh()),
    lambda: (SPECIAL, SPECIAL),
    lambda: (made := other(), made),
    lambda: (fresh(7), SPECIAL),
    lambda: (SPECIAL, fresh()),
    lambda: (fresh(), SPECIAL),
]


@pytest.mark.parametrize("bound", ["method", "of_class", "reading", "looking"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_what_is_read_of_the_receiver_is_guarded(name: str, bound: str) -> None:
    program = QUESTIONS[name]
    function = compiled(program)
    for make in PAIRS:
        first, second = make()
        outcomes = []
        for run in (program, function):
            before = first.k
            try:
                outcomes.append((run(getattr(first, bound), second, X).tolist(), first.k))
            except AttributeError as error:  # of a class, which has no such attribute
                outcomes.append((str(error), first.k))
            first.k = before
        assert outcomes[0] == outcomes[1]


def test_a_receiver_that_leaves_is_the_one_of_the_call() -> None:
    def program(x: torch.Tensor, m: Any) -> Any:
        return m, m.__self__, [m.__self__], m(x)

    framelift.reset()
    function = compiled(program)
    for _ in range(4):
        made = fresh()
        method = made.method
        one, receiver, (again,), _ = function(X, method)
        assert one is method and receiver is again is made
    assert framelift.stats()["captures"] == 1


def test_managers_of_torch_and_of_the_program_share_the_code_of_their_factory() -> None:
    """contextlib and torch make functions by one factory; some of torch's have handlers."""

    def both(return_indices: int) -> Any:
        return torch._jit_internal.boolean_dispatch(
            "return_indices", 2, False, lambda t, n, **_: t + n, lambda t, n, **_: t * return_indices, "module", "name"
        )

    program = lambda x, f: f(x, 2)  # noqa: E731
    function = compiled(program)
    images = torch.arange(64.0).reshape(1, 8, 8)
    pool, adaptive = torch.nn.functional.max_pool2d, torch.nn.functional.adaptive_max_pool2d
    for f in (both(2), both(2), pool, both(3), adaptive, both(2)):
        assert torch.equal(function(images, f), program(images, f))
