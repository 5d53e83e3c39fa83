"""The records of the kept matrix: kinds of values, places where a module holds one, and the modules made of both."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Kind", "Place", "Use", "module_text"]


@dataclass(frozen=True)
class Kind:
    """A kind of value.  Its class and the expression for the value have a hole, `@`, for the payload.

    `edits`: name -> what the payload becomes.  `swaps`: name -> (old, new), an edit of the text of the class.  None
    of them changes the number of lines.
    """

    name: str
    value: str
    payload: str
    edits: dict[str, str]
    uses: tuple[str, ...]
    before: str = "pass"  # the lines that come first: the class of the value
    swaps: dict[str, tuple[str, str]] = field(default_factory=dict)
    hashable: bool = True
    not_kept: str = ""  # a part of the reason, where captures that meet such a value are not kept

    def versions(self) -> list[tuple[str, str, str]]:
        """[name of the edit, lines before, expression of the value], the unedited one first."""
        rows = [("same", self.before.replace("@", self.payload), self.value.replace("@", self.payload))]
        for name, payload in self.edits.items():
            rows.append((name, self.before.replace("@", payload), self.value.replace("@", payload)))
        for name, (old, new) in self.swaps.items():
            assert old in self.before, (self.name, name)
            before = self.before.replace(old, new).replace("@", self.payload)
            rows.append((name, before, self.value.replace("@", self.payload)))
        return rows


@dataclass(frozen=True)
class Use:
    """What is done with a value `v` and a tensor `x`: an expression of what plain Python gives."""

    name: str
    text: str


@dataclass(frozen=True)
class Place:
    """Where a module holds the value: its lines, with holes for the value's expression and for the use."""

    name: str
    text: str
    hashable: bool = False  # only for values that have a hash
    not_kept: str = ""


HEAD = """\
import collections, dataclasses, datetime, decimal, enum, fractions, functools, operator, re, struct, sys, types, typing
import numpy, torch
ARGS, KWARGS = (), {}
"""


def module_text(place: Place, before: str, value: str, use: str) -> str:
    """The text of the module of one cell.  It has a function `f`, called with a tensor, ARGS and KWARGS."""
    return f"{HEAD}{before}\n{place.text.replace('$VALUE', value).replace('$USE', use)}"
