"""Functions that are compiled ahead of time: what they do in the process that made them, and saved and loaded."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from framelift.exc import PackageError

SCALE = 2
calls: list[int] = []


@pytest.fixture(autouse=True)
def keys(tmp_path: Path) -> Any:
    framelift.reset()
    with config.patch(strict=True, cache_dir=str(tmp_path / "keys")):
        yield


def plain(x: torch.Tensor, y: int = 1) -> torch.Tensor:
    return x.sin() * SCALE + y


def acting(x: torch.Tensor) -> torch.Tensor:
    calls.append(1)
    return x + 1


def breaking(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.sum() > 0 else x - 1


@framelift.compile(backend="eager", fullgraph=True)
def decorated(x: torch.Tensor) -> torch.Tensor:
    return x * 3


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(1)
        return self.layer(x)


def compiled(function: Any, **options: Any) -> Any:
    return framelift.compile(function, backend="eager", fullgraph=True, **options)


def again(function: Any, tmp_path: Path, written: Any = None, **options: Any) -> Any:
    """Saved and loaded."""
    saved = function.save_compiled_function(tmp_path / "function", written)
    assert (tmp_path / "function").read_bytes() == saved.serialized_data
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["function"]  # nothing else is left
    return framelift.load_compiled_function(io.BytesIO(saved.serialized_data), **options)


def test_calls_check_guards(tmp_path: Path) -> None:
    x = torch.ones(2)
    made = compiled(plain).aot_compile(((x,), {"y": 4}))
    for function in (made, again(made, tmp_path)):
        assert torch.equal(function(x, 4), plain(x, 4)) and torch.equal(function(x, y=4), plain(x, 4))
        assert function.guard_check(x, 4) and not function.guard_check(x) and not function.guard_check(x[:1], 4)
        with pytest.raises(RuntimeError, match=r"^GuardManager check failed, reason: x has size \(1,\), had \(2,\)"):
            function(x[:1], 4)
        with pytest.raises(RuntimeError, match=r"^GuardManager check failed, reason: y is now 1, was 4"):
            function(x)
        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            function()
        (source,) = function.source_info().inlined_sources
        assert source.module == __name__ and source.content.startswith("def plain(x: torch.Tensor, y: int = 1)")
    assert framelift.stats()["captures"] == 1 and framelift.stats()["loaded"] == 1


def test_globals_are_guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(2)
    made = again(compiled(plain).aot_compile(((x,), {})), tmp_path)
    monkeypatch.setitem(globals(), "SCALE", 7)
    with pytest.raises(RuntimeError, match="GuardManager check failed, reason: .*SCALE.* is now 7, was 2"):
        made(x)


def test_guards_can_be_disabled(tmp_path: Path) -> None:
    x = torch.ones(2)
    made = compiled(plain).aot_compile(((x,), {}))
    loaded = again(made, tmp_path)
    for function in (made, loaded):
        function.disable_guard_check()
        assert torch.equal(function(x, 9), plain(x, 1))


def test_nothing_runs_ahead_of_time() -> None:
    calls.clear()
    made = compiled(acting).aot_compile(((torch.ones(1),), {}))
    assert calls == []
    made(torch.ones(1))
    assert calls == [1]


def test_what_is_needed() -> None:
    with pytest.raises(RuntimeError, match="fullgraph=True"):
        framelift.compile(plain, backend="eager").aot_compile(((torch.ones(1),), {}))
    with pytest.raises(framelift.exc.Unsupported, match="breaking"):
        compiled(breaking).aot_compile(((torch.ones(1),), {}))
    with pytest.raises(TypeError, match=r"\(args, kwargs\)"):
        compiled(plain).aot_compile(torch.ones(1))
    with config.patch(enable_aot_compile=False), pytest.raises(RuntimeError, match="not enabled"):
        compiled(plain).aot_compile(((torch.ones(1),), {}))


def test_methods_and_modules_take_the_object_first(tmp_path: Path) -> None:
    x, model, other = torch.ones(2), Model(), Model()
    for made in (compiled(model).forward.aot_compile(((x,), {})), compiled(model.forward).aot_compile(((x,), {}))):
        loaded = again(made, tmp_path)
        model.seen.zero_()
        assert torch.equal(loaded(model, x), model.layer(x)) and model.seen.item() == 1
        assert torch.equal(loaded(other, x), other.layer(x))  # bound to another object, by the same guards


def test_a_function_that_is_compiled_where_it_is_defined(tmp_path: Path) -> None:
    loaded = again(decorated.aot_compile(((torch.ones(1),), {})), tmp_path)
    assert loaded(torch.ones(1)).item() == 3


def test_closures(tmp_path: Path) -> None:
    model, times = torch.nn.Linear(2, 2), 3

    def nested(x: torch.Tensor, y: float = 1.5, *, power: int = 2) -> torch.Tensor:
        return (model(x) * times * y) ** power

    x = torch.ones(2)
    made = compiled(nested).aot_compile(((x,), {}))
    with pytest.raises(RuntimeError, match=r"Failed to serialize the following objects: \[Linear"):
        made.save_compiled_function(tmp_path / "function")
    with pytest.raises(RuntimeError, match="Missing required external reference to data: model"):
        again(made, tmp_path, {"model": model})
    assert torch.equal(again(made, tmp_path, {"model": model}, external_data={"model": model})(x), nested(x))


def serializing(graph_module: Any, _inputs: Any) -> Any:
    return Multiplied(3)


class Multiplied:
    """A compiled graph that can be saved; it does not what the graph says, so that it is seen to be the one."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    @classmethod
    def serialize_compile_artifacts(cls, fn: Multiplied) -> bytes:
        return bytes([fn.factor + 1])

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> Multiplied:
        return cls(data[0])

    def __call__(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        return (x * self.factor,)


def test_backends(tmp_path: Path) -> None:
    x = torch.ones(1)
    made = framelift.compile(plain, backend=serializing, fullgraph=True).aot_compile(((x,), {}))
    assert made(x).item() == 3 and again(made, tmp_path)(x).item() == 4
    unnamed = framelift.compile(plain, backend=lambda graph, _: graph.forward, fullgraph=True).aot_compile(((x,), {}))
    with pytest.raises(RuntimeError, match="<lambda>.*does not implement SerializableCallable"):
        unnamed.save_compiled_function(tmp_path / "function")


def test_the_drop_in(tmp_path: Path) -> None:
    with framelift.installed():
        made = torch.compile(plain, backend="eager", fullgraph=True).aot_compile(((torch.ones(1),), {}))
        made.save_compiled_function(str(tmp_path / "function"))
        with torch.compiler.set_stance("fail_on_recompile"), open(tmp_path / "function", "rb") as file:
            loaded = torch.compiler.load_compiled_function(file)
            assert torch.equal(loaded(torch.ones(1)), plain(torch.ones(1)))


def of_this_process(x: torch.Tensor) -> torch.Tensor:
    return x + (1 if hash("a") % 2 else 2)


def test_what_cannot_be_saved_says_why(tmp_path: Path) -> None:
    made = compiled(of_this_process).aot_compile(((torch.ones(1),), {}))
    assert torch.equal(made(torch.ones(1)), of_this_process(torch.ones(1)))
    with pytest.raises(PackageError, match="the capture of of_this_process cannot be saved: the program asks for what"):
        made.save_compiled_function(tmp_path / "function")


def over_a_set(x: torch.Tensor) -> torch.Tensor:
    for word in {"ab", "c", "def"}:
        x = x + len(word)
    return x


class Named:
    pass


def over_objects(x: torch.Tensor) -> torch.Tensor:
    for one in {Named(), Named()}:
        x = x + (1 if one else 2)
    return x


def test_the_order_of_sets(tmp_path: Path) -> None:
    """Strings have some order in every process; that of objects follows from where they lie in memory."""
    loaded = again(compiled(over_a_set).aot_compile(((torch.ones(1),), {})), tmp_path)
    assert loaded(torch.ones(1)).item() == 7
    with pytest.raises(PackageError, match="the order of a set"):
        compiled(over_objects).aot_compile(((torch.ones(1),), {})).save_compiled_function(tmp_path / "other")
