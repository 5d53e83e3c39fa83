"""The rehearsal of an exported call: what it gave as leaves and structure, what it assigned, and which modules were
being called.

An exported graph has no guards and no effects of its own, so this rehearsal is stricter than others: nothing is
assumed of the data, and values of inputs are no facts to rely on.
"""

from __future__ import annotations

import builtins
import dis
import functools
import logging
import sys
import types
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from .. import config
from ..boundary.dynamism import Dynamism
from ..bytecode import source_of
from ..capture.driver import capture_lock, rehearse
from ..capture.records.messages import break_of, error_of
from ..exc import InternalError
from ..graph.symbols.numbers import NUMBERS
from ..overriding.modes import at_rest
from ..recording.recorder_parts import Policy
from ..rehearsal.session import Rehearsal
from ..torch_ports.graphs import pytree
from ..torch_ports.modes import DisableTorchFunction
from ..torch_ports.operators import is_custom_class
from ..torch_ports.tensors import assert_async, call_impl
from ..vocabulary.own_code import asking
from ..vocabulary.plain_types import GIVEN, OBJECTS, PYTHON_CONSTANTS, TORCH_CONSTANTS
from ..vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ..graph.fx.values import Step
    from ..overriding.modes import Moment


@dataclass(frozen=True, slots=True, eq=False)
class Exit:
    """The results of the call: its leaves (stand-ins, symbolic numbers, constants) and structure.

    `assigned`: buffers that were assigned to.

    `lost` names the effects on objects outside that a graph cannot have.
    """

    leaves: list[Any]
    spec: Any
    assigned: list[tuple[torch.Tensor, Any]]
    lost: list[str]


#: the root of every export.  Not framelift's own file, so that it is captured code.
_scope: dict[str, Any] = {}
exec(
    builtins.compile(
        "def around(function, flatten):\n    def exported(*args, **kwargs):\n        return "
        "flatten(function(*args, **kwargs))\n"
        "    return exported\n",
        "<export>",
        "exec",
    ),
    _scope,
)

_CALL = call_impl.__code__


class ModuleTape(list[Any]):
    """A tape that knows the modules being called at each step: path and class, by a key for repeated calls."""

    def __init__(self, root: Any) -> None:
        super().__init__()
        self.names: dict[int, list[str]] = {}
        if isinstance(root, torch.nn.Module):
            for name, module in root.named_modules(remove_duplicate=False):
                self.names.setdefault(id(module), []).append(name)
        self._calls: dict[Any, tuple[str, str]] = {}  # frames of module calls: key and path
        self._counts: dict[int, int] = {}

    def append(self, step: Step) -> None:
        step.modules = self._stack()
        super().append(step)

    def _stack(self) -> dict[str, tuple[str, str]]:
        found: list[tuple[str, tuple[str, str]]] = []
        frame: types.FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code is not rehearse.__code__:
            code = frame.f_code
            if source_of(code) is _CALL:
                module = frame.f_locals.get("self")
                if id(module) in self.names:
                    cls = type(module)
                    key, name = self._called(frame, id(module))
                    found.append((key, (name, f"{cls.__module__}.{cls.__qualname__}")))
            frame = frame.f_back
        return dict(reversed(found))

    def _called(self, frame: types.FrameType, module: int) -> tuple[str, str]:
        """The key and path of one call.  A module that has several paths is taken to be called by each in turn.

        The key distinguishes modules, as torch.export.unflatten takes it: the paths of one module share the first
        one's.
        """
        known = self._calls.get(frame)
        if known is None:
            names, count = self.names[module], self._counts.get(module, 0)
            self._counts[module] = count + 1
            name, again = names[count % len(names)], count // len(names)
            known = self._calls[frame] = (f"L__self__{names[0]}" + (f"@{again}" if again else ""), name)
        return known


class _ExportSession(Rehearsal):
    """A session whose root is an exported call."""

    def __init__(
        self,
        root: Any,
        of_fakes: bool,
        keep_functions: bool,
        function: types.FunctionType,
        _plan: Any,
        policy: Policy,
        moment: Moment,
    ) -> None:
        policy = replace(
            policy, takes_fakes=of_fakes or moment.traced, keeps_all=True, exporting=True, keep_functions=keep_functions
        )
        super().__init__(function, _exit, policy, moment, ModuleTape(root))
        self.recorder.settings.refused = "a setting that an exported graph would not have"
        self.recorder.callbacks.guard_text, self.recorder.callbacks.switch = None, None
        self.recorder.known_values.guard_values = self._is_declared
        self.recorder.known_values.guard_result = lambda tensors, check: self._is_declared(tensors)
        self.recorder.callbacks.assume_otherwise = self._assume
        self.example = self._example

    def _is_declared(self, tensors: list[torch.Tensor]) -> bool:
        """There are no guards: only what the program itself declares to be constant is a fact."""
        return bool(tensors) and all(id(tensor) in self.recorder.known_values.declared for tensor in tensors)

    def _assume(self, tensor: torch.Tensor, truth: bool) -> bool:
        """A branch whose other side only raises: an `assert` is checked by the graph, all else depends on the data."""
        message = _asserted()
        if message is None:
            return False
        if not truth:
            tensor = self.recorder.call(torch.logical_not, (tensor,), {})
        self.recorder.call(assert_async, (tensor, message), {})
        return True

    def _example(self, stand_in: torch.Tensor) -> torch.Tensor:
        """A private copy of what a stand-in is in this call: for results that the program declares constant."""
        finished = self.recorder.finish([stand_in])
        given = [
            given.detach().clone()
            if isinstance(given, torch.Tensor)
            else self.recorder.with_symbols().shape_hint(given)
            for given in (finished.inputs if finished.arguments is None else finished.arguments)
        ]
        with DisableTorchFunction(), torch.no_grad():
            found: torch.Tensor = finished.graph_module(*given)[0]
            return found.detach().clone()


def _asserted() -> str | None:
    """The message of the `assert` statement that captured code is at; None where it is at none."""
    frame = asking()
    ahead = (
        [one for one in dis.get_instructions(frame.f_code) if one.offset > frame.f_lasti] if frame is not None else []
    )
    raising = next((i for i, one in enumerate(ahead) if one.opname == "RAISE_VARARGS"), 0)
    start = next(
        (i for i, one in enumerate(ahead[:raising]) if one.opname == "LOAD_ASSERTION_ERROR" or _is_class(one)), None
    )
    if start is None:
        return None
    return next(
        (one.argval for one in ahead[start:raising] if one.opname == "LOAD_CONST" and isinstance(one.argval, str)),
        "assertion error",
    )


def _is_class(instruction: dis.Instruction) -> bool:
    """Return if it loads the class of a failed assertion on CPython 3.14 and later."""
    return instruction.opname == "LOAD_COMMON_CONSTANT" and instruction.argrepr == AssertionError.__name__


def _exit(session: Rehearsal, value: Any) -> Exit:
    leaves, spec = value
    assigned, lost = _effects(session)
    for leaf in leaves:
        if not (session.is_stand_in(leaf) or type(leaf) in NUMBERS or isinstance(leaf, (*_PLAIN, *OBJECTS))):
            stop = Interrupt("result-object", type(leaf).__qualname__)
            stop.error = not_flattenable("outputs", leaf)
            raise stop
    return Exit(list(leaves), spec, assigned, lost)


#: what may be the result of an exported call, besides tensors and symbolic numbers
_PLAIN = (*PYTHON_CONSTANTS, *TORCH_CONSTANTS, type(...), slice)


def not_flattenable(which: str, leaf: Any) -> Exception:
    """The error that torch.export's users know for an argument or result that is no container of tensors."""
    from ..torch_ports.exports import trace_module as _trace

    kind = _trace.UserErrorType.INVALID_INPUT if which == "inputs" else _trace.UserErrorType.INVALID_OUTPUT
    return _trace.UserError(
        kind,
        f"It looks like one of the {which} with type `{type(leaf)}` is not supported or pytree-flattenable. "
        "Register its class with torch.export.register_dataclass or torch.utils._pytree.register_pytree_node.",
    )


#: what arguments may hold besides plain values
_GIVEN = (*GIVEN, torch.SymInt, torch.SymFloat, torch.SymBool)


def check_inputs(leaves: list[Any], *more: type) -> None:
    """Refuse arguments that are no containers of tensors, plain values and what is of these types."""
    for leaf in leaves:
        if not isinstance(leaf, (*_PLAIN, *_GIVEN, *more)) and not is_custom_class(type(leaf)):
            raise not_flattenable("inputs", leaf)


def _effects(session: Rehearsal) -> tuple[list[tuple[torch.Tensor, Any]], list[str]]:
    """Buffers that were assigned to, with what they are now; and the other effects, in words."""
    assigned: list[tuple[torch.Tensor, Any]] = []
    lost = [f"{effect.kind} {effect.key}" if isinstance(effect.key, str) else effect.kind for effect in session.effects]
    for shadow in session.shadows:
        copy, before = shadow.copy, shadow.before
        if not isinstance(copy, dict) or not isinstance(before, dict):
            if isinstance(before, (list, set)) and [*map(id, before)] != [*map(id, copy)]:
                lost.append(str(shadow.origin))
            continue
        for key in {**before, **copy}:
            if before.get(key) is copy.get(key):
                continue
            old, new = before.get(key), copy.get(key)
            if shadow.origin.key == "_buffers" and session.is_stand_in(old) and session.is_stand_in(new):
                assigned.append((session.external(old), new))
            else:
                lost.append(f"{shadow.origin}[{key!r}]")
    return assigned, lost


#: what a program says to its reader is no part of an exported one
_TALK = (
    print,
    warnings.warn,
    *(
        getattr(place, name)
        for place in (logging, logging.Logger)
        for name in ("critical", "debug", "error", "exception", "info", "log", "warning")
    ),
)


def rehearse_call(
    root: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamism: Dynamism,
    of_fakes: bool = False,
    keep_functions: bool = False,
) -> tuple[Any, Exit]:
    """Rehearse one call of `root`.  The session is to be closed by the caller.  `of_fakes`: its tensors may be fakes.

    Raises `framelift.exc.Unsupported` where the call has a graph break, and what the call itself raises.
    """
    function = _scope["around"](root, pytree.tree_flatten)
    name = getattr(root, "__qualname__", type(root).__qualname__)
    made: list[Any] = []
    options = {
        "capture_scalar_outputs": True,
        "capture_dynamic_output_shape_ops": True,
        "ignore_logging_functions": {*config.ignore_logging_functions, *_TALK},
    }
    from ..torch_ports.exports import ignore_backend_decomps

    with capture_lock, config.patch.block(**options), ignore_backend_decomps(), at_rest() as moment:
        session, found, stop, *_ = rehearse(
            function,
            (args, kwargs),
            Policy(dynamism, fullgraph=True),
            moment,
            made,
            begin=functools.partial(_ExportSession, root, of_fakes, keep_functions),
        )
    if stop is None:
        for what in dict.fromkeys(found.lost):
            warnings.warn(f"an exported program has no such effect: {what}", stacklevel=4)
        return session, found
    try:
        if not isinstance(stop, Interrupt) or stop.reason.id != "lazy-module" or stop.first is None:
            refuse(stop, session, name)
            raise InternalError("unreachable")
        stop.first()  # the program is what it is once a lazy module has its parameters
    finally:
        session.close()
    return rehearse_call(root, args, kwargs, dynamism, of_fakes, keep_functions)


def refuse(stop: BaseException, session: Rehearsal, name: str) -> None:
    """Raise the error of a call that cannot be captured as one graph."""
    if not isinstance(stop, Interrupt):
        raise stop
    if stop.error is not None:
        raise stop.error
    found = break_of(stop, session)
    found = replace(found, places=tuple(place for place in found.places if place.file != "<export>"))
    raise error_of(stop, name, found, "export: ") from None
