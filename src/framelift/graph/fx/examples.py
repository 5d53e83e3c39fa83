"""Arguments of a backend beside a graph with symbolic numbers: example inputs, and fakes of them in one fake mode.

Compilers make fakes of the examples in the mode of the tracing context; that mode knows these already, so that the
compiler sees the symbols of the capture.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx.graph_module import GraphModule
from torch.fx.node import Node

from ... import _core
from ..._core import is_a
from ...torch_ports.fakes import FakeTensor, FakeTensorMode
from ...torch_ports.modes import DisableTorchFunction
from ...vocabulary.plain_types import GIVEN
from ..metadata.device_guard import keep_device_guard
from ..metadata.facts import SymbolicFacts, is_overriding
from ..metadata.fakes import with_history
from ..metadata.wrappers import WrapperFacts, assembled_like
from ..symbols.environment import Symbols
from ..symbols.meanings import Calculation
from ..symbols.numbers import Float


def examples_for(
    symbols: Symbols, graph_module: GraphModule, arguments: list[Any], facts: dict[int, Any]
) -> tuple[list[Any], FakeTensorMode]:
    """The example inputs of a graph, and the mode that knows their fakes.  `facts` are those of the tensors, by id."""
    symbols.note_line()
    symbols.compiling = True
    _forget_calculated(symbols)
    mode = FakeTensorMode(shape_env=symbols.env)
    keep_device_guard(mode)
    nodes = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    examples: list[Any] = []
    for node, argument in zip(nodes, arguments):
        if is_a(argument, torch.Tensor):
            example: Any = argument
            fake: Any = _fake(mode, argument, facts[id(argument)])
        elif is_a(argument, GIVEN):  # compilers make fakes of their own
            example = fake = argument
        else:
            example, fake = number_example(symbols, mode, argument)
        node.meta["example_value"] = fake
        examples.append(example)
    return examples, mode


def fake_of(mode: FakeTensorMode, tensor: torch.Tensor, bare: bool = False) -> torch.Tensor:
    """The fake of a tensor in a mode, of constant sizes, and from now on the one that the mode knows.

    Torch makes it from the tensor's base and gives it a gradient.  Where these do not fit (the memory of one of them
    was exchanged, or the base has another dtype), and where `bare` says so, it is made without them.
    """
    if not bare and _fits(tensor):
        return mode.from_tensor(tensor, static_shapes=True)
    read = _core.of_tensor
    alone = with_history(
        lambda: read(read(tensor, "detach"), "as_subclass", torch.Tensor),
        read(tensor, "requires_grad"),
        read(tensor, "is_leaf"),
    )
    made = mode.from_tensor(alone, static_shapes=True)
    mode.fake_tensor_converter.set_tensor_memo(tensor, made)
    return made


def _fits(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a view of its base as it is now, and its gradient is like it."""
    read = _core.of_tensor
    base = read(tensor, "_base")
    grad = read(tensor, "grad") if read(tensor, "is_leaf") or read(tensor, "retains_grad") else None
    if base is not None and not (
        read(base, "dtype") == read(tensor, "dtype")
        and read(base, "untyped_storage")._cdata == read(tensor, "untyped_storage")._cdata
        and _fits(base)
    ):
        return False
    alike = ("shape", "dtype", "device", "layout")
    return grad is None or all(read(grad, name) == read(tensor, name) for name in alike) and _fits(grad)


def forget_tensors(mode: FakeTensorMode | None) -> None:
    """Let a mode forget which tensors its fakes are of: it keeps weak references to them, and
    `torch.utils.swap_tensors` refuses tensors that have one.
    """
    converter = getattr(getattr(mode, "fake_tensor_converter", None), "meta_converter", None)
    describer = getattr(converter, "describer", None)
    if describer is not None:
        describer.lookup_tensor.clear()


def without_alpha(graph_module: GraphModule) -> None:
    """`add(x, float, alpha=n)` as `add(x, float * n)`: AOTAutograd would forget the alpha of a float."""
    graph, numbers, floats = graph_module.graph, set(), set()
    for node in graph.nodes:
        if node.op == "placeholder" and not is_a(node.meta["example_value"], torch.Tensor):
            numbers.add(node)
        elif (
            node.target == "item"
            or getattr(node.target, "__module__", "") in ("_operator", "math")
            and numbers.issuperset(node.all_input_nodes)
        ):
            numbers.add(node)
            floats.add(node)
        elif "alpha" in node.kwargs and str(getattr(node.target, "__name__", node.target)).rstrip("_") in (
            "add",
            "sub",
            "subtract",
        ):
            other = node.args[1] if len(node.args) > 1 else node.kwargs.get("other")
            if not is_a(other, Node) or other not in floats:
                continue
            with graph.inserting_before(node):
                product = graph.call_function(operator.mul, (other, node.kwargs["alpha"]))
            node.args = (*node.args[:1], product) if node.args else ()
            node.kwargs = {name: value for name, value in node.kwargs.items() if name not in ("alpha", "other")} | (
                {} if node.args else {"other": product}
            )
            graph_module.recompile()


def number_example(symbols: Symbols, mode: FakeTensorMode, argument: Any) -> tuple[Any, Any]:
    """The example of a number among a graph's inputs (a Float, or an int's name), and its stand-in in the mode."""
    if type(argument) is Float:
        example = torch.tensor(argument.hint, dtype=torch.float64)
        fake: Any = mode.from_tensor(example, static_shapes=True)
        fake.item_memo = symbols.raw(argument)
        return example, fake
    symbol = next(symbol for symbol in symbols.env.var_to_range if str(symbol) == argument)
    number = symbols.env.create_symintnode(symbol, hint=_hint(symbols, symbol))
    return number, number


def _forget_calculated(symbols: Symbols) -> None:
    """Symbols of calculated floats: the compiler follows the calculation, and must not take them for inputs."""
    relied_on = {symbol for guard in symbols.env.guards for symbol in guard.expr.free_symbols}
    table = _values(symbols)
    for symbol in [symbol for symbol in table if symbol not in relied_on]:
        meaning = symbols.meanings.get(str(symbol))
        if type(meaning) is Calculation and meaning.is_alias and meaning.args[0].func is not None:
            del table[symbol]


def _values(symbols: Symbols) -> Any:
    """The shape environment's table of symbols and their values in this call."""
    table = getattr(symbols.env, "backed_var_to_val", None)
    return table if table is not None else symbols.env.var_to_val


def _hint(symbols: Symbols, symbol: Any) -> Any:
    found = _values(symbols).get(symbol)
    return None if found is None else int(found)


def _wrapper(mode: FakeTensorMode, tensor: torch.Tensor, facts: WrapperFacts) -> torch.Tensor:
    """A fake of a wrapper subclass, made of fakes of its inner tensors."""
    parts = {name: _fake(mode, value.external, value.facts) for name, value in facts.parts.items()}
    with DisableTorchFunction():
        made = assembled_like(tensor, parts, list(parts), facts.context)
        if made.requires_grad != facts.requires_grad and made.is_leaf:
            made.requires_grad_(facts.requires_grad)
    mode.fake_tensor_converter.set_tensor_memo(tensor, made)
    return made


def _fake(mode: FakeTensorMode, tensor: torch.Tensor, facts: Any) -> torch.Tensor:
    known = mode.fake_tensor_converter._get_memo(tensor)
    if known is not None:
        return known
    if type(facts) is WrapperFacts:
        return _wrapper(mode, tensor, facts)
    if type(facts) is not SymbolicFacts:
        return fake_of(mode, tensor, bare=is_overriding(type(tensor)))
    with torch.no_grad():
        made: torch.Tensor = FakeTensor(
            mode, torch.empty_strided(facts.size, facts.stride, dtype=facts.dtype, device="meta"), facts.device
        )
    if type(tensor) is torch.nn.Parameter:
        made = torch.nn.Parameter(made, requires_grad=facts.requires_grad)
    elif facts.requires_grad:
        made.requires_grad_()
    mode.fake_tensor_converter.set_tensor_memo(tensor, made)
    return made
