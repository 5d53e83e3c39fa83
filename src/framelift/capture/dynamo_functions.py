"""A fact of torch (seen in 2.11 to 2.15): the functions of torch._dynamo that programs call, by their names.

The package is not imported, so its functions are known by file and name alone.
"""

from __future__ import annotations

import contextlib
import os
import types
from typing import TYPE_CHECKING, Any

import torch

from .. import _core, config
from .._core import is_a
from ..boundary.becomes.arrays import Array, array_over, tensor_of
from ..bytecode import make_twin
from ..calls.call_tables import handler_form
from ..graph.symbols.numbers import Int
from ..substitutes.marks import disabled, forbidden, ignored, refusing
from ..substitutes.python.code_objects import optimizer_break
from ..vocabulary.feature_state import FeatureState
from ..vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ..recording.session import Session

DYNAMO = os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), "_dynamo") + os.sep
#: plain Python: helpers that the graphs of compiled autograd call, and the table of backends
_PLAIN = frozenset(
    DYNAMO + name
    for name in ("external_utils.py", "_trace_wrapped_higher_order_op.py", os.path.join("backends", "registry.py"))
)


#: TorchDynamo puts these around nn.Module.__init__ and __setstate__ for the whole process: what they wrap runs, their
#: note is left out
_AROUND = frozenset(
    {
        "install_generation_tagging_init.<locals>.patched_init",
        "install_generation_tagging_init.<locals>.patched_setstate",
    }
)
#: a switch for torch.compile alone, and the modules that it makes
_OTHERS = ("error_on_graph_break", "ErrorOnGraphBreak", "OptimizedModule", "_set_in_optimized_module")
_NOTES = frozenset({"GenerationTracker.tag", "_GenerationTracker.tag"})  # the second since torch 2.15


@handler_form
def _graph_break(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> None:
    if not optimizer_break(callable_):
        raise Interrupt("disabled", "graph_break")


#: the patches of torch._dynamo's configuration that captured code is in
_PATCHED: FeatureState[list[Any]] = FeatureState(list)


@handler_form
def _patched(session: Session, callable_: Any, patched: Any, /, *error: Any) -> None:
    """torch._dynamo.patch_dynamo_config around captured code, for the options that framelift has."""
    if callable_.__name__ == "__exit__":
        _PATCHED.of(session).pop()()
        return
    inside = _core.is_internal(patched)
    changes = (
        patched.config_patch.changes
        if inside
        else session.load_attr(session.load_attr(patched, "config_patch"), "changes")
    )
    patch = config.patch(
        {name: value for name, value in changes.items() if name in config.OPTIONS and name in _PATCHABLE}
    )
    patch.__enter__()
    left: list[Any] = []  # by the program, or by the end of the rehearsal

    def leave() -> None:
        if not left:
            patch.__exit__(None, None, None)
            left.append(True)

    def stay_out() -> None:
        """The object was not entered, so code after a break inside could not leave it: the break comes before it."""
        if not left:
            raise Interrupt("result-object", "patch_dynamo_config that was entered")

    _PATCHED.of(session).append(leave)
    session.world.ends.leaving.append(leave)
    session.at_end(stay_out)


#: options that act while captured code runs
_PATCHABLE = frozenset({"capture_scalar_outputs", "verbose"})


@handler_form
def _made_plainly(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A context object of TorchDynamo's, made of constants, and made inside: no guard is about it."""
    made = callable_(*args, **kwargs)
    _core.mark_internal(made)
    return made


@handler_form
def switches_nothing(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Nothing to switch here: a context or a decorator.  torch makes a class at each call, which dies."""
    given = [*args, *kwargs.values()]
    return given[0] if given and given[0] is not None else contextlib.nullcontext()


#: what override_cudagraphs says of the graph
CUDAGRAPHS: FeatureState[list[Any]] = FeatureState(list)


@handler_form
def override_cudagraphs(session: Session, context: Any, /) -> None:
    """torch._dynamo.override_cudagraphs entered in captured code: its graph says so to the backend."""
    read = session.load_attr if not _core.is_internal(context) else getattr
    from ..torch_ports.inductor import CudagraphAnnotation as made

    if made is not None:  # before torch 2.12 there is none
        CUDAGRAPHS.of(session)[:] = [made(read(context, "fwd"), read(context, "bwd"))]


#: context managers whose leaving says something to other front ends alone
_SILENT = frozenset({"CudagraphOverrideContextManager.__exit__"})


@handler_form
def _as_array(session: Session, tensor: Any, /) -> Any:
    """torch.compiler.wrap_numpy gives a tensor to numpy's functions, with its history and wherever it is."""
    facts = session.value_of(tensor).facts
    if facts.requires_grad or facts.device.type != "cpu":
        return array_over(tensor)
    return session.call(torch.Tensor.numpy, (tensor,), {})


@handler_form
def _as_tensor(session: Session, array: Any, /) -> Any:
    """Convert a resulting array as wrap_numpy does."""
    if is_a(array, Array):
        tensor = tensor_of(array)
        facts = session.value_of(tensor).facts
        if facts.requires_grad or facts.device.type != "cpu":
            return tensor
    return _core.captured(torch.as_tensor, (array,), None)


@handler_form
def _tune_for(session: Session, callable_: Any, number: Any, value: Any, /) -> None:
    """torch._dynamo.override_optimization_hint: a fact for compilers, about a number that only the graph knows."""
    callable_(number.raw if is_a(number, Int) else number, value)


#: the functions inside wrap_numpy, by what they call
_ARRAYS = {"numpy": _as_array, "as_tensor": _as_tensor}


def of_dynamo(code: types.CodeType) -> Any:
    """Return what the hook does with frames of a function in torch._dynamo's files."""
    if code.co_qualname == "graph_break":
        return _graph_break
    if code.co_qualname in ("DynamoConfigPatchProxy.__enter__", "DynamoConfigPatchProxy.__exit__"):
        return _patched
    if code.co_qualname == "CudagraphOverrideContextManager.__enter__":
        return override_cudagraphs
    if code.co_qualname in _SILENT:
        return ignored
    if code.co_qualname.startswith("wrap_numpy.<locals>.wrap.<locals>.") and code.co_names[-1:]:
        return _ARRAYS.get(code.co_names[-1]) or make_twin(code, _core.PROBES)
    if code.co_filename in _PLAIN or code.co_qualname.startswith(_OTHERS):
        return make_twin(code, _core.PROBES)
    if code.co_filename.startswith(DYNAMO + "mutation_guard"):
        if code.co_qualname in _AROUND:
            return make_twin(code, _core.PROBES)
        if code.co_qualname in _NOTES:
            return ignored
    return _BY_NAME.get(code.co_name) or disabled


@handler_form
def _compiling(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> bool:
    return True


#: functions of torch._dynamo that programs call; all others of its frames end the capture
_BY_NAME: dict[str, Any] = {
    "is_compiling": _compiling,
    "_get_error_on_graph_break": handler_form(lambda session, callable_, /: False),
    "_set_error_on_graph_break": ignored,
    "patch_dynamo_config": _made_plainly,
    "override_cudagraphs": _made_plainly,
    "disable_nested_graph_breaks": switches_nothing,
    "override_optimization_hint": _tune_for,
    "_set_stance": forbidden,
    "mark_static": ignored,
    "graph_break": refusing("graph-break"),
    "skip_frame": refusing("skip-frame"),
}
