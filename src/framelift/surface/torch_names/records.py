"""Captures in TorchDynamo's own records: `utils.counters`, `compile_times`, `get_compilation_metrics`,
`guard_failures`, the list of traced frames, and hooks on generated code.
"""

from __future__ import annotations

import dataclasses
import sys
import time
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import _core
from ...capture.records import counters, events
from ...capture.records.callbacks import CODE_HOOKS, side_effects_of
from ...torch_ports.loaded import (
    dynamo_callback,
    dynamo_compiled_autograd,
    dynamo_counters,
    dynamo_eval_frame,
    dynamo_output_graph,
    dynamo_utils,
)
from ...vocabulary.places import summary
from .convert_frame import show_code

if TYPE_CHECKING:
    from ...capture.records.captures import Capture

#: phases of a capture under the names that `compile_times` has for them
_PHASES = {
    "rehearse": "bytecode_tracing",
    "graph": "create_proxy",
    "backend": "OutputGraph.call_user_compiler",
    "entry": "entry",
    "guards": "build_guards",
}
_TOTAL = "_compile.compile_inner"


def follow() -> Callable[[], None]:
    """From now on captures are noted there, too; what is returned ends that."""
    for listener in _DONE:
        events.LISTENERS["done"].append(listener)
    counters.MIRRORS.append(_counters)
    CODE_HOOKS.append(show_code)
    _core.name_ranges_as_torch(True)

    def undo() -> None:
        _core.name_ranges_as_torch(False)
        for listener in _DONE:
            if listener in events.LISTENERS["done"]:
                events.LISTENERS["done"].remove(listener)
        counters.MIRRORS.remove(_counters)
        CODE_HOOKS.remove(show_code)

    return undo


def forget() -> None:
    """`reset` empties what TorchDynamo's own would."""
    utils, tracing = dynamo_utils.get(), dynamo_eval_frame.get()
    if utils is not None:
        utils.guard_failures.clear()
        utils.graph_break_reasons.clear()
    if tracing is not None:
        tracing.dynamo_tls.traced_frame_infos.clear()
    callbacks = dynamo_callback.get()
    if callbacks is not None:
        callbacks.callback_handler.clear()
    backward = dynamo_compiled_autograd.get()
    if backward is not None:
        backward.reset()


def _counters() -> Any:
    return getattr(dynamo_counters.get(), "counters", None)


def _frame(capture: Capture) -> None:
    module = dynamo_eval_frame.get()
    if module is not None and capture.resumed is None:
        module.dynamo_tls.traced_frame_infos.append(f"{capture.name} {capture.file}:{capture.line}")


def _times(capture: Capture) -> None:
    utils = dynamo_utils.get()
    if utils is None:
        return
    table = utils.compilation_time_metrics
    table.setdefault(_TOTAL, []).append(sum(phase.seconds for phase in capture.phases))
    for phase in capture.phases:
        table.setdefault(_PHASES.get(phase.name, phase.name), []).append(phase.seconds)


def _failures(capture: Capture) -> None:
    utils = dynamo_utils.get()
    if utils is None:
        return
    if capture.recompile and capture.code is not None:
        utils.guard_failures[capture.code].append(capture.recompile)
    if capture.stop is not None:
        graph = dynamo_output_graph.get()
        made = graph.GraphCompileReason(capture.reason, list(summary(capture.stop.places)), False)
        made.graph_break = True  # set after: with it the record would list itself, and count twice
        utils.graph_break_reasons.append(made)


def _metrics(capture: Capture) -> None:
    utils = dynamo_utils.get()
    if utils is None:
        return
    seconds = {phase.name: phase.seconds for phase in capture.phases}
    total, graph = sum(seconds.values()), capture.graph_module
    nodes = list(graph.graph.nodes) if graph is not None else []
    contexts = (
        utils.get_hook_for_recompile_user_context() if hasattr(utils, "get_hook_for_recompile_user_context") else None
    )
    end = time.time_ns() // 1000
    found = {
        "compile_id": str(capture.compile_id),
        "frame_key": str(capture.compile_id.frame_id) if capture.compile_id is not None else None,
        "co_name": capture.code.co_name if capture.code is not None else capture.name,
        "co_filename": capture.file,
        "co_firstlineno": capture.line,
        "guard_count": capture.guard_count,
        "graph_op_count": capture.operations,
        "graph_node_count": len(nodes),
        "graph_input_count": sum(node.op == "placeholder" for node in nodes),
        "start_time": time.time() - total,
        "start_time_us": end - int(total * 1e6),
        "end_time_us": end,
        "duration_us": int(total * 1e6),
        "entire_frame_compile_time_s": total,
        "backend_compile_time_s": seconds.get("backend", 0.0),
        "dynamo_cumulative_compile_time_us": int(total * 1e6),
        "fail_type": capture.reason_id or None,
        "fail_reason": capture.reason or None,
        "has_guarded_code": graph is not None,
        "recompile_reason": capture.recompile or None,
        "recompile_user_contexts": {hook()[:256] for hook in contexts} if contexts else None,
        "restart_reasons": set(),
        "is_forward": True,
        "python_version": sys.version,
    }
    known = {field.name for field in dataclasses.fields(utils.CompilationMetrics)}
    made = utils.CompilationMetrics(**{name: value for name, value in found.items() if name in known})
    utils._compilation_metrics.append(made)


def side_effects(code: types.CodeType) -> tuple[str, ...] | None:
    """`get_compiled_code_side_effects`: the places that code which a hook was shown changes; None: it is other code."""
    return side_effects_of(code)


def has_side_effects(code: types.CodeType) -> bool:
    """`compiled_code_has_side_effects`."""
    return bool(side_effects_of(code))


def _events(capture: Capture) -> None:
    """Nested events of torch's Chrome traces: the capture, and its phases."""
    utils = dynamo_utils.get()
    if utils is None or not capture.phases:
        return
    offset = time.time_ns() - time.perf_counter_ns()
    spans = [
        (_PHASES.get(phase.name, phase.name), phase.start, phase.start + phase.seconds) for phase in capture.phases
    ]
    whole = (_TOTAL, min(start for _, start, _ in spans), max(end for _, _, end in spans))
    stack = sorted([whole, *spans], key=lambda span: (span[1], -span[2]))
    log, notes = utils.get_chromium_event_logger(), {"co_name": capture.name, "compile_id": str(capture.compile_id)}
    open_: list[tuple[str, float, float]] = []

    def end(until: float) -> None:
        while open_ and open_[-1][2] <= until:
            name, start, stop = open_.pop()
            log._log_timed_event(name, offset + int(stop * 1e9), "E", dict(notes))

    for name, start, stop in stack:
        end(start)
        log._log_timed_event(name, offset + int(start * 1e9), "B", dict(notes))
        open_.append((name, start, stop))
    end(float("inf"))


_DONE = (_frame, _times, _failures, _metrics, _events)
