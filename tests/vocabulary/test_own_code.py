"""Which code is framelift's own."""

from __future__ import annotations

import os

import torch

import framelift
from framelift.vocabulary import own_code
from framelift.vocabulary.own_code import (
    begins_rehearsal,
    captured_functions,
    is_beginning,
    is_captured_function,
    is_own_code,
    own_file,
)


def test_files_decide() -> None:
    assert is_own_code(own_code.own_file.__code__) and os.path.isfile(own_file("vocabulary", "own_code.py"))
    assert not is_own_code(torch.nn.Linear.forward.__code__) and not is_own_code(test_files_decide.__code__)
    assert own_code.FRAMELIFT == os.path.dirname(os.path.abspath(framelift.__file__)) + os.sep


def test_functions_that_programs_are_given() -> None:
    given = captured_functions("def outer():\n    def inner(): pass\n    return inner", "<given>")["outer"]
    assert is_captured_function(given.__code__) and is_captured_function(given().__code__)
    assert not is_captured_function(test_files_decide.__code__)


def test_beginnings_are_marked() -> None:
    def marked() -> None:
        pass

    try:
        assert begins_rehearsal(marked) is marked and is_beginning(marked.__code__)
        assert not is_beginning(test_beginnings_are_marked.__code__)
    finally:
        del own_code._BEGINNINGS[id(marked.__code__)]
