"""numpy's functions on arrays: torch's own implementation of the same name runs unwatched, and its torch calls are
recorded.

What it lacks, or does otherwise than numpy, interrupts.  Scalars without any array among them are numpy's own affair.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Container, Iterator
from typing import Any

import torch

from ... import _core
from ..._core import is_a
from ...boundary.becomes.arrays import Array, Scalar, array_over, numpy, tensor_of, tnp
from ...boundary.becomes.leaves import is_leaf
from ...boundary.gateway import let_in
from ...calls.call_tables import SUBSTITUTES, substitute
from ...graph.fx.targets import target_of
from ...graph.symbols.numbers import NUMBERS, Bool, Float, Int
from ...graph.symbols.numpy_numbers import SCALARS, NumpyNumber
from ...overriding.modes import is_overridden, torch_call
from ...recording.rules.ranks import rule
from ...recording.session import Recorder, Session
from ...torch_ports.autograd import is_grad_enabled
from ...torch_ports.modes import DisableTorchFunction
from ...vocabulary.class_reads import module_of, name_of
from ...vocabulary.origins import const
from ...vocabulary.outside_exceptions import raise_outside
from ...vocabulary.own_code import captured_functions
from ...vocabulary.quiet_capture import quietly
from ...vocabulary.reasons import Interrupt
from .answers import Differs, ask, note_errors, shown, without_errors

#: differs from numpy: copies less, looks at memory, or is another operation
_REFUSED = frozenset(
    """
    resize data nbytes view flags flat tobytes ctypes base setflags itemset dump dumps tofile byteswap random
    from_dlpack save load frombuffer may_share_memory shares_memory empty empty_like
""".split()
)
#: functions that make arrays without dimensions as such
_MAKERS = frozenset(
    """
    array asarray ascontiguousarray zeros ones full eye arange linspace zeros_like ones_like full_like reshape
    squeeze copy transpose expand_dims astype ravel flatten atleast_1d broadcast_to
""".split()
)

#: functions that make arrays of plain values, which torch calculates otherwise or not at all
_OF_VALUES = frozenset(
    "linspace logspace geomspace full hanning hamming bartlett blackman kaiser vander tri indices".split()
)
_MOST_NUMBERS = 4096

#: functions that make an array of whatever they are given; all others ask a tensor for its own idea of them
_TAKE_TENSORS = frozenset(
    """
    array asarray ascontiguousarray concatenate stack vstack hstack dstack column_stack
    ones_like zeros_like full_like
""".split()
)

#: operations that take a number for one of the kind of the arrays beside it
_WITH_NUMBERS = frozenset(
    f"{prefix}{name}{suffix}"
    for name in "add sub mul truediv eq ne lt le gt ge".split()
    for prefix, suffix in (("__", "__"), ("__r", "__"))
).union("add subtract multiply divide true_divide maximum minimum".split())

#: functions of what an argument is, not of its values: numpy's own word for it
_ASKED = frozenset("isscalar iscomplexobj isrealobj".split())

_DIVISIONS = frozenset(("__truediv__", "__rtruediv__"))
_IN_PLACE = frozenset(
    f"__i{name}__" for name in "add sub mul truediv floordiv mod pow and or xor lshift rshift".split()
)
_SUBTRACT = frozenset(("subtract", "__sub__", "__rsub__", "__isub__"))


def _refuse(name: str, why: str = "") -> Interrupt:
    return Interrupt("unknown-callable", f"numpy.{name}" + (f" ({why})" if why else ""))


def _given(session: Session, value: Any) -> Any:
    """An argument as torch's implementation takes it."""
    kind = type(value)
    if kind in (list, tuple):
        return kind([_given(session, item) for item in value])
    if is_a(value, type) and issubclass(value, numpy.generic) or is_a(value, numpy.dtype):
        return tnp.dtype(numpy.dtype(value).name)
    if kind is NumpyNumber:
        value = value.value()
        kind = type(value)
    if kind is Scalar:  # its class says that it is a number of Python's
        return array_over(tensor_of(value))
    if issubclass(kind, numpy.generic):  # a stand-in for one says that it is, too
        dtype = tnp.dtype(value.dtype.name).torch_dtype
        return array_over(session.call(torch.tensor, (value.item(),), {"dtype": dtype}))
    return value


@contextlib.contextmanager
def _seen_by_none(recorder: Recorder) -> Iterator[None]:
    """Numpy makes no torch calls: those of torch's implementation of it are shown to no mode and no subclass."""
    before = recorder.modes, recorder.subclasses_off
    recorder.modes, recorder.subclasses_off = [], True
    try:
        yield
    finally:
        recorder.modes, recorder.subclasses_off = before


def _run(session: Session, function: Any, name: str, theirs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = (*args, *kwargs.values())
    if _has_tensor(given) and is_overridden(session, given, {}):
        raise _refuse(name, "of a tensor, whose __array__ is shown to a mode or a subclass")
    with _seen_by_none(session.recorder):
        return _run_unseen(session, function, name, theirs, args, kwargs)


def _run_unseen(
    session: Session, function: Any, name: str, theirs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Torch's implementation of one of numpy's functions, `theirs`, whose word on what it gives is final."""
    if name in _REFUSED:
        raise _refuse(name)
    if name in _ASKED:
        return ask(theirs, args, kwargs)
    if all(map(_is_known, (*args, *kwargs.values()))):
        known = _scalar_of(theirs, args, kwargs)
        if known is not None:
            return known
    if name not in _TAKE_TENSORS and _has_tensor((*args, *kwargs.values())):
        raise _refuse(name, "of an array and a tensor, which gives a tensor")
    if name in _SUBTRACT and any(is_a(arg, _BASE) and tensor_of(arg).dtype is torch.bool for arg in args):
        raise _refuse(name, "of truth values, which tensors refuse")
    note_errors(session.world, name)
    # A Python function of numpy comes with its defaults filled in; these two mean nothing when they are None.
    given, named = (
        _given(session, args),
        {
            key: _given(session, value)
            for key, value in kwargs.items()
            if value is not None or key not in ("device", "like")
        },
    )
    try:
        expected = ask(theirs, args, kwargs)
        if (is_a(theirs, numpy.ufunc) or name in _DIVISIONS) and _is_double(expected):
            given = tuple(map(_as_double, given))
        result = _result_of(session, function, name, given, named)
    except Exception as error:  # numpy may know how, or say it in other words
        raise _refuse(name, f"{name_of(type(error))}: {error}") from None
    if name == "astype" and tensor_of(result) is tensor_of(args[0]):
        result = _core.unwatched(tnp.ndarray.copy, (result,), None)  # numpy's always copies
    if any(result is arg for arg in args):
        return result
    if type(result) is Array:  # made of a scalar
        result = _core.unwatched(tnp.ndarray.copy, (result,), None)
    try:
        sizes = functools.partial(_sizes_of, session.recorder)
        made = _without_views(session, result, expected)
        return shown(made, expected, sizes, set(_tensors((*args, *kwargs.values()))))
    except Differs as error:
        raise _refuse(name, str(error)) from None


#: values of which numpy's results are values
_KNOWN = (int, float, complex, bool, type(None), str, type)


def _is_known(value: Any) -> bool:
    kind = type(value)
    if kind in (list, tuple):
        return all(map(_is_known, value))
    return kind in _KNOWN or issubclass(kind, numpy.generic) and kind is not Scalar


def _scalar_of(theirs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The scalar that numpy gives for plain numbers; None where it gives something else, or has something to say."""
    try:
        with numpy.errstate(all="raise"), quietly(raising=True):
            found = theirs(*args, **kwargs)
    except Exception as error:
        raise_outside(error)
        return None
    return found if is_a(found, numpy.generic) else None


def _result_of(session: Session, function: Any, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The result of torch's implementation, which does not know the kind of numbers that change."""
    try:
        return _core.unwatched(function, given, named)
    except KeyError:
        if not any(type(arg) in NUMBERS for arg in given):
            raise
        return _core.unwatched(function, tuple(_operand_of(session, name, arg, given) for arg in given), named)


def _sizes_of(recorder: Recorder, tensor: Any) -> Any:
    return recorder.value_of(tensor).facts.size


def _operand_of(session: Session, name: str, value: Any, given: tuple[Any, ...]) -> Any:
    """A number that changes as an array of the kind that numpy takes it for beside the arrays of an operation; as a
    constant where that kind, or the operation, has limits of its own.
    """
    if type(value) not in NUMBERS:
        return value
    kinds = [str(tensor_of(one).dtype).removeprefix("torch.") for one in given if issubclass(type(one), _BASE)]
    kind = numpy.result_type(*kinds, 1 if type(value) is Int else 1.0).name if kinds and type(value) is not Bool else ""
    if name not in _WITH_NUMBERS or kind not in ("int64", "float32", "float64"):
        return value.value()
    return array_over(session.call(torch.tensor, (value,), {"dtype": getattr(torch, kind)}))


def _is_double(expected: Any) -> bool:
    return is_a(expected, (numpy.ndarray, numpy.generic)) and expected.dtype == numpy.float64


def _as_double(value: Any) -> Any:
    """An array of integers as numpy gives it to an operation of doubles; torch would use its default dtype."""
    if not issubclass(type(value), _BASE) or tensor_of(value).dtype.is_floating_point or tensor_of(value).is_complex():
        return value
    return _core.unwatched(tnp.ndarray.astype, (value, tnp.float64), None)


def _without_views(session: Session, result: Any, expected: Any) -> Any:
    """A scalar of numpy's is a value of its own: later writes to the array that it was taken from do not reach it."""
    if type(result) in (list, tuple) and type(expected) is type(result):
        return type(result)([_without_views(session, one, other) for one, other in zip(result, expected)])
    if type(result) is not tnp.ndarray or not is_a(expected, numpy.generic):
        return result
    shared = len(session.value_of(tensor_of(result)).storage.values) > 1
    return _core.unwatched(tnp.ndarray.copy, (result,), None) if shared else result


def _tensors(value: Any) -> Iterator[int]:
    """The ids of the tensors among arguments."""
    if type(value) in (list, tuple):
        for item in value:
            yield from _tensors(item)
    elif is_a(value, torch.Tensor):
        yield id(value)
    elif issubclass(type(value), _BASE):
        yield id(tensor_of(value))


def _has_tensor(value: Any) -> bool:
    if type(value) in (list, tuple):
        return any(map(_has_tensor, value))
    return is_a(value, torch.Tensor)


def numpy_frame(session: Session, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A Python function of torch's implementation was called: a method or operator of an array."""
    name = getattr(function, "__name__", "function")
    if name in _IN_PLACE and type(args[0]) is Scalar:
        return NotImplemented  # numpy's scalars have no such methods
    if name == "__iter__" and type(args[0]) is Array and tensor_of(args[0]).dim():
        return _core.captured(_SPACE["rows"], args, None)
    return _run(session, function, name, functools.partial(_attribute, name), args, kwargs)


#: numpy's iterator takes the rows one by one, so a write to the array in between is seen.  It is captured code, so it
#: cannot stand in a file of framelift's.
_SPACE = captured_functions("def rows(array):\n    for i in range(len(array)):\n        yield array[i]\n", "<numpy>")


def _attribute(name: str, owner: Any, *args: Any, **kwargs: Any) -> Any:
    found = getattr(owner, name)
    result = found(*args, **kwargs) if callable(found) else found
    if result is NotImplemented:
        raise Differs("numpy leaves that to the other operand")
    return result


def _has_array(value: Any) -> bool:
    if type(value) in (list, tuple):
        return any(map(_has_array, value))
    return is_a(value, (torch.Tensor, _BASE))


def _function(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    name = getattr(callable_, "__name__", "function")
    if not _SYMBOLIC.isdisjoint(_kinds(args)) and not _has_array((*args, *kwargs.values())):
        numbers = [arg for arg in args if type(arg) in _SYMBOLIC]
        is_known = None not in [arg.hint for arg in numbers]
        if is_a(callable_, numpy.ufunc) and not kwargs and is_known and all(type(arg) in _OPERANDS for arg in args):
            return numbers[0].home.outside(callable_, args)
        args = _of_this_call(args, _SYMBOLIC if name not in _BY_SIZE else (NumpyNumber,))
    if (
        not _has_array((*args, *kwargs.values()))
        and name not in _MAKERS
        and all(map(_is_value, (*args, *kwargs.values())))
    ):
        result = without_errors(session.world, name, callable_, args, kwargs)
        if is_a(result, numpy.generic) or is_leaf(result):
            return result
    if name in _OF_VALUES and all(map(_is_value, (*args, *kwargs.values()))):
        made = constant_array(session, callable_(*args, **kwargs))
        if made is not None:
            return made
    if name in ("array", "asarray") and args and all(map(_is_value, (*args[1:], *kwargs.values()))):
        made = _array_of_values(session, callable_, name, args, kwargs)
        if made is not None:
            return made
    return _run(session, _TWIN[id(callable_)], name, callable_, args, kwargs)


def _of_this_call(value: Any, kinds: Container[type]) -> Any:
    """A nest of lists and tuples with the scalars and numbers of this call in it."""
    if type(value) in _NESTS:
        return (list if type(value) is list else tuple)(_of_this_call(item, kinds) for item in value)
    return value.value() if type(value) in kinds else value


def constant_array(session: Session, result: Any) -> Any:
    """Return numpy's array of plain values as a constant of the graph.

    None where it is large, or of a kind that tensors do not have.
    """
    dtype: Any = (
        getattr(torch, result.dtype.name, None)
        if type(result) is numpy.ndarray and 0 < result.size <= _MOST_NUMBERS and result.ndim
        else None
    )
    if type(dtype) is not torch.dtype or dtype.is_complex:
        return None
    return array_over(session.call(torch.tensor, (result.tolist(),), {"dtype": dtype}), owns=True)


def _array_of_values(session: Session, callable_: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An array made of numbers: numpy says of which kind, torch makes it.  None where it holds anything else."""
    kinds = set(_kinds(args[0]))
    if not kinds <= _NUMERIC:
        return None
    try:
        expected = ask(callable_, args, kwargs)
    except Exception as error:
        raise _refuse(name, f"{name_of(type(error))}: {error}") from None
    dtype = getattr(torch, expected.dtype.name, None)
    symbolic = kinds.intersection(NUMBERS)
    if (
        type(dtype) is not torch.dtype
        or not expected.size
        or symbolic
        and (args[1:] or kwargs or any(issubclass(kind, complex) for kind in kinds))
    ):
        return None
    return array_over(
        session.call(torch.tensor, (args[0] if symbolic else expected.tolist(),), {"dtype": dtype}), owns=True
    )


def _kinds(value: Any) -> Iterator[type]:
    """The classes of what a nest of lists and tuples holds."""
    if type(value) in _NESTS:
        for item in value:
            yield from _kinds(item)
    else:
        yield type(value)


def _is_value(value: Any) -> bool:
    return (
        is_leaf(value)
        or is_a(value, (numpy.generic, numpy.dtype))
        or is_a(value, type)
        and (issubclass(value, numpy.generic) or value in _KINDS)
    )


#: classes of numbers that arrays are made of
_KINDS = (bool, int, float, complex)
_NUMERIC: set[type] = {*_KINDS, *NUMBERS}
_OPERANDS = frozenset((*_KINDS, *SCALARS, NumpyNumber, Int, Float))
_SYMBOLIC = frozenset((NumpyNumber, Int, Float))
_NESTS = (list, tuple, torch.Size)
#: functions that make arrays of sizes, which may be symbolic, and of numbers
_BY_SIZE = frozenset("zeros ones full eye identity arange array asarray reshape broadcast_to".split())
_TWIN: dict[int, Any] = {}
_BASE: Any = ()


def _pairs() -> Any:
    for ours, theirs in ((tnp, numpy), (tnp.linalg, numpy.linalg), (tnp.fft, numpy.fft)):
        for name, function in vars(ours).items():
            found = getattr(theirs, name, None)
            if (
                callable(function)
                and callable(found)
                and not name.startswith("_")
                and not is_a(found, type)
                and not is_a(function, type)
            ):
                yield found, function


def _value(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A scalar or dtype made of values is one; a scalar made of one number that changes is one that changes."""
    if (
        len(args) == 1
        and not kwargs
        and callable_ in SCALARS
        and type(args[0]) in (Int, Float, NumpyNumber)
        and args[0].hint is not None
    ):
        return args[0].home.outside(callable_, args)
    if not all(map(_is_value, (*args, *kwargs.values()))):
        raise _refuse(callable_.__name__, "of other than values")
    return callable_(*args, **kwargs)


def _plain_number(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Return the value of a scalar."""
    if kwargs or not args or not all(map(_is_value, args)):
        raise _refuse(callable_.__name__, "of other than values")
    return callable_(*args)


def _limits(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Return numpy's limits of a dtype. For floating-point dtypes it is one object for all calls, which numpy keeps."""
    made = _value(session, callable_, *args, **kwargs)
    return let_in(session.world, made, const(made)) if callable_ is numpy.finfo else made


if tnp is not None:
    substitute(
        *{kind for kind in (*numpy.ScalarType, numpy.dtype) if is_a(kind, type) and module_of(kind) == "numpy"}
        - {numpy.object_, numpy.void}
    )(_value)
    substitute(numpy.iinfo, numpy.finfo)(_limits)
    substitute(numpy.generic.item, numpy.generic.tolist)(_plain_number)
    _BASE = tnp.ndarray
    for _theirs, _ours in _pairs():
        if id(_theirs) not in SUBSTITUTES:  # numpy gives some of Python's own functions again
            _TWIN[id(_theirs)] = _ours
            substitute(_theirs)(_function)


# ---- from tensor to array and back ----------------------------------------------------------------------------------


def _numpy_of(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor = args[0]
    facts = recorder.value_of(tensor).facts
    if (
        len(args) > 1
        or kwargs
        or facts.requires_grad
        and is_grad_enabled()
        or facts.device.type != "cpu"
        or tnp is None
        or facts.dtype is torch.bfloat16
    ):
        raise Interrupt("tensor-data", "Tensor.numpy")
    if facts.requires_grad:  # numpy knows of no gradients, whatever the mode the array is used in
        tensor = recorder.record(target_of(torch.Tensor.detach), (tensor,), {})
    return array_over(tensor)


rule(torch.Tensor.numpy)(_numpy_of)


def _has_scalar(value: Any) -> bool:
    if type(value) in (list, tuple):
        return any(map(_has_scalar, value))
    return type(value) in (NumpyNumber, Scalar) or numpy is not None and issubclass(type(value), numpy.generic)


def _scalars_as_tensors(session: Session, value: Any) -> Any:
    """A nest of lists and tuples with tensors in place of numpy's scalars, whose kind they keep."""
    if type(value) in (list, tuple):
        return type(value)([_scalars_as_tensors(session, item) for item in value])
    if not _has_scalar(value):
        return value
    array = _given(session, value)
    if not issubclass(type(array), _BASE):
        raise Interrupt("torch-operation", f"with a scalar of type numpy.{name_of(type(value))}")
    return tensor_of(array)


def _are_alike(data: Any) -> bool:
    """Return whether this is a list of arrays of one shape and kind."""
    if type(data) not in (list, tuple) or not data or not all(type(array) is Array for array in data):
        return False
    first, *others = map(tensor_of, data)
    return bool(first.dim()) and all(one.shape == first.shape and one.dtype is first.dtype for one in others)


def _tensor_of(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """torch.from_numpy and similar functions, given an array."""
    if session.modes and callable_ is not torch.from_numpy:  # which torch shows to no mode
        return torch_call(session, callable_, args, kwargs)
    if args and callable_ is not torch.from_numpy and _has_scalar(args[0]):
        is_nest = type(args[0]) in (list, tuple)
        args = ((_scalars_as_tensors if is_nest else _given)(session, args[0]), *args[1:])
    if _has_scalar((kwargs.get("data"), kwargs.get("obj"))):
        raise Interrupt("torch-operation", f"torch.{callable_.__name__} of a scalar of numpy, whose kind it keeps")
    if callable_ is torch.tensor and args and _are_alike(args[0]) and not kwargs.get("requires_grad"):
        made = session.call(torch.stack, ([tensor_of(array) for array in args[0]],), {})
        return session.call(torch.as_tensor, (made, *args[1:]), kwargs) if len(args) > 1 or kwargs else made
    if not args or not is_a(args[0], _BASE):
        return torch_call(session, callable_, args, kwargs)
    tensor = tensor_of(args[0])
    if callable_ is torch.tensor and not kwargs.get("requires_grad"):
        copy = session.call(torch.Tensor.clone, (tensor,), {})
        return session.call(torch.as_tensor, (copy, *args[1:]), kwargs) if len(args) > 1 or kwargs else copy
    with DisableTorchFunction():  # another tensor over the array's memory each time
        tensor = session.record(target_of(torch.Tensor.detach), (tensor,), {}, keep=True)
    if callable_ is torch.from_numpy and len(args) == 1 and not kwargs:
        return tensor
    return session.call(callable_, (tensor, *args[1:]), kwargs)


substitute(torch.from_numpy, torch.as_tensor, torch.tensor, torch.asarray)(_tensor_of)
assert is_a(torch.from_numpy, types.BuiltinFunctionType)
