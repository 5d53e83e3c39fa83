"""Where things happened.

The expression an instruction belongs to, stacks of interrupts and of graph nodes, tensor provenance.
"""

from __future__ import annotations

import dis
import sys
import types

import pytest
import torch

import framelift
from framelift.vocabulary.places import Place, brief, caret, expression, place_of, shown_stack, users

X = torch.ones(2, 3)


def offset_of(function: types.FunctionType, opname: str, nth: int = 0) -> int:
    return [i.offset for i in dis.get_instructions(function) if i.opname.startswith(opname)][nth]


def grüße(x):
    été = "ä" * 3
    y = x.sum() + len(été)  # noqa: E702  columns after non-ASCII text
    return y


def branch(x):
    y = x.sin()
    z = (y * 2).sum()
    if z > 0:
        return y
    return z


def test_the_expression_of_an_instruction() -> None:
    place = place_of(grüße.__code__, offset_of(grüße, "BINARY_OP"))
    assert expression(place) == "x.sum() + len(été)"
    line, carets = caret(place).splitlines()
    assert line[carets.index("^") : carets.rindex("^") + 1] == "x.sum() + len(été)"


def test_equal_code_in_two_files_has_two_places() -> None:
    first, second = (compile("def f(x):\n    return x + 1\n", name, "exec").co_consts[0] for name in ("<one>", "<two>"))
    assert [place_of(code, 0).file for code in (first, second)] == ["<one>", "<two>"]


def test_a_place_without_source_or_columns() -> None:
    place = Place("<nowhere>", 3, 3, -1, -1, "f")
    assert caret(place) == expression(place) == ""
    assert shown_stack((place,)) == '  File "<nowhere>", line 3, in f'


def test_library_frames_are_not_the_users() -> None:
    mine = Place(__file__, 1, 1, -1, -1, "f")
    library = Place(torch.nn.Linear.forward.__code__.co_filename, 1, 1, -1, -1, "forward")
    assert users((mine, library)) is mine and users((library,)) is library and users(()) is None
    assert brief(library.file) == "torch/nn/modules/linear.py"


def test_an_interrupt_says_where_and_whence() -> None:
    with pytest.raises(framelift.exc.Unsupported) as caught:
        framelift.compile(branch, backend="eager", fullgraph=True)(X)
    text = str(caught.value)
    assert "    if z > 0:\n       ^^^^^\n" in text
    assert (
        "sum gave a float32 tensor of shape () at " in text and "z = (y * 2).sum()\n          ^^^^^^^^^^^^^\n" in text
    )
    assert "x, a float32 tensor of shape (2, 3), is an input" in text
    assert "python -m framelift explain tensor-bool" in text
    assert "/framelift/" not in text.replace("tests/", "").split("the value comes from")[0].replace(__file__, "")


def test_the_record_keeps_the_break_as_data() -> None:
    compiled = framelift.compile(branch, backend="eager")
    compiled(X)
    stop = compiled.entries[0].info.stop
    assert stop.reason == "tensor-bool"
    assert expression(stop.places[-1]) == "z > 0"
    assert [link.text.split()[0] for link in stop.provenance] == ["gt", "sum", "mul", "sin", "x,"]
    assert stop.provenance[-1].place is None


class Wrapped(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        return torch.relu(self.layer(x))


def test_graph_nodes_carry_the_users_stack() -> None:
    compiled = framelift.compile(Wrapped(), backend="eager")
    compiled(X)
    graph = compiled._compiled.entries[0].info.graph_module.graph
    traces = {node.name: node.stack_trace for node in graph.nodes if node.op == "call_function"}
    assert "return torch.relu(self.layer(x))" in traces["relu"]
    assert traces["linear"].rstrip().splitlines()[-2].endswith("in Linear.forward")
    assert __file__ in traces["linear"]
    assert not any("/framelift/capture/" in trace or "/framelift/rehearsal/" in trace for trace in traces.values())


def test_a_very_deep_program_keeps_its_innermost_frames() -> None:
    def deep(x, n):
        return deep(x, n - 1) if n else x.sum().item()

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(3000)
    try:
        compiled = framelift.compile(lambda x: deep(x, 300), backend="eager")
        compiled(X)
        stop = compiled.entries[0].info.stop
    finally:
        sys.setrecursionlimit(limit)
    assert stop.reason == "tensor-item" and len(stop.places) == 256
