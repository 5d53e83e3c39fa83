"""The hook's decision about a code object: twin, handler or refusal; and which frames deserve a capture."""

from __future__ import annotations

import functools
import os
import sys
import types
from inspect import CO_OPTIMIZED
from opcode import opmap
from typing import Any

import torch

from .. import _core, config
from .._core import is_a
from ..boundary.world import World
from ..bytecode import make_twin, source_of
from ..cache.code_hash import holds_objects
from ..calls.call_tables import CODE_HANDLERS, SUBSTITUTES
from ..graph.metadata.without_dynamo import call_without_dynamo
from ..overriding.modes import torch_call
from ..python.arrays.functions import numpy_frame
from ..recording.rules.operations import torch_operations
from ..substitutes.marks import disabled, guard_mark, guard_unmarked, handler_of
from ..torch_ports.loaded import dynamo_decorators
from ..vocabulary.origins import Origin
from ..vocabulary.own_code import FRAMELIFT, asking, own_file
from ..vocabulary.torch_code import TORCH, is_python_file
from .dynamo_functions import DYNAMO, of_dynamo

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
_NUMPY = TORCH + "_numpy" + os.sep
#: the folders of Triton that compile and launch kernels
_OF_TRITON = tuple(part + os.sep for part in ("runtime", "compiler", "backends"))


@functools.cache
def _handlers() -> dict[types.CodeType, dict[Any, Any]]:
    """Python functions that C code may call and that run as they are: substitutes and torch operations."""
    found: dict[types.CodeType, dict[Any, Any]] = {}
    for function in torch_operations().values():
        if is_a(function, types.FunctionType):
            found.setdefault(function.__code__, {})[function] = torch_call
    for function, handler in SUBSTITUTES.values():
        if is_a(function, types.FunctionType):
            found.setdefault(function.__code__, {})[function] = handler
    return found


#: opcodes that look into the namespace of a class first
_IN_CLASSES = frozenset(opmap[name] for name in opmap if name.startswith("LOAD_FROM_DICT_OR_"))


@functools.cache
def prepare() -> None:
    """Prepare the process, once: before its first capture, which then takes as long as any other."""
    torch_operations()
    call_without_dynamo()
    make_twin(prepare.__wrapped__.__code__, _core.PROBES)  # loads what is different in each version of Python


def resolve_code(code: types.CodeType) -> Any:
    """Return what the hook does with frames of `code` while rehearsing.

    A twin (code object); None for framelift's own code; a handler; (handlers by function, twin) where several functions
    share the code, as closures do; or a text that says why its frames cannot be watched.
    """
    if is_made_by_hand(code):
        return f"unsupported-code|{code.co_qualname} {MADE_BY_HAND}"
    handler = CODE_HANDLERS.get(code)
    if handler is not None:
        return handler
    if _skipped_files and code.co_filename.startswith(tuple(_skipped_files)):
        return f"disallowed|{code.co_qualname}"
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
    if code.co_filename.startswith(DYNAMO):
        return of_dynamo(code)
    if code.co_filename.startswith(_NUMPY):
        return numpy_frame
    if _of_triton(code):
        return f"unsupported-code|{code.co_qualname} of Triton"
    if not code.co_flags & CO_OPTIMIZED or _IN_CLASSES.intersection(code.co_code[::2]):
        return f"unsupported-code|{code.co_qualname}, whose names may be entries of a dictionary"
    return make_twin(code, _core.PROBES)


def _guard_handling(world: World, function: types.FunctionType, origin: Origin) -> bool:
    """Guard that a function of the same code is handled alike.  False: it depends on which function it is."""
    code = function.__code__
    if is_made_by_hand(code):
        return False
    handler = handler_of(function)
    handlers = _handlers().get(code)
    if handler is disabled or CODE_HANDLERS.get(code) is disabled:
        guard_mark(world, origin, handler)
        return True
    if (
        handler is not None
        or code in CODE_HANDLERS
        or handlers is not None
        and (function in handlers or not code.co_freevars)
        or code.co_filename.startswith((FRAMELIFT, DYNAMO, _NUMPY))
        or _of_triton(code)
    ):
        return False
    guard_unmarked(world, function, origin)
    if handlers is not None:  # of one factory, as contextlib.contextmanager makes them
        world.guard(origin, "CHECK", (lambda now: now not in handlers, "has no handler of its own"), "handler")
    return True


World.guard_handling = staticmethod(_guard_handling)


def _of_triton(code: types.CodeType) -> bool:
    """Return whether this is what compiles and launches kernels: not Triton's language, in which kernels are
    written.
    """
    triton = sys.modules.get("triton")
    file = getattr(triton, "__file__", None)
    if file is None:
        return False
    folder = os.path.dirname(file) + os.sep
    return code.co_filename.startswith(folder) and code.co_filename[len(folder) :].startswith(_OF_TRITON)


#: compilers, some of which work while a graph's way back runs for the first time
_COMPILERS = tuple(TORCH + os.path.join(*path) + os.sep for path in (("_functorch", "_aot_autograd"), ("_inductor",)))
_GRAPHS = own_file("graph", "fx", "node_functions.py")
_MODULE = TORCH + os.path.join("nn", "modules", "module.py")
# autograd functions, whose context only plain Python has
_FUNCTIONS = TORCH + os.path.join("nn", "modules", "_functions.py")
#: framelift's own code, that of its entries, and that of graphs
_GENERATED = (FRAMELIFT, "<framelift", "<eval_with_key>")
_CALLS = ("Module._wrapped_call_impl", "Module._call_impl")  # the rest of it looks after attributes


def muted(code: types.CodeType) -> bool:
    """Return whether nothing is captured below this code: TorchDynamo's wrappers, compilers, graphs that run."""
    name = code.co_filename
    return (
        name.startswith(_COMPILERS)
        or name == _GRAPHS
        or name.startswith(DYNAMO)
        and code.co_qualname.startswith(("DisableContext.", "_TorchDynamoContext."))
    )


def called_by_disabling() -> bool:
    """Return whether the program's frame is called by TorchDynamo's wrapper of a function disabled without its
    callees.
    """
    decorators = dynamo_decorators.get()
    if decorators is None:
        return False
    caller = asking()
    return caller is not None and caller.f_code is decorators._nonrecursive_disable_wrapper_code


#: by id: equal code objects of different functions are not the same
_left_out: dict[int, types.CodeType] = {}


MADE_BY_HAND = "(code that holds objects no compiler puts there)"


def is_made_by_hand(code: types.CodeType) -> bool:
    """Return whether code holds objects that no compiler puts there: nothing watches them, and it may have no hash."""
    return holds_objects(source_of(code))


def skip_code(code: types.CodeType) -> None:
    """Never capture frames of this code as functions of their own; as a part of others they still are."""
    _left_out[id(code)] = code


def is_left_out(code: types.CodeType) -> bool:
    """Return whether frames of this code are to run eagerly: by `skip_code`, or because of TORCHDYNAMO_DEBUG_FUNCTION,
    which names the one function to compile.
    """
    return id(code) in _left_out or _ONLY not in ("", code.co_name)


_ONLY = os.environ.get("TORCHDYNAMO_DEBUG_FUNCTION", "")


_skipped_files: list[str] = []


def skip_files(path: str) -> None:
    """Functions of this file, or of the files of this folder, end the capture where they are called, and run eagerly;
    what they call may be captured.
    """
    if path not in _skipped_files:
        _skipped_files.append(path)
        _core.forget_verdicts()


def skipped(code: types.CodeType) -> bool:
    """Return whether frames of this code run plainly when their caller could not be captured."""
    name = code.co_filename
    if _skipped_files and name.startswith(tuple(_skipped_files)):
        return True
    if name == _MODULE:
        return not code.co_qualname.startswith(_CALLS)
    if name.startswith(TORCH):
        return name == _FUNCTIONS or not name.startswith((TORCH + "nn" + os.sep + "modules", TORCH + "optim"))
    return name.startswith(_GENERATED) or _of_triton(code) or is_python_file(name)


def closure_of(function: types.FunctionType) -> list[Any]:
    """Return the values of a function's closure that are bound."""
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            pass
    return found


def has_tensor(values: Any, depth: int = -1) -> bool:
    """Return whether a frame is worth a look: a tensor or module among its arguments or variables of its closure."""
    for value in values:
        if is_a(value, (torch.Tensor, torch.nn.Module)):
            return True
        if depth < 3 and is_a(value, (list, tuple)) and has_tensor(value, depth + 1):
            return True
        if depth < 3 and is_a(value, dict) and has_tensor(value.values(), depth + 1):
            return True
    return False


def _trampoline(result: Any) -> Any:
    return result


def _chain_test() -> types.FunctionType:
    """A function whose frame starts without a look for signals and threads: RESUME does so for arguments below 2."""
    raw = bytearray(_trampoline.__code__.co_code)
    assert raw[0] == opmap["RESUME"]
    raw[1] = 2
    return types.FunctionType(_trampoline.__code__.replace(co_code=bytes(raw)), {})


_core.connect(chain_test=_chain_test(), trampoline=_trampoline.__code__)
