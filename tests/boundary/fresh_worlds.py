"""A helper of tests.

Programs that make their own world, run plainly and captured in one each, with the same changes between calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import framelift

__all__ = ["in_fresh_worlds"]


def in_fresh_worlds(
    make: Callable[[], tuple[Callable[..., Any], Sequence[Callable[[], Any]]]], *, whole: bool = False
) -> None:
    """`make` gives a program of one tensor and changes of its world.  `whole`: without any break."""

    def run(wrap: Callable[[Any], Any]) -> list[Any]:
        program, changes = make()
        target = wrap(program)
        results = [target(torch.ones(2))]
        for change in changes:
            change()
            results.append(target(torch.ones(2)))
        return [result.tolist() for result in results]

    framelift.reset()
    assert run(lambda f: framelift.compile(f, backend="eager", fullgraph=whole)) == run(lambda f: f)
