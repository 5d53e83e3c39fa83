"""The work of a backend, as bytes that a package carries to another machine.

Of Inductor these are the entries of torch's caches (pickles of torch's own, so they are unpacked from trusted packages
alone), the note that leads to them (cache/compiled_note.py) and the libraries of its C++ kernels.  Of a backend that
returns a callable with `serialize_compile_artifacts` (torch's SerializableCallable) it is what that gives.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from ..cache.compiled_note import CompiledNote
from ..cache.files_below import is_place
from ..cache.importable_names import name_for
from ..cache.refusals import NotMine
from ..torch_ports.compilers import CacheArtifactManager
from . import warm_start


@dataclass
class Work:
    """The work of a backend for one graph."""

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
    from ..torch_ports.compilers import aot_config as config

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
        from ..torch_ports.inductor import cache_dir

        with contextlib.suppress(OSError, NotMine):  # a library is gone: where the package is loaded it is compiled
            work.libraries = {place: notes[0].content(cache_dir(), place) for place in notes[0].libraries()}
            work.note = notes[0].data()
    kind = type(compiled)
    if hasattr(kind, "serialize_compile_artifacts") and hasattr(kind, "deserialize_compile_artifacts"):
        work.made_by, work.compiled = name_for(kind), kind.serialize_compile_artifacts(compiled)
    return compiled, work


def unpacked(work: Work) -> CompiledNote | None:
    """Put what a trusted package carries where torch looks for it; the note about it, or None."""
    for place in work.libraries:
        if not is_place(place):
            raise ValueError(f"a library at {place}")  # caught where the package is loaded
    if work.artifacts:
        torch.compiler.load_cache_artifacts(work.artifacts)
    return None if work.note is None else CompiledNote.from_data(work.note, work.libraries)
