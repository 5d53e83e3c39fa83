"""Decorators and calls by which a program steers what is captured, spelled as in torch.compiler and torch._dynamo."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

import torch

from .. import _core
from ..boundary.becomes.immutable_objects import import_constant
from ..boundary.import_rules import RULES
from ..calls.call_tables import substitute
from ..capture.dynamo_functions import switches_nothing
from ..capture.frames import skip_code
from ..capture.module_wrapper import OptimizedModule
from ..exc import IncorrectUsage, NotImplementedHere, WrongArgument, WrongType, WrongValue
from ..rehearsal import break_errors
from ..rehearsal.break_errors import BLOCKS
from ..rehearsal.call_rule import is_in_graph
from ..substitutes import marks
from ..vocabulary.torch_code import TORCH

if TYPE_CHECKING:
    from ..recording.session import Session

_F = TypeVar("_F")
_OFF, _RUN_ONLY, _CAPTURE = range(3)  # Mode in csrc/state.h; the others are framelift's own, and not to be left


def innermost(fn: Any) -> Any:
    """The function inside framelift's and torch.compile's wrappers.  Copies of attributes made by functools.wraps do
    not count.

    >>> import framelift
    >>> def f(x):
    ...     return x
    >>> framelift.decorators.innermost(framelift.disable(f)) is f
    True
    """
    while True:
        if isinstance(fn, _core.Compiled) and not fn.bound:
            fn = fn.function
        elif isinstance(fn, OptimizedModule):
            fn = fn._orig_mod
        elif getattr(fn, "_torchdynamo_wrapper_id", None) == id(fn) and not isinstance(fn, torch.nn.Module):
            fn = fn._torchdynamo_orig_callable
        else:
            return fn


# ---- switched off ----------------------------------------------------------------------------------------------------


def _wrapper(fn: Any, recursive: bool, reason: str | None, wrapping: bool = True) -> Any:
    make = _disabled if recursive else _skipped
    wrapper = make(fn)
    if wrapping:
        functools.update_wrapper(wrapper, fn)
    wrapper._torchdynamo_disable = True
    wrapper._torchdynamo_disable_msg = reason
    wrapper._torchdynamo_disable_recursive = recursive
    wrapper._torchdynamo_orig_callable = fn
    wrapper._torchdynamo_wrapper_id = id(wrapper)
    return wrapper


def _in_mode(mode: int, fn: Any) -> Any:
    def switched(*args: Any, **kwargs: Any) -> Any:
        before = _core.get_mode()
        if before == mode or before not in (_OFF, _RUN_ONLY, _CAPTURE):
            return fn(*args, **kwargs)
        try:
            _core.switch_mode(mode)
            return fn(*args, **kwargs)
        finally:
            _core.switch_mode(before)

    return switched


_disabled = functools.partial(_in_mode, _OFF)


def _skipped(fn: Any) -> Any:
    def skipped(*args: Any, **kwargs: Any) -> Any:
        return _core.call_plainly(fn, args, kwargs)

    return skipped


for _make in (_disabled, _skipped):
    marks.on_code(marks.disabled)(_make(None))


@overload
def disable(
    fn: None = None, recursive: bool = True, *, reason: str | None = None, wrapping: bool = True
) -> Callable[[_F], _F]: ...
@overload
def disable(fn: _F, recursive: bool = True, *, reason: str | None = None, wrapping: bool = True) -> _F: ...
def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None, wrapping: bool = True) -> Any:
    """Run a function, module or class eagerly.

    With `recursive` nothing that it calls is captured either; without, its callees are captured as functions of
    their own.  Met in captured code it is a graph break with `reason`.  Without `wrapping` the wrapper does not
    take the function's name.

    >>> import torch, framelift
    >>> @framelift.disable
    ... def shown(x):
    ...     print("sum", x.sum().item())
    ...     return x
    >>> f = framelift.compile(lambda x: shown(x) + 1, backend="eager")
    >>> f(torch.ones(2))
    sum 2.0
    tensor([2., 2.])
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason, wrapping=wrapping)
    fn = innermost(fn)
    if not callable(fn):
        raise WrongArgument(f"disable takes a callable, not {type(fn).__name__}")
    if isinstance(fn, torch.nn.Module):
        return OptimizedModule(fn, _wrapper(fn.__call__, recursive, reason))
    if isinstance(fn, type):
        for name in ("__init__", "__call__", "_call_impl"):
            if any(name in base.__dict__ for base in fn.__mro__[:-1]):
                setattr(fn, name, _wrapper(getattr(fn, name), recursive, reason))
        return fn
    return _wrapper(fn, recursive, reason, wrapping)


@overload
def skip(fn: None = None) -> Callable[[_F], _F]: ...
@overload
def skip(fn: _F) -> _F: ...
def skip(fn: Any = None) -> Any:
    """Frames of this function run eagerly, however it is called; what it calls is captured.  The function itself is
    returned.

    >>> import framelift
    >>> framelift.skip(lambda x: x)(3)
    3
    """
    if fn is None:
        return skip
    fn = innermost(fn)
    if not callable(fn):
        raise WrongArgument(f"skip takes a callable, not {type(fn).__name__}")
    if not isinstance(fn, types.FunctionType):
        return disable(fn, recursive=False)
    skip_code(fn.__code__)
    vars(fn)["_torchdynamo_disable"] = True
    return fn


def is_dynamo_disable_recursive(method: Any) -> bool | None:
    """Return whether a callable is disabled with its callees (True), alone (False), or not at all (None).

    >>> import framelift
    >>> framelift.is_dynamo_disable_recursive(framelift.disable(abs)), framelift.is_dynamo_disable_recursive(abs)
    (True, None)
    """
    return getattr(method, "_torchdynamo_disable_recursive", None)


@overload
def run(fn: None = None) -> Callable[[_F], _F]: ...
@overload
def run(fn: _F) -> _F: ...
def run(fn: Any = None) -> Any:
    """Use what was captured already, capture nothing new.

    >>> import torch, framelift
    >>> f = framelift.compile(lambda x: x + 1, backend="eager")
    >>> framelift.run(f)(torch.zeros(1)), len(f.entries)
    (tensor([1.]), 0)
    """
    if fn is None:
        return run
    if not callable(fn):
        raise WrongArgument(f"run takes a callable, not {type(fn).__name__}")

    marked: Any = functools.wraps(fn)(_in_mode(_RUN_ONLY, fn))
    marked._torchdynamo_orig_callable = marked._torchdynamo_inline = fn
    return marked


# ---- in the graph, or not --------------------------------------------------------------------------------------------


def _each(function: Callable[[Any], Any], fn: Any) -> Any:
    return [function(one) for one in fn] if isinstance(fn, (list, tuple)) else None


def allow_in_graph(fn: _F) -> _F:
    """Put calls of `fn` (or of each in a list) into graphs as one node, without looking inside.

    >>> import torch, framelift
    >>> @framelift.allow_in_graph
    ... def halve(x):
    ...     return x / 2
    >>> f = framelift.compile(lambda x: halve(x) + 1, backend="eager")
    >>> f(torch.ones(1))
    tensor([1.5000])
    >>> [n.name for n in f.entries[0].info.graph_module.graph.nodes if n.op.startswith("call")]
    ['halve', 'add']
    """
    if isinstance(fn, (list, tuple)):
        return _each(allow_in_graph, fn)
    if not callable(fn):
        raise WrongArgument("allow_in_graph takes a callable")
    marks.unmark(fn)
    if not is_in_graph(fn):
        marks.mark(fn, marks.allowed)
    return fn


def nonstrict_trace(traceable_fn: _F) -> _F:
    """As `allow_in_graph`, for functions that take and give tensors inside other objects (pytrees).

    >>> import torch, framelift
    >>> @framelift.nonstrict_trace
    ... def both(pair):
    ...     return {"sum": pair["a"] + pair["b"]}
    >>> f = framelift.compile(lambda a, b: both({"a": a, "b": b})["sum"] * 2, backend="eager", fullgraph=True)
    >>> f(torch.ones(1), torch.ones(1))
    tensor([4.])
    """
    if not callable(traceable_fn):
        raise WrongArgument("nonstrict_trace takes a callable")
    marks.mark(traceable_fn, marks.nonstrict)
    return traceable_fn


def disallow_in_graph(fn: _F) -> _F:
    """Break where `fn`, an operation that graphs would hold, is called.

    >>> import torch, framelift
    >>> framelift.disallow_in_graph(torch.sub) is torch.sub
    True
    >>> framelift.compile(lambda x: torch.sub(x, 1), backend="eager", fullgraph=True)(torch.ones(1))
    Traceback (most recent call last):
    framelift.exc.Unsupported: ...
    >>> _ = framelift.allow_in_graph(torch.sub)
    """
    if isinstance(fn, (list, tuple)):
        return _each(disallow_in_graph, fn)
    if not callable(fn):
        raise WrongArgument("disallow_in_graph takes a callable")
    if _is_written_in_torch(fn):  # torch.func.linearize does this to make_fx, each time
        if marks.handler_of(fn) is not marks.disallowed:
            marks.mark(fn, marks.disallowed)
        return fn
    if not is_in_graph(fn) and marks.handler_of(fn) not in (marks.allowed, marks.nonstrict):
        raise IncorrectUsage(
            f"disallow_in_graph is for callables that graphs hold as one node, as torch's operations; {fn!r} is none"
        )
    marks.mark(fn, marks.disallowed) if is_in_graph(fn) else marks.unmark(fn)
    return fn


def _is_written_in_torch(fn: Any) -> bool:
    return isinstance(fn, types.FunctionType) and fn.__code__.co_filename.startswith(TORCH)


def allow_c_slot(tp: type, *, tp_hash: bool = True, tp_richcompare: bool = True) -> type:
    """Objects of this C type never change, and its hash and comparisons depend on nothing else: captured code may ask
    for them.

    >>> import decimal, framelift
    >>> framelift.decorators.allow_c_slot(decimal.Decimal) is decimal.Decimal
    True
    """
    if not isinstance(tp, type):
        raise WrongType(f"allow_c_slot expects a type, got {type(tp).__name__}")
    if tp_hash != tp_richcompare:
        raise NotImplementedHere("framelift takes the hash and the comparisons of a type together: allow both")
    if tp_hash and not _core.is_python_class(tp):  # Python's own methods are captured
        RULES.setdefault(tp, import_constant)
    return tp


def forbid_in_graph(fn: _F) -> _F:
    """Make it an error to meet `fn` in captured code.

    >>> import torch, framelift
    >>> @framelift.forbid_in_graph
    ... def setup():
    ...     pass
    >>> framelift.compile(lambda x: (setup(), x)[1], backend="eager")(torch.ones(1))
    Traceback (most recent call last):
    framelift.exc.ForbiddenCallable: Attempt to trace forbidden callable ...
    """
    if isinstance(fn, (list, tuple)):
        return _each(forbid_in_graph, fn)
    if not callable(fn):
        raise WrongArgument("forbid_in_graph takes a callable")
    setattr(fn, "_dynamo_forbidden", True)
    return fn


def assume_constant_result(fn: _F) -> _F:
    """Call `fn` once, while capturing, and treat its result as a constant that is never checked again.

    >>> import torch, framelift
    >>> @framelift.assume_constant_result
    ... def size():
    ...     return 3
    >>> framelift.compile(lambda x: x * size(), backend="eager", fullgraph=True)(torch.ones(1))
    tensor([3.])
    """
    setattr(fn, "_dynamo_marked_constant", True)
    return fn


def substitute_in_graph(
    original_fn: Any, *, can_constant_fold_through: bool = False, skip_signature_check: bool = False
) -> Callable[[_F], _F]:
    """Capture the decorated Python function wherever `original_fn`, usually a C function, is called.

    Outside captured code the decorated name calls the original.

    >>> import operator, torch, framelift
    >>> @framelift.substitute_in_graph(operator.countOf)
    ... def count_of(a, b, /):
    ...     return sum(1 for item in a if item is b or item == b)
    >>> def twos(x, xs):
    ...     return x + operator.countOf(xs, 2)
    >>> framelift.compile(twos, backend="eager", fullgraph=True)(torch.ones(1), [2, 2])
    tensor([3.])
    """
    if not callable(original_fn) or isinstance(original_fn, type):
        raise WrongType(f"substitute_in_graph takes a function, not {type(original_fn).__name__}")

    def register(traceable_fn: Any) -> Any:
        if not isinstance(traceable_fn, types.FunctionType):
            raise WrongType(f"substitute_in_graph decorates a Python function, not {type(traceable_fn).__name__}")
        if not skip_signature_check:
            _check_signatures(original_fn, traceable_fn)
        if marks.handler_of(original_fn) is not None:
            raise WrongValue(f"{original_fn!r} has a substitute or a mark already")
        handler = marks.replaced(traceable_fn)

        @functools.wraps(traceable_fn)
        def original(*args: Any, **kwargs: Any) -> Any:
            return original_fn(*args, **kwargs)

        setattr(original, "__torch_dynamo_original__", original_fn)
        setattr(original, "__torch_dynamo_polyfill__", traceable_fn)
        setattr(original, "__torch_dynamo_can_constant_fold_through__", can_constant_fold_through)
        marks.mark(original_fn, handler)
        marks.mark(original, handler)
        return original

    return register


def _check_signatures(original: Any, traceable: Any) -> None:
    try:
        one, other = inspect.signature(original), inspect.signature(traceable)
    except ValueError:
        return
    spread = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    if any({p.kind for p in s.parameters.values()} == spread for s in (one, other)):
        return

    def names(signature: inspect.Signature) -> list[tuple[str, bool, Any]]:
        rows = [
            (p.name, p.kind is p.KEYWORD_ONLY, p.default) for p in signature.parameters.values() if p.kind not in spread
        ]
        return sorted(rows, key=lambda row: row[1])

    if names(one) != names(other):
        raise WrongType(f"Signature mismatch between {original} and {traceable}: {one} != {other}")


# ---- asked for in the program
# -----------------------------------------------------------------------------------------


def graph_break(msg: str = "") -> None:
    """Break the graph here; in eager mode it does nothing.

    >>> import torch, framelift
    >>> def f(x):
    ...     x = x + 1
    ...     framelift.graph_break("look here")
    ...     return x * 2
    >>> framelift.compile(f, backend="eager")(torch.ones(1))
    tensor([4.])
    """


def skip_frame(msg: str = "") -> None:
    """Run the whole frame that calls this eagerly; in eager mode it does nothing.

    >>> import framelift
    >>> framelift.skip_frame()
    """


def step_unsupported(msg: str = "") -> None:
    """Break here and run the rest of the frame eagerly; in eager mode it does nothing.

    >>> import framelift
    >>> framelift.step_unsupported()
    """


substitute(graph_break)(marks.refusing("graph-break"))
substitute(skip_frame, step_unsupported)(marks.refusing("skip-frame"))


class error_on_graph_break:
    """Within the block, or in the decorated function, a graph break is an error (True) or not (False).

    With `fullgraph=True` every graph break is an error, whatever this is set to.

    >>> import torch, framelift
    >>> @framelift.compile(backend="eager")
    ... def f(x):
    ...     with framelift.error_on_graph_break(True):
    ...         framelift.graph_break()
    ...     return x
    >>> f(torch.ones(1))
    Traceback (most recent call last):
    framelift.exc.Unsupported: ...
    """

    def __init__(self, error_on_graph_break: bool) -> None:
        self.error_on_graph_break = error_on_graph_break

    def __call__(self, fn: _F) -> _F:
        return _in_context(fn, self)

    def __enter__(self) -> None:
        break_errors.push(self.error_on_graph_break)

    def __exit__(self, *exc: Any) -> None:
        break_errors.pop()


@substitute(error_on_graph_break.__init__)
def _error_init(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> None:
    callable_(*args, **kwargs)


@substitute(error_on_graph_break.__enter__)
def _error_enter(session: Session, self: Any) -> None:
    BLOCKS.of(session).push(bool(_core.read(self, "error_on_graph_break")))


@substitute(error_on_graph_break.__exit__)
def _error_exit(session: Session, self: Any, *exc: Any) -> None:
    BLOCKS.of(session).pop()


@overload
def dont_skip_tracing(fn: None = None) -> Callable[[_F], _F]: ...
@overload
def dont_skip_tracing(fn: _F) -> _F: ...
def dont_skip_tracing(fn: Any = None) -> Any:
    """Kept for programs that use it: framelift skips no file when it captures, so there is nothing to switch off.

    >>> import framelift
    >>> framelift.dont_skip_tracing(abs)(-1)
    1
    """
    return contextlib.nullcontext() if fn is None else fn


substitute(dont_skip_tracing)(switches_nothing)


# Not framelift's own file, so that its frames are captured code.
_scope: dict[str, Any] = {"functools": functools}
exec(
    compile(
        "def in_context(fn, context):\n"
        "    @functools.wraps(fn)\n"
        "    def inside(*args, **kwargs):\n"
        "        with context:\n"
        "            return fn(*args, **kwargs)\n"
        "    return inside\n",
        "<in context>",
        "exec",
    ),
    _scope,
)
_in_context = _scope["in_context"]
