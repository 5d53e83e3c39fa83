"""Several entries of one callable: whose they are, which is used, and when they go."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from framelift import config
from framelift.capture.records import missed


def counting() -> tuple[list[Any], Any]:
    """A backend, and the graphs it was given."""
    graphs: list[Any] = []

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        graphs.append(graph_module)
        return graph_module.forward

    return graphs, backend


def test_instances_do_not_share_a_limit() -> None:
    graphs, backend = counting()

    class Layer(nn.Module):
        def __init__(self, kind: str) -> None:
            super().__init__()
            self.kind = kind

        @framelift.compile(backend=backend, fullgraph=True)
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + len(self.kind)

    layers = [Layer("k" * n) for n in range(1, 8)]
    with config.patch(recompile_limit=2):
        for _ in range(3):
            for n, layer in enumerate(layers, 1):
                assert layer(torch.zeros(1)).item() == n
    assert len(graphs) == len(layers)


def test_callables_of_one_function_do_not_share_a_limit() -> None:
    def f(x: torch.Tensor, kind: str) -> torch.Tensor:
        return x + len(kind)

    made = [counting() for _ in range(3)]
    with config.patch(recompile_limit=2):
        for graphs, backend in made:
            compiled = framelift.compile(f, backend=backend)
            for kind in ("a", "bb", "a", "bb"):
                assert compiled(torch.zeros(1), kind).item() == len(kind)
            assert len(graphs) == 2


def test_the_limit_of_one_instance() -> None:
    graphs, backend = counting()
    module = nn.Identity()
    module.kind = ""
    compiled = framelift.compile(lambda m, x: x + len(m.kind), backend=backend)
    with config.patch(recompile_limit=2), warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        for n in range(5):
            module.kind = "k" * n
            assert compiled(module, torch.zeros(1)).item() == n
    assert len(graphs) == 2


def test_the_entry_that_served_an_instance_is_only_a_hint() -> None:
    graphs, backend = counting()

    def f(holder: Any, x: torch.Tensor) -> torch.Tensor:
        return x + len(holder.kind)

    class Holder:
        def __init__(self, kind: str) -> None:
            self.kind = kind

    compiled = framelift.compile(f, backend=backend, fullgraph=True)
    holders = [Holder("a"), Holder("bb"), Holder("ccc")]
    for round_ in range(4):
        for holder in holders:
            assert compiled(holder, torch.zeros(1)).item() == len(holder.kind)
        for holder in holders:  # what each was served by last is wrong now
            holder.kind = {"a": "bb", "bb": "ccc", "ccc": "a"}[holder.kind]
    assert len(graphs) == 3


def test_the_look_of_a_call_is_only_a_hint() -> None:
    """Calls that look the same and are not, and calls that look different and are served by one entry."""
    graphs, backend = counting()
    state = {"by": 1}

    def f(xs: list[torch.Tensor], *, kind: str, deep: dict[str, Any]) -> torch.Tensor:
        total = xs[0].sum() + deep["a"][0][0].shape[0] + (2 if kind == "two" else 1)
        return total * state["by"] + (10 if torch.is_grad_enabled() else 0)

    compiled = framelift.compile(f, backend=backend, fullgraph=True, dynamic=False)
    for round_ in range(3):
        for by in (1, 2):
            state["by"] = by
            for size in (2, 3):
                for kind in ("one", "".join(["t", "wo"])):  # a text that is equal and not the same
                    for grad in (True, False):
                        with torch.set_grad_enabled(grad):
                            args = [torch.ones(size)], {"a": [[torch.ones(size + 1)]]}
                            assert (
                                compiled(args[0], kind=kind, deep=args[1]).item()
                                == f(args[0], kind=kind, deep=args[1]).item()
                            )
        if round_ == 0:
            first = len(graphs)
    assert len(graphs) == first


def test_entries_go_with_what_they_name() -> None:
    graphs, backend = counting()

    def f(x: torch.Tensor, cls: Any) -> torch.Tensor:
        return x + len(cls.text)

    compiled = framelift.compile(f, backend=backend, fullgraph=True)
    with config.patch(recompile_limit=2, verify_guards=False):  # verifying keeps what guards name alive
        for n in range(6):  # each class is gone before the next comes
            cls = type("Local", (), {"text": "k" * n})
            assert compiled(torch.zeros(1), cls).item() == n
            del cls
            gc.collect()
    assert len(graphs) == 6 and len(compiled.entries) == 1


@pytest.mark.parametrize("same", [True, False])
def test_alternating_shapes(same: bool) -> None:
    graphs, backend = counting()
    compiled = framelift.compile(lambda x: x * 2, backend=backend, fullgraph=True, dynamic=False)
    kept = [torch.rand(n) for n in range(2, 8)]
    for _ in range(3):
        for x in kept if same else [torch.rand(n) for n in range(2, 8)]:
            assert torch.equal(compiled(x), x * 2)
    assert len(graphs) == len(kept)


def test_each_cause_has_a_limit_of_its_own() -> None:
    graphs, backend = counting()

    def f(x: torch.Tensor, kind: str, other: str) -> torch.Tensor:
        return x + len(kind) * 10 + len(other)

    compiled = framelift.compile(f, backend=backend)
    with config.patch(recompile_limit=3), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(6):
            assert compiled(torch.zeros(1), "k" * n, "").item() == 10 * n
        assert len(graphs) == 3
        for n in range(6):
            assert compiled(torch.zeros(1), "", "o" * n).item() == n
    assert len(graphs) == 5
    reported = [str(one.message) for one in caught if "recompile_limit" in str(one.message)]
    assert len(reported) == 2 and "because of kind" in reported[0] and "because of other" in reported[1]
    assert [(one.origin, one.old, one.new) for one in compiled.recompiles()[:2]] == [
        ("kind", "''", "'k'"),
        ("kind", "'k'", "'kk'"),
    ]


def test_recompiles_say_what_was_done() -> None:
    class Holder:
        scale = 1.5

    def f(x: torch.Tensor, holder: Any, table: dict[str, int]) -> torch.Tensor:
        return x * holder.scale + table["base"]

    compiled, holder = framelift.compile(f, backend="eager"), Holder()
    holder.scale = 1.5
    compiled(torch.ones(3), holder, {"base": 1})
    compiled(torch.ones(4), holder, {"base": 1})
    holder.scale = 2.5
    compiled(torch.ones(4), holder, {"base": 1})
    size, scale = compiled.recompiles()
    assert (size.origin, size.kind, size.done) == ("x", "TENSOR", "x.size(0) is symbolic from now on")
    place = "holder.scale"
    assert (scale.origin, scale.old, scale.new, scale.done) == (place, "1.5", "2.5", f"{place} is symbolic from now on")
    assert scale.reader is not None and scale.reader.line == f.__code__.co_firstlineno + 1


def test_a_call_beyond_the_limit_is_not_explained_again() -> None:
    """It is found once why there is no room for another entry, not at each call that misses alike."""

    def f(x: torch.Tensor, names: dict[str, int]) -> torch.Tensor:
        return x + len(names)

    graphs, backend = counting()
    compiled = framelift.compile(f, backend=backend)
    seen: list[Any] = []
    with config.patch(recompile_limit=2), warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr(missed, "missed", lambda *args, now=missed.missed: seen.append(args) or now(*args))
        for n in range(6):
            assert compiled(torch.zeros(1), {f"k{n}{i}": i for i in range(n % 3)}).item() == n % 3
            asked = len(seen)
        for n in range(6):
            assert compiled(torch.zeros(1), {f"j{n}{i}": i for i in range(2)}).item() == 2
        assert len(graphs) == 2 and len(seen) <= asked + 2
        del compiled.entries[:]
        assert compiled(torch.zeros(1), {"again": 1, "and": 2}).item() == 2
