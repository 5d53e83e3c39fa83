"""Cache entries on code objects, as TorchDynamo keeps them: list, drop and skip framelift's captures by code."""

from __future__ import annotations

import importlib.util
import logging
import types
from dataclasses import dataclass
from typing import Any, ClassVar

from ... import _core
from ...capture import sharing
from ...capture.frames import skip_files
from ...exc import WrongArgument, WrongValue
from ..compiling import compiled_callables, forget_entries, reset


@dataclass(frozen=True, slots=True, eq=False)
class GuardManager:
    """The guards of one entry, by the names that tools read from TorchDynamo's."""

    program: Any
    code_parts: list[str]

    #: tools take what is none of TorchDynamo's managers for its older form: a function that closes over nothing
    __code__ = (lambda: None).__code__
    __closure__: ClassVar[tuple[Any, ...]] = ()
    closure_vars: ClassVar[None] = None

    def __str__(self) -> str:
        return "\n".join(self.code_parts)


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One entry, as TorchDynamo shows its own.

    >>> import torch, framelift
    >>> from framelift.surface.torch_names.entries import cache_entries
    >>> def f(x):
    ...     return x + 1
    >>> compiled = framelift.compile(f, backend="eager")
    >>> _ = compiled(torch.ones(1))
    >>> [entry.backend for entry in cache_entries(f)]
    ['eager']
    """

    code: types.CodeType  # what runs in place of the frame
    guard_manager: GuardManager
    compile_id: Any
    backend: str
    trace_annotation: str

    def __str__(self) -> str:
        return f"CacheEntry({self.trace_annotation}, compile_id={self.compile_id}, backend={self.backend})"


def _code_of(function: Any) -> types.CodeType | None:
    """The code that a function, method, module or compiled callable runs."""
    if isinstance(function, types.CodeType):
        return function
    function = getattr(function, "_torchdynamo_orig_callable", function)
    if isinstance(function, _core.Compiled):
        function = function.function
    for found in (function, getattr(function, "forward", None)):
        code = getattr(found, "__code__", None)
        if isinstance(code, types.CodeType):
            return code
    return None


def skip_module(import_name: Any) -> None:
    """`trace_rules.add`: functions of this module, or package, are not captured."""
    if isinstance(import_name, types.ModuleType):
        import_name = import_name.__name__
    if not isinstance(import_name, str):
        raise WrongArgument(f"expected import_name to be a str, got {type(import_name)}")
    found = importlib.util.find_spec(import_name)
    if found is not None and found.origin is not None:
        skip_files(found.origin.removesuffix("__init__.py"))


def set_guard_error_hook(hook: Any) -> None:
    """A hook for guards that raise.  framelift's run no code of the program and raise nothing: it is never called."""


def cache_entries(code: Any) -> list[CacheEntry]:
    """The entries of a code object or function, those first that are asked first."""
    return [_shown(entry) for entry in _entries(code)]


def precompile_entries(code: Any) -> list[CacheEntry]:
    """Those of them that were captured in another process, and kept on disk."""
    return [_shown(entry) for entry in _entries(code) if entry.info.loaded]


def _entries(code: Any) -> list[Any]:
    own = _code_of(code)
    if own is None:
        raise WrongValue(f"Can't find a code object for {code!r}")
    found: list[Any] = []
    for compiled in compiled_callables():
        found += compiled.entries if compiled.function.__code__ is own else ()
        found += compiled.frames.get(own) or ()
    return found


def _shown(entry: Any) -> CacheEntry:
    info = entry.info
    guards = GuardManager(entry.program, info.guards)
    return CacheEntry(getattr(entry.run, "__code__", info.code), guards, info.compile_id, info.backend, info.name)


def reset_code(code: types.CodeType) -> None:
    """Drop the entries of one code object: its next call recompiles."""
    for compiled in compiled_callables():
        compiled.frames.pop(code, None)
        if compiled.function.__code__ is code:
            compiled.entries.clear()
        if hasattr(compiled.miss, "forget_code"):
            compiled.miss.forget_code(code)
    sharing.forget()


def reset_code_caches() -> None:
    """Drop the entries of all code objects; counts, callbacks and settings stay."""
    forget_entries()
    sharing.forget()


def remove_from_cache(f: Any) -> None:
    """Drop the entries of a function or module; where there is no code object to be found, of everything."""
    code = _code_of(f)
    if code is not None:
        reset_code(code)
        return
    reset()
    logging.getLogger(__name__).warning("could not determine __code__ for %s", f)
