"""One process of the kept matrix: each module of a folder, its function compiled and plain.

    python process.py FOLDER BACKEND

Prints a line of JSON: the name of each module -> what was seen.
"""

from __future__ import annotations

import importlib
import json
import re
import struct
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import torch

import framelift


def shown(value: Any) -> Any:
    """A value as text, so that two that differ have other texts, in any process."""
    kind = type(value)
    if isinstance(value, torch.Tensor):
        return [str(value.dtype), list(value.shape), shown(value.detach().flatten().tolist())]
    if isinstance(value, float):
        return [kind.__name__, struct.pack(">d", value).hex() if value == value else "nan", _text(value)]
    if isinstance(value, complex):
        return [kind.__name__, shown(value.real), shown(value.imag)]
    if isinstance(value, int):
        return [kind.__name__, hex(value), "" if kind in (int, bool) else _text(value)]
    if isinstance(value, str):
        return [kind.__name__, str.encode(value, "utf-8", "surrogatepass").hex(), "" if kind is str else _text(value)]
    if isinstance(value, (tuple, list)):
        return [kind.__name__, *map(shown, value)]
    if isinstance(value, (set, frozenset)):
        parts = [shown(one) for one in value]
        return [kind.__name__, *(sorted(parts) if any(isinstance(one, str) for one in value) else parts)]
    if isinstance(value, dict):
        return [kind.__name__, *[[shown(key), shown(one)] for key, one in value.items()]]
    return [kind.__name__, _text(value)]


def _text(value: Any) -> str:
    try:
        return re.sub(r"0x[0-9a-f]+", "0x", repr(value))
    except ValueError:  # a number with too many digits
        return ""


def _ran(function: Any, module: types.ModuleType) -> Any:
    try:
        return shown(function(torch.arange(2.0), *module.ARGS, **module.KWARGS))
    except Exception as error:  # noqa: BLE001  an outcome like any other
        return ["raised", type(error).__name__, _text(error)]


def _imported(name: str) -> types.ModuleType:
    sys.modules.pop(name, None)
    return importlib.import_module(name)


def outcome(name: str, backend: str) -> dict[str, Any]:
    """What is seen of one module: the results where they differ, and how many captures there were."""
    try:
        plain = _imported(name)
    except Exception as error:  # noqa: BLE001  a place where such a value cannot be
        return {"no program": f"{type(error).__name__}: {error}"}
    expected = _ran(plain.f, plain)
    module = _imported(name)
    before = framelift.stats()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        compiled = framelift.compile(module.f, backend=backend)
        result = _ran(compiled, module)
        left = sum(one.calls for one in compiled.miss.record.refused.values() if one.why == "first")
        if left:  # the call ran eagerly, for what only a first call does
            result = _ran(compiled, module)
    after = framelift.stats()
    row: dict[str, Any] = {one: after[one] - before[one] for one in ("captures", "loaded")}
    row["captures"] -= left
    reasons = {one: count - before["not_kept"].get(one, 0) for one, count in after["not_kept"].items()}
    row["not kept"] = [one for one, count in reasons.items() if count]
    defects = [str(one.message) for one in said if "framelift" in str(one.message)]
    if defects:
        row["warning"] = defects[0][:200]
    if result != expected:
        row["differs"] = [result, expected]
    return row


def main(folder: str, backend: str) -> None:
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    names = sorted(path.stem for path in Path(folder).glob("c*.py"))
    print(json.dumps({name: outcome(name, backend) for name in names}))


if __name__ == "__main__":
    main(*sys.argv[1:])
