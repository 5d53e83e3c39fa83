"""Names by which functions, classes and modules are found again in another process: a module, and a path in it.

Nothing is imported and no code of the program runs: what is not loaded already is not found.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

from .. import _core
from .._core import is_a
from ..overriding.modes import MODES
from ..torch_ports.operators import HigherOrderOperator, OpOverload, OpOverloadPacket
from ..torch_ports.tensors import PRINT_OPTS, VariableFunctions
from ..vocabulary.class_reads import members_of, module_of, qualname_of
from ..vocabulary.plain_types import FUNCTIONS
from ..vocabulary.written_forms import NAMES, OWN_NAMES

#: where functions written in C are found that do not know their module
_HOMES = (
    "torch",
    "torch._C",
    "torch._C._nn",
    "torch._C._linalg",
    "torch._C._fft",
    "torch._C._special",
    "torch._C._sparse",
    "torch._C._nested",
    "torch.nn.functional",
    "torch.functional",
    "framelift._core",
    "_operator",
    "builtins",
)
_OPERATORS = (OpOverload, OpOverloadPacket)
_DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType)
#: where decorators leave a function
_WRAPPED = "__wrapped__"
_GLOBALS = "*"  # the path of a module's globals
#: Python's classes that `types` names otherwise than they do themselves, and those that no module names
_IN_TYPES = {cls: name for name, cls in vars(types).items() if is_a(cls, type) and module_of(cls) == "builtins"}
_UNNAMED = "classes without a name"
_CLASSES = {
    qualname_of(type(one)): type(one)
    for one in (
        *map(
            iter, ((), [], {}, {}.values(), {}.items(), set(), "", "\u03b1", b"", bytearray(), range(0), range(2**70))
        ),
        *(reversed([]), reversed({}), reversed({}.values()), reversed({}.items())),
        *({}.keys(), {}.values(), {}.items(), iter(int, 0)),
    )
}
_NOTHING = object()


def module_name(module: Any) -> str | None:
    """The name under which a module is loaded."""
    return space_name(vars(module))


def space_name(space: dict[str, Any]) -> str | None:
    """The name of the module whose globals these are."""
    for name in (space.get("__name__"), getattr(space.get("__spec__"), "name", None)):
        module = sys.modules.get(name) if type(name) is str else None
        if is_a(module, types.ModuleType) and vars(module) is space:
            return name
    return None


def find(name: Any) -> Any:
    """The object of a name [module, path]; None where there is none."""
    module, path = name
    if module == "torch.ops":
        return _operator(path)
    if module == _UNNAMED:
        return _CLASSES.get(path)
    found: Any = sys.modules.get(module)
    if path == _GLOBALS:
        return vars(found) if is_a(found, types.ModuleType) else None
    for part in path.split(".") if path else ():
        found = _member(found, part)
        if found is _NOTHING:
            return None
    return found


def _member(owner: Any, part: str) -> Any:
    if is_a(owner, types.ModuleType):
        return vars(owner).get(part, _NOTHING)
    if type(owner) in FUNCTIONS and part == _WRAPPED:
        return _core.own_dict(owner).get(part, _NOTHING)
    if not is_a(owner, type):
        return _NOTHING
    found = members_of(owner).get(part, _NOTHING)
    if found is _NOTHING:
        found = _core.type_lookup(owner, part, _NOTHING)
    if type(found) in (staticmethod, classmethod):
        found = found.__func__
    if type(found) is types.ClassMethodDescriptorType:  # of a C class: bound to it
        found = getattr(owner, part)
    return found


def _operator(path: str) -> Any:
    space, _, rest = path.partition(".")
    found: Any = getattr(torch.ops, space, None)
    for part in rest.split("."):
        found = getattr(found, part, None)
    return found


def name_for(obj: Any) -> list[str] | None:
    """The name by which `find` gives this very object."""
    for module, path in _candidates(obj):
        if type(module) is str and type(path) is str and find((module, path)) is obj:
            return [module, path]
    return None


def _candidates(obj: Any) -> Iterator[tuple[Any, Any]]:
    if is_a(obj, types.ModuleType):
        yield module_name(obj), ""
    elif type(obj) is dict:
        yield ("sys", "modules") if obj is sys.modules else (space_name(obj), _GLOBALS)
    elif is_a(obj, type):
        yield module_of(obj), qualname_of(obj)
        yield OWN_NAMES.get(obj, ("", ""))
        yield "types", _IN_TYPES.get(obj)
        yield _UNNAMED, qualname_of(obj)
    elif type(obj) is types.FunctionType:
        yield obj.__module__, obj.__qualname__
        yield space_name(obj.__globals__), obj.__qualname__
        yield obj.__module__, obj.__name__
        yield obj.__module__, f"{obj.__qualname__}.{_WRAPPED}"
    elif type(obj) is types.BuiltinFunctionType:
        owner = obj.__self__
        if is_a(owner, type):
            yield module_of(owner), f"{qualname_of(owner)}.{obj.__name__}"
        yield obj.__module__, obj.__qualname__
        yield obj.__module__, obj.__name__
        for home in _HOMES:
            yield home, obj.__name__
    elif type(obj) in _DESCRIPTORS:
        yield module_of(obj.__objclass__), f"{qualname_of(obj.__objclass__)}.{obj.__name__}"
    elif type(obj) in FUNCTIONS:
        yield vars(obj).get("__module__"), vars(obj).get("__qualname__")
    elif obj is MODES:
        yield type(MODES).__module__, "MODES"
    elif obj is PRINT_OPTS:
        yield "torch._tensor_str", "PRINT_OPTS"
    elif obj is VariableFunctions:
        yield "torch._C", "_VariableFunctions"
    elif type(obj) in NAMES:
        yield NAMES[type(obj)](obj)
    elif type(obj) in _OPERATORS:
        yield "torch.ops", str(obj)
    elif is_a(obj, HigherOrderOperator):
        yield "torch.ops", f"higher_order.{obj.name()}"
