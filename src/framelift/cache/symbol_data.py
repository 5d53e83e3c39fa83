"""Symbolic sizes and numbers of a capture as data, and back.

Written are the symbols with what they stand for, the relations between them that the capture and the backend relied
on, and the lines that run before the graph.  When a record is read, a shape environment is made with the same symbols,
for the sizes and numbers of this call, and is asked the same relations in the same order: so it knows what the first
one knew, and the backend is given the graph with it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from .._core import is_a
from ..graph.metadata.facts import Facts, SymbolicFacts, intern_facts, symbolic_facts
from ..graph.symbols.environment import Symbols
from ..graph.symbols.meanings import Calculation, Created, FromNumber, FromSize, Outside
from ..graph.symbols.numbers import Float, Int, concrete
from ..graph.symbols.relations import Preamble
from ..torch_ports.modes import DisableTorchFunction
from ..vocabulary.origins import Origin
from ..vocabulary.outside_exceptions import raise_outside
from ..vocabulary.written_forms import NotKept
from .expressions import expression_data, expression_of
from .plain_values import leaf_data, leaf_of
from .refusals import NotMine

if TYPE_CHECKING:
    from ..recording.finished import Finished
    from .record_reader import Reader
    from .record_writer import RecordWriter

# ---- facts of tensors


def facts_data(facts: Any) -> list[Any]:
    """The fields of a tensor's facts, sizes and strides with their expressions."""
    if type(facts) is Facts:
        return [leaf_data(field) for field in facts.key()]
    if type(facts) is not SymbolicFacts:
        raise NotKept("a tensor in the graph is of a class of its own")
    dtype, device, size, stride, *flags = facts.key()
    entries = [["symbolic", [_entry_data(one) for one in group]] for group in (size, stride)]
    return [leaf_data(dtype), leaf_data(device), *entries, *flags]


def _entry_data(entry: Any) -> Any:
    return entry if type(entry) is int else [expression_data(entry.node.expr)]


def facts_from(row: list[Any], numbers: Numbers | None) -> Facts:
    """The facts of such data."""
    dtype, device, size, stride, *flags = row
    if size[0] != "symbolic":
        return intern_facts(*map(leaf_of, row))
    if numbers is None:
        raise NotMine("sizes are symbolic without symbols")
    sizes, strides = (
        [one if type(one) is int else numbers.number(one[0]) for one in group[1]] for group in (size, stride)
    )
    return symbolic_facts(leaf_of(dtype), leaf_of(device), sizes, strides, *flags)


# ---- symbols


def symbols_data(
    writer: RecordWriter, symbols: Symbols, tensors: list[Any], finished: Finished, facts: dict[int, Any]
) -> dict[str, Any]:
    """The symbols of a capture with a graph; raises `NotKept`.  `tensors` are those that the lines before the graph
    take, `facts` those of the tensors outside, by id.
    """
    if symbols.scalars or symbols.drawn_tensors:
        raise NotKept("numbers of numpy's are symbolic")
    created = []
    for row in symbols.created:
        meaning = symbols.meanings.get(row.name)
        if type(meaning) is FromSize:
            place: Any = [_index(tensors, meaning.tensor), meaning.dim, meaning.what]
        elif type(meaning) is FromNumber and is_a(meaning.place, Origin):
            place = writer.origin(meaning.place)
        else:
            raise NotKept("a number is symbolic that is calculated or drawn", row.name)
        created.append([*row, place])
    if symbols.env.deferred_runtime_asserts:
        raise NotKept("the graph checks what it computes")
    known = {row.name for row in symbols.created}
    for symbol in symbols.env.var_to_range:
        if str(symbol) not in known and not _is_of_float(symbols, str(symbol)):
            raise NotKept("a number is symbolic that only the graph knows")
    if not all(str(symbol) in known for guard in symbols.env.guards for symbol in guard.expr.free_symbols):
        raise NotKept("torch relies on the value of a float")
    return {
        "created": created,
        "floats": _floats_data(writer, symbols),
        "relations": [expression_data(guard.expr) for guard in symbols.env.guards],
        "arguments": [_argument_data(tensors, one) for one in finished.arguments or ()],
        "inputs": [_index(tensors, one) for one in finished.inputs],
        "facts": [facts_data(facts[id(one)]) for one in tensors],
    }


def _is_of_float(symbols: Symbols, name: str) -> bool:
    """Return whether a symbol is torch's for one of our floats: it is made again where the graph is compiled."""
    meaning = symbols.meanings.get(name)
    return type(meaning) is Calculation and meaning.is_alias and type(meaning.args[0]) is Float


def _floats_data(writer: RecordWriter, symbols: Symbols) -> list[Any]:
    """[name, origin] of the floats outside, [name, function, arguments] of those that are calculated before the graph.
    Others are calculated in the graph.
    """
    rows: list[Any] = []
    for name, number in symbols.floats.items():
        meaning = symbols.meanings[name]
        if type(meaning) is FromNumber and is_a(meaning.place, Origin):
            rows.append([name, writer.origin(meaning.place)])
        elif type(meaning) is Outside and number.hint is not None:
            rows.append([name, writer.named(meaning.func), [_operand_data(one) for one in meaning.args]])
        elif type(meaning) is not Calculation or number.hint is None:
            raise NotKept("a number is symbolic that is calculated or drawn", name)
    return rows


def _operand_data(number: Any) -> Any:
    if type(number) is Int:
        return ["symbolic", expression_data(number.node.expr)]
    return ["named", number.name] if type(number) is Float else leaf_data(number)


def _argument_data(tensors: list[Any], argument: Any) -> Any:
    if type(argument) is Float:
        return ["float", argument.name]
    if type(argument) is not str and not is_a(argument, torch.Tensor):
        raise NotKept("a calculated number is an input of the graph")
    return argument if type(argument) is str else _index(tensors, argument)


def _index(tensors: list[Any], tensor: Any) -> int:
    for i, one in enumerate(tensors):
        if one is tensor:
            return i
    raise NotKept("a size is of a tensor that is no input")


class Numbers:
    """The symbols of a record, made again for the tensors and numbers of one call."""

    def __init__(self, reader: Reader, data: dict[str, Any], tensors: list[Any]) -> None:
        self.symbols, self.tensors = Symbols(), tensors
        for *row, place in data["created"]:
            made = Created(*row)
            self.symbols.create(made, *self._now(reader, made, place))
        env = self.symbols.env
        self._by_name = {str(symbol): symbol for symbol in env.var_to_range}
        if self._by_name.keys() != {row[0] for row in data["created"]}:
            raise NotMine("a size is 0 or 1, or symbols have other names")
        self._ask(data["relations"])
        for name, *row in data["floats"]:
            (self._float if len(row) == 1 else self._calculated)(reader, name, *row)
        self.arguments = [self._argument(one) for one in data["arguments"]]
        self.inputs = [tensors[one] for one in data["inputs"]]
        self._facts = {id(one): facts_from(row, self) for one, row in zip(tensors, data["facts"], strict=True)}
        self.asked = len(env.guards)

    def _now(self, reader: Reader, row: Created, place: Any) -> tuple[int, Any]:
        if row.how == "number":
            value = reader.fetch(place)
            if type(value) is not int:
                raise NotMine(f"{reader.origin(place)} is no int")
            return value, FromNumber(reader.origin(place))
        index, dim, what = place
        tensor = self.tensors[index]
        read = _core.tensor_size if what == "size" else _core.tensor_stride
        return int(read(tensor, dim)), FromSize(tensor, dim, what)

    def _float(self, reader: Reader, name: str, place: int) -> None:
        value = reader.fetch(place)
        if type(value) is not float or not math.isfinite(value):
            raise NotMine(f"{reader.origin(place)} is no finite float")
        self.symbols.create_float(name, value, FromNumber(reader.origin(place)))

    def _calculated(self, reader: Reader, name: str, function: int, operands: list[Any]) -> None:
        meaning = Outside(reader.object(function), tuple(map(self._operand, operands)))
        try:
            value = meaning.func(*map(concrete, meaning.args))
        except ArithmeticError as error:
            raise NotMine(f"a calculation raises {type(error).__name__}") from None
        if type(value) is not float or not math.isfinite(value):
            raise NotMine("a calculated number is no finite float")
        self.symbols.create_float(name, value, meaning)

    def _operand(self, data: Any) -> Any:
        if type(data) is list and data[0] == "named":
            return self.symbols.floats[data[1]]
        if type(data) is list and data[0] == "symbolic":
            return self.symbols.shown(self.number(data[1]))
        return leaf_of(data)

    def _argument(self, data: Any) -> Any:
        if type(data) is list:
            return self.symbols.floats[data[1]]
        return data if type(data) is str else self.tensors[data]

    def _ask(self, relations: list[Any]) -> None:
        env = self.symbols.env
        wanted = [expression_of(one, self._by_name) for one in relations]
        try:
            with DisableTorchFunction():
                holds = all([bool(env.evaluate_expr(one)) for one in wanted])
        except Exception as error:
            raise_outside(error)
            raise NotMine(f"relations between sizes: {type(error).__name__}: {error}") from None
        if not holds:
            raise NotMine("sizes are not as the capture relied on")

    def number(self, data: Any) -> Any:
        """A size of this call, by its expression."""
        return self.symbols.env.create_symintnode(expression_of(data, self._by_name), hint=None)

    def input_facts(self) -> dict[int, Any]:
        """The facts of the tensors, by their id."""
        return self._facts

    def relied_on(self) -> list[Any]:
        """Return the further relations that a backend relied on."""
        return [guard.expr for guard in self.symbols.env.guards[self.asked :]]


# ---- the lines before the graph


def preamble_data(writer: RecordWriter, lines: Preamble) -> dict[str, Any]:
    """The lines that run first."""
    if lines.drawn.generators or lines.drawn.relations:
        raise NotKept("numbers are drawn before the graph runs")
    return {
        "lines": list(lines.lines),
        "tensors": len(lines.tensors),
        "names": list(lines.names),
        "checks": [[text, writer.place(line)] for text, line in lines.checks],
        "words": lines.words,
        "constants": {name: writer.named(value) for name, value in lines.constants.items()},
    }


def preamble_from(reader: Reader, data: dict[str, Any], inputs: list[int]) -> Preamble:
    """The lines of such data; `inputs` are the numbers of the origins that they unpack."""
    count = data["tensors"]
    return Preamble(
        tuple(data["lines"]),
        [reader.fetch(one) for one in inputs[:count]],
        [reader.origin(one) for one in inputs[count:]],
        tuple(data["names"]),
        tuple([(text, reader.lines[line]) for text, line in data["checks"]]),
        data["words"],
        {name: reader.object(number) for name, number in data["constants"].items()},
    )
