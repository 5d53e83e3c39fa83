"""Builds the native core for a torch that the installation has none for, once for each build of torch and Python.

It is kept in the user's cache folder, and loaded from there where nobody else could have written it.
FRAMELIFT_BUILD_CORE=0 turns this off.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
import tempfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import torch

from ..cache.files_below import cache_folder, is_own, parent_of, write_below
from ..cache.refusals import NotMine
from .core_build import BuildFailed, build, compiler, version_of

_REMEDY = "install a framelift that supports this torch"


def path_of_built(csrc: Path, lacking: str) -> Path:
    """Return where the core for the running torch is; raise ImportError with a sentence where there cannot be one."""
    if not csrc.exists():  # a checkout, whose files may be changing
        raise ImportError(f"{lacking}: run `make build` in framelift's source folder, or {_REMEDY}")
    if os.environ.get("FRAMELIFT_BUILD_CORE") == "0":
        raise ImportError(f"{lacking}, and FRAMELIFT_BUILD_CORE is 0: {_REMEDY}")
    digest = hashlib.sha256(repr((str(torch.__version__), torch.version.git_version, EXTENSION_SUFFIXES)).encode())
    for file in sorted(csrc.iterdir()):
        digest.update(file.read_bytes())
    place = f"cores/{digest.hexdigest()[:32]}/_core{EXTENSION_SUFFIXES[0]}"
    folder = cache_folder(os.environ.get("FRAMELIFT_CACHE_DIR"))
    try:
        with parent_of(folder, place, make=True, own=True) as (parent, name):
            fcntl.flock(parent, fcntl.LOCK_EX)  # several processes wait for the first
            try:
                if not is_own(os.stat(name, dir_fd=parent, follow_symlinks=False)):
                    raise NotMine(f"others may write {place} in {folder}")
            except FileNotFoundError:
                compiler()  # or the reason why there is none
                print(f"{lacking}: it is built now, once, in a minute or two", file=sys.stderr, flush=True)
                write_below(folder, place, _built(csrc))
    except (BuildFailed, NotMine, OSError) as error:
        raise ImportError(f"{lacking}, and it could not be built: {error}; {_REMEDY}") from None
    return Path(folder, place)


def _built(csrc: Path) -> bytes:
    root = os.path.dirname(torch.__file__)
    version_of(root)
    with tempfile.TemporaryDirectory() as work:
        core = Path(work, "torch", "core.so")
        build(csrc, {root: core}, Path(work))
        return core.read_bytes()
