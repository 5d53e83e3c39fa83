"""Each declared reason has a kind, and none that is not declared."""

from __future__ import annotations

from framelift.vocabulary.break_kinds import _CASES, _ROWS, ASKED_FOR, KINDS, export_case, kind_of
from framelift.vocabulary.reasons import REASONS


def test_every_reason_has_one_kind() -> None:
    rows = [reason for reasons in _ROWS.values() for reason in reasons.split()]
    assert set(KINDS) == set(REASONS) >= set(rows) and len(rows) == len(set(rows))
    assert kind_of("disabled") == ASKED_FOR


def test_cases_of_export() -> None:
    assert set(_CASES) <= set(REASONS)
    assert (export_case("tensor-bool") or "").endswith("#cond-operands") and export_case("disabled") is None
