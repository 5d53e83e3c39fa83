"""A captured graph as readable code: one line per operation, with the user's line it came from."""

from __future__ import annotations

import inspect
import linecache
import operator
import re
import textwrap
from typing import Any

import torch

from .._core import is_a
from ..capture.resumed import Resumed
from ..graph.metadata.facts import Facts
from ..graph.symbols.relations import INFIX
from ..torch_ports.graphs import get_qualified_name
from ..vocabulary.places import Place, brief, expression

_PREFIX = {operator.neg: "-", operator.invert: "~", operator.pos: "+"}

FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)\n    (?P<text>.*)\n')


def user_line(node: torch.fx.Node) -> tuple[str, str]:
    """("file:line in function", source text) of the innermost frame of the user's own code; ("", "") when unknown."""
    frames = list(FRAME.finditer(node.stack_trace or ""))
    own = [frame for frame in frames if not brief(frame["file"]).startswith("torch/")] or frames
    if not own:
        return "", ""
    return f"{brief(own[-1]['file'])}:{own[-1]['line']} in {own[-1]['function']}", own[-1]["text"]


def readable(module: Any, names: tuple[str, ...] = ()) -> str:
    """The graph as Python-like code.  A comment line says the user's line whenever it changes."""
    if module is None:
        return ""
    rows: list[str] = []
    inputs: list[str] = []
    last = ("", "")
    for node in module.graph.nodes:
        if node.op == "placeholder":
            inputs.append(f"    {node.name},{_tensor(node)}")
            continue
        if node.op == "output":
            rows.append(f"    return {_show(node.args[0])}")
            continue
        line = user_line(node)
        if line != last and line[0]:
            rows += ["", f"    # {line[0]}: {line[1]}"]
            last = line
        rows.append(f"    {node.name} = {_call(node)}{_tensor(node)}")
    head = ["def graph(", *inputs, "):"] if inputs else ["def graph():"]
    return "\n".join([*head, *(rows[1:] if rows and not rows[0] else rows)]) + "\n"


def _tensor(node: torch.fx.Node) -> str:
    """A comment with the dtype and shape of a node's tensor, and its device where that is not the CPU."""
    facts = node.meta["tensor_facts"][0] if "tensor_facts" in node.meta else None
    if not is_a(facts, Facts):
        return ""
    device = "" if facts.device.type == "cpu" else f" {facts.device}"
    return f"  # {str(facts.dtype).removeprefix('torch.')}[{', '.join(map(str, facts.size))}]{device}"


def resume_source(resumed: Resumed, first: int) -> str:
    """Where a capture after a break begins, what it is given, and the source from there of the function that begins at
    line `first`.

    The code itself is made from the function's bytecode: what is shown is what it stands for.
    """
    rows = []
    if resumed.after:
        rows.append(f"# resumes after: {'; or '.join(f'{expression(p)} (line {p.line})' for p in resumed.after)}")
    rows.append(f"# with the values of: {', '.join(map(resumed.said, resumed.arguments)) or 'nothing'}")
    rows.append(f"# {brief(resumed.place.file)}:{resumed.place.line} in {resumed.place.function}")
    return "\n".join([*rows, *_rest(resumed.place, first)]) + "\n"


def _rest(place: Place, first: int) -> list[str]:
    """The lines of the function that begins at `first`, from the place on."""
    linecache.checkcache(place.file)
    lines = linecache.getlines(place.file)
    try:
        block = inspect.getblock(lines[first - 1 :])
    except Exception:  # no source, or not what it was
        return []
    return textwrap.dedent("".join(block[place.line - first :])).splitlines()


def _call(node: torch.fx.Node) -> str:
    args = [*map(_show, node.args), *(f"{name}={_show(value)}" for name, value in node.kwargs.items())]
    if node.op == "call_method":
        return f"{args[0]}.{node.target}({', '.join(args[1:])})"
    if node.op == "get_attr":
        return f"self.{node.target}"
    if node.target in INFIX and len(args) == 2:
        return f"{args[0]} {INFIX[node.target]} {args[1]}"
    if node.target in _PREFIX and len(args) == 1:
        return f"{_PREFIX[node.target]}{args[0]}"
    if node.target is operator.getitem:
        is_tuple = is_a(node.args[1], tuple) and node.args[1]
        return f"{args[0]}[{args[1].removeprefix('(').removesuffix(')') if is_tuple else args[1]}]"
    target = get_qualified_name(node.target) if callable(node.target) else str(node.target)
    return f"{target.removeprefix('_operator.').replace('torch.nn.functional', 'F')}({', '.join(args)})"


def _show(value: Any) -> str:
    if is_a(value, torch.fx.Node):
        return value.name
    if is_a(value, (tuple, list)):
        inner = ", ".join(map(_show, value))
        return f"[{inner}]" if is_a(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    if is_a(value, dict):
        return "{" + ", ".join(f"{key!r}: {_show(part)}" for key, part in value.items()) + "}"
    if is_a(value, slice):
        return f"slice({_show(value.start)}, {_show(value.stop)}, {_show(value.step)})"
    text = repr(value)
    return text if len(text) < 200 else text[:200] + "..."
