"""The native core: one is built for each minor version of torch, since it knows torch's structs.

`native/torch_X_Y/` holds the core for torch X.Y.  The one for the running torch becomes the module `framelift._core`.
Where an installation has none that fits, it builds one: see core_for_new_torch.py.  setup.py loads this file alone.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

PACKAGE = Path(__file__).parents[1]
_NAME = f"{PACKAGE.name}._core"


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
    if core_of(module.TORCH_VERSION) != core_of(torch_version):
        raise ImportError(f"{path} was built for torch {module.TORCH_VERSION}, and torch is {torch_version}")
    return module
