"""Higher-order operators: which handler records which operator, and what all of them share.

A handler has the operator's parameters, after the session and the operator itself, under `@operator(...)`.  Those of
control flow (control_flow.py) refuse to fall back to eager mode; regions (regions.py) are ordinary calls otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .._core import is_a
from ..calls.call_tables import handler_form
from ..graph.fx.targets import target_of
from ..graph.fx.values import Step, Storage, Value
from ..graph.metadata.facts import Facts, SymbolicFacts, new_stand_in
from ..graph.state.torch_state import read_state
from ..torch_ports.modes import DisableTorchFunction
from ..torch_ports.operators import HigherOrderOperator
from ..vocabulary.class_reads import name_of
from ..vocabulary.reasons import Interrupt
from .bodies import Rehearsed, Surroundings, rehearse_body

if TYPE_CHECKING:
    from ..recording.session import Recorder, Session

OPERATOR = HigherOrderOperator
Handler = Callable[..., Any]
#: name of the operator -> its handler
HANDLERS: dict[str, Handler] = {}
#: base class of operators -> the handler of those that have none of their own
FAMILIES: dict[type, Handler] = {}


def operator(name: str, never_plain: str = "") -> Callable[[Handler], Handler]:
    """Register the handler of the operator of this name.

    `never_plain`: what users call an operator that has no meaning outside of a graph.  What of it cannot be captured
    is an error, never a fallback.
    """

    def register(function: Handler) -> Handler:
        handler = handler_form(function)
        HANDLERS[name] = _checked(handler, never_plain) if never_plain else handler
        return function

    return register


def family(base: type) -> Callable[[Handler], Handler]:
    """Register the handler of all operators of a class, which says what they mean."""

    def register(handler: Handler) -> Handler:
        FAMILIES[base] = handler_form(handler)
        return handler

    return register


@handler_form
def call_operator(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A call of a higher-order operator by captured code."""
    handler = HANDLERS.get(callable_.name()) or next(
        (made for base, made in FAMILIES.items() if is_a(callable_, base)), None
    )
    if handler is None:
        raise Interrupt("torch-operation", f"torch.ops.higher_order.{callable_.name()}")
    return handler(session, callable_, args, kwargs)


def _checked(handler: Handler, name: str) -> Handler:
    def checked(session: Session, operator_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return handler(session, operator_, args, kwargs)
        except Interrupt as interrupt:
            interrupt.operator = interrupt.operator or name
            raise
        except Exception as error:
            raise refuse(name, f"{name_of(type(error))}: {error}") from error

    return checked


def refuse(name: str, why: str) -> Interrupt:
    """The interrupt that says why an operator cannot be recorded at all."""
    interrupt = Interrupt("body-shape", f"{name}: {why}")
    interrupt.operator = name
    return interrupt


def pure_body(
    session: Session,
    name: str,
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    once: bool = False,
    writes: bool = False,
) -> Rehearsed:
    """Rehearse a body that may change nothing outside of itself but script objects, and these where it runs `once`.

    `writes`: it may also write to tensors, as operations in line may.
    """
    around = Surroundings(session, function, *args)
    body = rehearse_body(session, function, args, kwargs, once)
    changed = around.changed() or (not writes and body.writes_outside() and "a tensor")
    if changed:
        raise Interrupt("body-effect", f"a body of {name} ({changed})")
    return body


def record_step(
    recorder: Recorder,
    callable_: Any,
    args: list[Any],
    kwargs: dict[str, Any],
    inputs: Sequence[Value],
    effect: bool = False,
) -> Step:
    """The step of an operator, whose arguments are values, bodies and plain values."""
    step = Step(target_of(callable_), args, kwargs, list(inputs), read_state(), effect)
    recorder.tape.append(step)
    return step


def fresh_results(
    recorder: Recorder, step: Step, facts: Sequence[Facts], exact: Sequence[bool], first: int = 0
) -> list[torch.Tensor]:
    """Stand-ins for an operator's results from the `first` on, which share memory with nothing."""
    made = []
    with DisableTorchFunction():
        for i, (one, is_exact) in enumerate(zip(facts, exact), first):
            value = Value(new_stand_in(one), one, Storage(external=False))
            value.step, value.path, value.exact = step, (i,), is_exact
            if type(one) is SymbolicFacts:
                recorder.with_symbols().new_sizes(value)  # those that come with the result
            made.append(recorder.adopt(value))
    return made
