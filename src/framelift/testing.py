"""For tests: assertions about what is captured, and backends that count or keep graphs.

`framelift.testing` is public; the pytest fixture and marker of `framelift.pytest_plugin` stand on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .backends.builtin import aot_autograd, boxed
from .backends.registry import lookup
from .report import report
from .surface.compiling import compile

__all__ = [
    "AotEagerAndRecordGraphs",
    "CompileCounter",
    "CompileCounterWithBackend",
    "EagerAndRecordGraphs",
    "InductorAndRecordGraphs",
    "assert_captured",
    "check_captured",
    "normalize_gm",
    "same",
]


def assert_captured(
    function: Any,
    *args: Any,
    graphs: int | None = 1,
    recompiles: int | None = 0,
    breaks: int | None = 0,
    calls: int = 2,
    inputs: Sequence[tuple[Any, ...]] = (),
    backend: Any = "eager",
    kwargs: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Compile `function`, call it `calls` times on `args` (and once on each of `inputs`), and fail unless the numbers
    are as stated.

    A number given as None is not checked.  The failure names every break and recompile with its line and its fix.
    Returns the last result.

    >>> import torch, framelift
    >>> framelift.testing.assert_captured(lambda x: x + 1, torch.zeros(2))
    tensor([1., 1.])
    """
    __tracebackhide__ = True
    compiled = compile(function, backend=backend, **options)
    result: Any = None
    for _ in range(calls):
        result = compiled(*args, **(kwargs or {}))
    for given in inputs:
        result = compiled(*given, **(kwargs or {}))
    check_captured(compiled, graphs=graphs, recompiles=recompiles, breaks=breaks)
    return result


def check_captured(
    compiled: Any, *, graphs: int | None = 1, recompiles: int | None = 0, breaks: int | None = 0
) -> None:
    """The same for a callable that was compiled and called already.

    >>> import torch, framelift
    >>> compiled = framelift.compile(lambda x: x + 1, backend="eager")
    >>> _ = compiled(torch.zeros(2))
    >>> framelift.testing.check_captured(compiled, graphs=1)
    """
    __tracebackhide__ = True  # pytest shows the test's own line
    found = report(compiled)
    seen = {
        "graphs": found.graphs,
        "recompiles": sum(one.times for one in found.recompiles),
        "breaks": len(found.breaks),
    }
    wanted = {"graphs": graphs, "recompiles": recompiles, "breaks": breaks}
    wrong = [
        f"{seen[name]} {name}, expected {number}"
        for name, number in wanted.items()
        if number is not None and seen[name] != number
    ]
    if wrong:
        raise AssertionError(f"{'; '.join(wrong)}\n\n{found.to_text()}")  # Python's


class CompileCounter:
    """A backend that counts graphs (`frame_count`) and operations (`op_count`), and runs them eagerly.

    >>> import torch, framelift
    >>> counter = framelift.testing.CompileCounter()
    >>> _ = framelift.compile(lambda x: x.sin() + 1, backend=counter)(torch.ones(2))
    >>> counter.frame_count, counter.op_count
    (1, 2)
    """

    def __init__(self) -> None:
        self.frame_count = 0
        self.op_count = 0
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.frame_count += 1
        self.op_count += sum(node.op.startswith("call_") for node in graph_module.graph.nodes)
        return graph_module.forward

    def clear(self) -> None:
        """Start counting again."""
        self.frame_count = self.op_count = 0
        self.graphs = []


class CompileCounterWithBackend(CompileCounter):
    """Counts and keeps the graphs, then hands them to another backend.

    >>> import torch, framelift
    >>> counter = framelift.testing.CompileCounterWithBackend("aot_eager")
    >>> _ = framelift.compile(lambda x: x.sin() + 1, backend=counter)(torch.ones(2))
    >>> counter.frame_count, len(counter.graphs)
    (1, 1)
    """

    def __init__(self, backend: str | Callable[..., Any]) -> None:
        super().__init__()
        self.backend = backend

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        super().__call__(graph_module, example_inputs)
        self.graphs.append(graph_module)
        return lookup(self.backend)(graph_module, example_inputs)


class EagerAndRecordGraphs:
    """A backend that keeps the graphs and runs them eagerly.

    >>> import torch, framelift
    >>> backend = framelift.testing.EagerAndRecordGraphs()
    >>> _ = framelift.compile(lambda x: x.sin(), backend=backend)(torch.ones(2))
    >>> [node.target for node in backend.graphs[0].graph.nodes if node.op == "call_method"]
    ['sin']
    """

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []
        self.example_inputs: list[list[Any]] = []

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(graph_module)
        self.example_inputs.append(list(example_inputs))
        return graph_module.forward


class AotEagerAndRecordGraphs(EagerAndRecordGraphs):
    """Keeps the graphs, and the forward and backward graphs that AOTAutograd makes of them.

    >>> import torch, framelift
    >>> backend = framelift.testing.AotEagerAndRecordGraphs()
    >>> framelift.compile(lambda x: (x * 2).sum(), backend=backend)(torch.ones(2, requires_grad=True)).backward()
    >>> len(backend.graphs), len(backend.fw_graphs), len(backend.bw_graphs)
    (1, 1, 1)
    """

    def __init__(self) -> None:
        super().__init__()
        self.fw_graphs: list[torch.fx.GraphModule] = []
        self.bw_graphs: list[torch.fx.GraphModule] = []

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        super().__call__(graph_module, example_inputs)
        return aot_autograd(fw_compiler=self._keeping(self.fw_graphs), bw_compiler=self._keeping(self.bw_graphs))(
            graph_module, example_inputs
        )

    @staticmethod
    def _keeping(graphs: list[torch.fx.GraphModule]) -> Callable[..., Any]:
        def compiler(graph_module: torch.fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
            graphs.append(graph_module)
            return boxed(graph_module, example_inputs)

        return compiler


class InductorAndRecordGraphs(EagerAndRecordGraphs):
    """Keeps the graphs, and those that Inductor gets of them (`inductor_graphs`).

    >>> import torch, framelift
    >>> backend = framelift.testing.InductorAndRecordGraphs()
    >>> compiled = framelift.compile(torch.sin, backend=backend)   # captured and compiled at its first call
    >>> backend.graphs, backend.inductor_graphs
    ([], [])
    """

    def __init__(self) -> None:
        super().__init__()
        self.inductor_graphs: list[torch.fx.GraphModule] = []

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        super().__call__(graph_module, example_inputs)
        from .torch_ports.compilers import aot_config as functorch_config
        from .torch_ports.inductor import compile_fx_module as compile_fx

        def keep(inner_module: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
            self.inductor_graphs.append(inner_module)
            return compile_fx.compile_fx_inner(inner_module, inputs, **options)

        with functorch_config.patch(enable_autograd_cache=False):  # a hit would leave Inductor nothing to do
            return compile_fx.compile_fx(graph_module, list(example_inputs), inner_compile=keep)


def normalize_gm(text: str) -> str:
    """A graph's code without comments, for comparisons.

    >>> import framelift
    >>> framelift.testing.normalize_gm("x = y  # a comment")
    'x = y'
    """
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]*#[^\n]*", "", text))


def same(a: Any, b: Any, tol: float = 1e-4) -> bool:
    """Return whether two results are equal up to a tolerance, containers and objects' attributes included.

    >>> import torch, framelift
    >>> framelift.testing.same({"a": [torch.ones(2)]}, {"a": [torch.ones(2) + 1e-6]})
    True
    """
    if isinstance(a, torch.Tensor):
        return (
            isinstance(b, torch.Tensor)
            and a.shape == b.shape
            and a.dtype == b.dtype
            and torch.allclose(a.detach(), b.detach(), atol=tol, rtol=tol, equal_nan=True)
        )
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k], tol) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y, tol) for x, y in zip(a, b))
    if type(a) is type(b) and hasattr(a, "__dict__") and not callable(a):
        return same(vars(a), vars(b), tol)
    return bool(a == b)
