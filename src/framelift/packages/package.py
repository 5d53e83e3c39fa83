"""Packages: several captures of one function or module in a file, with or without its weights."""

from __future__ import annotations

import os
import types
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from .. import _core
from .._core import is_a
from ..capture.driver import Driver
from ..capture.module_wrapper import OptimizedModule
from ..capture.records.captures import native_of
from ..exc import PackageError, WrongType
from ..vocabulary.class_reads import module_of, qualname_of
from ..vocabulary.log import topic
from .aot import opened, package_bytes
from .backend_names import backend_of
from .captured import Captured, captures_of
from .container import Container, read_file, write_file
from .functions import check_code, function_data, function_of
from .loading import Loader
from .recording import capture_calls, captured_of, codes_of
from .weights import load_weights, weights_data

_WEIGHTS = "weights.safetensors"


def save_package(
    compiled: Any,
    path: str | os.PathLike[str],
    *,
    calls: Iterable[tuple[tuple[Any, ...], dict[str, Any]]] | None = None,
    weights: bool | Mapping[str, Any] = False,
    external_data: dict[str, Any] | None = None,
    key: Any = None,
) -> None:
    """Write captures of a compiled function or module to a file, which `load_package` loads in another process.

    Args:
        compiled: what `compile` returned.
        calls: capture these calls `(args, kwargs)`, without running them.  By default what was captured so far is
            written; for that `config.record_captures` has to be on when `compile` is called.
        weights: True: the module's state dict is in the package, as safetensors; or a state dict.
        external_data: objects that a function closes over and that have no name, by keys.
        key: what the package is signed with (bytes, or the path of a file); by default the user's own key.  False: it
            is not signed.

    >>> import os, tempfile, torch, framelift
    >>> model, path = torch.nn.Linear(2, 1), os.path.join(tempfile.mkdtemp(), "linear")
    >>> key = b"a key of 16 bytes"
    >>> calls = [((torch.ones(3, 2),), {}), ((torch.ones(5, 2),), {})]
    >>> framelift.save_package(framelift.compile(model, backend="eager"), path, calls=calls, weights=True, key=key)
    >>> loaded = framelift.load_package(path, torch.nn.Linear(2, 1), key=key)
    >>> torch.equal(loaded(torch.ones(5, 2)), model(torch.ones(5, 2)))
    True
    """
    native = native_of(compiled)
    module = native.receiver if is_a(native.receiver, torch.nn.Module) else None
    if calls is not None:
        if not is_a(native.miss, Driver) or type(native.miss) is Loader:
            raise PackageError("what was loaded from a package captures nothing more")
        asked = [(*_pair(call), ()) for call in calls]
        native = capture_calls(native, native.bound, native.receiver, asked)
    skipped: list[Any] = []
    captures = _captures(native, skipped)
    state = module.state_dict() if weights is True and module is not None else weights
    parts: dict[str, bytes] = {}
    facts: dict[str, Any] = {"bound": len(native.bound), "weights": None, "skipped": skipped}
    if module is not None:
        facts["model"] = f"{module_of(type(module))}.{qualname_of(type(module))}"
    if state is not False:
        if state is True:
            raise PackageError("weights=True is for modules; name a state dict")
        parts[_WEIGHTS], aliases = weights_data(state)
        facts["weights"] = {"aliases": aliases, "tensors": len(state)}
    content = package_bytes(
        "module" if module is not None else "function",
        function_data(native.function, external_data),
        captures,
        native.miss.backend,
        codes_of([*native.entries, *_below(native)]),
        key,
        manifest=facts,
        parts=parts,
    )
    write_file(path, content)


def _pair(call: Any) -> tuple[Any, Any]:
    """Return one of the `calls` that were given, checked."""
    match call:
        case (tuple() | list() as args, dict() as kwargs):
            return args, kwargs
    raise WrongType("calls= takes pairs (args, kwargs), as in calls=[((x,), {})]")


def _captures(native: _core.Compiled, skipped: list[Any]) -> list[Captured]:
    """All captures of a callable; those of other frames that cannot be saved are `skipped`: [name, why]."""
    if type(native.miss) is Loader:
        loaded: list[Captured] = native.miss.captures
        return loaded
    if not native.entries:
        name = (
            type(native.receiver).__name__ if is_a(native.receiver, torch.nn.Module) else native.function.__qualname__
        )
        raise PackageError(f"{name} was not captured yet: name calls to capture with calls=, or call it before")
    made = [captured_of(entry) for entry in native.entries]
    for entry in _below(native):
        try:
            made.append(captured_of(entry))
        except PackageError as error:
            topic("cache").warning("%s; it will run eagerly", error)
            skipped.append([entry.info.name, entry.info.not_kept])
    return made


def _below(native: _core.Compiled) -> list[Any]:
    """The entries of what follows graph breaks, and of functions that eager parts called."""
    return [entry for entries in native.frames.values() if type(entries) is list for entry in entries]


def load_package(
    path: str | os.PathLike[str],
    model: Any = None,
    *,
    trust: bool = False,
    key: Any = None,
    weights: bool = True,
    external_data: dict[str, Any] | None = None,
) -> Any:
    """Load a package.  What it returns is called as the compiled function or module was, and never recompiles: a call
    that none of its captures is for is a `PackageError`, which says why.

    Args:
        model: the module, or the object of a method, that the captures are used for.  A function is found by its
            name; one that is given here is used instead.
        trust: load a package that is not signed, or signed with an unknown key.  It can run any code.
        key: the key the package is signed with, where that is not the user's own.
        weights: load weights that are in the package into the module.
        external_data: what `save_package` was given as `external_data`.

    >>> import os, tempfile, torch, framelift
    >>> path = os.path.join(tempfile.mkdtemp(), "relu")
    >>> compiled = framelift.compile(torch.nn.ReLU(), backend="eager")
    >>> framelift.save_package(compiled, path, calls=[((torch.ones(2),), {})], key=b"a key of 16 bytes")
    >>> loaded = framelift.load_package(path, torch.nn.ReLU(), key=b"a key of 16 bytes")
    >>> loaded(torch.ones(3))
    Traceback (most recent call last):
    framelift.exc.PackageError: no capture of the package is for this call of ReLU: ...
    """
    found = opened(read_file(path), None, key, trust)
    function, bound = _receiver(found, model, external_data)
    if found.manifest["kind"] == "module" and found.manifest["weights"] is not None and weights:
        load_weights(model, found.part(_WEIGHTS), found.manifest["weights"]["aliases"])
    name = type(model).__name__ if is_a(model, torch.nn.Module) else function.__qualname__
    loader = Loader(captures_of(found), backend_of(found.manifest["backend"]), name, _refusal(name))
    native = _core.Compiled(function, loader, bound, None, model if is_a(model, torch.nn.Module) else None)
    return OptimizedModule(model, native) if is_a(model, torch.nn.Module) else native


def _refusal(name: str) -> Any:
    return lambda sentence: PackageError(f"no capture of the package is for this call of {name}: {sentence}")


def _receiver(found: Container, model: Any, external_data: Any) -> tuple[types.FunctionType, tuple[Any, ...]]:
    """The function of a package, and what is bound to it."""
    data, bound = found.manifest["function"], found.manifest.get("bound", 0)
    if found.manifest["kind"] == "module" and not is_a(model, torch.nn.Module):
        raise PackageError("the package is of a module: load_package(path, model) takes the module it is used for")
    if type(model) is types.FunctionType and not bound:
        check_code(model, data)
        return model, ()
    function = function_of(data, external_data)
    if not bound:
        return function, ()
    if model is None:
        raise PackageError("the package is of a method: load_package(path, model) takes its object")
    return function, (model.__self__ if type(model) is types.MethodType else model,)
