"""FX graphs as data, and back: nodes, targets by name, constants, and what the tape left on the nodes."""

from __future__ import annotations

import os
import types
from typing import Any

import torch
from torch.fx import GraphModule, Node

from .._core import is_a
from ..graph.fx.tape import add_node, made_module
from ..graph.metadata.facts import Facts
from ..graph.metadata.fakes import Fakes
from ..torch_ports.modes import DisableTorchFunction
from ..torch_ports.operators import HigherOrderOperator, OpOverload, OpOverloadPacket
from ..vocabulary.own_code import FRAMELIFT
from ..vocabulary.written_forms import NotKept
from .plain_values import leaf_data, leaf_of
from .record_reader import Reader
from .record_writer import RecordWriter
from .refusals import NotMine
from .symbol_data import Numbers, facts_data, facts_from

Metadata = dict[Node, dict[str, Any]]

_META = frozenset({"stack_trace", "tensor_facts", "effect", "tensor_dict"})
#: what describes nodes for backends that read it, and follows from the rest: it is not written
_DESCRIBING = frozenset({"example_value", "source_fn_stack", "nn_module_stack"})
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_OPS = ("placeholder", "call_function", "call_method", "get_attr", "output")
#: modules of C functions that graphs call
_C_MODULES = ("torch", "_operator", "operator", "builtins", "math", "framelift")


_OPERATORS = (OpOverload, OpOverloadPacket, HigherOrderOperator)


class _GraphSaving:
    """One graph, or a body in it: these have facts and storages in common with the graph around them."""

    def __init__(
        self, writer: RecordWriter, module: GraphModule, metadata: Metadata, around: _GraphSaving | None = None
    ) -> None:
        self.writer, self.module, self.metadata, self.is_body = writer, module, metadata, around is not None
        self.numbers: dict[Node, int] = {}
        self.texts: dict[str, int] = {} if around is None else around.texts
        self.facts: dict[Facts, int] = {} if around is None else around.facts
        self.storages: dict[Any, int] = {} if around is None else around.storages

    def graph(self) -> dict[str, Any]:
        """The nodes, and those of the bodies of higher-order operators."""
        bodies = {}
        for name, child in self.module.named_children():
            if is_a(child, GraphModule):
                bodies[name] = _GraphSaving(self.writer, child, self.metadata, around=self).graph()
            else:
                raise NotKept("the graph holds a module or a tensor", type(child).__qualname__)
        for node in self.module.graph.find_nodes(op="get_attr"):
            if node.target not in bodies:
                raise NotKept("the graph holds a module or a tensor", str(node.target))
        nodes = [self.node(node) for node in self.module.graph.nodes]
        return {"nodes": nodes, "bodies": bodies}

    def node(self, node: Node) -> list[Any]:
        if node.op not in _OPS:
            raise NotKept("the graph holds a module or a tensor", str(node.target))
        row = [
            node.name,
            node.op,
            self.target(node) if node.op == "call_function" else node.target,
            self.argument(node.args),
            self.argument(dict(node.kwargs)),
            self.meta(node),
        ]
        self.numbers[node] = len(self.numbers)
        return row

    def target(self, node: Node) -> int:
        target: Any = node.target
        if type(target) is types.FunctionType:
            if target.__closure__ is not None and not target.__code__.co_filename.startswith(_TORCH):
                raise NotKept("the graph calls a closure", target.__qualname__)
            if not target.__code__.co_filename.startswith((_TORCH, FRAMELIFT)):
                raise NotKept("the graph calls a function of the program", target.__qualname__)
        elif type(target) is types.BuiltinFunctionType:
            if str(target.__module__).partition(".")[0] not in (*_C_MODULES, "None"):
                raise NotKept("the graph calls a function written in C that is not torch's", target.__qualname__)
        elif not is_a(target, _OPERATORS):
            raise NotKept("the graph calls an object", type(target).__qualname__)
        return self.writer.named(target)

    def argument(self, value: Any) -> Any:
        kind = type(value)
        if kind is Node:
            return ["node", self.numbers[value]]
        if is_a(value, tuple) and kind is not torch.Size:
            if kind is not tuple:
                raise NotKept("a constant is no plain value", kind.__qualname__)
            return ["items", [self.argument(one) for one in value]]
        if is_a(value, list):
            return ["list", [self.argument(one) for one in value]]
        if is_a(value, dict):
            return ["dict", [[leaf_data(key), self.argument(one)] for key, one in value.items()]]
        if kind is slice:
            return ["slice of", [self.argument(one) for one in (value.start, value.stop, value.step)]]
        return leaf_data(value)

    def meta(self, node: Node) -> list[Any]:
        meta = self.metadata.get(node, node.meta)
        more = meta.keys() - _META - _DESCRIBING
        if more:
            raise NotKept("a node of the graph carries more than is written", ", ".join(more))
        facts = None
        if "tensor_facts" in meta:
            known, storage = meta["tensor_facts"]
            place = self.storages.setdefault(storage, len(self.storages))
            facts = [self.facts.setdefault(known, len(self.facts)), place]
        trace = meta.get("stack_trace")
        text = None if trace is None else self.texts.setdefault(trace, len(self.texts))
        marks = meta.get("tensor_dict")
        has_example = self.is_body and "example_value" in meta  # torch's operators look for it on what bodies return
        if has_example and facts is None:
            raise NotKept("a node of the graph carries more than is written", "example_value")
        return [text, facts, "effect" in meta, None if marks is None else sorted(marks.items()), has_example]


def body_metadata(module: GraphModule) -> Metadata:
    """Return the metadata of the nodes of bodies. Compilers write to these: their copies of a graph have them too."""
    bodies = [part for part in module.modules() if is_a(part, GraphModule) and part is not module]
    return {node: dict(node.meta) for body in bodies for node in body.graph.nodes}


def graph_data(writer: RecordWriter, module: GraphModule, metadata: Metadata) -> dict[str, Any]:
    """A graph as data; raises `NotKept`.  `metadata` is that of the nodes of bodies, before the graph was compiled."""
    if "cudagraph_annotation" in module.meta:
        raise NotKept("the graph carries a setting for the backend", "cudagraph_annotation")
    saving = _GraphSaving(writer, module, metadata)
    data = saving.graph()
    texts = [writer.shown(text) or text for text in saving.texts]
    return {**data, "texts": texts, "facts": [facts_data(facts) for facts in saving.facts]}


class _GraphLoading:
    def __init__(self, reader: Reader, data: dict[str, Any], numbers: Numbers | None) -> None:
        self.reader, self.data = reader, data
        self.facts = [facts_from(row, numbers) for row in data["facts"]]
        self.texts = [reader.stack(text) for text in data["texts"]]
        self.fakes = Fakes()
        if numbers is not None:
            self.fakes.become_symbolic(numbers.symbols.env)
        self.nodes: list[Node] = []

    def graph(self, data: dict[str, Any]) -> GraphModule:
        """The graph, or a body in it."""
        around, self.nodes = self.nodes, []
        graph, root = torch.fx.Graph(), torch.nn.Module()
        for name, body in data["bodies"].items():
            root.add_module(name, self.graph(body))
        for row in data["nodes"]:
            self.node(graph, row)
        self.nodes = around
        return made_module(root, graph)

    def argument(self, data: Any) -> Any:
        if type(data) is not list:
            return data
        tag, rest = data
        if tag == "node":
            return self.nodes[rest]
        if tag == "items":
            return tuple([self.argument(one) for one in rest])
        if tag == "list":
            return [self.argument(one) for one in rest]
        if tag == "dict":
            return {leaf_of(key): self.argument(one) for key, one in rest}
        if tag == "slice of":
            return slice(*[self.argument(one) for one in rest])
        return leaf_of(data)

    def node(self, graph: torch.fx.Graph, row: list[Any]) -> None:
        name, op, target, args, kwargs, (text, facts, effect, marks, has_example) = row
        if op not in _OPS:
            raise NotMine(f"an unknown kind of node: {op}")
        called = self.reader.object(target) if op == "call_function" else target
        node = add_node(graph, name, op, called, self.argument(args), self.argument(kwargs))
        if text is not None:
            node.meta["stack_trace"] = self.texts[text]
        if facts is not None:
            node.meta["tensor_facts"] = self.facts[facts[0]], facts[1]
        if effect:
            node.meta["effect"] = True
        if marks is not None:
            node.meta["tensor_dict"] = dict(marks)
        if has_example:
            with DisableTorchFunction():
                node.meta["example_value"] = self.fakes.make(self.facts[facts[0]])
        self.nodes.append(node)


def graph_of(reader: Reader, data: dict[str, Any], numbers: Numbers | None) -> GraphModule:
    """The graph of such data; `numbers` are the symbolic ones in it."""
    return _GraphLoading(reader, data, numbers).graph(data)
