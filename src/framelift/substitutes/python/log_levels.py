"""logging: whether a message would be logged is a fact about levels; asking changes only a cache."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ... import _core
from ...calls.call_tables import substitute
from ...vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ...recording.session import Session


@substitute(logging.Logger.isEnabledFor)
def _is_enabled_for(session: Session, self: logging.Logger, level: int) -> bool:
    if _core.read(self, "disabled"):
        return False
    below: bool = _core.read(_core.read(self, "manager"), "disable") >= level
    answer = not below and level >= _core.captured(_core.read(self, "getEffectiveLevel"), (), None)
    if self._cache.get(level, answer) is not answer:  # type: ignore[attr-defined]  # private in typeshed
        raise Interrupt("unknown-callable", "Logger.isEnabledFor (a level was changed without clearing its cache)")
    return answer
