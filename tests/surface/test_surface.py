"""The surface beyond `compile` itself.

Marks, stances, backends' rights, the module wrapper, hooks, what surrounds a call.
"""

from __future__ import annotations

import copy
import functools
import pickle
import sys
import threading

import pytest
import torch
from torch import nn

import framelift
from framelift.rehearsal.break_errors import Blocks
from support import check

X = torch.tensor([1.0, 2.0])


class Counting:
    """A backend that counts, and keeps the graphs."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module)
        return graph_module.forward

    @property
    def targets(self) -> list[list[str]]:
        return [[node.name for node in graph.graph.nodes if node.op.startswith("call")] for graph in self.graphs]


# -- what may be compiled ----------------------------------------------------------------------------------------------


def test_callables_without_a_frame_of_their_own() -> None:
    schema = "(Tensor x) -> Tensor"
    double = torch.library.custom_op("surface_tests::double", lambda x: x * 2, mutates_args=(), schema=schema)
    double.register_fake(torch.empty_like)
    operators = (torch.ops.aten.sin.default, torch.ops.aten.sin, double, torch.ops.surface_tests.double)
    for callable_ in (torch.sin, functools.partial(torch.add, other=1), torch.nn.functional.relu, *operators):
        backend = Counting()
        assert torch.equal(framelift.compile(callable_, backend=backend, fullgraph=True)(X), callable_(X))
        assert len(backend.graphs) == 1


def test_a_class_is_compiled_in_place() -> None:
    backend = Counting()

    @framelift.compile(backend=backend, fullgraph=True)
    class Scale(nn.Module):
        def forward(self, x):
            return x * 3

    assert isinstance(Scale, type) and torch.equal(Scale()(X), X * 3) and len(backend.graphs) == 1
    scale = Scale()
    assert torch.equal(framelift.compile(lambda x: scale(x) + 1, backend="eager", fullgraph=True)(X), X * 3 + 1)


def test_scripted_code_is_refused_as_a_root_and_one_node_inside() -> None:
    def doubled(x):
        return x * 2

    scripted = torch.jit.script(doubled)
    with pytest.raises(RuntimeError, match="torch.jit.script"):
        framelift.compile(scripted)

    compiled = framelift.compile(lambda x: scripted(x) + 1, backend="eager", fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(X), X * 2 + 1)
    assert len(compiled.entries) == 1


@pytest.mark.parametrize("outer", ["compile", "disable"])
@pytest.mark.parametrize("inner", ["compile", "disable"])
def test_the_last_wrapper_wins(outer: str, inner: str) -> None:
    backend = Counting()
    wrap = {"compile": framelift.compile(backend=backend), "disable": framelift.disable}

    def f(x):
        return x + 1

    assert torch.equal(wrap[outer](wrap[inner](f))(X), X + 1)
    assert len(backend.graphs) == (outer == "compile")


def test_wraps_does_not_copy_a_mark() -> None:
    @framelift.disable
    def inner(x):
        return x + 1

    @functools.wraps(inner)
    def outer(x):
        return x * 2

    check(lambda x: outer(x), X)


def test_attributes_by_which_others_tell_a_compiled_function() -> None:
    def f(x):
        return x

    compiled = framelift.compile(f, backend="eager")
    assert (
        compiled._torchdynamo_orig_callable is f and compiled._is_torch_compile and compiled.get_compiler_config is None
    )


def test_a_compiled_function_passes_for_a_function() -> None:
    import inspect
    import types

    def f(x, n=2):
        return x * n

    compiled = framelift.compile(f, backend="eager")
    assert (
        inspect.isfunction(compiled)
        and isinstance(compiled, types.FunctionType)
        and type(compiled) is not types.FunctionType
    )
    assert (
        compiled.__code__ is f.__code__
        and compiled.__defaults__ == (2,)
        and inspect.signature(compiled) == inspect.signature(f)
    )
    with pytest.raises(RuntimeError, match="FX"):
        torch.fx.symbolic_trace(compiled)
    with framelift.config.patch(error_on_nested_fx_trace=False):
        assert torch.equal(torch.fx.symbolic_trace(compiled, {"n": 2})(X, 2), X * 2)
    check(lambda x: compiled(x) + compiled.__defaults__[0], X)


def test_the_kill_switch_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x):
        return x

    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    assert framelift.compile(f) is f


by_name = framelift.compile(lambda x: x + 1, backend="eager")
by_name.__qualname__ = "by_name"


def test_copies_and_pickles_are_those_of_functions() -> None:
    holder = nn.Module()
    holder.fn = by_name
    assert (
        copy.copy(by_name)
        is copy.deepcopy(by_name)
        is copy.deepcopy(holder).fn
        is pickle.loads(pickle.dumps(by_name))
        is by_name
    )
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(framelift.compile(lambda x: x, backend="eager"))


# -- marks -------------------------------------------------------------------------------------------------------------


@framelift.disable(reason="it writes a file")
def off(x):
    return helper(x) + 1


def helper(x):
    return x * 2


@framelift.disable(recursive=False)
def off_alone(x):
    return helper(x) + 1


def test_a_disabled_function_names_its_reason() -> None:
    with pytest.raises(framelift.exc.Unsupported, match="it writes a file") as caught:
        framelift.compile(lambda x: off(x), backend="eager", fullgraph=True)(X)
    assert caught.value.reason == "disabled"


@torch.compiler.disable(recursive=False)
def off_alone_by_torch(x):
    return helper(x) + (2 if torch.compiler.is_compiling() else 1)


@pytest.mark.parametrize(("function", "inside"), [(off, 0), (off_alone, 1), (off_alone_by_torch, 1)])
def test_below_a_disabled_function(function, inside: int) -> None:
    backend = Counting()
    assert torch.equal(framelift.compile(lambda x: function(x), backend=backend)(X), X * 2 + 1)
    assert len(backend.graphs) == inside
    assert torch.equal(function(X), X * 2 + 1)


def test_wrappers_called_while_capturing_do_not_start_another_capture() -> None:
    inner = framelift.compile(lambda x: x + 1, backend="eager")

    for wrap in (framelift.disable, framelift.run):
        chosen = wrap(lambda x: inner(x))
        constant = framelift.assume_constant_result(lambda x: chosen(x).sum().item())
        assert torch.equal(framelift.compile(lambda x: x * constant(X), backend="eager", fullgraph=True)(X), X * 5)


def test_torchs_own_mark_is_honoured() -> None:
    backend = Counting()
    disabled = torch.compiler.disable(lambda x: helper(x) + 1)
    compiled = framelift.compile(lambda x: disabled(x), backend=backend)
    assert torch.equal(compiled(X), X * 2 + 1) and torch.equal(compiled(X), X * 2 + 1) and not backend.graphs
    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(lambda x: disabled(x), backend="eager", fullgraph=True)(X)


def test_disabled_modules_and_classes() -> None:
    backend = Counting()
    inner = framelift.disable(nn.Linear(2, 2))
    assert isinstance(inner, framelift.OptimizedModule)
    compiled = framelift.compile(lambda x: inner(x), backend=backend)
    assert torch.equal(compiled(X), inner._orig_mod(X)) and not backend.graphs

    @framelift.disable
    class Off(nn.Module):
        def forward(self, x):
            return x + 1

    assert torch.equal(framelift.compile(Off(), backend=backend)(X), X + 1)
    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(lambda x: Off()(x), backend="eager", fullgraph=True)(X)


def test_allow_in_graph_does_not_look_inside() -> None:
    def inside(x):
        return x if x.sum() > 0 else -x

    framelift.allow_in_graph(inside)
    backend = Counting()
    compiled = framelift.compile(lambda x: inside(x.abs()) + 1, backend=backend, fullgraph=True)
    with pytest.raises(framelift.exc.Unsupported):  # fakes have no values either
        compiled(X)

    def metadata(x, scale):
        return torch.stack([x, x * scale]), x.sum()

    framelift.allow_in_graph(metadata)
    compiled = framelift.compile(lambda x: metadata(x, 2)[0] + metadata(x, 3)[1], backend=backend, fullgraph=True)
    assert torch.equal(compiled(X), metadata(X, 2)[0] + metadata(X, 3)[1])
    assert backend.targets[-1][:1] == ["metadata"]


def test_allowed_functions_are_asked_at_every_capture() -> None:
    """What they give may depend on anything: nothing of it is kept for the next capture."""
    size = [2]

    def make(x):
        return x.new_ones(size[0])

    framelift.allow_in_graph(make)
    for length in (2, 5):
        size[0] = length
        framelift.reset()
        assert framelift.compile(lambda x: make(x) * 2, backend="eager", fullgraph=True)(X).shape == (length,)


def test_disallow_in_graph_is_for_operations() -> None:
    with pytest.raises(framelift.exc.IncorrectUsage):
        framelift.disallow_in_graph(helper)


def test_constant_results_are_called_with_real_values() -> None:
    seen = []

    @framelift.assume_constant_result
    def threshold(t):
        seen.append(t)
        return t.max().item()

    limit = torch.tensor([5.0])
    compiled = framelift.compile(lambda x: x * threshold(limit), backend="eager", fullgraph=True)
    assert torch.equal(compiled(X), X * 5) and torch.equal(compiled(X), X * 5)
    assert len(seen) == 1 and seen[0] is limit


def test_constant_tensors_live_as_long_as_their_function() -> None:
    @torch.compiler.assume_constant_result
    def table():
        return torch.full((2,), 7.0)

    compiled = framelift.compile(lambda x: x + table(), backend="eager", fullgraph=True)
    assert [compiled(X).tolist() for _ in range(3)] == [[8.0, 9.0]] * 3 and len(compiled.entries) == 1


def test_constant_tensors_may_decide_and_are_guarded_then() -> None:
    limit = torch.nn.Parameter(torch.tensor(0.3))
    declared = framelift.assume_constant_result(lambda: limit)
    compiled = framelift.compile(lambda x: x + 1 if declared() < 0.5 else x - 1, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X), X + 1) and torch.equal(compiled(X), X + 1) and len(compiled.entries) == 1
    with torch.no_grad():
        limit.fill_(0.9)
    assert torch.equal(compiled(X), X - 1) and len(compiled.entries) == 2


def test_constants_of_results_that_do_not_exist_yet_interrupt() -> None:
    @framelift.assume_constant_result
    def constant(t):
        return t.sum().item()

    with pytest.raises(framelift.exc.Unsupported) as caught:
        framelift.compile(lambda x: x * constant(x + 1), backend="eager", fullgraph=True)(X)
    assert caught.value.reason == "constant-argument"


def test_torchs_sets_of_allowed_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(x):
        return x * 2

    torch.compiler.allow_in_graph(chosen)
    backend = Counting()
    assert torch.equal(framelift.compile(lambda x: chosen(x), backend=backend)(X), X * 2)
    assert backend.targets == [["chosen"]]


def test_substitutes_check_their_signature() -> None:
    import operator

    with pytest.raises(TypeError, match="Signature mismatch"):

        @framelift.substitute_in_graph(operator.indexOf)
        def wrong(sequence, x):
            return 0


def test_own_functions_are_no_captured_code() -> None:
    def f(x):
        framelift.stats()
        return x + 1

    with pytest.raises(framelift.exc.Unsupported) as caught:
        framelift.compile(f, backend="eager", fullgraph=True)(X)
    assert caught.value.reason == "own-function"
    assert torch.equal(framelift.compile(f, backend="eager")(X), X + 1)


def test_breaks_that_the_program_asks_for() -> None:
    def f(x):
        framelift.graph_break("look")
        return x + 1

    with pytest.raises(framelift.exc.Unsupported, match="look") as caught:
        framelift.compile(f, backend="eager", fullgraph=True)(X)
    assert caught.value.reason == "graph-break"
    check(f, X, graphs=None, breaks=None, fullgraph=False)


def breaking_in_a_block(strict):
    """Programs with a graph break.

    Inside of a block, in a callee of one, in a decorated function, in a block of a block.
    """
    block = framelift.error_on_graph_break

    def inside(x):
        with block(strict):
            framelift.graph_break()
        return x + 1

    def callee(x):
        with block(strict):
            return broken(x)

    def nested(x):
        with block(not strict):
            with block(strict):
                framelift.graph_break()
            return x + 1

    def broken(x):
        framelift.graph_break()
        return x + 1

    return inside, callee, nested, block(strict)(broken)


@pytest.mark.parametrize("fullgraph", [None, False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_error_on_graph_break_is_for_its_block(strict, fullgraph) -> None:
    options = {} if fullgraph is None else {"fullgraph": fullgraph}
    for f in breaking_in_a_block(strict):
        compiled = framelift.compile(f, backend="eager", **options)
        if strict or fullgraph:  # who asks for one graph gets one, or an error
            with pytest.raises(framelift.exc.Unsupported):
                compiled(X)
        else:
            assert torch.equal(compiled(X), X + 1)
        assert not Blocks().is_error  # a break inside of a block leaves nothing behind


@pytest.mark.parametrize("fullgraph", [False, True])
def test_error_on_graph_break_around_a_call(fullgraph) -> None:
    def f(x):
        framelift.graph_break()
        return x + 1

    for strict in (False, True):
        compiled = framelift.compile(f, backend="eager", fullgraph=fullgraph)
        with framelift.error_on_graph_break(strict):
            if strict or fullgraph:
                with pytest.raises(framelift.exc.Unsupported):
                    compiled(X)
            else:
                assert torch.equal(compiled(X), X + 1)


# -- stances -----------------------------------------------------------------------------------------------------------


def sized(x, n):
    return x + n + torch.compiler.is_compiling()


@pytest.mark.parametrize("setter", [framelift.set_stance, torch.compiler.set_stance], ids=["framelift", "torch"])
def test_stances(setter) -> None:
    compiled = framelift.compile(sized, backend="eager", dynamic=False)
    assert torch.equal(compiled(X, 1), X + 2)
    with setter("eager_on_recompile"):
        assert torch.equal(compiled(X, 1), X + 2) and torch.equal(compiled(X, "2" and 2.5), X + 2.5)
    with setter("force_eager"):
        assert torch.equal(compiled(X, 1), X + 1)
    with setter("fail_on_recompile"):
        assert torch.equal(compiled(X, 1), X + 2)
        with pytest.raises(RuntimeError, match="fail_on_recompile(?s:.*)test_surface.py(?s:.*)sized"):
            compiled(torch.ones(2, 2, dtype=torch.float64), 1)
    with setter(skip_guard_eval_unsafe=True):
        with pytest.raises(RuntimeError, match="skip_guard_eval_unsafe"):
            compiled(torch.ones(2, 2, dtype=torch.float64), 1)
    assert torch.equal(compiled(X, 1), X + 2)


def test_eager_then_compile() -> None:
    backend = Counting()
    compiled = framelift.compile(lambda x: x + 1, backend=backend)
    with framelift.set_stance("eager_then_compile"):
        compiled(X)
        assert not backend.graphs
        compiled(X)
        assert len(backend.graphs) == 1


def test_eager_then_compile_learns_from_the_first_call() -> None:
    backend = Counting()
    compiled = framelift.compile(lambda x: x + 1, backend=backend)
    with framelift.set_stance("eager_then_compile"):
        for size in (3, 4, 5, 6):
            assert torch.equal(compiled(torch.zeros(size)), torch.ones(size))
    assert len(backend.graphs) == 1


def test_aot_eager_then_compile() -> None:
    backend = Counting()
    compiled = framelift.compile(lambda x: x.sin() + 1, backend=backend)
    with framelift.set_stance("aot_eager_then_compile"):
        assert torch.equal(compiled(X), X.sin() + 1) and not backend.graphs
        assert torch.equal(compiled(X), X.sin() + 1) and len(backend.graphs) == 1


def test_comptime_sees_the_frame(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x):
        y = x * 2
        framelift.comptime.print_locals()
        framelift.comptime.print(y)
        return y

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    compiled(X)
    compiled(X)
    assert capsys.readouterr().out.splitlines() == [
        "x = FakeTensor(..., size=(2,))",
        "y = FakeTensor(..., size=(2,))",
        "FakeTensor(..., size=(2,))",
    ]
    f(X)
    assert capsys.readouterr().out == f"{X * 2}\n"  # as torch's own: print prints, the others do nothing


def test_a_forced_backend_has_entries_of_its_own() -> None:
    own, forced = Counting(), Counting()
    compiled = framelift.compile(lambda x: x + 1, backend=own)
    compiled(X)
    for _ in range(2):
        with framelift.set_stance("default", force_backend=forced):
            assert torch.equal(compiled(X), X + 1)
    assert (len(own.graphs), len(forced.graphs)) == (1, 1)
    compiled(X)
    assert len(own.graphs) == 1


def test_wrong_stances() -> None:
    compiled = framelift.compile(lambda x: x + 1, backend="eager")
    with pytest.raises(RuntimeError, match="force_backend"):
        framelift.set_stance("force_eager", force_backend="eager")
    with pytest.raises(RuntimeError, match="nonsense.*there are default"):
        framelift.set_stance("nonsense")
    with pytest.raises(TypeError, match="skip_guard_eval_unsafe"):
        framelift.set_stance("default", skip_guard_eval_unsafe="no")  # type: ignore[arg-type]
    with torch.compiler.set_stance("nonsense"), pytest.raises(RuntimeError, match="nonsense"):
        compiled(X)
    assert torch.equal(compiled(X), X + 1)

    @framelift.compile(backend="eager")
    def inside(x):
        with framelift.set_stance("force_eager"):
            return x

    with pytest.raises(AssertionError, match="Attempt to trace forbidden callable"):
        inside(X)


# -- what surrounds a call ---------------------------------------------------------------------------------------------


def test_inside_other_tracers() -> None:
    compiled = framelift.compile(lambda x: x + 1, backend="eager")
    compiled(X)
    with pytest.raises(RuntimeError, match="FX"):
        torch.fx.symbolic_trace(lambda x: compiled(x) * 2)
    with framelift.config.patch(error_on_nested_fx_trace=False):
        assert torch.equal(torch.fx.symbolic_trace(lambda x: compiled(x) * 2)(X), (X + 1) * 2)
    with pytest.raises(RuntimeError, match="jit.trace"):
        torch.jit.trace(lambda x: compiled(x) * 2, (X,))
    for mode in ("real", "fake"):
        make = torch.fx.experimental.proxy_tensor.make_fx(lambda x: compiled(x) * 2, tracing_mode=mode)
        with pytest.raises(RuntimeError, match="FX"):
            make(X)
        with framelift.config.patch(error_on_nested_fx_trace=False):
            traced = make(X)
        assert torch.equal(traced(X), (X + 1) * 2) and len(list(traced.graph.nodes)) == 4


def test_dispatch_modes_that_ignore_what_is_compiled() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seeing(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(func)
            return func(*args, **(kwargs or {}))

    class Ignoring(Seeing):
        @classmethod
        def ignore_compile_internals(cls):
            return True

    @torch.library.custom_op("framelift_test::for_modes", mutates_args=())
    def one_operation(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    one_operation.register_fake(torch.empty_like)
    backend = Counting()

    def f(x):
        return x.sin() + 1

    def run(graph_module, inputs):
        backend(graph_module, inputs)
        return lambda x: (one_operation(x),)

    compiled = framelift.compile(f, backend=run)
    for inside in (Ignoring(), Ignoring()):
        with inside:
            assert torch.equal(compiled(X), X.sin() + 1)
        assert inside.seen[0] is torch.ops.framelift_test.for_modes.default  # the capture itself it does not see
    assert torch.equal(compiled(X), f(X)) and len(backend.graphs) == 1
    with Ignoring() as inside, Seeing() as other:
        assert torch.equal(compiled(X), f(X))
    assert torch.ops.aten.sin.default in other.seen and len(backend.graphs) == 1
    assert not torch._C._len_torch_dispatch_stack()


def test_under_a_dispatch_mode_the_program_runs_plainly() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    backend = Counting()
    compiled = framelift.compile(lambda x: x + 1, backend=backend)
    with Seen():
        compiled(X)
    assert seen and not backend.graphs
    compiled(X)
    assert len(backend.graphs) == 1


def test_threads_share_one_capture() -> None:
    backend = Counting()
    compiled = framelift.compile(lambda x: x + 1, backend=backend)
    results = []
    threads = [threading.Thread(target=lambda: results.append(compiled(X))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (
        len(results) == 4
        and all(torch.equal(r, X + 1) for r in results)
        and len(backend.graphs) == len(compiled.entries)
    )


# -- backends ----------------------------------------------------------------------------------------------------------


def test_a_backend_may_ask_to_skip_the_frame() -> None:
    calls = []

    def backend(graph_module, example_inputs):
        calls.append(1)
        raise framelift.exc.SkipFrame("too small")

    compiled = framelift.compile(lambda x: x + 1, backend=backend)
    for _ in range(3):
        assert torch.equal(compiled(X), X + 1)
    assert len(calls) == 1


def test_a_backends_optional_attributes() -> None:
    events = []

    class Backend:
        compiler_name = "mine"

        def __call__(self, graph_module, example_inputs):
            return graph_module.forward

        def reset(self):
            events.append("reset")

        def backend_ctx_ctor(self):
            import contextlib

            @contextlib.contextmanager
            def around():
                events.append("in")
                yield
                events.append("out")

            return around()

        def get_compiler_config(self):
            return {"level": 3}

    compiled = framelift.compile(lambda x: x + 1, backend=Backend())
    compiled(X)
    assert compiled.get_compiler_config() == {"level": 3} and events == ["in", "out"]
    framelift.reset()
    assert events[-1] == "reset"


def test_suppressed_errors_run_plainly() -> None:
    def broken(graph_module, example_inputs):
        raise KeyError("no")

    with framelift.config.patch(suppress_errors=True), pytest.warns(UserWarning, match="suppress_errors"):
        assert torch.equal(framelift.compile(lambda x: x + 1, backend=broken)(X), X + 1)


def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata as metadata

    class Point:
        def load(self):
            return lambda graph_module, example_inputs: graph_module.forward

    class Points(dict):
        names = ("from_a_package",)

    monkeypatch.setattr(metadata, "entry_points", lambda group: Points(from_a_package=Point()))
    assert "from_a_package" in framelift.list_backends()
    assert torch.equal(framelift.compile(lambda x: x + 1, backend="from_a_package")(X), X + 1)


@pytest.mark.parametrize(
    "backend", ["eager_noexcept", "eager_debug", "pre_dispatch_eager", "aot_eager_default_partitioner", "cudagraphs"]
)
def test_backends_that_come_along(backend: str) -> None:
    def f(x):
        return torch.relu(x) + 1

    assert torch.equal(framelift.compile(f, backend=backend, fullgraph=True)(X), f(X))


def test_backends_that_keep_graphs() -> None:
    backend = framelift.testing.InductorAndRecordGraphs()
    assert torch.equal(framelift.compile(lambda x: x + 1, backend=backend)(X), X + 1)
    assert len(backend.graphs) == len(backend.inductor_graphs) == 1


def test_verify_correctness_compares_the_graph() -> None:
    def wrong(graph_module, example_inputs):
        return lambda *inputs: tuple(out + 1 for out in graph_module.forward(*inputs))

    with framelift.config.patch(verify_correctness=True):
        assert torch.equal(framelift.compile(lambda x: x + 1, backend="eager")(X), X + 1)
        with pytest.raises(RuntimeError, match="incorrect results of backend 'wrong'"):
            framelift.compile(lambda x: x + 1, backend=wrong)(X)


def test_verify_compares_whole_calls() -> None:
    def f(x, xs):
        xs.append(x * 2)
        return torch.rand(2) + x

    compiled = framelift.compile(f, backend="eager", verify=2)
    xs: list[torch.Tensor] = []
    torch.manual_seed(0)
    got = [compiled(X, xs) for _ in range(3)]
    torch.manual_seed(0)
    assert all(torch.equal(g, torch.rand(2) + X) for g in got) and len(xs) == 3

    def forgetful(graph_module, example_inputs):
        return lambda *inputs: tuple(torch.zeros_like(out) for out in graph_module.forward(*inputs))

    with pytest.raises(framelift.exc.VerificationFailed, match="f, compiled, differs"):
        framelift.compile(f, backend=forgetful, verify=True)(X, [])


# -- the module wrapper ------------------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.scale = 2

    def forward(self, x):
        return self.linear(x) * self.scale


def test_the_wrapper_is_transparent() -> None:
    net = Net()
    wrapper = framelift.compile(net, backend="eager")
    wrapper.scale = 3
    assert net.scale == 3 and "scale" in dir(wrapper) and "_orig_mod.linear.weight" in wrapper.state_dict()
    del wrapper.scale
    assert not hasattr(net, "scale")
    net.eval()
    assert not wrapper.training
    wrapper.train()
    assert net.training
    wrapper.training = False
    assert not net.training
    with pytest.raises(TypeError, match="len"):
        len(wrapper)
    assert len(framelift.compile(nn.Sequential(nn.ReLU(), nn.ReLU()), backend="eager")) == 2 and bool(wrapper)


def test_the_wrapper_is_copied_and_pickled() -> None:
    wrapper = framelift.compile(Net(), backend="eager")
    want = wrapper(X)
    for other in (copy.deepcopy(wrapper), pickle.loads(pickle.dumps(wrapper))):
        assert isinstance(other, framelift.OptimizedModule) and other._orig_mod is not wrapper._orig_mod
        assert torch.equal(other(X), want)


def test_lazy_modules_get_their_parameters_first() -> None:
    wrapper = framelift.compile(nn.LazyLinear(3), backend="eager", fullgraph=True)
    assert wrapper(X).shape == (3,) and wrapper(X).shape == (3,) and isinstance(wrapper._orig_mod, nn.Linear)


def test_hooks_on_the_wrapper_run() -> None:
    wrapper = framelift.compile(Net(), backend="eager")
    seen = []
    handle = wrapper.register_forward_hook(lambda module, args, out: seen.append(module))
    assert torch.equal(wrapper(X), wrapper._orig_mod(X)) and seen == [wrapper]
    handle.remove()
    wrapper(X)
    assert len(seen) == 1


def test_in_place_compile() -> None:
    backend = Counting()
    net = Net()
    with framelift.installed():
        assert net.compile(backend=backend) is None
    keys = list(net.state_dict())
    assert torch.equal(net(X), net.forward(X)) and len(backend.graphs) == 1 and keys == ["linear.weight", "linear.bias"]
    assert torch.equal(pickle.loads(pickle.dumps(net))(X), net(X))
    outer = Counting()
    assert (
        torch.equal(framelift.compile(lambda x: net(x) + 1, backend=outer, fullgraph=True)(X), net(X) + 1)
        and len(outer.graphs) == 1
    )


# -- hooks for tools ---------------------------------------------------------------------------------------------------


def test_logging_that_waits_for_the_graph(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x):
        print("before")
        y = x * 2
        print(y, 3)
        y.add_(1)
        return y

    with framelift.config.patch(reorderable_logging_functions={print}):
        compiled = framelift.compile(f, backend="eager", fullgraph=True)
        for _ in range(2):
            assert torch.equal(compiled(X), X * 2 + 1)
        assert capsys.readouterr().out == "before\ntensor([2., 4.]) 3\n" * 2
    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(f, backend="eager", fullgraph=True)(X)
    framelift.config.ignore_logging_functions.add(print)
    try:
        assert (
            torch.equal(framelift.compile(f, backend="eager", fullgraph=True)(X), X * 2 + 1)
            and not capsys.readouterr().out
        )
    finally:
        framelift.config.ignore_logging_functions.clear()


def test_logging_that_is_dropped_and_then_waits_for_the_graph(capsys: pytest.CaptureFixture[str]) -> None:
    for option, said in (("ignore_logging_functions", ""), ("reorderable_logging_functions", "a\n")) * 2:
        with framelift.config.patch({option: {print}}):
            compiled = framelift.compile(lambda x: (print("a"), x * 2)[1], backend="eager", fullgraph=True)
            assert torch.equal(compiled(X), X * 2) and capsys.readouterr().out == said


def test_logging_with_named_arguments_waits_for_the_graph(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x):
        print("a", x, sep="-", end=";")
        print(end="last\n")
        return x * 2

    def to_a_file(x):
        print("a", file=sys.stderr)
        return x * 2

    with framelift.config.patch(reorderable_logging_functions={print}):
        compiled = framelift.compile(f, backend="eager", fullgraph=True)
        for _ in range(2):
            assert torch.equal(compiled(X), X * 2)
        assert capsys.readouterr().out == "a-tensor([1., 2.]);last\n" * 2
        with pytest.raises(framelift.exc.Unsupported):
            framelift.compile(to_a_file, backend="eager", fullgraph=True)(X)
        assert torch.equal(framelift.compile(to_a_file, backend="eager")(X), X * 2)
        assert capsys.readouterr().err == "a\n"


def test_guard_hooks() -> None:
    failures, exported = [], []
    compiled = framelift.compile(
        lambda x, s: x + len(s), backend="eager", guard_fail_fn=failures.append, guard_export_fn=exported.append
    )
    compiled(X, "a")
    compiled(X, "bc")
    assert (
        len(failures) == 1
        and failures[0].reason
        and len(exported) == 2
        and all(hasattr(g, "guard_type") for g in exported[0])
    )
    careless = framelift.compile(
        lambda x, s: x + len(s), backend="eager", guard_filter_fn=lambda guards: [g.name != "s" for g in guards]
    )
    assert torch.equal(careless(X, "a"), X + 1) and torch.equal(careless(X, "bc"), X + 1)


def test_graphs_say_why_they_end() -> None:
    backend = Counting()
    framelift.compile(lambda x: x + 1, backend=backend)(X)
    assert not backend.graphs[0].compile_subgraph_reason.graph_break

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        framelift.graph_break()
        return y * 2

    framelift.compile(broken, backend=backend)(X)
    why, end = [graph.compile_subgraph_reason for graph in backend.graphs[1:]]
    assert why.graph_break and "graph break" in why.reason and why.user_stack[-1].name.endswith("broken")
    assert end.reason == "return_value" and not end.graph_break


def test_counters() -> None:
    framelift.counters.clear()
    framelift.compile(lambda x: x.sin().cos(), backend="eager")(X)
    assert framelift.counters["frames"] == {"total": 1, "ok": 1} and framelift.counters["stats"] == {
        "unique_graphs": 1,
        "calls_captured": 2,
    }
    framelift.compile(lambda x: x.sum().item(), backend="eager")(X)
    assert sum(framelift.counters["graph_break"].values()) >= 1


def test_recompile_options() -> None:
    def f(x, s):
        return x + len(s)

    compiled = framelift.compile(f, backend="eager")
    compiled(X, "a")
    with framelift.config.patch(error_on_recompile=True), pytest.raises(framelift.exc.RecompileError, match="s is now"):
        compiled(X, "b")
    full = framelift.compile(f, backend="eager", fullgraph=True, recompile_limit=1)
    full(X, "a")
    with pytest.raises(framelift.exc.FailOnRecompileLimitHit):
        full(X, "b")


def test_a_capture_as_a_library() -> None:
    log = []

    def f(x, *, flag=True):
        log.append(1)
        return {"y": x + 1} if flag else None

    found = framelift.fullgraph_capture(f, (X,), {"flag": True})
    assert not log and found.guards and "def " in found.source
    ran = []
    forward = found.forward_callable(lambda *inputs: (ran.append(1), found.graph_module(*inputs))[1])
    assert torch.equal(forward(X)["y"], X + 1) and log == [1] and ran == [1]
    with pytest.raises(RuntimeError, match="guards"):
        forward(X, flag=False)
    with pytest.raises(framelift.exc.Unsupported):
        framelift.fullgraph_capture(lambda x: x.data_ptr(), (X,))
    with pytest.raises(TypeError):
        framelift.fullgraph_capture(f, (X, X))


def test_compile_in_captured_code_is_captured_as_the_function() -> None:
    def scaled(x, by=None):
        return x * (by or 2)

    def program(x):
        more = x + 1

        @framelift.compile(backend="eager", fullgraph=True)
        def inner(z):
            return z * more

        return framelift.compile(framelift.compile(scaled, backend="eager"), dynamic=False)(x, by=3) + inner(x)

    backend = Counting()
    compiled = framelift.compile(program, backend=backend, fullgraph=True)
    for x in (X, X + 1):
        assert torch.equal(compiled(x), x * 3 + x * (x + 1))
    assert len(backend.targets) == 1 and len(compiled.entries) == 1


def test_what_compile_makes_in_captured_code_does_not_leave_it() -> None:
    made = []

    def program(x):
        made.append(framelift.compile(lambda z: z + x, backend="eager"))
        return made[-1](x)

    compiled = framelift.compile(program, backend="eager")
    assert torch.equal(compiled(X), X + X) and torch.equal(compiled(X), X + X)
    assert made[0] is not made[1] and torch.equal(made[0](X + 1), X + X + 1)
    with pytest.raises(framelift.exc.Unsupported) as caught:
        framelift.compile(program, backend="eager", fullgraph=True)(X)
    assert caught.value.reason == "result-object"


def test_under_torchs_own_dispatch_modes() -> None:
    """They say that they ignore what is compiled, but are no part of the stack of modes that a capture takes off."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    compiled = framelift.compile(fn, backend="eager")
    for before in (False, True):
        if before:
            compiled(torch.ones(3))  # an entry that must not be taken for one of these calls
        with FunctionalTensorMode() as mode:
            given = FunctionalTensor.to_functional(X)
            assert type(compiled(given)) is FunctionalTensor
            assert torch._C._get_dispatch_mode(mode._mode_key) is mode
        with FakeTensorMode() as fakes:
            made = compiled(torch.ones(3))
            assert type(made).__name__ == "FakeTensor" and made.fake_mode is fakes
            assert torch._C._get_dispatch_mode(fakes._mode_key) is fakes
        assert torch._C._len_torch_dispatch_stack() == 0
