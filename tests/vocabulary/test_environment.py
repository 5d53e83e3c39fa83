"""Variables that nothing reads are named, with the one that was meant."""

from __future__ import annotations

import pytest

from framelift.vocabulary.environment import VARIABLES, unknown_variables


def test_unknown_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    before = unknown_variables()
    monkeypatch.setenv("FRAMELIFT_RECOMPILE_LIMTI", "4")
    monkeypatch.setenv("FRAMELIFT_ZZZ", "1")
    monkeypatch.setenv("FRAMELIFT_RECOMPILE_LIMIT", "4")
    for name in VARIABLES:
        monkeypatch.setenv(name, "")
    found = unknown_variables()
    assert {name: found[name] for name in found.keys() - before.keys()} == {
        "FRAMELIFT_RECOMPILE_LIMTI": "nothing reads it; did you mean FRAMELIFT_RECOMPILE_LIMIT?",
        "FRAMELIFT_ZZZ": "nothing reads it",
    }
