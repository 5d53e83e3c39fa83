"""Rules that are about some frames, by the number in their compile ids: `"0,4-6:eager;>10:aot_eager"`.

The options `debug_backend_override`, `debug_dynamo_config_override` and `debug_inductor_config_override` have them.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from typing import Any

from ..exc import IncorrectUsage
from ..torch_ports.fakes import CompileContext

_COMPARISONS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
_CONSTANTS = {"true": True, "false": False, "none": None}

Rule = tuple[Callable[[int], bool], str]


class NoRule(IncorrectUsage, ValueError):
    """A text that is no list of rules, or rules that contradict each other."""


@functools.cache
def parse(text: str, option: str = "debug_backend_override") -> tuple[Rule, ...]:
    """Each rule: whether it is for a frame, and what follows the colon.

    >>> [value for fits, value in parse("0,4-6:eager;>10:aot_eager") if fits(5) or fits(11)]
    ['eager', 'aot_eager']
    >>> parse("eager")
    Traceback (most recent call last):
    framelift.capture.frame_rules.NoRule: 'eager' is no rule of debug_backend_override: ...
    """
    rules = []
    for rule in filter(None, (part.strip() for part in text.split(";"))):
        frames, colon, value = rule.partition(":")
        tests = [_test(part.strip()) for part in frames.split(",")]
        if not colon or not value.strip() or None in tests:
            raise NoRule(f"{rule!r} is no rule of {option}: write frames:value, as in 0,4-6:eager;>10:aot_eager")
        rules.append((functools.partial(_fits, tuple(filter(None, tests))), value.strip()))
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


def frame_now() -> int:
    """The number of the frame that is being captured; -1: none."""
    current = CompileContext.current_compile_id()
    return current.frame_id if current is not None and current.frame_id is not None else -1


def values_for(text: str, option: str, frame: int) -> list[str]:
    """Return the values that the rules for a frame give an option, in their order."""
    return [value for fits, value in parse(text, option) if fits(frame)]


def options_for(text: str, option: str, frame: int) -> dict[str, Any]:
    """The options that all rules for a frame set together.

    >>> options_for("0:a=1,b=x;>=0:c=false", "debug_dynamo_config_override", 0)
    {'a': 1, 'b': 'x', 'c': False}
    >>> options_for("0:a=1;>=0:a=2", "debug_dynamo_config_override", 0)
    Traceback (most recent call last):
    framelift.capture.frame_rules.NoRule: debug_dynamo_config_override sets a of frame 0 to 1 and to 2
    """
    found: dict[str, Any] = {}
    for part in ",".join(values_for(text, option, frame)).split(","):
        name, equals, value = (one.strip() for one in part.partition("="))
        if not part.strip():
            continue
        if not equals:
            raise NoRule(f"{part!r} is no setting of {option}: write option=value")
        new = _value(value)
        if found.setdefault(name, new) != new:
            raise NoRule(f"{option} sets {name} of frame {frame} to {found[name]} and to {new}")
    return found


def _value(text: str) -> Any:
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text
