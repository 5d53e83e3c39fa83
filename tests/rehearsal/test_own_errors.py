"""Errors out of framelift's own code are distinguished from those that a handler raises for the program."""

from __future__ import annotations

from typing import Any

import pytest

from framelift.exc import InternalError
from framelift.rehearsal.own_errors import fault_of
from framelift.torch_ports.port import MissingPart
from framelift.vocabulary.own_code import own_file
from framelift.vocabulary.reasons import Interrupt

PROGRAMS = {
    "None.x": InternalError,
    "missing_name": InternalError,
    "own.missing_part": InternalError,
    "given.missing": None,  # an object of the program's
    "1 // 0": None,
    "{}['key']": None,
}


class Given:
    pass


def _judged(source: str, file: str) -> Any:
    space = {"own": Interrupt("tensor-bool"), "given": Given()}
    try:
        eval(compile(source, file, "eval"), space)
    except Exception as error:
        return fault_of(error, error.__traceback__.tb_next if error.__traceback__ else None)
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("source", PROGRAMS)
def test_faults_of_framelift(source: str) -> None:
    found, expected = _judged(source, own_file("rehearsal", "session.py")), PROGRAMS[source]
    assert (None if found is None else type(found)) is expected


@pytest.mark.parametrize("source", PROGRAMS)
def test_errors_of_the_program_are_its_own(source: str) -> None:
    assert _judged(source, __file__) is None


def test_a_defect_names_the_function_and_keeps_its_cause() -> None:
    found = _judged("None.x", own_file("rehearsal", "session.py"))
    assert str(found).startswith("AttributeError in <module>: ") and type(found.__cause__) is AttributeError


def test_a_missing_part_of_torch_is_a_graph_break() -> None:
    found = fault_of(MissingPart("torch has no such part"), None)
    assert type(found) is Interrupt and found.reason.id == "missing-part"
