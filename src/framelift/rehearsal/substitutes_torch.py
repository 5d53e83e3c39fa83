"""Substitutes for torch's own Python that is about tools, not about tensors: what a graph need not know."""

from __future__ import annotations

from typing import Any

import torch

from .registry import substitute

__all__: list[str] = []


@substitute(torch._C._is_torch_function_mode_enabled)
def _no_mode(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """The only mode around is the recorder's own."""
    return False


@substitute(torch.autograd.profiler.record_function.__init__)
def _record_function_init(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A profiler range has no result; in a captured graph it names nothing."""


@substitute(torch.autograd.profiler.record_function.__enter__)
def _record_function_enter(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0]


@substitute(torch.autograd.profiler.record_function.__exit__)
def _record_function_exit(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    return None
