"""The kept matrix: kinds of values x places where a module holds one x uses of it x edits between two processes.

A cell is a kind at all places.  The first process captures a function for each and keeps it; then come a process that
finds all as it was, which has to load, and one for each edit, which has to give what plain Python gives.  Each process
has hashes of its own.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from matrices.cell import Cell

from . import enumerations, numbers_texts
from .kind import Kind, Place, module_text
from .places import PLACES

__all__ = ["FIRST", "KINDS", "cells", "edits_of", "failures_of", "find", "in_turn", "names", "rows_of", "worth"]

KINDS: tuple[Kind, ...] = (*numbers_texts.KINDS, *enumerations.KINDS)
FIRST = "first"  # the process that captures and keeps
PROCESS = Path(__file__).with_name("process.py")


def names() -> Iterator[str]:
    """kind/place/number of the use"""
    for kind in KINDS:
        for place in PLACES:
            if kind.hashable or not place.hashable:
                for use in range(len(kind.uses)):
                    yield f"{kind.name}/{place.name}/{use}"


def in_turn(found: list[str]) -> list[str]:
    """Each kind at each place, with the next of its uses."""
    chosen: dict[tuple[str, str], list[str]] = {}
    for name in found:
        kind, place, _ = name.split("/")
        chosen.setdefault((kind, place), []).append(name)
    return [uses[number % len(uses)] for number, uses in enumerate(chosen.values())]


@functools.cache
def _by_name() -> tuple[dict[str, Kind], dict[str, Place]]:
    return {k.name: k for k in KINDS}, {p.name: p for p in PLACES}


def _versions(name: str) -> list[tuple[str, str]]:
    """[name of the edit, text of the module]"""
    kind_name, place_name, use = name.split("/")
    kind, place = _by_name()[0][kind_name], _by_name()[1][place_name]
    return [(edit, module_text(place, before, value, kind.uses[int(use)])) for edit, before, value in kind.versions()]


def edits_of(name: str) -> int:
    """The number of edits of a module."""
    return len(_versions(name)) - 1


def _process(folder: Path, backend: str, seed: int, environment: dict[str, str]) -> dict[str, Any]:
    inside = {
        **os.environ, "PYTHONHASHSEED": str(seed), "FRAMELIFT_CACHE": "1", "FRAMELIFT_CACHE_DIR": str(folder / "kept"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), **environment,
    }  # fmt: skip
    command = [sys.executable, str(PROCESS), str(folder / "modules"), backend]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=inside, timeout=3600)
    if done.returncode:
        raise RuntimeError(f"the process ended with {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def rows_of(
    names: Sequence[str],
    later: Sequence[Sequence[int]] | None = None,
    backend: str = "eager",
    environment: dict[str, str] | None = None,
) -> list[tuple[str, str, dict[str, Any]]]:
    """[name, edit, what was seen] of the modules of some names, first as they are.

    `later`: for each process that comes after the first, the number of each module's edit; 0: as it was.
    """
    texts = [_versions(name) for name in names]
    if later is None:
        later = [[i if i < len(versions) else 0 for versions in texts] for i in range(max(map(len, texts)))]
    found = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "modules").mkdir()
        for seed, edits in enumerate([[0] * len(names), *later]):
            for i, (versions, edit) in enumerate(zip(texts, edits)):
                _write(folder / "modules" / f"c{i:05}.py", versions[edit][1])
            seen = _process(folder, backend, seed + 1, environment or {})
            for i, (name, versions, edit) in enumerate(zip(names, texts, edits)):
                found.append((name, versions[edit][0] if seed else FIRST, seen[f"c{i:05}"]))
    return found


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


def failures_of(rows: list[tuple[str, str, dict[str, Any]]]) -> dict[str, str]:
    """name -> what is wrong: a result that is not plain Python's, or a capture that was kept and does not load."""
    wrong: dict[str, str] = {}
    first: dict[str, dict[str, Any]] = {}
    for name, edit, row in rows:
        if "no program" in row:
            continue
        if edit == FIRST:
            first[name] = row
        if "differs" in row:
            result, expected = row["differs"]
            wrong.setdefault(name, f"{edit}: {result} is not {expected} (loaded: {row['loaded']})")
        elif "warning" in row:
            wrong.setdefault(name, f"{edit}: {row['warning']}")
        elif edit == "same" and not first[name]["not kept"] and is_new(row, first[name]):
            wrong.setdefault(name, f"it does not load: {row}, first {first[name]}")
    return wrong


def is_new(row: dict[str, Any], first: dict[str, Any]) -> bool:
    """Whether an unedited module was captured again."""
    return (row["captures"], row["loaded"]) != (0, first["captures"])


def _run(kind: str, is_whole: bool) -> str | None:
    of_kind = [name for name in names() if name.split("/")[0] == kind]
    wrong = failures_of(rows_of(of_kind if is_whole else in_turn(of_kind)))
    return "; ".join(f"{name} {what}" for name, what in wrong.items()) or None


def find(name: str) -> Cell:
    kind, _, rest = name.partition("/")
    return Cell(name, functools.partial(_run, kind, bool(rest)))


def cells() -> Iterator[Cell]:
    """All places for a kind, with the uses in turn; and with every use."""
    return map(find, [name for kind in KINDS for name in (kind.name, f"{kind.name}/every use")])


def worth(found: list[str]) -> list[str]:
    return [name for name in found if "/" not in name]
