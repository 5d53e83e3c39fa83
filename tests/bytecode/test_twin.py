"""Twins are the same program with probes in it: same results, errors, positions, handlers, whatever the opcode.

The programs are in `twin_support/programs.py`; `tools/twin_check.py` does the same with the whole standard library.
"""

from __future__ import annotations

import dis
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twin_support.compare import compiled, defects, plain_outcome, probed_opcodes, run_positional
from twin_support.programs import PROGRAMS

import bytecode as twin
from twin_support import checker

from bytecode import handlers, locations
from bytecode.decode import instructions
from bytecode.dialects import current
from bytecode.maker import AnyProbe, twin_with
from twin_support.passthrough import passthrough
from twin_support.trial import Trial

from other_pythons import OTHERS, interpreter

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "twin_check.py"


class Touched(Exception):
    """A probe was reached."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_as_twins(name: str) -> None:
    assert defects(name) == []


def test_every_probed_opcode_has_a_program() -> None:
    assert set().union(*map(probed_opcodes, PROGRAMS)) == set(current().table)


def test_every_probe_is_reached() -> None:
    absent = {"load_super_attr"} if sys.version_info < (3, 12) else set()
    for probe in twin.PROBES:

        def touch(*_: Any, probe: str = probe, **__: Any) -> None:
            raise Touched(probe)

        assert _reached(probe, touch) != (probe in absent), probe


def _reached(probe: str, touch: Any) -> bool:
    for name in PROGRAMS:
        trial = Trial(**{probe: touch})
        namespace: dict[str, Any] = {"__name__": "program", "__file__": __file__}
        try:
            exec(trial.twin(compiled(name)), namespace)
            namespace["run"]()
        except Touched:
            return True
        except Exception:
            continue
    return False


def test_rules_use_declared_probes_only() -> None:
    asked: set[str] = set()

    class Asking(AnyProbe):
        def __missing__(self, name: str) -> None:
            asked.add(name)

    for name in PROGRAMS:
        for code in checker.with_nested(compiled(name)):
            twin_with(current(), code, Asking(), False)
    assert asked <= set(twin.PROBES)


@pytest.mark.parametrize(
    "name",
    [
        "calls",
        "closures",
        "comprehensions",
        "decorators",
        "attributes",
        "generators",
        "async",
        "with",
        "match",
        "class_bodies",
        "exceptions",
    ],
)
def test_positional_twins_through_the_python_call_probe(name: str) -> None:
    assert run_positional(name) == plain_outcome(name)


def _parameters(a: int, /, b: int, *args: int, c: int = 3, **kwargs: int) -> tuple[Any, ...]:
    def use() -> Any:
        return kwargs

    return a, b, args, c, use()


def test_positional_twin_takes_all_parameters_in_the_order_of_the_locals() -> None:
    code = twin.make_twin(_parameters.__code__, passthrough())
    assert (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount) == (5, 0, 0)
    assert not code.co_flags & 12
    assert code.co_varnames[:5] == ("a", "b", "c", "args", "kwargs")
    assert FunctionType(code, globals())(1, 2, 30, (4,), {"d": 5}) == _parameters(1, 2, 4, c=30, d=5)


def test_signature_stays_without_positional() -> None:
    code = twin.make_twin(_parameters.__code__, passthrough(), positional=False)
    for field in ("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags"):
        assert getattr(code, field) == getattr(_parameters.__code__, field)


def test_probes_and_nested_code_are_the_objects_themselves() -> None:
    probes = passthrough()
    code = twin.make_twin(_parameters.__code__, probes)
    nested = [c for c in _parameters.__code__.co_consts if isinstance(c, CodeType)]
    assert nested and all(any(c is d for d in code.co_consts) for c in nested)
    assert any(c is probes["make_function"] for c in code.co_consts)


def test_star_calls_reach_the_call_probe_under_the_marker_names() -> None:
    seen = []

    def call(*args: Any, **kwargs: Any) -> Any:
        seen.append((args, kwargs))
        return passthrough()["call"](*args, **kwargs)

    def f(x: Any, y: Any) -> Any:
        return max(*x, **y)

    code = twin.make_twin(f.__code__, passthrough(call=call))
    assert FunctionType(code, globals())([1, 3], {"key": abs}) == 3
    assert seen == [((max,), {twin.EX_ARGS: [1, 3], twin.EX_KWARGS: {"key": abs}})]


def test_a_probe_that_is_missing_is_named() -> None:
    with pytest.raises(KeyError, match="load_global"):
        twin.make_twin((lambda: missing).__code__, {})  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("name", ["exceptions", "jumps_that_grow", "many_names"])
def test_layout_goes_there_and_back(name: str) -> None:
    for code in checker.with_nested(compiled(name)):
        placed, copy = twin.layout(code), twin.make_twin(code, AnyProbe())
        starts = [i.start for i in instructions(code.co_code)]
        for start, end in zip(starts, [*starts[1:], len(code.co_code) // 2]):
            first, last = 2 * placed.place(start), 2 * placed.place(end)
            # A decorator's PRECALL and CALL are replaced together, so the second of them has no place of its own.
            if placed.to_original(first) == 2 * start:
                assert {placed.to_original(o) // 2 for o in range(first, last, 2)} <= set(range(start, end))
        assert 2 * placed.place(len(code.co_code) // 2) == len(copy.co_code)


def _every_kind_of_location() -> list[bytes]:
    short, one_line = bytes((0x80 | 3 << 3 | 2, 0x15)), bytes((0x80 | 11 << 3 | 1, 4, 9))
    no_column, long = bytes((0x80 | 13 << 3 | 0, 0x06)), bytes((0x80 | 14 << 3 | 3, 0x42, 0x01, 2, 5, 7))
    return [short, one_line, no_column, long, bytes((0x80 | 15 << 3 | 1,)), short, long, one_line]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 40)), max_size=12))
def test_stretched_locations_keep_every_position(changes: list[tuple[int, int]]) -> None:
    entries = _every_kind_of_location()
    lengths = [(e[0] & 7) + 1 for e in entries]
    code = compile("0", "f", "exec").replace(co_code=dis.opmap["NOP"].to_bytes(1, "little") + b"\0", co_linetable=b"")
    nop = bytes((dis.opmap["NOP"], 0))
    before = code.replace(co_code=nop * sum(lengths), co_linetable=b"".join(entries))
    growth: dict[int, int] = {}
    for index, more in changes:
        growth[sum(lengths[:index])] = growth.get(sum(lengths[:index]), 0) + more
    starts = sorted(growth)
    table = locations.stretch(before.co_linetable, starts, [growth[s] for s in starts])
    after = before.replace(co_code=nop * (sum(lengths) + sum(growth.values())), co_linetable=table)
    want = []
    for unit, position in enumerate(before.co_positions()):
        want += [position] * (1 + growth.get(unit, 0))
    assert list(after.co_positions()) == want


_unit = st.integers(0, 1 << 20)


@given(st.lists(st.tuples(_unit, _unit, _unit, st.integers(0, 300))))
def test_exception_tables_round_trip(entries: list[tuple[int, int, int, int]]) -> None:
    entries = [(start, start + length, target, depth) for start, length, target, depth in entries]
    assert handlers.decode(handlers.encode(entries)) == entries


def test_the_checker_sees_defects() -> None:
    code = next(c for c in checker.with_nested(compiled("exceptions")) if c.co_name == "risky")
    table = current()
    number = dis.opmap["LOAD_GLOBAL"]
    wrong = (*table.rules[:number], lambda w, arg: w.probe["load_global"] + w.probe["call"], *table.rules[number + 1 :])
    assert any("stack effect" in text for text in checker.check_structure(code, replace(table, rules=wrong)))
    assert checker.check_structure(code, replace(table, rules=wrong)) != checker.check_structure(code) == []


@pytest.mark.parametrize("package", ["asyncio", "collections", "unittest", "json"])
def test_library_package(package: str) -> None:
    found = [
        (code.co_qualname, text)
        for code in checker.library_code(Path(os.__file__).parent / package)
        for text in checker.check_round_trip(code) + checker.check_structure(code)
    ]
    assert found == []


def test_library_tests_behave_the_same() -> None:
    done = subprocess.run(
        [sys.executable, str(TOOL), "behaviour", "test_list", "test_patma", "test_generators", "test_super"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", OTHERS)
def test_other_versions(version: tuple[int, int]) -> None:
    script = Path(__file__).parent / "twin_support" / "compare.py"
    done = subprocess.run([interpreter(version), "-W", "ignore", str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
