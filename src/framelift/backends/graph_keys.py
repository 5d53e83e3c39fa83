"""The key under which a compiled graph is found on disk: a hash of all that decides what Inductor makes of it.

It is made of the captured graph, before anything of Inductor is loaded: nodes, constants, metadata of the inputs,
torch's state, options, settings, versions, machine.  What has no text that means the same in the next process has no
key; nor have graphs with symbolic sizes.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import os
import platform
import sys
import types
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx.graph_module import GraphModule

from .. import config
from ..capture.equal_graphs import Unequal, key_of
from ..torch_ports.operators import OpOverload, OpOverloadPacket
from ..vocabulary.plain_types import PYTHON_CONSTANTS, TORCH_CONSTANTS
from .elsewhere import compile_state

#: how entries are written; to be raised when that changes
_FORMAT = "framelift 2"
#: values whose repr says all
_PLAIN = (*PYTHON_CONSTANTS, type(...), *TORCH_CONSTANTS)
#: variables of the environment that compilers read, but for those that say where the caches are
_VARIABLES = ("TORCH", "TRITON", "CUDA", "CXX", "CC", "CFLAGS", "CXXFLAGS", "OMP_")
_PLACES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHELASTIC")
#: which kernels of attention may be chosen
_ATTENTION = (
    "_get_flash_sdp_enabled",
    "_get_mem_efficient_sdp_enabled",
    "_get_math_sdp_enabled",
    "_get_cudnn_sdp_enabled",
)
#: folders of torch without code that decides anything here
_OTHER_FOLDERS = frozenset({"__pycache__", "include", "lib", "share", "bin", "test", "testing"})


def disk_key(graph_module: GraphModule, example_inputs: Sequence[Any]) -> str | None:
    """The key of a graph under the settings of now; None where it has none."""
    from ..torch_ports.compilers import aot_config as functorch_config
    from ..torch_ports.inductor import inductor_config
    from ..torch_ports.state import setting_functions

    try:
        text = _text(
            (
                key_of(graph_module, example_inputs),
                [one.storage_offset() for one in example_inputs],
                (config.repeated_layers, config.second_tier == "off"),
                [_settings(one) for one in (inductor_config, functorch_config, torch.compiler.config)],
                (compile_state(), [function() for function in setting_functions(*_ATTENTION)]),
                sorted(
                    item
                    for item in os.environ.items()
                    if item[0].startswith(_VARIABLES) and not item[0].startswith(_PLACES)
                ),
                [_device(index) for index in sorted({one.device.index for one in example_inputs if one.is_cuda})],
                _installed(),
            )
        )
    except Unequal:
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def _settings(module: Any) -> dict[str, Any]:
    """All settings, but for folders of CUTLASS that are not set: torch has the folder of the process there."""
    unset = os.path.realpath("")
    found = module.get_config_copy()
    return {name: value for name, value in found.items() if value != unset or not name.endswith(".cutlass_dir")}


def _text(value: Any) -> str:
    """A text that is equal in two processes only for equal values; raises `Unequal`."""
    kind = type(value)
    if kind in _PLAIN:
        return repr(value)
    if kind in (tuple, list):
        return f"{kind.__name__}({', '.join(map(_text, value))})"
    if kind in (set, frozenset):
        return f"{kind.__name__}({', '.join(sorted(map(_text, value)))})"
    if kind is dict:
        return f"dict({', '.join(sorted(f'{_text(key)}: {_text(item)}' for key, item in value.items()))})"
    if isinstance(value, enum.Enum):
        return f"{_text(kind)}.{value.name}"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    return _name(value)


def _name(function: Any) -> str:
    """The name of a function of Python's or torch's; whether it is one of these, `key_of` has asked."""
    kind = type(function)
    if kind in (OpOverload, OpOverloadPacket) and str(function).startswith("aten."):
        return f"operator {function}"  # those of the program may have Python code
    if kind is types.BuiltinFunctionType:
        owner = function.__self__
        owner = owner if isinstance(owner, (type, types.ModuleType)) else type(owner)
        return f"{owner.__name__}.{function.__name__}"
    if kind is types.MethodDescriptorType:
        return f"{_text(function.__objclass__)}.{function.__name__}"
    if kind is types.FunctionType and function.__closure__ is None:
        code = function.__code__
        return f"{code.co_filename}:{code.co_firstlineno} {function.__qualname__}"
    raise Unequal


def _device(index: int) -> tuple[Any, ...]:
    """A CUDA device, and who compiles for it."""
    import triton

    found = torch.cuda.get_device_properties(index)
    return (
        index,
        found.name,
        found.major,
        found.minor,
        found.multi_processor_count,
        found.total_memory,
        _version(triton),
    )


def _version(package: types.ModuleType) -> tuple[str, str]:
    assert package.__file__ is not None
    return str(package.__version__), _files(os.path.dirname(package.__file__))


@functools.cache
def _installed() -> tuple[Any, ...]:
    """The versions of all that takes part, down to the times at which source files were written; and the processor."""
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    assert torch.__file__ is not None
    return (
        _FORMAT,
        sys.version,
        str(torch.__version__),
        torch.version.git_version,
        torch.version.cuda,
        torch.version.hip,
        _files(os.path.dirname(torch.__file__)),
        _files(os.path.join(os.path.dirname(torch.__file__), "lib"), ".so"),
        _files(own),
        platform.machine(),
        torch.backends.cpu.get_cpu_capability(),
        _processor(),
    )


def _files(folder: str, ending: str = ".py") -> str:
    """Names, sizes and times of the files with this ending in a folder, wherever that is."""
    found, todo = [], [folder]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(ending):
                    facts = entry.stat()
                    found.append((entry.path[len(folder) :], facts.st_mtime_ns, facts.st_size))
                elif entry.name not in _OTHER_FOLDERS and entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
    return hashlib.sha256(repr(sorted(found)).encode()).hexdigest()


def _processor() -> list[str]:
    """Kernels are compiled for the processor at hand."""
    try:
        with open("/proc/cpuinfo") as file:
            first = file.read(1 << 13).partition("\n\n")[0].splitlines()
    except OSError:
        return [platform.processor()]
    return [line for line in first if line.startswith(("model name", "flags", "Features", "CPU part"))]
