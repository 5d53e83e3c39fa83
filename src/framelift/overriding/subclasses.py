"""Tensor subclasses, and other classes, that override torch functions: their `__torch_function__` is captured Python
like any other.

A stand-in is of the subclass itself; graphs see plain tensors only.  Changing a tensor's class is no operation: it
is done to a graph's inputs and results when it runs (`with_types`).  Subclasses that dispatch below the torch API
(`__torch_dispatch__`) are in recording/wrapper_results.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import get_default_nowrap_functions

from .. import _core
from .._core import is_a
from ..calls.call_tables import substitute
from ..graph.fx.targets import target_of
from ..graph.fx.values import Value
from ..graph.metadata.facts import has_a_say, is_overriding, is_tensor_like, new_stand_in
from ..graph.metadata.wrappers import arrived, asks_first, is_async
from ..recording.rules.ranks import rule
from ..torch_ports.autograd import set_grad_enabled
from ..torch_ports.modes import DisableTorchFunction, DisableTorchFunctionSubclass, disabled_torch_function_impl
from ..torch_ports.tensors import TensorBase
from ..vocabulary.class_reads import module_of, name_of, qualname_of
from ..vocabulary.feature_state import FeatureState
from ..vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ..recording.session import Recorder, Session

_plain = torch.Tensor.as_subclass
_disabled = disabled_torch_function_impl


def overriding(args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments, one per class, whose `__torch_function__` has a say, in the order they are asked."""
    found: list[Any] = []
    rest = [*args, *kwargs.values()]
    for arg in rest:
        if type(arg) in (list, tuple):
            rest.extend(arg)
        elif _has_a_say(arg, type(arg)) and all(type(arg) is not type(other) for other in found):
            place = next((i for i, other in enumerate(found) if issubclass(type(arg), type(other))), len(found))
            found.insert(place, arg)
    return found


def _has_a_say(arg: Any, kind: type) -> bool:
    return has_a_say(kind) or asks_first(kind) if is_a(arg, torch.Tensor) else is_tensor_like(kind)


def call_override(
    session: Session, func: Any, found: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> Any:
    """Ask each class in turn until one answers."""
    types = tuple(type(arg) for arg in found)
    for arg, cls in zip(found, types):
        session.lookup(cls, "__torch_function__")
        asked = cls if is_a(arg, torch.Tensor) else arg
        answer = _core.captured(
            _core.read(asked, "__torch_function__"),
            (func, types, args) if kwargs is None else (func, types, args, kwargs),
            None,
        )
        if answer is not NotImplemented:
            return answer
    raise TypeError(f"no implementation found for {func!r} on types that implement __torch_function__: {list(types)}")


class SubclassesOff:
    """`torch._C.DisableTorchFunctionSubclass()` as captured code sees it."""

    def __init__(self, session: Session) -> None:
        self._session, self._recorder = session, session.recorder

    def __enter__(self) -> None:
        self._before = self._recorder.subclasses_off
        self._recorder.subclasses_off = True

    def __exit__(self, *_exc: Any) -> None:
        self._recorder.subclasses_off = self._before


class _OpenBlocks:
    """How many blocks of DisableTorchFunction captured code is in."""

    count = 0


OPEN_BLOCKS = FeatureState(_OpenBlocks)


class AllOff(SubclassesOff):
    """`torch._C.DisableTorchFunction()`: without modes on the stack, the same."""

    def __enter__(self) -> None:
        self._open = OPEN_BLOCKS.of(self._session).count
        if self._session.modes:
            raise Interrupt("torch-state", "DisableTorchFunction around a torch-function mode")
        OPEN_BLOCKS.of(self._session).count = self._open + 1
        super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        OPEN_BLOCKS.of(self._session).count = self._open
        super().__exit__(*exc)


@substitute(DisableTorchFunction)
def _all_off(session: Session) -> SubclassesOff:
    return AllOff(session)


@substitute(DisableTorchFunctionSubclass)
def _off(session: Session) -> SubclassesOff:
    return SubclassesOff(session)


@substitute(torch.Tensor.__torch_function__.__func__)
def _default(session: Session, cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Run the `__torch_function__` that subclasses inherit: the operation, its results made tensors of the subclass."""
    if not all(issubclass(cls, one) for one in types):
        return NotImplemented
    with SubclassesOff(session):
        result = _core.captured(func, tuple(args), kwargs or {})
    return result if func in get_default_nowrap_functions() else _converted(session.recorder, result, cls)


@substitute(_disabled)
def _without(session: Session, func: Any, types: Any, args: Any = (), kwargs: Any = None, /) -> Any:
    with SubclassesOff(session):  # a C function, so classes do not bind it
        return _core.captured(func, tuple(args), kwargs or {})


def _converted(recorder: Recorder, result: Any, cls: type) -> Any:
    if cls is torch.Tensor:
        return result
    if is_a(result, torch.Tensor) and not is_a(result, cls):
        _check_class(cls)
        return _retyped(recorder, result, cls)
    if is_a(result, (tuple, list)):
        return type(result)(_converted(recorder, item, cls) for item in result)
    return result


def _retyped(recorder: Recorder, stand_in: torch.Tensor, cls: type) -> torch.Tensor:
    """The same result as a tensor of another class.

    Results of subclasses become objects of their own behind the graph (`with_types`); a plain one must be a result of
    its own in the graph, or it is the very object that it was made from.
    """
    value = recorder.value_of(stand_in)
    with DisableTorchFunction():
        if value.external is not None or value.step is None or not is_overriding(cls):
            value = recorder.value_of(
                recorder.record(target_of(torch.ops.aten.alias.default), (stand_in,), {}, keep=True)
            )
        made = Value(new_stand_in(value.facts, cls), value.facts, value.storage, value.view)
    made.step, made.path, made.exact = value.step, value.path, value.exact
    recorder.overrides = recorder.overrides or is_overriding(cls)
    return recorder.adopt(made)


@rule(TensorBase.as_subclass)
def _as_subclass(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor, cls = (*args, *kwargs.values())
    _check_class(cls)
    return _retyped(recorder, tensor, cls)


@rule(TensorBase._make_subclass)
def _make_subclass(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) != 2 or kwargs:
        raise Interrupt("torch-operation", "Tensor._make_subclass with options")
    cls, data = args
    _check_class(cls)
    return _retyped(recorder, recorder.record(target_of(torch.Tensor.detach), (data,), {}, keep=True), cls)


@substitute(TensorBase.__new__)
def _new(session: Session, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A tensor of another class, made of a tensor: an alias of it."""
    data = args[0] if len(args) == 1 and not kwargs else None
    if not session.is_stand_in(data):
        raise Interrupt(
            "unknown-callable", f"{module_of(cls)}.{qualname_of(cls)} (made of something else than a tensor)"
        )
    _check_class(cls)
    return _retyped(session.recorder, data, cls)


def _call_class(session: Session, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A class without a `__new__` of Python's is called."""
    made = _core.captured(cls.__new__, (cls, *args), kwargs)
    if name_of(type(cls.__init__)) == "function":
        _core.captured(cls.__init__, (made, *args), kwargs)
    return made


def is_made_of_tensors(callable_: Any) -> Any:
    """Return the handler for a class that overrides torch functions and inherits torch's `__new__`."""
    inherits = is_a(callable_, type) and is_overriding(callable_) and callable_.__new__ is TensorBase.__new__
    return _call_class if inherits else None


def _check_class(cls: Any) -> None:
    if cls is not torch.Tensor and not is_overriding(cls):
        raise Interrupt("tensor-subclass", getattr(cls, "__qualname__", "?"))


def is_tensor_class(callable_: Any) -> Any:
    """Return whether calling this makes a tensor of a subclass by its own Python `__new__`."""
    if is_a(callable_, type) and is_overriding(callable_) and name_of(type(callable_.__new__)) == "function":
        return True
    return None


def _of_class(tensor: torch.Tensor, cls: type) -> torch.Tensor:
    """The tensor as one of another class.  What requires grad does so afterwards, whatever mode the call begins and
    ends in: the graph itself may turn gradients on.
    """
    if torch.is_grad_enabled() or not tensor.requires_grad:
        return _plain(tensor, cls)
    set_grad_enabled(True)
    try:
        return _plain(tensor, cls)
    finally:
        set_grad_enabled(False)


def classes_of(outputs: Sequence[Any]) -> tuple[tuple[int, type], ...]:
    """Which results of a graph are of classes that override torch functions."""
    return tuple([(i, type(tensor)) for i, tensor in enumerate(outputs) if is_overriding(type(tensor))])


def with_types(
    graph: Callable[..., Any], inputs: Sequence[Any], gives: Sequence[tuple[int, type]]
) -> Callable[..., Any]:
    """`graph` for tensors of the classes of `inputs`, giving tensors of the classes that `classes_of` found."""
    takes = [(i, make) for i, tensor in enumerate(inputs) if (make := _made_plain_by(type(tensor))) is not None]
    if not takes and not gives:
        return graph

    def run(*given: Any) -> Any:
        with DisableTorchFunctionSubclass():
            plain = list(given)
            for i, make in takes:
                plain[i] = make(plain[i])
            results = list(graph(*plain))
            for i, cls in gives:
                results[i] = _of_class(results[i], cls)
        return results

    return run


def plain_examples(inputs: Sequence[Any]) -> list[Any]:
    """The inputs as backends are to see them."""
    with DisableTorchFunctionSubclass():
        return [tensor if (make := _made_plain_by(type(tensor))) is None else make(tensor) for tensor in inputs]


def _made_plain_by(kind: type) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """Return what makes of a tensor of this class the one that graphs take; None: they take it as it is."""
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        return None
    return _as_plain if is_overriding(kind) else arrived if is_async(kind) else None


def _as_plain(tensor: torch.Tensor) -> torch.Tensor:
    return _of_class(tensor, torch.Tensor)
