"""Inductor's result for a forward or a backward, loaded from its cache (warm_start.py).

`load_graph` does what `FxGraphCacheLoadable.load` of torch/_functorch/_aot_autograd does, and `LoadedGraph` what
`CompiledFxGraph` does.  Both are written so that Inductor's compiler is not loaded.
"""

from __future__ import annotations

import functools
import os
import pickle
import sys
import types
from collections.abc import Sequence
from typing import Any

from ..cache.compiled_note import CompiledNote
from ..cache.refusals import NotMine
from ..torch_ports.compilers import CacheArtifactManager
from ..torch_ports.inductor import (
    CompiledFxGraph,
    CompiledFxGraphConstants,
    PyCodeCache,
    TritonBundler,
    async_compile,
    cache_dir,
    metrics,
)
from ..torch_ports.loaded import dynamo_utils, inductor_debug
from ..torch_ports.state import RecordFunctionFast, is_profiler_enabled
from .generated_code import load_library, run_generated
from .rewrites import rewritten_now


class LoadedGraph(CompiledFxGraph):
    """A compiled graph whose calls are watched by `torch._inductor.debug` only where that is loaded."""

    def __call__(self, inputs: Sequence[Any]) -> Any:
        if inductor_debug.get() is not None:
            return CompiledFxGraph.__call__(self, inputs)
        assert self.current_callable is not None
        try:
            if is_profiler_enabled.read():
                name = f"## Call CompiledFxGraph {self._fx_graph_cache_key} ##"
                with RecordFunctionFast(name, keyword_values={"scope": "user_scope"}):
                    return self.current_callable(inputs)
            return self.current_callable(inputs)
        finally:
            dynamo_utils.get().get_runtime_metrics_context().finish()


def unguarded(note: CompiledNote, key: str) -> tuple[Any, bytes]:
    """The entry of one of torch's caches that no guard limits, and its bytes.  Raises where it is not as noted.

    Torch unpickles every file that it finds under a key; this unpickles only bytes with a digest that was noted.
    """
    for place in note.entries[key]:
        try:
            content = note.content(cache_dir(), place)
        except (OSError, NotMine):
            continue
        entry = pickle.loads(content)
        if not entry.guards_expr:
            return entry, content
    raise LookupError(f"nothing that was noted is kept under {key}")


def recorded(kind: str, key: str, content: Any) -> None:
    """Make what was loaded a part of what torch.compiler.save_cache_artifacts saves."""
    CacheArtifactManager.record_artifact(kind, key, content)


def load_graph(part: Any, note: CompiledNote, example_inputs: Sequence[Any]) -> Any:
    """The compiled graph that a part of an entry of AOTAutograd's cache names."""
    key = part.fx_graph_cache_info[0]
    graph, content = unguarded(note, key)
    if not _has_its_libraries(graph):
        raise LookupError(f"{key} was linked with other libraries")
    recorded("inductor", key, content)
    async_compile.CompiledTritonKernels.cache_clear()
    if graph._triton_bundle:
        TritonBundler.read_and_emit(graph._triton_bundle)
    part.example_inputs, part.constants = example_inputs, CompiledFxGraphConstants()

    def library_of(kernel: str) -> types.ModuleType:
        place, name = note.kernels[key][kernel]
        return load_library(os.path.join(cache_dir(), place), name, note.content(cache_dir(), place))

    path = _written(graph)
    module = run_generated(path, graph.source_code, graph.cache_key, part.constants.unwrap(graph), library_of)
    PyCodeCache.linemaps[path] = list(zip(*(graph.cache_linemap or []), strict=False))
    PyCodeCache.modules.append(module)
    sys.modules[module.__name__] = module
    graph.current_callable = module.call
    rewritten_now().generated(module.call)
    graph.recursively_apply_fns = getattr(module, "recursively_apply_fns", None)
    graph.compiled_fn_runner = getattr(module, "runner", None)
    metrics.CachedMetricsHelper.apply_deltas(graph.metrics_deltas)
    dynamo_utils.get().counters["inductor"] += graph.counter_deltas
    dynamo_utils.get().counters["inductor"]["fxgraph_cache_hit"] += 1
    graph.__class__ = LoadedGraph
    return graph


def _written(graph: CompiledFxGraph) -> str:
    """The file with the code of a graph.  Where it is damaged it is written again: Inductor reads it unseen.

    Where nothing can be written, the code is in no file.
    """
    try:
        path = graph.write_to_disk()
        with open(path, "rb") as file:
            if file.read() == graph.source_code.encode():
                return path
        os.unlink(path)
        return graph.write_to_disk()
    except OSError:
        return f"<{graph.cache_key}>"


@functools.cache
def _libraries_of_now() -> Any:
    from ..torch_ports.inductor import triton_tools as _triton

    return _triton._extern_libs_key(_triton.triton_backend())


def _has_its_libraries(graph: CompiledFxGraph) -> bool:
    """Return whether the libraries that Triton linked into the kernels are those of now."""
    wanted = getattr(graph, "extern_libs_key", None)
    return wanted is None or wanted == _libraries_of_now()
