"""Equal layers of a graph as one subgraph that is called several times: Inductor then compiles the layer once.

A model's layers leave equal runs of nodes behind each other in its graph.  Such a run becomes a graph of its own,
and each of its occurrences a call of torch's operator `invoke_subgraph`, which PyTorch's partitioner and Inductor
know.  Two runs are equal if their nodes have equal targets, equal constants, results of equal metadata and equal
ways from node to node; only the values that come from outside of them may be others, and these must have equal
metadata too.

A run is left as it is where a node writes to memory, draws random numbers or changes torch's state, and where a
result shares its memory with another one or with what the run is given: the operator does not allow it, or not
everywhere.
"""

from __future__ import annotations

import collections
import contextlib
import operator
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx.graph import Graph
from torch.fx.graph_module import GraphModule
from torch.fx.node import Node, map_arg

from ...graph.metadata.facts import Facts, SymbolicFacts

NAME = "repeated_layer_"
_WARNING = "warn_and_trace_duplicate_backward"
FEWEST_NODES = 8  # of a layer: a smaller one is compiled in no time
MOST_STACKS = 8  # of layers in one graph: stages of a network, encoder and decoder
MOST_PERIODS = 6  # lengths of a layer that are tried
MOST_STARTS = 24  # nodes that are tried as the first one of a layer


@dataclass(frozen=True)
class Stack:
    """Equal layers of `length` nodes in a row, from the node `start` up to `end`, where a part of one may follow."""

    start: int
    length: int
    end: int

    @property
    def count(self) -> int:
        return (self.end - self.start) // self.length


@dataclass(frozen=True)
class Layer:
    """One occurrence: what it is given, in the order its nodes ask for it, and which nodes are used after it."""

    nodes: list[Node]
    inputs: list[Node]
    shape: tuple[Any, ...]  # how each node's arguments come about: places in the layer, or among its inputs
    outputs: frozenset[int]


def fold_repeated_layers(
    graph_module: GraphModule, fewest: int, for_memory: bool = False, smallest: int = FEWEST_NODES
) -> int:
    """Fold the layers that occur at least `fewest` times in a row.  Changes the graph; returns how many layers were
    folded away.  `for_memory`: least is to be handed from layer to layer.  A layer has `smallest` nodes at least.
    """
    nodes = _draws_in_front(graph_module.graph)
    words = _words(nodes)
    folded = 0
    for number in range(MOST_STACKS):
        found = next(
            (
                (stack, layers)
                for stack in _stacks(words, fewest, smallest)
                if (layers := _equal_layers(nodes, stack, fewest, for_memory))
            ),
            None,
        )
        if found is None:
            break
        stack, layers = found
        _fold(graph_module, layers, f"{NAME}{number}")
        folded += len(layers) - 1
        for place in range(stack.start, stack.end):
            words[place] = -1 - place  # like no other
    if folded:
        graph_module.graph.lint()
        graph_module.recompile()
    return folded


@contextlib.contextmanager
def one_schema_per_layer() -> Iterator[None]:
    """While a compiler works: torch asks once per layer and kind of tensors, instead of at each call of it, whether it
    writes to its inputs.

    It asks by tracing the layer.  None of the layers here writes.  And it does not warn of a layer that needs two
    backwards, since the program did not ask for layers to be folded.
    """
    operator_, known = torch.ops.higher_order.invoke_subgraph, {}
    ask = operator_.gen_schema
    module = sys.modules[type(operator_).__module__]
    warn = getattr(module, _WARNING, None)  # not in all versions of torch

    def gen_schema(subgraph: Any, identifier: Any, *operands: Any) -> Any:
        if not isinstance(identifier, str) or NAME not in identifier:
            return ask(subgraph, identifier, *operands)
        key = identifier, tuple(map(type, operands))
        if key not in known:
            known[key] = ask(subgraph, identifier, *operands)
        return known[key]

    def warn_of_others(identifier: Any, *others: Any) -> None:
        if warn is not None and NAME not in str(identifier):
            warn(identifier, *others)

    operator_.gen_schema = gen_schema
    if warn is not None:
        setattr(module, _WARNING, warn_of_others)
    try:
        yield
    finally:
        del operator_.gen_schema
        if warn is not None:
            setattr(module, _WARNING, warn)


# ---- finding runs ----------------------------------------------------------------------------------------------------


#: what makes tensors of random numbers out of constants
_DRAWS = frozenset({torch.rand, torch.randn, torch.randint})


def _draws_in_front(graph: Graph) -> list[Node]:
    """Move single random numbers that are drawn between layers in front of them, in their order; returns the nodes.

    One that depends on a node, and what changes memory or torch's state, stays where it is, and all draws after it.
    """
    nodes = list(graph.nodes)
    front = next((one for one in nodes if one.op.startswith("call_") and not _draws_a_number(one)), nodes[-1])
    for node in nodes:
        if _draws_a_number(node):
            front.prepend(node)
        elif node.meta.get("effect") and not _is_attention_without_dropout(node):
            break
        elif node.op.startswith("call_") and not node.all_input_nodes and facts_of(node) is None:
            break  # it may change torch's state
    return list(graph.nodes)


def _draws_a_number(node: Node) -> bool:
    facts = facts_of(node)
    return node.target in _DRAWS and not node.all_input_nodes and type(facts) is Facts and facts.size in ((), (1,))


def _words(nodes: Sequence[Node]) -> list[int]:
    """A number for each node; nodes that may take each other's place have the same one."""
    numbers: dict[Any, int] = {}
    words = []
    for place, node in enumerate(nodes):
        if (
            node.op not in ("call_function", "call_method")
            or node.meta.get("effect")
            and not _is_attention_without_dropout(node)
        ):
            words.append(-1 - place)
        else:
            words.append(
                numbers.setdefault(
                    (node.op, node.target, _text((node.args, node.kwargs)), facts_of(node)), len(numbers)
                )
            )
    return words


def _is_attention_without_dropout(node: Node) -> bool:
    """Return whether a node draws random numbers by its tags alone: kernels of attention on CUDA do."""
    return (
        node.target is torch.nn.functional.scaled_dot_product_attention
        and node.kwargs.get("dropout_p", (*node.args, *[0.0] * 5)[4]) == 0
    )


def _text(argument: Any) -> Any:
    """An argument, without saying which nodes are in it."""
    if isinstance(argument, Node):
        return Node
    if isinstance(argument, (tuple, list)):
        return (type(argument), *map(_text, argument))
    if isinstance(argument, dict):
        return (dict, *((name, _text(value)) for name, value in argument.items()))
    if isinstance(argument, slice):
        return (slice, _text(argument.start), _text(argument.stop), _text(argument.step))
    if isinstance(
        argument,
        (str, int, float, complex, bool, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format),
    ):
        return (type(argument), repr(argument))
    return (type(argument), id(argument))


def facts_of(node: Node) -> Any:
    """The metadata of a node's tensor: one object for all tensors of equal metadata."""
    tensor = node.meta.get("tensor_facts")
    return tensor[0] if tensor is not None else None


def _stacks(words: Sequence[int], fewest: int, smallest: int) -> Iterator[Stack]:
    """Runs that occur several times in a row, those that cover most nodes first."""
    places = collections.defaultdict(list)
    for place, word in enumerate(words):
        if word >= 0:
            places[word].append(place)
    distances: collections.Counter[int] = collections.Counter()
    for found in places.values():
        if len(found) >= fewest:
            distances.update(later - earlier for earlier, later in zip(found, found[1:]))
    lengths = [length for length, _ in distances.most_common(4 * MOST_PERIODS) if length >= smallest][:MOST_PERIODS]
    stacks = []
    for length in lengths:
        start = 0
        while start + length < len(words):
            end = start
            while end + length < len(words) and words[end] == words[end + length]:
                end += 1
            if end > start and (one := Stack(start, length, end + length)).count >= fewest:
                stacks.append(one)
            start = end + 1
    return iter(sorted(stacks, key=lambda stack: (-stack.length * stack.count, stack.length)))


def _equal_layers(nodes: Sequence[Node], stack: Stack, fewest: int, for_memory: bool) -> list[Layer]:
    """The layers of a stack, begun at the node that makes most of them and splits least; none where they are not equal.

    Inductor fuses nothing across the border of two layers.  Where gradients are needed, what is handed from one to the
    next is kept for the backward: there least should be.
    """
    place_of = {node: place for place, node in enumerate(nodes)}
    depths = _depths(nodes)

    def cost(start: int) -> tuple[int, ...]:
        handed, split = 0, 0
        for place in range(start, start + stack.length):
            behind = [user for user in nodes[place].users if place_of.get(user, len(nodes)) >= start + stack.length]
            handed += bool(behind)
            split += not _is_called(nodes[place]) and any(_is_fused(nodes[place], user, depths) for user in behind)
        return (
            (-layers_from(start), handed, split, start) if for_memory else (-layers_from(start), split, handed, start)
        )

    def layers_from(start: int) -> int:
        return (stack.end - start) // stack.length

    starts = sorted(range(stack.start, stack.start + stack.length), key=cost)
    best: list[Layer] = []
    for start in starts[:MOST_STARTS]:
        if layers_from(start) <= len(best):
            continue
        ends = range(start + stack.length, stack.end + 1, stack.length)
        equal = _longest_equal([_layer(list(nodes[end - stack.length : end])) for end in ends])
        if len(equal) > len(best):
            best = equal
    return best if len(best) >= fewest else []


#: what Inductor calls as it is, so that nothing is fused across it
_CALLED: frozenset[Any] = frozenset(
    {
        *(torch.matmul, torch.mm, torch.bmm, torch.addmm, torch.baddbmm, torch.einsum, operator.matmul),
        *(torch.conv1d, torch.conv2d, torch.conv3d, torch.nn.functional.linear),
        torch.nn.functional.scaled_dot_product_attention,
        *("matmul", "mm", "bmm", "addmm", "baddbmm", "__matmul__"),
    }
)


def _is_called(node: Node) -> bool:
    return node.target in _CALLED


def _is_fused(node: Node, user: Node, depths: dict[Node, int]) -> bool:
    """Return whether one kernel computes both, or the node and what reads it through views."""
    if _is_called(user) or depths.get(user) != depths[node]:
        return False
    ours, theirs = node.meta.get("tensor_facts"), user.meta.get("tensor_facts")
    if ours is not None and theirs is not None and ours[1] == theirs[1]:
        return any(_is_fused(user, reader, depths) for reader in user.users)
    return user.op != "output"


def _depths(nodes: Sequence[Node]) -> dict[Node, int]:
    """How many of these calls are on the way to a node, at most."""
    depths: dict[Node, int] = {}
    for node in nodes:
        depths[node] = max((depths.get(one, 0) + _is_called(one) for one in node.all_input_nodes), default=0)
    return depths


def _layer(nodes: list[Node]) -> Layer:
    inside = {node: place for place, node in enumerate(nodes)}
    inputs: dict[Node, int] = {}

    def place(node: Node) -> Any:
        return inside[node] if node in inside else ("input", inputs.setdefault(node, len(inputs)))

    shape = tuple(tuple(place(argument) for argument in _nodes_in((node.args, node.kwargs))) for node in nodes)
    outputs = frozenset(inside[node] for node in nodes if any(user not in inside for user in node.users))
    return Layer(nodes, list(inputs), shape, outputs)


def _nodes_in(argument: Any) -> list[Node]:
    found: list[Node] = []

    def note(node: Node) -> Node:
        found.append(node)
        return node

    map_arg(argument, note)
    return found


def _longest_equal(layers: list[Layer]) -> list[Layer]:
    """The longest row of layers that can be one subgraph."""
    best: list[Layer] = []
    row: list[Layer] = []
    for layer in layers:
        row = [*row, layer] if row and _can_be_one(row[0], layer) else [layer]
        if len(row) > len(best):
            best = row
    outputs = frozenset().union(*(layer.outputs for layer in best))
    if any(not _may_leave(layer, outputs) for layer in best):
        return []
    return best


def _can_be_one(first: Layer, other: Layer) -> bool:
    if first.shape != other.shape or len(first.inputs) != len(other.inputs):
        return False
    return all(a is b or are_alike(facts_of(a), facts_of(b)) for a, b in zip(first.inputs, other.inputs))


def are_alike(facts: Any, other: Any) -> bool:
    """Return whether both are of plain tensors with equal metadata; a number that only the graph knows has none."""
    return type(facts) in (Facts, SymbolicFacts) and type(other) is type(facts) and facts.agrees(other)


def _may_leave(layer: Layer, outputs: frozenset[int]) -> bool:
    """Return whether all outputs are tensors with memory of their own."""
    taken = {node.meta["tensor_facts"][1] for node in layer.inputs if node.meta.get("tensor_facts") is not None}
    for place in outputs:
        tensor = layer.nodes[place].meta.get("tensor_facts")
        if tensor is None or tensor[1] in taken:
            return False
        taken.add(tensor[1])
    return bool(outputs)


# ---- folding ---------------------------------------------------------------------------------------------------------


def _fold(graph_module: GraphModule, layers: list[Layer], name: str) -> None:
    outputs = sorted(frozenset().union(*(layer.outputs for layer in layers)))
    graph_module.add_module(name, _subgraph(layers[0], outputs))
    graph = graph_module.graph
    now: dict[Node, Node] = {}  # nodes of the layers before that were replaced
    for layer in layers:
        with graph.inserting_before(layer.nodes[0]):
            given = [now.get(node, node) for node in layer.inputs]
            call = graph.call_function(torch.ops.higher_order.invoke_subgraph, (graph.get_attr(name), name, *given))
            parts = [graph.call_function(operator.getitem, (call, place)) for place in range(len(outputs))]
        for part, place in zip(parts, outputs):
            node = layer.nodes[place]
            part.meta.update(node.meta)
            node.replace_all_uses_with(part)
            now[node] = part
        for node in reversed(layer.nodes):
            graph.erase_node(node)


def _subgraph(layer: Layer, outputs: Sequence[int]) -> GraphModule:
    graph = Graph()
    copies: dict[Node, Node] = {}
    for place, node in enumerate(layer.inputs):
        copies[node] = graph.placeholder(f"given_{place}")
        copies[node].meta.update({key: node.meta[key] for key in ("tensor_facts", "example_value") if key in node.meta})
    for node in layer.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[layer.nodes[place]] for place in outputs))
    return GraphModule(torch.nn.Module(), graph)
