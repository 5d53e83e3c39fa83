"""torch.fx, pytrees and torch.jit: parts of graphs that torch keeps to itself."""

from typing import Any

from .port import A_CLASS, Port, area

__getattr__ = area(
    globals(),
    "every capture",
    Port("lazy_graph_modules", "torch.fx._lazy_graph_module", "compile a graph's code at its first call"),
    Port(
        "LazyGraphModule",
        "torch.fx._lazy_graph_module:_LazyGraphModule",
        "compile a graph's code at its first call",
        instead=A_CLASS,
    ),
    Port("is_fx_tracing", "torch.fx._symbolic_trace:is_fx_tracing", "answer it inside captured code", instead=None),
    Port(
        "is_fx_symbolic_tracing",
        "torch.fx._symbolic_trace:is_fx_symbolic_tracing",
        "answer it inside captured code",
        instead=None,
    ),
    Port(
        "get_is_fx_tracing",
        "torch.fx._symbolic_trace:_get_is_fx_tracing",
        "know that FX traces the call",
        instead=None,
        versions="2.14 and newer",
    ),
    Port(
        "set_is_fx_tracing",
        "torch.fx._symbolic_trace:_set_is_fx_tracing",
        "put the flag back after a compiler failed",
        instead=None,
        versions="2.14 and newer",
    ),
    Port(
        "is_fx_tracing_flag",
        "torch.fx._symbolic_trace:_is_fx_tracing_flag",
        "know that FX traces the call, and put the flag back after a compiler failed",
        instead=None,
        variable=True,
        versions="2.11 to 2.13",
    ),
    Port("BoxedCodeGen", "torch.fx.graph:_BoxedCodeGen", "free a graph's inputs as they are used", instead=A_CLASS),
    Port("PyTreeCodeGen", "torch.fx.graph:_PyTreeCodeGen", "name the arguments of exported graphs", instead=A_CLASS),
    Port("PyTreeInfo", "torch.fx.graph:_PyTreeInfo", "name the arguments of exported graphs", instead=A_CLASS),
    Port("is_from_torch", "torch.fx.graph:_is_from_torch", "write the code of a graph"),
    Port("get_qualified_name", "torch.fx.node:_get_qualified_name", "write the code of a graph"),
    Port(
        "GraphPickler",
        "torch.fx._graph_pickler:GraphPickler",
        "compile graphs in another process",
        "background compilation",
        instead=A_CLASS,
    ),
    Port(
        "GraphPicklerOptions",
        "torch.fx._graph_pickler:Options",
        "compile graphs in another process",
        "background compilation",
        instead=A_CLASS,
    ),
    Port("pytree", "torch.utils._pytree", "take apart containers of tensors as torch does"),
    Port("tree_leaves", "torch.utils._pytree:tree_leaves", "take apart containers of tensors as torch does"),
    Port(
        "try_get_jit_cached_function",
        "torch.jit._state:_try_get_jit_cached_function",
        "capture functions of torch.jit.script",
    ),
    Port(
        "first_bucket_bytes",
        "torch.distributed:_DEFAULT_FIRST_BUCKET_BYTES",
        "cut graphs where DistributedDataParallel's buckets end",
    ),
)

_read, _write, _flag = map(__getattr__, ("get_is_fx_tracing", "set_is_fx_tracing", "is_fx_tracing_flag"))
#: the functions that return whether torch.fx traces, for programs and for torch's own code
FX_TRACING_READS: tuple[Any, ...] = tuple(
    filter(None, (*map(__getattr__, ("is_fx_tracing", "is_fx_symbolic_tracing")), _read))
)


def fx_tracing_flag() -> bool:
    """Return whether torch.fx traces.  Up to torch 2.13 the flag is one for all threads."""
    if _read is not None:  # the public `is_fx_tracing` logs a warning
        return bool(_read())
    return _flag is not None and bool(_flag.read())


def set_fx_tracing_flag(value: bool) -> None:
    """Set the flag that `fx_tracing_flag` returns."""
    if _write is not None:
        _write(value)
    elif _flag is not None:
        _flag.write(value)
