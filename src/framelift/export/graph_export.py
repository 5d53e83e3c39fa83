"""`export_graph`, the work of `torch._dynamo.export`: one call as a graph of torch's functions, or of ATen's."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ..exc import Unsupported, WrongArgument
from .capture import ExportedCall, called_as, capture
from .inputs import Call, FakeInputs, call_of, called, dynamism_of, fakes_of, mark_everything, marks_kept
from .lowering import interpreted
from .strict_session import check_inputs


@dataclass(frozen=True)
class ExportGuard:
    """An assumption of an exported graph: relations between sizes (`source` is SHAPE_ENV), or one fact."""

    source: Any
    code_list: Any
    name: str = ""

    def __str__(self) -> str:
        return f"{self.name or self.source}: {self.code_list}"


class ExportResult(NamedTuple):
    """A graph with the program's signature, and what it relies on."""

    graph_module: torch.fx.GraphModule
    guards: list[ExportGuard]


def export_graph(
    function: Callable[..., Any],
    *,
    aten_graph: bool = False,
    pre_dispatch: bool = False,
    decomposition_table: dict[Any, Callable[..., Any]] | None = None,
    tracing_mode: str = "symbolic",
    dynamic_shapes: Any = None,
    specialize_float: bool = True,
    assume_static_by_default: bool = False,
    same_signature: bool = True,
    disable_constraint_solver: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
    **_ignored: Any,
) -> Callable[..., ExportResult]:
    """A callable that captures one call of `function` (a function or module) and gives its graph and guards.

    The graph is called as the function is, and gives what it gives; parameters and other external tensors are
    attributes of the graph module.

    Args:
        aten_graph: a graph of ATen operators instead of torch's functions; with `pre_dispatch` before autograd and
        autocast have acted.
        decomposition_table: how operators are decomposed in an ATen graph.
        tracing_mode: "symbolic", or "real"/"fake" for an ATen graph of constant sizes.
        dynamic_shapes: as for torch.export; where given, all else is constant.
        assume_static_by_default: without `dynamic_shapes` all sizes are constants, instead of symbols; so they are
        too where symbols do not do.
        same_signature: False: the graph takes the leaves of the arguments and gives the leaves of the result.
        disable_constraint_solver: do not check what `dynamic_shapes` promises.

    >>> import torch, framelift
    >>> graph, guards = framelift.export.export_graph(lambda x: {"y": x.sin() + 1})(torch.zeros(3))
    >>> graph(torch.zeros(4))
    {'y': tensor([1., 1., 1., 1.])}
    """
    if decomposition_table is not None and not aten_graph:
        raise WrongArgument(
            "Specifying a decomposition_table table or tracing mode is illegal without setting aten_graph=True"
        )
    if pre_dispatch and not aten_graph:
        raise WrongArgument("pre_dispatch=True can only be used when aten_graph=True")

    def run(*args: Any, **kwargs: Any) -> ExportResult:
        call = call_of(function, args, kwargs)
        check_inputs(call.leaves, torch.nn.Module)
        if dynamic_shapes is not None or assume_static_by_default:
            return attempt(call, with_symbols=False)
        try:
            return attempt(call, with_symbols=True)
        except Unsupported as error:  # nobody asked for symbols
            if error.reason != "symbolic-number":
                raise
        return attempt(call, with_symbols=False)

    def attempt(call: Call, with_symbols: bool) -> ExportResult:
        from ..torch_ports.fakes import unset_fake_temporarily

        with marks_kept(call), unset_fake_temporarily():
            if with_symbols:
                mark_everything(call)
            captured = capture(call, dynamism_of(call, dynamic_shapes))
            if not captured.operations and not same_signature:
                raise WrongArgument("Failed to produce a graph during tracing as no tensor operations were found.")
            fakes = fakes_of(call, dynamic_shapes, prefer_deferred_runtime_asserts_over_guards, constants=True)
            with fakes.mode:
                captured.relied.holds(fakes.leaves)
            fakes.asked.extend(captured.relied.lines(called(call)))
            if dynamic_shapes and not disable_constraint_solver:
                fakes.solve(captured.graph_module)
        module = captured.graph_module
        if aten_graph:
            module = _to_aten(captured, fakes, pre_dispatch, decomposition_table, tracing_mode, call)
        if same_signature:
            called_as(module, call, captured.spec)
        return ExportResult(module, _guards(captured, call))

    return run


def _to_aten(
    captured: ExportedCall, fakes: FakeInputs, pre_dispatch: bool, table: Any, tracing_mode: str, call: Call
) -> torch.fx.GraphModule:
    from torch.fx.experimental.proxy_tensor import make_fx

    inner = captured.graph_module

    run = functools.partial(interpreted, inner)
    symbolic = tracing_mode == "symbolic"
    with fakes.mode if symbolic else contextlib.nullcontext():
        return make_fx(
            run,
            decomposition_table=table,
            tracing_mode="real" if symbolic else tracing_mode,
            _allow_non_fake_inputs=True,
            pre_dispatch=pre_dispatch,
            _allow_fake_constant=False,
        )(*(fakes.leaves if symbolic else call.leaves))


def _guards(captured: ExportedCall, call: Call) -> list[ExportGuard]:
    from ..torch_ports.fakes import GuardSource

    sources = [str(place) if place is not None else f"input {i}" for i, place in enumerate(call.places)]
    rows = (
        [ExportGuard(GuardSource.SHAPE_ENV, captured.relied.words(sources), "sizes")] if captured.relied.checks else []
    )
    return rows + [ExportGuard(GuardSource.LOCAL, [text], text) for text in captured.guards]
