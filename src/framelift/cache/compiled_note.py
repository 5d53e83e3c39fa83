"""A note about a graph that Inductor compiled: the files in Inductor's folder that it consists of, with their digests.

A note is a sealed file (sealed_files.py) in Inductor's folder.  A process that finds one reads the files it names, and
no others: each once, below that folder, and uses its bytes only where they have the digest that was noted.  Digests are
noted only of files that no other user can have written.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from typing import Any

from ..vocabulary.log import topic
from . import shared_file
from .files_below import names_below, read_below, remove_below
from .refusals import NotMine
from .sealed_files import read_sealed, write_sealed

_MOST = 1 << 30  # bytes of one file
_ENTRY = re.compile(r"(?!\.).+")  # other names are of files that somebody is writing


@dataclass(frozen=True)
class CompiledNote:
    """Which entry of AOTAutograd's cache a graph became, and what belongs to it."""

    entry: str  # its key there
    entries: dict[str, list[str]]  # the keys of the entry and of Inductor's graphs -> the places of their files
    kernels: dict[str, dict[str, list[str]]]  # the key of a graph -> C++ kernel -> [place of its library, its key]
    digests: dict[str, str]  # place -> digest of the file
    tier: str = ""  # "folded" or "flat": of a graph whose layers can be folded (backends/second_tier.py)
    carried: dict[str, bytes] = field(default_factory=dict)  # the content of files that a package brought

    def data(self) -> dict[str, Any]:
        """The note as JSON."""
        return {name: value for name, value in vars(self).items() if name != "carried"}

    @classmethod
    def from_data(cls, data: Any, carried: dict[str, bytes]) -> CompiledNote:
        """The inverse of `data`.  Raises an error for what is no note."""
        return cls(data["entry"], data["entries"], data["kernels"], data["digests"], data.get("tier", ""), carried)

    def libraries(self) -> list[str]:
        """The places of the libraries of C++ kernels."""
        return sorted({place for named in self.kernels.values() for place, _ in named.values()})

    def content(self, folder: str, place: str) -> bytes:
        """The content of a file of the note; raises `NotMine` or `OSError` where it is not what was noted.

        Such a file is removed: torch would use it without looking at a digest.
        """
        part = f"file {self.digests[place]}"
        try:
            found = self.carried.get(place) or shared_file.part(part) or read_below(folder, place, _MOST)
            if _digest(found) == self.digests[place]:
                shared_file.add(part, found)
                return found
        except FileNotFoundError:
            raise
        except (OSError, NotMine) as error:
            topic("cache").info("%s in %s cannot be read: %s", place, folder, error)
        if place not in self.carried:
            remove_below(folder, place)
        raise NotMine(f"{place} in {folder} is not what was noted")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _names(key: str) -> tuple[str, str]:
    """The place of the note about a graph in Inductor's folder, and the name under which it is sealed."""
    return f"framelift/{key[:2]}/{key}.note", f"graph {key}"


def read_compiled_note(folder: str, key: str) -> CompiledNote | None:
    """The note about a graph; None where there is none.  Raises an error where it is not the user's."""
    try:
        return CompiledNote.from_data(json.loads(read_sealed(folder, *_names(key))), {})
    except FileNotFoundError:
        return None


def write_compiled_note(
    folder: str,
    key: str,
    entry: str,
    places: dict[str, str],
    kernels: dict[str, dict[str, tuple[str, str]]],
    tier: str = "",
) -> CompiledNote | None:
    """Note what a graph became; None, with a line in the log, where another user may have written one of the files.

    `places`: the key of an entry -> the place of the folder with its files; `kernels`: as in the note, but with paths
    of libraries.
    """
    try:
        entries = {
            one: [f"{place}/{name}" for name, _ in names_below(folder, place, _ENTRY)] for one, place in places.items()
        }
        placed = {
            one: {name: [os.path.relpath(path, folder), library] for name, (path, library) in named.items()}
            for one, named in kernels.items()
        }
        found = [place for names in entries.values() for place in names]
        found += [place for named in placed.values() for place, _ in named.values()]
        contents = {place: read_below(folder, place, _MOST, own=True) for place in found}
        digests = {place: _digest(content) for place, content in contents.items()}
        for place, digest in digests.items():
            shared_file.add(f"file {digest}", contents[place])
        note = CompiledNote(entry, entries, placed, digests, tier)
        write_sealed(folder, *_names(key), json.dumps(note.data()).encode())
        return note
    except (OSError, NotMine) as error:  # a note less
        topic("graph").info("a compiled graph is not noted: %s: %s", type(error).__name__, error)
        return None
