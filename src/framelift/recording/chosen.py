"""Results that are copies of one of several tensors, where eager mode gives that tensor itself: who may see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _core
from ..graph.fx.values import Storage, Value
from ..vocabulary.reasons import Interrupt
from .session import Recorder


class Chosen:
    """Such results of one rehearsal, with the tensors that each may be.

    Nobody writes to any of them, or asks which is which (`Storage.shared`); and where such a result leaves the frame,
    none of the others does.
    """

    def __init__(self) -> None:
        self._groups: list[tuple[set[Storage], set[Storage]]] = []  # (copies, all that they may be one with)

    def add(self, result: Value, operands: Sequence[Value]) -> None:
        """A result that is a copy of one of these."""
        _core.tensors_meet()
        copies, every = {result.storage}, {value.storage for value in (result, *operands)}
        for storage in every:
            storage.shared = True
        for group in [group for group in self._groups if not every.isdisjoint(group[1])]:
            copies |= group[0]
            every |= group[1]
            self._groups.remove(group)
        self._groups.append((copies, every))

    def check(self, recorder: Recorder, outputs: Sequence[Any]) -> None:
        """Interrupt where two that may be one leave the frame."""
        left = {value.storage for value in outputs if type(value) is Value}
        for copies, every in self._groups:
            if len(left & every) > 1 and left & copies:
                stop = Interrupt("tensor-bool", "max or min, whose result and an operand of which leave the frame")
                stop.first = recorder.knowledge.lesson("chooses_eagerly")
                raise stop
