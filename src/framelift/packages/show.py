"""A package in words.  Nothing of it is run, imported or unpickled."""

from __future__ import annotations

import os
from typing import Any

from ..exc import PackageError
from .container import Container, read_container, read_file
from .signing import known_keys


def show_package(path: str | os.PathLike[str], key: Any = None) -> str:
    """Return a description of a package: of which function, made where, signed by whom, and its captures.

    >>> import os, tempfile, torch, framelift
    >>> path = os.path.join(tempfile.mkdtemp(), "relu")
    >>> compiled = framelift.compile(torch.nn.ReLU(), backend="eager")
    >>> framelift.save_package(compiled, path, calls=[((torch.ones(2),), {})], key=False)
    >>> print(framelift.show_package(path).splitlines()[0])
    package of a module: torch.nn.modules.activation.ReLU
    """
    found = read_container(read_file(path), known_keys(key))
    try:
        return "\n".join(_lines(found))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise PackageError(f"the package is damaged: {type(error).__name__}: {error}") from None


def _lines(found: Container) -> list[str]:
    manifest = found.manifest
    system, backend, weights = manifest["system"], manifest["backend"], manifest.get("weights")
    signed = f"signed with the key {found.signed_by}" if found.signed_by else "not signed"
    trust = "a key that is known here" if found.trusted else "not known here"
    lines = [
        f"package of a {manifest['kind']}: {manifest.get('model') or _function(manifest['function'])}",
        f"{signed} ({trust})" if found.signed_by else signed,
        f"made with Python {system['python']}, torch {system['torch']}, on {system['platform']}"
        + (f", {system['gpu']}" if system["gpu"] else ""),
        f"backend {backend['shown']}" + "".join(f", {name}={backend[name]}" for name in ("mode",) if backend[name]),
        f"devices {', '.join(map(str, manifest['devices']))}",
    ]
    if weights is not None:
        size = len(found.parts["weights.safetensors"])
        lines.append(f"weights: {weights['tensors']} tensors, {size:,} bytes")
    rows = manifest["captures"]
    lines.append(f"{len(rows)} capture{'s' if len(rows) != 1 else ''}:")
    for row in rows:
        compiled = "compiled" if row["artifacts"] or row["compiled"] else "graph alone"
        inputs = ", ".join(map(str, row["inputs"])) or "no tensor among the arguments"
        of = "" if row["root"] else f"part of {row['name']}, "
        ends = f", ends: {row['ends']}" if row["ends"] else ""
        lines.append(f"  {of}{inputs}: {row['operations']} operations, {row['guards']} guards, {compiled}{ends}")
    lines += [f"  {name} runs eagerly: {why}" for name, why in manifest.get("skipped", ())]
    lines += [f"source {name}" for name, _ in manifest["sources"] if not name.startswith("torch.")]
    return [line.replace("\n", " ")[:400] for line in lines]


def _function(data: Any) -> str:
    return ".".join(data["named"]) if "named" in data else f"{data['module']}.{data['qualname']}"
