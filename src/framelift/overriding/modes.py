"""Torch-function modes: the program's own stack of them, kept beside torch's, and each torch call sent through it.

Modes that are active when the compiled function is called are external objects, reached through `MODES`; their
Python is captured like any other.  What the program leaves on the stack, or takes from it, is an effect.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode

from .. import _core
from .._core import is_a
from ..boundary.attributes.classes import read_of_type
from ..boundary.becomes.leaves import is_constant
from ..boundary.becomes.opaque import refuse_opaque
from ..boundary.gateway import let_in
from ..calls.call_tables import substitute
from ..graph.metadata.live_fakes import described_transforms, transforms_off
from ..graph.state.patched import notice_patches
from ..graph.state.torch_state import asked_of_nesting, autocast_nesting
from ..graph.symbols.numbers import Bool, Float
from ..graph.symbols.numpy_numbers import NumpyNumber
from ..recording.rules.ranks import RULES
from ..torch_ports.autograd import pop_saved_hooks, push_saved_hooks, top_saved_hooks
from ..torch_ports.modes import (
    GLOBAL_DEVICE_CONTEXT,
    DeviceContext,
    DisableTorchFunction,
    TorchFunctionState,
    disable_current_modes,
    enable_torch_function,
    get_dispatch_stack_at,
    get_function_stack_at,
    get_overloaded_args,
    get_torch_function_state,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
    is_torch_function_mode_enabled,
    len_torch_dispatch_stack,
    len_torch_function_stack,
    pop_mode,
    pop_torch_dispatch_stack,
    pop_torch_function_stack,
    push_mode,
    push_on_torch_dispatch_stack,
    push_on_torch_function_stack,
)
from ..torch_ports.tensors import make_subclass
from ..vocabulary.class_reads import qualname_of
from ..vocabulary.feature_state import FeatureState
from ..vocabulary.origins import const
from ..vocabulary.outside_exceptions import release_frames
from ..vocabulary.reasons import Interrupt
from ..vocabulary.scopes import scope
from ..vocabulary.torch_code import is_torch_function
from .hook_numbers import uncounted_hooks
from .opened_functions import opened, opened_by_attributes, opened_by_class, opened_by_patches
from .subclasses import OPEN_BLOCKS, call_override, overriding

if TYPE_CHECKING:
    from ..recording.session import Session

_push, _pop, _length, _at = (
    push_on_torch_function_stack,
    pop_torch_function_stack,
    len_torch_function_stack,
    get_function_stack_at,
)


class _Modes:
    """The thread's stacks as attributes, so that an origin can lead to each mode: `MODES.mode_0` is the outermost."""

    def __getattr__(self, name: str) -> Any:
        if name == "transforms":
            return described_transforms()
        if name == "default_device":
            return getattr(GLOBAL_DEVICE_CONTEXT, "device_context", None)
        kind, _, index = name.partition("_")
        if kind == "mode" and index.isdecimal() and int(index) < _length():
            return _at(int(index))
        raise AttributeError(name)


MODES = _Modes()


class Moment(NamedTuple):
    """Torch at the call of a compiled function: its state and its modes, outermost first."""

    state: Any
    modes: list[Any]
    subclasses_off: bool = False
    all_off: bool = False  # `torch._C.DisableTorchFunction()` around the call: nobody is shown anything
    transforms: Sequence[Any] = ()  # interpreters of function transforms that the call is inside of
    traced: bool = False  # FX traces the call: its modes see the graph when it runs, and nothing of its capture


@scope
def modes_off() -> Iterator[Moment]:
    """Take the thread's modes off torch's stack; they are put back afterwards."""
    switch = get_torch_function_state()
    inert, off = switch == TorchFunctionState.ALL_DISABLED, switch != TorchFunctionState.ENABLED
    with _core.TorchKept():
        state = _core.torch_state()
        found = [_pop() for _ in range(_length())][::-1]
        yield Moment(state, [] if inert else found, off, inert)


@scope
def modes_back(modes: Sequence[Any]) -> Iterator[None]:
    """The modes that were taken off for a capture are on torch's stack, while torch functions are disabled: guards find
    them there.
    """
    for mode in modes:
        _push(mode)
    try:
        yield
    finally:
        for _ in modes:
            _pop()


@scope
def _saved_hooks_off() -> Iterator[None]:
    """They are about tensors that a backward needs; the graph meets them when it runs."""
    off = []
    while (top := top_saved_hooks(True)) is not None:
        off.append(top)
        pop_saved_hooks()
    try:
        yield
    finally:
        for pack, unpack in reversed(off):
            push_saved_hooks(pack, unpack)


@scope
def _ignoring_modes_off() -> Iterator[None]:
    """Dispatch modes that do not want to see into what is compiled (`ignore_compile_internals`) see the graph when it
    runs, and nothing of its capture.  Where there is another one, all stay; torch's own (`_mode_key`), which all say
    so, are others.
    """
    modes = [get_dispatch_stack_at(i) for i in range(len_torch_dispatch_stack())]
    ignoring = [mode.ignore_compile_internals() and getattr(mode, "_mode_key", None) is None for mode in modes]
    off = modes if all(ignoring) else []
    for _ in off:
        pop_torch_dispatch_stack(None)
    try:
        yield
    finally:
        for mode in off:
            push_on_torch_dispatch_stack(mode)


@scope
def at_rest(traced: bool = False) -> Iterator[Moment]:
    """Torch without modes, overriding subclasses, function transforms and saved-tensor hooks, for a capture."""
    notice_patches()
    with (
        _ignoring_modes_off(),
        uncounted_hooks(),
        modes_off() as moment,
        disable_current_modes() if traced else contextlib.nullcontext(),
        DisableTorchFunction(),
        transforms_off() as transforms,
        _saved_hooks_off(),
    ):
        try:
            modes = [] if traced else moment.modes
            yield moment._replace(transforms=transforms, modes=modes, traced=traced)
        except BaseException as error:
            release_frames(error)
            raise
    notice_patches()  # modules that a backend imported


def without_modes(graph: Callable[..., Any]) -> Callable[..., Any]:
    """`graph` as it was captured: what the modes do is in it."""

    def run(*inputs: Any) -> Any:
        with modes_off(), enable_torch_function():
            return graph(*inputs)

    return run


class _ModesAround:
    """The program's modes that were there at the beginning, and whether the entry puts some on torch's stack."""

    def __init__(self) -> None:
        self.before: list[Any] = []
        self.leaves = False


MODES_AROUND = FeatureState(_ModesAround)


def import_modes(session: Session, moment: Moment) -> None:
    """Let the active modes in: they are the stack captured code begins with."""
    seen = [let_in(session.world, mode, const(MODES).to("attr", f"mode_{i}")) for i, mode in enumerate(moment.modes)]
    OPEN_BLOCKS.of(session).count = int(moment.all_off)
    session.modes[:] = seen
    MODES_AROUND.of(session).before = seen


def import_transforms(session: Session, moment: Moment) -> None:
    """The transforms the call is inside of: each tensor of theirs is one here too, and the graph is for just this
    stack.

    Most calls are inside of none, and stay so by a guard: the torch state shows functorch's, and here is
    forward-mode's.
    """
    level = forward_ad._current_level
    session.guard(const(vars(forward_ad)).to("item", "_current_level"), "EQ", level)
    if moment.transforms:
        session.live.begin_inside(moment.transforms)
        stack = session.live.ask(described_transforms)
        if not session.runs_as_is():
            raise Interrupt("active-transform", stack[-1][0].lower())
        session.guard(const(MODES).to("attr", "transforms"), "EQ", stack)
    elif level >= 0 and not session.runs_as_is():  # compiled graphs drop tangents
        raise Interrupt("active-mode", "a level of forward-mode differentiation")


def guard_nesting(session: Session) -> None:
    """Where the program opens or leaves autocast regions inside of an external one."""
    saved = session.recorder.saved
    found = asked_of_nesting(saved) if saved is not None else None
    if found is not None:
        session.guard(const(autocast_nesting), "CHECK", found)


def note_changes(session: Session) -> None:
    """Note the program's changes of the mode stack as effects: modes taken off, then modes put on."""
    before, now = MODES_AROUND.of(session).before, session.modes
    same = next((i for i, (a, b) in enumerate(zip(before, now)) if a is not b), min(len(before), len(now)))
    for i in range(len(before) - same):
        session.write("call", _pop, -1 - i, ())
    for i, mode in enumerate(now[same:]):
        session.write("call", _push, i, (mode,))
    MODES_AROUND.of(session).leaves = len(now) > same


def is_overridden(session: Session, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a torch call with these arguments is one for a mode or a subclass of the program."""
    recorder = session.recorder
    return bool(recorder.modes or recorder.overrides and not recorder.subclasses_off and overriding(args, kwargs))


def torch_call(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A torch operation of captured code: for the innermost mode, then overriding subclasses, then the recorder."""
    recorder = session.recorder
    own = opened_by_class(session, callable_, args, kwargs) if recorder.overrides else None
    own = own or opened_by_patches(session.world, callable_)
    own = own or opened_by_attributes(session.world, callable_, args, kwargs)
    if own is not None:
        return _core.captured(own, args, kwargs)
    if not is_overridden(session, args, kwargs):
        try:
            return recorder.call(callable_, args, kwargs)
        except Interrupt as stop:
            asked = (
                stop.reason.id == "torch-operation" and not recorder.subclasses_off and bool(overriding(args, kwargs))
            )
            inner = _opened(callable_) if stop.reason.id in _MAY_OPEN and not asked else None
            if inner is None and not asked:
                raise
        if not asked:
            return _core.captured(inner, args, kwargs)
    return shown_by_torch(session, callable_, args, kwargs)


def shown_by_torch(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A torch call as modes and subclasses are shown it: which function, types and arguments, and how often, is torch's
    own affair.

    So torch is called, with `_Spy` as its only mode.
    """
    if callable_ in _SHOWN_TO_NOBODY:
        return session.call(callable_, args, kwargs)
    if any(type(one) in _NUMBERS for one in (*args, *kwargs.values())):  # symbolic numbers that torch does not know
        return dispatch(session, callable_, None, args, kwargs)
    refuse_opaque((*args, *kwargs.values()))
    spy = _Spy(session)
    with enable_torch_function(), spy:
        # torch hands an empty table on, where it was given one
        result = callable_(*args, **kwargs) if kwargs else callable_(*args)
    if not spy.asked:
        raise Interrupt(
            "torch-operation", f"{getattr(callable_, '__name__', callable_)}, which torch shows to no mode,"
        )
    return result


#: reasons why an operation cannot be one node, but what it is made of may be captured
_MAY_OPEN = frozenset({"tensor-item", "tensor-bool", "data-dependent-shape", "torch-operation"})


def _opened(function: Any) -> Any:
    """Return the function of torch to capture for an operation that cannot be one node."""
    if (
        type(function) is not types.FunctionType
        or not (is_torch_function(function, "torch.nn.functional") or is_torch_function(function, "torch.functional"))
        or (function.__closure__ or id(function) in RULES)
    ):
        return None
    return opened(function)


def dispatch(
    session: Session, func: Any, types_: tuple[type, ...] | None, args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> Any:
    """Call the innermost mode, which is off the stack while its `__torch_function__` runs; or the subclasses among the
    arguments.

    `types_` are those that torch shows, None where torch was not asked.
    """
    recorder = session.recorder
    stack = recorder.modes
    found = overriding(args, kwargs or {}) if not recorder.subclasses_off and types_ != () else []
    if types_ and found:
        among = [arg for arg in found if any(type(arg) is kind for kind in types_)]
        if not among and not stack:  # torch looks at one operand alone, and that one's class overrides nothing
            raise Interrupt(
                "tensor-subclass",
                f"{qualname_of(type(found[0]))} as the other operand of {getattr(func, '__name__', func)}",
            )
        found = among
    if not stack:
        if found:
            return call_override(session, func, found, args, kwargs)
        own = opened_by_class(session, func, args, kwargs or {}) if recorder.overrides else None
        return recorder.call(func, args, kwargs or {}) if own is None else _core.captured(own, args, kwargs or {})
    whole = list(stack)
    mode = stack.pop()
    try:
        handler = _core.read(mode, "__torch_function__")
        types_ = tuple(type(arg) for arg in found) if types_ is None else types_
        answer = _core.captured(handler, (func, types_, args) if kwargs is None else (func, types_, args, kwargs), None)
    finally:
        stack[:] = whole
    if answer is NotImplemented:  # torch would ask the classes of the arguments next, and then complain
        raise Interrupt("torch-operation", f"{getattr(func, '__name__', func)}, which a mode leaves to others,")
    return answer


_SHOWN_TO_NOBODY = frozenset(
    (
        torch.Tensor.as_subclass,
        make_subclass,
        torch.set_autocast_enabled,
        torch.set_autocast_dtype,
        torch.set_autocast_cache_enabled,
    )
)
_NUMBERS = frozenset((Float, Bool, NumpyNumber))


class _Spy(TorchFunctionMode):
    """Stands on torch's stack while one of torch's own functions says whom it is shown to."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.asked = False

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        self.asked = True
        with DisableTorchFunction():
            return dispatch(self.session, func, tuple(types), args, kwargs)


@substitute(_length)
def _len_stack(session: Session) -> int:
    return len(session.modes)


@substitute(_push)
def _push_on_stack(session: Session, mode: Any, /) -> None:
    if OPEN_BLOCKS.of(session).count:
        raise Interrupt("torch-state", "a torch-function mode inside DisableTorchFunction")
    session.modes.append(mode)


@substitute(_pop)
def _pop_from_stack(session: Session) -> Any:
    if not session.modes:
        raise Interrupt("torch-state", "Popping from an empty torch function mode stack")
    return session.modes.pop()


@substitute(_at)
def _stack_at(session: Session, place: int, /) -> Any:
    return session.modes[place]


@substitute(len_torch_dispatch_stack)
def _no_dispatch_modes(session: Session) -> int:
    return 0  # with a mode there, nothing is captured


@substitute(is_torch_function_mode_enabled)
def _any_mode(session: Session) -> bool:
    return bool(session.modes)


@substitute(has_torch_function, has_torch_function_unary, has_torch_function_variadic)
def _has_torch_function(session: Session, /, *args: Any) -> bool:
    """Torch's own is the recorder's."""
    return is_overridden(session, args, {})


def _shown_types(args: tuple[Any, ...]) -> tuple[type, ...]:
    """The types that torch shows for these arguments: plain tensors are among them here, where Python code asks."""
    with enable_torch_function():
        return tuple(map(type, get_overloaded_args(args)))


@substitute(torch.overrides.handle_torch_function)
def _handle_torch_function(session: Session, public_api: Any, relevant_args: Any, /, *args: Any, **kwargs: Any) -> Any:
    shown = () if session.recorder.subclasses_off else _shown_types(tuple(relevant_args))
    return dispatch(session, public_api, shown, args, kwargs)


@substitute(types.GetSetDescriptorType.__get__, types.MemberDescriptorType.__get__, property.__get__)
def _get(session: Session, callable_: Any, found: Any, owner: Any, kind: Any = None, /) -> Any:
    """`Tensor.shape.__get__(x)`, as modes see attributes."""
    if is_a(owner, torch.Tensor):
        return session.world.of_tensor(
            owner, found.__name__ if type(found) is types.GetSetDescriptorType else "", found
        )
    if kind is None and type(found) in (types.GetSetDescriptorType, types.MemberDescriptorType):
        if is_a(owner, type) and found.__objclass__ is type:
            return read_of_type(session.world, owner, found.__name__)
        reads = _core.type_lookup(type(owner), "__getattribute__", None)
        if _core.type_lookup(type(owner), found.__name__, None) is found and type(reads) is types.WrapperDescriptorType:
            return _core.read(owner, found.__name__)  # what a dot gives: such descriptors come before all else
    if any(_core.is_external(arg) or is_constant(arg) and not _core.is_internal(arg) for arg in (owner, kind)):
        raise Interrupt("callable-on-handle", "__get__ of a descriptor")
    refuse_opaque((found, owner, kind))
    return _core.natively(callable_, (found, owner, kind), None)


def keep_default_device(context: Any) -> None:
    """Set the context that `torch.set_default_device` keeps, in this thread."""
    GLOBAL_DEVICE_CONTEXT.device_context = context


#: the modes that `torch.set_default_device` has put in place, the one of the beginning first
_DEFAULT_DEVICE: FeatureState[list[Any]] = FeatureState(list)


@substitute(torch.set_default_device)
def _set_default_device(session: Session, device: Any) -> None:
    """As torch does it: the mode of the old device leaves the stack, that of the new one comes to its bottom."""
    known, new = _DEFAULT_DEVICE.of(session), None
    if not known:
        known.append(let_in(session.world, MODES.default_device, const(MODES).to("attr", "default_device")))
    old = known[-1]
    if old is not None:
        _core.captured(_core.read(old, "__exit__"), (None, None, None), None)
    if device is not None:
        new = _core.captured(DeviceContext, (device,), None)
        _core.captured(_core.read(new, "__enter__"), (), None)
    known.append(new)
    session.write("call", keep_default_device, len(session.effects), (new,))


class DeviceBlock:
    """`with torch.device(...)`, done by C code in eager mode: a mode on top of the stack while the block runs."""

    __slots__ = ("_device",)

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def __enter__(self) -> torch.device:
        _core.captured(push_mode, (_core.captured(DeviceContext, (self._device,), None),), None)
        return self._device

    def __exit__(self, *_exc: Any) -> None:
        _core.captured(pop_mode, (), None)
