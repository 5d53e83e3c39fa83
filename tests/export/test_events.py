"""What others hear of an export: usage events, TORCH_TRACE, warnings of leaked fakes, and where nodes come from."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx.passes.utils.source_matcher_utils import get_source_partitions

from framelift.export import export


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        self.shift = self.alias = torch.ones(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(self.layers(x)) + self.shift


X = torch.ones(3, 4)
BOTH = pytest.mark.parametrize("strict", [True, False])


@BOTH
def test_usage_events(strict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fails(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if x.sum() > 0 else x

    seen: list[Any] = []
    monkeypatch.setattr("torch.export._trace.log_export_usage", lambda event, **_: seen.append(event))
    export(Layers(), (X,), strict=strict)
    assert seen == ["export.enter", "export.time"]
    with pytest.raises(Exception, match="draft_export"):
        export(Fails(), (X,), strict=strict)
    assert seen[2:] == ["export.enter", "export.error.unclassified"]


def test_the_trace_has_the_program(tmp_path: Path) -> None:
    program = "import torch, framelift; framelift.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))"
    environment = {"TORCH_TRACE": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    written = "".join(file.read_text() for file in tmp_path.iterdir())
    assert '"exported_program"' in written and "torch.ops.aten.linear.default" in written


def test_leaked_fakes_are_named() -> None:
    kept: list[torch.Tensor] = []

    class Leaks(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            kept.append(x + 1)
            return kept[-1] * 2

    with torch._export.config.patch(detect_non_strict_fake_tensor_leaks=True):
        with pytest.warns(UserWarning, match=r"Detected 1 fake tensors[^$]*kept.append\(x \+ 1\)"):
            export(Leaks(), (X,))
        kept.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            export(Layers(), (X,))


@BOTH
def test_layers_are_found_in_programs_and_in_programs_of_these(strict: bool) -> None:
    program = export(Layers(), (X,), strict=strict)
    assert sorted(name for name in program.constants) == ["alias", "shift"]
    again = export(program.module(), (X,), strict=True)
    for one in (program, again):
        found = get_source_partitions(one.graph, [nn.Linear, nn.ReLU])
        assert [len(found[layer]) for layer in (nn.Linear, nn.ReLU)] == [2, 1]
    unflattened = torch.export.unflatten(again)
    assert {"layers.0", "layers.1", "layers.2"} <= dict(unflattened.named_modules()).keys()
    torch.testing.assert_close(unflattened(X), program.module()(X))
