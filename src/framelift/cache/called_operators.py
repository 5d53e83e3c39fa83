"""Operators that captures call, as data: torch's own by their names, those of Python by all that they are made of.

An operator of the program runs when the graph does, so an edited kernel is not a wrong one.  But its other functions
decided what was captured: the shapes of its results, and its gradients.  So an operator of `torch.library.custom_op`
is known by the code of its functions and by the files these are in, where all but the kernel use nothing else but
torch, Python's built-in functions and `math`.
"""

from __future__ import annotations

import types
from typing import Any

from .._core import is_a
from ..torch_ports.operators import OPDEFS
from ..vocabulary.class_reads import module_of
from ..vocabulary.written_forms import NotKept
from .code_hash import code_hash, nested
from .source_files import content_hash

_OWN = ("torch", "math", "builtins", "typing", "__future__")
_FUNCTIONS = ("_init_fn", "_abstract_fn", "_setup_context_fn", "_backward_fn", "_vmap_fn")
#: other things that such an operator may have; versions of torch do not have all of these
_OTHER_WAYS = ("_torch_dispatch_fns", "_autocast_dtype", "_autocast_cuda_dtype", "_autocast_cpu_dtype")


def operator_facts(operator: Any) -> list[Any]:
    """Return the facts of an operator that are written, in JSON's types; raises `NotKept`."""
    text = str(operator)
    if text.startswith(("aten.", "_c10d_functional.")):
        return [text]
    space, _, rest = text.partition(".")
    definition = OPDEFS.get(f"{space}::{rest.partition('.')[0]}")
    if definition is None or any(getattr(definition, name, None) for name in _OTHER_WAYS):
        raise NotKept("an operator that is not torch's own, whose code may change", text)
    found = [getattr(definition, name, None) for name in _FUNCTIONS]
    kernel = found[0] if found[1] is not None else None  # without a fake, it says what results are like
    facts = [None if one is None else _function(one, text, one is kernel) for one in found]
    return [text, str(definition._schema), facts]


def _function(function: Any, operator: str, is_kernel: bool) -> list[str]:
    if type(function) is not types.FunctionType or function.__closure__ is not None:
        raise NotKept("a function of an operator is made elsewhere", operator)
    code = function.__code__
    for one in nested(code) if not is_kernel else ():
        for name in one.co_names:
            value = function.__globals__.get(name)
            if value is not None and not _is_known(value, code.co_filename):
                raise NotKept("a function of an operator uses others, whose code may change", f"{name} in {operator}")
    return [code_hash(code), _file(code.co_filename)]


def _is_known(value: Any, path: str) -> bool:
    if type(value) is types.FunctionType and value.__code__.co_filename == path:
        return True
    if is_a(value, types.ModuleType):
        return value.__name__.partition(".")[0] in _OWN
    home = module_of(value) if is_a(value, type) else getattr(value, "__module__", None)
    return type(home) is str and home.partition(".")[0] in _OWN


def _file(path: str) -> str:
    try:
        return content_hash(path)
    except OSError:
        raise NotKept("a function of an operator is in no file", path) from None
