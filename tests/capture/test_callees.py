"""A frame that cannot be captured runs in plain Python, and its callees are captured on their own."""

from __future__ import annotations

import cProfile
import time

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import framelift
from support import check

X = torch.arange(6.0).reshape(2, 3)


def helper(x):
    return x.sin() + 1


def test_callees_of_a_broken_frame_are_captured() -> None:
    def f(x):
        y = helper(x)
        if y.sum() > 0:
            return helper(y)
        return y

    check(f, X, graphs=2, breaks=1, captures=None)  # before the branch, and behind it


def test_functions_that_share_a_code_object_do_not_share_their_cells() -> None:
    """The callee's entries are kept by code; each call makes a new closure over another value."""

    def f(x, k):
        def inner(y):
            return y * k

        y = inner(x)
        return y if y.sum() > -1e9 else inner(y)

    compiled = framelift.compile(f, backend="eager")
    for k in (2, 3, 4.5, 2):
        assert torch.equal(compiled(X, k), X * k)


def test_exceptions_of_plain_frames_pass_through() -> None:
    def f(x):
        if x.sum().item() > 0:
            raise KeyError("here")
        return x

    check(f, X, raises=KeyError, graphs=None, breaks=1, captures=None)


def test_hooks_on_saved_tensors_see_the_real_run_only() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 3))

    def f(x):
        return checkpoint(net, x, use_reentrant=False).sum()

    compiled = framelift.compile(f, backend="eager")
    grads = []
    for fn in (f, compiled):
        net.zero_grad()
        fn(X).backward()
        grads.append([p.grad.clone() for p in net.parameters()])
    assert all(map(torch.equal, *grads))


def test_fullgraph_is_an_error_without_effects() -> None:
    seen = []

    def f(x):
        seen.append(1)
        print("never")
        return x

    with pytest.raises(framelift.exc.Unsupported) as caught:
        framelift.compile(f, backend="eager", fullgraph=True)(X)
    assert caught.value.reason == "unknown-callable" and seen == []


def test_an_interrupt_cannot_be_swallowed() -> None:
    def f(x):
        try:
            if x.sum() > 0:
                y = x + 1
            else:
                y = x - 1
        except BaseException:
            y = x * 100
        return y

    check(f, X, graphs=None, breaks=1, captures=None)


def test_a_graph_that_fails_is_left_to_plain_python() -> None:
    """The operation passes on shapes and fails on data: type, text, line and the effects before it are eager's."""
    seen = []

    def f(table, index):
        seen.append(len(seen))
        return torch.nn.functional.embedding(index, table)

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    table = torch.arange(6.0).reshape(3, 2)
    assert torch.equal(compiled(table, torch.tensor([1])), table[1:2]) and seen == [0]
    with pytest.raises(IndexError) as caught:
        compiled(table, torch.tensor([7]))
    assert seen == [0, 1] and caught.traceback[-1].name in ("embedding", "f")


def test_tracing_tools_are_not_part_of_the_program() -> None:
    import sys

    lines = []

    def tracer(frame, event, arg):
        lines.append(event)
        return tracer

    def f(x):
        y = x + 1
        return y * 2

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        result = compiled(X)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
    assert torch.equal(result, f(X)) and lines
    assert not any("lines" in guard or "tracer" in guard for guard in compiled.entries[0].info.guards)


def test_a_profiler_in_c_stays() -> None:
    """Python's own way to put one back would call it as a Python function."""
    framelift.reset()
    f = lambda x: helper(x) * 2  # noqa: E731
    compiled = framelift.compile(f, backend="eager")
    profile = cProfile.Profile()
    profile.enable()
    try:
        result = compiled(X)
        time.sleep(0)
    finally:
        profile.disable()
    assert torch.equal(result, f(X)) and len(compiled.entries) == 1
    assert any("sleep" in str(row.code) for row in profile.getstats())


def test_compilers_at_work_behind_a_break_are_not_captured() -> None:
    def f(x):
        y = x * 2
        y.retain_grad()
        y.sum().backward(retain_graph=True)  # the graph's way back is compiled here
        return y.grad

    framelift.reset()
    x = torch.ones(3, requires_grad=True)
    assert torch.equal(framelift.compile(f, backend="aot_eager")(x), f(x))
    assert all(frame["name"].endswith(".f") for frame in framelift.stats()["frames"])


def test_what_modules_do_with_attributes_is_not_captured_on_its_own() -> None:
    def f(x):
        print(end="")
        made = torch.nn.Linear(3, 3)
        made.extra = x
        return made(x).shape

    framelift.reset()
    assert framelift.compile(f, backend="eager")(torch.ones(2, 3)) == (2, 3)
    assert not any(frame["name"].startswith("Module.__") for frame in framelift.stats()["frames"])


def test_helpers_of_a_dispatch_that_runs_plainly_are_not_captured_on_their_own() -> None:
    def doubled(x):
        return x * 2

    class Dispatching(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return Dispatching(doubled(func(*(arg.inner if isinstance(arg, cls) else arg for arg in args))))

    def f(x):
        return (x + 1).inner

    framelift.reset()
    x = Dispatching(torch.ones(3))
    assert torch.equal(framelift.compile(f, backend="eager")(x), f(x))
    assert not any("doubled" in frame["name"] for frame in framelift.stats()["frames"])


@pytest.mark.parametrize("file", ["<string>", "<stdin>", "<ipython-input-1>", "<decorator-gen-1>", "/no/file.py"])
def test_functions_whose_code_comes_from_no_file_are_captured(file: str) -> None:
    """What `exec`, an interactive session or a library that writes functions made is the program's code."""
    source = (
        "def callee(x):\n    y = x.sin() + 1\n    if y.sum() > 0:\n        return y * 2\n    return y - 1\n"
        "def f(x):\n    y = callee(x)\n    return callee(y + 1)\n"
    )
    space: dict[str, object] = {}
    exec(compile(source, file, "exec"), space)
    check(space["f"], X, graphs=3, breaks=None, captures=None)
