"""The backends that compile: inductor, and the AOT ones; with the helper that makes AOT backends."""

from __future__ import annotations

import contextlib
import difflib
import functools
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.graph_module import GraphModule

from .. import _core, config
from ..autograd.whole_gradients import whole_gradients
from ..exc import IncorrectUsage
from ..graph.symbols.symbol_sources import source_called
from ..torch_ports.autograd import is_grad_enabled
from ..torch_ports.graphs import LazyGraphModule
from . import second_tier, warm_start, written_inputs
from .disk_caches import accepted_by_caches, caching_floats
from .elsewhere import NotPacked, fakes_of, pack
from .kept_layouts import keep_layouts
from .layers.layer_inputs import copied, group_calls_by_strides, inputs_checked_once
from .layers.repeated_layers import fold_repeated_layers, one_schema_per_layer
from .plain_graphs import compiled_or_plain
from .registrations import register
from .rewrites import FLOATS, LAYERS, LOADED, Rewritten, may_rewrite, rewritten_now, rewrote
from .second_tier import FLAT, FOLDED
from .surroundings import settings_kept
from .symbolic_floats import following_floats, takes_floats
from .triton_launchers import launchers_beside_kernels
from .warm_start import Place


@register("eager", "debug")
def eager(graph_module: GraphModule, example_inputs: Sequence[torch.Tensor], **_ignored: Any) -> Callable[..., Any]:
    """Run the graph's own Python code."""
    LazyGraphModule.force_recompile(graph_module)
    return graph_module.forward


def aot_autograd(**kwargs: Any) -> Callable[..., Callable[..., Any]]:
    """A backend out of compilers for functional graphs of ATen operations.

    Takes the arguments of `torch._functorch.aot_autograd.aot_module_simplified`: `fw_compiler`, and where they
    differ from it `bw_compiler` and `inference_compiler`; `partition_fn`; `decompositions`, a table or a function
    that gives one.

    >>> import torch, framelift
    >>> def show(graph_module, example_inputs):
    ...     print([str(n.target) for n in graph_module.graph.nodes if n.op == "call_function"])
    ...     return graph_module.forward
    >>> framelift.compile(torch.relu, backend=framelift.aot_autograd(fw_compiler=show))(torch.ones(1))
    ['aten.relu.default']
    tensor([1.])
    """

    def aot_backend(
        graph_module: GraphModule, example_inputs: Sequence[torch.Tensor], **_ignored: Any
    ) -> Callable[..., Any]:
        from ..torch_ports.compilers import aot_module_simplified

        written_inputs.install()
        given = dict(kwargs)
        if callable(given.get("decompositions")):
            given["decompositions"] = given["decompositions"]()
        if _follows_floats(graph_module):
            given["decompositions"] = following_floats(given.get("decompositions"))
        given["bw_compiler"] = given.get("bw_compiler") or given["fw_compiler"]
        given["inference_compiler"] = given.get("inference_compiler") or given["fw_compiler"]
        given.update((name, _interruptible(given[name])) for name in _COMPILERS)
        own = _own(graph_module, example_inputs)
        # An exception in the middle of AOTAutograd's modes may end the process.
        with whole_gradients(own), _core.SignalsWait():
            return aot_module_simplified(own, list(example_inputs), **given)

    setattr(aot_backend, "unrolls_recurrent_networks", True)
    return aot_backend


_COMPILERS = ("fw_compiler", "bw_compiler", "inference_compiler")


def _interruptible(compiler: Any) -> Any:
    """A compiler that AOTAutograd calls, during which handlers of signals run."""
    if type(compiler) is not types.FunctionType:  # AOTAutograd asks for some by their class
        return compiler

    @functools.wraps(compiler)
    def compile_graph(*args: Any, **kwargs: Any) -> Any:
        with _core.SignalsRun():
            return compiler(*args, **kwargs)

    return compile_graph


def boxed(graph_module: GraphModule, _example_inputs: Any) -> Callable[[list[Any]], Any]:
    """A compiler that compiles nothing, in AOTAutograd's boxed convention: one list, emptied to free memory early."""
    from ..torch_ports.graphs import BoxedCodeGen

    graph_module.graph.set_codegen(BoxedCodeGen())
    graph_module.recompile()
    forward = graph_module.forward

    def run(args: list[Any]) -> Any:
        return forward(args)

    setattr(run, "_boxed_call", True)
    return run


def _min_cut(*args: Any, **kwargs: Any) -> Any:
    from ..torch_ports.compilers import min_cut_rematerialization_partition

    return min_cut_rematerialization_partition(*args, **kwargs)


def _inductor_decompositions() -> Any:
    from ..torch_ports.inductor import select_decomp_table

    return select_decomp_table()


def _float_decompositions() -> Any:
    return following_floats(_inductor_decompositions())


#: AOTAutograd with compilers that compile nothing: forward and backward graphs run operator by operator
aot_eager = register("aot_eager", "debug")(
    aot_autograd(fw_compiler=boxed, partition_fn=_min_cut, keep_inference_input_mutations=True)
)
#: the same, without choosing what to compute again in the backward
aot_eager_default_partitioner = register("aot_eager_default_partitioner", "debug")(
    aot_autograd(fw_compiler=boxed, keep_inference_input_mutations=True)
)


@register("aot_eager_decomp_partition", "debug")
def aot_eager_decomp_partition(
    graph_module: GraphModule, example_inputs: Sequence[torch.Tensor], **_ignored: Any
) -> Callable[..., Any]:
    """As aot_eager, with Inductor's decompositions: all that Inductor does before it generates code."""
    from ..torch_ports.compilers import aot_config as config

    with config.patch(unlift_effect_tokens=True):
        return aot_autograd(
            fw_compiler=boxed,
            partition_fn=_min_cut,
            decompositions=_inductor_decompositions,
            keep_inference_input_mutations=True,
        )(graph_module, example_inputs)


@register("inductor")
def inductor(
    graph_module: GraphModule,
    example_inputs: Sequence[torch.Tensor],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """TorchInductor, with the `mode` and `options` of torch.compile."""
    patches = _inductor_config(mode, options)
    key = None if takes_floats(graph_module) else warm_start.where(graph_module, example_inputs, patches)
    with whole_gradients(graph_module):
        found = warm_start.load(key, example_inputs, patches) if may_rewrite(LOADED) else None
        tier = getattr(found, "tier", "")
        if found is not None:
            rewrote(LOADED)
        else:
            _start_workers(example_inputs)
            own, note = _own_with_note(graph_module, example_inputs, mode, options, key)
            found = lower(own, fakes_of(example_inputs) or example_inputs, mode, options, note)
            tier = note.tier if note is not None else ""
    if tier == FLAT:
        second_tier.used()
    elif tier == FOLDED:
        flat = functools.partial(_packed, graph_module, example_inputs, mode=mode, options=options, flat=True)
        second_tier.begin(flat, _needs_grad(example_inputs))
    return found


def _compiler_config(mode: str | None = None, options: dict[str, Any] | None = None) -> dict[str, Any]:
    """Inductor's settings with those of one compile."""
    from ..torch_ports.inductor import get_patched_config_dict

    found: dict[str, Any] = get_patched_config_dict(config_patches=_inductor_config(mode, options))
    return found


setattr(inductor, "get_compiler_config", _compiler_config)


def _own_with_note(
    graph_module: GraphModule,
    example_inputs: Sequence[Any],
    mode: str | None,
    options: dict[str, Any] | None,
    key: str | None,
    flat: bool = False,
) -> tuple[GraphModule, Place | None]:
    """The compiler's copy of a graph, its layers folded but for `flat`, and where the note about it is written."""
    own = _own(graph_module, example_inputs, folds_layers=not flat and _runs_our_passes(mode, options))
    tier = FLAT if flat else FOLDED if _calls_layers(own) and not _calls_layers(graph_module) else ""
    return own, None if key is None else Place(key, tier)


def _follows_floats(graph_module: GraphModule) -> bool:
    if not takes_floats(graph_module) or not may_rewrite(FLOATS):
        return False
    rewrote(FLOATS)
    return True


def _start_workers(example_inputs: Sequence[Any]) -> None:
    """The processes that compile Triton kernels start while the graph is still traced, as with torch.compile.

    A graph whose inputs are all on the CPU seldom has such kernels; Inductor starts them when there is one.
    """
    if all(one.device.type == "cpu" for one in example_inputs if type(one) is not int and hasattr(one, "device")):
        return
    from ..torch_ports.inductor import async_compile

    start = getattr(async_compile, "maybe_warm_pool", None)  # not in all versions of torch
    if start is not None:
        start()


def _calls_layers(graph_module: GraphModule) -> bool:
    return bool(graph_module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.invoke_subgraph))


def lower(
    graph_module: GraphModule,
    example_inputs: Sequence[Any],
    mode: str | None,
    options: dict[str, Any] | None,
    note: Place | None,
) -> Callable[..., Any]:
    """Give Inductor a graph, which is its own copy.  `note`: where later processes look for it (warm_start.py)."""
    from ..torch_ports.compilers import aot_config as functorch_config
    from ..torch_ports.inductor import compile_fx, inductor_config
    from . import raising_kernels
    from .layers.layer_calls import SeparateResults, functorch_settings
    from .own_memory import OwnMemory
    from .vector_instructions import try_only_the_best

    try_only_the_best()
    written_inputs.install()

    patches = {**raising_kernels.install(), **_inductor_config(mode, options)}
    if inductor_config.post_grad_custom_post_pass is None:  # a user's own pass stays
        patches.setdefault("post_grad_custom_post_pass", OwnMemory())
    has_floats, rewritten = _follows_floats(graph_module), rewritten_now()
    table = _float_decompositions() if has_floats else None
    floats = caching_floats() if has_floats else contextlib.nullcontext()
    layers = contextlib.ExitStack()
    caches: Any = contextlib.nullcontext()
    if LOADED in rewritten.made:  # what comes from a cache is what has failed
        patches["fx_graph_cache"] = False
        caches = functorch_config.patch(enable_autograd_cache=False)
    if _calls_layers(graph_module):
        patches["joint_custom_pre_pass"] = SeparateResults()
        layers.enter_context(one_schema_per_layer())
        layers.enter_context(functorch_config.patch(functorch_settings))
    modules = warm_start.generated_modules()
    known = len(modules)
    with layers, floats, caches, warm_start.noting_hits(note), _core.SignalsWait():
        compiled: Callable[..., Any] = compile_fx(
            graph_module,
            list(example_inputs),
            inner_compile=functools.partial(_compile_inner, rewritten, note, has_floats),
            config_patches=patches,
            decompositions=table,
        )
    for module in modules[known:]:  # what came from a cache of torch's was not compiled above
        rewritten.generated(getattr(module, "call", None))
    return compiled


def _compile_inner(
    rewritten: Rewritten, note: Place | None, has_floats: bool, graph_module: GraphModule, examples: Any, **kwargs: Any
) -> Any:
    """Inductor's work on one graph.  That of a backward may come late, when the program asks for a gradient."""
    from ..torch_ports.inductor import compile_fx_inner

    def compile_graph(graph: GraphModule) -> Any:
        with settings_kept(), _core.SignalsRun(), launchers_beside_kernels(examples), inputs_checked_once():
            group_calls_by_strides(graph, examples)
            return compile_fx_inner(graph, examples, **kwargs)

    if "get_decomp_fn" in kwargs:  # a part of the key, and kept with the result: a function that can be named
        kwargs["get_decomp_fn"] = _float_decompositions if has_floats else _inductor_decompositions
    compiled = compiled_or_plain(compile_graph, rewritten, graph_module, kwargs.get("is_backward", False))
    warm_start.note_compiled(note, compiled)
    rewritten.generated(getattr(compiled, "current_callable", None))
    return compiled


def _packed(
    graph_module: GraphModule,
    example_inputs: Sequence[torch.Tensor],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    flat: bool = False,
) -> bytes:
    """Pack what another process needs to compile the graph with Inductor; `flat`: without folding its layers."""
    if takes_floats(graph_module):
        raise NotPacked("a float among the inputs, about which the compiler may assume something")
    key = warm_start.where(graph_module, example_inputs, _inductor_config(mode, options))
    own, note = _own_with_note(graph_module, example_inputs, mode, options, key, flat)
    return pack(own, example_inputs, mode, options, note)


setattr(inductor, "pack", _packed)


#: passes of a user stay, and take the place of those that folded layers need (layer_calls.py)
_PASSES = ("joint_custom_pre_pass", "post_grad_custom_post_pass")


def _runs_our_passes(mode: str | None, options: dict[str, Any] | None) -> bool:
    from ..torch_ports.inductor import inductor_config

    with inductor_config.patch(_inductor_config(mode, options)):
        return (
            all(getattr(inductor_config, name) is None for name in _PASSES)
            and inductor_config.use_joint_graph_passes
            and inductor_config.use_post_grad_passes
        )


#: `config.repeated_layers` -> how many equal layers in a row are one that is called several times
_FEWEST_LAYERS = {"auto": 3, "always": 2}


def _own(graph_module: GraphModule, example_inputs: Sequence[Any], folds_layers: bool = False) -> GraphModule:
    """A copy: compilers change the graph they are given, and the captured one is kept for reports."""
    copy = copied(graph_module)
    # What follows makes AOTAutograd look for inputs whose address stays (graph/fx/placeholder_names.py).
    copy.meta.setdefault("dynamo_compile_id", None)
    copy._param_name_to_source = {
        name: source_called(name) for name, _ in (*copy.named_parameters(), *copy.named_buffers())
    }
    for node in copy.graph.find_nodes(op="placeholder"):
        node._dynamo_source = None
    keep_layouts(copy)
    folds_layers = folds_layers and may_rewrite(LAYERS) and not takes_floats(graph_module)
    fewest = _FEWEST_LAYERS.get(config.repeated_layers) if folds_layers else None
    if fewest is not None and (folded := fold_repeated_layers(copy, fewest, for_memory=_needs_grad(example_inputs))):
        rewrote(LAYERS)
        whole, left = _operations(graph_module), _operations(copy)
        rewritten_now().saved(f"{folded} layers folded into equal ones: {left} of {whole} operations are compiled")
    return accepted_by_caches(copy, example_inputs)


def _needs_grad(example_inputs: Sequence[Any]) -> bool:
    return is_grad_enabled() and any(getattr(one, "requires_grad", False) for one in example_inputs)


def _operations(graph_module: GraphModule) -> int:
    """The operations of a graph and of the layers that it calls, each layer once."""
    graphs = [one.graph for one in graph_module.modules() if isinstance(one, GraphModule)]
    not_counted = (torch.ops.higher_order.invoke_subgraph, operator.getitem)
    return sum(n.op.startswith("call_") and n.target not in not_counted for graph in graphs for n in graph.nodes)


def _inductor_config(mode: str | None, options: dict[str, Any] | None) -> dict[str, Any]:
    """The configuration entries that `mode` and `options` stand for; unknown names and values of another type are
    RuntimeErrors, as torch.compile's are.
    """
    from ..torch_ports.inductor import inductor_config as config
    from ..torch_ports.inductor import list_mode_options

    try:
        wanted = dict(list_mode_options(mode) if mode else {})
    except RuntimeError as error:  # which names those there are
        raise IncorrectUsage(str(error)) from None
    known = config.get_config_copy()
    for name, value in (options or {}).items():
        entry = name.replace("-", "_")
        if entry not in known:
            near = difflib.get_close_matches(entry, known, n=3)
            raise IncorrectUsage(
                f"Inductor has no option {name!r}; "
                + (
                    f"did you mean {' or '.join(map(repr, near))}?"
                    if near
                    else "torch._inductor.list_options() lists them all"
                )
            )
        if type(value) is not type(known[entry]) and not _may_be(config, entry, value):
            raise IncorrectUsage(
                f"Inductor's option {name!r} is of type {type(known[entry]).__name__}, not {type(value).__name__}"
            )
        wanted[entry] = value
    return wanted


def _may_be(config: Any, entry: str, value: Any) -> bool:
    """Return whether the declared type of an entry allows this value; one that is None at first has no type."""
    wanted = config.get_type(entry) if hasattr(config, "get_type") else None
    return (
        wanted is None
        or getattr(wanted, "__origin__", None) is not None
        or not isinstance(wanted, type)
        or isinstance(value, wanted)
    )


setattr(inductor, "check", _inductor_config)  # asked when a user names mode or options, before anything is captured

setattr(eager, "runs_graphs_eagerly", True)
setattr(inductor, "has_disk_cache", True)
for _backend in (aot_eager, aot_eager_default_partitioner, aot_eager_decomp_partition):
    setattr(_backend, "keeps_memory_of_nodes", True)
for _backend in (inductor, aot_eager, aot_eager_default_partitioner, aot_eager_decomp_partition):
    # what they give depends on graph, inputs and torch's state alone
    setattr(_backend, "reuses_equal_graphs", True)
    setattr(_backend, "unrolls_recurrent_networks", True)
