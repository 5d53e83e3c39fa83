"""What tests of torch's names share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def installed() -> Iterator[None]:
    """The drop-in is installed, and both front ends start afresh."""
    import torch._dynamo

    import framelift

    with framelift.installed():
        torch._dynamo.reset()
        yield
        torch._dynamo.reset()
