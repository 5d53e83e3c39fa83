"""Running the Python code that Inductor generated, without loading Inductor's compiler.

Generated code begins with imports.  Two of them load the whole compiler, for a few functions that call into torch:
`extern_kernels` and `align`.  Here these are looked up when they are first used.  C++ kernels are loaded from bytes
that the caller has checked; Inductor would ask the C++ compiler and the processor first, to find out what the file is
called.  All this happens by an `__import__` that only the generated code sees.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import importlib.util
import itertools
import os
import re
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from ..torch_ports.autograd import torch_c

#: name of a C++ kernel in the generated code -> its library
Libraries = Callable[[str], types.ModuleType]

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
            from ..torch_ports.inductor import extern_kernels

            found = getattr(extern_kernels, name)
        setattr(self, name, found)
        return found


def _align(size: Any) -> Any:
    from ..torch_ports.inductor import align

    return align(size)


class _Compile:
    """`torch._inductor.async_compile.AsyncCompile`, which has the C++ kernels already."""

    def __init__(self, libraries: Libraries) -> None:
        self._libraries = libraries
        self._theirs: Any = None

    def cpp_pybinding(self, _types: Any, _source: str) -> Any:
        return _LATER

    def wait(self, scope: dict[str, Any]) -> None:
        for name in [name for name, value in scope.items() if value is _LATER]:
            scope[name] = self._libraries(name).kernel
        if self._theirs is not None:
            self._theirs.wait(scope)

    def __getattr__(self, name: str) -> Any:
        if self._theirs is None:
            from ..torch_ports.inductor import AsyncCompile

            self._theirs = AsyncCompile()
            # The kernels are on disk: other processes would be started for nothing, and waited for by nobody.
            self._theirs.use_process_pool = lambda: False
        return getattr(self._theirs, name)


_LATER = object()


_counts = itertools.count(1)


def load_library(path: str, key: str, content: bytes) -> types.ModuleType:
    """The library of a C++ kernel out of its content.  The file at `path`, which Inductor would load, is not read.

    Inductor loads a library once in a process, under a name made of its key, and this does the same.
    """
    name = f"{key}.kernel"
    if name in sys.modules:
        return sys.modules[name]
    os.environ["_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR"] = str(
        torch_c._dynamo.guards._torchinductor_pyobject_tensor_data_ptr  # the library reads it while it is loaded
    )
    memory = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        with open(memory, "wb", closefd=False) as file:
            file.write(content)
        # The system knows loaded libraries by their paths, and a descriptor's number is used again: so the path of each
        # has another row of steps that lead nowhere.
        steps = "".join("./" if digit == "1" else "/" for digit in f"{next(_counts):b}")
        place = f"/proc/self/fd/{steps}{memory}"
        loader = importlib.machinery.ExtensionFileLoader(name, place)
        module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(name, loader, origin=place))
        loader.exec_module(module)
    finally:
        os.close(memory)
    module.__file__ = path
    setattr(module, "key", key)
    sys.modules[name] = module
    return module


def run_generated(
    path: str, source: str, key: str, constants: dict[str, Any], libraries: Libraries
) -> types.ModuleType:
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
        "torch._inductor.async_compile": types.SimpleNamespace(AsyncCompile=lambda: _Compile(libraries)),
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


def kernels_of(module: types.ModuleType) -> dict[str, tuple[str, str]]:
    """The C++ kernels of generated code that Inductor has loaded: name -> (the path of its library, its key)."""
    found = {}
    for name, value in vars(module).items():
        library = getattr(value, "__self__", None) if type(value) is types.BuiltinFunctionType else None
        if isinstance(library, types.ModuleType) and hasattr(library, "key") and str(library.__file__).endswith(".so"):
            found[name] = (os.path.abspath(str(library.__file__)), str(library.key))
    return found
