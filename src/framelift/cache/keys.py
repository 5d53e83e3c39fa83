"""The key under which captures of one function are kept: what its code computes, the name of its module, and all that
decides what a capture of it is like, but for what guards say.
"""

from __future__ import annotations

import functools
import hashlib
import json
import platform
import sys
import types
from typing import Any

import torch

from .. import config
from ..rehearsal.break_errors import Blocks
from ..vocabulary.options import OPTIONS
from .code_hash import code_hash
from .importable_names import space_name
from .own_files import own_files
from .store import FORMAT

#: options that say where and whether captures are kept, and how much is said of them
_ASIDE = frozenset(
    "cache cache_dir cache_key cache_size cache_url enable_aot_compile record_captures strict_precompile".split()
)
_OPTIONS = tuple(
    sorted(name for name, row in OPTIONS.items() if not row.ignored and not row.alias and name not in _ASIDE)
)


def key_of(function: types.FunctionType, *asked: Any) -> str:
    """The key for a function; `asked` is what this `compile` asked for, in JSON's types."""
    own = [[name, _plain(getattr(config, name))] for name in _OPTIONS]
    text = json.dumps(
        [
            FORMAT,
            torch.compiler.config.cache_key_tag,
            code_hash(function.__code__),
            space_name(function.__globals__),
            asked,
            own,
            Blocks().is_error,
            _installed(),
            _devices(),
        ]
    )
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def _plain(value: Any) -> Any:
    return sorted(map(repr, value)) if type(value) in (set, frozenset) else repr(value)


@functools.cache
def _installed() -> list[Any]:
    """Versions of all that takes part, and framelift's own files."""
    numpy = sys.modules.get("numpy")
    return [
        sys.version,
        sys.flags.optimize,
        sys.platform,
        platform.machine(),
        str(torch.__version__),
        str(torch.version.git_version),
        str(torch.version.cuda),
        str(getattr(numpy, "__version__", None)),
        torch.backends.cpu.get_cpu_capability(),
        own_files(),
    ]


def _devices() -> list[Any]:
    if not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
