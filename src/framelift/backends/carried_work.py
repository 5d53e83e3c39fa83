"""What a backend compiled, as bytes that a package carries to another machine.

Of Inductor these are the entries of torch's caches (pickles of torch's own, so they are unpacked from trusted packages
alone), the note that leads to them (warm_start.py) and the libraries of its C++ kernels.  Of a backend that returns a
callable with `serialize_compile_artifacts` (torch's SerializableCallable) it is what that gives.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.compiler._cache import CacheArtifactManager

from ..cache.importable_names import name_for
from . import warm_start

__all__ = ["Work", "collecting", "settings", "unpacked"]

#: where the library of a C++ kernel is, below Inductor's folder
_LIBRARY = re.compile(r"[a-z0-9]{2}/[a-z0-9]{20,80}(?:\.main)?\.so")


@dataclass
class Work:
    """What a backend made of one graph."""

    artifacts: bytes = b""
    note: Any = None  # JSON
    libraries: dict[str, bytes] = field(default_factory=dict)  # by their place below Inductor's folder
    made_by: Any = None  # the name of the class that reads `compiled`
    compiled: bytes = b""

    @property
    def is_machine_code(self) -> bool:
        return bool(self.artifacts or self.libraries)


@contextlib.contextmanager
def settings() -> Iterator[None]:
    """A backward is compiled with its forward: it cannot be later, when a program asks for it."""
    from torch._functorch import config

    name = "force_non_lazy_backward_lowering"
    with config.patch({name: True}) if hasattr(config, name) else contextlib.nullcontext():
        yield


def collecting(compile_graph: Any, *args: Any, **kwargs: Any) -> tuple[Any, Work]:
    """Compile a graph, and give also what another machine needs in order to have it without compiling."""
    with settings(), CacheArtifactManager.with_fresh_cache(), warm_start.noting_all() as notes:
        compiled = compile_graph(*args, **kwargs)
        found = CacheArtifactManager.serialize()
        artifacts = CacheArtifactManager._new_cache_artifacts, CacheArtifactManager._seen_artifacts
    for artifact in artifacts[1]:  # they are part of what torch.compiler.save_cache_artifacts saves, too
        if artifact not in CacheArtifactManager._seen_artifacts:
            CacheArtifactManager._new_cache_artifacts[artifact.type()].append(artifact)
            CacheArtifactManager._seen_artifacts.add(artifact)
    work = Work(found[0] if found is not None else b"")
    if len(notes) == 1:
        work.note, work.libraries = _movable(notes[0])
    kind = type(compiled)
    if hasattr(kind, "serialize_compile_artifacts") and hasattr(kind, "deserialize_compile_artifacts"):
        work.made_by, work.compiled = name_for(kind), kind.serialize_compile_artifacts(compiled)
    return compiled, work


def _movable(note: dict[str, Any]) -> tuple[Any, dict[str, bytes]]:
    """A note whose libraries are named by their places below Inductor's folder, and these libraries."""
    from torch._inductor.runtime.runtime_utils import cache_dir

    kernels: dict[str, dict[str, Any]] = {}
    libraries = {}
    for key, named in note["kernels"].items():
        kernels[key] = {}
        for name, (path, library, digest) in named.items():
            place = os.path.relpath(path, cache_dir())
            if _LIBRARY.fullmatch(place) is None:
                return None, {}
            with open(path, "rb") as file:
                libraries[place] = file.read()
            if hashlib.sha256(libraries[place]).hexdigest() != digest:
                return None, {}
            kernels[key][name] = [place, library, digest]
    return {**note, "kernels": kernels}, libraries


def unpacked(work: Work) -> Any:
    """Put what a trusted package carries where torch looks for it; the note for this machine, or None."""
    from torch._inductor.runtime.runtime_utils import cache_dir

    if work.artifacts:
        torch.compiler.load_cache_artifacts(work.artifacts)
    for place, content in work.libraries.items():
        if _LIBRARY.fullmatch(place) is None:
            raise ValueError(f"a library at {place}")
        _put(os.path.join(cache_dir(), place), content)
    if work.note is None:
        return None
    kernels = {
        key: {name: [os.path.join(cache_dir(), place), *rest] for name, (place, *rest) in named.items()}
        for key, named in work.note["kernels"].items()
    }
    return {**work.note, "kernels": kernels}


def _put(path: str, content: bytes) -> None:
    try:
        with open(path, "rb") as file:
            if file.read() == content:
                return
    except OSError:
        pass
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
    with open(descriptor, "wb") as file:
        file.write(content)
    os.chmod(temporary, 0o755)
    os.replace(temporary, path)
