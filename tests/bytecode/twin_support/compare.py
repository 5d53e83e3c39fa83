"""Runs a program plainly and as twins and says where they differ.  Usable as a script: all programs, one interpreter.

python compare.py        # prints a line per program that differs; status 1 if any does
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import CO_VARARGS, CO_VARKEYWORDS
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

# `bytecode` is imported on its own, since framelift itself needs torch; its neighbours must not become importable with
# it.
_ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = _ADDED = [str(_ROOT / "src" / "framelift"), str(_ROOT / "tests" / "bytecode")]

from bytecode import make_twin  # noqa: E402
from twin_support.checker import check_round_trip, check_structure, with_nested  # noqa: E402
from bytecode.decode import instructions  # noqa: E402
from bytecode.dialects import current  # noqa: E402
from twin_support.passthrough import passthrough  # noqa: E402
from twin_support.trial import Trial  # noqa: E402
from twin_support.programs import PROGRAMS  # noqa: E402

sys.path[:] = [path for path in sys.path if path != _ADDED[0]]

__all__ = ["compiled", "defects", "outcome", "plain_outcome", "probed_opcodes", "run_positional", "run_trial"]

FILE = "<program>"


def compiled(name: str) -> CodeType:
    """The program's module code."""
    return compile(PROGRAMS[name], FILE, "exec", dont_inherit=True)


def outcome(run: Callable[[], Any]) -> tuple[Any, ...]:
    """A result as text, or an error with everything a traceback shows of it."""
    try:
        return "result", repr(run())
    except Exception as error:
        return "error", _described(error)


def _described(error: BaseException | None) -> tuple[Any, ...] | None:
    if error is None:
        return None
    places, tb = [], error.__traceback__
    while tb:
        code = tb.tb_frame.f_code
        if code.co_filename == FILE:
            positions = list(code.co_positions())[tb.tb_lasti // 2]
            places.append((code.co_qualname, tb.tb_lineno, positions))
        tb = tb.tb_next
    return (
        type(error),
        str(error),
        getattr(error, "name", None),
        tuple(places),
        _described(error.__cause__),
        _described(error.__context__),
    )


def plain_outcome(name: str) -> tuple[Any, ...]:
    """The program as it is."""
    namespace: dict[str, Any] = {"__name__": "program", "__file__": __file__}
    exec(compiled(name), namespace)
    return outcome(namespace["run"])


def run_trial(name: str) -> tuple[Any, ...]:
    """The program with all of its code as twins: module, class bodies, functions."""
    namespace: dict[str, Any] = {"__name__": "program", "__file__": __file__}
    exec(Trial().twin(compiled(name)), namespace)
    return outcome(namespace["run"])


def run_positional(name: str) -> tuple[Any, ...]:
    """The program's functions as twins that take all parameters by position, over probes that are all Python code."""

    def positional(function: FunctionType) -> FunctionType:
        code = function.__code__
        if not code.co_kwonlyargcount and not code.co_flags & (CO_VARARGS | CO_VARKEYWORDS):
            # Binding keywords and stars is the frame hook's work; functions without them can be called as they are.
            function.__code__ = make_twin(code, probes)
        return function

    probes = passthrough(make_function=positional)
    namespace: dict[str, Any] = {"__name__": "program", "__file__": __file__}
    exec(make_twin(compiled(name), probes), namespace)
    return outcome(namespace["run"])


def probed_opcodes(name: str) -> set[str]:
    """Opcodes with a rule that occur in the program."""
    present = {i.name for code in with_nested(compiled(name)) for i in instructions(code.co_code)}
    return present & set(current().table)


def defects(name: str) -> list[str]:
    """All that is wrong with a program's twins."""
    found = [
        f"{code.co_qualname}: {text}"
        for code in with_nested(compiled(name))
        for text in check_round_trip(code) + check_structure(code)
    ]
    plain, twinned = plain_outcome(name), run_trial(name)
    if plain != twinned:
        found.append(f"plain {plain}\nas twins {twinned}")
    return found


def main() -> int:
    """Check all programs with this interpreter."""
    differing = 0
    for name in PROGRAMS:
        for defect in defects(name):
            differing += 1
            print(f"{name}: {defect}")
    missing = set(current().table) - set().union(*map(probed_opcodes, PROGRAMS))
    if missing:
        print("no program has", sorted(missing))
    print(f"CPython {sys.version.split()[0]}: {len(PROGRAMS)} programs, {differing} defects")
    return bool(differing or missing)


if __name__ == "__main__":
    sys.exit(main())
