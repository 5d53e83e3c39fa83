"""Backends as data: the name and the options with which the loading process finds the same one."""

from __future__ import annotations

from typing import Any

from ..backends.registrations import BACKENDS
from ..backends.registry import lookup, parts_of, used_by_drivers
from ..cache.importable_names import name_for
from ..cache.plain_values import leaf_data, leaf_of
from ..capture.compile_entry import Backend
from ..exc import InvalidBackend, PackageError
from ..vocabulary.written_forms import NotKept
from .captured import Captured
from .functions import named


def backend_data(backend: Backend, captures: list[Captured]) -> dict[str, Any]:
    """A backend as data; raises `PackageError` where neither it nor what it returned can be found again."""
    found = backend.compiler
    inner, given = parts_of(found)
    try:
        options = {name: leaf_data(value) for name, value in (given.get("options") or {}).items()}
    except NotKept as refusal:
        raise PackageError(f"an option of the backend {backend.name} cannot be saved: {refusal}") from None
    data = {"mode": given.get("mode"), "options": options, "shown": backend.name}
    if BACKENDS.get(backend.name) is inner:
        return {"name": backend.name, **data}
    name = name_for(inner)
    if name is None and not all(captured.work.made_by is not None for captured in captures):
        raise PackageError(
            f"what the backend {backend.name} ({inner!r}) returned does not implement SerializableCallable, and the "
            "backend itself has no name under which it is found again"
        )
    return {"function": name, **data}


def backend_of(data: dict[str, Any]) -> Backend:
    """The backend of such data, of a trusted package."""
    options = {name: leaf_of(value) for name, value in data["options"].items()}
    found: Any = data.get("name")
    if found is None:
        found = named(data["function"]) if data["function"] is not None else _none
    try:
        return used_by_drivers(lookup(found, mode=data["mode"], options=options or None), False)
    except InvalidBackend as error:
        raise PackageError(f"the package's backend is not there: {error}") from None


def _none(_graph_module: Any, _example_inputs: Any) -> Any:
    raise PackageError("the package's backend is not there")
