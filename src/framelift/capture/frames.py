"""What the hook does with a code object: its twin, a handler, or a refusal; and which frames are worth a capture of
their own.
"""

from __future__ import annotations

import functools
import os
import sysconfig
import types
from typing import TYPE_CHECKING, Any

import torch

from .. import _core, config
from .._core import is_a
from ..boundary.world import World
from ..bytecode import make_twin
from ..calls.call_tables import CODE_HANDLERS, SUBSTITUTES
from ..recording.recorder import torch_operations
from ..substitutes.marks import disabled, forbidden, guard_mark, guard_unmarked, handler_of, refusing
from ..substitutes.numpy.functions import numpy_frame
from ..substitutes.python.basics import torch_call
from ..substitutes.python.code_objects import optimizer_break
from ..vocabulary.origins import Origin
from ..vocabulary.own_code import FRAMELIFT, own_file
from ..vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ..rehearsal.session import Session

__all__ = ["muted", "resolve_code", "skipped"]

#: files whose functions are for programs; in captured code each needs a handler
_PUBLIC = frozenset(
    {
        own_file("config.py"),
        own_file("testing.py"),
        *(own_file("surface", name) for name in ("compiling.py", "decorators.py", "drop_in.py")),
    }
)
_READS_OPTIONS = type(config).__getattr__.__code__  # plain Python, which whoever asks all modules for an attribute runs
_MODULE_WRAPPER = own_file("capture", "module_wrapper.py")  # its attribute access is part of the user's program
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_DYNAMO = _TORCH + "_dynamo" + os.sep
#: plain helpers, which the graphs of compiled autograd call
_RUNTIME = frozenset({_DYNAMO + "external_utils.py", _DYNAMO + "_trace_wrapped_higher_order_op.py"})
_NUMPY = _TORCH + "_numpy" + os.sep
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
_PACKAGES = sysconfig.get_paths()["purelib"] + os.sep


@functools.cache
def _handlers() -> dict[types.CodeType, dict[Any, Any]]:
    """Python functions that C code may call and that are not to run as twins: substitutes and torch operations, by
    their code.
    """
    found: dict[types.CodeType, dict[Any, Any]] = {}
    for function in torch_operations().values():
        if is_a(function, types.FunctionType):
            found.setdefault(function.__code__, {})[function] = torch_call
    for function, handler in SUBSTITUTES.values():
        if is_a(function, types.FunctionType):
            found.setdefault(function.__code__, {})[function] = handler
    return found


def resolve_code(code: types.CodeType) -> Any:
    """What the hook does with frames of `code` while rehearsing.

    A twin (code object); None for framelift's own code; a handler; (handlers by function, twin) where several functions
    share the code, as closures do; or a text that says why its frames cannot be watched.
    """
    handler = CODE_HANDLERS.get(code)
    if handler is not None:
        return handler
    handlers = _handlers().get(code)
    if (
        handlers is None
        and code.co_filename.startswith(FRAMELIFT)
        and code.co_filename != _MODULE_WRAPPER
        and code is not _READS_OPTIONS
    ):
        return f"own-function|{code.co_qualname}" if code.co_filename in _PUBLIC else None
    if handlers is not None:
        if code.co_freevars:
            return handlers, make_twin(code, _core.PROBES)
        return next(iter(handlers.values()))
    if code.co_filename.startswith(_DYNAMO):
        return _of_dynamo(code)
    if code.co_filename.startswith(_NUMPY):
        return numpy_frame
    if _of_triton(code):
        return f"unsupported-code|{code.co_qualname} of Triton"
    return make_twin(code, _core.PROBES)


def _guard_handling(world: World, function: types.FunctionType, origin: Origin) -> bool:
    """Guard that a function of the same code is handled alike.  False: what is done at a call depends on which function
    it is.
    """
    handler, code = handler_of(function), function.__code__
    if handler is disabled or CODE_HANDLERS.get(code) is disabled:
        guard_mark(world, origin, handler)
        return True
    if (
        handler is not None
        or code in CODE_HANDLERS
        or code in _handlers()
        or code.co_filename.startswith((FRAMELIFT, _DYNAMO, _NUMPY))
        or _of_triton(code)
    ):
        return False
    guard_unmarked(world, function, origin)
    return True


World.guard_handling = staticmethod(_guard_handling)


def _of_triton(code: types.CodeType) -> bool:
    """Whether this is what compiles and launches kernels."""
    return any(
        f"{os.sep}triton{os.sep}{part}{os.sep}" in code.co_filename for part in ("runtime", "compiler", "backends")
    )


def _nothing(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Bookkeeping of another front end: nothing of it is the program's."""


#: TorchDynamo puts these around nn.Module.__init__ and __setstate__ for the whole process: what they wrap runs, their
#: note is left out
_AROUND = frozenset(
    {
        "install_generation_tagging_init.<locals>.patched_init",
        "install_generation_tagging_init.<locals>.patched_setstate",
    }
)
_NOTES = frozenset({"GenerationTracker.tag"})


def _graph_break(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not optimizer_break(callable_):
        raise Interrupt("disabled", "graph_break")


def _patched(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """torch._dynamo.patch_dynamo_config around captured code: those of its options that framelift has hold until it is
    left.
    """
    if callable_.__name__ == "__exit__":
        session.notes[_patched].pop()()
        return
    inside = _core.is_internal(args[0])
    changes = (
        args[0].config_patch.changes
        if inside
        else session.load_attr(session.load_attr(args[0], "config_patch"), "changes")
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
        """The object itself was not entered, so what follows a break inside could not leave it: the break has to come
        before.
        """
        if not left:
            raise Interrupt("result-object", "patch_dynamo_config that was entered")

    session.notes.setdefault(_patched, []).append(leave)
    session.world.leaving.append(leave)
    session.world.finishing.append(stay_out)


#: options that act while captured code runs
_PATCHABLE = frozenset({"capture_scalar_outputs", "verbose"})


def _made_plainly(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A context object of TorchDynamo's, made of constants."""
    return callable_(*args, **kwargs)


#: context managers whose entering and leaving says something to other front ends alone
_SILENT = frozenset({"CudagraphOverrideContextManager.__enter__", "CudagraphOverrideContextManager.__exit__"})


def _of_dynamo(code: types.CodeType) -> Any:
    if code.co_qualname == "graph_break":
        return _graph_break
    if code.co_qualname in ("DynamoConfigPatchProxy.__enter__", "DynamoConfigPatchProxy.__exit__"):
        return _patched
    if code.co_qualname in _SILENT:
        return _nothing
    if code.co_filename in _RUNTIME:
        return make_twin(code, _core.PROBES)
    if code.co_filename.startswith(_DYNAMO + "mutation_guard"):
        if code.co_qualname in _AROUND:
            return make_twin(code, _core.PROBES)
        if code.co_qualname in _NOTES:
            return _nothing
    return _BY_NAME.get(code.co_name) or disabled


def _compiling(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return True


#: functions of torch._dynamo that programs call; all others of its frames end the capture
_BY_NAME: dict[str, Any] = {
    "is_compiling": _compiling,
    "patch_dynamo_config": _made_plainly,
    "override_cudagraphs": _made_plainly,
    "_set_stance": forbidden,
    "mark_static": _nothing,
    "graph_break": refusing("graph-break"),
    "skip_frame": refusing("skip-frame"),
}


#: compilers, some of which work while a graph's way back runs for the first time
_COMPILERS = tuple(_TORCH + os.path.join(*path) + os.sep for path in (("_functorch", "_aot_autograd"), ("_inductor",)))
_GRAPHS = own_file("graph", "fx", "node_functions.py")
_MODULE = _TORCH + os.path.join("nn", "modules", "module.py")
_FUNCTIONS = _TORCH + os.path.join(
    "nn", "modules", "_functions.py"
)  # autograd functions, whose context only plain Python has
_CALLS = ("Module._wrapped_call_impl", "Module._call_impl")  # the rest of it looks after attributes


def muted(code: types.CodeType) -> bool:
    """Whether nothing is captured below frames of this code: TorchDynamo's wrapper of disabled functions, compilers,
    and graphs that run already.
    """
    name = code.co_filename
    return (
        name.startswith(_COMPILERS)
        or name == _GRAPHS
        or name.startswith(_DYNAMO)
        and code.co_qualname.startswith("DisableContext.")
    )


def skipped(code: types.CodeType) -> bool:
    """Whether frames of this code run plainly when their caller could not be captured."""
    name = code.co_filename
    if name == _MODULE:
        return not code.co_qualname.startswith(_CALLS)
    if name.startswith(_TORCH):
        return name == _FUNCTIONS or not name.startswith((_TORCH + "nn" + os.sep + "modules", _TORCH + "optim"))
    if name.startswith((FRAMELIFT, "<")) or _of_triton(code):
        return True
    return name.startswith(_STDLIB) and not name.startswith(_PACKAGES)
