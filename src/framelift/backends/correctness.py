"""`config.verify_correctness`: what a backend made of a graph is compared with the graph, on the first inputs."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.graph_module import GraphModule

from .._core import insist
from ..exc import VerificationFailed
from ..graph.state.torch_state import SavedState


def reference(graph_module: GraphModule, example_inputs: Sequence[Any]) -> Any:
    """Run the graph on copies of the inputs, before the backend runs, which may change the graph."""
    return _run(GraphModule(graph_module, graph_module.graph), example_inputs)


def checked(name: str, compiled: Callable[..., Any], example_inputs: Sequence[Any], wanted: Any) -> None:
    """Raise `VerificationFailed` where the compiled graph gives something else."""
    try:
        got = _run(compiled, example_inputs)
    except Exception as error:
        raise VerificationFailed(
            f"what the backend {name!r} made of a graph fails where the graph does not: {error}"
        ) from error
    found = difference([*wanted], [*got])
    if found:
        raise VerificationFailed(f"incorrect results of backend {name!r}: {found}")


def _run(function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    saved = SavedState()
    try:
        return function(*map(copied_input, inputs))
    finally:
        insist(saved.restore)


def copied_input(value: Any) -> Any:
    """An input of a graph with memory of its own."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def difference(
    want: Any, got: Any, path: str = "the result", tolerance: float = 1e-3, met: dict[int, Any] | None = None
) -> str:
    """Where two results differ, in words; "" when they do not.  Floating point values may differ as compilers' do.

    What is the same object in both is compared where it is met first.
    """
    met = {} if met is None else met
    if want is got or id(want) in met:
        return ""
    met[id(want)] = want
    if type(want) is not type(got):
        return f"{path} is a {type(got).__name__} and not a {type(want).__name__}"
    if isinstance(want, torch.Tensor):
        return _tensors_differ(want, got, path, tolerance)
    if isinstance(want, types.FunctionType):
        return "" if want.__code__ == got.__code__ else f"{path} is another function"
    if isinstance(want, (list, tuple, collections.deque)):
        if len(want) != len(got):
            return f"{path} has {len(got)} items and not {len(want)}"
        pairs = [(f"{path}[{i}]", a, b) for i, (a, b) in enumerate(zip(want, got))]
    elif isinstance(want, dict):
        if list(want) != list(got):
            return f"{path} has the keys {list(got)} and not {list(want)}"
        pairs = [(f"{path}[{key!r}]", want[key], got[key]) for key in want]
    elif type(want).__eq__ is object.__eq__:
        pairs = [(path, vars(want), vars(got))] if hasattr(want, "__dict__") else []
    else:
        same = want == got
        same = same.all() if hasattr(same, "all") else same or want != want and got != got  # of an array; NaN
        return "" if same else f"{path} is {got!r} and not {want!r}"
    return next((found for place, a, b in pairs if (found := difference(a, b, place, tolerance, met))), "")


def _tensors_differ(want: torch.Tensor, got: torch.Tensor, path: str, tolerance: float) -> str:
    if want.shape != got.shape or want.dtype != got.dtype or want.device != got.device:
        return (
            f"{path} is a tensor of {tuple(got.shape)}, {got.dtype}, {got.device} and not of "
            f"{tuple(want.shape)}, {want.dtype}, {want.device}"
        )
    if want.is_floating_point() or want.is_complex():
        same = torch.allclose(want, got, rtol=tolerance, atol=tolerance, equal_nan=True)
    else:
        same = torch.equal(want, got)
    return "" if same else f"{path} has other values"
