"""Another backend for some graphs, to find the one that fails: by compile id (`config.debug_backend_override`), or as
torch's CompilerBisector says.
"""

from __future__ import annotations

import functools
import operator
import re
import sys
from collections.abc import Callable

from torch._guards import CompileContext

from .. import config
from ..exc import IncorrectUsage

__all__ = ["backend_for_now", "parse"]

_COMPARISONS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}


class NoRule(IncorrectUsage, ValueError):
    """`debug_backend_override` cannot be read."""


Rule = tuple[Callable[[int], bool], str]


@functools.lru_cache(maxsize=16)
def parse(text: str) -> tuple[Rule, ...]:
    """`"0,4-6:eager;>10:aot_eager"` as rules, the first that fits being meant: whether it is for a frame, and the
    backend.

    >>> [backend for fits, backend in parse("0,4-6:eager;>10:aot_eager") if fits(5) or fits(11)]
    ['eager', 'aot_eager']
    >>> parse("eager")
    Traceback (most recent call last):
    framelift.backends.overrides.NoRule: 'eager' is no rule of debug_backend_override: ...
    """
    rules = []
    for rule in filter(None, (part.strip() for part in text.split(";"))):
        frames, colon, backend = rule.partition(":")
        tests = [_test(part.strip()) for part in frames.split(",")]
        if not colon or not backend.strip() or None in tests:
            raise NoRule(
                f"{rule!r} is no rule of debug_backend_override: write frames:backend, as in 0,4-6:eager;>10:aot_eager"
            )
        rules.append((functools.partial(_fits, tuple(filter(None, tests))), backend.strip()))
    return tuple(rules)


def _fits(tests: tuple[Callable[[int], bool], ...], frame: int) -> bool:
    return any(test(frame) for test in tests)


def _test(text: str) -> Callable[[int], bool] | None:
    compared = re.fullmatch(r"(>=|>|<=|<)(\d+)", text)
    if compared:
        compare, bound = _COMPARISONS[compared[1]], int(compared[2])
        return lambda frame: bool(compare(frame, bound))
    spanned = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if spanned:
        first, last = int(spanned[1]), int(spanned[2] or spanned[1])
        return lambda frame: first <= frame <= last
    return None


def backend_for_now() -> str | None:
    """The backend that the capture going on is to use in place of its own; None: its own."""
    if config.debug_backend_override:
        current = CompileContext.current_compile_id()
        frame = current.frame_id if current is not None and current.frame_id is not None else -1
        for fits, backend in parse(config.debug_backend_override):
            if fits(frame):
                return backend
    bisector = sys.modules.get("torch._inductor.compiler_bisector")
    found: str | None = bisector.CompilerBisector.get_backend() if bisector is not None else None
    return found
