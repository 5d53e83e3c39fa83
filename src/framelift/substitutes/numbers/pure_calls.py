"""Calls of pure C functions with symbolic numbers: those that keep them symbolic, and all others, which get this call's
values.

`handle` is asked by the call rule for every pure callable that is given a symbolic number directly.
"""

from __future__ import annotations

import abc
import builtins
import functools
import itertools
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental import symbolic_shapes

from ... import _core, config
from ..._core import is_a
from ...boundary.becomes.leaves import is_leaf
from ...calls.call_tables import HIGHER_ORDER, substitute
from ...calls.pure.lookup import member
from ...graph.fx.targets import target_of
from ...graph.symbols.numbers import NUMBERS, Bool, Float, Int
from ...graph.symbols.numpy_numbers import SCALARS, NumpyNumber
from ...overriding.modes import is_overridden, torch_call
from ...recording.assumptions import assertion, assume
from ...recording.session import Session
from ...torch_ports.tensors import check, check_is_size, check_tensor_all_with, check_with
from ...vocabulary.class_reads import members_of, mro_of, qualname_of
from ...vocabulary.reasons import Interrupt
from ..python.called_back import calling_back
from .tensor_extremes import extreme_of, items_of
from .tensor_truths import truth_of

Handler = Callable[["Session", tuple[Any, ...]], Any]

#: only pass numbers on, or use them by Python's own protocols, which the numbers answer themselves
_PASS = """
    abs all any callable dict divmod enumerate filter format frozenset hash issubclass iter list map max min next
    pow print property repr reversed round set slice sorted sum super tuple zip str staticmethod classmethod object
"""
_ALIKE: dict[int, Any] = {id(getattr(builtins, name)): getattr(builtins, name) for name in _PASS.split()}
_ALIKE.update(
    (id(f), f)
    for f in vars(operator).values()
    if is_a(f, types.BuiltinFunctionType) and f.__name__ not in ("index", "length_hint", "contains")
)
_ALIKE.update(
    (id(f), f)
    for f in vars(itertools).values()
    if is_a(f, type) and f.__name__ not in ("islice", "repeat", "combinations", "permutations")
)
_ALIKE.update(
    (id(f), f)
    for f in (
        math.prod,
        math.floor,
        math.ceil,
        math.trunc,
        functools.reduce,
        torch.Size,
        type.__instancecheck__,
        types.CellType,
    )
)
# those look at what they are given
_ERRORS = [
    cls
    for cls in vars(builtins).values()
    if is_a(cls, type)
    and issubclass(cls, BaseException)
    and not issubclass(cls, (OSError, UnicodeError, SyntaxError, BaseExceptionGroup))
]
_ALIKE.update((id(cls), cls) for cls in _ERRORS)

#: what makes and fills instances without a look at what it is given, but for the built-in types' own rules
_MAKERS = frozenset(
    getattr(cls, name) for cls in (object, dict, list, tuple, *_ERRORS) for name in ("__new__", "__init__")
)

#: functions of floats that give floats
_REAL = """
    acos acosh asin asinh atan atan2 atanh cos cosh degrees erf erfc exp exp2 expm1 fabs fmod hypot lgamma log log10
    log1p log2 pow radians sin sinh sqrt tan tanh copysign cbrt
"""
_FLOATS: dict[int, Any] = {
    id(getattr(math, name)): getattr(math, name) for name in _REAL.split() if hasattr(math, name)
}


#: functions that give ints, by methods which numpy's scalars do not have
_WHOLE = {id(f): f for f in (math.floor, math.ceil, math.trunc)}

#: special methods whose results C code takes by their exact types
_PLAIN = tuple(f"__{name}__" for name in "hash index int float bool length_hint".split())
#: properties that decimals ask of other numbers
_PARTS = ("numerator", "denominator")


def taken_by_c_code(function: types.FunctionType, receiver: Any, result: Any) -> Any:
    """Return a method's result: the plain number where it is a special method that must not return anything else."""
    if type(result) not in (Int, Float, Bool):
        return result
    for base in mro_of(type(receiver)):
        for name in _PLAIN:
            found = members_of(base).get(name)
            if getattr(found, "__func__", found) is function:
                return result.value()
        for name in _PARTS:
            found = members_of(base).get(name)
            if type(found) is property and found.fget is function:
                return result.value()
    return result


def handle(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A pure callable that was given a symbolic number; `len`, `int`, `float` and `bool` of a tensor come here too."""
    key = id(callable_)
    if (
        key in _ALIKE
        and not _wants_plain(callable_, args, kwargs)
        and not (key in _WHOLE and type(args[0]) is NumpyNumber)
        or key in HIGHER_ORDER
        or _passes_on(callable_)
    ):
        return _core.natively(callable_, args, kwargs)
    if not kwargs and key in _OWN:
        answer = _OWN[key][1](session, args)
        if answer is not NotImplemented:
            return answer
    if (
        not kwargs
        and (key in _FLOATS or key in _WHOLE)
        and NumpyNumber in map(type, args)
        and all(type(arg) in _OPERANDS for arg in args)
    ):
        return next(arg.home for arg in args if type(arg) is NumpyNumber).outside(callable_, args)
    if not kwargs and key in _FLOATS and all(type(arg) in NUMBERS or type(arg) in (int, float) for arg in args):
        home = next(arg.home for arg in args if type(arg) in NUMBERS)
        return home.float_op(callable_, args)
    plain = tuple(arg.value() if type(arg) in _SYMBOLIC else arg for arg in args)
    return _core.natively(
        callable_, plain, {name: arg.value() if type(arg) in _SYMBOLIC else arg for name, arg in kwargs.items()}
    )


def _passes_on(callable_: Any) -> bool:
    """Return whether this is a class of Python's whose making looks at no argument, or fills a dictionary with one
    value.
    """
    if is_a(callable_, type):
        made = [
            found.__func__ if type(found) is staticmethod else found
            for found in map(functools.partial(member, callable_), ("__new__", "__init__"))
        ]
        return _core.is_python_class(callable_) and all(
            type(found) is types.FunctionType or found in _MAKERS for found in made
        )
    name = getattr(callable_, "__name__", "")
    return name == "__instancecheck__" or name == "fromkeys" and is_a(getattr(callable_, "__self__", None), type)


def _wants_plain(callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether C code that passes numbers on asks one with `PyLong_Check`, or only the first for its method."""
    return (
        callable_ is pow
        and len(args) + len(kwargs) > 2
        or callable_ is round
        and type(args[0]) not in _SYMBOLIC
        and not _core.is_python_class(type(args[0]))
    )


_SYMBOLIC = (*NUMBERS, NumpyNumber)
_OPERANDS = frozenset((*_SYMBOLIC, *SCALARS, int, float))


_OWN: dict[int, tuple[Any, Handler]] = {}


def _own(*callables: Any) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        _OWN.update((id(c), (c, handler)) for c in callables)
        return handler

    return register


@_own(int)
def _int(_session: Session, args: tuple[Any, ...]) -> Any:
    if len(args) != 1:
        return NotImplemented
    number = _taken(_session, args[0])
    if type(number) is Bool:
        return number.value().__int__()
    if type(number) is NumpyNumber:
        return number.as_int()
    return number if type(number) is Int else number.__trunc__() if type(number) is Float else NotImplemented


def _taken(session: Session, value: Any) -> Any:
    """The number that a tensor's item() is, where such numbers are captured; any other value as it is."""
    if session.is_stand_in(value) and config.capture_scalar_outputs and not is_overridden(session, (value,), {}):
        return session.call(torch.Tensor.item, (value,), {})
    return value


def _as_double(session: Session, value: Any) -> Any:
    """A tensor of integers whose item will be a float, as floats: symbols cannot calculate one from the other."""
    if not session.is_stand_in(value) or not config.capture_scalar_outputs or is_overridden(session, (value,), {}):
        return value
    dtype = session.value_of(value).facts.dtype
    if dtype.is_floating_point or dtype.is_complex:
        return value
    return session.call(torch.Tensor.to, (value, torch.float64), {})


@_own(float)
def _float(_session: Session, args: tuple[Any, ...]) -> Any:
    number: Any = _taken(_session, _as_double(_session, args[0])) if len(args) == 1 else None
    return number.as_float() if type(number) in (Int, Float, NumpyNumber) else NotImplemented


@_own(isinstance)
def _isinstance(_session: Session, args: tuple[Any, ...]) -> Any:
    """Torch's classes of symbols are our own business: outside, these are plain numbers."""
    if len(args) != 2:
        return NotImplemented
    classes = args[1] if type(args[1]) is tuple else (args[1],)
    if any(type(cls) in (_TENSOR_TYPE, tuple) for cls in classes):
        return any([_is_one(_session, args[0], cls) for cls in classes])
    number = (
        args[0].__class__()
        if type(args[0]) in _SYMBOLIC and all(type(cls) in (type, abc.ABCMeta) for cls in classes)
        else args[0]
    )
    # a number's class decides
    return _core.natively(isinstance, (number, tuple(cls for cls in classes if cls not in _SYMBOLS)), None)


_TENSOR_TYPE: type = type(torch.FloatTensor)


def _is_one(session: Session, value: Any, cls: Any) -> bool:
    """One class of several.  `torch.FloatTensor` and its like ask for dtype and device."""
    recorder = session.recorder
    if type(cls) is not _TENSOR_TYPE:
        return bool(_core.captured(isinstance, (value, cls), None))
    if not recorder.is_stand_in(value):
        return bool(_core.natively(isinstance, (value, cls), None))
    facts = recorder.value_of(value).facts
    if facts.device.type != "cpu" or type(value) is not torch.Tensor or recorder.in_transform():
        raise Interrupt("unsupported-code", "isinstance of a tensor and a class of one dtype and device")
    return bool(_core.natively(isinstance, (torch.empty(0, dtype=facts.dtype), cls), None))


_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


@_own(bool, operator.truth)
def _bool(session: Session, args: tuple[Any, ...]) -> Any:
    """A truth value that only the graph knows stays one as long as Python does not ask for it."""
    if len(args) != 1 or type(args[0]) is Bool:
        return args[0] if len(args) == 1 else NotImplemented
    if session.is_stand_in(args[0]):
        truth = truth_of(session, args[0])
        return _core.natively(bool, args, None) if truth is NotImplemented else truth
    return args[0].__bool__()


@_own(operator.contains)
def _contains(_session: Session, args: tuple[Any, ...]) -> Any:
    """In a list the number is compared, in a table looked up."""
    return (
        _core.PROBES["contains"](args[1], args[0]) if len(args) == 2 else _core.natively(operator.contains, args, None)
    )


@_own(itertools.repeat)
def _repeat(_session: Session, args: tuple[Any, ...]) -> Any:
    return _core.natively(
        itertools.repeat, (*args[:1], *[arg.value() if type(arg) in _SYMBOLIC else arg for arg in args[1:]]), None
    )


@substitute(str.translate, str.maketrans)
def _translated(session: Session, callable_: Any, /, *args: Any) -> Any:
    """C code reads the numbers in a table from memory, where symbolic ones are none."""
    for table in args:
        if not is_leaf(table) and (type(table) is not dict or not all(map(is_leaf, (*table, *table.values())))):
            raise Interrupt("callable-on-handle", callable_.__name__)
    return _core.natively(callable_, args, None)


@_own(math.isnan, math.isinf)
def _never_of_ints(_session: Session, args: tuple[Any, ...]) -> Any:
    return False if type(args[0]) is Int else NotImplemented


@_own(math.isfinite)
def _always_of_ints(_session: Session, args: tuple[Any, ...]) -> Any:
    return True if type(args[0]) is Int else NotImplemented


@_own(len)
def _len(session: Session, args: tuple[Any, ...]) -> Any:
    """len() makes a plain int of what `__len__` gives; that of a tensor may be symbolic."""
    if (
        not session.is_stand_in(args[0])
        or _core.type_lookup(type(args[0]), "__len__", None) is not torch.Tensor.__len__
    ):
        return NotImplemented
    length = torch_call(session, torch.Tensor.__len__, args, {})
    if type(length) not in (int, Int):  # of an override, which C code may not want
        raise Interrupt(
            "unknown-callable", f"len() of a tensor, where __torch_function__ gives a {qualname_of(type(length))}"
        )
    return length


def _extreme(builtin: Any, symbolic: Any) -> None:
    """The greater or lesser of two symbolic ints is another; of two floats of the graph, another such float."""
    otherwise = calling_back(None, "key")

    @substitute(builtin)
    def handler(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and session.recorder.has_tensors:
            items = items_of(session, args)
            found = extreme_of(session, builtin, items)
            if found is not NotImplemented:
                return found
            args = args if items is args or len(args) > 1 else (items,)
        if (
            len(args) == 1
            and not kwargs
            and type(args[0]) in (types.GeneratorType, list, tuple)
            and session.symbols is not None
        ):
            items = _core.natively(tuple, args, None)
            if (
                len(items) > 1
                and all(type(item) in (Int, int) for item in items)
                and any(type(item) is Int and (item.hint is None or session.policy.exporting) for item in items)
            ):
                return functools.reduce(lambda left, right: handler(session, callable_, left, right), items)
            args = (items,)
        if len(args) == 2 and not kwargs and Int in map(type, args) and all(type(arg) in (Int, int) for arg in args):
            return next(arg.home for arg in args if type(arg) is Int).int_op(symbolic, *args)
        if (
            len(args) == 2
            and not kwargs
            and all(type(arg) in (Float, float) for arg in args)
            and any(type(a) is Float and a.hint is None for a in args)
        ):
            return next(arg.home for arg in args if type(arg) is Float).float_op(symbolic, args)
        return otherwise(session, callable_, *args, **kwargs)


_extreme(max, torch.sym_max)
_extreme(min, torch.sym_min)


# ---- torch's functions of numbers ------------------------------------------------------------------------------------


@substitute(torch.sym_max, torch.sym_min)
def _symbolic(session: Session, callable_: Any, a: Any, b: Any) -> Any:
    given = (a, b)
    if not any(type(arg) is Int for arg in given) or not all(type(arg) in (Int, int) for arg in given):
        plain = tuple(arg.value() if type(arg) is Float else arg for arg in given)
        if not all(type(arg) in (int, float, bool) for arg in plain):
            raise Interrupt("unknown-callable", f"torch.{callable_.__name__}")
        return callable_(*plain)  # paused: as captured code it would come here again
    home = next(arg.home for arg in given if type(arg) is Int)
    return home.int_op(callable_, *given)


@substitute(torch.sym_ite)
def _sym_ite(session: Session, b: Any, t: Any, f: Any) -> Any:
    """One of two numbers, whichever a truth value chooses."""
    if type(b) is Bool and type(t) is Int and type(f) is Int:
        return b.home.int_op(torch.sym_ite, b, t, f)
    return t if b else f


@substitute(check)
def _check(session: Session, cond: Any, message: Any = None) -> None:
    """Assume what the program checks of a number that only the graph knows; the graph checks it.

    The message is computed only where the check fails: the call runs eagerly then. An exported program has no such
    mode.
    """
    if type(cond) is not Bool:
        _core.captured(check_with, (RuntimeError, cond, message), None)
        return
    asked = session.policy.exporting and callable(message)
    text = _core.captured(message, (), None) if asked else "Expected cond to be True, but got False."
    cond.home.expect(cond)
    assertion(session.recorder, cond, str(text))


#: the same without the substitute, which is found by code as well
_plain_check = types.FunctionType(
    check_tensor_all_with.__code__.replace(co_name="_check_tensor_all_with "),
    check_tensor_all_with.__globals__,
    "_check_tensor_all_with",
    check_tensor_all_with.__defaults__,
)


@substitute(check_tensor_all_with)
def _check_tensor_all(session: Session, error_type: Any, cond: Any, message: Any = None) -> Any:
    """Assume what the program checks of a tensor's values, as for an assertion; the graph checks it."""
    recorder = session.recorder
    if (
        recorder.is_stand_in(cond)
        and cond.dtype is torch.bool
        and not session.policy.exporting
        and recorder.known(cond) is None
    ):
        if assume(recorder, recorder.record(target_of(torch.Tensor.all), (cond,), {}), True):
            return None
    return _core.captured(_plain_check, (error_type, cond, message), None)


@substitute(check_is_size)
def _check_is_size(session: Session, i: Any, message: Any = None, *, max: Any = None) -> None:
    _check(session, i >= 0, message)
    if max is not None:
        _check(session, i <= max, message)


def _known_or(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """What is known of a comparison, or assumed of it for this call; otherwise the function's own answer."""
    if len(args) + len(kwargs) != 1:
        return callable_(*args, **kwargs)  # raises
    (expr,) = (*args, *kwargs.values())
    if type(expr) is not Bool:
        return bool(expr)
    try:
        return expr.value()
    except Interrupt:
        return expr.home.guarded(lambda: callable_(expr.raw), "a comparison")


for _name in ("guard_or_false", "guard_or_true", "guard_size_oblivious", "statically_known_true"):
    if hasattr(symbolic_shapes, _name):
        substitute(getattr(symbolic_shapes, _name))(_known_or)


@substitute(symbolic_shapes.has_free_unbacked_symbols)
def _has_free_unbacked_symbols(session: Session, x: Any) -> bool:
    return False  # as in eager mode, where every number has a value


@substitute(torch.sym_int)
def _sym_int(session: Session, a: Any) -> Any:
    return _int(session, (a,)) if type(a) in NUMBERS else _core.captured(int, (a,), None)


@substitute(torch.sym_float)
def _sym_float(session: Session, a: Any) -> Any:
    return _float(session, (a,)) if type(a) in NUMBERS else _core.captured(float, (a,), None)


@substitute(torch.Size.numel)
def _numel(session: Session, size: Any, /) -> Any:
    if any(type(length) is Int for length in size):
        return functools.reduce(operator.mul, size, 1)
    return torch.Size.numel(size)


_core.connect(
    number_types=_SYMBOLIC,
    number_handler=handle,
    builtin_len=len,
    builtin_isinstance=isinstance,
    tensor_types=_TENSOR_TYPE,
)
