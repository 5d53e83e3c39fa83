"""What a graph that fails leaves behind: torch's settings and random generators as they were before it ran.

A graph also fails where data is not what the rehearsal assumed of it; the call is then left to plain Python.  A graph that fails
where plain Python does not is told of.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from .. import _core, config
from ..exc import InternalError
from ..graph.state import SavedState, autocast_nesting
from ..rehearsal.recorder import Finished
from ..rehearsal.subclasses import plain_examples

__all__ = ["AssumptionFailed", "runnable", "tell_of_failure"]


class AssumptionFailed(Exception):
    """The data is not what the rehearsal took it to be.  Never leaves framelift: the frame runs in plain Python."""


def runnable(finished: Finished, compile_graph: Callable[..., Any]) -> Callable[..., Any]:
    """The compiled graph of a rehearsal, in the settings it wants, and tidy when it fails."""
    with torch.set_grad_enabled(torch.is_grad_enabled() and not finished.without_grad):
        graph = compile_graph(finished.graph_module, plain_examples(finished.inputs))
    if finished.without_grad:
        graph = torch.no_grad()(graph)
    if finished.changes_state:
        graph = _keeping_settings(graph)
    if finished.violations:
        graph = _checked(graph, finished.violations, finished.stays > 0)
    return graph


def _checked(graph: Callable[..., Any], count: int, draws: bool) -> Callable[..., Any]:
    """`graph` without its last `count` results, each of which is true where an assumption is wrong.

    `draws`: the graph may draw random numbers.
    """
    def run(*inputs: Any) -> Any:
        before = _generators() if draws else None
        try:
            results = graph(*inputs)
            if any(map(bool, results[-count:])):
                raise AssumptionFailed
        except Exception:
            if before is not None:
                _put_back(*before)
            raise
        return results[:-count]
    return run


def _keeping_settings(graph: Callable[..., Any]) -> Callable[..., Any]:
    """`graph`, which changes torch's settings for a while; they are those of this moment whenever it is called."""
    settings = SavedState(generators=False)

    def run(*inputs: Any) -> Any:
        nesting = autocast_nesting()
        try:
            return graph(*inputs)
        except BaseException:
            settings.nesting = nesting
            settings.restore()
            raise
    return run


def _generators() -> tuple[torch.Tensor, list[torch.Tensor] | None]:
    return torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None


def _put_back(cpu: torch.Tensor, cuda: list[torch.Tensor] | None) -> None:
    torch.set_rng_state(cpu)
    if cuda is not None:
        torch.cuda.set_rng_state_all(cuda)


def tell_of_failure(info: Any, error: BaseException) -> None:
    """A graph failed, and the same call in plain Python did not.  Told once per capture; with `config.strict` it is an error."""
    if info is None or isinstance(error, AssumptionFailed):
        return
    info.failures += 1
    text = (f"the graph of {info.name} ({info.file}:{info.line}) failed where plain Python does not: {type(error).__name__}: {error}. "
            "The call ran in plain Python, and so will others that fail")
    if config.strict:
        raise InternalError(f"framelift: {text}") from error
    if info.failures == 1:
        warnings.warn(f"framelift: {text}. This is a defect of framelift or of the backend.", stacklevel=2)


_core.set_failure_teller(tell_of_failure)
