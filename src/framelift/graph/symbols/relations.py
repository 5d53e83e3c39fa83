"""Names and relations of a capture as Python text: what runs at every call before the graph does.

    i0, i1 = inputs
    s64 = tensor_size(i0, 0)
    if not (2 <= s64 and s64 == i1): return MISS
    inputs = (s64, i0)

Only the names that something needs are calculated.  A relation that does not hold, or cannot be calculated, means
that this capture is not for this call.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP

from ... import _core
from ..._core import is_a
from ...guards.sentences import where
from ...torch_ports.symbols import PythonPrinter, SingletonInt, int_oo
from ...vocabulary.outside_exceptions import raise_outside
from ...vocabulary.plain_types import GIVEN
from .declared_sizes import unsettled
from .environment import Symbols
from .meanings import ORDINARY, Calculation, Drawn, FromGraph, FromNumber, FromSize, Outside
from .numbers import Bool, Float, Int
from .numpy_numbers import SCALARS, NumpyNumber

#: Python's own spelling of operators
INFIX = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.truediv: "/",
    operator.floordiv: "//",
    operator.mod: "%",
    operator.pow: "**",
    operator.matmul: "@",
    operator.and_: "&",
    operator.or_: "|",
    operator.xor: "^",
    operator.lshift: "<<",
    operator.rshift: ">>",
    operator.eq: "==",
    operator.ne: "!=",
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
}


#: what the text may name besides its own names
NAMESPACE: dict[str, Any] = {
    **SYMPY_INTERP,
    "math": math,
    "torch": torch,
    "float64": torch.float64,
    "tensor_size": _core.tensor_size,
    "tensor_stride": _core.tensor_stride,
}

_print = PythonPrinter().doprint
_CALCULATED = (Calculation, Outside)


@dataclass(frozen=True, slots=True)
class Drawings:
    """The generators that the lines draw from, by index in `places`; and how many relations are about draws."""

    generators: tuple[int, ...] = ()
    relations: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Preamble:
    """Lines to run first, over `tensors` and the numbers at `places`, in this order.

    `names` are those that the lines calculate, `checks` the relations with their user lines (text, or (code,
    offset)), `words` what the user calls the names.
    """

    lines: tuple[str, ...]
    tensors: list[torch.Tensor]
    places: list[Any]
    names: tuple[str, ...] = ()
    checks: tuple[tuple[str, Any], ...] = ()
    words: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    drawn: Drawings = Drawings()


def text_of(symbols: Symbols, number: Any) -> str | None:
    """A number as Python text over names; None when only the graph knows it."""
    needed = _closure(symbols, _names(number))
    return None if any(type(symbols.meanings[name]) is FromGraph for name in needed) else f"({_text(number)})"


def relation_text(expression: Any) -> str:
    """A relation as the text that lines before a graph check."""
    text: str = _print(expression)
    return text


def function_of(expression: Any, names: Iterable[str]) -> Callable[..., Any] | None:
    """An expression of sympy's as a function of the symbols in it; None where it has no form in Python."""
    try:
        made: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {_print(expression)}", dict(NAMESPACE))
    except Exception as error:
        raise_outside(error)
        return None
    return made


def _names(value: Any) -> set[str]:
    if type(value) is Int or type(value) is Bool:
        return {str(symbol) for symbol in value.node.expr.free_symbols}
    if type(value) is _Unchanged:
        return {str(symbol) for symbol in value.expr.free_symbols}
    return {value.name} if type(value) in (Float, NumpyNumber) else set()


def _text(value: Any) -> str:
    if type(value) is Int or type(value) is Bool:
        return _print(value.node.expr)
    if type(value) is _Unchanged:
        return _print(value.expr)
    if type(value) in (Float, NumpyNumber):
        return value.name
    if type(value) is float and not math.isfinite(value):
        return f"{'-' if math.copysign(1.0, value) < 0 else ''}float('{str(value).lstrip('-')}')"
    return repr(value)


def _call_text(func: Callable[..., Any], args: Iterable[Any], constants: dict[str, Any]) -> str:
    texts = []
    for arg in args:
        if type(arg) in SCALARS:  # their text is none of Python's
            constants[f"scalar_{id(arg)}"] = arg
        texts.append(_text(arg) if type(arg) not in SCALARS else f"scalar_{id(arg)}")
    if func in INFIX:
        return f"({texts[0]}) {INFIX[func]} ({texts[1]})"
    name = f"call_{func.__name__.strip('_')}"
    while constants.setdefault(name, func) is not func:  # numpy's functions have names of Python's own
        name += "_"
    return f"{name}({', '.join(texts)})"


def _closure(symbols: Symbols, names: Iterable[str]) -> set[str]:
    """The names, and those their meanings are calculated from."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        meaning = symbols.meanings[name]
        if type(meaning) in _CALCULATED:
            for arg in _operands(symbols, name):
                waiting += _names(arg)
    return found


def _operands(symbols: Symbols, name: str) -> list[Any]:
    """Return the numbers that a number is calculated from.

    One that was found later to be equal to a name made after it is taken as it was: its own lines come first.
    """
    args = symbols.meanings[name].args
    if not any(type(arg) in (Int, Bool) and arg.node.expr != arg.node._expr for arg in args):
        return list(args)
    order = list(symbols.meanings)
    later = set(order[order.index(name) :])
    return [_Unchanged(arg) if type(arg) in (Int, Bool) and _names(arg) & later else arg for arg in args]


class _Unchanged:
    """A number by its expression at the time it was made."""

    def __init__(self, number: Any) -> None:
        self.expr = number.node._expr


def _checks(symbols: Symbols, constants: dict[str, Any]) -> list[tuple[str, set[str], Any]]:
    """Every relation: its text, the names in it, and the user's line."""
    symbols.note_line()
    rows = []
    for guard, line in zip(symbols.env.guards, symbols.lines):
        if any(_stands_for_rows(symbols, symbol) for symbol in guard.expr.free_symbols):
            continue  # which tensor holds the lengths of rows is guarded, and no number is like them
        names = {str(symbol) for symbol in guard.expr.free_symbols}
        rows.append((_print(guard.expr), names, line))
    for relation in symbols.relations:
        text = _call_text(relation.func, relation.args, constants)
        names = set().union(*map(_names, relation.args))
        rows.append((f"({text}) is {relation.result}" if relation.result is not True else text, names, relation.line))
    return list({text: (text, names, line) for text, names, line in rows}.values())


def _stands_for_rows(symbols: Symbols, symbol: Any) -> bool:
    """Return whether a symbol is the size of a jagged tensor in the direction of its rows."""
    table = getattr(symbols.env, "backed_var_to_val", None)
    return is_a((symbols.env.var_to_val if table is None else table).get(symbol), SingletonInt)


def _bounds(symbols: Symbols, needed: set[str]) -> list[str]:
    """Return the bounds that the shape environment takes for granted of its symbols."""
    rows = []
    for symbol, bounds in symbols.env.var_to_range.items():
        if (
            str(symbol) in needed
            and type(symbols.meanings[str(symbol)]) in (FromSize, FromNumber, Drawn, *_CALCULATED)
            and bounds.is_int
        ):
            low = (
                f"{bounds.lower} <= "
                if bounds.lower not in (-int_oo, 0) or type(symbols.meanings[str(symbol)]) is not FromSize
                else ""
            )
            low = "" if bounds.lower == -int_oo else low
            high = f" <= {bounds.upper}" if bounds.upper != int_oo and bounds.upper < 2**62 else ""
            if low or high:
                rows.append(f"{low}{symbol}{high}")
    return rows + [ORDINARY.format(name) for name in sorted(_given_floats(symbols) & needed)]


def _given_floats(symbols: Symbols) -> set[str]:
    """The floats that operations were given as symbols: torch takes these to be finite, kernels to be in range."""
    return {one.name for one in symbols.floats.values() if one.hint is not None and type(one.raw) is torch.SymFloat}


def _calculations(
    symbols: Symbols,
    needed: set[str],
    tensors: list[torch.Tensor],
    places: list[Any],
    generators: dict[Any, str],
    constants: dict[str, Any],
) -> list[str]:
    """The lines that give the names their values; adds what they take to `tensors`, `places` and `generators`."""
    lines: list[str] = []
    known = set(map(id, tensors))
    for name, meaning in symbols.meanings.items():
        if name not in needed or type(meaning) is FromGraph:
            continue
        if type(meaning) is FromSize:
            if id(meaning.tensor) not in known:
                known.add(id(meaning.tensor))
                tensors.append(meaning.tensor)
            lines.append(f"{name} = tensor_{meaning.what}(i{_index(tensors, meaning.tensor)}, {meaning.dim})")
        elif type(meaning) is FromNumber:
            places.append((name, meaning.place))
        elif type(meaning) is Drawn:
            if meaning.place not in generators:
                generators[meaning.place] = f"generator_{len(generators)}"
                places.append((generators[meaning.place], meaning.place))
            constants[f"draw_{name}"] = meaning.func
            lines.append(f"{name} = draw_{name}({', '.join([generators[meaning.place], *map(_text, meaning.args)])})")
        else:
            lines.append(f"{name} = {_call_text(meaning.func, _operands(symbols, name), constants)}")
    return lines


def _given_text(symbols: Symbols, tensors: list[torch.Tensor], argument: Any) -> str:
    """One input of the graph."""
    if id(argument) in symbols.drawn_tensors:
        return f"torch.from_numpy({symbols.drawn_tensors[id(argument)][0]})"
    if is_a(argument, GIVEN):
        return f"i{_index(tensors, argument)}"
    if type(argument) is str:
        return argument
    return f"torch.tensor({argument.name}, dtype=float64)" if type(argument) is Float else _text(argument)


def preamble(symbols: Symbols, arguments: list[Any] | None, used: Iterable[Any], is_checked: bool = True) -> Preamble:
    """The text for a finished rehearsal.  `arguments`: the graph's tensors, names and numbers; None: no graph.

    `is_checked`: what the graph relies on is looked at in each call.
    """
    constants: dict[str, Any] = {}
    checks = [
        row for row in _checks(symbols, constants) if not any(type(symbols.meanings[n]) is FromGraph for n in row[1])
    ]
    names = set().union(*map(_names, used), *(row[1] for row in checks))
    names |= {str(symbol) for one in symbols.declared.claimed for symbol in one.free_symbols} | _given_floats(symbols)
    for argument in arguments or ():
        names |= {argument} if type(argument) is str else _names(argument)
    tensors: list[torch.Tensor] = [a for a in arguments or () if is_a(a, GIVEN) and id(a) not in symbols.drawn_tensors]
    stride_rows = []
    # Symbols of an input's own sizes, and that its strides follow from them, are relied on by the graph's nodes and by
    # every answer about its layout (`is_contiguous`), whether or not a relation names them, and whether or not it is an
    # input of the graph.
    names |= {name for name, meaning in symbols.meanings.items() if type(meaning) is FromSize}
    for tensor, dim, stride in symbols.strides:
        stride_rows.append((tensor, dim, stride))
        names |= {str(symbol) for symbol in stride.node._expr.free_symbols}
    # whether or not somebody needs the number
    drawn = {name for name, meaning in symbols.meanings.items() if type(meaning) is Drawn}
    needed = _closure(symbols, names | drawn | _may_raise(symbols))
    places: list[Any] = []
    generators: dict[Any, str] = {}
    lines = _calculations(symbols, needed, tensors, places, generators, constants)
    numbers = [f"{name}" for name, _ in places]
    unpack = [f"i{i}" for i in range(len(tensors))] + numbers
    conditions = _bounds(symbols, needed) + [text for text, _, _ in checks]
    conditions += [f"{one} == {other}" for one, other in symbols.declared.equal] + [
        _print(one) for one in symbols.declared.claimed
    ]
    conditions += [
        f"tensor_stride(i{_index(tensors, t)}, {dim}) == {_print(stride.node._expr)}" for t, dim, stride in stride_rows
    ]
    scalars = tuple(
        name for name in symbols.meanings if name in needed and type(symbols.meanings[name]) is not FromGraph
    )
    if not is_checked:
        conditions, checks = [], []
    holding = " and ".join(f"({condition})" for condition in conditions)
    body = [*lines, *([f"if not ({holding}): return missed({', '.join(scalars)})"] if conditions else [])]
    text = [f"{', '.join(unpack)}{',' * (len(unpack) == 1)} = inputs"] if unpack else []
    if body:
        text += ["try:", *(f"    {line}" for line in body), "except Exception: return MISS"]
    if arguments is not None:
        given = [_given_text(symbols, tensors, argument) for argument in arguments]
        text.append(f"inputs = ({', '.join(given)}{',' * (len(given) == 1)})")
    relations = [(check, line) for check, _, line in checks]
    relations += [(bound, "") for bound in _bounds(symbols, needed) if is_checked]
    held = Drawings(
        tuple(i for i, (name, _) in enumerate(places) if name in generators.values()),
        sum(1 for row in checks if row[1] & drawn),
    )
    return Preamble(
        tuple(text),
        tensors,
        [place for _, place in places],
        scalars,
        tuple(relations),
        dict(symbols.words),
        constants,
        held,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Assumptions:
    """The assumptions of a rehearsal about numbers.

    `meanings` of the names, in an order in which they can be calculated (text for calculations), and `checks` with
    their user lines.
    """

    meanings: dict[str, Any]
    checks: tuple[tuple[str, Any], ...]
    constants: dict[str, Any]


def assumptions(symbols: Symbols) -> Assumptions:
    """The relations of a rehearsal, for those who make their own lines of them; without what only the graph knows."""
    constants: dict[str, Any] = {}
    rows = [
        row
        for row in _checks(symbols, constants)
        if not any(type(symbols.meanings[name]) is FromGraph for name in row[1])
    ]
    needed = _closure(symbols, set().union(_may_raise(symbols), *(row[1] for row in rows)))
    meanings = {
        name: _call_text(m.func, _operands(symbols, name), constants) if type(m) in _CALCULATED else m
        for name, m in symbols.meanings.items()
        if name in needed
    }
    return Assumptions(meanings, tuple((text, line) for text, _, line in rows), constants)


#: calculations that succeed with all numbers
_NEVER_RAISE = frozenset(
    {operator.add, operator.sub, operator.mul, operator.neg, operator.pos, operator.abs, abs, float}
)
_DIVISIONS = frozenset({operator.truediv, operator.floordiv, operator.mod})


def _may_raise(symbols: Symbols) -> set[str]:
    """Calculations that another call's numbers may make fail.  The program may catch that, so they are done whether or
    not the result is used.
    """
    found = {
        name
        for name, meaning in symbols.meanings.items()
        if type(meaning) in _CALCULATED
        and meaning.func not in _NEVER_RAISE
        and not (meaning.func in _DIVISIONS and type(meaning.args[1]) in (int, float) and meaning.args[1] != 0)
    }
    return {
        name for name in found if not any(type(symbols.meanings[one]) is FromGraph for one in _closure(symbols, {name}))
    }


def _index(tensors: list[torch.Tensor], tensor: torch.Tensor) -> int:
    return next(i for i, one in enumerate(tensors) if one is tensor)


def broken_promises(symbols: Symbols) -> list[str]:
    """Sizes that the user declared dynamic and that became constants or may not be all they were declared to be, each
    with the line that did it.
    """
    symbols.note_line()
    found = [*symbols.declared.refused, *unsettled(symbols)]
    for name, (words, low, high) in symbols.declared.promised.items():
        symbol = next(s for s in symbols.env.var_to_range if str(s) == name)
        now = symbols.env.replace(symbol)
        lines = [line for guard, line in zip(symbols.env.guards, symbols.lines) if symbol in guard.expr.free_symbols]
        place = "" if not lines else f" at {where(lines[-1])}" if lines[-1] else " (the backend asked for it)"
        if now.is_number:
            found.append(f"{words} was marked dynamic, but the program fixes it to {now}{place}")
            continue
        range_ = symbols.env.var_to_range[symbol]
        if low is not None and range_.lower > max(low, 2):
            found.append(
                f"{words} was marked dynamic from {low}, but what was captured holds from {range_.lower} only{place}"
            )
        if high is not None and range_.upper < high:
            found.append(
                f"{words} was marked dynamic up to {high}, but what was captured holds up to {range_.upper} only{place}"
            )
    return found
