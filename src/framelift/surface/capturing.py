"""Capture as a library: one graph of a call, its guards, and a callable that runs it, without running the program."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..capture.records.captures import handled, innermost_compiled
from ..exc import FrameliftError, IncorrectUsage, NotImplementedHere
from ..torch_ports.fakes import TracingContext
from ..vocabulary.own_code import first_above
from ..vocabulary.torch_code import TORCH
from .compiling import compile


@dataclass(frozen=True, slots=True)
class BackendInput:
    """The arguments of a capture for a backend, under torch's names."""

    backend_id: str
    graph_module: torch.fx.GraphModule
    example_inputs: list[Any]
    fake_mode: Any
    tensor_to_context: Any


class Slot:
    """Stands for the compiled graph until somebody gives one."""

    def __init__(self) -> None:
        self.graph_module: torch.fx.GraphModule | None = None
        self.example_inputs: list[Any] = []
        self.compiled: Callable[..., Any] | None = None
        self.fake_mode: Any = None

    def backend(self, graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.graph_module, self.example_inputs, self.compiled = graph_module, list(example_inputs), graph_module.forward
        context = TracingContext.try_get()
        self.fake_mode = context.fake_mode if context is not None else None
        return lambda *inputs: self.compiled(*inputs)  # type: ignore[misc]  # given by then


class GraphCapture:
    """One captured call.

    `graph_module` is None where the call has no tensor operation; `example_inputs` are the graph's inputs in this
    call; `guards` say in words what the capture relies on; `source` is the Python around the graph.

    >>> import torch, framelift
    >>> found = framelift.fullgraph_capture(lambda x: {"y": x + 1}, (torch.ones(1),))
    >>> isinstance(found, framelift.GraphCapture), [node.op for node in found.graph_module.graph.nodes]
    (True, ['placeholder', 'call_function', 'output'])
    """

    def __init__(self, compiled: Any, slot: Slot) -> None:
        self._compiled, self._slot = compiled, slot
        (entry,) = compiled.entries
        self.info = entry.info
        self.graph_module = slot.graph_module
        self.example_inputs = slot.example_inputs

    @property
    def guards(self) -> list[str]:
        return self.info.guards

    @property
    def source(self) -> str:
        return self.info.source

    @property
    def graph_capture_output(self) -> GraphCapture:
        """The part for front ends: guards and source."""
        return self

    @property
    def backend_input(self) -> BackendInput | None:
        """The part for backends; None where the call has no tensor operation."""
        if self.graph_module is None:
            return None
        number = f"__compiled_fn_{self.info.compile_id}"
        return BackendInput(number, self.graph_module, self.example_inputs, self._slot.fake_mode, {})

    def forward_callable(self, compiled_fn: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """A callable with the signature of what was captured, that runs `compiled_fn` (the graph itself by default) for
        the graph.

        A call for which the guards do not hold is a RuntimeError: nothing is recompiled.

        >>> import torch, framelift
        >>> found = framelift.fullgraph_capture(lambda x: {"y": x + 1}, (torch.ones(1),))
        >>> found.forward_callable()(torch.zeros(1))
        {'y': tensor([1.])}
        """
        if compiled_fn is not None:
            self._slot.compiled = compiled_fn

        self._compiled.miss = refuse_others
        return self._compiled


def refuse_others(compiled: Any, locals_: tuple[Any, ...]) -> bool:
    """Answer a call that no capture is for: nothing is captured."""
    raise IncorrectUsage(f"the guards of this capture of {compiled.function.__qualname__} do not hold for this call")


#: torch's own function of that name, while another stands in its place
THEIRS: list[Callable[..., Any]] = []


def captured_for_torch(
    mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *, constraints: Any = None, **rest: Any
) -> Any:
    """torch._dynamo.convert_frame.fullgraph_capture for programs; torch's own tools get torch's own."""
    caller = first_above()
    if caller is not None and caller.f_code.co_filename.startswith(TORCH):
        return THEIRS[-1](mod, args, kwargs, constraints=constraints, **rest)
    if constraints:
        raise NotImplementedHere("constraints are not supported by framelift: mark sizes with mark_dynamic")
    return fullgraph_capture(mod, args, kwargs)


def fullgraph_capture(
    fn: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None, *, dynamic: bool | None = None
) -> GraphCapture:
    """Capture one call of a function or module as one graph, without running it: no effect, no result.

    Raises `framelift.exc.Unsupported` where there is a graph break, and what the call itself would raise.

    >>> import torch, framelift
    >>> found = framelift.fullgraph_capture(torch.nn.Linear(2, 1), (torch.ones(3, 2),))
    >>> len(found.example_inputs), found.forward_callable()(torch.ones(3, 2)).shape
    (3, torch.Size([3, 1]))
    """
    slot = Slot()
    compiled = compile(fn, backend=slot.backend, fullgraph=True, dynamic=dynamic)
    native = innermost_compiled(compiled)
    handled(native, args, kwargs or {}, functools.partial(native.miss, native))
    if not native.entries:
        raise FrameliftError(
            f"{native.function.__qualname__} was not captured: a mode, a stance or an option forbids it"
        )
    if native.entries[0].info.reason_id == "raises":  # it raises: so does the call
        native(*args, **(kwargs or {}))
        raise FrameliftError(f"{native.function.__qualname__} was not captured: {native.entries[0].info.reason}")
    return GraphCapture(native, slot)
