"""The captures of a package: records (cache/capture_record.py) and what the backend made of their graphs; as parts of
a file, and back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..backends.carried_work import Work
from ..exc import PackageError
from .container import Container


@dataclass
class Captured:
    """One capture as data."""

    record: dict[str, Any]
    work: Work = field(default_factory=Work)
    placed: Any = None  # of a loaded capture: what carried_work.unpacked gave, once it did

    @property
    def name(self) -> str:
        return str(self.record["rest"]["name"])

    @property
    def is_root(self) -> bool:
        """True if it is of the packaged function itself, and not of a part after a break or of a function below."""
        return self.record["rest"]["root"] is True

    @property
    def code(self) -> str:
        """The hash of the code that it is of."""
        return str(self.record["objects"][0][2][2])


class PackageParts:
    """The parts of a package that is written, each content once."""

    def __init__(self) -> None:
        self.parts: dict[str, bytes] = {}
        self._names: dict[tuple[str, bytes], str] = {}

    def add(self, folder: str, content: bytes) -> str:
        found = self._names.get((folder, content))
        if found is None:
            found = self._names[folder, content] = f"{folder}/{len(self._names)}"
            self.parts[found] = content
        return found

    def row(self, captured: Captured) -> dict[str, Any]:
        """Return the row of a capture in the manifest."""
        work = captured.work
        return {
            "name": captured.name,
            "record": self.add("captures", json.dumps(captured.record, separators=(",", ":")).encode()),
            "guards": len(captured.record["guards"]),
            "operations": captured.record["finished"]["n_ops"] if captured.record["finished"] is not None else 0,
            "root": captured.is_root,
            "ends": captured.record["rest"]["stop"][0],
            "inputs": _inputs(captured.record),
            "artifacts": self.add("artifacts", work.artifacts) if work.artifacts else None,
            "note": work.note,
            "libraries": {place: self.add("libraries", content) for place, content in work.libraries.items()},
            "made_by": work.made_by,
            "compiled": self.add("compiled", work.compiled) if work.made_by is not None else None,
        }


def _inputs(record: dict[str, Any]) -> list[str]:
    """The tensors among the arguments of the capture's call, for who looks at a package."""
    found = []
    for number, kind, data, _ in record["guards"]:
        name = _argument(record["origins"], number) if kind == "TENSOR" else ""
        if name:
            found.append(f"{name}: {_shown(data[1])}")
    return found


def _argument(origins: list[Any], number: int) -> str:
    """The name of an argument, or of a part of `*args` and `**kwargs`; "" for what is reached in other ways."""
    base, step, key = origins[number]
    if step == "arg":
        return str(key[1])
    if step == "item" and base >= 0 and origins[base][1] == "arg" and type(key) in (int, str):
        return str(key) if type(key) is str else f"{origins[base][2][1]}[{key}]"
    return ""


def _shown(fields: Sequence[Any]) -> str:
    plain = [field for field in fields if type(field) is list and field and field[0] in ("dtype", "tuple", "size")]
    names = [field[1].removeprefix("torch.") for field in plain if field[0] == "dtype"]
    sizes = [str(field[1]) for field in plain if field[0] in ("size", "tuple")]
    return f"{names[0] if names else 'tensor'}{sizes[0] if sizes else ''}"


def captures_of(container: Container) -> list[Captured]:
    """The captures of a package; raises `PackageError`."""
    try:
        return [_captured(container, row) for row in container.manifest["captures"]]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise PackageError(f"the package is damaged: {type(error).__name__}: {error}") from None


def _captured(container: Container, row: dict[str, Any]) -> Captured:
    record = container.json(row["record"])
    if type(record) is not dict or type(record["rest"]["name"]) is not str or not record["objects"][0][2][2]:
        raise PackageError("the package is damaged: a capture is no record")
    work = Work(
        container.part(row["artifacts"]) if row["artifacts"] is not None else b"",
        row["note"],
        {place: container.part(name) for place, name in row["libraries"].items()},
        row["made_by"],
        container.part(row["compiled"]) if row["compiled"] is not None else b"",
    )
    return Captured(record, work)
