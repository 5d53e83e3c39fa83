"""Declared reasons: ids that stay, and sentences with a place for the detail."""

from __future__ import annotations

import re
import string

import pytest

from framelift.vocabulary.reasons import REASONS, Interrupt, written


def test_ids_and_sentences() -> None:
    for name, reason in REASONS.items():
        assert reason.id == name and re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", name)
        fields = {field for _, field, _, _ in string.Formatter().parse(reason.sentence) if field is not None}
        assert fields <= {"detail"} and reason.hint, name


def test_an_interrupt_is_a_declared_reason_with_its_detail() -> None:
    assert Interrupt("tensor-bool", "TensorBase.__bool__").sentence.endswith("(Tensor.__bool__)")
    with pytest.raises(AssertionError):
        Interrupt("no-such-reason")
    assert not issubclass(Interrupt, Exception)  # programs that catch all exceptions do not catch it


@pytest.mark.parametrize(
    ("name", "as_written"),
    [("TensorBase.item", "Tensor.item"), ("io.open", "open"), ("Tensor.__int__", "int(tensor)"), ("len", "len")],
)
def test_names_as_programs_write_them(name: str, as_written: str) -> None:
    assert written(name) == as_written
