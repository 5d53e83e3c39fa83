"""`framelift export`: the programs that a script exports, with their inputs, and what has to be changed in others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

SCRIPT = """
import torch
from torch.export import Dim, export

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x, scale, flag=None):
        return self.layer(x) * scale

class Chooses(torch.nn.Module):
    def forward(self, x):
        n = x.max().long().item()
        if n > 3:
            return x + 1
        return x * 2 if x.sum() > 0 else x

torch.manual_seed(0)
rows = {"x": {0: Dim("rows", max=64)}, "scale": None}
export(Net(), (torch.ones(3, 4), 2.0), dynamic_shapes=rows, strict=True)
export(Net(), (torch.ones(3, 4, dtype=torch.float32), torch.ones(2)), strict=False)
if {fails}:
    export(Chooses(), (torch.ones(2),), strict=True)
"""


def _run(folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(script)
    command = [sys.executable, "-m", "framelift", "export", *arguments, "script.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_programs_with_their_inputs(tmp_path: Path) -> None:
    done = _run(tmp_path, SCRIPT.replace("{fails}", "False"), "--text", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert "2 programs: out/index.html" in done.stderr
    lines = [line.split(None, 4) for line in done.stdout.splitlines()]
    assert ["x", "tensor", "float32", "(s77,", "4)"] in [line[:5] for line in map(str.split, done.stdout.splitlines())]
    assert any(line[-1].endswith("s77 from 0 to 64") for line in lines if line)
    assert "scale  constant 2.0" in done.stdout
    served = torch.export.load(tmp_path / "out" / "Net.pt2").module()
    assert served(torch.ones(9, 4), 2.0).shape == (9, 2)
    assert (tmp_path / "out" / "Net_2.pt2").exists()
    page = (tmp_path / "out" / "index.html").read_text()
    assert (
        "s77 from 0 to 64" in page and "Graph" in page and (tmp_path / "out" / "inputs.txt").read_text() == done.stdout
    )


def test_what_cannot_be_exported_says_every_place(tmp_path: Path) -> None:
    done = _run(tmp_path, SCRIPT.replace("{fails}", "True"))
    assert done.returncode == 1
    assert "2 programs and 1 that cannot be exported" in done.stderr and "Traceback" in done.stderr
    page = (tmp_path / "framelift_export" / "index.html").read_text()
    assert "if n &gt; 3:" in page and "return x * 2 if x.sum() &gt; 0 else x" in page and "\x1b" not in page
    assert not (tmp_path / "framelift_export" / "Chooses.pt2").exists()


def test_a_script_that_exports_nothing(tmp_path: Path) -> None:
    done = _run(tmp_path, "import torch")
    assert done.returncode == 1
    assert "the script does not call torch.export.export" in done.stderr
    assert not (tmp_path / "framelift_export").exists()
