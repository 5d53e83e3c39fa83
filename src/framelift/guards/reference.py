"""The plain Python evaluation of guards, for tests and `verify_guards`: the native program must agree with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..exc import InternalError
from ..torch_ports.modes import DisableTorchFunction
from ..vocabulary.origins import Missing, Origin, fetch
from .kinds import KINDS, Guard


def holds(guard: Guard, arguments: tuple[Any, ...]) -> bool:
    """Return whether one guard holds for these locals of the root."""
    try:
        value = fetch(guard.origin, arguments)
        constant = fetch(guard.value, arguments) if guard.kind == "SAME" else guard.value
        if guard.kind == "JOINT":
            check, words, others = guard.value
            constant = check, words, tuple(fetch(other, arguments) for other in others)
        return KINDS[guard.kind](value, constant)
    except (Missing, Exception):
        return False


def _values(origins: Sequence[Origin], arguments: tuple[Any, ...]) -> list[Any] | None:
    try:
        return [fetch(origin, arguments) for origin in origins]
    except (Missing, Exception):
        return None


def check_reference(
    guards: Sequence[Guard], distinct: Sequence[Origin], state: Any, arguments: tuple[Any, ...]
) -> Guard | str | None:
    """None when everything holds, else the first guard that does not, "distinct" or "state"."""
    if state is not None and not state.matches():
        return "state"
    with DisableTorchFunction():  # as in the native program, modes and subclasses do not see the guards
        failing = next((guard for guard in guards if not holds(guard, arguments)), None)
        if failing is not None:
            return failing
        values = _values(list(dict.fromkeys(distinct)), arguments)
    if values is None or len({id(v) for v in values}) < len(values):
        return "distinct"
    return None


def verifier(guards: Sequence[Guard], distinct: Sequence[Origin], state: Any) -> Callable[[tuple[Any, ...], Any], None]:
    """Return the function that a program calls after each use when `config.verify_guards` is set.

    It keeps what the guards name alive.
    """

    def verify(arguments: tuple[Any, ...], failure: tuple[int, int] | None) -> None:
        expected = check_reference(guards, distinct, state, arguments)
        if (expected is None) != (failure is None):
            raise InternalError(
                f"native guards give {failure or 'all hold'}, but by their Python meaning "
                f"{f'this fails: {expected}' if expected is not None else 'all hold'}"
            )

    return verify
