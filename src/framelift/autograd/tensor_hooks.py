"""Hooks on gradients: `Tensor.register_hook` in captured code.

On an external tensor, registering is an effect of the entry: the hook itself runs eagerly when gradients come.  On
a result, the hook is rehearsed into a graph of its own, which the graph registers; such a hook may change nothing
outside of itself.

torch counts the hooks of the process, those of modules too: `RemovableHandle.next_id`.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.hooks import RemovableHandle

from .. import _core
from ..calls.call_tables import substitute
from ..graph.fx.node_functions import hook_gradient
from ..graph.fx.values import Body
from ..graph.symbols.numbers import Float, Int
from ..higher_order.bodies import fresh, values_in
from ..higher_order.deferred_code import runs_later
from ..higher_order.operators import pure_body, record_step
from ..overriding.hook_numbers import Table
from ..torch_ports.autograd import is_grad_enabled, set_grad_enabled
from ..vocabulary.feature_state import FeatureState
from ..vocabulary.reasons import Interrupt
from ..vocabulary.scopes import scope

if TYPE_CHECKING:
    from ..recording.session import Session


@scope
def without_gradients() -> Iterator[None]:
    """As the engine of autograd runs a backward, and code in it."""
    before = is_grad_enabled()
    set_grad_enabled(False)
    try:
        yield
    finally:
        set_grad_enabled(before)


def new_handle() -> RemovableHandle:
    """A handle that says nothing yet: the entry's results may hold it, and its effects register the hook."""
    return object.__new__(RemovableHandle)


def register_hook(handle: RemovableHandle, tensor: torch.Tensor, hook: Any) -> None:
    """An effect of the entry; `handle` becomes that of the hook."""
    vars(handle).update(vars(torch.Tensor.register_hook(tensor, hook)))


def register_after_accumulation(handle: RemovableHandle, tensor: torch.Tensor, hook: Any) -> None:
    """The same for hooks that run when a gradient was added."""
    vars(handle).update(vars(torch.Tensor.register_post_accumulate_grad_hook(tensor, hook)))


#: what an effect of the entry may call to register a hook
REGISTERING = (register_hook, register_after_accumulation)


class Handle:
    """The handle of a registered hook.

    It can be dropped, the hook can be removed again, and where the entry registers it, the handle can be kept.
    """

    __slots__ = ("_kept", "_undo")

    def __init__(self, undo: Callable[[], None] | None = None, kept: bool = False) -> None:
        _UNDO.__set__(self, undo)
        _KEPT.__set__(self, kept)

    def __getattribute__(self, name: str) -> Any:
        undo = _UNDO.__get__(self) if name == "remove" else None
        if undo is None:
            raise Interrupt("torch-operation", "the handle of a hook")
        return _Removal(undo)

    def __reduce_ex__(self, _protocol: Any) -> Any:
        raise Interrupt("torch-operation", "the handle of a hook")


_UNDO: Any = vars(Handle)["_undo"]
_KEPT: Any = vars(Handle)["_kept"]


def is_left_to_the_entry(handle: Handle) -> bool:
    """Return whether an effect of the entry registers the hook; one that was removed again is not registered at all."""
    return bool(_KEPT.__get__(handle))


class _Removal:
    """A handle's `remove`.  Not a function: those can be made again outside of the capture."""

    __slots__ = ("_undo",)

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo = undo

    def __call__(self) -> None:
        self._undo()


def _undo(session: Session, where: list[Any], handle: Handle) -> None:
    """How a handle removes the hook that the last entry of `where` registers: an effect, or a step of the tape.

    Removed before any gradient came by, the hook was never there.
    """
    made, recorder = where[-1], session.recorder

    def undo() -> None:
        came_by = any(step.target.func is torch.autograd.grad for step in recorder.tape)
        if came_by or recorder.tape_is_a_body() or recorder.in_transform():
            raise Interrupt("torch-operation", "the handle of a hook")
        where[:] = [one for one in where if one is not made]
        _KEPT.__set__(handle, False)

    _UNDO.__set__(handle, undo)


def _by_the_entry(session: Session, registering: Any, tensor: Any, hook: Any) -> Handle:
    handle = Handle(kept=True)
    session.write("call", registering, len(session.effects), (handle, tensor, hook))
    _counted_by_effects(session)
    _undo(session, session.effects, handle)
    return handle


@substitute(torch.Tensor.register_post_accumulate_grad_hook)
def _register_post_accumulate(session: Session, self: Any, hook: Any) -> Any:
    value = session.value_of(self)
    if value.external is None or not value.facts.requires_grad or not value.facts.is_leaf:
        raise Interrupt(
            "torch-operation", "Tensor.register_post_accumulate_grad_hook, except on a leaf that is an input,"
        )
    return _by_the_entry(session, register_after_accumulation, self, hook)


@substitute(torch.Tensor.register_hook)
def _register_hook(session: Session, self: Any, hook: Any) -> Any:
    recorder = session.recorder
    value = recorder.value_of(self)
    if not value.facts.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if value.external is not None:
        return _by_the_entry(session, register_hook, self, hook)
    facts = value.facts.but(requires_grad=False, is_leaf=True, is_conj=False, is_neg=False)
    grad = fresh(recorder, facts, "grad", exact=False)
    try:
        with without_gradients():
            body = pure_body(session, "a tensor's hook", hook, (grad,))
    except Exception as error:
        raise Interrupt("torch-operation", f"a tensor's hook that raises {type(error).__name__}") from error
    if body.result is not None and not recorder.is_stand_in(body.result):
        raise Interrupt("torch-operation", "a tensor's hook that returns no tensor")
    module, around = body.close(recorder, values_in(recorder, (grad,)), body.result, takes=(Int, Float))
    runs_later(session, "a tensor's hook", hook, around=around)
    record_step(
        recorder, hook_gradient, [value, Body(module, "hook_body"), tuple(around)], {}, [value, *around], effect=True
    )
    registered = _REGISTERED.of(session)
    if registered.of_modules:
        _count(session)
    else:
        registered.of_results += 1
    handle = Handle()
    _undo(session, recorder.tape, handle)
    return handle


class _Registered:
    """Hooks that a rehearsal has registered."""

    of_modules = False
    of_inputs = False  # on external tensors
    of_results = 0  # so many, which are not counted yet


_REGISTERED = FeatureState(_Registered)
# its own code is a substitute's
_init = types.FunctionType(
    RemovableHandle.__init__.__code__.replace(co_name="__init__ "), vars(torch.utils.hooks), "__init__"
)
_init.__kwdefaults__ = RemovableHandle.__init__.__kwdefaults__


def _count(session: Session) -> None:
    """One more hook, as registering it counts it."""
    _core.captured(_init, (object.__new__(RemovableHandle), Table()), None)


def _counted_by_effects(session: Session) -> None:
    """Hooks on external tensors are counted when the entry registers them, so nobody may look at the count before."""
    registered = _REGISTERED.of(session)
    registered.of_inputs = True
    if registered.of_modules:
        raise Interrupt("torch-operation", "a hook on an input beside hooks registered on modules")


@substitute(RemovableHandle.__init__)
def _count_hook(session: Session, self: Any, hooks_dict: Any, *, extra_dict: Any = None) -> None:
    """Hooks are keys of tables by a number of torch's: it need only be greater than the keys that are there."""
    registered = _REGISTERED.of(session)
    if registered.of_inputs:
        raise Interrupt("torch-operation", "a hook registered on a module beside hooks on inputs")
    registered.of_modules = True
    # the graph registers those, before the count becomes what it is at the end
    for _ in range(registered.of_results):
        _count(session)
    registered.of_results = 0
    _core.captured(_init, (self, hooks_dict), {"extra_dict": extra_dict})
    number = vars(self).get("id")
    if type(number) is Int and number.hint is not None and type(hooks_dict) is Table:
        keys = list(hooks_dict)
        others = [key for key in keys if type(key) is int]
        if len(others) + sum(type(key) is Int and key.is_new for key in keys) == len(keys) and (
            not others or number > max(others)
        ):
            number.is_new = True
