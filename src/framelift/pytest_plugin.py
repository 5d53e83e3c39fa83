"""A pytest plugin: the fixture `captured` and the marker `captured`.

    def test_model(captured):
        captured(model, x)                       # one graph, no break, no recompile

    @pytest.mark.captured(graphs=2, breaks=1)    # what the fixture expects in this test
    def test_other(captured):
        captured(model, x)

Installed packages load it by themselves; otherwise: `pytest -p framelift.pytest_plugin`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest


def pytest_configure(config: Any) -> None:
    config.addinivalue_line(
        "markers", "captured(graphs=1, recompiles=0, breaks=0): what the fixture `captured` expects"
    )


@pytest.fixture
def captured(request: Any) -> Callable[..., Any]:
    """`framelift.testing.assert_captured` with the numbers of the test's marker."""
    from .testing import assert_captured

    marker = request.node.get_closest_marker("captured")
    return functools.partial(assert_captured, **(dict(marker.kwargs) if marker is not None else {}))
