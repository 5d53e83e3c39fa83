"""Torch-function modes: active ones and the program's own, captured through their Python."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode

import framelift
from support import check, counts


class Scale(TorchFunctionMode):
    """Multiplies what torch.add gives, and notes what it saw."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(getattr(func, "__name__", "?"))
        out = func(*args, **(kwargs or {}))
        return out * self.factor if func is torch.add else out


def add(x: torch.Tensor) -> torch.Tensor:
    return torch.add(x, 3) - 1


def test_active_modes_are_guarded_by_what_is_read() -> None:
    framelift.reset()
    compiled = framelift.compile(add, backend="eager", fullgraph=True)
    x = torch.ones(2)
    assert compiled(x).tolist() == [3, 3]
    for factor, graphs in ((2.0, 2), (2.0, 2), (5.0, 3)):
        plain, captured = Scale(factor), Scale(factor)
        with plain:
            want = add(x)
        with captured:
            got = compiled(x)
        assert got.tolist() == want.tolist() and captured.seen == plain.seen
        assert counts().graphs == graphs
    assert compiled(x).tolist() == [3, 3] and counts().graphs == 3


def test_modes_nest_from_the_innermost() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.add(x, 1) + torch.nn.functional.gelu(x, approximate="tanh") + x.shape[0]

    x = torch.ones(2)
    rows = []
    for run in (fn, framelift.compile(fn, backend="aot_eager", fullgraph=True)):
        outer, inner = Scale(2.0), Scale(3.0)
        with outer, inner:
            out = run(x)
        rows.append((out.tolist(), outer.seen, inner.seen))
    assert rows[0] == rows[1]


def test_a_mode_entered_inside() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, Scale]:
        with Scale(4.0) as mode:
            y = torch.add(x, 1)
        return torch.add(y, 1), mode

    out, mode = framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))
    assert out.tolist() == [9, 9] and type(mode) is Scale and mode.seen == fn(torch.ones(2))[1].seen


def test_what_is_left_on_the_stack() -> None:
    pop, push, length = (
        torch._C._pop_torch_function_stack,
        torch._C._push_on_torch_function_stack,
        torch._C._len_torch_function_stack,
    )
    first, second = BaseTorchFunctionMode(), BaseTorchFunctionMode()

    def swap(x: torch.Tensor, new: Any) -> torch.Tensor:
        pop()
        push(new)
        push(new)
        return x + length()

    compiled = framelift.compile(swap, backend="eager", fullgraph=True)
    for _ in range(2):
        with first:
            assert compiled(torch.zeros(1), second).item() == 2
            assert [torch._C._get_function_stack_at(i) for i in range(length())] == [second, second]
            pop()
    assert length() == 0
    with pytest.raises(framelift.exc.Unsupported, match="Popping from an empty torch function mode stack"):
        framelift.compile(lambda x: (pop(), x + 1), backend="eager", fullgraph=True)(torch.zeros(1))


def test_modes_are_inert_where_torch_functions_are_off() -> None:
    compiled = framelift.compile(add, backend="eager", fullgraph=True)
    x = torch.ones(2)
    with Scale(7.0):
        with torch._C.DisableTorchFunction():
            assert compiled(x).tolist() == [3, 3]
        assert compiled(x).tolist() == [27, 27]
    assert compiled(x).tolist() == [3, 3]


def test_default_device_context() -> None:
    compiled = framelift.compile(lambda x: x + torch.zeros(2), backend="eager", fullgraph=True)
    with torch.device("meta"):
        assert compiled(torch.ones(2)).device.type == "meta"
    assert compiled(torch.ones(2, device="cpu")).device.type == "cpu"


def test_a_break_under_a_mode() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        with Scale(2.0):
            print(end="")
            return torch.add(x, 1)

    check(fn, torch.ones(2), graphs=None, breaks=None, fullgraph=False)


def test_the_default_device_is_set_inside() -> None:
    def fn(x: torch.Tensor, device: Any) -> torch.Tensor:
        torch.set_default_device(device)
        return x + torch.zeros(2).to("cpu")

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    mode = BaseTorchFunctionMode()
    try:
        for device in ("cpu", None, "cpu", "cpu", None):
            with mode:
                assert compiled(torch.ones(2), device).tolist() == [1, 1]
                stack = torch.overrides._get_current_function_mode_stack()
                assert stack[-1] is mode and [one.device.type for one in stack[:-1]] == ([device] if device else [])
            assert torch._C._len_torch_function_stack() == (1 if device else 0)
    finally:
        torch.set_default_device(None)


def test_no_dispatch_mode_is_there() -> None:
    def f(x):
        return x + 1 if torch.nn.modules.activation._is_make_fx_tracing() else x - 1

    check(f, torch.ones(2))
