"""An engine in small: `python engine_in_small.py cold|warm FOLDER` prints what it saw as JSON.

The model is captured once, for all batch sizes.  Its graph is split at the attention, which is a custom operator; the
pieces between are compiled once each and kept by the text of their code, the artifacts of the engine.  A warm start
finds the capture and the artifacts, and neither rehearses nor compiles.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch.fx.passes.split_module import split_module

import framelift

HELD: dict[str, torch.Tensor] = {}


@torch.library.custom_op("small_engine::attention", mutates_args=())
def attention(q: torch.Tensor, layer: str) -> torch.Tensor:
    """Reads what the engine holds; compilers do not look into it."""
    return q * HELD[layer] + q.sum(0, keepdim=True)


@attention.register_fake
def _(q: torch.Tensor, layer: str) -> torch.Tensor:
    return torch.empty_like(q)


class Layer(torch.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.before, self.after = name, torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.after(torch.ops.small_engine.attention(torch.relu(self.before(x)), self.name))


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer("one"), Layer("two")])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x * 2


def is_attention(node: torch.fx.Node) -> bool:
    return node.target is torch.ops.small_engine.attention


class Engine:
    """Compiles the pieces of graphs, and keeps what it compiled in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.compiled, self.found = folder, 0, 0

    def pieces(self, graph: torch.fx.GraphModule) -> Any:
        part, parts = 0, {}
        for node in graph.graph.nodes:
            if node.op.startswith("call_"):
                part += is_attention(node)
                parts[node] = part
                part += is_attention(node)
        split = split_module(graph, None, parts.__getitem__, keep_original_order=True)
        for name, piece in list(split.named_children()):
            if not any(map(is_attention, piece.graph.nodes)):
                setattr(split, name, self.piece(piece))
        return split

    def piece(self, piece: torch.fx.GraphModule) -> torch.nn.Module:
        file = self.folder / (hashlib.sha256(piece.code.encode()).hexdigest() + ".pt2")
        if file.exists():
            self.found += 1
        else:
            self.compiled += 1
            file.write_text(piece.code)
        scope: dict[str, Any] = dict(vars(torch.fx.graph._custom_builtins["torch"].obj), torch=torch)
        for name, builtin in torch.fx.graph._custom_builtins.items():
            scope[name] = builtin.obj
        exec(file.read_text(), scope)
        made = torch.nn.Module()
        made.forward = scope["forward"].__get__(made)
        return made


def main(how: str, folder: Path) -> dict[str, Any]:
    HELD.update(one=torch.full((8,), 2.0), two=torch.full((8,), 3.0))
    torch.manual_seed(0)
    model, engine = Model().eval(), Engine(folder)
    with torch.no_grad():
        file = folder / "model.capture"
        if how == "cold":
            captured = framelift.capture(model, torch.ones(4, 8), dynamic={0: 0}, guards="none")
            captured.save(file, key=b"the key of the engine")
        else:
            captured = framelift.load_capture(file, model, torch.ones(2, 8), key=b"the key of the engine")
        run = captured.callable(engine.pieces(captured.graph_module))
        differs = [
            rows for rows in (4, 1, 7, 0, 2) for x in [torch.randn(rows, 8)] if not torch.equal(run(x), model(x))
        ]
        HELD["one"] = torch.full((8,), 5.0)  # what the operator reads is not the graph's
        x = torch.randn(3, 8)
        differs += [] if torch.equal(run(x), model(x)) else ["held"]
    stats = framelift.stats()
    return {
        "differs": differs,
        "captures": stats["captures"],
        "compiled": engine.compiled,
        "found": engine.found,
        "places": [row.place for row in captured.inputs],
        "modules": [row.modules[-1] for row in captured.nodes],
        "stacks": all("engine_in_small.py" in row.stack or "linear.py" in row.stack for row in captured.nodes),
        "guards": len(captured.guards),
        "examples": [list(map(str, row.example.shape)) for row in captured.nodes],
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
