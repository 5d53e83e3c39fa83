"""Runs a program in one child for each port named, in a torch that seems to have that part under another name.

`python without_a_part.py AREA.NAME ...` prints a line for each: the port, and `right`, `refused: SENTENCE` or what was
wrong.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
import types
import warnings
from dataclasses import replace

import torch

SOURCE = os.path.join(os.path.dirname(__file__), "..", "..", "src", "framelift")


def areas() -> types.ModuleType:
    """Import the ports without the rest of framelift, which looks them up while it is imported."""
    package = sys.modules["framelift"] = types.ModuleType("framelift")
    package.__path__ = [SOURCE]
    port = importlib.import_module("framelift.torch_ports.port")
    assert list(port.ports())
    del sys.modules["framelift"]
    return port


def program() -> None:
    """A module's training step, a break, dynamic shapes and a changing float, each beside plain Python."""
    import framelift

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.0), torch.nn.ReLU())
    again = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.0), torch.nn.ReLU())
    again.load_state_dict(net.state_dict())
    compiled = framelift.compile(net, backend="eager")
    for size in (2, 3, 4):
        x = torch.rand(size, 4)
        compiled(x).sum().backward()
        again(x).sum().backward()
    for one, other in zip(net.parameters(), again.parameters()):
        torch.testing.assert_close(one.grad, other.grad)

    def scaled(x: torch.Tensor, scale: float) -> torch.Tensor:
        with torch.no_grad():
            y = x.t().contiguous() * scale
        if y.sum() > 0:
            y = y + 1
        return torch.cat([y, y]).view(-1).sort().values

    fast = framelift.compile(scaled, backend="eager")
    for scale in (1.0, 2.5, -3.5):
        x = torch.rand(3, 2)
        torch.testing.assert_close(fast(x, scale), scaled(x, scale))


def child(port: types.ModuleType, name: str) -> str:
    area, _, part = name.partition(".")
    rows = port.AREAS[area].ports
    rows[part] = replace(rows[part], path="torch:_a_part_that_no_torch_has", others=())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a feature that is turned off may say so
            warnings.filterwarnings("error", message=".*defect of framelift")
            program()
    except port.MissingPart as missing:
        return f"refused: {missing}"
    except BaseException:
        return f"wrong: {traceback.format_exc()}"
    return "right"


def main() -> None:
    port = areas()
    for name in sys.argv[1:] or [f"{area}.{one.name}" for area, one, _ in port.ports()]:
        reader, writer = os.pipe()
        if not (pid := os.fork()):
            os.write(writer, child(port, name).encode())
            os._exit(0)
        os.close(writer)
        with open(reader, "rb") as answers:
            answer = answers.read().decode()
        _, status = os.waitpid(pid, 0)
        print(name, (answer if not status else f"died with {status}").replace("\n", "\\n"), flush=True)


if __name__ == "__main__":
    main()
