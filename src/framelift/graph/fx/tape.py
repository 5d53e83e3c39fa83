"""The tape of recorded operations, and the FX graph made of it.

Operations are kept as light steps while the rehearsal runs; nodes are made once, at the end.
"""

from __future__ import annotations

import builtins
import keyword
import linecache
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import graph_module
from torch.fx.graph_module import GraphModule
from torch.fx.node import Node

from ..._core import id, is_a
from ...torch_ports.graphs import lazy_graph_modules as lazy
from ...vocabulary.places import stack_text
from ...vocabulary.reasons import Interrupt
from ..metadata.arguments import rebuild
from ..metadata.facts import Facts
from ..state.torch_state import State, StateNodes
from ..symbols.environment import Symbols
from ..symbols.number_nodes import BodyNumbers, NumberNodes, graph_values, numbers_in
from ..symbols.numbers import NUMBERS
from .plain_code import PlainCode
from .targets import Getter, target_of
from .values import Body, ObjectFacts, Step, Value

#: steps that give an external symbolic number to a body: it is an argument there, and no operation of the graph
HANDS_INT, HANDS_FLOAT = target_of(torch.sym_int), target_of(torch.sym_float)


def _forget_source(kind: type[GraphModule]) -> None:
    """FX keeps the Python code of every module for tracebacks, and never lets go of it."""
    key = getattr(getattr(kind.forward, "__code__", None), "co_filename", "")
    if graph_module._loader.eval_cache.pop(key, None) is not None:
        linecache.cache.pop(key, None)


def add_node(
    graph: torch.fx.Graph, name: str, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Node:
    """A new node at the end of a graph, below Graph.create_node, whose checks cost five times the node itself."""
    node = Node(graph, name, op, target, args, kwargs)
    names = graph._graph_namespace
    names._used_names.add(name)
    names._obj_to_name[node] = name
    graph._insert(node)
    graph._find_nodes_lookup_table.insert(node)
    graph._len += 1
    return node


def made_module(root: torch.nn.Module, graph: torch.fx.Graph) -> GraphModule:
    """The module of a finished graph."""
    graph.lint()
    graph.set_codegen(PlainCode())
    # The lazy kind writes its Python code when it is first called; most backends never call it.
    made = (GraphModule if lazy._force_skip_lazy_graph_module_flag else lazy._LazyGraphModule)(root, graph)
    weakref.finalize(made, _forget_source, type(made)).atexit = False  # a module's class is its own
    return made


def build_graph(
    tape: Sequence[Step], outputs: Sequence[Any], base: State, symbols: Symbols | None = None
) -> tuple[GraphModule, list[Any], int]:
    """The graph module, the inputs in placeholder order, and the number of operations.

    Outputs may be symbolic numbers; inputs are values, the names of symbolic ints, and symbolic floats.
    """
    numbers = numbers_in(list(outputs)) if symbols is not None else []
    asked = [value for value in outputs if type(value) is Value]
    if symbols is not None:
        asked += graph_values(symbols, numbers)
    live = list(tape)  # all of them: one whose result nobody needs may still raise on real data
    builder = _Builder(base)
    inputs: list[Any] = []
    if symbols is not None:
        builder.numbers = NumberNodes(symbols, builder)
        numbers += [number for step in live for number in numbers_in([step.args, step.kwargs])]
        inputs += builder.numbers.placeholders(numbers, builder.values(live, asked))
    tensors = builder.placeholders(live, asked)
    for value in tensors:
        if value.step is not None or value.external is None:
            raise Interrupt("body-escape", value.name or "a tensor")
    return builder.finish(live, tuple(outputs)), [*inputs, *tensors], len(live)


def build_body(
    tape: Sequence[Step],
    operands: Sequence[Value],
    outputs: Any,
    values: Sequence[Value],
    base: State,
    symbols: Symbols | None = None,
    input_of: Callable[[torch.Tensor], Value] | None = None,
    example_of: Callable[[Facts], Any] | None = None,
    hand_in: Callable[[str], Value | None] | None = None,
) -> tuple[GraphModule, list[Value]]:
    """The graph of a body (of a higher-order operator), and the values it takes from around it.

    Its placeholders are the operands, used or not, then those values.  `outputs` is what it returns, as `take`
    keeps it, and `values` are the values in that.  Symbolic numbers are read off the sizes of its placeholders;
    `input_of` gives the value of an external tensor, which is taken from around it where a number can be read off
    nothing else; `hand_in` that of a number outside, by its name.  `example_of` makes the example that torch's
    operators look for on the nodes that are returned.
    """
    live = list(tape)
    builder = _Builder(base)
    lifted = builder.placeholders(live, values, operands)
    if symbols is not None:
        numbers = numbers_in([outputs, *([step.args, step.kwargs] for step in live)])
        if numbers:
            builder.numbers = BodyNumbers(symbols, builder, [*operands, *lifted])
            for value in builder.numbers.missing(numbers, input_of, hand_in):
                lifted += builder.placeholders((), (value,))
    body = builder.finish(live, outputs)
    for value in values:
        if example_of is None:
            break
        if value.facts is None:
            continue  # a number
        node = builder.node_of(value)
        if type(node) is Node and "example_value" not in node.meta:
            node.meta["example_value"] = example_of(value.facts)
    return body, lifted


def _is_one_number(step: Step) -> bool:
    """Return whether a step is about one plain tensor of a single element, whatever the data."""
    return len(step.inputs) == 1 and type(step.inputs[0].facts) is Facts and step.inputs[0].facts.size.numel() == 1


class _Builder:
    """Writes nodes; `lint` follows."""

    def __init__(self, base: State) -> None:
        self.graph = torch.fx.Graph()
        self.state = StateNodes(base, self._emit)
        self._nodes: dict[int, Node] = {}  # id(Value) or id(Step) -> node
        self._parts: dict[tuple[int, tuple[int | str, ...]], Node] = {}
        self._counts: dict[str, int] = {}
        self._root = torch.nn.Module()
        self.numbers: NumberNodes | None = None

    def values(self, live: Sequence[Step], outputs: Sequence[Value]) -> list[Value]:
        """The values that no live step makes, in the order they are met."""
        made = {id(step) for step in live}
        found = (
            value for value in (*(v for step in live for v in step.inputs), *outputs) if id(value.step) not in made
        )
        return list(dict.fromkeys(found))

    def placeholders(
        self, live: Sequence[Step], outputs: Sequence[Value], operands: Sequence[Value] = ()
    ) -> list[Value]:
        """One for each operand, then one for each value that no live step makes."""
        for value in operands:
            self._nodes[id(value)] = self.placeholder(value.name or "input")
        inputs = [value for value in self.values(live, outputs) if id(value) not in self._nodes]
        for value in inputs:
            self._nodes[id(value)] = self.placeholder(value.name or "input")
        return inputs

    def placeholder(self, wanted: str) -> Node:
        """A placeholder, called as wanted if that name is free."""
        name = self._unused(wanted)
        return self._add(name, "placeholder", name, (), {})

    def finish(self, live: Sequence[Step], outputs: Any) -> GraphModule:
        """Write the operations and the output."""
        self.state.expect(step.state for step in live)
        for step in live:
            self.operation(step)
        self.state.close()
        if self.numbers is not None:
            self.numbers.assertions({id(step) for step in live})
        self.output(outputs)
        for step in live:
            if step.target.name == "item" and not self._nodes[id(step)].users and _is_one_number(step):
                self.graph.erase_node(self._nodes[id(step)])  # it would wait for the device, and cannot fail
        return made_module(self._root, self.graph)

    def operation(self, step: Step) -> None:
        if step.target is HANDS_INT or step.target is HANDS_FLOAT:
            self._nodes[id(step)] = rebuild(step.args[0], self.node_of)
            return
        self.state.become(step.state)
        target = step.target
        op, fx_target = target.op, target.fx_target
        args = [rebuild(arg, self.node_of) for arg in step.args]
        if target.reflected:
            if type(args[1]) is Node:  # called by name: the operator would take the other tensor's method
                op, fx_target = "call_method", target.reflected
            else:
                args[0], args[1] = args[1], args[0]
        elif type(target) is Getter:
            args.append(target.name)
        kwargs = {name: rebuild(arg, self.node_of) for name, arg in step.kwargs.items()}
        node = self._nodes[id(step)] = self._add(self._unused(target.name), op, fx_target, tuple(args), kwargs)
        if step.places:
            node.meta["stack_trace"] = stack_text(step.places)
        if step.effect or step.effect_level:
            node.meta["effect"] = True
        if step.modules is not None:
            node.meta["nn_module_stack"] = step.modules
        if step.custom:
            # a stand-in belongs to its rehearsal
            node.meta["custom"] = {key: value for key, value in step.custom.items() if not is_a(value, torch.Tensor)}

    def output(self, outputs: Any) -> None:
        self._add(self._unused("output"), "output", "output", (rebuild(outputs, self.node_of),), {})

    def node_of(self, value: Any) -> Any:
        """The node of a value, a body or a symbolic number."""
        if type(value) in NUMBERS:
            if self.numbers is None:
                raise Interrupt("symbolic-number", "the body of a higher-order operator")
            return self.numbers.node(value)
        node = self._nodes.get(id(value))
        if type(value) is Body:
            if node is None:
                name = self._unused(value.name)
                self._root.add_module(name, value.module)
                node = self._nodes[id(value)] = self._add(name, "get_attr", name, (), {})
            return node
        if node is None:
            node = self._nodes[id(value)] = self._part(value.step, value.path)
        if value.facts is not None and not is_a(value.facts, ObjectFacts):  # for the compilers' own copy (backends/)
            node.meta["tensor_facts"] = (value.facts, id(value.storage))
        return node

    def _part(self, step: Any, path: tuple[int | str, ...]) -> Node:
        """The node of one piece of a step's result."""
        if not path:
            return self._nodes[id(step)]
        node = self._parts.get((id(step), path))
        if node is None:
            whole = self._part(step, path[:-1])
            get: Any = getattr if type(path[-1]) is str else operator.getitem
            node = self._add(self._unused(get.__name__), "call_function", get, (whole, path[-1]), {})
            self._parts[id(step), path] = node
        return node

    def _emit(self, target: Any, args: tuple[Any, ...]) -> Node:
        node = self._add(self._unused(target.__name__.strip("_")), "call_function", target, args, {})
        node.meta["effect"] = True
        return node

    def _unused(self, base: str) -> str:
        used = self.graph._graph_namespace._used_names
        count = self._counts.get(base, -1) + 1
        # Names that Python or the generated code already use always get a number.
        name = f"{base}_{count}" if count or base in _RESERVED else base
        while name in used:
            count += 1
            name = f"{base}_{count}"
        self._counts[base] = count
        return name

    def _add(self, name: str, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Node:
        return add_node(self.graph, name, op, target, args, kwargs)


_RESERVED = frozenset((*dir(builtins), *keyword.kwlist, "torch", "device", "inf", "nan", "self", "fx_pytree", "pytree"))
