"""Backends: the registry, and recorded graphs through each of them, with training."""

from __future__ import annotations

from typing import Any

import importlib
import pytest
import torch
import torch.nn.functional as F

import framelift
from framelift.backends.registry import compile_graph, list_backends, lookup, register
from framelift.exc import BackendCompilerFailed, InvalidBackend
from framelift.recording.recorder import Finished, TapeRecorder

from recorder_programs import PROGRAMS

#: not comparable run by run: Inductor draws its own random numbers
_RANDOM = {"random_numbers"}


def flat(out: Any) -> list[torch.Tensor]:
    return [out] if isinstance(out, torch.Tensor) else [tensor for tensor in out if isinstance(tensor, torch.Tensor)]


def record(function, *inputs) -> Finished:
    recorder = TapeRecorder()
    with recorder.recording():
        outs = flat(function(*(recorder.stand_in(tensor) for tensor in inputs)))
    return recorder.finish(outs)


def make(name: str) -> tuple[Any, list[torch.Tensor]]:
    function, makers = PROGRAMS[name]
    torch.manual_seed(0)
    return function, [maker() for maker in makers]


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in _RANDOM])
def test_programs_through_aot_eager(name: str) -> None:
    if name == "recurrent" and torch.__version__ < "2.13":
        pytest.skip(
            "under torch 2.11 aot_eager gave torch.lstm's states one dimension too many; the cause is not established"
        )
    check(name, "aot_eager")


@pytest.mark.parametrize(
    "name",
    [
        "perceptron",
        "view_then_write",
        "input_mutation",
        "batch_norm",
        "no_grad_blocks",
        "autocast_cpu",
        "multiple_results",
        "write_gives_history",
    ],
)
def test_programs_through_inductor(name: str) -> None:
    check(name, "inductor")


def check(name: str, backend: str) -> None:
    function, inputs = make(name)
    _, same = make(name)
    finished = record(function, *inputs)
    state = (torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_rng_state().tolist())
    compiled = compile_graph(backend, finished.graph_module, finished.inputs)
    assert state == (torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_rng_state().tolist())
    want = flat(function(*same))
    got = compiled(*finished.inputs)
    assert isinstance(got, (tuple, list)) and len(got) == len(want)
    tolerance = 1e-2 if name == "autocast_cpu" else 1e-4
    for mine, theirs in zip(got, want):
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance, equal_nan=True)
        assert mine.requires_grad == theirs.requires_grad
    for mine, theirs in zip(inputs, same):
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)
    for leaves, outs in ((inputs, got), (same, want)):
        roots = [out.abs().sum().double() for out in outs if out.requires_grad]
        if roots:
            sum(roots).backward()
    for mine, theirs in zip(inputs, same):
        assert (mine.grad is None) == (theirs.grad is None)
        if theirs.grad is not None:
            torch.testing.assert_close(mine.grad, theirs.grad, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_training_steps(backend: str) -> None:
    torch.manual_seed(0)
    data, goal = torch.randn(16, 8), torch.randn(16, 1)

    def loss(x, y, w, b, v):
        return F.mse_loss(F.linear(torch.tanh(F.linear(x, w, b)), v), y)

    def parameters() -> list[torch.Tensor]:
        torch.manual_seed(1)
        return [torch.nn.Parameter(torch.randn(*size) * 0.3) for size in ((12, 8), (12,), (1, 12))]

    mine, theirs = parameters(), parameters()
    finished = record(loss, data, goal, *mine)
    compiled = compile_graph(backend, finished.graph_module, finished.inputs)
    optimizers = [torch.optim.SGD(p, lr=0.1) for p in (mine, theirs)]
    curve = []
    for _ in range(5):
        for optimizer, run in zip(
            optimizers, (lambda: compiled(*finished.inputs)[0], lambda: loss(data, goal, *theirs))
        ):
            optimizer.zero_grad()
            value = run()
            value.backward()
            optimizer.step()
        curve.append(value.item())
    for a, b in zip(mine, theirs):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert curve[-1] < curve[0]


def test_mutated_aliases() -> None:
    def function(a, b):
        a.add_(1)
        return b * 2

    base, same = torch.zeros(4), torch.zeros(4)
    finished = record(function, base[:3], base[1:])
    assert finished.shared == ((0, 1),) and finished.mutated
    compiled = compile_graph("aot_eager", finished.graph_module, finished.inputs)
    torch.testing.assert_close(compiled(*finished.inputs)[0], function(same[:3], same[1:]))
    torch.testing.assert_close(base, same)


def test_registry() -> None:
    assert {"eager", "aot_eager", "inductor"} <= set(list_backends(None))
    with pytest.raises(InvalidBackend, match="'inductor'"):
        lookup("inducto")
    with pytest.raises(InvalidBackend, match="registered are"):
        lookup("zzzz")
    with pytest.raises(InvalidBackend):
        lookup(3)  # type: ignore[arg-type]
    assert "'zzzz'" in str(InvalidBackend(name="zzzz"))  # as torch's own code raises it

    calls = []

    @register("mine")
    def mine(graph_module, example_inputs, **options):
        calls.append((len(example_inputs), options))
        return graph_module.forward

    assert "mine" in list_backends(None) and lookup("mine") is mine and lookup(mine) is mine
    finished = record(lambda x: x + 1, torch.ones(2))
    found = lookup("mine", mode="fast", options={"a": 1})
    assert compile_graph(found, finished.graph_module, finished.inputs)(torch.ones(2))[0].tolist() == [2.0, 2.0]
    assert calls == [(1, {"mode": "fast", "options": {"a": 1}})]


def test_what_a_backend_does_is_known_by_its_attributes_not_by_its_name() -> None:
    def eager(graph_module: Any, example_inputs: Any) -> Any:
        return graph_module.forward

    def used(backend: Any) -> Any:
        made = framelift.compile(lambda x: x + 1, backend=backend).miss.backend
        return made.is_eager, made.unrolls

    assert used("eager") == (True, False) and used(eager) == (False, False)
    assert used("inductor") == used("aot_eager") == used("cudagraphs") == used("aot_ts") == (False, True)
    assert used(framelift.aot_autograd(fw_compiler=eager)) == (False, True)
    setattr(eager, "runs_graphs_eagerly", True)
    assert used(eager) == (True, False)


def test_failures_are_wrapped() -> None:
    finished = record(lambda x: x + 1, torch.ones(2))

    def broken(graph_module, example_inputs):
        torch.set_default_dtype(torch.float64)
        raise ZeroDivisionError("no")

    with pytest.raises(BackendCompilerFailed, match="(?s)broken.*ZeroDivisionError: no") as caught:
        compile_graph(broken, finished.graph_module, finished.inputs)
    assert isinstance(caught.value.__cause__, ZeroDivisionError) and torch.get_default_dtype() is torch.float32
    with pytest.raises(BackendCompilerFailed, match="not callable"):
        compile_graph(lambda graph_module, example_inputs: 3, finished.graph_module, finished.inputs)


def test_inductor_options() -> None:
    finished = record(lambda x: x + 1, torch.ones(2))
    run = compile_graph(lookup("inductor", options={"max_autotune": False}), finished.graph_module, finished.inputs)
    assert run(torch.ones(2))[0].tolist() == [2.0, 2.0]


def test_a_backend_that_changes_the_interpreters_settings() -> None:
    """Inductor raises the recursion limit; a program that reads it must find what it found when it was captured."""
    import sys

    import framelift

    def greedy(graph_module: Any, example_inputs: Any) -> Any:
        sys.setrecursionlimit(sys.getrecursionlimit() + 500)
        return graph_module.forward

    @framelift.compile(backend=greedy, fullgraph=True)
    def program(x: torch.Tensor) -> Any:
        return x + 1, sys.getrecursionlimit()

    before = sys.getrecursionlimit()
    framelift.reset()
    for _ in range(2):
        assert program(torch.zeros(1))[1] == before == sys.getrecursionlimit()
    assert framelift.stats()["captures"] == 1


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"mode": "typo"}, "Unrecognized mode=typo"),
        ({"options": {"epilog_fusion": True}}, "did you mean 'epilogue_fusion'"),
        ({"options": {"epilogue_fusion": 3}}, "is of type bool, not int"),
        ({"options": {"nonsense": 1}}, "no option 'nonsense'"),
    ],
)
def test_what_inductor_does_not_know_is_refused_at_once(asked: dict[str, Any], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        lookup("inductor", **asked)


def test_options_are_spelled_as_torch_compile_spells_them() -> None:
    lookup("inductor", options={"max_autotune": True, "triton.cudagraphs": False, "epilogue-fusion": False})
    lookup("inductor", mode="max-autotune")


def test_graphs_that_a_compiler_cannot_do_are_left_to_plain_python() -> None:
    """An operator whose meaning for fakes asks for values.

    Capturing knows its result, a compiler that traces it does not.
    """
    from torch._subclasses.fake_tensor import DataDependentOutputException

    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        if any(node.target is torch.cumsum for node in graph.graph.nodes):
            raise DataDependentOutputException(torch.ops.aten._local_scalar_dense.default)
        graphs.append(graph)
        return graph

    def part(x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x, 0)

    def other(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    def f(x: torch.Tensor) -> torch.Tensor:
        return part(other(x))

    x = torch.ones(3)
    framelift.reset()
    assert torch.equal(framelift.compile(f, backend=backend)(x), f(x)) and len(graphs) == 1
    assert any("the backend cannot compile" in reason for reason in framelift.stats()["breaks"])
    with pytest.raises(framelift.exc.Unsupported, match="the backend cannot compile"):
        framelift.compile(f, backend=backend, fullgraph=True)(x)


def test_what_a_program_declared_to_be_one_node_is_its_own_affair() -> None:
    from torch._subclasses.fake_tensor import DataDependentOutputException

    def backend(graph: Any, inputs: Any) -> Any:
        raise DataDependentOutputException(torch.ops.aten._local_scalar_dense.default)

    def inside(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    framelift.allow_in_graph(inside)
    with pytest.raises(framelift.exc.BackendCompilerFailed):
        framelift.compile(lambda x: inside(x), backend=backend)(torch.ones(2))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_backward_that_cannot_be_but_is_not_asked_for(backend: str) -> None:
    """Compilers ask for the backward in advance; plain torch raises where a program asks for it."""
    layer = torch.nn.Linear(3, 3)

    def f(x):
        y = layer(x)
        x.add_(1)
        return y

    ours, theirs = torch.ones(2, 3), torch.ones(2, 3)
    framelift.reset()
    got = framelift.compile(f, backend=backend)(ours)
    torch.testing.assert_close(got, f(theirs))
    assert torch.equal(ours, theirs) and any(
        "the backend cannot compile" in reason for reason in framelift.stats()["breaks"]
    )
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        got.sum().backward()


def test_workers_for_triton_start_only_where_there_may_be_kernels(monkeypatch):
    from torch._inductor import async_compile

    from framelift.backends import builtin

    started: list[int] = []
    monkeypatch.setattr(async_compile, "maybe_warm_pool", lambda: started.append(1), raising=False)
    builtin._start_workers([torch.ones(1), 3])
    assert not started
    builtin._start_workers([torch.ones(1), torch.empty(1, device="meta")])
    assert started == [1]


def test_compilers_of_torch_take_symbolic_numbers() -> None:
    """AOTAutograd, called by a backend of the program's, wants to know of each input where it comes from."""
    compilers = importlib.import_module("torch._dynamo.backends.common")

    def backend(graph_module, example_inputs):
        return compilers.aot_autograd(fw_compiler=lambda graph, _: graph.forward)(graph_module, example_inputs)

    compiled = framelift.compile(lambda x, n: x * n + x.shape[0], backend=backend, dynamic=True, fullgraph=True)
    for size, number in ((3, 2), (4, 3), (5, 7)):
        x = torch.ones(size)
        assert torch.equal(compiled(x, number), x * number + size)
    assert framelift.stats()["captures"] == 1
