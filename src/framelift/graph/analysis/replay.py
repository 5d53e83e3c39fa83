"""The tape run again, over fakes that keep their history: what differentiating a result would give.

Metadata alone does not say which inputs a result depends on; autograd itself is asked, once the program wants to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ...torch_ports.autograd import is_grad_enabled, set_grad_enabled
from ...vocabulary.scopes import scope
from ..fx.examples import number_example
from ..fx.tape import build_body, build_graph
from ..fx.values import Step, Value
from ..metadata.fakes import Fakes
from ..state.torch_state import AUTOCAST_DEVICES, State
from ..symbols.environment import Symbols


def replay(
    fakes: Fakes,
    name: str,
    tape: Sequence[Step],
    asked: Sequence[Value],
    base: State,
    symbols: Symbols | None,
    then: Callable[[list[Any]], Any],
) -> Any:
    """Run the tape over fakes; what `then` makes of the fakes of `asked`.  Torch function must be off."""
    module, given, _ = build_graph(tape, asked, base, symbols)
    inputs = [
        fakes.make(one.facts.but(is_leaf=True))
        if type(one) is Value or symbols is None
        else number_example(symbols, fakes.mode, one)[1]
        for one in given
    ]

    def run(made: list[Any]) -> Any:
        with _beginning(base):
            results = list(module.forward(*made))
        return then(results)

    return fakes.run(name, run, inputs)


def replay_views(
    fakes: Fakes, name: str, steps: Sequence[Step], first: Value, asked: Sequence[Value], base: State
) -> list[Any]:
    """Fakes of values that are views of `first`, which the steps make of one of it.  Torch function must be off."""
    module, _ = build_body(steps, [first], tuple(asked), asked, base)

    def run(made: list[Any]) -> Any:
        with _beginning(base):
            return list(module.forward(*made))

    found: list[Any] = fakes.run(name, run, [fakes.make(first.facts.but(is_leaf=True))])
    return found


@scope
def _beginning(state: State) -> Iterator[None]:
    """Torch's state as it was when the tape began."""
    grad = is_grad_enabled()
    autocast = [
        (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in AUTOCAST_DEVICES
    ]
    set_grad_enabled(state.grad)
    for device, dtype in state.autocast[:-1] if state.autocast else [(device, None) for device in AUTOCAST_DEVICES]:
        torch.set_autocast_enabled(device, dtype is not None)
        if dtype is not None:
            torch.set_autocast_dtype(device, dtype)
    try:
        yield
    finally:
        set_grad_enabled(grad)
        for device, enabled, dtype in autocast:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)


class _Spent(torch.autograd.Function):
    """A history that was differentiated inside: nobody can go through it again."""

    @staticmethod
    def forward(ctx: Any, seed: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            "Trying to backward through the graph a second time (or directly access saved tensors after "
            "they have already been freed). "
            "Saved intermediate values of the graph are freed when you call .backward() or "
            "autograd.grad(). Specify retain_graph=True if "
            "you need to backward through the graph a second time or if you need to access saved tensors "
            "after calling backward."
        )


class _Rootless(_Spent):
    """A history that leads to leaves which nobody holds any more."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None


def _attached(history: Any, result: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        made: torch.Tensor = history.apply(torch.empty(0, requires_grad=True), result)
    return made


#: of memory that other tensors have, and with a history of its own: compilers mix these up
OWN = "own"
#: what a result is to become where a compiled graph does not give it as it is, or no graph does
_COMPILED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "detached": torch.Tensor.detach,
    "data": lambda result: result.data,
}
_BECOMES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "spent": lambda result: _attached(_Spent, result),
    "rootless": lambda result: _attached(_Rootless, result),
    "tensor": lambda result: result.detach().requires_grad_(),
    "parameter": torch.nn.Parameter,
    "frozen parameter": lambda result: torch.nn.Parameter(result, requires_grad=False),
}


def with_histories(
    graph: Callable[..., Any], kinds: Sequence[tuple[int, str]], is_compiled: bool
) -> Callable[..., Any]:
    """`graph`, whose results at these places are other variables, leaves, or have a history that was gone through."""
    table = _BECOMES | _COMPILED if is_compiled else _BECOMES
    changes = [(place, table[kind]) for place, kind in kinds if kind in table]

    def run(*given: Any) -> Any:
        results = list(graph(*given))
        for place, become in changes:
            results[place] = become(results[place])
        return results

    return run if changes else graph
