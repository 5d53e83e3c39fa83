"""Why a kept capture is not used."""

from __future__ import annotations


class NotMine(Exception):
    """A kept capture is not for this process or this call."""


class Unbound(NotMine):
    """An object without a name was asked for before a guard led to it."""
