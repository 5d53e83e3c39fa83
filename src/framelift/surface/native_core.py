"""The native core: one is built for each minor version of torch, since it knows torch's structs.

`native/torch_X_Y/` holds the core for torch X.Y.  The one for the running torch becomes the module `framelift._core`.
Where an installation has none that fits, it builds one: see core_for_new_torch.py.  setup.py loads this file alone.
"""

from __future__ import annotations

import importlib.util
import platform
import re
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

PYTHONS = ((3, 11), (3, 15))  # from, to (not included)
PACKAGE = Path(__file__).parents[1]
_NAME = f"{PACKAGE.name}._core"


def unsupported() -> str | None:
    """Return why the running system or Python is not supported; None where both are."""
    system = f"{platform.system()} on {platform.machine()}"
    if system != "Linux on x86_64":
        return f"{system} is not supported; framelift needs Linux on x86-64"
    version = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
    if sys.implementation.name != "cpython" or sys.version_info[:2] < PYTHONS[0]:
        return f"{version} is not supported; use CPython 3.11, 3.12, 3.13 or 3.14"
    if sys.version_info[:2] >= PYTHONS[1]:
        return (
            f"{version} is not supported yet: it needs a dialect in src/framelift/bytecode/dialects and its frames in "
            "csrc/frame_access.h, see docs/adding/python_version.md; use CPython 3.11, 3.12, 3.13 or 3.14"
        )
    if "t" in sys.abiflags:
        return (
            "free-threaded builds of CPython are not supported: guards and the core's tables would need locks, see "
            "docs/design.md; use a build with the GIL"
        )
    return None


def cores() -> list[str]:
    """Return the torch versions that there is a core for, with this Python."""
    found = [path.parent.name for path in PACKAGE.glob(f"native/torch_*/_core{EXTENSION_SUFFIXES[0]}")]
    return sorted(name.removeprefix("torch_").replace("_", ".") for name in found)


def core_of(torch_version: str) -> Path:
    """Return where the core for a version of torch is, or would be."""
    number = re.match(r"(\d+)\.(\d+)", torch_version)
    assert number is not None, torch_version
    return PACKAGE / f"native/torch_{number[1]}_{number[2]}/_core{EXTENSION_SUFFIXES[0]}"


def load(torch_version: str) -> ModuleType:
    """Make the core for the running torch `framelift._core`; raise ImportError with a sentence where there is none."""
    if (reason := unsupported()) is not None:
        raise ImportError(f"framelift does nothing here: {reason}")
    path = core_of(torch_version)
    if not path.exists():
        from .core_for_new_torch import path_of_built

        known = ", ".join(cores())
        there = f"there are cores for torch {known}" if known else "no core was built for this Python"
        python = sys.version.split()[0]
        lacking = f"framelift has no native core for torch {torch_version} with Python {python} ({there})"
        path = path_of_built(PACKAGE / "csrc", lacking)
    spec = importlib.util.spec_from_file_location(_NAME, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[_NAME] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    check(module, torch_version)
    return module


def check(core: ModuleType, torch_version: str) -> None:
    """Raise ImportError where a core was built for a torch or a CPython that differs from the running one."""
    if core_of(core.TORCH_VERSION) != core_of(torch_version):
        raise ImportError(f"{core.__file__} was built for torch {core.TORCH_VERSION}, and torch is {torch_version}")
    wrong = [f"{what} (csrc/{file})" for what, file, holds in core.LAYOUTS if not holds]
    if wrong:
        running = f"Python {sys.version.split()[0]} with torch {torch_version}"
        raise ImportError(f"{core.__file__} does not know how {running} lays out {', '.join(wrong)}")
