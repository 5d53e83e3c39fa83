"""Marks that programs and libraries put on callables, and what each makes of a call while capturing.

A mark is found by the callable itself: in `MARKS`, where framelift's own decorators put it; in the attributes that
torch.compiler's decorators leave; or in TorchDynamo's sets of ids, when a program has filled them.  The handler of
a mark is a substitute like any other.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import torch

from .. import _core, config
from .._core import id, is_a
from ..boundary.attributes.owners import own_dict
from ..boundary.becomes.leaves import is_constant, is_leaf
from ..boundary.facts.unwatched_reads import UNWATCHED_READS
from ..boundary.gateway import let_in
from ..boundary.lazy.view import View
from ..boundary.world import World
from ..calls.call_tables import CODE_HANDLERS, SUBSTITUTES, Handler, handler_form
from ..exc import ForbiddenCallable
from ..graph.fx.targets import OneNode
from ..guards.checks import check
from ..recording.session import Session
from ..recording.wrapper_results import make_wrapper
from ..torch_ports.compiling import disable_dynamo
from ..vocabulary.class_reads import qualname_of
from ..vocabulary.feature_state import FeatureState
from ..vocabulary.origins import Origin, const
from ..vocabulary.reasons import Interrupt
from ..vocabulary.scopes import scope
from ..vocabulary.torch_code import is_torch_function
from .held_tensors import Held
from .python.code_objects import optimizer_break

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: id -> (the callable or a weak reference to it, its handler)
MARKS: dict[int, tuple[Any, Handler]] = {}


#: the code of functions that bear a mark, or bore one
MARKED: dict[types.CodeType, bool] = {}


def mark(callable_: Any, handler: Handler) -> None:
    """Let `handler` run in place of `callable_` in captured code.  Gone when the callable is."""
    key = id(callable_)
    if is_a(callable_, types.FunctionType):
        MARKS[key] = weakref.ref(callable_, lambda _: MARKS.pop(key, None)), handler
        MARKED[callable_.__code__] = True
    else:
        MARKS[key] = callable_, handler
    _core.forget_verdicts()


def unmark(callable_: Any) -> None:
    """Forget the mark, if there is one."""
    if MARKS.pop(id(callable_), None):
        _core.forget_verdicts()


def on_code(handler: Callable[..., Any]) -> Callable[[_Function], _Function]:
    """Mark every function that shares this one's code, as wrappers made by one decorator do.  The handler has one of
    the forms that `handler_form` takes.
    """

    def register(function: _Function) -> _Function:
        CODE_HANDLERS[function.__code__] = handler_form(handler)
        return function

    return register


def handler_of(callable_: Any) -> Handler | None:
    """The handler of the mark that a callable bears, if it does."""
    found = MARKS.get(id(callable_))
    if found is not None:
        return found[1]
    for names, handler in _LOGGING if _logging else ():
        if any(function is callable_ for function in getattr(config, names)):
            return handler
    attributes: Any = callable_.__dict__ if type(callable_) is types.FunctionType else None
    if attributes is None:
        if not is_a(callable_, type) and not _core.is_python_class(type(callable_)):
            return _by_torch_sets(callable_)
        attributes = _Static(callable_)
        if not attributes.has_any(_ATTRIBUTES):
            return _by_torch_sets(callable_)
    elif not attributes:
        return _by_torch_sets(callable_)
    for name, handler in _ATTRIBUTES.items():
        if attributes.get(name) is True and _is_own(attributes, callable_):
            return handler
    return _by_torch_sets(callable_)


@check
def _bears(handler: Handler | None, now: Any) -> bool:
    return handler_of(now) is handler


def guard_mark(world: World, origin: Origin, handler: Handler | None) -> None:
    """The function at `origin` bears a mark with this handler."""
    world.guard(origin, "CHECK", (functools.partial(_bears, handler), "bears the same mark"), "mark")


def guard_unmarked(world: World, function: types.FunctionType, origin: Origin) -> None:
    """The function at `origin`, whose code and names of attributes are guarded, bears no mark.

    Asked of the tables of marks where that is enough, since guards on tables cost nothing while these do not change.
    """
    if function.__code__ in MARKED or _logging or not function.__dict__.keys().isdisjoint(_ATTRIBUTES):
        guard_mark(world, origin, None)
        return
    table = const(sys.modules[__name__]).to("dict").to("item", "MARKED")  # found in another process too
    world.guard(table, "ABSENT", function.__code__, function.__code__)
    world.guard(origin, "UNMARKED", _NAMES_OF_SETS)


_logging: tuple[tuple[str, int], ...] = ()  # the functions that the options on logging name, each with its option


def follow_options() -> None:
    """Before a rehearsal: what the options on logging name may have changed since the tables were asked."""
    global _logging
    if config.ignore_logging_functions or config.reorderable_logging_functions or _logging:
        now = tuple([(names, id(function)) for names, _ in _LOGGING for function in getattr(config, names)])
        if now != _logging:
            _logging = now
            _core.forget_verdicts()


class _Static:
    """Attributes read without running descriptors or `__getattr__`."""

    def __init__(self, obj: Any) -> None:
        is_class = is_a(obj, type)
        self.own = {} if is_class else own_dict(obj) or {}
        self.classes: tuple[type, ...] = (obj, type(obj)) if is_class else (type(obj),)

    def has_any(self, names: Iterable[str]) -> bool:
        for name in names:
            if name in self.own:
                return True
            for cls in self.classes:
                if _core.type_lookup(cls, name, self) is not self:
                    return True
        return False

    def get(self, name: str) -> Any:
        if name in self.own:
            return self.own[name]
        for cls in self.classes:
            found = _core.type_lookup(cls, name, self)  # itself: nothing
            if found is not self:
                return found
        return None


def _is_own(attributes: Any, callable_: Any) -> bool:
    """functools.wraps copies marks to the outer function; a wrapper's mark names the wrapper it belongs to."""
    owner = attributes.get("_torchdynamo_wrapper_id")
    return owner is None or owner == id(callable_)


def _by_torch_sets(callable_: Any) -> Handler | None:
    if not _core.is_marked(_NAMES_OF_SETS, callable_):
        return None
    held = sys.modules[_RULES].__dict__
    for name, handler in _SETS.items():
        ids = getattr(held.get(name), "function_ids", None)  # None until a program adds to it
        if ids and id(callable_) in ids:
            return handler
    return None


# ---- handlers --------------------------------------------------------------------------------------------------------


def _name(callable_: Any) -> str:
    return (
        getattr(callable_, "__qualname__", None) or getattr(callable_, "__name__", None) or qualname_of(type(callable_))
    )


def _is_limit_of_dynamo(callable_: Any, inner: Any) -> bool:
    """Return whether torch.optim itself has this wrapper in place of its function: TorchDynamo puts it there for what
    it cannot trace (seen in torch 2.11 to 2.13).  That is no wish of the user's.
    """
    if not is_torch_function(inner, "torch.optim"):
        return False
    *path, name = inner.__qualname__.split(".")
    owner: Any = sys.modules.get(inner.__module__)
    for part in path:
        owner = getattr(owner, part, None)
    heirs = [
        one for one in vars(torch.optim).values() if is_a(one, type) and is_a(owner, type) and issubclass(one, owner)
    ]
    return any(_wraps(getattr(holder, name, None), callable_) for holder in (owner, *heirs))


def _wraps(held: Any, callable_: Any) -> bool:
    while held is not None and held is not callable_:
        held = getattr(held, "__wrapped__", None)
    return held is not None


@scope
def _annotated(session: Session, callable_: Any) -> Iterator[None]:
    """Nodes of an exported program that come from a disabled function say so."""
    stack = session.annotations
    if session.policy.exporting:
        notes = {
            "_torchdynamo_disable": True,
            "_torchdynamo_disable_recursive": bool(getattr(callable_, "_torchdynamo_disable_recursive", True)),
            "_torchdynamo_disable_method": getattr(callable_, "__name__", ""),
        }
        stack.append({**(stack[-1] if stack else {}), **notes})
    try:
        yield
    finally:
        if session.policy.exporting and stack:
            stack.pop()


@handler_form
def disabled(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Not to be compiled: an interrupt with this reason.  An exported program has to capture it."""
    why = getattr(callable_, "_torchdynamo_disable_msg", None)
    inner = getattr(callable_, "_torchdynamo_orig_callable", None)
    is_compiled = hasattr(callable_, "_torchdynamo_inline") and not getattr(callable_, "_torchdynamo_disable", False)
    if inner is not None and (is_compiled or session.policy.exporting or why and _is_limit_of_dynamo(callable_, inner)):
        session.pin_function(callable_)
        with _annotated(session, callable_):
            return _core.captured(inner, args, kwargs)
    raise Interrupt("disabled", _name(callable_) + (f" (reason given: {why})" if why else ""))


@handler_form
def _disabled_by_torch(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """The wrapper that torch puts around functions of its own that TorchDynamo cannot trace.  Of those of torch.optim
    and torch.random that is no wish of the user's.
    """
    own = SUBSTITUTES.get(id(callable_))
    if own is not None:
        return own[1](session, callable_, args, kwargs)
    inner = _core.read(callable_, "__wrapped__")
    if is_torch_function(inner, "torch.optim") or is_torch_function(inner, "torch.random"):
        return _core.captured(inner, args, kwargs)
    raise Interrupt("disabled", _name(inner))


CODE_HANDLERS[disable_dynamo(lambda: None).__code__] = _disabled_by_torch


@handler_form
def disallowed(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    if not optimizer_break(callable_):
        raise Interrupt("disallowed", _name(callable_))


@handler_form
def ignored(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> None:
    """Not called at all."""


@handler_form
def later(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> None:
    """Called when the graph has run, with the tensors as they are here."""
    kept = tuple(_as_of_now(session, callable_, arg) for arg in (*args, *kwargs.values()))
    if kwargs:
        callable_, kept = _called_with_names, (callable_, tuple(kwargs), *kept)
    session.write("call", callable_, len(session.effects), kept)


def _called_with_names(callable_: Any, names: tuple[str, ...], *args: Any) -> None:
    """For entries: the last arguments have these names."""
    count = len(args) - len(names)
    callable_(*args[:count], **dict(zip(names, args[count:])))


def _as_of_now(session: Session, callable_: Any, arg: Any) -> Any:
    if session.is_stand_in(arg):  # a later write would show in what is printed
        return arg if arg.requires_grad else session.call(torch.Tensor.clone, (arg,), {})
    if is_leaf(arg):
        return arg
    raise Interrupt("unknown-callable", f"{_name(callable_)} of a {qualname_of(type(arg))}")


@handler_form
def forbidden(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Meeting it is an error of the program, break or not."""
    interrupt = Interrupt("forbidden", _name(callable_))
    interrupt.error = ForbiddenCallable(f"Attempt to trace forbidden callable {callable_}")
    raise interrupt


def refusing(reason: str) -> Handler:
    """The handler of a function whose call itself says that capturing ends here; its first argument is a message."""

    @handler_form
    def refuse(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> None:
        if optimizer_break(callable_):
            return
        message = next(iter((*args, *kwargs.values())), "")
        raise Interrupt(reason, f": {message}" if is_a(message, str) and message else "")

    return refuse


def replaced(substitute_: Callable[..., Any]) -> Handler:
    """Another Python function is captured in its place."""

    @handler_form
    def call(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
        return _core.captured(substitute_, args, kwargs)

    return call


def allowed(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One node of the graph, whatever is inside."""
    make = make_wrapper(callable_)  # a class of tensors that hold others
    if make is not None:
        return make(session, callable_, args, kwargs)
    UNWATCHED_READS.of(session, session.world).follow(callable_)
    function = _as_function(callable_)
    parts: list[Any] = []
    build = _taken_apart((args, kwargs), parts)
    if build is None:
        return session.record(OneNode(function), args, kwargs)

    def call(*given: Any) -> Any:
        inner_args, inner_kwargs = build(iter(given))
        return function(*inner_args, **inner_kwargs)

    call.__name__ = function.__name__
    return session.record(OneNode(call), tuple(parts), {})


def _taken_apart(value: Any, parts: list[Any]) -> Callable[[Iterator[Any]], Any] | None:
    """Add a value to `parts`, or what the frozen data classes in it hold; return what builds it anew of those parts.
    None where there is no data class: operations take containers themselves.
    """
    kind, before = type(value), len(parts)
    if kind in (tuple, list, dict):
        inner = [_taken_apart(item, parts) for item in (value.values() if kind is dict else value)]
        if any(inner):
            made = [one or next for one in inner]
            keys = tuple(value) if kind is dict else ()
            return lambda given: (
                dict(zip(keys, [one(given) for one in made])) if keys else kind([one(given) for one in made])
            )
        del parts[before:]
    if not _is_frozen_data(kind):
        parts.append(value)
        return None
    names = tuple(field.name for field in dataclasses.fields(kind))
    if (own_dict(value) or {}).keys() - set(names):
        raise Interrupt("torch-operation", f"with an argument of type {qualname_of(kind)}, which has other attributes,")
    fields = [(name, _taken_apart(_core.captured(getattr, (value, name), None), parts) or next) for name in names]

    def build(given: Iterator[Any]) -> Any:
        new = object.__new__(kind)
        for name, one in fields:
            object.__setattr__(new, name, one(given))
        return new

    return build


def _is_frozen_data(kind: type) -> bool:
    params = _core.type_lookup(kind, "__dataclass_params__", None)
    plain = _core.type_lookup(kind, "__getattribute__", None) is object.__getattribute__
    return plain and bool(getattr(params, "frozen", False))


def _as_function(callable_: Any) -> Any:
    """A graph's Python code can name a function; other callables it would look up by their class."""
    if is_a(callable_, types.FunctionType):
        return callable_

    def call(*args: Any, **kwargs: Any) -> Any:
        return callable_(*args, **kwargs)

    name = getattr(callable_, "name", None)
    call.__name__ = name if is_a(name, str) and name else _name(callable_).rpartition(".")[2]
    return call


@handler_form
def nonstrict(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """One node that takes the tensors in its arguments, and those that the function holds."""
    return _flattened(session, callable_, args, kwargs, True)


def _flattened(session: Session, function_: Any, args: tuple[Any, ...], kwargs: dict[str, Any], inside: bool) -> Any:
    from ..torch_ports.graphs import pytree

    UNWATCHED_READS.of(session, session.world).follow(function_)
    leaves, structure = pytree.tree_flatten((args, kwargs))
    if any(issubclass(type(leaf), View) for leaf in leaves):
        raise Interrupt("too-large", f"a container given to {_name(function_)}")
    places = [i for i, leaf in enumerate(leaves) if session.is_stand_in(leaf)]
    others = [None if session.is_stand_in(leaf) else _outside(session, function_, leaf) for leaf in leaves]
    modules = [leaf for leaf in leaves if is_a(leaf, torch.nn.Module)]
    held = Held(session, function_, modules, inside)
    putting = held.calling()
    shape: list[Any] = []

    def flat(*tensors: Any) -> Any:
        given = list(others)
        for place, tensor in zip(places, tensors):
            given[place] = tensor
        inner_args, inner_kwargs = pytree.tree_unflatten(given, structure)
        with putting(tensors[len(places) :]) as function:
            results, spec = pytree.tree_flatten(function(*inner_args, **inner_kwargs))
        shape[:] = [spec, [None if is_a(r, torch.Tensor) else r for r in results]]
        return tuple(r for r in results if is_a(r, torch.Tensor))

    flat.__name__ = _name(function_).rpartition(".")[2]
    inputs = (*(leaves[i] for i in places), *held.tensors)
    tensors = iter(session.record(OneNode(flat), inputs, {}))
    spec, values = shape
    return pytree.tree_unflatten([next(tensors) if value is None else value for value in values], spec)


@handler_form
def leaf(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """One node that no compiler looks into (torch's leaf_function): a function for fakes says what it gives."""
    fake = getattr(callable_, "_torchdynamo_leaf_fake_fn", None)
    if fake is None:
        raise Interrupt("unknown-callable", f"{_name(callable_)}, a leaf function without register_fake,")
    if not hasattr(callable_, "_torchdynamo_leaf_mutates_args"):  # torch 2.11: AOTAutograd would look into the node
        raise Interrupt("disallowed", f"{_name(callable_)}, a leaf function of a torch that cannot keep it whole,")
    asking = [True]

    def either(*inner: Any, **named: Any) -> Any:
        return fake(*inner, **named) if asking else callable_(*inner, **named)

    either.__qualname__ = _name(callable_)
    try:
        return _flattened(session, either, args, kwargs, False)
    finally:
        asking.clear()


_CONSTANTS: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()


#: calls that the program declares to give constants: (function, its arguments, those by name, the value)
CONSTANTS: FeatureState[list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]]] = FeatureState(list)


@handler_form
def constant(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Called once, now, on the real values; the result is a constant of the graph."""
    real = [_outside(session, callable_, arg) for arg in args]
    named = {name: _outside(session, callable_, arg) for name, arg in kwargs.items()}
    value = callable_(*real, **named)
    # a promise about this process: another one is asked again
    CONSTANTS.of(session).append((callable_, tuple(real), named, value))
    # The program declares it constant: the value lives as long as the function, and no other call may change it.
    _CONSTANTS.setdefault(callable_, []).append(value)
    from ..torch_ports.graphs import pytree

    session.known_values.declared.update(
        (id(part), part) for part in pytree.tree_leaves(value) if is_a(part, torch.Tensor)
    )
    return let_in(session.world, value, const(value))


def _outside(session: Session, callable_: Any, seen: Any) -> Any:
    """The real value of what captured code sees; an interrupt where there is none yet."""
    if type(seen) in (tuple, list, dict) and not session.shadow_of(seen):
        items = seen.values() if type(seen) is dict else seen
        inside = [_outside(session, callable_, item) for item in items]
        return dict(zip(seen, inside)) if type(seen) is dict else type(seen)(inside)
    if session.example is not None and session.is_stand_in(seen):
        return session.example(seen)
    record = session.record_of(seen)
    if record is not None:
        session.pin_function(record.original)  # the graph keeps it
        return record.original
    if is_leaf(seen) or is_constant(seen) and not _core.is_internal(seen):
        return seen
    raise Interrupt("constant-argument", _name(callable_))


#: attributes that torch.compiler's decorators leave on a callable
_ATTRIBUTES: dict[str, Handler] = {
    "_torchdynamo_disable": disabled,
    "_dynamo_forbidden": forbidden,
    "_dynamo_marked_constant": constant,
}
#: options that name functions
_LOGGING: tuple[tuple[str, Handler], ...] = (
    ("ignore_logging_functions", ignored),
    ("reorderable_logging_functions", later),
)
#: TorchDynamo's sets of ids
_SETS: dict[str, Handler] = {
    "_leaf_function_ids": leaf,
    "_disallowed_callable_ids": disallowed,
    "_nonstrict_trace_callable_ids": nonstrict,  # torch allows these, too
    "_allowed_callable_ids": allowed,
}
_RULES = "torch._dynamo.trace_rules"
_NAMES_OF_SETS = (_RULES, *_SETS)
