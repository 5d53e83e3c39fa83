"""Why a capture is not kept on disk, or a kept one not used."""

from __future__ import annotations


class NotKept(Exception):
    """A capture has something that cannot be written.  `what` is the reason alone, without the thing it is about."""

    def __init__(self, what: str, thing: str = "") -> None:
        super().__init__(f"{what}: {thing}" if thing else what)
        self.what = what


class NotMine(Exception):
    """A kept capture is not for this process or this call."""


class Unbound(NotMine):
    """An object without a name was asked for before a guard led to it."""
