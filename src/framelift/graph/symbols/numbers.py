"""Symbolic numbers as captured code sees them: `Int` and `Float` behave as int and float do, and note what they were
asked.

Arithmetic gives further symbolic numbers.  Whatever needs the value itself (a comparison, `range`, a list index,
text, a hash, any C function) gets the value of this call, and a relation is noted that later calls must satisfy.
Nothing is ever taken silently.

Ints are torch's SymInt, whose expressions are exact.  Floats keep their own expression, because symbolic algebra
reorders floating point arithmetic; each is evaluated at every call just as the program wrote it.
"""

from __future__ import annotations

import builtins
import importlib
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import torch

from ... import _core
from ...vocabulary.class_reads import members_of, module_of, mro_of
from ...vocabulary.own_code import first_above, own_file
from ...vocabulary.plain_types import SCALAR_MODULES

#: whose code keeps tables of new numbers, or carries such tables over: modules of torch, and files of framelift
_KEEPING_TABLES = frozenset(
    id(vars(importlib.import_module(name)))
    for name in ("torch.nn.modules.module", "torch.utils.hooks", "torch.optim.optimizer")
)
_CARRYING_TABLES = (
    own_file("exits", ""),
    own_file("boundary", "becomes", "containers.py"),
    own_file("autograd", "tensor_hooks.py"),
)


def _keeps_tables(frame: types.FrameType | None) -> bool:
    return frame is not None and (
        id(frame.f_globals) in _KEEPING_TABLES or frame.f_code.co_filename.startswith(_CARRYING_TABLES)
    )


def concrete(value: Any) -> Any:
    """The plain number of this call, without noting anything: for values that decide nothing."""
    return value.hint if type(value) in (Int, Float) else value


class _Number:
    """What symbolic ints and floats do alike: texts and hashes take the value."""

    __slots__ = ()
    value: Callable[[], Any]

    def __complex__(self) -> complex:
        return complex(self.value())

    def __hash__(self) -> int:
        return hash(self.value())

    def __repr__(self) -> str:
        return repr(self.value())

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(self.value(), spec)

    def conjugate(self) -> Any:
        return self

    __pos__ = __copy__ = conjugate
    real = property(conjugate)

    def __deepcopy__(self, _memo: Any) -> Any:
        return self


class Int(_Number, torch.SymInt):
    """A symbolic int.  `raw` is torch's own symbol, `home` the `Symbols` it belongs to.

    `is_new`: it was counted out for the sole purpose of being a key like no other, so a dictionary that it comes into
    need not know its value.
    """

    is_new = False

    def __init__(self, raw: torch.SymInt, home: Any) -> None:
        self.node = raw.node
        self.raw = raw
        self.home = home

    __class__ = property(lambda self: int)

    @property
    def hint(self) -> int | None:
        """The value in this call; None where only the graph knows it."""
        return self.home.hint(self.raw)

    @property
    def key(self) -> Any:
        """Equal for equal expressions."""
        return ("int", self.node.expr)

    def value(self) -> int:
        """The plain int of this call; from here on it is a constant of the capture."""
        return self.home.fix(self)

    __index__ = __int__ = value

    def __float__(self) -> float:
        return float(self.value())

    def __bool__(self) -> bool:
        return bool(self.home.decide(operator.ne, self, 0))  # it may be one that only values decide

    def __hash__(self) -> int:
        if self.is_new and _keeps_tables(first_above()):  # the order of a set would show it
            return hash(self.hint)
        return hash(self.value())

    numerator = property(lambda self: self.value())  # C code that asks for it wants a plain number
    imag = property(lambda self: 0)
    denominator = property(lambda self: 1)
    __trunc__ = __floor__ = __ceil__ = _Number.conjugate

    def __round__(self, digits: Any = None) -> Any:
        return self if digits is None else round(self.value(), digits)

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return int, (self.value(),)

    def __neg__(self) -> Any:
        return self.home.int_op(operator.neg, self)

    def __abs__(self) -> Any:
        return self if self.home.decide(operator.ge, self, 0) else -self

    def __invert__(self) -> Any:
        return -self - 1

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        if modulo is None and type(other) in (float, Float):
            return _float_pow(self, other)
        if modulo is None and type(other) is int and 0 <= other <= 8:
            product: Any = 1
            for _ in range(other):
                product = self * product
            return product
        return pow(self.value(), other, modulo) if modulo is not None else self.value() ** other

    def __rpow__(self, other: Any, modulo: Any = None) -> Any:
        if modulo is None and type(other) is float:
            return _float_pow(other, self)
        return pow(other, self.value(), modulo) if modulo is not None else other ** self.value()

    def as_float(self) -> Float:
        """float(self)"""
        return self.home.float_op(float, (self,))


class Float(_Number, torch.SymFloat):
    """A symbolic float: the result of `func(*args)` over other numbers, or an input.  `hint` is its value in this call.

    A SymFloat by class alone, so that torch's argument parsers take it; operations are given `raw` in its place.
    """

    __slots__ = ("home", "name", "hint", "func", "args", "raw")  # in the class: `SymFloat.hint` is a property

    def __init__(self, home: Any, name: str, hint: float | None, func: Any, args: tuple[Any, ...]) -> None:
        self.home = home
        self.name = name
        self.hint = hint
        self.func = func
        self.args = args
        self.raw: Any = None  # torch's symbol for it, once an operation was given it

    __class__ = property(lambda self: float)

    @property
    def key(self) -> Any:
        """Equal for equal expressions."""
        return ("float", self.name)

    def value(self) -> float:
        """The plain float of this call; from here on it is a constant of the capture."""
        return self.home.fix_float(self)

    __float__ = value

    def __int__(self) -> int:
        return int(self.value())

    def __bool__(self) -> bool:
        return self.home.decide(operator.ne, self, 0.0)

    imag = property(lambda self: 0.0)

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return float, (self.value(),)

    def __neg__(self) -> Any:
        return self.home.float_op(operator.neg, (self,))

    def __abs__(self) -> Any:
        return self.home.float_op(abs, (self,))

    def __trunc__(self) -> Any:
        return self.home.int_of(math.trunc, self)

    def __floor__(self) -> Any:
        return self.home.int_of(math.floor, self)

    def __ceil__(self) -> Any:
        return self.home.int_of(math.ceil, self)

    def __round__(self, digits: Any = None) -> Any:
        return self.home.int_of(round, self) if digits is None else self.home.float_op(round, (self, digits))

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        if modulo is not None:
            return pow(self.value(), other, modulo)
        return _float_pow(self, _operand(self, other, "__rpow__"))

    def __rpow__(self, other: Any, modulo: Any = None) -> Any:
        if modulo is not None:
            return pow(other, self.value(), modulo)
        return _float_pow(_operand(self, other, "__pow__", True), self)

    def as_float(self) -> Float:
        """float(self)"""
        return self


class Bool(torch.SymBool):
    """A comparison for the graph to answer.  Its truth interrupts, unless what is known decides it."""

    def __init__(self, raw: torch.SymBool, home: Any) -> None:
        self.node = raw.node
        self.raw = raw
        self.home = home

    __class__ = property(lambda self: bool)

    @property
    def key(self) -> Any:
        """Equal for equal expressions."""
        return ("bool", self.node.expr)

    def value(self) -> bool:
        """The plain truth value, where it is decided."""
        answer: bool = self.home.truth(self)
        return answer

    __bool__ = value

    def __int__(self) -> int:
        return int(self.value())

    __index__ = __int__

    def __hash__(self) -> int:
        return hash(self.value())

    def __repr__(self) -> str:
        return repr(self.value())

    def __eq__(self, other: object) -> Any:
        return self.value() == other

    def __and__(self, other: Any) -> Any:
        return self.home.both(operator.and_, self, other) if type(other) in (Bool, bool) else NotImplemented

    def __or__(self, other: Any) -> Any:
        return self.home.both(operator.or_, self, other) if type(other) in (Bool, bool) else NotImplemented

    __rand__, __ror__ = __and__, __or__

    def __sym_not__(self) -> Any:
        return self.home.negated(self)


def _decided(func: Callable[..., Any], reflected: bool = False) -> Callable[..., Any]:
    """A method of bool's that needs the truth."""

    def call(self: Bool, *args: Any) -> Any:
        return func(*args, self.value()) if reflected else func(self.value(), *args)

    return call


#: the names of binary operations that are methods with a reflected form
ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift", "xor")


def function_named(name: str) -> Any:
    """The function that calls the method of this name: of `operator`, or a built-in."""
    return abs if name == "abs" else vars(operator).get(f"__{name}__") or getattr(builtins, name)


for _name in (*ARITHMETIC, "lt", "le", "gt", "ge", "ne", "neg", "pos", "invert", "abs", "float", "format", "round"):
    setattr(Bool, f"__{_name}__", _decided(function_named(_name)))
    if _name in ARITHMETIC:
        setattr(Bool, f"__r{_name}__", _decided(function_named(_name), reflected=True))


NUMBERS: tuple[type, ...] = (Int, Float, Bool)
_PLAIN = (int, bool, float)


def _is_number(value: Any) -> bool:
    return type(value) is Int or type(value) is Float or type(value) in _PLAIN


def _is_integral(value: Any) -> bool:
    return type(value) is Int or type(value) is int or type(value) is bool


def _operand(number: Any, other: Any, name: str, first: bool = False) -> Any:
    """The plain number that an operand of a class made from int or float is, where Python leaves the operation to int
    and float.

    `name` is the operand's own method for it.  As `first` operand it was asked already and gave no answer, so the
    plain number does if it can; as the second it is asked only if its class is one of the plain number's kind, or
    if that knows nothing of its base.
    """
    cls = type(other)
    base = (
        None
        if _is_number(other) or _decides(other)
        else next((kind for kind in (int, float) if issubclass(cls, kind)), None)
    )
    if base is None or name not in members_of(base):
        return other
    found = next(members_of(kind)[name] for kind in mro_of(cls) if name in members_of(kind))
    inherits = found is members_of(base)[name]
    if inherits or (first or base is int if type(number) is Float else first and base is int):
        return int.__int__(other) if base is int else float.__float__(other)
    return other


def _home(*values: Any) -> Any:
    return next(value.home for value in values if type(value) in NUMBERS)


def _float_op(func: Callable[..., Any], left: Any, right: Any) -> Any:
    if not (_is_number(left) and _is_number(right)):
        return _on_hints(func, left, right)
    return _home(left, right).float_op(func, (left, right))


def _float_pow(left: Any, right: Any) -> Any:
    if not (_is_number(left) and _is_number(right)):
        return _on_hints(operator.pow, left, right)
    is_whole = type(right) is int or type(right) is float and right.is_integer()
    if None in (concrete(left), concrete(right)) and not is_whole and not (type(left) in _PLAIN and left > 0):
        if _home(left, right).holds_of_graph(_is_real, (left, right)):
            return _home(left, right).float_op(operator.pow, (left, right))
        return (left.value() if type(left) in NUMBERS else left) ** (right.value() if type(right) in NUMBERS else right)
    if not (_is_integral(right) or type(right) is float and right.is_integer() or type(left) in _PLAIN and left >= 0):
        _home(left, right).noted(_is_real, (left, right))
    return _home(left, right).float_op(operator.pow, (left, right))


def _is_real(base: Any, exponent: Any) -> bool:
    """Return whether a power is a float: of a negative number it may be a complex one."""
    return type(base**exponent) is float


def _on_hints(func: Callable[..., Any], left: Any, right: Any) -> Any:
    """Another kind of operand: one with operators in C is met as a constant, others know what to do.

    Classes made from int and float may decline, and Python asks int or float then: they are met by a plain number.
    """
    other = right if type(left) in NUMBERS else left
    kind = type(other)
    native = not issubclass(kind, torch.Tensor) and not _core.is_python_class(kind)
    asks_again = issubclass(kind, (int, float))
    if (
        asks_again
        or _decides(other)
        or native
        and (func not in _MIRRORED or hasattr(kind, "__float__") or kind is complex)
    ):
        return func(*(value.value() if type(value) in NUMBERS else value for value in (left, right)))
    return NotImplemented


def _decides(value: Any) -> bool:
    """Return whether the operand's own module decides what comes out."""
    return module_of(type(value)) in SCALAR_MODULES


def _binary(func: Callable[..., Any], left: Any, right: Any) -> Any:
    if _is_integral(left) and _is_integral(right):
        return _home(left, right).int_op(func, left, right)
    return _float_op(func, left, right)


def _both_parts(func: Callable[..., Any], left: Any, right: Any) -> Any:
    if not (_is_number(left) and _is_number(right)):
        return _on_hints(func, left, right)
    if right == 0:
        return func(1, 0 if _is_integral(left) and _is_integral(right) else 0.0)  # raises, in words of its own
    return left // right, left % right


def _bitwise(func: Callable[..., Any], left: Any, right: Any) -> Any:
    if not (_is_integral(left) and _is_integral(right)):
        return _on_hints(func, left, right)
    if func is operator.and_ and type(right) is Int:
        left, right = right, left
    if type(left) is Int and type(right) is int and left.hint is None:  # as arithmetic, it stays one of the graph's
        if func is operator.and_ and 0 <= right < 1 << 62 and (right + 1) & right == 0:
            return left % (right + 1)
        if func is operator.rshift and 0 <= right <= 62:
            return left // (1 << right)
    return func(*(value.value() if type(value) is Int else value for value in (left, right)))


def _method(apply: Callable[..., Any], func: Callable[..., Any], swap: bool) -> Callable[..., Any]:
    name = f"__{'' if swap else 'r'}{func.__name__.strip('_')}__"

    def method(self: Any, other: Any) -> Any:
        other = _operand(self, other, name, swap)
        return apply(func, other, self) if swap else apply(func, self, other)

    return method


def _taken(name: str) -> Any:
    """A method of plain numbers that has no symbolic meaning."""
    return property(lambda self: getattr(self.value(), name))


_MIRRORED = {
    operator.eq: "__eq__",
    operator.ne: "__ne__",
    operator.lt: "__gt__",
    operator.le: "__ge__",
    operator.gt: "__lt__",
    operator.ge: "__le__",
}


def _compare(func: Callable[..., Any]) -> Callable[..., Any]:
    name = _MIRRORED[func]

    def method(self: Any, other: Any) -> Any:
        other = _operand(self, other, name)
        return self.home.decide(func, self, other) if _is_number(other) else _on_hints(func, self, other)

    return method


for _cls in (Int, Float):
    for _name in ("add", "sub", "mul", "floordiv", "mod"):
        for _swap in (False, True):
            setattr(_cls, f"__{'r' * _swap}{_name}__", _method(_binary, getattr(operator, _name), _swap))
    for _swap in (False, True):
        setattr(_cls, f"__{'r' * _swap}truediv__", _method(_float_op, operator.truediv, _swap))
        setattr(_cls, f"__{'r' * _swap}divmod__", _method(_both_parts, divmod, _swap))
    for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(_cls, f"__{_name}__", _compare(getattr(operator, _name)))
for _name, _word in (("and", "and_"), ("or", "or_"), ("xor", "xor"), ("lshift", "lshift"), ("rshift", "rshift")):
    for _swap in (False, True):
        setattr(Int, f"__{'r' * _swap}{_name}__", _method(_bitwise, getattr(operator, _word), _swap))
        # torch's symbol knows some of them
        setattr(Float, f"__{'r' * _swap}{_name}__", _method(_on_hints, getattr(operator, _word), _swap))
for _cls, _kind in ((Int, int), (Float, float)):
    _cls.__name__ = _kind.__name__  # as CPython's own errors call it
    for _name in dir(_kind):
        if (not _name.startswith("_") or _name == "__getnewargs__") and _name not in {*vars(_cls), *vars(_Number)}:
            setattr(_cls, _name, _taken(_name))
