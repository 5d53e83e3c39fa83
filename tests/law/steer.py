"""Chooses the changes of a program by trying them in a scratch world: most should show in what the next call gives.

A change that the program does not notice tests nothing.  The scratch world drifts away from the real ones (it also sees
the changes that were not taken), which is harmless: it is asked for likelihood, not for truth.
"""

from __future__ import annotations

import contextlib
import random
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from portrait import Portrait, difference, portrait

__all__ = [
    "MODES",
    "SCRATCH",
    "Endless",
    "Scratch",
    "around",
    "bounded",
    "clean_tensors",
    "modes_left",
    "put_on_tensors",
    "without_modes",
]

SCRATCH = "law_scratch"
KEEP_UNSEEN = 0.1
TRIALS = 80

#: what the global MODE of a world asks for around its calls
MODES: dict[str, Callable[[], Any]] = {"no_grad": torch.no_grad, "inference": torch.inference_mode}


class Endless(BaseException):
    """A random program did not end: no handler of the program may swallow this."""


@contextlib.contextmanager
def bounded(seconds: float = 5.0) -> Iterator[None]:
    """Raise Endless in a block that takes more CPU time; a program's calls take milliseconds.  For the main thread."""

    def stop(*_: Any) -> None:
        raise Endless

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def around(world: dict[str, Any]) -> contextlib.AbstractContextManager[Any]:
    """The context manager that a world wants around its calls."""
    found: contextlib.AbstractContextManager[Any] | None = world.get("AROUND")
    return contextlib.nullcontext() if found is None else found


#: what torch.Tensor itself has; none of it is ever replaced by a program
_TENSOR_NAMES = frozenset(vars(torch.Tensor))


def put_on_tensors() -> dict[str, Any]:
    """What a program put on torch.Tensor, which is one class for all worlds."""
    return {name: value for name, value in vars(torch.Tensor).items() if name not in _TENSOR_NAMES}


def clean_tensors() -> None:
    """Take off torch.Tensor what a program put there and left."""
    for name in put_on_tensors():
        delattr(torch.Tensor, name)


def modes_left() -> list[str]:
    """The classes of the torch-function modes that are active, outermost first."""
    return [type(torch._C._get_function_stack_at(i)).__name__ for i in range(torch._C._len_torch_function_stack())]


def without_modes() -> None:
    """End the modes that a program left: those of the next program's world would be shown to them."""
    while torch._C._len_torch_function_stack():
        torch._C._pop_torch_function_stack()


class Scratch:
    """A world to try things in.  Use as a context manager: torch's global state is put back."""

    def __init__(self, code: types.CodeType) -> None:
        self.code = code

    def __enter__(self) -> Scratch:
        self._state = torch.is_grad_enabled(), torch.get_rng_state(), random.getstate()
        self.module = sys.modules[SCRATCH] = types.ModuleType(SCRATCH)
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        warnings.simplefilter("ignore")
        exec(self.code, vars(self.module))
        return self

    def __exit__(self, *_: Any) -> None:
        self._warnings.__exit__(None, None, None)
        clean_tensors()
        without_modes()
        grad, rng, python = self._state
        torch.set_grad_enabled(grad)
        torch.set_rng_state(rng)
        random.setstate(python)
        sys.modules.pop(SCRATCH, None)

    def call(self) -> tuple[str, Portrait]:
        """What the next call gives: how it ended, and its result."""
        torch.default_generator.manual_seed(0)  # torch.manual_seed looks at every device
        try:
            with MODES.get(str(self.module.MODE), contextlib.nullcontext)(), around(vars(self.module)):
                result = self.module.TARGET(*self.module.ARGS, **self.module.KWARGS)
        except Exception as error:  # noqa: BLE001  any failure of a random program
            return f"{type(error).__name__}: {error}", portrait(None)
        return "", portrait(result, own=lambda v: getattr(v, "__module__", None) == SCRATCH)

    def changes(self, rng: random.Random, propose: Callable[[], str], calls: int) -> tuple[tuple[str, ...], ...]:
        """Statements before each of `calls` calls; the first call has none, and some calls come after no change."""
        steps: list[tuple[str, ...]] = [()]
        last = self.call()
        for _ in range(TRIALS):
            if len(steps) >= calls:
                break
            if rng.random() < 0.1:
                steps.append(())
            statement = propose()
            self.apply(statement)
            now = self.call()
            seen = now[0] != last[0] or difference(now[1], last[1]) is not None
            if now[0] and not last[0] and rng.random() < 0.8:
                # It raises from now on, and nothing later would show: back to before this change.
                self.restore(steps)
            elif seen or rng.random() < KEEP_UNSEEN:
                steps.append((statement,) if rng.random() < 0.8 or not steps[-1] else (*steps.pop(), statement))
                if now[0]:
                    calls = min(calls, len(steps) + 1)
            last = now if not now[0] else last
        return tuple(steps)

    def apply(self, statement: str) -> None:
        with contextlib.suppress(Exception):
            exec(compile(statement, "<change>", "exec", dont_inherit=True), vars(self.module))

    def restore(self, steps: list[tuple[str, ...]]) -> None:
        """A new scratch world in which the steps so far were taken."""
        clean_tensors()
        self.module = sys.modules[SCRATCH] = types.ModuleType(SCRATCH)
        exec(self.code, vars(self.module))
        for step in steps:
            for statement in step:
                self.apply(statement)
            self.call()
