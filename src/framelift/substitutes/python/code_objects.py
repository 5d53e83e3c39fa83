"""Source text run as captured code: exec and eval, with given namespaces, as dataclasses and named tuples use them.

Code runs in a given namespace as the body of a class statement does: its frame comes through the hook like any other.
"""

from __future__ import annotations

import ast
import builtins
import dis
import operator
import os
import sys
import types
import warnings
from typing import TYPE_CHECKING, Any

import torch

from ... import _core
from ..._core import is_a
from ...boundary.becomes.leaves import is_constant, is_leaf
from ...boundary.becomes.opaque import Opaque
from ...calls.call_tables import substitute
from ...calls.frame_views import EvalLocals, caller, frame_locals, module_globals
from ...vocabulary.feature_state import FeatureState
from ...vocabulary.reasons import Interrupt
from .new_classes import NamespaceOnly

if TYPE_CHECKING:
    from ...recording.session import Session

_FUTURE = 0x1FE0000 | 0x2000  # the bits of code flags that compile() inherits
_RESULT = ".result"
#: an expression without these reads nothing but its own constants
_REACHING = (ast.Name, ast.Call, ast.Lambda, ast.comprehension, ast.Await, ast.Yield, ast.YieldFrom)

_OPTIMIZER = os.path.join(os.path.dirname(torch.__file__), "optim", "optimizer.py")


def optimizer_break(callable_: Any) -> bool:
    """Return whether this is the break that torch.optim asks for around a step, so that it is compiled without grad
    mode.

    The driver sees to that by itself.
    """
    if getattr(callable_, "__name__", "") != "graph_break":
        return False
    frame: types.FrameType | None = caller()
    while frame is not None and frame.f_code.co_name == "graph_break":  # its own frame, where the hook met it
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename == _OPTIMIZER


def _made(session: Session, source: Any, mode: str, flags: int, filename: str = "<string>") -> Any:
    """Compiled source; an error is the compiler's to put in words."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        code = compile(source, filename, mode, flags, True)
    if said:
        raise Interrupt("unsupported-code", "code that the compiler warns of")
    return code


#: expressions that captured code compiled, by the ids of their code: the code, and its text
_COMPILED: FeatureState[dict[int, tuple[types.CodeType, str]]] = FeatureState(dict)


@substitute(compile)
def _compile(session: Session, /, source: Any, filename: Any, mode: Any, *args: Any, **kwargs: Any) -> Any:
    """The code of an expression, which `eval` is given, as forward references are."""
    if args or kwargs or type(source) is not str or type(filename) is not str or mode != "eval":
        raise Interrupt("unsupported-code", "compile() of other than the text of an expression")
    code = _made(session, source, "eval", caller().f_code.co_flags & _FUTURE, filename)
    _COMPILED.of(session)[id(code)] = code, source
    return code


def _check_code(code: types.CodeType) -> None:
    """Code that was compiled as a line of a dialogue shows what it calculates; `import *` reads modules unwatched."""
    for step in dis.get_instructions(code):
        if step.opname == "PRINT_EXPR" or step.opname == "CALL_INTRINSIC_1" and step.arg == 1:
            raise Interrupt("unsupported-code", "code that prints what it calculates")
        if _imports_all(step):
            raise Interrupt("unsupported-code", "code with `import *`")


def _run(session: Session, code: types.CodeType, globals_: dict[str, Any], locals_: Any) -> None:
    _check_code(code)
    body = types.FunctionType(code, globals_, code.co_name)
    _core.mark_internal(body)
    session.keep_alive(body)
    _core.natively(builtins.__build_class__, (body, code.co_name), {"metaclass": NamespaceOnly(locals_)})


def _binds(code: types.CodeType) -> bool:
    """Return whether module-level code binds or unbinds names of its own."""
    return any(
        step.opname in ("STORE_NAME", "DELETE_NAME", "SETUP_ANNOTATIONS") or _imports_all(step)
        for step in dis.get_instructions(code)
    )


def _imports_all(step: dis.Instruction) -> bool:
    return step.opname == "IMPORT_STAR" or "IMPORT_STAR" in step.argrepr


def _namespaces(session: Session, name: str, globals_: Any, locals_: Any, binds: bool) -> tuple[dict[str, Any], Any]:
    """The two namespaces for the code: a dictionary made inside, or a module's own with locals made inside."""
    if globals_ is None:
        frame = caller()
        globals_ = module_globals(session, frame)
        if frame.f_locals is not frame.f_globals:
            locals_ = frame_locals(session, frame)
    world = session.world
    only_read = name == "eval" and not binds
    if locals_ is not None and (type(locals_) is not dict or id(locals_) in world.by_seen) and not only_read:
        raise Interrupt("unsupported-code", f"{name}() with external locals")
    found = world.by_seen.get(id(globals_))
    if found is None and type(globals_) is dict:
        _core.mark_internal(globals_)
        usual = _core.read(builtins, "__dict__")
        if not _reads_as_itself(globals_.setdefault("__builtins__", usual), usual):
            raise Interrupt("unsupported-code", f"{name}() with built-ins of its own")
        return globals_, globals_ if locals_ is None else locals_
    if found is not None and type(found.original) is dict and (locals_ is not None or not binds):
        module = sys.modules.get(found.original.get("__name__", ""))
        if module is not None and vars(module) is found.original:
            return found.original, {} if locals_ is None else locals_
    raise Interrupt("unsupported-code", f"{name}() in this namespace")


def _reads_as_itself(names: Any, usual: Any) -> bool:
    """Return whether names that stand behind a namespace made inside may be read as those of a module are, by and
    by.
    """
    if type(names) is dict:
        return all(type(name) is str and (is_leaf(value) or is_constant(value)) for name, value in names.items())
    return names is usual or names is builtins


def _are_namespaces(globals_: Any, locals_: Any) -> bool:
    """Return whether exec() and eval() take these: a dictionary, and a mapping."""
    if type(globals_) is Opaque or type(locals_) is Opaque:
        raise Interrupt("unsupported-code", "code in a namespace of a C type")
    is_mapping = locals_ is None or _core.type_lookup(type(locals_), "__getitem__", None) is not None
    return is_mapping and (globals_ is None or is_a(globals_, dict))


def _has_builtins(globals_: Any) -> bool:
    """Return whether a namespace has its built-ins already, which code that runs there puts in otherwise."""
    if globals_ is None:
        return True
    return type(globals_) is dict and bool(_core.captured(operator.contains, (globals_, "__builtins__"), None))


@substitute(exec)
def _exec(session: Session, source: Any, globals: Any = None, locals: Any = None, /, *, closure: Any = None) -> None:
    if closure is not None:
        raise Interrupt("unsupported-code", "exec() with a closure")
    if not _are_namespaces(globals, locals):
        return exec("", globals, locals)  # raises
    if type(source) not in (str, bytes):
        raise Interrupt("unsupported-code", "exec() of other than text")
    code = _made(session, source, "exec", caller().f_code.co_flags & _FUTURE)
    where, names = _namespaces(session, "exec", globals, locals, _binds(code))
    _run(session, code, where, names)


@substitute(eval)
def _eval(session: Session, source: Any, globals: Any = None, locals: Any = None, /) -> Any:
    if not _are_namespaces(globals, locals):
        return eval("", globals, locals)  # raises
    _, source = _COMPILED.of(session).get(id(source), (None, source))
    if type(source) is not str:
        raise Interrupt("unsupported-code", "eval() of other than text")
    flags = caller().f_code.co_flags & _FUTURE
    tree = _made(session, source.lstrip(" \t"), "eval", flags | ast.PyCF_ONLY_AST)
    if _has_builtins(globals) and not any(is_a(node, _REACHING) for node in ast.walk(tree)):
        return eval(_made(session, tree, "eval", flags), {"__builtins__": {}}, {})
    named = any(is_a(node, ast.NamedExpr) for node in ast.walk(tree))
    where, names = _namespaces(session, "eval", globals, locals, named)
    target = ast.copy_location(ast.Name(_RESULT, ast.Store()), tree.body)
    module = ast.Module([ast.copy_location(ast.Assign([target], tree.body), tree.body)], [])
    shown = None if names is where or locals is None and globals is not None else names
    if names is where:
        names = {}  # an expression binds no name but by `:=`, which is then a global
        if named:
            raise Interrupt("unsupported-code", "eval() of an assignment")
    own = EvalLocals(names, shown, _RESULT)
    _run(session, _made(session, module, "exec", flags), where, own)
    return own.result
