"""What reads exported programs: their results are those of the module, at other sizes too."""

from __future__ import annotations

import io
import pathlib
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, load, save, unflatten

import framelift


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.BatchNorm1d(4), nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Net(nn.Module):
    """A block that is called twice, and a dictionary as result."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.head = Block(), nn.Linear(4, 2)

    def forward(self, x: Any, *, scale: Any) -> Any:
        return {"y": self.head(self.block(self.block(x))) * scale, "rows": x.shape[0]}


def exported(strict: bool, training: bool = False) -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    net = Net().train(training)
    shapes = {"x": {0: Dim("rows", min=2, max=64)}, "scale": None}
    given = (torch.randn(3, 4),), {"scale": torch.ones(2)}
    return net, framelift.export.export(net, *given, strict=strict, dynamic_shapes=shapes)


def agrees(net: Any, run: Any) -> None:
    for rows in (3, 9):
        x, scale = torch.randn(rows, 4), torch.full((2,), 2.0)
        torch.testing.assert_close(run(x, scale=scale), net(x, scale=scale))


@pytest.mark.parametrize("strict", [True, False])
def test_programs_made_of_programs(strict: bool) -> None:
    net, program = exported(strict)
    agrees(net, program.module())
    agrees(net, program.run_decompositions().module())
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    agrees(net, load(file).module())
    given = (torch.randn(5, 4),), {"scale": torch.ones(2)}
    shapes = {"x": {0: Dim("rows", min=2, max=64)}, "scale": None}
    agrees(net, framelift.export.export(program.module(), *given, strict=strict, dynamic_shapes=shapes).module())


@pytest.mark.parametrize("strict", [True, False])
def test_modules_are_swapped(strict: bool) -> None:
    net, program = exported(strict)
    whole = unflatten(program)
    agrees(net, whole)
    net.head = nn.Linear(4, 2)
    whole.set_submodule("head", net.head)
    agrees(net, whole)


def test_training() -> None:
    """The exported module in training: results, gradients and buffers."""
    net, program = exported(True, training=True)
    run = program.module()
    x, scale = torch.randn(6, 4), torch.ones(2)
    for one in (net, run):
        one(x, scale=scale)["y"].sum().backward()
    for (name, one), (_, other) in zip(sorted(net.named_parameters()), sorted(run.named_parameters())):
        torch.testing.assert_close(one.grad, other.grad, msg=name)
    torch.testing.assert_close(net.block.norm.running_mean, run.block.norm.running_mean)


@pytest.mark.slow
@pytest.mark.parametrize("strict", [True, False])
def test_inductor_packages(strict: bool, tmp_path: pathlib.Path) -> None:
    net, program = exported(strict)
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "net.pt2"))
    run = torch._inductor.aoti_load_package(path)
    for rows in (3, 9):  # numbers of the result come back as tensors
        x, scale = torch.randn(rows, 4), torch.full((2,), 2.0)
        torch.testing.assert_close(run(x, scale=scale)["y"], net(x, scale=scale)["y"])


@pytest.mark.slow
@pytest.mark.parametrize("strict", [True, False])
def test_onnx(strict: bool, tmp_path: pathlib.Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    net = nn.Sequential(Block(), nn.Linear(4, 2)).eval()
    program = framelift.export.export(net, (torch.randn(3, 4),), strict=strict, dynamic_shapes=({0: Dim("rows")},))
    path = str(tmp_path / "net.onnx")
    torch.onnx.export(program, (), path, dynamo=True, verbose=False)
    served = runtime.InferenceSession(path)
    for rows in (3, 9):
        x = torch.randn(rows, 4)
        found = served.run(None, {served.get_inputs()[0].name: x.numpy()})[0]
        torch.testing.assert_close(torch.from_numpy(found), net(x), atol=1e-5, rtol=1e-4)


@pytest.mark.slow
def test_quantized_after_export() -> None:
    """pt2e of torchao."""
    pytest.importorskip("torchao")
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
        X86InductorQuantizer,
        get_default_x86_inductor_quantization_config,
    )

    net, x = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval(), torch.randn(3, 4)
    program = framelift.export.export(net, (x,), strict=True)
    prepared = prepare_pt2e(
        program.module(), X86InductorQuantizer().set_global(get_default_x86_inductor_quantization_config())
    )
    prepared(x)
    torch.testing.assert_close(convert_pt2e(prepared)(x), net(x), atol=0.1, rtol=0.1)


@pytest.mark.slow
def test_static_cache_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, vocab_size=32
    )
    model = transformers.LlamaForCausalLM(config).eval()
    model.generation_config = transformers.GenerationConfig(
        use_cache=True, cache_implementation="static", max_length=8, cache_config={"batch_size": 1, "max_cache_len": 8}
    )
    run = TorchExportableModuleWithStaticCache(model, 1, 8, torch.device("cpu"))
    given = {"input_ids": torch.tensor([[3]]), "cache_position": torch.tensor([0])}
    program = framelift.export.export(run, (), given, strict=True).module()
    tokens = torch.tensor([[5, 7, 3]])
    with torch.no_grad():
        wanted = model(tokens).logits
        for i in range(3):
            found = program(input_ids=tokens[:, i : i + 1], cache_position=torch.tensor([i]))
            torch.testing.assert_close(found[:, -1], wanted[:, i], atol=1e-4, rtol=1e-3)
