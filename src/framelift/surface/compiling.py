"""`compile`, `reset` and what they need."""

from __future__ import annotations

import builtins
import collections
import copy
import dataclasses
import functools
import os
import types
import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

import torch

from .. import _core, config
from ..backends.registry import compiler_config_of, get_default_backend, lookup, reset_backends, used_by_drivers
from ..boundary.becomes.leaves import is_leaf
from ..boundary.declared_shapes import Declared, normalized, resolved
from ..capture import equal_graphs, sharing, stance
from ..capture.background import compiling, wait_for
from ..capture.driver import Driver
from ..capture.module_wrapper import OptimizedModule
from ..capture.policy import refuse_bodies
from ..capture.records import callbacks, compile_ids
from ..capture.records.captures import counts, native_of
from ..capture.records.guard_hooks import Hooks
from ..capture.records.user_names import MODULE_CALLS, names_in
from ..exc import IncorrectUsage, NotCallable, WrongArgument, WrongType, WrongValue
from ..graph.symbols import environment
from ..packages import methods  # noqa: F401  (gives callables theirs)
from ..packages.recording import recording_driver
from ..rehearsal.call_rule import is_in_graph
from ..substitutes.marks import on_code
from ..torch_ports.operators import CustomOpDef, OperatorBase, OpOverloadPacket
from ..vocabulary import code_knowledge, places
from ..vocabulary.reasons import Interrupt
from .backward_capture import WithBackward
from .decorators import innermost
from .verify import Verified

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..recording.session import Session
    from .compile_types import Compiled, CompileDecorator, CompileOptions

_compiled: weakref.WeakSet[Any] = weakref.WeakSet()

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Class = TypeVar("_Class", bound=type)


@overload
def compile(model: None = None, **options: Unpack[CompileOptions]) -> CompileDecorator: ...
@overload
def compile(  # type: ignore[overload-overlap]  # classes are callables, too
    model: _Class, **options: Unpack[CompileOptions]
) -> _Class: ...
@overload
def compile(model: torch.nn.Module, **options: Unpack[CompileOptions]) -> OptimizedModule: ...
@overload
def compile(  # type: ignore[overload-cannot-match]  # torch's classes are Any where framelift is checked
    model: Callable[_P, _R], **options: Unpack[CompileOptions]
) -> Compiled[_P, _R]: ...
def compile(
    model: Any = None,
    *,
    backend: str | Callable[..., Any] | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    name: str | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    guard_filter_fn: Callable[..., Any] | None = None,
    guard_fail_fn: Callable[..., Any] | None = None,
    guard_export_fn: Callable[..., Any] | None = None,
    dynamic_shapes: Any = None,
    shapes_spec: Any = None,
    verify: int | bool = 0,
    background: bool | str | None = None,
) -> Any:
    """Capture `model` (a function, method, lambda, callable, module or class) and run its graph instead.

    Usable as a decorator, with or without arguments.  The first call captures; later calls whose guards hold run the
    compiled graph, others recompile.

    Args:
        backend: a name of `list_backends()` (by default inductor), or a callable `backend(graph_module, inputs)`.
        fullgraph: raise `framelift.exc.Unsupported` where there would be a graph break.
        dynamic: sizes and numbers are: None: constants until they change; True: symbolic; False: always constants.
        mode, options: passed to the backend, as torch.compile does.
        disable: return `model` as it is.
        name: shown in messages and reports.
        recompile_limit: this callable's own limit of recompiles, in place of `config.recompile_limit`.
        isolate_recompiles: share no captures with other compiled callables of the same code.
        guard_filter_fn: takes the list of guards, gives a list of bools: which to keep.  Dropping guards is at your own
            risk.
        guard_fail_fn: called with a record of each guard failure that leads to a new capture.
        guard_export_fn: called with the guards of each capture.
        dynamic_shapes: sizes and ints of the arguments that are symbolic, in classes of
            `torch.fx.experimental.dynamic_spec`; all others are constants.  In place of `dynamic`.
            (`shapes_spec` is torch 2.13's name for it.)
        verify: compare the first so many calls with eager mode: results, effects and random numbers; True: every call.
        background: do not wait for the backend: graphs run uncompiled while another process compiles them.  The
            compiled graph is loaded at the first call after that; `framelift.wait` waits for it.  Backends other than
            Inductor are waited for.  None: as `config.background` says.

    >>> import torch, framelift
    >>> @framelift.compile(backend="eager")
    ... def f(x):
    ...     return x.sin() + 1
    >>> f(torch.zeros(2))
    tensor([1., 1.])
    """
    asked = {key: value for key, value in locals().items() if key != "model"}
    dynamic_shapes = resolved(model, shapes_spec if dynamic_shapes is None else dynamic_shapes)
    _check_options(mode, options, dynamic, dynamic_shapes)
    if model is None:
        return functools.partial(compile, **asked)
    if not callable(model):
        raise NotCallable(f"compile takes a function, module or other callable, not {type(model).__name__}")
    if disable or os.environ.get("TORCHDYNAMO_DISABLE") == "1" or _exporting(model):
        return model
    options = dict(options or {})
    background = _background(options.pop("background", background))
    kept = guard_filter_fn or options.pop("guard_filter_fn", None)
    hooks = Hooks(kept, guard_fail_fn, guard_export_fn, recompile_limit)
    found = lookup(backend if backend is not None else get_default_backend(), mode=mode, options=options)
    model = innermost(model)
    _refuse_scripted(model)
    if isinstance(model, type):
        return _compile_class(model, functools.partial(compile, **asked))
    settings = found, fullgraph, dynamic, hooks, background, dynamic_shapes
    used = used_by_drivers(found, background, None if isolate_recompiles else sharing.settings_of(*settings))
    shown = name or str(getattr(model, "__name__", type(model).__name__))
    driver = Driver(used, fullgraph=fullgraph, dynamic=dynamic, name=shown, hooks=hooks)
    compiled = _make(model, driver, name, dynamic_shapes)
    _describe(compiled, model, found)
    return _as_asked(model, compiled, functools.partial(compile, **asked), bool(background), verify)


def _check_options(mode: Any, options: Any, dynamic: Any, dynamic_shapes: Any) -> None:
    if dynamic_shapes is not None:
        normalized(dynamic_shapes)
        if dynamic is not None:
            raise WrongValue(
                "`dynamic` and `dynamic_shapes` cannot both be set. `dynamic_shapes` controls dynamic behavior."
            )
    if config.suppress_errors and config.fail_on_recompile_limit_hit:
        raise WrongArgument(
            "Dynamo configs suppress_error and fail_on_recompile_limit_hit can not both be active at the same time."
        )
    if mode is not None and options is not None:
        raise IncorrectUsage("Either mode or options can be specified, but both can't be specified at the same time.")
    if dynamic not in (None, True, False):
        raise WrongType(f"dynamic is None, True or False, not {dynamic!r}")


def _background(asked: Any) -> Any:
    if asked not in (None, True, False, "on", "off", "manual"):
        raise WrongValue(f'background is True, False or "manual", not {asked!r}')
    return asked


def _refuse_scripted(model: Any) -> None:
    if isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction)) and not isinstance(
        model, torch.jit.TopLevelTracedModule
    ):
        raise IncorrectUsage(
            "torch.jit.script'ed code cannot be captured: it is compiled already. Give torch.compile the "
            "original Python function or module."
        )


def _as_asked(model: Any, compiled: Any, again: Callable[[Any], Any], waits: bool, verify: int | bool) -> Any:
    """A compiled callable with what the user asked for around it; of a module, the module wrapper."""
    if waits:
        compiled.wait = functools.partial(_wait_weakly, weakref.ref(compiled))
    if verify:
        compiled = Verified(compiled, verify)
    elif config.compiled_autograd:
        compiled = WithBackward(compiled, again)
    if not isinstance(model, torch.nn.Module):
        return compiled
    wrapper: Any = OptimizedModule(model, compiled, again)
    wrapper._torchdynamo_orig_callable = model.forward
    vars(wrapper)["get_compiler_config"] = getattr(compiled, "get_compiler_config", None)
    if waits:
        vars(wrapper)["wait"] = vars(compiled)["wait"]
    return wrapper


def _inside(session: Session, model: Any = None, **named: Any) -> Any:
    """`compile` in captured code: what it gives is made now, and calls of that are captured as calls of the function.
    It cannot leave.
    """
    if model is None:
        return functools.partial(compile, **named)
    if callable(named.get("backend")):
        named["backend"] = "eager"  # nobody will ask it, and it may be an object of the program's
    if type(model) not in (types.FunctionType, _core.Compiled) or not all(
        is_leaf(value) or type(value) is types.FunctionType for value in named.values()
    ):
        raise Interrupt("own-function", "compile")
    made = compile(model, **named)
    if type(made) is not _core.Compiled:
        raise Interrupt("own-function", "compile")
    _core.mark_internal(made)
    _compiled.discard(made)  # none of the process's: its function may hold values of the rehearsal
    return made


on_code(_inside)(compile)


def _make(model: Any, driver: Driver, name: str | None, dynamic_shapes: Any) -> Any:
    function, bound, receiver = _root(model)
    if dynamic_shapes is not None:
        below = names_in(bound[0]).code if bound and function.__code__ in MODULE_CALLS else None
        driver.declared = Declared(normalized(dynamic_shapes), below or function.__code__, below is not None)
    driver = recording_driver(driver) if config.record_captures else driver
    compiled = _core.Compiled(function, driver, bound, name, receiver)
    _compiled.add(compiled)
    return compiled


def _successor(compiled: Any) -> Any:
    """Return what a compiled object calls while its class has another `__call__`.

    That is any call of the object, whatever it does.
    """
    made = _core.Compiled(_caller(compiled.receiver), compiled.miss)
    _compiled.add(made)
    return made


_core.connect(make_successor=_successor)


def compiled_callables() -> list[Any]:
    """All compiled callables that live."""
    return list(_compiled)


def keep_compiled() -> Any:
    """From now on compiled callables are kept alive, and can be walked over: for tools that report at the end of
    a run."""
    global _compiled
    _compiled = set(_compiled)  # type: ignore[assignment]  # a set that keeps them
    return _compiled


def _describe(compiled: Any, model: Any, backend: Any) -> None:
    """The attributes by which other libraries know a compiled callable."""
    compiled._torchdynamo_orig_callable = compiled._torchdynamo_inline = model
    compiled._torchdynamo_wrapper_id = id(compiled)
    compiled._is_torch_compile = True
    compiled._isolate_recompiles_id = id(compiled)
    compiled.get_compiler_config = compiler_config_of(backend)


def _compile_class(cls: type, again: Callable[[Any], Any]) -> type:
    """Calls of instances are captured; the class itself is changed and given back."""
    for name in ("__call__", "_call_impl") if issubclass(cls, torch.nn.Module) else ("__call__",):
        if any(name in base.__dict__ for base in cls.__mro__[:-1]):
            setattr(cls, name, again(getattr(cls, name)))
    return cls


def _root(model: Any) -> tuple[types.FunctionType, tuple[Any, ...], Any]:
    """The Python function whose frame is the root, the arguments bound to it, and the object whose class it was found
    in.
    """
    if isinstance(model, _core.Compiled):
        return model.function, model.bound, model.receiver
    if isinstance(model, types.FunctionType) and not is_in_graph(model):
        return model, (), None
    if isinstance(model, (type, *_OPERATORS)):
        return _caller(model), (), None
    # A method, or an instance and its class's __call__, which may be compiled itself.
    is_method = isinstance(model, types.MethodType)
    method, receiver = (
        (model.__func__, model.__self__) if is_method else (_core.type_lookup(type(model), "__call__", None), model)
    )
    found_in = None if is_method else model
    if isinstance(method, _core.Compiled):
        return method.function, (*method.bound, receiver), found_in
    if isinstance(method, types.FunctionType):
        return method, (receiver,), found_in
    return _caller(model), (), None


#: torch's operators: their calls are nodes of a graph, and their Python is no program
_OPERATORS = (OperatorBase, OpOverloadPacket, CustomOpDef)


# A frame around a callable that has none.  Not framelift's own file, so that it is captured code.
_scope: dict[str, Any] = {}
exec(
    builtins.compile(
        (
            "def around(callable_):\n    def call(*args, **kwargs):\n        return callable_(*args, "
            "**kwargs)\n    return call\n"
        ),
        "<call>",
        "exec",
    ),
    _scope,
)


def _caller(model: Any) -> types.FunctionType:
    made: types.FunctionType = _scope["around"](model)
    for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
        value = getattr(model, attribute, None)
        if isinstance(value, str):
            setattr(made, attribute, value)
    return made


def _sibling(compiled: Any, backend: str | Callable[..., Any]) -> Any:
    """The same function for another backend, with entries of its own."""
    siblings = _siblings.setdefault(compiled, {})
    key = backend if isinstance(backend, str) else id(backend)
    if key not in siblings:
        driver, found = compiled.miss, lookup(backend)
        used = used_by_drivers(found, driver.backend.background)
        other = Driver(used, fullgraph=driver.fullgraph, name=driver.name, hooks=driver.hooks)
        siblings[key] = backend, _core.Compiled(compiled.function, other, (), None)
        _compiled.add(siblings[key][1])
    return siblings[key][1]


def _forced(compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Under a stance with a backend of its own."""
    backend = stance.current().backend
    assert backend is not None  # this stance has one
    return _core.call_compiled(_sibling(compiled, backend), args, kwargs)


def _aot_first(compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """aot_eager_then_compile: the first call of each callable with that backend."""
    if compiled in _called_once:
        return _core.call_compiled(compiled, args, kwargs)
    _called_once.add(compiled)
    sibling = _sibling(compiled, "aot_eager")
    try:
        return _core.call_compiled(sibling, args, kwargs)
    finally:  # sizes that differ in the second call are dynamic then
        for code, learned in sibling.miss.seen.items():
            compiled.miss.seen.setdefault(code, learned.copy())


_siblings: weakref.WeakKeyDictionary[Any, dict[Any, tuple[Any, Any]]] = weakref.WeakKeyDictionary()
_called_once: weakref.WeakSet[Any] = weakref.WeakSet()
stance.REDIRECTS.update({"force_backend": _forced, "aot_eager_then_compile": _aot_first})


def _exporting(model: Any) -> bool:
    if not torch.compiler.is_exporting():
        return False
    refuse_bodies(model)
    warnings.warn("torch.compile is ignored when called inside torch.export region", stacklevel=3)
    return True


def is_supported() -> bool:
    """Return whether framelift works with this Python and this torch.

    >>> import framelift
    >>> framelift.is_supported()
    True
    """
    return True  # elsewhere no core is loaded, and without_core.py answers


def reset() -> None:
    """Forget every capture, all counts and callbacks; compiled callables stay usable and recompile.

    >>> import framelift
    >>> framelift.reset()
    >>> framelift.stats()["captures"]
    0
    """
    forget_entries()
    _siblings.clear()
    _called_once.clear()
    counts.clear()
    callbacks.clear()
    for forget in _FORGETTING:
        forget()
    reset_backends()


def forget_entries() -> None:
    """Forget the captures of all compiled callables."""
    for compiled in list(_compiled):
        compiled.entries.clear()
        compiled.frames.clear()
        if isinstance(compiled.miss, Driver):
            compiled.miss.forget()


#: what else holds on to code or symbols of captures
_FORGETTING = (
    code_knowledge.forget,
    compile_ids.forget,
    sharing.forget,
    equal_graphs.forget,
    places.forget,
    _core.forget_places,
    environment.forget,
)


def wait(compiled: Any = None, *, seconds: float | None = None) -> bool:
    """Wait until graphs that are compiled in the background are: of one compiled callable, or of all.  The next call of
    each loads its graph.

    `seconds` is the most that is waited for each.  False: not all are done.

    >>> import torch, framelift
    >>> f = framelift.compile(lambda x: x + 1, backend="aot_eager", background="manual")
    >>> f(torch.ones(1)), framelift.stats()["compiling"]
    (tensor([2.]), 1)
    >>> framelift.wait(f), f(torch.ones(1)), framelift.stats()["compiling"]
    (True, tensor([2.]), 0)
    """
    return all([wait_for(native_of(one), seconds) for one in (list(_compiled) if compiled is None else [compiled])])


def _wait_weakly(compiled: Any, seconds: float | None = None) -> bool:
    """`compiled.wait()`: an attribute of it, which does not keep it alive."""
    return wait(compiled(), seconds=seconds)


def stats() -> dict[str, Any]:
    """Counts since the last reset: captures, graphs, guards, breaks by reason, frames, recompiles; captures that were
    loaded from disk, and why others could not be kept there; uses of a capture by one more callable; how many
    graphs another process is compiling; graphs that were compiled as they were captured, since the backend
    failed on what framelift had made of them, by the name of that; and what became of flat graphs (second tier).

    >>> import framelift
    >>> sorted(framelift.stats())
    ['breaks', 'captures', 'compiling', 'fallbacks', 'frames', 'graphs', 'guards', 'loaded', 'not_kept', 'recompiles', \
'second_tier', 'shared', 'shared_graphs']
    """
    return {
        "compiling": sum(len(compiling(compiled)) for compiled in list(_compiled)),
        **{one.name: copy.copy(getattr(counts, one.name)) for one in dataclasses.fields(counts)},
        "second_tier": collections.Counter(one if type(one) is str else one.state for one in counts.second_tier),
    }
