"""A fact of torch 2.11: where torch is built for CUDA and no device is there, the first fake mode puts a stand-in in
the place of CUDA's device guard.  All threads see it, but it belongs to the thread that made it: when that thread ends,
the next fake mode reads freed memory.  torch 2.13 has one for the whole process.

So a thread that does not end makes it.
"""

from __future__ import annotations

import threading

import torch
from torch.torch_version import TorchVersion

from ...torch_ports.fakes import FakeTensorMode
from ...torch_ports.state import ensure_cuda_device_guard_set

_lock = threading.Lock()
_kept = TorchVersion(torch.__version__) >= (2, 13)


def keep_device_guard(mode: FakeTensorMode) -> None:
    """To be called before a fake mode of ours is entered: what it finds stays for the whole process."""
    global _kept
    if _kept or not mode.avoid_device_init:
        return
    with _lock:
        if _kept:
            return
        if threading.current_thread() is threading.main_thread():
            ensure_cuda_device_guard_set()
        else:
            made = threading.Event()
            threading.Thread(target=_make, args=(made,), name="framelift device guard", daemon=True).start()
            made.wait()
        _kept = True


def _make(made: threading.Event) -> None:
    ensure_cuda_device_guard_set()
    made.set()
    threading.Event().wait()  # to the end of the process
