"""Before a capture: what surrounds the call, the stance and the limits may say no.  One function per question."""

from __future__ import annotations

import threading
import types
import weakref
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .. import _core, config
from .._core import is_a
from ..exc import FailOnRecompileLimitHit, IncorrectUsage, RecompileError
from ..guards.misses import Miss
from ..guards.sentences import explain
from ..torch_ports.graphs import fx_tracing_flag
from ..torch_ports.modes import dispatch_tls_is_dispatch_key_excluded
from ..torch_ports.state import get_tracing_state
from ..torch_ports.tensors import call_impl
from ..vocabulary.code_knowledge import knowledge_of
from ..vocabulary.log import topic, warn
from ..vocabulary.own_code import first_above
from ..vocabulary.reasons import Interrupt
from ..vocabulary.scopes import scope
from ..vocabulary.torch_code import is_torch_function
from . import stance
from .frame_rules import NoRule, frame_now, options_for
from .frames import MADE_BY_HAND, called_by_disabling
from .learned_shapes import Learned
from .records.captures import GraphBreak, Owner
from .records.messages import error_of
from .records.user_names import MODULE_CALLS, Names, names_in

#: to a miss: an entry for this call; True: look again, another thread made one; False: run eagerly; None: with all that
#: is called
Answer = _core.Entry | bool | None


@dataclass(frozen=True, slots=True)
class Asked:
    """One miss: the function, its entries, and why none served (None for a first capture)."""

    function: types.FunctionType
    entries: list[Any]
    locals: tuple[Any, ...]
    root: bool
    seen: dict[types.CodeType, Learned]  # what the driver knows of each frame's sizes and numbers
    pool: Any = None  # where captures of the frame are shared (sharing.Pool)
    why: Miss | None = None


def called(function: types.FunctionType, locals_: tuple[Any, ...]) -> Names:
    """Return the user's names of a root and its parameters: of a module, its `forward`."""
    module = locals_[0] if locals_ and function.__code__ in MODULE_CALLS else None
    return names_in(module) if is_a(module, torch.nn.Module) else Names()


def may_capture(asked: Asked) -> bool:
    """Return whether a miss may lead to a capture; False: run eagerly.  Raises where the program or an option asks for
    it.
    """
    return all(question(asked) for question in _QUESTIONS)


def may_exchange(asked: Asked) -> bool:
    """Return whether an uncompiled entry may be captured again for its compiled graph: that is no recompile."""
    return _surroundings(asked)


class _Running(threading.local):
    fullgraph = 0  # graphs of fullgraph=True that this thread is in


_running = _Running()


def alone(run: Callable[..., Any]) -> Callable[..., Any]:
    """`run`, during which nothing may be compiled (config.error_on_dynamo_callback_in_fullgraph_compiled_code)."""

    def fullgraph(*args: Any) -> Any:
        _running.fullgraph += 1
        try:
            return run(*args)
        finally:
            _running.fullgraph -= 1

    return fullgraph


def _surroundings(asked: Asked) -> bool:
    if _running.fullgraph:
        raise IncorrectUsage(
            f"{asked.function.__qualname__} would be compiled while code that was compiled with fullgraph=True runs "
            "(config.error_on_dynamo_callback_in_fullgraph_compiled_code)"
        )
    if _fx_tracing() and not config.force_compile_during_fx_trace:
        if config.error_on_nested_fx_trace and asked.root:
            raise IncorrectUsage(
                "Detected that you are using FX to symbolically trace a dynamo-optimized function. This "
                "is not supported at the moment."
            )
        return False
    if get_tracing_state() is not None:
        if config.error_on_nested_jit_trace and asked.root:
            raise IncorrectUsage(
                "Detected that you are using FX to torch.jit.trace a dynamo-optimized function. This is "
                "not supported at the moment."
            )
        return False
    return True


def is_below_autograd() -> bool:
    """Return True in the middle of an operation of a subclass, or of a mode that dispatches."""
    return dispatch_tls_is_dispatch_key_excluded("AutogradOther") and not torch.is_inference_mode_enabled()


def is_below_autograd_or_disabled() -> bool:
    """Return whether no frame is captured now: as above, or below TorchDynamo's wrapper of disabled functions."""
    return is_below_autograd() or called_by_disabling()


def is_for_trace() -> bool:
    """Return whether FX traces, and what is compiled is to be part of the trace
    (config.force_compile_during_fx_trace).
    """
    return config.force_compile_during_fx_trace and _fx_tracing()


def _fx_tracing() -> bool:
    """A symbolic trace is running, and no compiler's own.

    torch's flag may be one for all threads, and stays set in a child that was forked meanwhile.
    """
    return fx_tracing_flag() and not torch.compiler.is_compiling() and _traces_in_this_thread()


def _traces_in_this_thread() -> bool:
    return first_above(lambda frame: frame.f_code is torch.fx.Tracer.trace.__code__) is not None


def refused_code(code: types.CodeType, fullgraph: bool) -> tuple[types.CodeType, str]:
    """A root whose code was made by hand, and why it runs eagerly; that is an error with fullgraph=True."""
    stop = Interrupt("unsupported-code", f"{code.co_qualname} {MADE_BY_HAND}")
    if fullgraph:
        raise error_of(stop, code.co_qualname, GraphBreak(stop.reason.id, stop.sentence, stop.reason.hint))
    return code, stop.sentence


def forbids_recompiles() -> bool:
    """Return whether the stance allows captures that were made before, and no others."""
    now = stance.current()
    return now.name in ("fail_on_recompile", "eager_on_recompile") and not now.skip_guard_eval_unsafe


def _loaded_failures(asked: Asked) -> str:
    """The guards of captures from disk that fail for a call, as part of a message."""
    lines = []
    for entry in asked.entries:
        failure = entry.program.check(asked.locals) if entry.info.loaded else None
        if failure is not None:
            lines.append(f"\n    - {entry.info.name}: {explain(entry.program, failure, asked.locals)}")
    return f"\nFailed on the following precompiled guards:{''.join(lines)}" if lines else ""


def _stance(asked: Asked) -> bool:
    now = stance.current()
    names = called(asked.function, asked.locals)
    code, why = names.code or asked.function.__code__, names.sentence(asked.why, True) if asked.why is not None else ""
    if now.skip_guard_eval_unsafe:
        raise RecompileError(
            "Recompilation triggered with skip_guard_eval_unsafe stance. This usually means that you have "
            "not warmed up your model with "
            f"enough inputs such that you can guarantee no more recompilations. {code.co_qualname}: "
            f"{why or 'not captured before'}"
        )
    if now.name == "fail_on_recompile":
        if asked.entries and all(entry.info.reason and entry.info.graph_module is None for entry in asked.entries):
            return False  # it runs eagerly in any case
        raise RecompileError(
            f"Detected recompile when torch.compile stance is 'fail_on_recompile'. filename: "
            f"'{code.co_filename}', function name: "
            f"'{code.co_name}', line number: {code.co_firstlineno}"
            + (f"\n    triggered by the following guard failure(s):\n    - {why}" if why else "")
            + _loaded_failures(asked)
        )
    known = knowledge_of(asked.function.__code__)
    if now.name == "eager_then_compile" and not known.ran_eagerly:
        known.ran_eagerly = True
        _remember(asked)
        return False
    return now.name not in ("eager_on_recompile", "force_eager")


def _remember(asked: Asked) -> None:
    """The first call's sizes and numbers: what differs in the second becomes symbolic there."""
    seen = asked.seen.setdefault(asked.function.__code__, Learned())
    for name, value in zip(asked.function.__code__.co_varnames, asked.locals):
        if is_a(value, torch.Tensor):
            seen.meet(name, tuple(_core.of_tensor(value, "size")))
        elif type(value) in (int, float):
            seen.meet(name, value)


def _recompile(asked: Asked) -> bool:
    if asked.entries and config.error_on_recompile:
        names = called(asked.function, asked.locals)
        why = names.sentence(asked.why, True) if asked.why is not None else ""
        raise RecompileError(
            f"{names.title or asked.function.__qualname__} would be recompiled (config.error_on_recompile): {why}"
        )
    return True


_QUESTIONS = (_surroundings, _stance, _recompile)


#: captures of one instance and of one function together, whatever their causes, as multiples of the limit for one cause
_CAUSES, _INSTANCES = 4, 16


def owner_of(locals_: tuple[Any, ...]) -> Owner[Any] | None:
    """The module whose method is called: instances do not share a limit."""
    first = locals_[0] if locals_ else None
    return weakref.ref(first) if is_a(first, torch.nn.Module) else None


def cause_of(miss: Miss | None) -> tuple[str, str] | None:
    """A cause that counts against the limit: one value and what is asked of it, as a constant or as a symbol."""
    return None if miss is None else (miss.origin, "EQ" if miss.kind in ("RELATION", "CHECK", "JOINT") else miss.kind)


def is_full(
    entries: list[Any], locals_: tuple[Any, ...], limit: int, miss: Miss | None, taken: Container[Any] = ()
) -> bool:
    """Return whether the limit of captures is reached: by this cause in this instance, or by far too many of either.

    What an instance took over from others (`taken`) counts as its own: modules of one class have one limit, as far as
    one capture serves them.
    """
    owner = owner_of(locals_)
    mine = [entry.info for entry in entries if entry.info.owner is owner or entry.info in taken]
    if not mine:
        return len(entries) >= min(_INSTANCES * limit, config.accumulated_recompile_limit)
    # the oldest is what the others differ from
    same = 1 + sum(cause_of(info.miss) == cause_of(miss) for info in mine[:-1])
    return (
        same >= limit
        or len(mine) >= _CAUSES * limit
        or len(entries) >= min(_INSTANCES * limit, config.accumulated_recompile_limit)
    )


def is_left_with_its_call(full: Owner[Any] | None, code: types.CodeType, locals_: tuple[Any, ...]) -> bool:
    """Return whether a frame is part of the call of the module `full`, which runs eagerly since there is no room for
    another capture: to who compiled the module the call and its `forward` are one frame.
    """
    if full is None or owner_of(locals_) is not full:
        return False
    return code is call_impl.__code__ or code is names_in(locals_[0]).code


def is_at_total_limit(seen: Learned | None, limit: int) -> bool:
    """Return whether a frame was captured as often as it ever may be: entries that died with the program's objects are
    no longer among its own.

    So those of classes that a function makes each time it runs: at one place there are no more of them than of other
    values.
    """
    return seen is not None and (
        seen.captures >= min(_INSTANCES * limit, config.accumulated_recompile_limit)
        or any(count >= limit for _, count in seen.classes.values())
    )


def limit_message(function: types.FunctionType, names: Names, times: int, miss: Miss | None, then: str) -> str:
    """Return the message for a limit that is reached: the cause by name."""
    cause = f" because of {names.origin(miss.origin, True)}" if miss is not None and miss.origin else ""
    return (
        f"{names.title or function.__qualname__} was compiled {times} times (config.recompile_limit); "
        f"further variants{cause} {then} "
        f"Last miss: {names.text(miss.sentence, True) if miss is not None else 'none'}"
    )


def at_limit(function: types.FunctionType, names: Names, times: int, miss: Miss | None, fullgraph: bool) -> None:
    """The limit of captures is reached: an error where one was asked for."""
    if config.fail_on_recompile_limit_hit or fullgraph:
        asked = "fullgraph=True" if fullgraph else "config.fail_on_recompile_limit_hit"
        raise FailOnRecompileLimitHit(
            limit_message(function, names, times, miss, f"would run eagerly, which {asked} does not allow.")
        )


@scope
def options_of_frame() -> Iterator[None]:
    """`config.debug_dynamo_config_override`: options for the frame that is captured now."""
    text = config.debug_dynamo_config_override
    options = options_for(text, "debug_dynamo_config_override", frame_now()) if text else {}
    unknown = [name for name in options if name not in config.OPTIONS]
    if unknown:
        raise NoRule(f"debug_dynamo_config_override sets {unknown[0]}, which is no option")
    with config.patch.block(**options):
        yield


def suppressed(error: BaseException, name: str) -> bool:
    """`config.suppress_errors`: the failure is a warning, and the frame runs eagerly."""
    if not config.suppress_errors:
        return False
    warn(f"{name} runs eagerly (config.suppress_errors): {type(error).__name__}: {error}")
    topic("breaks").warning("suppressed in %s", name, exc_info=error)
    return True


# ---- Knowledge about an export whose Python runs now, for compiling ----


EXPORTS: list[bool] = []  # the exports whose Python runs now: whether a rehearsal would do instead


class BodyMet(BaseException):
    """Plain tracing came to an operator that captures functions of the program (torch.cond and similar ones): the
    program is to be rehearsed instead.
    """


def refuse_bodies(function: Any) -> None:
    """Called where something is to be compiled inside of an export."""
    if EXPORTS and EXPORTS[-1] and is_torch_function(function, "torch._higher_order_ops"):
        raise BodyMet
