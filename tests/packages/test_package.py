"""Packages of several captures: modules in training and evaluation, shapes, weights, and what is not there."""

from __future__ import annotations

import contextlib
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from framelift.exc import PackageError


@pytest.fixture(autouse=True)
def keys(tmp_path: Path) -> Any:
    framelift.reset()
    with config.patch(strict=True, cache_dir=str(tmp_path / "keys")):
        yield


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.tied = torch.nn.Linear(4, 4, bias=False)
        self.tied.weight = self.layer.weight
        self.norm = torch.nn.BatchNorm1d(4)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> dict[str, Any]:
        return {"y": self.norm(self.tied(self.drop(self.layer(x)))) * scale, "training": self.training}


class Counter:
    def __init__(self) -> None:
        self.factor = 3

    def step(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def model() -> Model:
    torch.manual_seed(0)
    return Model()


def compiled(function: Any, **options: Any) -> Any:
    return framelift.compile(function, backend="eager", **options)


def equal(loaded: Any, eager: Any, *args: Any, **kwargs: Any) -> bool:
    torch.manual_seed(1)
    found = loaded(*args, **kwargs)
    torch.manual_seed(1)
    wanted = eager(*args, **kwargs)
    return torch.equal(found["y"], wanted["y"]) and found["training"] == wanted["training"]


def test_training_and_evaluation_and_two_shapes(tmp_path: Path) -> None:
    path, module = tmp_path / "package", model()
    with config.patch(record_captures=True):
        made = compiled(module, dynamic=False)
    for train in (True, False):
        module.train(train)
        for rows in (2, 3):
            made(torch.ones(rows, 4), scale=2.0)
    framelift.save_package(made, path)
    framelift.reset()
    mine, eager = model(), model()
    loaded = framelift.load_package(path, mine)
    assert isinstance(loaded, framelift.OptimizedModule) and loaded.layer is mine.layer
    for train in (True, False):
        mine.train(train), eager.train(train)
        for rows in (2, 3):
            assert equal(loaded, eager, torch.arange(4.0 * rows).reshape(rows, 4), scale=2.0)
    for name, value in eager.state_dict().items():
        assert torch.equal(value, mine.state_dict()[name]), name
    assert framelift.stats()["captures"] == 0 and framelift.stats()["loaded"] == 4
    with pytest.raises(PackageError, match=r"no capture .* this call of Model: x has size \(7, 4\), had \(\d, 4\)"):
        loaded(torch.ones(7, 4), scale=2.0)
    with pytest.raises(PackageError, match=r"no capture .* this call of Model: scale is now 1.5, was 2.0"):
        loaded(torch.ones(3, 4), scale=1.5)


def test_gradients(tmp_path: Path) -> None:
    module, x = model(), torch.ones(2, 4)
    framelift.save_package(compiled(module), tmp_path / "package", calls=[((x,), {})])
    mine, eager = model(), model()
    loaded = framelift.load_package(tmp_path / "package", mine)
    for function in (loaded, eager):
        torch.manual_seed(1)
        function(x)["y"].square().sum().backward()
    for name, parameter in eager.named_parameters():
        assert torch.equal(parameter.grad, mine.get_parameter(name).grad), name


def test_calls_are_captured_without_being_run(tmp_path: Path) -> None:
    module = model()
    before = module.norm.num_batches_tracked.item()
    calls = [((torch.ones(rows, 4),), {"scale": 0.5}) for rows in range(2, 14)]  # more than the recompile limit
    framelift.save_package(compiled(module), tmp_path / "package", calls=calls)
    assert module.norm.num_batches_tracked.item() == before
    loaded = framelift.load_package(tmp_path / "package", module)
    assert equal(loaded, model(), torch.ones(9, 4), scale=0.5)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_weights(tmp_path: Path, device: str) -> None:
    path, module, x = tmp_path / "package", model().eval(), torch.ones(2, 4)
    framelift.save_package(compiled(module), path, calls=[((x,), {})], weights=True)
    with torch.device(device):
        other = Model().eval()
    other.tied.weight = other.layer.weight
    loaded = framelift.load_package(path, other)
    if device == "cpu":
        assert equal(loaded, module, x)
    assert torch.equal(other.tied.weight, module.layer.weight) and other.norm.running_mean.device.type == "cpu"
    unweighted = framelift.load_package(path, Model(), weights=False)
    assert not torch.equal(unweighted.layer.weight, module.layer.weight)
    with pytest.raises(PackageError, match="not this module's"):
        framelift.load_package(path, torch.nn.Linear(4, 4))


def test_functions_and_methods(tmp_path: Path) -> None:
    path, x = tmp_path / "package", torch.ones(2)
    framelift.save_package(compiled(double), path, calls=[((x,), {})])
    assert framelift.load_package(path)(x).tolist() == [2, 2] == framelift.load_package(path, double)(x).tolist()
    framelift.save_package(compiled(Counter().step), path, calls=[((x,), {})])
    with pytest.raises(PackageError, match="takes its object"):
        framelift.load_package(path)
    other = Counter()
    assert framelift.load_package(path, other)(x).tolist() == [3, 3]
    other.factor = 4
    with pytest.raises(PackageError, match="factor.* is now 4, was 3"):
        framelift.load_package(path, other)(x)


def test_what_cannot_be_packaged(tmp_path: Path) -> None:
    def breaking(x: torch.Tensor) -> torch.Tensor:
        framelift.graph_break()
        return x + 1

    path, x = tmp_path / "package", torch.ones(2)
    made = compiled(double)
    with pytest.raises(PackageError, match="was not captured yet: name calls"):
        framelift.save_package(made, path)
    made(x)
    with pytest.raises(PackageError, match="captures were not recorded"):
        framelift.save_package(made, path)
    with pytest.raises(framelift.exc.Unsupported):
        framelift.save_package(compiled(breaking), path, calls=[((x,), {})])
    with pytest.raises(TypeError, match="what framelift.compile returned, not a function"):
        framelift.save_package(double, path)
    with pytest.raises(PackageError, match="load_package.path, model. takes the module"):
        framelift.save_package(compiled(model()), path, calls=[((torch.ones(2, 4),), {})])
        framelift.load_package(path)


def test_an_edited_function_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "packaged_program.py"
    source.write_text("def inner(x):\n    return x + 1\n\ndef outer(x):\n    return inner(x) * 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    program: Any = importlib.import_module("packaged_program")
    path, x = tmp_path / "package", torch.ones(2)
    framelift.save_package(compiled(program.outer), path, calls=[((x,), {})])
    assert framelift.load_package(path)(x).tolist() == [4, 4]
    program.inner.__code__ = (lambda x: x + 5).__code__  # another one, with the files as they were
    with pytest.raises(PackageError, match="inner"):
        framelift.load_package(path)(x)
    source.write_text("# moved\n\n\ndef inner(x):\n    return x + 1\n\ndef outer(x):\n    return inner(x) * 2\n")
    importlib.reload(program)
    assert framelift.load_package(path)(x).tolist() == [4, 4]
    source.write_text("def inner(x):\n    return x + 3.5\n\ndef outer(x):\n    return inner(x) * 2\n")
    importlib.reload(program)
    with pytest.raises(PackageError, match=r"packaged_program:inner was edited since .* line 1\)"):
        framelift.load_package(path)
    del sys.modules["packaged_program"]


@contextlib.contextmanager
def evaluating(module: Any) -> Any:
    module.eval()
    yield
    module.train()


def test_modules_ahead_of_time(tmp_path: Path) -> None:
    module, x = model(), torch.ones(2, 4)
    made = compiled(module, fullgraph=True)
    with pytest.raises(PackageError, match="call _aot_compile first"):
        made._save_aot_compiled_module()
    inputs = [framelift.ModelInput((x,), {}, [torch.no_grad(), evaluating(module)]), framelift.ModelInput((x,), {}, [])]
    made._aot_compile(inputs)
    content = made._save_aot_compiled_module(tmp_path / "module")
    assert (tmp_path / "module").read_bytes() == content
    fresh = model()
    loaded = compiled(fresh, fullgraph=True)
    loaded._load_aot_compiled_module(content)
    for one, own in ((made, module), (loaded, fresh)):
        with torch.no_grad(), evaluating(own), torch.compiler.set_stance("fail_on_recompile"):
            assert equal(one, model().eval(), x)
        assert equal(one, model().train(), x)
        with pytest.raises(RuntimeError, match=r"GuardManager check failed, reason: x has size \(3, 4\)"):
            one(torch.ones(3, 4))
    with pytest.raises(RuntimeError, match="fullgraph=True"):
        compiled(module)._aot_compile(inputs)
