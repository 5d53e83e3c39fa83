"""The symbolic numbers of one rehearsal: what each name stands for, and the relations between them that the capture
relies on.

A name is a symbol of torch's shape environment (`s64`, `u0`) or a `Float` of ours (`f1`).  `meanings` says where
its value comes from: the size of an input, a number outside, a calculation over other names, or the graph itself.
How names and relations become Python text is in relations.py.
"""

from __future__ import annotations

import functools
import logging
import math
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    expect_true,
    free_unbacked_symbols,
)

from ... import config
from ..._core import is_a
from ...torch_ports.modes import DisableTorchFunction
from ...vocabulary.class_reads import name_of
from ...vocabulary.own_code import FRAMELIFT, first_above
from ...vocabulary.reasons import Interrupt
from ...vocabulary.torch_code import TORCH
from ..metadata.facts import Facts, symbolic_facts
from .declared_sizes import Declarations, check_declared, constraint, relies_on_one, span
from .meanings import (
    Calculation,
    Created,
    Drawn,
    FromGraph,
    FromNumber,
    FromSize,
    Marks,
    Outside,
    Relation,
    is_ordinary,
    itself,
    opposite,
    raising,
    same_float,
)
from .numbers import NUMBERS, Bool, Float, Int
from .numpy_numbers import SCALARS, NumpyNumber, quiet, same_text
from .symbol_sources import source_called

_off = DisableTorchFunction


_log = logging.getLogger(symbolic_shapes.__name__)


@functools.cache
def _show_user_lines() -> None:
    """Torch's log of symbols names the innermost line that is not torch's own, nor framelift's."""
    symbolic_shapes.uninteresting_files().update(map(str, Path(FRAMELIFT).rglob("*.py")))


class Answers:
    """Who else is asked for a truth that symbols do not decide."""

    by_branch: Callable[[Bool], bool | None] | None = None  # one that the program cannot continue without
    by_values: Callable[..., bool | None] | None = None  # a relation, by what tensors hold


class Symbols:
    """Names, their meanings and the relations noted."""

    def __init__(self) -> None:
        self.env = ShapeEnv(
            duck_shape=False,
            allow_scalar_outputs=config.capture_scalar_outputs,
            allow_dynamic_output_shape_ops=config.capture_dynamic_output_shape_ops,
        )
        if _log.isEnabledFor(logging.INFO):
            _show_user_lines()
        self.meanings: dict[str, Any] = {}
        self.relations: list[Relation] = []
        self.used: list[Any] = []  # numbers that the entry itself mentions
        self.named: dict[str, Any] = {}  # ints outside, by their names
        self.handed: dict[Any, str] = {}  # values that stand for them in bodies of operators (higher_order/bodies.py)
        self.floats: dict[str, Float] = {}  # by their own name and by the symbol's
        self.strides: list[tuple[torch.Tensor, int, Any]] = []  # (input, dimension, its stride as a number)
        self.words: dict[str, str] = {}  # what the user calls a name: x.size(0), n
        self.declared = Declarations()
        self.lines: list[Any] = []  # for each guard of the environment, the user's line
        self.compiling = False  # the rehearsal is over: who asks now is the compiler
        self._drawn: set[str] = set()  # names of what is drawn, and of floats calculated from it
        self._calculated: dict[Any, Float] = {}  # by function and arguments
        self.drawn_tensors: dict[int, tuple[str, torch.Tensor]] = {}  # by id
        self.scalars = False  # some of the numbers are numpy's
        self.answers = Answers()
        self.created: list[Created] = []  # symbols of the environment, in the order they were made
        self.exporting = False  # comparisons are decided when their truth is asked for, calculations stay in the graph
        self._count = 0

    # ---- inputs ----

    def sizes(self, tensor: torch.Tensor, facts: Facts, dims: frozenset[int], marks: Marks, words: str) -> Facts:
        """The facts of an input whose dimensions `dims` are symbolic."""
        size: list[Any] = list(facts.size)
        for dim in sorted(dims):
            made = self._size(tensor, dim, size[dim], marks, f"{words}.size({dim})")
            if made is not None:
                size[dim] = made
        if all(type(length) is int for length in size) and not marks.strides:
            return facts
        stride = self._strides(tensor, facts, size, marks.strides, words)
        return symbolic_facts(facts.dtype, facts.device, size, stride, *facts.key()[4:])

    def _size(self, tensor: torch.Tensor, dim: int, length: int, marks: Marks, words: str) -> torch.SymInt | None:
        place = source_called(f"{words}#{len(self.meanings)}")
        low, high = marks.dynamic.get(dim, (None, None))
        if low is not None and length < low or high is not None and length > high:
            self.declared.refused.append(f"{words} is {length}, but was marked dynamic {span(low, high)}")
            low = high = None
        if dim in marks.unbacked:
            raw = self.env.create_unbacked_symint(source=place)
            self.env._constrain_range_for_size(raw.node.expr)
            self.created.append(Created(str(raw.node.expr), "unbacked", str(place.text)))
        else:
            symbol = self.env.create_symbol(length, place, DimDynamic.DYNAMIC, constraint(low, high))
            if not symbol.is_Symbol:  # sizes 0 and 1 behave unlike others, and have captures of their own
                return None
            raw = self.env.create_symintnode(symbol, hint=length, source=place)
            self.created.append(Created(str(symbol), "size", str(place.text), low, high))
        self.meanings[str(raw.node.expr)] = FromSize(tensor, dim)
        self.words[str(raw.node.expr)] = words
        if dim in marks.hints and hasattr(self.env, "var_to_hint_override"):  # torch 2.12 and later
            self.env.var_to_hint_override[raw.node.expr] = marks.hints[dim]
        if dim in marks.unbacked:
            check_declared(self, raw, length, marks, dim, words)
        is_special = relies_on_one(raw, length, marks.special.get(dim, ()))
        if dim in marks.dynamic and not is_special:
            self.declared.promised[str(raw.node.expr)] = (words, low, high)
        return raw

    def _strides(
        self, tensor: torch.Tensor, facts: Facts, size: list[Any], changing: frozenset[int], words: str
    ) -> list[Any]:
        """Strides that are products of sizes in this call; that they are is checked at every call."""
        stride: list[Any] = list(facts.stride)
        reached: dict[int, Any] = {}
        for dim in sorted(range(len(size)), key=lambda d: (stride[d], facts.size[d], -d)):
            step = facts.stride[dim]
            made = reached.get(step, step)
            if type(made) is int and dim in changing and step > 1:
                place = source_called(f"{words}.stride({dim})#{len(self.meanings)}")
                symbol = self.env.create_symbol(step, place, DimDynamic.DYNAMIC)
                made = self.env.create_symintnode(symbol, hint=step, source=place)
                self.meanings[str(symbol)] = FromSize(tensor, dim, "stride")
                self.created.append(Created(str(symbol), "stride", str(place.text)))
            stride[dim] = made
            if type(made) is torch.SymInt and step in reached:
                self.strides.append((tensor, dim, made))
            if step > 0:
                reached.setdefault(step * facts.size[dim], made * size[dim])
        return stride

    def create(self, row: Created, value: int, meaning: Any) -> None:
        """A symbol as it was made in another rehearsal; `value` is its value in this call."""
        place = source_called(row.source)
        if row.how == "unbacked":
            symbol = self.env.create_unbacked_symint(source=place).node.expr
            self.env._constrain_range_for_size(symbol)
        elif row.how == "number":
            symbol = self.env.create_unspecified_symbol(value, place, DimDynamic.DYNAMIC)
        else:
            symbol = self.env.create_symbol(value, place, DimDynamic.DYNAMIC, constraint(row.low, row.high))
        self.meanings[str(symbol)] = meaning
        self.created.append(row)

    def create_float(self, name: str, value: float, meaning: Any) -> Float:
        """A float as it was made in another rehearsal."""
        self.meanings[name] = meaning
        made = self.floats[name] = Float(self, name, value, None, ())
        return made

    def number(self, value: Any, place: Any, words: str) -> Any:
        """A symbolic number for the plain `value` found at `place`."""
        if type(value) is float:
            made = self._new_float(value, FromNumber(place), None, ())
            self.words[made.name] = words
            return made
        if type(value) in SCALARS:
            scalar = self._new_scalar(value, FromNumber(place))
            self.words[scalar.name] = words
            return scalar
        return self._new_int(value, FromNumber(place), words)

    def drawn(self, meaning: Drawn, hint: Any, words: str) -> Any:
        """A number that every call draws anew; `hint` is what this call will draw."""
        if type(hint) is int:
            return self._new_int(hint, meaning, words)
        made = self._new_float(hint, meaning, None, ()) if type(hint) is float else self._new_scalar(hint, meaning)
        self.words[made.name] = words
        self._drawn.add(made.name)
        return made

    def drawn_tensor(self, meaning: Drawn, tensor: torch.Tensor) -> None:
        """An array that every call draws anew; `tensor` holds what this call will draw, and stands for it among the
        graph's inputs.
        """
        self._count += 1
        name = f"d{self._count}"
        self.meanings[name] = meaning
        self.drawn_tensors[id(tensor)] = (name, tensor)

    def _new_int(self, value: int, meaning: Any, words: str) -> Any:
        source = source_called(f"{words}#{len(self.meanings)}")
        symbol = self.env.create_unspecified_symbol(value, source, DimDynamic.DYNAMIC)
        self.meanings[str(symbol)] = meaning
        self.created.append(Created(str(symbol), "number", str(source.text)))
        if type(meaning) is FromNumber:
            self.words[str(symbol)] = words
        made = self.named[str(symbol)] = self.shown(self.env.create_symintnode(symbol, hint=value, source=source))
        return made

    def _new_scalar(self, hint: Any, meaning: Any) -> NumpyNumber:
        self._count += 1
        self.scalars = True
        name = f"n{self._count}"
        self.meanings[name] = meaning
        return NumpyNumber(self, name, hint)

    def _new_float(self, hint: float | None, meaning: Any, func: Any, args: tuple[Any, ...]) -> Float:
        self._count += 1
        name = f"f{self._count}"
        self.meanings[name] = meaning
        made = self.floats[name] = Float(self, name, hint, func, args)
        return made

    # ---- what captured code and operations see ----

    def shown(self, value: Any) -> Any:
        """Convert a number of torch's, or a tuple of them, to what captured code sees."""
        kind = type(value)
        if kind is torch.SymInt:
            known = value.node.maybe_as_int()
            return known if known is not None else Int(value, self)
        if kind is torch.SymFloat:
            known = value.node.maybe_as_float()
            if known is not None:
                return known
            raise Interrupt("symbolic-number", "a float calculated inside torch")
        if kind is torch.SymBool:
            return self._truth(value)
        if is_a(value, tuple) and any(type(item) in _SYMBOLS for item in value):
            items = [self.shown(item) for item in value]
            return torch.Size(items) if kind is torch.Size else tuple(items)
        return value

    def raw(self, number: Any) -> Any:
        """Convert a number to what operations over fakes take."""
        if type(number) is not Float:
            return number.raw
        if number.raw is None:
            if number.hint is None:
                number.raw = number.func(*(self.raw(arg) if type(arg) in NUMBERS else arg for arg in number.args))
                return number.raw
            if not is_ordinary(number.hint):
                number.raw = number.value()
                return number.raw
            source = source_called(f"{number.name}#{len(self.meanings)}")
            symbol = self.env.create_unspecified_symbol(number.hint, source, DimDynamic.DYNAMIC)
            number.raw = self.env.create_symfloatnode(symbol, hint=number.hint, source=source)
            self.meanings[str(symbol)] = Calculation(itself, (number,))
            self.words[str(symbol)] = self.words.get(number.name, number.name)
        return number.raw

    def unbacked(self, raw: Any, value: Any) -> Any:
        """A number that the graph computes."""
        if not raw.node.expr.is_Symbol and all(str(symbol) in self.meanings for symbol in raw.node.expr.free_symbols):
            return self.shown(raw)  # calculated from those that are known by name already
        if type(raw) is torch.SymInt:
            self.meanings.setdefault(str(raw.node.expr), FromGraph(value))
            return Int(raw, self)
        if type(raw) is torch.SymFloat:
            made = self._new_float(None, FromGraph(value), None, ())
            made.raw = raw
            if raw.node.expr.is_Symbol:  # comparisons are about this name
                self.meanings.setdefault(str(raw.node.expr), Calculation(itself, (made,)))
            return made
        raise Interrupt("tensor-bool", "a truth value that only the graph knows")

    def new_sizes(self, value: Any) -> None:
        """Sizes that appear with a result: only the graph knows them."""
        for dim, entry in enumerate(value.facts.size):
            if type(entry) is torch.SymInt and entry.node.expr.is_Symbol:
                self.meanings.setdefault(str(entry.node.expr), FromGraph(value, dim))

    def shape_hint(self, name: str) -> int:
        """The value that a named size or number has in this call."""
        meaning = self.meanings[name]
        if type(meaning) is FromSize:
            return int(getattr(meaning.tensor, meaning.what)(meaning.dim))
        known = getattr(self.env, "backed_var_to_val", None) or self.env.var_to_val  # renamed between versions of torch
        return next(int(value) for symbol, value in known.items() if str(symbol) == name)

    def hint(self, raw: torch.SymInt) -> int | None:
        """The value in this call."""
        return None if free_unbacked_symbols(raw.node.expr) else int(raw.node.hint)

    # ---- asking ----

    def guarded(self, ask: Callable[[], Any], what: str) -> Any:
        """Ask something of torch's symbols; guards that come of it are the user line's."""
        try:
            with _off():
                return ask()
        except GuardOnDataDependentSymNode as error:
            raise Interrupt("tensor-item", f"{what} of a number that only the graph knows") from error
        finally:
            self.note_line()

    def asked_anything(self) -> bool:
        """Return whether something of the numbers was relied on."""
        return bool(self.relations or self.env.guards)

    def note_line(self) -> None:
        """Guards added since the last time belong to the user's line that runs now; those of a compiler to none."""
        new = len(self.env.guards) - len(self.lines)
        if new > 0:
            self.lines += ["" if self.compiling else _user_line()] * new

    def fix(self, number: Int) -> int:
        """The int as a constant."""
        return self.guarded(lambda: number.raw.node.guard_int("", 0), "the value")

    def fix_float(self, number: Float) -> float:
        """The float as a constant."""
        hint = _hint(number)
        self.relations.append(Relation(same_float, (number, hint), True, _user_line()))
        return hint

    def decide(self, func: Callable[..., Any], left: Any, right: Any) -> bool:
        """A comparison, answered for this call and noted."""
        if Float in (type(left), type(right)) or float in (type(left), type(right)):
            if self.answers.by_values is not None and any(getattr(one, "hint", 0) is None for one in (left, right)):
                with _off():
                    known = self.answers.by_values(Relation(func, (left, right), None, None))
                if known is not None:
                    return known
            if any(type(one) is Float and one.hint is None for one in (left, right)):
                return self._truth(self.guarded(lambda: func(self._raw(left), self._raw(right)), "a comparison"))
            result = func(_hint(left), _hint(right))
            self.relations.append(Relation(func, (left, right), result, _user_line()))
            return result
        answer = self.guarded(lambda: func(_raw_int(left), _raw_int(right)), "a comparison")
        return self._truth(answer)

    def holds_of_graph(self, func: Callable[..., Any], args: tuple[Any, ...]) -> bool:
        """Return whether something seldom otherwise is known to hold of numbers that only the graph knows."""
        with _off():
            return self.answers.by_values is not None and bool(
                self.answers.by_values(Relation(func, args, None, None), True)
            )

    def _raw(self, number: Any) -> Any:
        return self.raw(number) if type(number) in NUMBERS else number

    def _truth(self, answer: Any) -> Any:
        if type(answer) is not torch.SymBool:
            return bool(answer)
        if (self.exporting or free_unbacked_symbols(answer.node.expr)) and self.env._maybe_evaluate_static(
            answer.node.expr
        ) is None:
            return Bool(answer, self)
        return self.guarded(lambda: bool(answer), "a comparison")

    def both(self, func: Callable[..., Any], left: Any, right: Any) -> Any:
        """Two truth values joined, one of which only the graph knows."""
        return self._truth(self.guarded(lambda: func(_raw(left), _raw(right)), "a truth value"))

    def negated(self, one: Bool) -> Any:
        """The opposite of a truth value."""
        return self._truth(self.guarded(lambda: torch.sym_not(one.raw), "a truth value"))

    def truth(self, one: Bool) -> bool:
        """The plain truth value, where it is decided: by what is known of the numbers, what is assumed of them, or by
        what tensors hold.
        """
        undecided = self.env._maybe_evaluate_static(one.raw.node.expr) is None
        if undecided and self.answers.by_branch is not None and self._is_of_graph(one.raw.node.expr):
            with _off():
                known = self.answers.by_branch(one)
            if known is not None:
                return known
        if undecided and self.answers.by_values is not None:
            with _off():
                known = self.answers.by_values(one.raw.node.expr)
            if known is not None:
                symbols = one.raw.node.expr.free_symbols
                if all(type(self.meanings.get(str(symbol))) is FromGraph for symbol in symbols):  # it can check it
                    self.guarded(lambda: expect_true(one.raw if known else torch.sym_not(one.raw)), "a comparison")
                return known
        return self.guarded(lambda: bool(one.raw), "a comparison")

    def _is_of_graph(self, expression: Any) -> bool:
        """Return whether all numbers of which nothing is known are the graph's."""
        unknown = free_unbacked_symbols(expression)
        return bool(unknown) and all(type(self.meanings.get(str(symbol))) is FromGraph for symbol in unknown)

    def expect(self, condition: Bool) -> None:
        """The program says that this holds; the graph will check it."""
        self.guarded(lambda: expect_true(condition.raw), "a condition")

    # ---- arithmetic ----

    def int_op(self, func: Callable[..., Any], *args: Any) -> Any:
        """Arithmetic on ints."""
        if func in (operator.floordiv, operator.mod) and (
            type(args[1]) is Int and not self.decide(operator.ne, args[1], 0) or args[1] == 0
        ):
            return func(args[0].value() if type(args[0]) is Int else args[0], 0)  # raises
        return self.shown(self.guarded(lambda: func(*map(_raw_int, args)), "arithmetic"))

    def float_op(self, func: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """A calculation whose result is a float."""
        if any(type(arg) is Float and arg.hint is None for arg in args) or any(
            type(arg) is Int and arg.hint is None for arg in args
        ):
            func = IN_GRAPHS.get(func, func)
            return self._new_float(None, Calculation(func, args), func, args)
        hint = self._in_this_call(func, args)
        if type(hint) is not float:
            return func(*(arg.value() if type(arg) in NUMBERS else arg for arg in args))
        drawn = any(type(arg) is Float and arg.name in self._drawn for arg in args)
        if self.exporting and not drawn:
            return self._new_float(hint, Calculation(func, args), func, args)
        # not in the graph: compilers would take some for constants, and reorder others as if they were exact
        key = (func, *(arg.key if type(arg) in NUMBERS else (type(arg), repr(arg)) for arg in args))
        if key not in self._calculated:
            made = self._calculated[key] = self._new_float(hint, Outside(func, args), None, ())
            if drawn:
                self._drawn.add(made.name)
        return self._calculated[key]

    def _in_this_call(self, func: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Return the result of a calculation in this call; an exception is noted as a comparison is."""
        numbers = tuple(map(_hint, args))
        try:
            return func(*numbers)
        except Exception as error:
            self.relations.append(Relation(raising(func, error), args, True, _user_line()))
            raise

    def int_of(self, func: Callable[..., Any], number: Float) -> Any:
        """A float made an int: a symbol calculated at every call; by the graph, where only that knows the float."""
        if number.hint is None and number.raw is not None and number.raw.node.expr.is_Symbol and func is not round:
            self.meanings.setdefault(str(number.raw.node.expr), Calculation(itself, (number,)))
            return self.shown(self.guarded(lambda: func(number.raw), "the value"))
        hint = self._in_this_call(func, (number,))
        if not -(2**62) < hint < 2**62:
            return func(number.value())
        meaning = Calculation if self.exporting else Outside
        return self._new_int(hint, meaning(func, (number,)), f"{func.__name__}({number.name})")

    # ---- numpy's scalars ----

    def outside(self, func: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """A calculation with scalars of numpy's, done at every call before the graph."""
        with quiet():
            hint = self._in_this_call(func, args)
        meaning = Outside(func, args)
        if type(hint) in SCALARS:
            return self._new_scalar(hint, meaning)
        if type(hint) is float and math.isfinite(hint):
            made = self._new_float(hint, meaning, None, ())
            if len(args) == 1:
                self.words[made.name] = self.words.get(args[0].name, made.name)
            return made
        if type(hint) is int and -(2**62) < hint < 2**62:
            return self._new_int(hint, meaning, f"{func.__name__}()")
        if type(hint) is bool or name_of(type(hint)) in ("bool", "bool_"):
            return self.noted(func, args)
        return func(*(arg.value() if type(arg) in (*NUMBERS, NumpyNumber) else arg for arg in args))

    def noted(self, func: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """A truth value, answered for this call and noted."""
        with quiet():
            result = self._in_this_call(func, args)
        self.relations.append(Relation(func if result else opposite(func), args, True, _user_line()))
        return result

    def fix_scalar(self, number: NumpyNumber) -> Any:
        """The scalar as a constant."""
        self.relations.append(Relation(same_text, (number, repr(number.hint)), True, _user_line()))
        return number.hint


#: functions of math's, as torch's symbols know them; given a plain number, they call math's
IN_GRAPHS = {
    getattr(math, name): getattr(torch, f"_sym_{name}")
    for name in ("acos", "asin", "atan", "cos", "cosh", "log2", "sin", "sinh", "sqrt", "tan", "tanh")
    if hasattr(torch, f"_sym_{name}")
} | {float: torch.sym_float}

_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def _raw_int(value: Any) -> Any:
    """As `_raw`, where a truth value is the number it is in Python: torch's symbols know it as another kind."""
    return int(value) if type(value) is bool else _raw(value)


def _raw(value: Any) -> Any:
    return value.raw if type(value) is Int or type(value) is Bool else value


def _hint(value: Any) -> Any:
    if type(value) is Int:
        hint = value.hint
        if hint is None:
            raise Interrupt("tensor-item", "arithmetic on a number that only the graph knows")
        return hint
    if type(value) is Float and value.hint is None:
        raise Interrupt("tensor-item", "the value of a number that only the graph knows")
    return value.hint if type(value) in (Float, NumpyNumber) else value


def _user_line() -> Any:
    frame: Any = first_above(
        lambda one: one.f_back is None or not one.f_code.co_filename.startswith((FRAMELIFT, TORCH))
    )
    return frame.f_code, frame.f_lasti


def forget() -> None:
    """Empty torch's own caches of what was asked of symbols: they hold the last hundreds of environments."""
    for found in vars(ShapeEnv).values():
        clear = getattr(found, "cache_clear", None)
        if clear is not None:
            clear()
