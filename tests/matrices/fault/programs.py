"""The programs of the fault matrix.

Functions, how they are called, and the points of their own code at which something may strike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

import framelift

from . import points

__all__ = ["PROGRAMS", "Program"]


@dataclass(frozen=True)
class Program:
    """`make()` gives a fresh function, `args()` fresh arguments, `call(function, args)` calls it and gives what is
    compared.
    """

    name: str
    make: Callable[[], Any]
    args: Callable[[], list[Any]] = lambda: [torch.arange(4.0)]
    call: Callable[[Any, list[Any]], Any] = lambda function, args: function(*args)
    backend: Any = field(default_factory=lambda: struck_backend)
    points: frozenset[str] = frozenset({"backend starts", "backend ends", "graph"})
    copies: bool = True
    draws: bool = False  # random numbers
    compile: Callable[[Any, Any], Any] = lambda function, backend: framelift.compile(function, backend=backend)


def struck_backend(graph_module: Any, inputs: Any) -> Any:
    """A compiler with points of its own."""
    points.reach("backend starts")

    def run(*inputs: Any) -> Any:
        points.reach("graph")
        return graph_module(*inputs)

    points.reach("backend ends")
    return run


def _plain() -> Any:
    return lambda x: (torch.nn.functional.gelu(x * 2) + x.sum(), [x + 1])


class Account:
    def __init__(self) -> None:
        self.total, self.names = 1, ["a"]

    @property
    def double(self) -> int:
        return 2 * self.total

    def __eq__(self, other: object) -> bool:
        return type(other) is Account and vars(self) == vars(other)


def _objects() -> Any:
    def function(x: Any, account: Account) -> Any:
        account.total += 1
        account.names.append(f"n{len(account.names)}")
        return x * account.double, account

    return function


@framelift.disable
def eagerly(where: str) -> None:
    points.reach(where)


def _broken() -> Any:
    def function(x: Any) -> Any:
        y = x * 2
        eagerly("eager part")
        return y + torch.rand(4)

    return function


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.linear = torch.nn.Linear(4, 4)
        self.linear.register_forward_hook(lambda module, args, out: out * 2)

    def forward(self, x: Any) -> Any:
        return torch.tanh(self.linear(x)).sum()


def _training() -> Any:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x)
        loss.backward()
        return loss.detach(), net.linear.weight.grad

    return step


def _backward_outside(function: Any, args: list[Any]) -> Any:
    x = args[0]
    x.register_hook(lambda grad: points.reach("backward", grad))
    loss = function(x)
    loss.backward()
    return loss.detach(), x.grad.clone()


class Counted(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


def _dynamic(function: Any, args: list[Any]) -> Any:
    return [function(torch.arange(float(size))) for size in (4, 5, 6)]


def _generator() -> Any:
    def rows(x: Any) -> Any:
        try:
            for i in range(3):
                yield x * i
        finally:
            x = None

    def function(x: Any) -> Any:
        try:
            return sum(rows(x)), max((len(str(i)) for i in range(3)))
        except ValueError:
            return x

    return function


def _regions() -> Any:
    def function(x: Any) -> Any:
        with torch.no_grad():
            y = x.reshape(2, 2) * 2
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = y @ y
        return z.float() + torch.rand(2, 2)

    return function


@torch.library.custom_op("fault_matrix::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _twice(x: torch.Tensor) -> torch.Tensor:
    points.reach("fake kernel")
    return torch.empty_like(x)


def _operator() -> Any:
    return lambda x: twice(x) + 1


def _plainly_broken() -> Any:
    def function(x: Any) -> Any:
        y = x * 2
        eagerly("eager part")
        return y + 1

    return function


def _in_background(function: Any, backend: Any) -> Any:
    """The next call puts a compiled entry in the place of one whose graph runs uncompiled."""
    compiled = framelift.compile(function, backend=backend, background="manual")
    compiled(torch.arange(4.0))
    framelift.wait(compiled)
    return compiled


def _of_another(function: Any, backend: Any) -> Any:
    """The next call takes over what another callable of the same function captured."""
    framelift.compile(function, backend=backend)(torch.arange(4.0))
    return framelift.compile(function, backend=backend)


_OWN = frozenset({"backend starts", "backend ends", "graph"})
PROGRAMS = (
    Program("plain", _plain),
    Program("objects", _objects, lambda: [torch.ones(3), Account()]),
    Program("break", _broken, points=_OWN | {"eager part"}, draws=True),
    Program(
        "training",
        _training,
        call=lambda function, args: function(*args),
        backend="aot_eager",
        points=frozenset(),
        copies=False,
    ),
    Program(
        "backward",
        lambda: lambda x: (x.sin() * x).sum(),
        lambda: [torch.arange(3.0, requires_grad=True)],
        _backward_outside,
        "aot_eager",
        frozenset({"backward"}),
        False,
    ),
    Program("subclass", lambda: lambda x: x * 2 + 1, lambda: [torch.ones(3).as_subclass(Counted)], copies=False),
    Program("sizes", lambda: lambda x: x.reshape(-1, 1) * x.shape[0], call=_dynamic),
    Program("generator", _generator),
    Program("regions", _regions, draws=True),
    Program("operator", _operator, points=_OWN | {"fake kernel"}),
    Program("plain break", _plainly_broken, points=_OWN | {"eager part"}),
    Program("background", _plain, backend="aot_eager", points=frozenset(), compile=_in_background),
    Program("shared", _plain, points=frozenset(), compile=_of_another),
)
