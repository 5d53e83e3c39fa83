"""torch.func: its Python layers run as captured code; here are the primitives below them, each recorded as a node of
its own.

Levels are entered and left for real, but only on the live fakes' own stack (graph/metadata/live_fakes.py), so what
a program meets inside a transform (sizes without the batch dimension, `requires_grad` of the level) is functorch's
own answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .._core import is_a
from ..calls.call_tables import substitute
from ..graph.fx.targets import target_of
from ..graph.fx.values import Value
from ..graph.metadata.arguments import take
from ..graph.state.torch_state import read_state
from ..recording.live_recording import record_live
from ..torch_ports.autograd import (
    autograd_functions,
    eager_transforms,
    functorch,
    make_dual,
    predispatch,
    saved_hooks_error,
    torch_c,
    unpack_dual,
    vmap_module,
)
from ..torch_ports.tensors import VF
from ..vocabulary.reasons import Interrupt
from .modes import is_overridden, shown_by_torch

if TYPE_CHECKING:
    from ..recording.session import Session

_places = [
    functorch,
    torch_c,
    autograd_functions,
    torch,
    VF,
    eager_transforms,
    vmap_module,
    torch.autograd.forward_ad,
    predispatch,
]


def _found(names: str) -> list[Any]:
    """Every callable of these names in the modules that hold functorch's primitives."""
    found = [getattr(place, name, None) for name in names.split() for place in _places]
    return [func for func in found if callable(func) and not is_a(func, type)]


def _record(
    session: Session, primitive: Any, args: tuple[Any, ...], kwargs: dict[str, Any], effect: bool = False
) -> Any:
    recorder = session.recorder
    found: list[Value] = []
    kept = take(args, recorder.by_stand_in, [], found)
    named = dict(zip(kwargs, take(kwargs.values(), recorder.by_stand_in, [], found)))
    return record_live(recorder, target_of(primitive), kept, named, found, read_state(), True, effect)


@substitute(*_found("_grad_increment_nesting _jvp_increment_nesting"))
def _differentiate(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Opens a level to differentiate in.  Torch itself suspends an inference mode for its length, which nodes for that
    mode would cross.
    """
    if torch.is_inference_mode_enabled():
        raise Interrupt("torch-state", "differentiation by torch.func in inference mode")
    return _record(session, callable_, args, kwargs, effect=True)


@substitute(
    *_found(
        "_vmap_increment_nesting _vmap_decrement_nesting _grad_decrement_nesting _jvp_decrement_nesting "
        "set_inplace_requires_grad_allowed "
        "_set_fwd_grad_enabled _saved_tensors_hooks_disable "
        "_saved_tensors_hooks_enable _set_tensor_requires_grad lazy_load_decompositions _maybe_load_decompositions"
    )
)
def _switch(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Changes the state of the transforms: done, and kept in the graph."""
    return _record(session, callable_, args, kwargs, effect=True)


@substitute(*_found("_enter_dual_level"))
def _enter_dual(session: Session, callable_: Any) -> Any:
    level = _record(session, callable_, (), {}, effect=True)
    session.live.enter_dual(1)
    return level


@substitute(*_found("_exit_dual_level"))
def _exit_dual(session: Session, callable_: Any, *, level: int) -> Any:
    session.live.check_dual("leaving a level of forward-mode differentiation that was entered outside", 1)
    _record(session, callable_, (), {"level": level}, effect=True)
    session.live.enter_dual(-1)


#: those of them that torch shows to modes and subclasses
_SHOWN = (make_dual, unpack_dual)


@substitute(
    *_found("_add_batch_dim _remove_batch_dim _wrap_for_grad _unwrap_for_grad _make_dual _unpack_dual _autograd_grad")
)
def _primitive(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Wraps, unwraps or differentiates tensors: one node."""
    if callable_ in _SHOWN and is_overridden(session, args, kwargs):
        return shown_by_torch(session, callable_, args, kwargs)
    return _record(session, callable_, args, kwargs)


def _asks(session: Session, callable_: Any, /, *args: Any) -> Any:
    """Asks functorch about its state or about a tensor: answered now, no node."""
    recorder = session.recorder
    return recorder.live.ask(callable_, *(recorder.value_of(arg) if is_a(arg, torch.Tensor) else arg for arg in args))


substitute(
    *_found(
        "is_batchedtensor is_gradtrackingtensor is_functorch_wrapped_tensor is_legacy_batchedtensor "
        "maybe_get_level maybe_get_bdim "
        "maybe_current_level get_inplace_requires_grad_allowed _are_functorch_transforms_active _is_fwd_grad_enabled"
    )
)(_asks)


@substitute(*_found("_saved_tensors_hooks_is_enabled _saved_tensors_hooks_get_disabled_error_message"))
def _asks_for_hooks(session: Session, callable_: Any) -> Any:
    """Return whether hooks on saved tensors may be set; what was so when the rehearsal began is a guard."""
    disabled = session.live.disabled
    session.guard_answer(saved_hooks_error, disabled)
    return _asks(session, callable_)


@substitute(*_found("unwrap_if_dead"))
def _unwrap_if_dead(session: Session, callable_: Any, tensor: Any, /) -> Any:
    recorder = session.recorder
    if not recorder.live.wraps(recorder.value_of(tensor)):
        return tensor
    return _record(session, callable_, (tensor,), {})


@substitute(
    *_found(
        "peek_interpreter_stack get_interpreter_stack get_unwrapped pop_dynamic_layer_stack push_dynamic_layer_stack"
    )
)
def _inside(session: Session, callable_: Any, /, *args: Any) -> Any:
    raise Interrupt("torch-operation", f"torch._C._functorch.{callable_.__name__}")
