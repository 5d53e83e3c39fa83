"""Kept captures as part of what `torch.compiler.save_cache_artifacts` saves.

Such a bundle is what its reader trusts: Inductor runs code from it.  So captures in it are authenticated anew, with the
key of the user who loads it.  Reading one runs nothing.
"""

from __future__ import annotations

import json
from typing import Any

from .. import config
from ..torch_ports.compilers import CacheArtifact, CacheArtifactFactory, CacheArtifactManager
from ..vocabulary.log import topic
from . import store
from .refusals import NotMine


@CacheArtifactFactory.register
class KeptCapture(CacheArtifact):
    """One capture.  `key` is its place below the folder.  Its content is read from there when it is saved: most
    processes save none.
    """

    _read: bytes

    def __init__(self, key: str, content: bytes = b"") -> None:
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "_read", content)

    @property
    def content(self) -> bytes:  # a field of the base class
        """The record; empty where its file is gone."""
        found: bytes = self._read or store.content_of(self.key) or b""
        return found

    def __eq__(self, other: object) -> bool:
        return type(other) is KeptCapture and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def populate_cache(self) -> None:
        """Keep the capture here too."""
        if not config.cache:
            topic("cache").info("a capture of a bundle is not kept: the cache is off")
            return
        key, slash, _ = self.key.partition("/")
        try:
            data = json.loads(self.content)
            if not slash or not store.is_key(key) or type(data) is not dict:
                raise ValueError("it is no capture")
            store.write(key, data)
        except (OSError, ValueError, RecursionError, NotMine) as error:
            topic("cache").info("a capture of a bundle is not kept: %r: %s", self.key, error)

    @staticmethod
    def encode(content: Any) -> bytes:
        """Nothing is handed over: the content is read when it is saved."""
        return b""

    @staticmethod
    def type() -> str:
        """The name of these among the artifacts of torch."""
        return "framelift"


def note(path: str) -> None:
    """A capture was written or used: it is part of what is saved."""
    CacheArtifactManager.record_artifact(KeptCapture.type(), store.place_of(path), None)
