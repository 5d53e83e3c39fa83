"""The table of options: which values an option takes."""

from __future__ import annotations

from typing import Any

import pytest

from framelift.vocabulary.options import OPTIONS
from framelift.vocabulary.options_without_effect import WITHOUT_EFFECT


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("recompile_limit", 4, True),
        ("recompile_limit", True, False),
        ("recompile_limit", "4", False),
        ("disable", True, True),
        ("disable", 1, False),
    ],
)
def test_types_of_values(name: str, value: Any, accepted: bool) -> None:
    assert OPTIONS[name].accepts(value) is accepted


def test_each_option_accepts_its_default() -> None:
    assert [name for name, option in OPTIONS.items() if not option.accepts(option.default)] == []


def test_an_alias_is_the_name_of_an_option_that_has_none() -> None:
    aliases = [option.alias for option in OPTIONS.values() if option.alias]
    assert aliases and not [name for name in aliases if OPTIONS[name].alias]


def test_options_without_effect_say_why_and_take_anything() -> None:
    for why, rows in WITHOUT_EFFECT.items():
        for name in rows:
            assert OPTIONS[name].ignored == why and OPTIONS[name].accepts(object())


def test_containers_are_copied() -> None:
    for option in OPTIONS.values():
        if type(option.default) in (list, dict, set):
            assert option.fresh() == option.default and option.fresh() is not option.default
