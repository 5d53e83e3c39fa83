"""Running the Python code that Inductor generated, without loading Inductor's compiler.

Generated code begins with imports.  Two of them load the whole compiler, for a few functions that call into torch:
`extern_kernels` and `align`.  Here these are looked up when they are first used.  C++ kernels are loaded from where
they are; Inductor would ask the C++ compiler and the processor first, to find out what the file is called.  All this
happens by an `__import__` that only the generated code sees.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import os
import re
import types
from collections.abc import Mapping
from typing import Any

import torch

__all__ = ["Kernels", "digest", "kernels_of", "run_generated"]

#: name of a C++ kernel in the generated code -> (its library, the key that Inductor has for it, the library's digest)
Kernels = Mapping[str, Any]

#: functions of `extern_kernels` that are torch's own
_EXTERN = {
    "mm": torch.mm,
    "addmm": torch.addmm,
    "bmm": torch.bmm,
    "baddbmm": torch.baddbmm,
    "convolution": torch.convolution,
}
#: what generated code names: operators, and functions that Inductor gives names
_EXTERN_NAME = re.compile(r"\bextern_kernels\.(\w+)")
_OPERATOR = re.compile(r"\b(?:torch\.ops\.(\w+)|(aten|inductor_ops|_quantized))\.(\w+)")
#: a line that says which nodes of the graph became a kernel, with operators that the code does not call
_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_ALIASES = {"aten": "aten", "inductor_ops": "inductor", "_quantized": "_quantized"}


class _ExternKernels:
    """`torch._inductor.select_algorithm.extern_kernels`."""

    def __getattr__(self, name: str) -> Any:
        found = _EXTERN.get(name)
        if found is None:
            found = getattr(importlib.import_module("torch._inductor.select_algorithm").extern_kernels, name)
        setattr(self, name, found)
        return found


def _align(size: Any) -> Any:
    return importlib.import_module("torch._inductor.codegen.memory_planning")._align(size)


class _Compile:
    """`torch._inductor.async_compile.AsyncCompile`, which has the C++ kernels already."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self._theirs: Any = None

    def cpp_pybinding(self, _types: Any, _source: str) -> Any:
        return _LATER

    def wait(self, scope: dict[str, Any]) -> None:
        from torch._inductor.codecache import CppPythonBindingsCodeCache as Libraries

        for name in [name for name, value in scope.items() if value is _LATER]:
            path, key, wanted = self._kernels[name]
            _check_library(path, wanted)
            scope[name] = Libraries._load_library(path, key).kernel
        if self._theirs is not None:
            self._theirs.wait(scope)

    def __getattr__(self, name: str) -> Any:
        if self._theirs is None:
            self._theirs = importlib.import_module("torch._inductor.async_compile").AsyncCompile()
            # The kernels are on disk: other processes would be started for nothing, and waited for by nobody.
            self._theirs.use_process_pool = lambda: False
        return getattr(self._theirs, name)


_LATER = object()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest_of(path: str) -> str:
    with open(path, "rb") as file:
        return digest(file.read())


def _check_library(path: str, wanted: str) -> None:
    """Raises where a library is not as it was compiled.  Inductor would load it unseen, so the file goes away."""
    from torch._inductor.runtime.runtime_utils import cache_dir

    if _digest_of(path) != wanted:
        if os.path.realpath(path).startswith(os.path.realpath(cache_dir()) + os.sep):
            os.unlink(path)
        raise LookupError(f"{path} is damaged")


def run_generated(path: str, source: str, key: str, constants: dict[str, Any], kernels: Kernels) -> types.ModuleType:
    """The module of generated code, which is in a file too, with these constants.

    All that it names is looked up here: what is missing raises now, and not in the middle of a call.
    """
    code = _COMMENT.sub("", source)
    for space, alias, name in _OPERATOR.findall(code):  # some are registered by Inductor's compiler alone
        getattr(getattr(torch.ops, space or _ALIASES[alias]), name)
    extern = _ExternKernels()
    for name in _EXTERN_NAME.findall(code):
        getattr(extern, name)
    instead = {
        "torch._inductor.select_algorithm": types.SimpleNamespace(extern_kernels=extern),
        "torch._inductor.codegen.memory_planning": types.SimpleNamespace(_align=_align),
        "torch._inductor.async_compile": types.SimpleNamespace(AsyncCompile=lambda: _Compile(kernels)),
    }

    def import_(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        found = instead.get(name) if fromlist else None
        if found is not None and all(hasattr(found, one) for one in fromlist):
            return found
        return builtins.__import__(name, globals, locals, fromlist, level)

    module = types.ModuleType(f"torch._inductor.runtime.compile_tasks.{key}")  # as Inductor calls it
    module.__file__ = path
    vars(module).update(key=key, __builtins__={**vars(builtins), "__import__": import_})
    exec(compile(source, path, "exec", dont_inherit=True), vars(module))
    vars(module).update(constants)
    return module


def kernels_of(module: types.ModuleType) -> dict[str, tuple[str, str, str]] | None:
    """The C++ kernels of generated code that Inductor has loaded; None where a library is no longer on disk."""
    found = {}
    for name, value in vars(module).items():
        library = getattr(value, "__self__", None) if type(value) is types.BuiltinFunctionType else None
        if isinstance(library, types.ModuleType) and hasattr(library, "key") and str(library.__file__).endswith(".so"):
            path = os.path.abspath(str(library.__file__))
            if not os.path.exists(path):
                return None
            found[name] = (path, library.key, _digest_of(path))
    return found
