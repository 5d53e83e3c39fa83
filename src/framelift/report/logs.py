"""Finished captures reported to the loggers, and to torch's structured trace (TORCH_TRACE) when that is on."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..capture.records.events import listen
from ..torch_ports.compiling import from_traceback, logging_internal
from ..torch_ports.fakes import CompileContext, compile_context
from ..vocabulary.log import topic
from ..vocabulary.own_code import FRAMELIFT
from .graphs import readable
from .guards import is_free, tree_text
from .recompile_fixes import recompile_fix, settled_fix

if TYPE_CHECKING:
    from ..capture.records.captures import Capture


@listen("done")
def _log(capture: Capture) -> None:
    name = f"[{capture.names.function(capture.name, capture.file, capture.line)}]"
    level = logging.DEBUG if capture.torchs_own else logging.INFO
    if capture.miss is not None and topic("recompiles").isEnabledFor(level):
        topic("recompiles").log(level, "%s recompiled: %s\n  fix: %s", name, capture.recompile, _fix(capture))
    if topic("perf").isEnabledFor(logging.INFO):
        phases = ", ".join(f"{p.name} {p.seconds * 1e3:.2f} ms" for p in capture.phases)
        topic("perf").info("%s %s; %d operations, %d guards", name, phases, capture.operations, capture.guard_count)
    if topic("guards").isEnabledFor(logging.INFO):
        topic("guards").info(
            "%s %d guards\n%s",
            name,
            capture.guard_count,
            tree_text(capture.explain, "  ", "  ", topic("guards").isEnabledFor(logging.DEBUG)),
        )
    if capture.graph_module is not None and topic("graph").isEnabledFor(logging.INFO):
        topic("graph").info("%s\n%s", name, readable(capture.graph_module))
    if capture.source and topic("entry").isEnabledFor(logging.INFO):
        topic("entry").info("%s\n%s", name, capture.source)


def _fix(capture: Capture) -> str:
    miss = capture.miss
    assert miss is not None
    settled = miss.kind in ("EQ", "TENSOR") and capture.explain is not None and is_free(capture.explain, miss.origin)
    origin = capture.names.origin(miss.origin, capture.root)
    return settled_fix(miss.kind, origin) if settled else recompile_fix(miss.kind, origin, miss.old, miss.new)


@listen("done")
def _trace(capture: Capture) -> None:
    """Write a capture to torch's structured trace: the graph, and a record of the compile."""
    internal = logging_internal
    if not internal.trace_log.isEnabledFor(logging.DEBUG) or not internal.trace_log.handlers:
        return
    with compile_context(CompileContext(capture.compile_id)):
        _traced(capture, internal)


def _stack(capture: Capture) -> list[Any]:
    """The program's calls that led here, outermost first, and the frame that was captured."""
    calls = [frame for frame in traceback.extract_stack() if not frame.filename.startswith(FRAMELIFT)]
    line = capture.resumed.place.line if capture.resumed is not None else capture.line
    return from_traceback([*calls, traceback.FrameSummary(capture.file, line, capture.name)])


def _artifact(internal: Any, name: str, text: Callable[[], str], encoding: str = "string") -> None:
    """`text` is asked for while there is somebody to write it: torch's handler takes itself away at the first record
    where no folder for traces was named.
    """
    internal.trace_structured("artifact", lambda: {"name": name, "encoding": encoding}, payload_fn=text)


def _traced(capture: Capture, internal: Any) -> None:
    stack = _stack(capture)
    internal.trace_structured("dynamo_start", lambda: {"stack": stack})
    if capture.recompile:
        _artifact(internal, "recompile_reasons", lambda: json.dumps(capture.recompile), "json")
    if capture.stop is not None:
        _artifact(internal, "dynamo_graph_break_reason", lambda: f"{capture.reason}\n{capture.where}")
    if capture.graph_module is not None:
        internal.trace_structured(
            "dynamo_output_graph",
            lambda: {
                "sizes": {
                    i.origin: list(i.facts.size if i.facts else ()) for i in capture.inputs if hasattr(i, "origin")
                }
            },
            payload_fn=lambda: readable(capture.graph_module),
        )
    if capture.guard_count:
        _artifact(internal, "framelift_guards", lambda: tree_text(capture.explain, "  ", "  ", True))
    if capture.source:
        _artifact(internal, "framelift_entry", lambda: capture.source)
    internal.trace_structured(
        "compilation_metrics",
        lambda: {
            "co_name": capture.name,
            "co_filename": capture.file,
            "co_firstlineno": capture.line,
            "guard_count": capture.guard_count,
            "graph_op_count": capture.operations,
            "fail_type": capture.reason_id or None,
            "fail_reason": capture.reason or None,
            "entire_frame_compile_time_s": sum(p.seconds for p in capture.phases),
            "backend_compile_time_s": sum(p.seconds for p in capture.phases if p.name == "backend"),
            "recompile_reason": capture.recompile or None,
        },
    )
