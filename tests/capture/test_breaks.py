"""Graph breaks.

What cannot be captured runs in plain Python, what comes before and behind it is captured, with eager's semantics.
"""

from __future__ import annotations

import array
import contextlib
import gc
import io
import linecache
import os
import threading
import traceback
import tracemalloc
import types
import weakref
from pathlib import Path

import pytest
import torch
from break_matrix import BLOCKS, KINDS, PROGRAMS

import framelift


def _made(kind: str, block: str) -> types.ModuleType:
    source, name = PROGRAMS[kind, block], f"/programs/{kind}_{block}.py"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    made = types.ModuleType("program")
    vars(made).update(torch=torch, os=os, threading=threading, array=array, contextlib=contextlib)
    exec(compile(source, name, "exec"), vars(made))
    return made


def _shown(value):
    if isinstance(value, torch.Tensor):
        return ("tensor", value.dtype, tuple(value.shape), value.detach().tolist(), value.requires_grad)
    if isinstance(value, list | tuple):
        return type(value)(map(_shown, value))
    if isinstance(value, dict):
        return {key: _shown(item) for key, item in value.items()}
    return value


def _run(made: types.ModuleType, function) -> tuple[object, ...]:
    """Three calls: results or exceptions with the program's lines, then what happened to the caller's objects."""
    rows, log, box, out = [], [], made.Box(), io.StringIO()
    for call in range(3):
        x = (torch.arange(6.0).reshape(2, 3) + call).requires_grad_()
        try:
            rows.append(_shown(function(x, log, box, out)))
        except Exception as error:
            lines = [
                (row.name, row.lineno)
                for row in traceback.extract_tb(error.__traceback__)
                if row.filename.startswith("/programs/")
            ]
            rows.append((type(error), str(error), lines))
        log.append("call")
        assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
    return rows, _shown(log), box.count, out.getvalue()


#: kinds that no table could teach framelift to capture
_ALWAYS = ("print", "call", "disabled", "if")


@pytest.mark.parametrize("block", BLOCKS)
def test_every_kind_of_break_in_every_block(block: str) -> None:
    for kind in KINDS:
        plain, captured = _made(kind, block), _made(kind, block)
        framelift.reset()
        want = _run(plain, plain.program)
        got = _run(captured, framelift.compile(captured.program, backend="eager"))
        assert got == want, (kind, block)
        assert framelift.stats()["breaks"] or kind not in _ALWAYS, (kind, block)


def test_the_table_in_the_docs_has_every_kind_and_block() -> None:
    rows = [
        line.strip("| ").split(" | ")
        for line in (Path(__file__).parents[2] / "docs" / "breaks.md").read_text().splitlines()
        if line.startswith("| ")
    ]
    assert rows[0] == ["block", *KINDS] and [row[0] for row in rows[1:]] == list(BLOCKS), (
        "run python tools/break_table.py"
    )


def test_both_sides_of_a_break_are_captured() -> None:
    graphs = []

    def keep(gm, inputs):
        graphs.append([node.name for node in gm.graph.nodes if node.op == "call_method" or node.op == "call_function"])
        return gm.forward

    @framelift.compile(backend=keep)
    def f(x):
        with torch.no_grad():
            y = x.sin()
            for _ in range(2):
                try:
                    y = y.cos()
                    if y.sum() > 100:
                        y = y + 1
                finally:
                    y = y.tan()
        return y.exp()

    x = torch.randn(3, requires_grad=True)
    want = x.sin().cos().tan().cos().tan().exp()
    assert torch.equal(f(x).detach(), want.detach())
    first = len(graphs)
    assert f(x).requires_grad is False and len(graphs) == first
    names = [name for graph in graphs for name in graph]
    assert {"sin", "cos", "tan", "exp"} <= set(names)


def test_a_hundred_thousand_breaks_need_no_more_memory() -> None:
    @torch.compiler.disable
    def outside(n):
        return n + 1

    @framelift.compile(backend="eager")
    def f(x, limit):
        n = 0
        while n < limit:
            n = outside(n)
        return x + n

    x = torch.zeros(2)
    assert f(x, 200).tolist() == [200.0, 200.0]
    tracemalloc.start()
    f(x, 1000)
    before = tracemalloc.get_traced_memory()[0]
    assert f(x, 100_000).tolist() == [100_000.0] * 2
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 200_000


def test_an_exception_behind_a_break_shows_the_program_alone() -> None:
    @torch.compiler.disable
    def outside():
        pass

    def deeper(x):
        outside()
        raise KeyError(tuple(x.shape))

    @framelift.compile(backend="eager")
    def f(x):
        y = x + 1
        outside()
        return deeper(y)

    with pytest.raises(KeyError) as caught:
        f(torch.ones(2))
    rows = traceback.extract_tb(caught.value.__traceback__)
    names = [row.name for row in rows if not row.filename.startswith(os.path.dirname(torch.__file__))]
    assert names == ["test_an_exception_behind_a_break_shows_the_program_alone", "f", "deeper"]
    assert not [row for row in rows if "framelift" + os.sep + "run" in row.filename]


def test_nothing_of_a_broken_frame_is_kept() -> None:
    class Thing:
        pass

    @torch.compiler.disable
    def outside(thing):
        thing.seen = True

    @framelift.compile(backend="eager")
    def f(x, thing):
        y = x + 1
        held = [thing, y]
        outside(thing)
        return held[1] * 2

    thing, x = Thing(), torch.ones(2)
    f(x, thing)
    f(x, thing)
    dies, dies_too = weakref.ref(thing), weakref.ref(x)
    del thing, x
    gc.collect()
    assert dies() is None and dies_too() is None


def test_waiting_generators_do_not_run_after_a_rehearsal() -> None:
    """A generator of an abandoned rehearsal must not clean up: its `finally` would act on the real objects."""

    class Box:
        closed = 0

    @torch.compiler.disable
    def outside():
        pass

    def gen(box, x):
        try:
            yield x + 1
            yield x + 2
        finally:
            box.closed += 1

    def f(box, x):
        g = gen(box, x)
        y = next(g)
        outside()
        return y + next(g)

    box, compiled = Box(), framelift.compile(f, backend="eager")
    assert compiled(box, torch.zeros(1)).item() == 3
    assert box.closed == 1
    compiled(box, torch.zeros(1))
    gc.collect()
    assert box.closed == 2


def test_full_graph_refuses_a_break() -> None:
    def f(x):
        return x + 1 if x.sum() > 0 else x

    with pytest.raises(framelift.exc.Unsupported, match="branch depends on the values"):
        framelift.compile(f, backend="eager", fullgraph=True)(torch.ones(1))


def test_super_behind_a_break() -> None:
    @torch.compiler.disable
    def outside():
        pass

    class Base:
        def run(self, x):
            return x * 2

    class Child(Base):
        def run(self, x):
            x = x + 1
            outside()
            return super().run(x)

        def shared(self, x):
            get = lambda: self  # noqa: E731
            x = x + 1
            outside()
            return super().run(x), get() is self

    compiled = framelift.compile(lambda c, x: (c.run(x), c.shared(x)), backend="eager")
    one, (two, same) = compiled(Child(), torch.ones(1))
    assert one.item() == two.item() == 4 and same
