"""Captures in torch's logs: what TORCH_LOGS and set_logs ask for, by their own loggers, with compile ids."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import config
from ..capture.records.events import listen
from ..torch_ports.compiling import get_artifact_logger, logging_internal
from ..torch_ports.fakes import CompileContext, compile_context
from ..vocabulary.break_kinds import FOLLOWS, kind_of
from ..vocabulary.places import caret, users
from .graphs import readable
from .guards import tree_text

if TYPE_CHECKING:
    from torch.fx import Node

    from ..capture.records.captures import Capture

#: where torch's handlers are
_HOME = "torch._dynamo.framelift"


def _place(capture: Capture) -> str:
    return f"{capture.name} {capture.file}:{capture.line}"


def _break(capture: Capture) -> str:
    if capture.stop is None:
        return ""
    return (
        f"Graph break in user code at {_where(capture)}\nGraph Break Reason: {capture.reason}\n"
        f"  reason: {capture.reason_id}\n  kind: {_kind(capture)}\nUser code traceback:\n{capture.where}\n"
    )


def _kind(capture: Capture) -> str:
    follows = capture.stop is not None and capture.stop.follows_from(capture.resumed)
    return FOLLOWS if follows else kind_of(capture.reason_id)


def _where(capture: Capture) -> str:
    place = users(capture.stop.places) if capture.stop is not None else None
    return f"{place.file}:{place.line}" if place is not None else f"{capture.file}:{capture.line}"


def _recompile(capture: Capture) -> str:
    if not capture.recompile:
        return ""
    return (
        f"Recompiling function {capture.name} in {capture.file}:{capture.line}\n"
        f"    triggered by the following guard failure(s):\n    - {capture.recompile}"
    )


def _guards(capture: Capture, lines: bool = False) -> str:
    return "GUARDS:\n" + tree_text(capture.explain, "| ", "+- ", lines)


def _code(capture: Capture) -> str:
    return f"TRACED GRAPH\n {readable(capture.graph_module)}" if capture.graph_module is not None else ""


def _rows(capture: Capture, head: str, row: Callable[[Node], str]) -> str:
    """A head and a row for each node of the graph of which there is something to say."""
    if capture.graph_module is None:
        return ""
    return "\n".join([head, *filter(None, map(row, capture.graph_module.graph.nodes))])


def _table(capture: Capture) -> str:
    return _rows(
        capture,
        f"TRACED GRAPH\n {_place(capture)}",
        lambda node: f"{node.op:14} {node.name:20} {node.target!s:40} {node.args!s} {node.kwargs!s}",
    )


def _sizes(capture: Capture) -> str:
    return _rows(
        capture,
        f"TRACED GRAPH TENSOR SIZES\n===== {_place(capture)} =====",
        lambda node: f"{node.name}: {tuple(node.meta['tensor_facts'][0].size)}" if "tensor_facts" in node.meta else "",
    )


def _entry(capture: Capture) -> str:
    return f"GENERATED ENTRY {_place(capture)}\n{capture.source}" if capture.source else ""


def _effects(capture: Capture) -> str:
    if not capture.changed or config.side_effect_replay_policy == "silent":
        return ""
    return "".join(f"Mutating object at {place} after the graph of {_place(capture)}\n" for place in capture.changed)


def _lines(capture: Capture, calls: bool = False) -> str:
    """The program's lines of the nodes of the graph; `calls`: with the operations that they call."""
    found = []
    for node in capture.graph_module.graph.nodes if capture.graph_module is not None else ():
        *_, place, line = ["", "", *map(str.strip, (node.meta.get("stack_trace") or "").rstrip().splitlines())]
        if line and not calls:
            found.append(f"TRACE starts_line {place}\n    {line}")
        elif line and node.op.startswith("call"):
            found.append(f"TRACE FX call {node.name} from {place}\n{line}")
    return "\n".join(dict.fromkeys(found))


def _end(capture: Capture) -> str:
    text = f"captured {_place(capture)}: {capture.operations} operations, {capture.guard_count} guards"
    place = users(capture.stop.places) if capture.stop is not None else None
    return text + (f"; ends at {caret(place)}: {capture.reason}" if place is not None else "")


#: name of an artifact of torch's logs -> its text for one capture; none where it says nothing
ARTIFACTS: dict[str, Callable[[Capture], str]] = {
    "graph_breaks": _break,
    "recompiles": _recompile,
    "recompiles_verbose": _recompile,
    "guards": _guards,
    "verbose_guards": functools.partial(_guards, lines=True),
    "graph_code": _code,
    "graph": _table,
    "graph_sizes": _sizes,
    "bytecode": _entry,
    "side_effects": _effects,
    "trace_source": _lines,
    "trace_call": functools.partial(_lines, calls=True),
}


@functools.cache
def _loggers() -> dict[str, logging.Logger]:
    names = logging_internal.log_registry.artifact_names
    return {name: get_artifact_logger(_HOME, name) for name in ARTIFACTS if name in names}


@listen("done")
def _log(capture: Capture) -> None:
    loggers, general = _loggers(), logging.getLogger(_HOME)
    wanted = [name for name, logger in loggers.items() if logger.isEnabledFor(logging.DEBUG)]
    if not wanted and not general.isEnabledFor(logging.INFO):
        return
    with compile_context(CompileContext(capture.compile_id)):
        general.info("%s", _end(capture))
        for name in wanted:
            text = ARTIFACTS[name](capture)
            if text:
                loggers[name].debug("%s", text)
