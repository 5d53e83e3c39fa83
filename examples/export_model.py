"""Export: an ExportedProgram with a dynamic batch, saved, loaded and run; with --aoti a library by AOTInductor too.

python examples/export_model.py [--aoti]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from torch import nn

import framelift


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--aoti", action="store_true", help="compile it ahead of time too (needs a C++ compiler)")
    options = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)).eval()
    batch = torch.export.Dim("batch", min=2, max=64)
    program = framelift.export(model, (torch.rand(4, 8),), dynamic_shapes=({0: batch},))
    inputs = torch.rand(7, 8)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt2"
        torch.export.save(program, path)
        loaded = torch.export.load(path).module()
        assert torch.allclose(loaded(inputs), model(inputs), atol=1e-6)
        print("saved, loaded and run with another batch size")
        if options.aoti:
            package = torch._inductor.aoti_compile_and_package(program, package_path=str(Path(folder) / "aoti.pt2"))
            run = torch._inductor.aoti_load_package(package)
            assert torch.allclose(run(inputs), model(inputs), atol=1e-5)
            print("compiled ahead of time and run")


if __name__ == "__main__":
    main()
