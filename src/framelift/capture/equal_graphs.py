"""One compile for equal graphs: a capture whose graph equals one that a living entry runs takes over the compiled
function.

So it is where guards hold for one object only (a hook, a closure, another number that the graph does not show) and
each object has a capture of its own.  Parameters are inputs of a graph: they differ, the code is the same.

Only for backends whose result depends on the graph, the metadata of its inputs and torch's state alone
(`reuses_equal_graphs`, see backends/builtin.py), and for graphs of fixed sizes, made of torch's own functions and
plain constants.  A compiled function lives as long as an entry runs it.

A loop with a graph break is captured in parts: its first step from above, the next ones from the break on, with numbers
that turn out to change.  What these record of the same part of the loop is compiled once whatever the backend is
(`compile_per_loop`): the function would be called again in a longer loop, too.  So it is with symbolic sizes, where
nothing is known of the symbols but their ranges, and the backend asked nothing of them.
"""

from __future__ import annotations

import operator
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node

from .. import _core, config
from .._core import is_a
from ..graph.fx.shared_memory import memory_key
from ..torch_ports.autograd import is_grad_enabled
from ..torch_ports.modes import dispatch_keys
from ..torch_ports.operators import OpOverload, OpOverloadPacket
from ..vocabulary.torch_code import TORCH
from .records.captures import Capture, counts
from .sharing import Settings, options_now

#: what a node's meta may hold without a compiler looking at it; the key has what it looks at itself
_META = frozenset({"stack_trace", "tensor_facts", "effect", "tensor_dict"})
#: constants that are equal where type and value are
_PLAIN = (type(None), bool, int, str, bytes, type(...), torch.dtype, torch.device, torch.layout, torch.memory_format)
#: what follows from the rest where names of inputs, modules and operations are the same
_TOLD = _META | {"source_fn_stack", "nn_module_stack", "example_value"}
_compiled: weakref.WeakValueDictionary[Any, Callable[..., Any]] = weakref.WeakValueDictionary()
#: captures of parts of loops; each holds its compiled graph as long as its entry lives
_of_loops: weakref.WeakValueDictionary[Any, Capture] = weakref.WeakValueDictionary()


AS_IS = "as it is"  # what a backend gives that has nothing to compile


class Unequal(Exception):
    """Something in a graph of which equality cannot be decided."""


class _Named:
    """The objects that settings name by address, kept alive with the key, so that no other object has their address."""

    def __init__(self, named: Sequence[Callable[[], Any]]) -> None:
        self.objects = [ref() for ref in named]

    def __hash__(self) -> int:
        return len(self.objects)

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is _Named
            and len(self.objects) == len(other.objects)
            and all(map(operator.is_, self.objects, other.objects))
        )


def compile_once(compile_graph: Callable[..., Any], settings: Settings, info: Capture) -> Callable[..., Any]:
    """A backend that asks `compile_graph` for graphs only that no other capture has."""

    def backend(graph_module: GraphModule, example_inputs: Sequence[Any]) -> Any:
        try:
            key = (
                None
                if config.verify_correctness
                else (settings.key, _Named(settings.named), options_now(), *key_of(graph_module, example_inputs))
            )
        except Unequal:
            key = None
        found = _compiled.get(key) if key is not None else None
        interim = getattr(found, "interim", None)
        if found is not None and (interim is None or not interim.is_over()):
            info.shares_graph, info.interim = True, interim and interim.shared()
            counts.shared_graphs += 1
            return found
        made = compile_graph(graph_module, example_inputs)
        if key is not None and type(made) is types.FunctionType:
            setattr(made, "interim", info.interim)
            _compiled[key] = made
        return made

    return backend


def compile_per_loop(
    compile_graph: Callable[..., Any], stretch: Any, inputs: Sequence[Any], info: Capture, symbols: Any = None
) -> Callable[..., Any]:
    """A backend for the graph of a part of a loop (`stretch`): asked once for what the loop's steps have in common.

    `symbols`: the shape environment of a graph whose inputs have symbolic sizes, or are symbolic integers.
    """

    def key_now(graph_module: GraphModule) -> Any:
        try:
            return (stretch, compile_graph, _described(graph_module, inputs, symbols))
        except Unequal:
            return None

    def backend(graph_module: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Any:
        key = None if config.verify_correctness else key_now(graph_module)
        found = _of_loops.get(key) if key is not None and info.resumed is not None else None
        if found is not None:
            info.shares_graph, info.loop_graph = True, found.loop_graph
            counts.shared_graphs += 1
            return graph_module.forward if found.loop_graph is AS_IS else found.loop_graph
        made = compile_graph(graph_module, example_inputs, **options)
        as_is = made is graph_module or made == graph_module.forward
        # else it changed the graph, or took symbols for something
        if key is not None and (not as_is and symbols is None or key_now(graph_module) == key):
            info.loop_graph = AS_IS if as_is else made
            _of_loops[key] = info
        return made

    return backend


def _described(graph_module: GraphModule, inputs: Sequence[Any], symbols: Any) -> tuple[Any, ...]:
    """The same for backends that may read all that a graph says of itself: names of inputs, and modules."""
    nodes = graph_module.graph.nodes
    given = [node for node in nodes if node.op == "placeholder"]
    if len(given) != len(inputs):
        raise Unequal
    names = tuple([node.name for node, one in zip(given, inputs) if is_a(one, torch.Tensor)])
    modules = tuple([tuple(node.meta.get("nn_module_stack", {}).items()) for node in nodes])
    if symbols is None:
        return (names, modules, options_now(), *key_of(graph_module, inputs, _TOLD))
    described = _Symbolic(symbols)
    facts = tuple([described.input(one, node.meta["example_value"]) for node, one in zip(given, inputs)])
    tensors = [one for one in inputs if is_a(one, torch.Tensor)]
    return (names, modules, options_now(), facts, *key_of(graph_module, tensors, _TOLD, False))


class _Symbolic:
    """Facts of inputs with symbols, which are numbered as they come: equal for other symbols of the same ranges."""

    def __init__(self, env: Any) -> None:
        self.env, self.numbers = env, dict[Any, int]()
        self.asked = set[Any]().union(*[guard.expr.free_symbols for guard in env.guards], env.replacements)

    def input(self, given: Any, fake: Any) -> tuple[Any, ...]:
        if not is_a(given, torch.Tensor):
            return (self._size(fake),)
        return (tuple(map(self._size, fake.size())), tuple(map(self._size, fake.stride())))

    def _size(self, size: Any) -> Any:
        if type(size) is int:
            return size
        if type(size) is not torch.SymInt:
            raise Unequal
        expression = size.node.expr
        if expression.is_Symbol and expression not in self.numbers:
            if expression in self.asked:  # what is compiled relies on something more
                raise Unequal
            self.numbers[expression] = len(self.numbers)
        if not self.numbers.keys() >= expression.free_symbols:
            raise Unequal
        ranges = [(self.numbers[one], str(self.env.var_to_range.get(one))) for one in expression.free_symbols]
        numbered = expression.xreplace({one: sympy.Symbol(f"n{number}") for one, number in self.numbers.items()})
        return str(numbered), tuple(sorted(ranges))


def key_of(
    graph_module: GraphModule, example_inputs: Sequence[Any], known: frozenset[str] = _META, sizes: bool = True
) -> tuple[Any, ...]:
    """Return what decides about the compiled code; raises `Unequal`. `known`: what nodes may say beside it."""
    return (
        _graph(graph_module, known),
        tuple([_input(one, sizes) for one in example_inputs]),
        memory_key(graph_module, example_inputs),
        str(_core.torch_state()),
        is_grad_enabled(),
        torch.is_inference_mode_enabled(),
    )


def _graph(module: GraphModule, known: frozenset[str]) -> tuple[Any, ...]:
    numbers = {node: number for number, node in enumerate(module.graph.nodes)}
    return tuple(
        [
            (
                node.op,
                _target(module, node, known),
                _constant(node.args, numbers),
                _constant(node.kwargs, numbers),
                *_meta(node, known),
            )
            for node in module.graph.nodes
        ]
    )


def _meta(node: Node, known: frozenset[str]) -> tuple[Any, ...]:
    if not known.issuperset(node.meta):
        raise Unequal
    return tuple(sorted(node.meta.get("tensor_dict", {}).items()))


def _target(module: GraphModule, node: Node, known: frozenset[str]) -> Any:
    if node.op == "call_method":
        return node.target
    if node.op == "get_attr":
        part = (
            module.get_submodule(str(node.target))
            if hasattr(module, str(node.target)) and is_a(getattr(module, str(node.target)), GraphModule)
            else None
        )
        if part is None:
            raise Unequal  # a tensor, a generator
        return _graph(part, known)
    if node.op != "call_function":
        return None  # names of inputs
    target = node.target
    is_torchs = type(target) in (types.BuiltinFunctionType, types.MethodDescriptorType, OpOverload, OpOverloadPacket)
    if not is_torchs and not (
        type(target) is types.FunctionType
        and target.__closure__ is None
        and target.__code__.co_filename.startswith(TORCH)
    ):
        raise Unequal  # a function of the program may hold anything
    return target


def _constant(value: Any, numbers: dict[Node, int]) -> Any:
    kind = type(value)
    if kind is Node:
        return Node, numbers[value]
    if kind in _PLAIN:
        return kind, value
    if kind in (float, complex):
        return kind, repr(value)  # -0.0 is another number
    if kind is slice:
        return kind, *[_constant(part, numbers) for part in (value.start, value.stop, value.step)]
    if is_a(value, (tuple, list)):  # FX's own classes among them
        return kind, tuple([_constant(item, numbers) for item in value])
    if is_a(value, dict):
        return kind, tuple([(key, _constant(item, numbers)) for key, item in value.items()])
    raise Unequal


_read = _core.of_tensor


def _input(tensor: Any, sizes: bool = True) -> tuple[Any, ...]:
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or _read(tensor, "layout") is not torch.strided:
        raise Unequal
    return (
        type(tensor),
        *[_read(tensor, name) for name in ("dtype", "device", "requires_grad", "is_leaf")],
        *[tuple(_read(tensor, name)) for name in ("size", "stride") if sizes],
        dispatch_keys(tensor).raw_repr(),
    )


def forget() -> None:
    """As in a new process."""
    _compiled.clear()
    _of_loops.clear()
