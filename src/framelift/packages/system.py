"""The system a package was made on, and whether this one is like it."""

from __future__ import annotations

import platform
import sys
from typing import Any

import torch

from ..cache.own_files import own_files
from ..exc import PackageError

#: devices whose names and toolkits are compared
_GPUS = ("cuda", "xpu")


def system() -> dict[str, Any]:
    """Return the description of this system that a package has."""
    gpu, toolkit = _gpu()
    numpy = sys.modules.get("numpy")
    return {
        "python": f"{sys.implementation.name} {platform.python_version()}",
        "torch": str(torch.__version__),
        "torch_git": str(torch.version.git_version),
        "framelift": own_files(),
        "numpy": str(getattr(numpy, "__version__", None)),
        "platform": f"{sys.platform} {platform.machine()}",
        "optimize": sys.flags.optimize,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "gpu": gpu,
        "toolkit": toolkit,
        "triton": _triton() if gpu else None,
    }


def _gpu() -> tuple[str | None, str | None]:
    for name in _GPUS:
        device = getattr(torch, name)
        if device.is_available():
            return str(device.get_device_name()), str(getattr(torch.version, name))
    return None, None


def _triton() -> str | None:
    try:
        import triton
    except ImportError:
        return None
    return str(triton.__version__)


#: what is compared -> its name in messages
_ALWAYS = {
    "python": "Python version",
    "torch": "PyTorch version",
    "torch_git": "build of PyTorch",
    "framelift": "version of framelift",
    "numpy": "numpy version",
    "platform": "platform",
    "optimize": "level of optimization (python -O)",
}
_ON_GPUS = {"toolkit": "toolkit version", "triton": "Triton version", "gpu": "GPU"}


def check_system(made_on: Any, devices: list[str], compiled: bool) -> None:
    """Raise where a package was made on another system.  `compiled`: it has code for the processor."""
    now = system()
    compared = dict(_ALWAYS)
    if any(name in _GPUS for name in devices):
        missing = [name for name in devices if name in _GPUS and not getattr(torch, name).is_available()]
        if missing:
            raise PackageError(f"the package needs a device that is not available: {', '.join(missing)}")
        compared.update(_ON_GPUS)
    if compiled:
        compared["cpu"] = "processor"
    for name, words in compared.items():
        before = made_on.get(name) if type(made_on) is dict else None
        if before != now[name]:
            shown = "" if name == "framelift" else f": {before}; this is {now[name]}"
            raise PackageError(f"the package was created with a different {words}{shown}")


def devices_of(records: list[dict[str, Any]]) -> list[str]:
    """The kinds of devices that graphs of these records use."""
    found = {"cpu"}
    for record in records:
        graph = record["graph"] or {"facts": ()}
        rows = [field for facts in graph["facts"] for field in facts]
        rows += [field for _, kind, data, _ in record["guards"] if kind == "TENSOR" for field in data[1]]
        for row in rows:
            if type(row) is list and len(row) == 2 and row[0] == "device":
                found.add(row[1].partition(":")[0])
    return sorted(found)
