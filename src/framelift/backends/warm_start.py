"""A graph that an earlier process compiled with Inductor, loaded without loading Inductor's compiler.

torch's own way to an entry of its caches takes longer than the rest of a first call: it loads the compiler, computes
keys over all of torch's source files, and asks the C++ compiler about the processor.  So each compile leaves a note
beside torch's caches: under the key of the captured graph (graph_keys.py), which entry of AOTAutograd's cache it
became, and where its C++ kernels are.  A later process reads that note and rebuilds the function with torch's own
classes (loaded_graph.py).

The entries are torch's.  Where anything is missing, damaged or different the graph is compiled as always: entries and
libraries are loaded only as they were when the note was written (cache/compiled_note.py), and all that generated code
names is looked up before the first call.  So an error in a call is the program's, as in a graph that this process
compiled.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from torch.fx.graph_module import GraphModule

from ..cache.compiled_note import CompiledNote, read_compiled_note, write_compiled_note
from ..torch_ports.autograd import top_saved_hooks
from ..torch_ports.loaded import dynamo, dynamo_counters, inductor_codecache
from ..vocabulary.log import topic
from .disk_caches import may_be_kept
from .generated_code import kernels_of
from .graph_keys import disk_key


class Place(NamedTuple):
    """Where the note about a graph is written: under which key, and as which tier (second_tier.py)."""

    key: str
    tier: str = ""


_lock = threading.Lock()
#: name of a C++ kernel -> the path of its library, and Inductor's key for it
_Kernels = dict[str, tuple[str, str]]
#: key in Inductor's cache -> the key of its graph, and its C++ kernels; until AOTAutograd keeps it
_pending: dict[str, tuple[Place, _Kernels]] = {}
_MOST = 1024
#: settings with which entries are kept elsewhere, or belong to Inductor's compiler
_OWN_WAYS = (
    "autotune_remote_cache",
    "bundled_autograd_cache",
    "bundled_autotune_remote_cache",
    "cpp_wrapper",
    "enable_remote_autograd_cache",
    "freezing",
    "fx_graph_remote_cache",
)
_thread = threading.local()
#: where notes are collected for a package
_all_notes: list[list[CompiledNote]] = []


@contextlib.contextmanager
def noting_all() -> Iterator[list[CompiledNote]]:
    """The notes about the graphs that are compiled or loaded in a block."""
    found: list[CompiledNote] = []
    _all_notes.append(found)
    try:
        yield found
    finally:
        _all_notes.pop()


@contextlib.contextmanager
def given(note: CompiledNote | None) -> Iterator[None]:
    """In this block Inductor's graph is the one that a note is about, which a package brought."""
    _thread.given = note
    try:
        yield
    finally:
        _thread.given = None


def where(graph_module: GraphModule, example_inputs: Sequence[Any], options: dict[str, Any]) -> str | None:
    """The key of the note about a graph that is compiled with these options; None where it is not to be kept."""
    from ..torch_ports.compilers import aot_config as functorch_config
    from ..torch_ports.inductor import inductor_config

    with inductor_config.patch(options):
        if not functorch_config.enable_autograd_cache or not inductor_config.fx_graph_cache:
            return None
        if inductor_config.triton.cudagraphs or inductor_config.force_disable_caches:
            return None
        # versions of torch do not have all of these
        if any(getattr(one, name, None) for one in (inductor_config, functorch_config) for name in _OWN_WAYS):
            return None
        if top_saved_hooks(False) is not None:  # AOTAutograd may trace them
            return None
        return disk_key(graph_module, example_inputs)


# ---- writing notes ---------------------------------------------------------------------------------------------------


def note_compiled(note: Place | None, compiled: Any) -> None:
    """Inductor compiled a forward or backward of the graph that the note is about."""
    key = getattr(compiled, "_fx_graph_cache_key", None)
    name = getattr(compiled, "cache_key", None)
    if note is None or key is None or name is None:
        return
    module = next((one for one in reversed(generated_modules()) if getattr(one, "key", None) == name), None)
    if module is None:
        return
    with _lock:
        if len(_pending) > _MOST:  # backwards that nobody asked for
            _pending.clear()
        _pending[key] = note, kernels_of(module)


@contextlib.contextmanager
def noting_hits(note: Place | None) -> Iterator[None]:
    """While a graph is given to Inductor: where AOTAutograd's cache has it without a note, leave one."""
    _watch()
    found = generated_modules()
    count = len(found)
    _thread.hit = None
    yield
    hit, _thread.hit = _thread.hit, None
    if note is not None and hit is not None:
        key, entry = hit
        keys = _inductor_keys(entry)
        kernels = [kernels_of(one) for one in found[count:] if hasattr(one, "call")]
        if len(keys) == len(kernels):
            _write(note, key, dict(zip(keys, kernels, strict=True)))


def generated_modules() -> list[Any]:
    """The modules of generated code that Inductor has loaded."""
    return inductor_codecache.get().PyCodeCache.modules


@functools.cache
def _watch() -> None:
    """Listen to what AOTAutograd keeps and finds.  A graph with a backward is kept at the first gradient."""
    from ..torch_ports.compilers import AOTAutogradCache

    save, lookup = AOTAutogradCache.save, AOTAutogradCache._lookup

    @functools.wraps(save)
    def saving(key: str, entry: Any, *args: Any, **kwargs: Any) -> Any:
        if not may_be_kept():
            return None
        made = save(key, entry, *args, **kwargs)
        try:
            _saved(key, entry)
        except Exception as error:  # a note less
            topic("graph").info("a compiled graph is not noted: %s: %s", type(error).__name__, error)
        return made

    @functools.wraps(lookup)
    def looking(key: str, *args: Any, **kwargs: Any) -> Any:
        found = lookup(key, *args, **kwargs)
        if found is not None:
            _thread.hit = key, found[0]
        return found

    AOTAutogradCache.save = staticmethod(saving)
    AOTAutogradCache._lookup = staticmethod(looking)


def _saved(key: str, entry: Any) -> None:
    keys = _inductor_keys(entry)
    with _lock:
        parts = [_pending.pop(one, None) for one in keys]
    known = [part for part in parts if part is not None]
    if keys and len(known) == len(keys) and len({note for note, _ in known}) == 1:
        _write(known[0][0], key, dict(zip(keys, (kernels for _, kernels in known), strict=True)))
    elif known:
        topic("graph").info("a compiled graph is not noted: %d of its %d parts are known", len(known), len(keys))


def _inductor_keys(entry: Any) -> list[str]:
    """The keys in Inductor's cache of the forward and the backward of an entry of AOTAutograd's."""
    parts = [part for part in (entry.compiled_fw, entry.compiled_bw) if part is not None]
    return [part.fx_graph_cache_info[0] for part in parts if hasattr(part, "fx_graph_cache_info")]


def _write(note: Place, key: str, kernels: dict[str, _Kernels]) -> None:
    from ..torch_ports.compilers import AOTAutogradCache
    from ..torch_ports.inductor import FxGraphCache, cache_dir

    folder = os.path.abspath(cache_dir())
    if note.tier == "folded" and (there := read_compiled_note(folder, note.key)) and there.tier == "flat":
        return  # a backward that was compiled late
    folders = {one: FxGraphCache._get_tmp_dir_for_key(one) for one in kernels}
    folders[key] = AOTAutogradCache._get_tmp_dir_for_key(key)
    places = {one: os.path.relpath(path, folder) for one, path in folders.items()}
    written = write_compiled_note(folder, note.key, key, places, kernels, note.tier)
    if written is not None:
        _collect(written)


def _collect(note: CompiledNote) -> None:
    if _all_notes:
        _all_notes[-1].append(note)


# ---- reading them ----------------------------------------------------------------------------------------------------


def load(key: str | None, example_inputs: Sequence[Any], options: dict[str, Any]) -> Callable[..., Any] | None:
    """The compiled function of the graph that a note is about; None where there is none."""
    from ..torch_ports.inductor import cache_dir

    try:
        note = getattr(_thread, "given", None)
        if note is None and key is not None:
            note = read_compiled_note(cache_dir(), key)
        if note is None:
            return None
        found = _load(note, example_inputs, options)
        if found is not None:
            _collect(note)
            setattr(found, "tier", note.tier)
        return found
    except Exception as error:  # whatever another version of torch does otherwise: the graph is compiled as always
        topic("graph").info("a compiled graph could not be loaded: %s: %s", type(error).__name__, error)
        return None


def _load(note: CompiledNote, example_inputs: Sequence[Any], options: dict[str, Any]) -> Callable[..., Any] | None:
    from ..torch_ports.inductor import inductor_config
    from .loaded_graph import load_graph, recorded, unguarded

    entry, content = unguarded(note, note.entry)
    if entry.maybe_subclass_meta is not None:
        return None
    for part in (entry.compiled_fw, entry.compiled_bw):
        if part is not None:
            part.load = functools.partial(load_graph, part, note)
    with inductor_config.patch(options):
        compiled = entry.wrap_post_compile(list(example_inputs), entry.sanitized_aot_config, _settings_of_graphs())
    recorded("aot_autograd", note.entry, content)
    dynamo_counters.get().counters["aot_autograd"]["autograd_cache_hit"] += 1

    def run(*args: Any) -> Any:
        return compiled(list(args))

    return dynamo.get().disable(run, reason="a compiled graph")  # as torch does with what AOTAutograd gives


def _settings_of_graphs() -> Any:
    """Return the settings that AOTAutograd passes to Inductor with a graph that it has found."""
    from ..torch_ports.compilers import autograd_cache_module as autograd_cache
    from ..torch_ports.inductor import BoxedBool, inductor_config

    create = getattr(autograd_cache, "create_fx_config", None)  # not in torch 2.11
    if create is not None:
        return create(None)
    return {"cudagraphs": BoxedBool(inductor_config.triton.cudagraphs), "boxed_forward_device_index": None}
