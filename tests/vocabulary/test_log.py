"""The topics of the logs, as FRAMELIFT_LOGS and `set_logs` choose them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from framelift.vocabulary.log import TOPICS, _configure, set_logs, topic


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    yield
    set_logs()


def levels() -> dict[str, int]:
    return {name: topic(name).level for name in TOPICS if topic(name).level}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("breaks, recompiles", {"breaks": logging.INFO, "recompiles": logging.INFO}),
        ("+guards", {"guards": logging.DEBUG}),
        ("all,-perf", dict.fromkeys(TOPICS.keys() - {"perf"}, logging.INFO)),
        ("", {}),
    ],
)
def test_topics_of_the_variable(text: str, expected: dict[str, int]) -> None:
    _configure(text)
    assert levels() == expected


def test_unknown_topics_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    _configure("braeks,perf")
    assert "no topic 'braeks'" in capsys.readouterr().err and levels() == {"perf": logging.INFO}
    with pytest.raises(ValueError, match="no topic is called braeks"):
        set_logs(braeks=True)


def test_the_next_choice_replaces_the_one_before() -> None:
    set_logs(breaks=True)
    set_logs(graph=logging.WARNING)
    assert levels() == {"graph": logging.WARNING}
