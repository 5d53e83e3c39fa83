"""A captured graph as readable code: one line per operation, with the user's line it came from."""

from __future__ import annotations

import re
from typing import Any

import torch

from ..places import brief

__all__ = ["readable", "user_line"]

_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)\n    (?P<text>.*)\n')


def user_line(node: torch.fx.Node) -> tuple[str, str]:
    """("file:line in function", source text) of the innermost frame of the user's own code; ("", "") when unknown."""
    frames = list(_FRAME.finditer(node.stack_trace or ""))
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
            inputs.append(node.name)
            continue
        if node.op == "output":
            rows.append(f"    return {_show(node.args[0])}")
            continue
        line = user_line(node)
        if line != last and line[0]:
            rows += ["", f"    # {line[0]}: {line[1]}"]
            last = line
        rows.append(f"    {node.name} = {_call(node)}")
    return "\n".join([f"def graph({', '.join(inputs)}):", *(rows[1:] if rows and not rows[0] else rows)]) + "\n"


def _call(node: torch.fx.Node) -> str:
    args = [*map(_show, node.args), *(f"{name}={_show(value)}" for name, value in node.kwargs.items())]
    if node.op == "call_method":
        return f"{args[0]}.{node.target}({', '.join(args[1:])})"
    if node.op == "get_attr":
        return f"self.{node.target}"
    target = torch.fx.node._get_qualified_name(node.target) if callable(node.target) else str(node.target)
    return f"{target.removeprefix('_operator.').replace('torch.nn.functional', 'F')}({', '.join(args)})"


def _show(value: Any) -> str:
    if isinstance(value, torch.fx.Node):
        return value.name
    if isinstance(value, (tuple, list)):
        inner = ", ".join(map(_show, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_show(part)}" for key, part in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice({_show(value.start)}, {_show(value.stop)}, {_show(value.step)})"
    text = repr(value)
    return text if len(text) < 200 else text[:200] + "…"
