"""What Inductor made of a forward or a backward, loaded from its cache (warm_start.py).

`load_graph` does what `FxGraphCacheLoadable.load` of torch/_functorch/_aot_autograd does, and `LoadedGraph` what
`CompiledFxGraph` does.  Both are written so that Inductor's compiler is not loaded.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import async_compile, metrics
from torch._inductor.codecache import FxGraphCache, PyCodeCache
from torch._inductor.output_code import CompiledFxGraph, CompiledFxGraphConstants
from torch._inductor.triton_bundler import TritonBundler
from torch.compiler._cache import CacheArtifactManager

from .generated_code import Kernels, digest, run_generated

__all__ = ["LoadedGraph", "digests", "load_graph", "recorded", "unguarded"]

#: where torch's compilers count, loaded by them
_counts: Any = sys.modules["torch._dynamo.utils"]


class LoadedGraph(CompiledFxGraph):
    """A compiled graph whose calls are watched by `torch._inductor.debug` only where that is loaded."""

    def __call__(self, inputs: Sequence[Any]) -> Any:
        if "debug" in vars(torch._inductor):
            return CompiledFxGraph.__call__(self, inputs)
        assert self.current_callable is not None
        try:
            if torch.autograd.profiler._is_profiler_enabled:
                name = f"## Call CompiledFxGraph {self._fx_graph_cache_key} ##"
                with torch._C._profiler._RecordFunctionFast(name, keyword_values={"scope": "user_scope"}):
                    return self.current_callable(inputs)
            return self.current_callable(inputs)
        finally:
            _counts.get_runtime_metrics_context().finish()


def digests(cache: Any, key: str) -> dict[str, str]:
    """The files that one of torch's caches has under a key, and their digests."""
    folder = cache._get_tmp_dir_for_key(key)
    found = {}
    for name in os.listdir(folder):
        if not name.startswith("."):  # else somebody is writing it
            with open(os.path.join(folder, name), "rb") as file:
                found[name] = digest(file.read())
    return found


def unguarded(cache: Any, key: str, known: dict[str, dict[str, str]]) -> tuple[Any, Any]:
    """The entry of one of torch's caches that no guard limits, and its bytes.  Raises where it is not a known one.

    A damaged one may well be readable, with a wrong number in it, and torch does not look: such a file goes away.
    """
    for name, now in digests(cache, key).items():
        if known[key].get(name, now) != now:
            os.unlink(os.path.join(cache._get_tmp_dir_for_key(key), name))
    entry, content, _ = cache.find_guarded_entry(key, True, None, lambda _guards, _hints: False, [])
    if entry is None or digest(content) not in known[key].values():
        raise LookupError(f"nothing known is kept under {key}")
    return entry, content


def recorded(kind: str, key: str, content: Any) -> None:
    """Make what was loaded a part of what torch.compiler.save_cache_artifacts saves."""
    CacheArtifactManager.record_artifact(kind, key, content)


def load_graph(part: Any, note: dict[str, Any], example_inputs: Sequence[Any]) -> Any:
    """The compiled graph that a part of an entry of AOTAutograd's cache names."""
    key = part.fx_graph_cache_info[0]
    graph, content = unguarded(FxGraphCache, key, note["digests"])
    if not _has_its_libraries(graph):
        raise LookupError(f"{key} was linked with other libraries")
    recorded("inductor", key, content)
    async_compile.CompiledTritonKernels.cache_clear()
    if graph._triton_bundle:
        TritonBundler.read_and_emit(graph._triton_bundle)
    part.example_inputs, part.constants = example_inputs, CompiledFxGraphConstants()
    kernels: Kernels = note["kernels"][key]
    path = _written(graph)
    module = run_generated(path, graph.source_code, graph.cache_key, part.constants.unwrap(graph), kernels)
    PyCodeCache.linemaps[path] = list(zip(*(graph.cache_linemap or []), strict=False))
    PyCodeCache.modules.append(module)
    sys.modules[module.__name__] = module
    graph.current_callable = module.call
    graph.recursively_apply_fns = getattr(module, "recursively_apply_fns", None)
    graph.compiled_fn_runner = getattr(module, "runner", None)
    metrics.CachedMetricsHelper.apply_deltas(graph.metrics_deltas)
    _counts.counters["inductor"] += graph.counter_deltas
    _counts.counters["inductor"]["fxgraph_cache_hit"] += 1
    graph.__class__ = LoadedGraph
    return graph


def _written(graph: CompiledFxGraph) -> str:
    """The file with the code of a graph.  Where it is damaged it is written again: Inductor reads it unseen."""
    path = graph.write_to_disk()
    with open(path, "rb") as file:
        if file.read() == graph.source_code.encode():
            return path
    os.unlink(path)
    return graph.write_to_disk()


@functools.cache
def _libraries_of_now() -> Any:
    from torch.utils import _triton

    return _triton._extern_libs_key(_triton.triton_backend())


def _has_its_libraries(graph: CompiledFxGraph) -> bool:
    """Whether the libraries that Triton linked into the kernels are those of now."""
    wanted = getattr(graph, "extern_libs_key", None)
    return wanted is None or wanted == _libraries_of_now()
