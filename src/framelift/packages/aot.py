"""Functions that are compiled ahead of time: `compiled.aot_compile`, and loading what it saved."""

from __future__ import annotations

import os
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import _core, config
from .._core import is_a
from ..capture.driver import Driver
from ..exc import IncorrectUsage, PackageError, WrongType
from ..torch_ports.loaded import inductor_config
from ..vocabulary.origins import fetch
from .backend_names import backend_data, backend_of
from .captured import Captured, PackageParts, captures_of
from .container import Container, read_container, read_file, write_file, written
from .functions import function_data, function_of
from .loading import Loader, locals_of
from .recording import capture_calls, captured_of
from .signing import known_keys, signing_key
from .sources import SourceInfo, check_sources, source_data, source_info_of
from .system import check_system, devices_of, system

if TYPE_CHECKING:
    from ..capture.compile_entry import Backend


@dataclass
class AOTCompileSaveResult:
    """The result of `save_compiled_function`: the files it wrote."""

    serialized_data: bytes


def aot_refusal(sentence: str) -> Exception:
    """The error for a call that a capture is not for."""
    return PackageError(f"GuardManager check failed, reason: {sentence}")


class AOTCompiledFunction:
    """A function that was compiled for one call ahead of time.  Calls check its guards; it never recompiles.

    >>> import torch, framelift
    >>> relu = framelift.compile(torch.nn.functional.relu, backend="eager", fullgraph=True)
    >>> f = relu.aot_compile(((torch.ones(2),), {}))
    >>> isinstance(f, framelift.AOTCompiledFunction), f(torch.ones(2)), f.guard_check(torch.ones(3))
    (True, tensor([1., 1.]), False)
    """

    def __init__(self, native: _core.Compiled, backend: Backend, codes: Any) -> None:
        self._native, self._backend, self._codes = native, backend, codes
        self._is_guarded = True
        self.__name__, self.__qualname__ = native.function.__name__, native.function.__qualname__
        self.__module__, self.__doc__ = native.function.__module__, native.function.__doc__
        self.__wrapped__ = native.function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._native(*args, **kwargs) if self._is_guarded else self._unguarded(args, kwargs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.__qualname__}>"

    def guard_check(self, *args: Any, **kwargs: Any) -> bool:
        """Return whether the capture is for a call with these arguments."""
        return self._native.miss.why_not(self._native, locals_of(self._native, args, kwargs)) is None

    def disable_guard_check(self) -> None:
        """Calls check no guards from now on.  A call that the capture is not for gives anything."""
        self._is_guarded = False

    def source_info(self) -> SourceInfo:
        """The source of all functions that the capture is of."""
        return source_info_of(self._codes)

    def _unguarded(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        locals_ = locals_of(self._native, args, kwargs)
        entry = self._native.entries[0] if self._native.entries else self._native.miss.unchecked(self._native, locals_)
        inputs, externals = entry.info.places
        result = entry.run(tuple([fetch(o, locals_) for o in inputs]), tuple([fetch(o, locals_) for o in externals]))
        if result is _core.MISS or result is _core.PLAIN:
            raise aot_refusal("the capture cannot be run for this call")
        return result

    def serialize(self, external_data: dict[str, Any] | None = None, key: Any = None) -> bytes:
        """The bytes of a package with this function."""
        captures = self._native.miss.captures or [captured_of(entry) for entry in self._native.entries]
        data = function_data(self._native.function, external_data)
        return package_bytes("function", data, captures, self._backend, self._codes, key)

    def save_compiled_function(
        self, path: str | os.PathLike[str], external_data: dict[str, Any] | None = None, *, key: Any = None
    ) -> AOTCompileSaveResult:
        """Write the function to a file, at once.

        Args:
            external_data: objects that the function closes over and that have no name, modules for instance; they are
                not written, and given again by who loads it, under the same keys.
            key: what the file is signed with (bytes, or the path of a file); by default the user's own key.  False:
                it is not signed.
        """
        result = AOTCompileSaveResult(self.serialize(external_data, key))
        write_file(path, result.serialized_data)
        return result


def aot_compile(native: _core.Compiled, example_inputs: Any) -> AOTCompiledFunction:
    """Capture and compile one call of what `compile` returned, without running it."""
    check_allowed(native.miss)
    args, kwargs = _split(example_inputs)
    made = capture_calls(native, (), None, [((*native.bound, *args), kwargs, ())])
    driver, (entry,) = made.miss, made.entries
    captures = [captured_of(entry)] if entry.info.record is not None else []
    made.miss = Loader(captures, driver.backend, driver.name, aot_refusal)
    return AOTCompiledFunction(made, driver.backend, entry.info.codes)


def check_allowed(driver: Any) -> None:
    """Raise where nothing can be compiled ahead of time."""
    if not is_a(driver, Driver):
        raise IncorrectUsage("aot compile takes what framelift.compile returned")
    if not config.enable_aot_compile:
        raise IncorrectUsage("AOT Compile is not enabled, please set torch._dynamo.config.enable_aot_compile=True")
    inductor = inductor_config.get()
    if inductor is not None and inductor.force_disable_caches:
        raise IncorrectUsage(
            "Cannot precompile with torch._inductor.config.force_disable_caches=True; caching is required."
        )
    if not driver.fullgraph:
        raise IncorrectUsage(
            "Graph breaks are not supported with aot compile. Please use torch.compile(fullgraph=True)."
        )


def _split(example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        args, kwargs = example_inputs
        return tuple(args), dict(kwargs)
    except (TypeError, ValueError):
        raise WrongType("aot_compile takes one tuple: (args, kwargs)") from None


# ---- files


def package_bytes(
    kind: str, function: Any, captures: list[Captured], backend: Backend, codes: Any, key: Any, **more: Any
) -> bytes:
    """The bytes of a package."""
    parts = PackageParts()
    manifest = {
        "kind": kind,
        "function": function,
        "backend": backend_data(backend, captures),
        "system": system(),
        "devices": devices_of([captured.record for captured in captures]),
        "sources": source_data(codes),
        "captures": [parts.row(captured) for captured in captures],
        **more.pop("manifest", {}),
    }
    return written(manifest, {**parts.parts, **more.pop("parts", {})}, signing_key(key))


def opened(content: bytes, kind: str | None, key: Any, trust: bool) -> Container:
    """A package that may be used here: trusted, and made on a system like this one; raises `PackageError`."""
    found = read_container(content, known_keys(key), trust)
    if not found.trusted:
        who = "is signed with a key that is not known here" if found.signed_by else "is not signed"
        raise PackageError(
            f"the package {who}. Loading it runs what is in it: name its key (key=), or pass trust=True if you "
            "trust where it comes from"
        )
    if kind is not None and found.manifest.get("kind") != kind:
        raise PackageError(f"the package is of a {found.manifest.get('kind')}, not of a {kind}")
    try:
        rows = found.manifest["captures"]
        check_system(found.manifest["system"], found.manifest["devices"], any(row["artifacts"] for row in rows))
        check_sources(found.manifest["sources"])
    except (KeyError, TypeError, ValueError) as error:
        raise PackageError(f"the package is damaged: {type(error).__name__}: {error}") from None
    return found


def load_compiled_function(
    file: Any,
    *,
    f_globals: dict[str, object] | None = None,
    external_data: dict[str, Any] | None = None,
    key: Any = None,
    trust: bool = False,
) -> Callable[..., Any]:
    """Load a function that `save_compiled_function` wrote.

    Args:
        file: an open file, or a path.
        f_globals: the globals in which the function is looked for, instead of those of its module.
        external_data: what `save_compiled_function` was given as `external_data`.
        key: the key the file is signed with, where that is not the user's own.
        trust: load a file that is not signed, or signed with an unknown key.  It can run any code.

    >>> import io, torch, framelift
    >>> relu, x = torch.nn.ReLU(), -torch.ones(2)
    >>> compiled = framelift.compile(relu, backend="eager", fullgraph=True)
    >>> content = compiled.aot_compile(((x,), {})).serialize(key=b"a key of 16 bytes")
    >>> framelift.load_compiled_function(io.BytesIO(content), key=b"a key of 16 bytes")(relu, x)
    tensor([0., 0.])
    """
    content = file.read() if hasattr(file, "read") else read_file(file)
    found = opened(content, "function", key, trust)
    function = function_of(found.manifest["function"], external_data, f_globals)
    backend = backend_of(found.manifest["backend"])
    native = native_of(function, captures_of(found), backend)
    return AOTCompiledFunction(native, backend, found.manifest["sources"])


def native_of(function: types.FunctionType, captures: list[Captured], backend: Backend) -> _core.Compiled:
    return _core.Compiled(function, Loader(captures, backend, function.__qualname__, aot_refusal))
