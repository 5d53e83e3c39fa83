"""Tensors whose values do not depend on anything from outside: made by factories and by operations on such tensors.

Where captured code takes such a value into Python (`mask.any()`, `torch.linspace(0, 1, n).tolist()`), the steps that made it are
run for real, on private tensors, and the answer is as constant as the program's own numbers are.  Nothing is computed before
somebody asks.
"""

from __future__ import annotations

from typing import Any

import torch

from ..graph.arguments import rebuild
from ..graph.tape import Step
from ..graph.targets import Getter
from ..graph.values import Body, Value

__all__ = ["KnownValues"]

_MOST_ELEMENTS = 1 << 20
_UNKNOWN = object()


class KnownValues:
    """The constant part of one tape, run as far as somebody asked."""

    def __init__(self, tape: list[Step]) -> None:
        self._tape = tape
        self._done = 0
        self._results: dict[int, Any] = {}      # by id of the step
        self._lost: set[int] = set()            # ids of storages that hold something unknown

    def tensor(self, value: Value) -> torch.Tensor | None:
        """The real tensor, or None where it depends on the outside, on random numbers, or is large.  Torch function must be off."""
        while self._done < len(self._tape):
            step = self._tape[self._done]
            self._done += 1
            self._results[id(step)] = self._run(step)
        return self._known(value)

    def _known(self, value: Value) -> torch.Tensor | None:
        result = self._results.get(id(value.step), _UNKNOWN)
        if result is _UNKNOWN or value.external is not None or id(value.storage) in self._lost:
            return None
        for index in value.path:
            result = result[index]
        return result if isinstance(result, torch.Tensor) else None

    def _run(self, step: Step) -> Any:
        found = [self._known(value) for value in step.inputs]
        if any(one is None for one in found) or not self._may_run(step, found):
            if step.effect:   # it may have written to what it was given
                self._lost.update(id(value.storage) for value in step.inputs)
            return _UNKNOWN
        real = {id(value): one for value, one in zip(step.inputs, found)}
        args = [rebuild(arg, lambda value: real[id(value)]) for arg in step.args]
        named = {name: rebuild(arg, lambda value: real[id(value)]) for name, arg in step.kwargs.items()}
        try:
            with torch.no_grad():
                return getattr(args[0], step.target.name) if type(step.target) is Getter else step.target.func(*args, **named)
        except Exception:   # the graph will raise it, if it gets there
            self._lost.update(id(value.storage) for value in step.inputs)
            return _UNKNOWN

    @staticmethod
    def _may_run(step: Step, found: list[Any]) -> bool:
        if step.stays or step.state.autocast is not None or step.state.inference or any(isinstance(arg, Body) for arg in step.args):
            return False
        sizes = [arg for arg in step.args if type(arg) is int]
        return all(one.numel() <= _MOST_ELEMENTS for one in found) and all(abs(size) <= _MOST_ELEMENTS for size in sizes)
