"""torch.fx, pytrees and torch.jit: parts of graphs that torch keeps to itself."""

from typing import Any

from .port import Port, area, parts

__getattr__ = area(
    globals(),
    "every capture",
    parts(
        "torch.fx._lazy_graph_module",
        "compile a graph's code at its first call",
        "lazy_graph_modules= _LazyGraphModule",
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
    parts("torch.fx.graph", "free a graph's inputs as they are used", "_BoxedCodeGen"),
    parts("torch.fx.graph", "name the arguments of exported graphs", "_PyTreeCodeGen _PyTreeInfo"),
    parts("torch.fx.graph", "write the code of a graph", "_is_from_torch"),
    parts("torch.fx.node", "write the code of a graph", "_get_qualified_name"),
    parts(
        "torch.fx._graph_pickler",
        "compile graphs in another process",
        "GraphPickler GraphPicklerOptions=Options",
        lost="background compilation",
    ),
    parts("torch.utils._pytree", "take apart containers of tensors as torch does", "pytree= tree_leaves"),
    parts("torch.jit._state", "capture functions of torch.jit.script", "_try_get_jit_cached_function"),
    parts(
        "torch.distributed",
        "cut graphs where DistributedDataParallel's buckets end",
        "first_bucket_bytes=_DEFAULT_FIRST_BUCKET_BYTES",
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
