"""Symbolic numbers in a graph: placeholders for those that are external, nodes for what is calculated from them.

The torch API's own convention: a symbolic int is an input of its own, a float is a 0-d tensor of float64 whose `item()`
is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import sympy
import torch
from torch.fx import Proxy
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.node import Node
from torch.fx.proxy import GraphAppendingTracer

from ...torch_ports.modes import EnableTorchFunction
from ...torch_ports.operators import assert_scalar
from ...torch_ports.symbols import PythonReferenceAnalysis, sympy_interp
from ...vocabulary.reasons import Interrupt
from ..fx.values import Value
from ..metadata.facts import SymbolicFacts
from ..metadata.wrappers import with_parts
from .environment import IN_GRAPHS, Symbols
from .meanings import Calculation, Drawn, FromGraph, FromNumber, FromSize, Outside
from .numbers import NUMBERS, Float


def numbers_in(kept: Any) -> list[Any]:
    """The symbolic numbers among arguments as `take` keeps them."""
    kind = type(kept)
    if kind in NUMBERS:
        return [kept]
    if kind in (list, tuple):
        return [number for item in kept for number in numbers_in(item)]
    if kind is dict:
        return numbers_in(list(kept.values()))
    return numbers_in([kept.start, kept.stop, kept.step]) if kind is slice else []


def _symbols_of(number: Any) -> set[str]:
    return {number.name} if type(number) is Float else {str(symbol) for symbol in number.node.expr.free_symbols}


def _closed(symbols: Symbols, names: Iterable[str]) -> list[str]:
    """The names and all that they are calculated from."""
    waiting, found = list(names), set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            meaning = symbols.meanings[name]
            if type(meaning) is Calculation:
                for arg in meaning.args:
                    if type(arg) in NUMBERS:
                        waiting += _symbols_of(arg)
    return [name for name in symbols.meanings if name in found]


def graph_values(symbols: Symbols, numbers: Iterable[Any]) -> list[Value]:
    """The results of earlier operations that these numbers are read from."""
    names = _closed(symbols, {name for number in numbers for name in _symbols_of(number)})
    return [meaning.value for name in names if type(meaning := symbols.meanings[name]) is FromGraph]


class _Analysis(PythonReferenceAnalysis):
    """How a calculation is written into the graph; torch 2.11 does not say it of choices."""

    @staticmethod
    def expr_cond_pair(value: Any, condition: Any) -> tuple[Any, Any]:
        return value, condition

    @staticmethod
    def piecewise(*choices: tuple[Any, Any]) -> Any:
        chosen = choices[-1][0]
        for value, condition in choices[-2::-1]:
            chosen = torch.sym_ite(condition, value, chosen)
        return chosen


def _made_int(func: Any) -> Any:
    """A float of the graph made an int, as one node: torch's own analysis would ask the proxy itself."""

    def call(value: Any, *_rest: Any) -> Any:
        return Proxy(value.node.graph.call_function(func, (value.node,)), value.tracer)

    return staticmethod(call)


for _name, _func in (("ceil_to_int", math.ceil), ("floor_to_int", math.floor), ("trunc_to_int", math.trunc)):
    setattr(_Analysis, _name, _made_int(_func))


class NumberNodes:
    """Writes the nodes of symbolic numbers.  `builder` is the one of tape.py."""

    def __init__(self, symbols: Symbols, builder: Any) -> None:
        self.symbols = symbols
        self.builder = builder
        self.tracer = GraphAppendingTracer(builder.graph)
        self._nodes: dict[Any, Any] = {}  # by name or expression

    def placeholders(self, numbers: Iterable[Any], inputs: Iterable[Value]) -> list[Any]:
        """Add placeholders for numbers and for sizes of inputs; what stands for each: a name or a Float."""
        names = {name for number in numbers for name in _symbols_of(number)}
        for value in with_parts(inputs):
            if type(value.facts) is SymbolicFacts:
                for entry in (*value.facts.size, *value.facts.stride):
                    if type(entry) is torch.SymInt:
                        names |= {str(symbol) for symbol in entry.node.expr.free_symbols}
        given: list[Any] = []
        for name in _closed(self.symbols, names):
            meaning = self.symbols.meanings[name]
            if type(meaning) in (FromSize, FromNumber, Outside, Drawn):
                node = self.builder.placeholder(name)
                if name in self.symbols.floats:
                    number = self.symbols.floats[name]
                    given.append(number)
                    self._nodes[name] = (node,)  # its item() is taken at the first use
                else:
                    given.append(name)
                    self._nodes[name] = node
        return given

    def node(self, number: Any) -> Any:
        """The node of a number, or the plain number that it has become."""
        if type(number) is Float:
            return number.raw if type(number.raw) is float else self._name(number.name)
        return self._expression(number.node.expr)

    def _expression(self, expression: Any) -> Any:
        if expression.is_Symbol:
            return self._name(str(expression))
        if expression.is_number:
            return int(expression)
        if expression in (sympy.true, sympy.false):
            return bool(expression)
        found = self._nodes.get(expression)
        if found is None:
            leaves = {symbol: self._proxy(self._name(str(symbol))) for symbol in expression.free_symbols}
            try:
                with EnableTorchFunction():  # by which torch.sym_max and similar functions know a proxy
                    found = self._nodes[expression] = sympy_interp(_Analysis, leaves, expression).node
            except Exception as error:
                raise Interrupt("symbolic-number", f"the calculation {expression}") from error
        return found

    def assertions(self, live: set[int]) -> None:
        """Check in the graph what was relied on of its own numbers.  `live`: ids of the steps that are in it."""
        for asserts in list(self.symbols.env.deferred_runtime_asserts.values()):
            for one in asserts:
                relied_on = self._in_names_of_inputs(one.expr)
                names = {str(symbol) for symbol in relied_on.free_symbols}
                if not names <= self.symbols.meanings.keys():
                    continue
                values = [
                    m.value for n in _closed(self.symbols, names) if type(m := self.symbols.meanings[n]) is FromGraph
                ]
                if values and all(id(value.step) in live for value in values):
                    condition = self._expression(relied_on)
                    self.builder.graph.call_function(
                        assert_scalar.default, (condition, f"the program relies on {one.expr}")
                    )

    def _in_names_of_inputs(self, expression: Any) -> Any:
        """An expression in the names that sizes of inputs have by now.

        Numbers of the graph keep theirs: what torch has put in place of one may follow from this very expression.
        """
        known = {}
        for symbol in expression.free_symbols:
            now = self.symbols.env.replace(symbol)
            if type(self.symbols.meanings.get(str(symbol))) is not FromGraph and not free_unbacked_symbols(now):
                known[symbol] = now
        return expression.xreplace(known)

    def _proxy(self, node: Any) -> Any:
        return Proxy(node, self.tracer) if type(node) is Node else node

    def _name(self, name: str) -> Any:
        found = self._nodes.get(name)
        if type(found) is tuple:
            found = self._nodes[name] = self.builder.graph.call_method("item", found)
            found.meta["example_value"] = self.symbols.raw(self.symbols.floats[name])
        elif found is None:
            found = self._nodes[name] = self._calculated(self.symbols.meanings[name])
        return found

    def _calculated(self, meaning: Any) -> Any:
        if type(meaning) is FromGraph:
            node = self.builder.node_of(meaning.value)
            return node if meaning.dim is None else self.builder.graph.call_method("size", (node, meaning.dim))
        if type(meaning) in (FromSize, FromNumber, Drawn):
            raise Interrupt("symbolic-number", "a size that is no input of the graph")
        args = tuple(self.node(arg) if type(arg) in NUMBERS else arg for arg in meaning.args)
        if meaning.is_alias:
            return args[0]
        return self.builder.graph.call_function(IN_GRAPHS.get(meaning.func, meaning.func), args)


class BodyNumbers(NumberNodes):
    """Numbers in the graph of a body: sizes of the tensors it is given, and external numbers that it is given."""

    def __init__(self, symbols: Symbols, builder: Any, given: Iterable[Value]) -> None:
        super().__init__(symbols, builder)
        self._sizes: dict[str, tuple[Value, int]] = {}
        self._given: dict[str, Value] = {}
        for value in given:
            self._read(value)

    def _read(self, value: Value) -> None:
        name = self.symbols.handed.get(value)
        if name is not None:
            self._given[name] = value
        elif type(value.facts) is SymbolicFacts:
            for dim, entry in enumerate(value.facts.size):
                if type(entry) is torch.SymInt and entry.node.expr.is_Symbol:
                    self._sizes.setdefault(str(entry.node.expr), (value, dim))

    def missing(self, numbers: Iterable[Any], input_of: Any, hand_in: Any) -> list[Value]:
        """Return the further operands of the body: tensors that these numbers can be read off, and external numbers, of
        which `hand_in` returns the value, or None where the body takes no such number.
        """
        found: list[Value] = []
        for name in _closed(self.symbols, {name for number in numbers for name in _symbols_of(number)}):
            meaning = self.symbols.meanings[name]
            if name in self._sizes or name in self._given or type(meaning) in (Calculation, FromGraph):
                continue
            handed = hand_in(name) if type(meaning) in (FromNumber, Outside) and hand_in is not None else None
            if handed is not None:
                found.append(handed)
                self._read(handed)
                continue
            if type(meaning) is not FromSize or meaning.what != "size" or input_of is None:
                raise Interrupt("symbolic-number", "the body of a higher-order operator")
            found.append(input_of(meaning.tensor))
            self._read(found[-1])
        return found

    def assertions(self, live: set[int]) -> None:
        """Those are the whole graph's."""

    def _name(self, name: str) -> Any:
        if name not in self._nodes and name in self._sizes:
            value, dim = self._sizes[name]
            self._nodes[name] = self.builder.graph.call_method("size", (self.builder.node_of(value), dim))
        elif name not in self._nodes and name in self._given:
            self._nodes[name] = self.builder.node_of(self._given[name])
        return super()._name(name)
