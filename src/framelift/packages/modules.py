"""Modules that are compiled ahead of time, under the names that torch.compile's module wrapper has for it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from .. import _core
from ..capture.module_wrapper import OptimizedModule
from ..exc import PackageError
from .aot import aot_refusal, check_allowed, opened, package_bytes
from .backend_names import backend_of
from .captured import captures_of
from .container import write_file
from .functions import function_data, function_of
from .loading import Loader
from .recording import capture_calls, captured_of, codes_of


@dataclass
class ModelInput:
    """One call of a module, and the contexts it is made in.

    >>> import torch, framelift
    >>> model = framelift.compile(torch.nn.ReLU(), backend="eager", fullgraph=True)
    >>> model._aot_compile([framelift.ModelInput((torch.ones(2),), {}, [torch.no_grad()])])
    >>> with torch.no_grad():
    ...     model(torch.ones(2))
    tensor([1., 1.])
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    contexts: list[contextlib.AbstractContextManager[Any]]


class AOTCompiledModel:
    """A module that was compiled for several calls ahead of time.  Calls check guards; it never recompiles."""

    def __init__(self, model: torch.nn.Module, native: _core.Compiled) -> None:
        self.model, self._native = model, native

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._native(*args, **kwargs)

    def serialize(self, key: Any = None) -> bytes:
        native = self._native
        captures = native.miss.captures or [captured_of(entry) for entry in native.entries]
        function, backend = function_data(native.function), native.miss.backend
        return package_bytes("module", function, captures, backend, codes_of(native.entries), key)

    @classmethod
    def deserialize(
        cls, model: torch.nn.Module, data: bytes, *, key: Any = None, trust: bool = False
    ) -> AOTCompiledModel:
        found = opened(data, "module", key, trust)
        function, backend = function_of(found.manifest["function"]), backend_of(found.manifest["backend"])
        loader = Loader(captures_of(found), backend, type(model).__name__, aot_refusal)
        return cls(model, _core.Compiled(function, loader, (model,), None, model))


def aot_compile_module(wrapper: OptimizedModule, inputs: Iterable[ModelInput]) -> None:
    """`_aot_compile`: capture and compile one graph for each input; calls choose among them by their guards."""
    native = wrapper._compiled
    check_allowed(native.miss)
    calls = [(one.args, one.kwargs, one.contexts) for one in inputs]
    if not calls:
        raise PackageError("aot compile of a module takes at least one ModelInput")
    made = capture_calls(native, native.bound, native.receiver, calls)
    captures = [captured_of(entry) for entry in made.entries if entry.info.record is not None]
    made.miss = Loader(captures, made.miss.backend, made.miss.name, aot_refusal)
    _use(wrapper, AOTCompiledModel(wrapper._orig_mod, made))


def _use(wrapper: OptimizedModule, model: AOTCompiledModel) -> None:
    own = wrapper.__dict__
    if own["_call"] is own["_compiled"]:  # else its own hooks are called, then `forward`
        own["_call"] = model._native
    own["_compiled"], own["_forward"] = model._native, model


def save_aot_module(wrapper: OptimizedModule, path: str | os.PathLike[str] | None = None, *, key: Any = None) -> bytes:
    """`_save_aot_compiled_module`: what `_aot_compile` made, as bytes and as a file."""
    model = wrapper.forward
    if type(model) is not AOTCompiledModel:
        raise PackageError("the module was not compiled ahead of time: call _aot_compile first")
    content = model.serialize(key)
    if path is not None:
        write_file(path, content)
    return content


def load_aot_module(wrapper: OptimizedModule, data: bytes, *, key: Any = None, trust: bool = False) -> None:
    """`_load_aot_compiled_module`: the module runs what another process compiled ahead of time."""
    check_allowed(wrapper._compiled.miss)
    _use(wrapper, AOTCompiledModel.deserialize(wrapper._orig_mod, data, key=key, trust=trust))
