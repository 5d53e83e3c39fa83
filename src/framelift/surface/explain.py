"""`explain` runs a function once and shows what was captured; `dry_run` shows it without running.  Neither touches
other captures.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from .._core import is_a
from ..capture.records.captures import handled, native_of
from ..report import Report, report
from ..report.gather import entries_of
from ..vocabulary.places import Place
from .compiling import compile

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .compile_types import CompileOptions


@dataclass(frozen=True)
class BreakReason:
    """Why a graph ended.  `user_stack` is outermost first."""

    reason: str
    user_stack: list[Place]
    graph_break: bool = True

    def __str__(self) -> str:
        return self.reason


@dataclass
class ExplainOutput:
    """The result of `explain`. The fields are those of TorchDynamo's; `report` has all the rest."""

    graphs: list[torch.fx.GraphModule]
    graph_count: int
    graph_break_count: int
    break_reasons: list[BreakReason]
    op_count: int
    ops_per_graph: list[list[Any]] | None = None
    out_guards: list[str] | None = None
    compile_times: str | None = None
    report: Report | None = field(default=None, repr=False)
    result: Any = field(default=None, repr=False)

    def __str__(self) -> str:
        head = (
            f"Graph Count: {self.graph_count}\nGraph Break Count: {self.graph_break_count}\nOp Count: {self.op_count}"
        )
        return f"{head}\n\n{self.report.to_text()}" if self.report is not None else head


def _plain(function: Any) -> Any:
    """The function under a compiled callable: explaining must not use what that one captured."""
    if is_a(function, torch.nn.Module):
        return getattr(function, "_orig_mod", function)
    if is_a(function, _core.Compiled):
        if function.receiver is not None:
            return function.receiver
        return functools.partial(function.function, *function.bound) if function.bound else function.function
    return function


def explain(function: Any, **options: Unpack[CompileOptions]) -> Callable[..., ExplainOutput]:
    """A callable that runs `function` once, captured afresh, and returns what was captured and why not.

    Captures made before stay as they are.  `options` are those of `framelift.compile`.

    >>> import torch, framelift
    >>> found = framelift.explain(lambda x: x.sin() + 1)(torch.ones(2))
    >>> found.graph_count, found.graph_break_count, found.op_count
    (1, 0, 2)
    """

    def run(*args: Any, **kwargs: Any) -> ExplainOutput:
        wanted: CompileOptions = {"backend": "eager", **options}
        compiled = compile(_plain(function), **wanted)
        native_of(compiled).miss.breaks.waits = False
        return explanation(compiled, compiled(*args, **kwargs))

    return run


def explanation(compiled: Any, result: Any = None) -> ExplainOutput:
    """Return the captures of a compiled callable so far, in the form of `explain`."""
    found = report(compiled)
    captures = [entry.info for entry in entries_of(native_of(compiled))]
    graphs = [info.graph_module for info in captures if info.graph_module is not None]
    operations = [[node.target for node in graph.graph.nodes if node.op.startswith("call_")] for graph in graphs]
    reasons: dict[Any, BreakReason] = {}
    for info in captures:
        if info.stop is not None and not info.stop.follows_from(info.resumed):
            reasons.setdefault(info.stop.cause, BreakReason(info.stop.sentence, list(info.stop.places)))
    times = "\n".join(f"{name}: {seconds:.4f} s" for name, seconds in found.phases.items())
    return ExplainOutput(
        graphs,
        len(graphs),
        len(reasons),
        list(reasons.values()),
        sum(map(len, operations)),
        operations,
        [guard for info in captures for guard in info.guards],
        times,
        found,
        result,
    )


def dry_run(function: Any, *args: Any, **kwargs: Any) -> Report:
    """Report what would be captured, and why not, without running `function`: no effect, no result.

    The report ends at the first break: what follows depends on what the broken expression gives.

    >>> import torch, framelift
    >>> framelift.dry_run(lambda x: x.sum().item(), torch.ones(2)).breaks[0].reason
    'tensor-item'
    """
    compiled = compile(_plain(function), backend=lambda graph_module, _examples: graph_module.forward)
    native = native_of(compiled)
    native.miss.breaks.waits = False
    handled(native, args, kwargs, functools.partial(native.miss, native))
    return report(compiled)
