"""Operations tried while capturing, which the graph will run for real: their warnings are the graph's to give.

Some warnings torch gives once in a process, and remembers that it gave them. Under `torch.set_warn_always(True)` it
remembers nothing, so a warning of such a try does not use up the one that the user should see.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..._core import insist
from ...vocabulary.quiet_capture import quietly
from ...vocabulary.scopes import scope


@scope
def unheard() -> Iterator[None]:
    """Warnings are not shown, and what is said once in a process is not used up."""
    before = torch.is_warn_always_enabled()
    try:
        torch.set_warn_always(True)
        with quietly():
            yield
    finally:
        insist(lambda: torch.set_warn_always(before))
