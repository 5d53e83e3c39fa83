"""`compile(dynamic_shapes=...)`: the sizes and ints of the arguments that the program declares, in torch's classes
(`torch.fx.experimental.dynamic_spec`, from torch 2.13 on, where the argument is called `shapes_spec`).

What is declared by a variable is symbolic from the first call, 0 and 1 included; everything else of the arguments is a
constant.  Only the compiled function's own frame is meant: what follows a graph break has no such arguments.
"""

from __future__ import annotations

import inspect
import types
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from .._core import is_a
from ..exc import ConstraintViolation
from ..graph.symbols.meanings import NO_MARKS, Marks
from ..vocabulary.origins import Origin
from ..vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from torch.fx.experimental.dynamic_spec import ShapesSpec

#: where a module's own parts are, as attributes of it
_TABLES = ("_modules", "_parameters", "_buffers")
#: what is meant by nothing of the specification
_UNSAID = None


def normalized(spec: Any) -> ShapesSpec:
    """Convert `dynamic_shapes` (a dictionary, `ParamsSpec` or `ShapesSpec`) to a `ShapesSpec`."""
    try:
        from torch.fx.experimental.dynamic_spec import ShapesSpec
    except ImportError:
        raise NotImplementedError(f"dynamic_shapes needs torch 2.13; this is torch {torch.__version__}") from None
    return spec if is_a(spec, ShapesSpec) else ShapesSpec(spec)


def resolved(model: Any, dynamic_shapes: Any) -> Any:
    """Return the specification of a function or module: the argument's, or that of its `@dynamic_spec` decorator."""
    function = model.forward if is_a(model, torch.nn.Module) else model
    attached = getattr(function, "_dynamic_spec", None)
    if attached is None:
        return dynamic_shapes
    if dynamic_shapes is not None:
        raise ValueError(
            "Both `@dynamic_spec(...)` is attached to the function/forward AND a `dynamic_shapes=` argument was "
            "passed. Provide only one."
        )
    return attached


class Declared:
    """A specification for the function with this code.  `of_module`: its frame is that of `Module.__call__`, and the
    code is that of `forward`.
    """

    def __init__(self, spec: ShapesSpec, code: types.CodeType, of_module: bool) -> None:
        self._params: Any = spec._params
        self._assumed = tuple([one.node.expr for one in spec.assumptions])
        self._of_module = of_module
        names = code.co_varnames
        self._positional = names[of_module : code.co_argcount]
        self._named = frozenset(names[: code.co_argcount + code.co_kwonlyargcount])
        count = code.co_argcount + code.co_kwonlyargcount
        self._varargs = names[count] if code.co_flags & inspect.CO_VARARGS else ""
        self._varkw = names[count + bool(self._varargs)] if code.co_flags & inspect.CO_VARKEYWORDS else ""

    def dims(self, tensor: torch.Tensor, origin: Origin) -> tuple[frozenset[int], Marks]:
        """The dimensions of a tensor that are symbolic, and what is declared of them."""
        spec = self._at(origin)
        if spec is _UNSAID:
            return frozenset(), NO_MARKS
        sizes, rank = getattr(spec, "_specs", None), _core.of_tensor(tensor, "dim")
        if sizes is None:
            raise _violation(f"{origin} is a tensor, and dynamic_shapes declares it as {_kind(spec)}")
        if len(sizes) != rank:
            raise _violation(f"dynamic_shapes declares {len(sizes)} dimensions of {origin}, which has {rank}")
        for dim, size in enumerate(sizes):
            now = _core.tensor_size(tensor, dim)
            if type(size) is int and size != now:
                raise _violation(f"dynamic_shapes declares {origin}.size({dim}) as {size}, and it is {now}")
        symbolic = {dim: size for dim, size in enumerate(sizes) if is_a(size, torch.SymInt)}
        return frozenset(symbolic), self._marks(symbolic)

    def number(self, value: int, origin: Origin) -> bool:
        """Return whether the int found at `origin` is symbolic."""
        spec = self._at(origin)
        if type(spec) is int and spec != value:
            raise _violation(f"dynamic_shapes declares {origin} as {spec}, and it is {value}")
        if spec is not _UNSAID and not is_a(spec, (int, torch.SymInt)):
            raise _violation(f"{origin} is an int, and dynamic_shapes declares it as {_kind(spec)}")
        return is_a(spec, torch.SymInt)

    def marks_of_number(self, origin: Origin) -> Marks:
        """Return the declared marks of a symbolic int, as of the only dimension of a tensor."""
        return self._marks({0: self._at(origin)})

    def _marks(self, symbolic: dict[int, Any]) -> Marks:
        variables = {dim: size for dim, size in symbolic.items() if hasattr(size, "sympy_sym")}
        hints = {dim: size.optimization_hint for dim, size in variables.items() if size.optimization_hint is not None}
        return Marks(
            {},
            frozenset(symbolic),
            bounds={dim: (size.min, size.max) for dim, size in variables.items()},
            shared={dim: str(size.sympy_sym) for dim, size in variables.items()},
            hints=hints,
            derived={dim: size.node.expr for dim, size in symbolic.items() if dim not in variables},
            assumed=self._assumed,
        )

    def _at(self, origin: Origin) -> Any:
        """Return the declaration for the value at an origin."""
        steps = _steps(origin)
        if self._params is None or not steps:
            return _UNSAID
        spec, steps = self._argument(steps)
        for kind, key in steps:
            if spec is _UNSAID:
                return _UNSAID
            inside = _INSIDE.get((_kind(spec), kind))
            if inside is None:
                raise _violation(f"dynamic_shapes declares a part of {origin} as {_kind(spec)}")
            spec = inside(spec, key)
        return spec

    def _argument(self, steps: list[tuple[str, Any]]) -> tuple[Any, list[tuple[str, Any]]]:
        """The specification of the argument that a path begins with, and the rest of the path."""
        (_, name), *rest = steps
        if self._of_module:
            if name not in ("args", "kwargs") or not rest or rest[0][0] != "item":
                return _UNSAID, []
            key = rest[0][1]
            if name == "args" and key < len(self._positional):
                return self._params._named_args.get(self._positional[key]), rest[1:]
            if name == "kwargs" and key in self._named:
                return self._params._named_args.get(key), rest[1:]
            if name == "args":
                return _of_sequence(self._params._varargs or (), key - len(self._positional)), rest[1:]
            return (self._params._varkw or {}).get(key), rest[1:]
        if name in (self._varargs, self._varkw) and rest and rest[0][0] == "item":
            if name == self._varargs:
                return _of_sequence(self._params._varargs or (), rest[0][1]), rest[1:]
            return (self._params._varkw or {}).get(rest[0][1]), rest[1:]
        return self._params._named_args.get(name), rest


def _of_sequence(specs: Any, index: int) -> Any:
    return specs[index] if type(index) is int and 0 <= index < len(specs) else _UNSAID


#: (class of a specification, kind of step) -> what it says of the part
_INSIDE: dict[tuple[str, str], Any] = {
    ("ObjectSpec", "attr"): lambda spec, name: spec._fields.get(name),
    ("DictSpec", "item"): lambda spec, key: spec._entries.get(key),
    ("SeqSpec", "item"): lambda spec, index: _of_sequence(spec._entries, index),
}


def _kind(spec: Any) -> str:
    return type(spec).__name__


def _steps(origin: Origin) -> list[tuple[str, Any]]:
    """The way from an argument to a value, in attributes and items; empty where it has other steps."""
    found: list[tuple[str, Any]] = []
    while origin.base is not None:
        base = origin.base
        if origin.step == "item" and base.step == "dict":
            if origin.key not in _TABLES:  # else the step before is the attribute
                found.append(("attr", origin.key))
            origin = base
        elif origin.step == "item":
            is_part = base.step == "item" and base.base is not None and base.base.step == "dict" and base.key in _TABLES
            found.append(("attr" if is_part else "item", origin.key))
        elif origin.step in ("attr", "slot"):
            found.append(("attr", origin.key))
        elif origin.step != "dict":
            return []
        assert origin.base is not None
        origin = origin.base
    return [("arg", origin.key[1]), *reversed(found)] if origin.step == "arg" else []


def _violation(text: str) -> Interrupt:
    """A call for which the specification does not hold is an error: nothing falls back to eager mode."""
    stop = Interrupt("forbidden", "a function with arguments that dynamic_shapes excludes")
    stop.error, stop.run_eagerly = ConstraintViolation(text), True
    return stop
