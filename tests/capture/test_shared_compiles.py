"""Equal code is captured and compiled once.

Blocks, copies, fresh closures, `compile` in a loop share their captures.
"""

from __future__ import annotations

import copy
import functools
import gc
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift.capture import sharing

X = torch.randn(2, 4)


class Counting:
    """A backend that counts what it compiles, and runs the graph as it is."""

    def __init__(self) -> None:
        self.compiles = 0

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.compiles += 1
        return graph_module.forward


class Block(torch.nn.Module):
    def __init__(self, width: int = 4, breaks: bool = False) -> None:
        super().__init__()
        self.norm, self.layer, self.breaks = torch.nn.LayerNorm(width), torch.nn.Linear(width, width), breaks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(self.norm(x))
        if self.breaks:
            framelift.graph_break()
        return x + torch.relu(y)


def scaled_by(factor: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * factor

    return scaled


def plain(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


# ---- what is shared --------------------------------------------------------------------------------------------------


def blocks_by_compile(backend: Any, breaks: bool) -> list[Any]:
    return [framelift.compile(Block(breaks=breaks), backend=backend) for _ in range(12)]


def blocks_by_method(backend: Any, breaks: bool) -> list[Any]:
    """What diffusers' compile_repeated_blocks does."""
    blocks = [Block(breaks=breaks) for _ in range(12)]
    with framelift.installed():
        for block in blocks:
            block.compile(backend=backend, fullgraph=not breaks)
    return blocks


def blocks_in_a_list(backend: Any, breaks: bool) -> list[Any]:
    """What accelerate's compile_regions does: each element of a ModuleList is replaced by its compiled wrapper."""
    blocks = torch.nn.ModuleList([Block(breaks=breaks) for _ in range(12)])
    return list(torch.nn.ModuleList([framelift.compile(block, backend=backend) for block in blocks]))


def bound_methods(backend: Any, breaks: bool) -> list[Any]:
    return [framelift.compile(Block(breaks=breaks).forward, backend=backend) for _ in range(12)]


def eager_of(block: Any) -> Any:
    return getattr(block, "_orig_mod", None) or getattr(block, "bound", (block,))[0]


@pytest.mark.parametrize("make", [blocks_by_compile, blocks_by_method, blocks_in_a_list, bound_methods])
@pytest.mark.parametrize("breaks", [False, True])
def test_equal_blocks_are_compiled_once_and_once_more_for_other_sizes(make: Any, breaks: bool) -> None:
    backend = Counting()
    blocks = make(backend, breaks)
    for rows, compiles in ((2, 1), (3, 2), (5, 2), (7, 2)):
        for block in blocks:
            x = torch.randn(rows, 4)
            assert torch.equal(
                block(x), eager_of(block).forward(x) if make is not blocks_by_method else Block.forward(block, x)
            )
        assert backend.compiles == compiles * (2 if breaks else 1)


def test_training_of_equal_blocks_is_compiled_once() -> None:
    forwards, backwards = Counting(), Counting()
    backend = framelift.aot_autograd(fw_compiler=forwards, bw_compiler=backwards)
    blocks = [Block() for _ in range(12)]
    twins = copy.deepcopy(blocks)
    compiled = [framelift.compile(block, backend=backend) for block in blocks]
    x, wanted = X, X
    for one, twin in zip(compiled, twins):
        x, wanted = one(x), twin(wanted)
    x.sum().backward()
    wanted.sum().backward()
    # The first block's input needs no gradient, that of the others does.
    assert forwards.compiles == backwards.compiles == 2
    for block, twin in zip(blocks, twins):
        for got, expected in zip(block.parameters(), twin.parameters()):
            assert torch.allclose(got.grad, expected.grad)


@pytest.mark.parametrize(
    "make",
    [
        lambda: plain,
        lambda: scaled_by(3),
        lambda: lambda x: x * 2,
        lambda: functools.partial(plain),
        Block,
        lambda: Block().forward,
        lambda: torch.sin,
    ],
)
def test_compiling_the_same_again_and_again(make: Callable[[], Any]) -> None:
    backend = Counting()
    for _ in range(4):
        model = make()
        assert torch.equal(framelift.compile(model, backend=backend)(X), model(X))
    assert backend.compiles == 1 and framelift.stats()["captures"] == 1 and framelift.stats()["shared"] == 3


def test_a_copy_of_a_compiled_module() -> None:
    backend = Counting()
    first = framelift.compile(Block(), backend=backend)
    first(X)
    second = copy.deepcopy(first)
    with torch.no_grad():
        second.layer.weight.zero_()
    assert torch.equal(second(X), second._orig_mod(X)) and not torch.equal(second(X), first(X))
    assert backend.compiles == 1


def test_closures_differ_in_what_they_hold() -> None:
    backend = Counting()
    for factor in (2, 3, 5, 7, 2.5, "no"):
        if factor != "no":
            assert torch.equal(framelift.compile(scaled_by(factor), backend=backend)(X), X * factor)
    weight = torch.nn.Parameter(torch.ones(4))
    assert torch.equal(framelift.compile(scaled_by(weight), backend=backend)(X), X * weight)
    assert backend.compiles == 4  # a number, one that changes, a float, a parameter


def test_what_a_module_holds_is_guarded() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self, by: Any) -> None:
            super().__init__()
            self.by = by

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.by

    for by in (2, 3, 2, 3, 4.5, torch.tensor(3.0), torch.tensor(4.0)):
        assert torch.equal(framelift.compile(Scaled(by), backend="eager")(X), X * by)


def test_blocks_of_other_sizes_keep_their_own_constants() -> None:
    backend = Counting()
    for width in (4, 8, 4, 8):
        block, x = Block(width), torch.randn(2, width)
        assert torch.equal(framelift.compile(block, backend=backend)(x), block(x))
    assert backend.compiles == 2


def test_a_hook_on_one_block() -> None:
    backend = Counting()
    blocks = [Block() for _ in range(4)]
    blocks[2].register_forward_hook(lambda module, args, result: result * 3)
    for block in blocks:
        assert torch.equal(framelift.compile(block, backend=backend)(X), block(X))
    assert backend.compiles == 2


# ---- equal graphs of captures that guards keep apart -----------------------------------------------------------------


class Tagged(torch.nn.Module):
    """A block whose captures are kept apart by a tag that the graph does not show."""

    def __init__(self, tag: str, scale: float = 2.0) -> None:
        super().__init__()
        self.layer, self.tag, self.scale, self.seen = torch.nn.Linear(4, 4), tag, scale, []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(self.tag)
        return self.layer(x) * self.scale


def compiles_of(models: list[Any], backend: str = "aot_eager", x: torch.Tensor = X, train: bool = False) -> int:
    """How many graphs a backend compiles for these, each of which is called once and compared with eager."""
    framelift.reset()
    for model in models:
        twin = copy.deepcopy(model)
        got, wanted = framelift.compile(model, backend=backend)(x), twin(x)
        assert torch.allclose(got, wanted)
        if train:
            got.sum().backward()
            wanted.sum().backward()
            assert all(torch.allclose(a.grad, b.grad) for a, b in zip(model.parameters(), twin.parameters()))
    return int(framelift.stats()["graphs"] - framelift.stats()["shared_graphs"])


@pytest.mark.parametrize("train", [False, True])
def test_equal_graphs_are_compiled_once(train: bool) -> None:
    blocks = [Tagged(f"layer {number}") for number in range(5)]
    assert compiles_of(blocks, train=train) == 1
    assert framelift.stats()["captures"] == 5 and [block.seen for block in blocks] == [[block.tag] for block in blocks]


def test_inductor_compiles_equal_graphs_once() -> None:
    with torch.no_grad():
        assert compiles_of([Tagged(f"layer {number}") for number in range(3)], "inductor") == 1


def test_graphs_that_are_not_equal() -> None:
    assert compiles_of([Tagged("a", 2.0), Tagged("b", 3.0)]) == 2  # a constant
    assert compiles_of([Tagged("a", 0.0), Tagged("b", -0.0)]) == 2
    frozen = Tagged("b").requires_grad_(False)
    assert compiles_of([Tagged("a"), frozen]) == 2  # no gradient
    half = Tagged("b").double()
    assert compiles_of([Tagged("a")]) == compiles_of([half], x=X.double()) == 1
    tied = Tagged("b")
    tied.layer.weight.data = tied.layer.weight.data.t()
    assert compiles_of([Tagged("a"), tied]) == 2  # other strides


def test_torchs_state_is_part_of_a_graph() -> None:
    framelift.reset()
    first, second, third = [framelift.compile(Tagged(tag), backend="aot_eager") for tag in "abc"]
    first(X)
    with torch.no_grad():
        second(X)
    with torch.autocast("cpu", torch.bfloat16):
        assert third(X).dtype is torch.bfloat16
    assert framelift.stats()["shared_graphs"] == 0


def test_functions_of_the_program_in_a_graph_are_not_compared() -> None:
    calls = []

    @framelift.allow_in_graph
    def shifted(x: torch.Tensor) -> torch.Tensor:
        return x + len(calls)

    class Shifting(Tagged):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.append(self.tag)
            return shifted(x)

    framelift.reset()
    for tag in "abc":
        framelift.compile(Shifting(tag), backend="aot_eager")(X)
    assert framelift.stats()["shared_graphs"] == 0


def test_other_backends_are_asked_for_each_capture() -> None:
    backend = Counting()
    for number in range(3):
        framelift.compile(Tagged(str(number)), backend=backend)(X)
    assert backend.compiles == 3
    backend.reuses_equal_graphs = True  # type: ignore[attr-defined]
    framelift.reset()
    kept = [framelift.compile(Tagged(str(number)), backend=backend) for number in range(3)]
    for one in kept:
        one(X)
    assert backend.compiles == 6  # it gives back a method of the graph, which is no function of its own


def test_a_report_names_equal_graphs() -> None:
    framelift.reset()
    first, second = [framelift.compile(Tagged(tag), backend="aot_eager") for tag in "ab"]
    first(X), second(X)
    assert [c.shares_graph for f in second.report().functions for c in f.captures] == [True]
    assert "with a graph compiled before, for an equal one" in second.report().to_text()


# ---- what is not -----------------------------------------------------------------------------------------------------


def test_other_settings_are_other_captures() -> None:
    backend = Counting()
    other = Counting()
    for settings in (
        {"backend": backend},
        {"backend": backend, "fullgraph": True},
        {"backend": backend, "dynamic": True},
        {"backend": backend, "isolate_recompiles": True},
        {"backend": backend, "recompile_limit": 3},
        {"backend": backend, "guard_filter_fn": lambda guards: [True for _ in guards]},
        {"backend": other},
    ):
        assert torch.equal(framelift.compile(plain, **settings)(X), plain(X))
    assert backend.compiles == 6 and other.compiles == 1


def test_options_of_a_backend_are_compared_by_value() -> None:
    compiles = []

    def backend(graph_module: Any, example_inputs: Any, *, options: Any = None) -> Any:
        compiles.append(options)
        return graph_module.forward

    for options in ({"level": 1}, {"level": 1}, {"level": 2}, {"level": [1, 2]}, {"level": [1, 2]}, {"level": True}):
        framelift.compile(plain, backend=backend, options=options)(X)
    assert compiles == [{"level": 1}, {"level": 2}, {"level": [1, 2]}, {"level": True}]


def test_a_changed_option_of_the_process_is_another_capture() -> None:
    backend = Counting()
    framelift.compile(plain, backend=backend)(X)
    with framelift.config.patch(specialize_int=True):
        framelift.compile(plain, backend=backend)(X)
    framelift.compile(plain, backend=backend)(X)
    assert backend.compiles == 2


def test_reset_forgets_what_is_shared() -> None:
    backend = Counting()
    for _ in range(2):
        framelift.compile(plain, backend=backend)(X)
        framelift.reset()
    assert backend.compiles == 2


# ---- how long, and how much ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("plain_guards")
def test_it_goes_with_the_class_the_function_and_the_backend() -> None:
    def use(backend: Any) -> list[weakref.ref[Any]]:
        class Local(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x + 1

        scope: dict[str, Any] = {}
        exec("def made(x):\n    return x + 2\n", scope)
        module = Local()
        framelift.compile(module, backend=backend)(X)
        framelift.compile(scope["made"], backend=backend)(X)
        return [weakref.ref(one) for one in (Local, module, scope["made"])]

    framelift.reset()
    backend = Counting()
    refs = use(backend)
    gc.collect()
    assert [ref() for ref in refs] == [None, None, None] and not sharing._pools
    framelift.compile(plain, backend=backend)(X)
    assert len(sharing._pools) == 1
    del backend
    gc.collect()
    assert not sharing._pools


def test_tensors_of_a_graph_are_not_kept() -> None:
    def run() -> weakref.ref[Any]:
        table = torch.arange(6)

        def f(x: torch.Tensor) -> torch.Tensor:
            return x + table.sum()

        framelift.compile(f, backend="eager")(X)
        return weakref.ref(table)

    ref = run()
    gc.collect()
    assert ref() is None


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("training", [False, True])
def test_what_is_kept_for_others_holds_no_tensor_of_the_program(backend: str, training: bool) -> None:
    def run() -> list[weakref.ref[Any]]:
        block, x = Block(), torch.randn(2, 4)
        result = framelift.compile(block, backend=backend)(x)
        if training:
            result.sum().backward()
        return [weakref.ref(one) for one in (x, result, *block.parameters())]

    refs = run()
    gc.collect()
    assert not [ref() for ref in refs if ref() is not None]


def test_only_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_MOST_POOLS", 3)
    monkeypatch.setattr(sharing, "_MOST_OFFERS", 2)
    framelift.reset()
    functions = []
    for number in range(6):
        scope: dict[str, Any] = {}
        exec(f"def f(x, how='a'):\n    return x + {number} if how == 'a' else x - len(how)\n", scope)
        functions.append(scope["f"])
        for how in ("a", "bb", "ccc", "dddd"):
            compiled = framelift.compile(functions[-1], backend="eager")
            assert torch.equal(compiled(X, how), functions[-1](X, how))
    assert len(sharing._pools) == 3 and all(len(pool.offers) == 2 for pool in sharing._pools.values())


def test_threads_that_ask_for_the_same_at_once() -> None:
    backend = Counting()
    blocks = [Block() for _ in range(8)]
    compiled = [framelift.compile(block, backend=backend) for block in blocks]
    gate, wrong = threading.Barrier(8), []

    def work(number: int) -> None:
        gate.wait()
        for rows in (2, 3, 4):
            x = torch.randn(rows, 4)
            if not torch.equal(compiled[number](x), blocks[number](x)):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and backend.compiles <= 3


# ---- what is reported ------------------------------------------------------------------------------------------------


def test_reports_and_counts_say_so() -> None:
    framelift.reset()
    first, second = [framelift.compile(Block(), backend="eager") for _ in range(2)]
    first(X), second(X)
    assert "shared" not in str(first) and "1 shared" in str(second)
    own, taken = first.report(), second.report()
    assert own.graphs == taken.graphs == 1 and taken.seconds == 0
    assert [c.shared_with for f in own.functions for c in f.captures] == [""]
    assert [c.shared_with for f in taken.functions for c in f.captures] == ["Block"]
    assert "shared with another callable of the same code, Block" in taken.to_text()
    assert framelift.stats()["captures"] == framelift.stats()["shared"] == 1
    assert second.recompiles() == []


def test_modules_of_one_class_have_one_limit_as_far_as_one_capture_serves_them() -> None:
    class Layer(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sin(x) + 1

    class Scaled(torch.nn.Module):
        def __init__(self, by: float) -> None:
            super().__init__()
            self.by = by

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.by

    counter = Counting()
    layers = [framelift.compile(Layer(), backend=counter) for _ in range(4)]
    with framelift.config.patch(recompile_limit=2), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for size in ((4,), (4, 4), (4, 4, 4), (4,), (4, 4)):
            for layer in layers:
                x = torch.randn(size)
                assert torch.equal(layer(x), torch.sin(x) + 1)
        assert counter.compiles == 2

        counter = Counting()  # these have a capture for each
        for by in range(5):
            layer = framelift.compile(Scaled(by + 0.5), backend=counter)
            assert torch.equal(layer(x), x * (by + 0.5))
        assert counter.compiles > 2


# ---- loops with a break ----------------------------------------------------------------------------------------------


def counted(x: torch.Tensor) -> torch.Tensor:
    i = 7
    while i > 2:
        x = plain(x)
        i -= 1
        framelift.graph_break()
    return x


def over_a_range(x: torch.Tensor) -> torch.Tensor:
    for _ in range(5):
        x = plain(x)
        framelift.graph_break()
    return x


class Renamed(Counting):
    """Gives a function of its own, as compilers do."""

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        run = super().__call__(graph_module, example_inputs)
        return lambda *args: run(*args)


class Doubling(Counting):
    """Changes the graph, and gives that back."""

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        for node in graph_module.graph.find_nodes(op="call_method", target="sin"):
            node.target = "cos"
        graph_module.recompile()
        return super().__call__(graph_module, example_inputs)


@pytest.mark.parametrize("backend", [Counting, Renamed])
@pytest.mark.parametrize("loop", [counted, over_a_range])
def test_the_steps_of_a_loop_with_a_break_are_compiled_once(loop: Any, backend: type[Counting]) -> None:
    framelift.compile(plain, backend=Counting())(X)  # torch loads settings with its first compile
    framelift.reset()
    compiles = backend()
    compiled = framelift.compile(loop, backend=compiles)
    for _ in range(2):
        assert torch.equal(compiled(X), loop(X))
    assert compiles.compiles == 1


@pytest.mark.parametrize("backend", [Counting, Renamed])
@pytest.mark.parametrize("loop", [counted, over_a_range])
def test_the_steps_of_a_loop_with_symbolic_sizes_are_compiled_once(loop: Any, backend: type[Counting]) -> None:
    framelift.compile(plain, backend=Counting(), dynamic=True)(X)
    framelift.reset()
    compiles = backend()
    compiled = framelift.compile(loop, backend=compiles, dynamic=True)
    for x in (X, X, torch.randn(3, 5), torch.randn(6, 6), torch.randn(1, 4), torch.randn(5, 4).t()):
        assert torch.equal(compiled(x), loop(x))
        if x is X:
            assert compiles.compiles == 1


class Asking(Renamed):
    """A compiler that makes code for some sizes only, which becomes a guard."""

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        (x,) = [one for one in graph_module.graph.find_nodes(op="placeholder") if "x" in one.name]
        wide = bool(x.meta["example_value"].size(0) > 3)
        run = super().__call__(graph_module, example_inputs)

        def checked(*args: Any) -> Any:
            (tensor,) = [one for one in args if isinstance(one, torch.Tensor)]
            assert (tensor.size(0) > 3) == wide
            return run(*args)

        return checked


@pytest.mark.parametrize("loop", [counted, over_a_range])
def test_what_is_compiled_for_some_sizes_is_not_shared(loop: Any) -> None:
    framelift.reset()
    compiled = framelift.compile(loop, backend=Asking(), dynamic=True)
    for rows in (2, 5, 3, 7, 2, 5):
        x = torch.randn(rows, 4)
        assert torch.equal(compiled(x), loop(x))


def test_steps_whose_sizes_are_related_otherwise_are_compiled_each() -> None:
    def turning(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for step in range(4):
            if x.shape[0] != y.shape[0]:
                y = y[: x.shape[0]]
            x = (x + y).t() if step % 2 else x * y[0]
            framelift.graph_break()
            y = y.t().contiguous() if x.shape != y.shape else y
        return x

    for backend in (Renamed(), "aot_eager"):
        framelift.reset()
        compiled = framelift.compile(turning, backend=backend, dynamic=True)
        for n in (3, 4, 6, 3):
            x, y = torch.randn(n, n), torch.randn(n + 1, n)
            assert torch.equal(compiled(x, y), turning(x, y))


def test_a_backend_that_changes_graphs_is_asked_for_each() -> None:
    def with_cosines(x: torch.Tensor) -> torch.Tensor:
        for _ in range(5):
            x = x.cos() + 1
        return x

    framelift.reset()
    compiles = Doubling()
    assert torch.equal(framelift.compile(over_a_range, backend=compiles)(X), with_cosines(X))
    assert compiles.compiles > 1


def test_steps_that_differ_are_compiled_each() -> None:
    layers = [torch.nn.Linear(4, 4) for _ in range(3)]

    def by_layer(x: torch.Tensor) -> torch.Tensor:
        for i, layer in enumerate(layers):
            x = layer(x) if i else layer(x).sin()
            framelift.graph_break()
        return x

    framelift.reset()
    compiles = Renamed()
    compiled = framelift.compile(by_layer, backend=compiles)
    for _ in range(2):
        assert torch.equal(compiled(X), by_layer(X))
    assert compiles.compiles >= 2


def test_a_part_of_a_loop_is_compiled_for_each_callable() -> None:
    framelift.reset()
    one, other = Counting(), Counting()
    for compiles in (one, other):
        assert torch.equal(framelift.compile(counted, backend=compiles)(X), counted(X))
    assert one.compiles and other.compiles
