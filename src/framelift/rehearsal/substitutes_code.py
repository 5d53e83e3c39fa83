"""Source text and code objects run under watch: compile, exec and eval with namespaces that are given.

Code runs in a given namespace as the body of a class statement does: its frame comes through the hook like any other.  Without
explicit namespaces `exec` and `eval` would need the calling frame's locals, and interrupt.
"""

from __future__ import annotations

import ast
import builtins
import sys
import types
import warnings
from typing import Any

from .. import _core
from ..reasons import Interrupt
from .registry import substitute

__all__ = ["caller"]

_PACKAGE = __file__.rsplit("/rehearsal/", 1)[0] + "/"
_FUTURE = 0x1FE0000 | 0x2000   # the bits of code flags that compile() inherits
_RESULT = ".result"


def caller(depth: int = 0) -> types.FrameType:
    """The captured frame that made the call, or one of its callers; a handler is called from it without other frames between."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            if depth == 0:
                return frame
            depth -= 1
        elif frame.f_code.co_name == "rehearse":
            break
        frame = frame.f_back
    raise Interrupt("unsupported-code", "a look at the frames outside the compiled function")


@substitute(compile)
def _compile(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Code made of constant text is a value."""
    def bound(source: Any, filename: Any, mode: Any, flags: Any = 0, dont_inherit: Any = False, optimize: Any = -1, **more: Any) -> Any:
        if type(source) not in (str, bytes) or not isinstance(filename, (str, bytes)) or more.keys() - {"_feature_version"}:
            raise Interrupt("unsupported-code", "compile() of other than text")
        inherited = 0 if dont_inherit else caller().f_code.co_flags & _FUTURE
        return _quietly(source, filename, mode, flags | inherited, optimize, **more)
    return bound(*args, **kwargs)


def _quietly(source: Any, filename: Any, mode: str, flags: int, optimize: int, **more: Any) -> Any:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        code = compile(source, filename, mode, flags, True, optimize, **more)
    if said:
        raise Interrupt("unsupported-code", f"source that makes the compiler warn: {said[0].message}")
    return code


class _Body:
    """Stands in a class statement's place for the metaclass: gives the namespace, makes nothing."""

    def __init__(self, namespace: Any) -> None:
        self._namespace = namespace

    def __prepare__(self, _name: str, _bases: tuple[Any, ...]) -> Any:
        return self._namespace

    def __call__(self, _name: str, _bases: tuple[Any, ...], _namespace: Any) -> None:
        return None


def _run(session: Any, code: types.CodeType, globals_: dict[str, Any], locals_: Any) -> None:
    body = types.FunctionType(code, globals_, code.co_name)
    _core.mark_internal(body)
    session.world.keep.append(body)
    _core.natively(builtins.__build_class__, (body, code.co_name), {"metaclass": _Body(locals_)})


def _namespaces(session: Any, name: str, globals_: Any, locals_: Any) -> tuple[dict[str, Any], Any]:
    """The two namespaces as the code is to see them.  Only a module's own dictionary can be globals: it is its own origin."""
    if globals_ is None:
        raise Interrupt("unsupported-code", f"{name}() in the namespace of the calling frame")
    found = session.world.by_seen.get(id(globals_))
    module = sys.modules.get(found.original.get("__name__", "")) if found is not None and isinstance(found.original, dict) else None
    if module is not None and vars(module) is found.original and locals_ is not None and type(locals_) is dict \
            and session.world.shadow_ids.get(id(locals_)) is None:
        return found.original, locals_
    raise Interrupt("unsupported-code", f"{name}() in a namespace that is no module's")


@substitute(exec)
def _exec(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    def bound(source: Any, globals_: Any = None, locals_: Any = None, /, *, closure: Any = None) -> None:
        if closure is not None:
            raise Interrupt("unsupported-code", "exec() with a closure")
        where, names = _namespaces(session, "exec", globals_, locals_)
        code = source
        if type(source) in (str, bytes):
            code = _quietly(source, "<string>", "exec", caller().f_code.co_flags & _FUTURE, -1)
        if type(code) is not types.CodeType or code.co_freevars:
            raise Interrupt("unsupported-code", "exec() of other than text or plain code")
        _run(session, code, where, names)
    bound(*args, **kwargs)


@substitute(eval)
def _eval(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def bound(source: Any, globals_: Any = None, locals_: Any = None, /) -> Any:
        if type(source) is not str:
            raise Interrupt("unsupported-code", "eval() of other than text")
        flags = caller().f_code.co_flags & _FUTURE
        tree = _quietly(source.lstrip(" \t"), "<string>", "eval", flags | ast.PyCF_ONLY_AST, -1)
        try:
            return ast.literal_eval(tree)   # no name, no call: the namespaces do not matter
        except (ValueError, TypeError, MemoryError, RecursionError):
            pass
        where, names = _namespaces(session, "eval", globals_, locals_)
        target = ast.copy_location(ast.Name(_RESULT, ast.Store()), tree.body)
        module = ast.Module([ast.copy_location(ast.Assign([target], tree.body), tree.body)], [])
        own = _Result(names)
        _run(session, compile(module, "<string>", "exec", flags, True), where, own)
        return own.result
    return bound(*args, **kwargs)


class _Result(dict):  # type: ignore[type-arg]
    """The locals of an expression: those given, and one more place for its value."""

    def __init__(self, names: Any) -> None:
        self.names = names
        self.result: Any = None

    def __getitem__(self, name: str) -> Any:
        return self.names[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name == _RESULT:
            self.result = value
        else:
            self.names[name] = value
