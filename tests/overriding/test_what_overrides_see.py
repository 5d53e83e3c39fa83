"""Functions, types and arguments that modes and subclasses are shown, compared with eager.

A log of all that reaches them.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from support import compiled

LOG: list[Any] = []


def _note(func: Any, types: Any, args: Any, kwargs: Any) -> None:
    LOG.append(
        (
            getattr(func, "__name__", str(func)),
            [one.__name__ for one in types],
            [type(one).__name__ for one in args],
            sorted(kwargs or ()),
        )
    )


class Logging(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        _note(func, types, args, kwargs)
        return super().__torch_function__(func, types, args, kwargs or {})


class Derived(Logging):
    pass


class Plain(torch.Tensor):
    pass


class Mode(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        _note(func, types, args, kwargs)
        return func(*args, **(kwargs or {}))


def _outcome(call: Any) -> tuple[Any, ...]:
    LOG.clear()
    try:
        result = call()
    except Exception as error:  # noqa: BLE001  compared
        return type(error).__name__, str(error)[:60], list(LOG)
    log = list(LOG)
    with torch._C.DisableTorchFunction():
        return type(result).__name__, result.tolist() if isinstance(result, torch.Tensor) else result, log


@pytest.mark.parametrize(
    "kinds",
    [
        (Logging, Derived),
        (Derived, Logging),
        (Logging, Plain),
        (Plain, Logging),
        (Logging, torch.Tensor),
        (torch.Tensor, Logging),
    ],
)
@pytest.mark.parametrize(
    "program",
    [lambda a, b: a == b, lambda a, b: a != b, lambda a, b: a < b, lambda a, b: a + b, lambda a, b: torch.eq(a, b)],
)
def test_two_classes(kinds: tuple[type, type], program: Any) -> None:
    a, b = (torch.tensor([1.0, 2.0]).as_subclass(kind) for kind in kinds)
    captured = compiled(program)
    for _ in range(2):
        assert _outcome(lambda: captured(a, b)) == _outcome(lambda: program(a, b))


def _on_meta(x: Any) -> Any:
    with torch.device("meta"):
        y = torch.ones(2)
    return y.device, torch.ones(2), x + 1


def test_a_default_device_where_torch_functions_are_disabled() -> None:
    """Nobody is shown anything there, so the block has no effect; it ends all the same."""
    captured = compiled(_on_meta)
    for _ in range(2):
        assert str(captured(torch.ones(1))) == str(_on_meta(torch.ones(1)))
        with torch._C.DisableTorchFunction():
            wanted = _on_meta(torch.ones(1))
            assert wanted[0].type == "cpu"
            assert str(captured(torch.ones(1))) == str(wanted)
        assert torch._C._len_torch_function_stack() == 0


@pytest.mark.parametrize(
    "program",
    [
        F.hardsigmoid,
        F.hardswish,
        F.relu,
        lambda x: torch._unpack_dual(x, 1)[0],
        lambda x: F.dropout(x, 0.5, False),
        lambda x: F.embedding(torch.tensor([0]), x.unsqueeze(0)),
        lambda x: x.to(torch.device("cpu")),
        lambda x: _on_meta(x)[2],
    ],
)
def test_what_a_mode_is_shown(program: Any) -> None:
    x = torch.ones(3)

    def run(x: Any) -> Any:
        return program(x)

    captured = compiled(run)
    with Mode():
        for _ in range(2):
            assert _outcome(lambda: captured(x)) == _outcome(lambda: run(x))


def test_a_length_that_is_no_number() -> None:
    class Odd(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return (
                "long" if func is torch.Tensor.__len__ else super().__torch_function__(func, types, args, kwargs or {})
            )

    x = torch.ones(3).as_subclass(Odd)

    def program(x: Any) -> Any:
        return len(x)

    assert _outcome(lambda: compiled(program)(x)) == _outcome(lambda: program(x))


def test_the_text_of_a_known_tensor_of_a_class() -> None:
    def program(x: Any) -> Any:
        x.data = torch.zeros(2)
        return repr(x)

    first, second = (torch.ones(2).as_subclass(Plain) for _ in range(2))
    assert compiled(program)(first) == program(second)


@pytest.mark.parametrize(
    "program",
    [lambda x: x.detach_(), lambda x: x[:1].detach_(), lambda x: (x + 1).detach_(), lambda x: torch.detach_(x[0])],
)
@pytest.mark.parametrize(
    "make", [lambda: torch.ones(3), lambda: torch.ones(4)[:3], lambda: torch.ones(3, requires_grad=True) * 2]
)
def test_views_are_not_detached_in_place(program: Any, make: Any) -> None:
    captured = compiled(program)
    for _ in range(2):
        assert _outcome(lambda: captured(make())) == _outcome(lambda: program(make()))


def test_a_dtype_that_torch_warns_of_is_warned_of_once_per_call() -> None:
    captured = compiled(lambda x: x.chalf())
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        for _ in range(2):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                captured(torch.ones(3))
            assert len(caught) == 1
    finally:
        torch.set_warn_always(before)
