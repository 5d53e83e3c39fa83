"""The call to be exported: its leaves and their names, which of their sizes and numbers are dynamic, and fakes of them.

What the user says of dynamic shapes is read, checked and solved by torch.export's own code, which leaves marks on
the example tensors; here they are put back as they were.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

from ..boundary.dynamism import Dynamism, marks_of
from ..graph.symbols.meanings import NO_MARKS, Marks
from ..guards.sentences import where
from ..torch_ports.graphs import pytree
from ..torch_ports.loaded import dynamo_exc
from ..torch_ports.symbols import PythonPrinter
from ..vocabulary.origins import Origin, arg
from ..vocabulary.own_code import FRAMELIFT, first_above
from ..vocabulary.plain_types import TORCH_CONSTANTS
from ..vocabulary.scopes import scope


@dataclass(frozen=True, eq=False)
class Call:
    """One call of `root`: `places` are the origins of its leaves, `names` the arguments of the graph."""

    root: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    leaves: list[Any]
    places: list[Origin | None]
    spec: Any
    names: list[str]


def call_of(root: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """The call as data."""
    found, spec = pytree.tree_flatten_with_path((args, kwargs))
    return Call(
        root,
        args,
        kwargs,
        [leaf for _, leaf in found],
        [_place(path) for path, _ in found],
        spec,
        _names(root, args, kwargs),
    )


def separated(root: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments, each tensor with memory of its own: an exported program is called with others, which need not
    share theirs.

    Examples that are one tensor, views of each other, or tensors of the module are copied.
    """
    held = (
        (
            *root.parameters(),
            *root.buffers(),
            *(value for module in root.modules() for value in vars(module).values() if isinstance(value, torch.Tensor)),
        )
        if isinstance(root, torch.nn.Module)
        else ()
    )
    taken = {memory for memory in map(_memory, held) if memory is not None}

    def own(leaf: Any) -> Any:
        memory = _memory(leaf)
        if memory is None:
            return leaf
        if memory not in taken:
            taken.add(memory)
            return leaf
        with torch.no_grad():
            storage = leaf.untyped_storage().clone()
            copy = torch.empty(0, dtype=leaf.dtype, device=leaf.device).set_(
                storage, leaf.storage_offset(), leaf.size(), leaf.stride()
            )
        copy.requires_grad_(leaf.requires_grad)
        copy.__dict__.update({name: value for name, value in leaf.__dict__.items() if _is_mark(name)})
        return copy

    return pytree.tree_map(own, args), pytree.tree_map(own, kwargs)


def _memory(value: Any) -> int | None:
    """Return the address of a plain tensor's memory; None for anything else."""
    if (
        type(value) not in (torch.Tensor, torch.nn.Parameter)
        or value.layout is not torch.strided
        or not value.numel()
        or value.device.type == "meta"
    ):
        return None
    return value.untyped_storage()._cdata


def is_fake(call: Call) -> bool:
    """Return whether the call's own tensors are fakes."""
    from ..torch_ports.fakes import FakeTensor

    held = (*call.root.parameters(), *call.root.buffers()) if isinstance(call.root, torch.nn.Module) else ()
    return any(isinstance(one, FakeTensor) for one in (*call.leaves, *held))


def called(call: Call) -> list[str]:
    """Return the names that the program gives its leaves."""
    names = {f"args[{i}]": name for i, name in enumerate(call.names[: len(call.args)])} | {
        f"kwargs[{name!r}]": name for name in call.kwargs
    }
    return [
        re.sub(r"^(args|kwargs)\[[^\]]*\]", lambda found: names.get(found[0], found[0]), str(place))
        for place in call.places
    ]


def _place(path: tuple[Any, ...]) -> Origin | None:
    """Where captured code finds a leaf; None where that is not by items alone."""
    first, *rest = path
    place = arg(0, "args") if first.idx == 0 else arg(1, "kwargs")
    for key in rest:
        if isinstance(key, pytree.SequenceKey):
            place = place.to("item", key.idx)
        elif isinstance(key, pytree.MappingKey):
            place = place.to("item", key.key)
        else:
            return None
    return place


def _names(root: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    from ..torch_ports.exports import trace_module as _trace

    try:
        return _trace._get_forward_arg_names(as_module(root), args, kwargs)
    except (TypeError, ValueError):
        return [f"arg_{i}" for i in range(len(args))] + list(kwargs)


class ExportDynamism(Dynamism):
    """Symbolic are the sizes of just these tensors, by id, and the numbers at these places."""

    def __init__(self, sizes: dict[int, frozenset[int]], numbers: list[Origin]) -> None:
        super().__init__({str(place): True for place in numbers})
        self.sizes = sizes

    def dims(self, tensor: torch.Tensor, origin: Origin) -> tuple[frozenset[int], Marks]:
        return self.sizes.get(id(tensor), frozenset()), NO_MARKS


def _is_mark(name: str) -> bool:
    return name.startswith("_dynamo_") or name in ("_has_dynamo_dim_marking", "_specialize_on")


@scope
def marks_kept(call: Call) -> Iterator[None]:
    """Whatever marks are left on the example tensors inside, they are afterwards as they were."""
    tensors = [leaf for leaf in call.leaves if isinstance(leaf, torch.Tensor)]
    before = [
        {
            name: value.copy() if isinstance(value, (set, dict)) else value
            for name, value in tensor.__dict__.items()
            if _is_mark(name)
        }
        for tensor in tensors
    ]
    try:
        yield
    finally:
        for tensor, marks in zip(tensors, before):
            for name in [name for name in tensor.__dict__ if _is_mark(name)]:
                del tensor.__dict__[name]
            tensor.__dict__.update(marks)


def mark_everything(call: Call) -> None:
    """Try every size as a dynamic one."""
    for leaf in call.leaves:
        if isinstance(leaf, torch.Tensor) and not isinstance(leaf, torch.nn.Parameter):
            leaf.__dict__.setdefault("_dynamo_weak_dynamic_indices", set()).update(range(leaf.dim()))


def as_module(root: Any) -> torch.nn.Module:
    """A callable in the form that torch.export's code expects."""
    if isinstance(root, torch.nn.Module):
        return root
    made = torch.nn.Module()
    made.forward = root
    return made


def dynamism_of(call: Call, dynamic_shapes: Any) -> ExportDynamism:
    """Return which values are symbolic in the rehearsal: all that the user declared dynamic, or marked so."""
    from torch.export import dynamic_shapes as torch_shapes

    wrapped, combined = _combined(call)
    torch_shapes._check_dynamic_shapes(combined, dynamic_shapes)
    _check_dimensions(call, dynamic_shapes)
    sizes: dict[int, frozenset[int]] = {}
    for constraint in torch_shapes._process_dynamic_shapes(combined, dynamic_shapes):
        if isinstance(constraint, torch_shapes._ConstraintTarget) and not isinstance(
            constraint, torch_shapes._RelaxedConstraint
        ):
            sizes[constraint.t_id] = sizes.get(constraint.t_id, frozenset()) | {constraint.dim}
    for leaf in call.leaves:
        if isinstance(leaf, torch.Tensor):
            marks, maybe, static = marks_of(leaf)
            sizes[id(leaf)] = (sizes.get(id(leaf), frozenset()) | maybe | set(marks.dynamic)) - static
    numbers = []
    for place, leaf in zip(call.places, pytree.tree_leaves(wrapped)):
        hint = leaf.dynamism if isinstance(leaf, torch_shapes._IntWrapper) else None
        if place is not None and hint is not None and hint.type.name in ("AUTO", "DYNAMIC"):
            numbers.append(place)
    return ExportDynamism({key: dims for key, dims in sizes.items() if dims}, numbers)


def _combined(call: Call) -> tuple[Any, Any]:
    """The arguments with ints as torch.export marks them, and the same by name."""
    from torch.export import dynamic_shapes as torch_shapes

    wrapped = pytree.tree_map_only(int, torch_shapes._IntWrapper, (call.args, call.kwargs))
    return wrapped, torch_shapes._combine_args(as_module(call.root), *wrapped)


def _check_dimensions(call: Call, dynamic_shapes: Any) -> None:
    """Say which dimension does not exist that was declared dynamic: torch's own way ends in a bare IndexError."""
    from torch.export import dynamic_shapes as torch_shapes

    from ..torch_ports.exports import trace_module as _trace

    if not isinstance(dynamic_shapes, (dict, tuple, list)) or not dynamic_shapes:
        return  # empty: nothing is dynamic
    _, combined = _combined(call)

    def check(path: Any, tensor: Any, shape: Any) -> None:
        if not isinstance(tensor, torch.Tensor) or not isinstance(shape, dict):
            return
        for dim, declared in shape.items():
            if (
                isinstance(declared, torch_shapes.Dim)
                and isinstance(dim, int)
                and not -tensor.ndim <= dim < tensor.ndim
            ):
                raise _trace.UserError(
                    _trace.UserErrorType.INVALID_INPUT,
                    f"dynamic_shapes{pytree.keystr(path)} declares dimension {dim} of a tensor of shape "
                    f"{tuple(tensor.shape)}, which has {tensor.ndim}",
                )

    given = combined if isinstance(dynamic_shapes, dict) else type(dynamic_shapes)(combined.values())
    torch_shapes._tree_map_with_path(check, given, dynamic_shapes, tree_name="inputs")


@dataclass(frozen=True, eq=False)
class FakeInputs:
    """The call's arguments as fakes of one mode, with what torch.export's solver needs besides."""

    mode: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    equalities: Any
    signature: inspect.Signature
    dynamic_shapes: Any
    leaves: list[Any] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)  # what the program's own Python asked of sizes, with its lines

    def watch(self) -> None:
        """From now on, what is asked of the symbols is noted with the program's line."""
        self.mode.shape_env.guards = _Watched(self.mode.shape_env, self.asked)

    def solve(self, graph_module: Any) -> None:
        """Return whether what was promised of dynamic shapes holds; raises with suggested fixes."""
        from ..torch_ports.exports import produce_guards_and_solve_constraints

        try:
            produce_guards_and_solve_constraints(
                fake_mode=self.mode,
                gm=graph_module,
                dynamic_shapes=self.dynamic_shapes,
                equalities_inputs=self.equalities,
                original_signature=self.signature,
            )
        except Exception as error:
            violated = dynamo_exc.get().UserErrorType.CONSTRAINT_VIOLATION  # torch has it loaded here
            is_violation = isinstance(error, ConstraintViolationError) or getattr(error, "error_type", None) is violated
            if self.asked and is_violation:  # what stands last is read by refine_dynamic_shapes_from_suggested_fixes
                text, title, fixes = str(error).partition("Suggested fixes:")
                lines = ["What was captured relies on:", *(f"  {line}" for line in self.asked), title + fixes]
                error.args = (text.rstrip() + "\n" + "\n".join(lines).rstrip(),)
            raise


class _Watched(list[Any]):
    """The guards of a shape environment, each with the line of the program that asked for it."""

    def __init__(self, env: Any, reasons: list[str]) -> None:
        super().__init__(env.guards)
        self.env, self.reasons = env, reasons

    def append(self, guard: Any) -> None:
        super().append(guard)
        line = _user_line()
        if line:
            self.reasons.append(f"{_said(self.env, guard.expr)} at {line}")


_PACKAGES = (FRAMELIFT, torch.__file__.rsplit("/", 1)[0] + "/")


def _user_line() -> str:
    frame = first_above(lambda one: not one.f_code.co_filename.startswith(_PACKAGES))
    return "" if frame is None else where((frame.f_code, frame.f_lasti))


def _said(env: Any, expression: Any) -> str:
    """A relation in the program's names."""
    words = {
        str(symbol): str(source.name if isinstance(source.name, str) else source.name())
        for symbol in expression.free_symbols
        for source in list(env.var_to_sources.get(symbol, ()))[:1]
    }
    text = re.sub(r"[A-Za-z_]\w*", lambda found: words.get(found[0], found[0]), PythonPrinter().doprint(expression))
    return re.sub(r"L\['(\w+)'\]", r"\1", text)


def fakes_of(call: Call, dynamic_shapes: Any, deferred: bool = False, constants: bool = False) -> FakeInputs:
    """Fakes with symbols for what is dynamic.  `deferred`: other relations are checked by the graph.

    `constants`: dtypes and the like may be arguments, which programs of torch.export do not take.
    """
    from ..torch_ports.exports import non_strict_utils

    accepted = inspect.signature(non_strict_utils.make_fake_inputs).parameters
    options = {name: deferred for name in ("prefer_deferred_runtime_asserts_over_guards",) if name in accepted}
    named = {i: leaf for i, leaf in enumerate(call.leaves) if constants and isinstance(leaf, TORCH_CONSTANTS)}
    shown = [str(leaf) if i in named else leaf for i, leaf in enumerate(call.leaves)]  # torch takes texts for constants
    given, given_named = pytree.tree_unflatten(shown, call.spec) if named else (call.args, call.kwargs)
    _check_dimensions(call, dynamic_shapes)
    mode, args, kwargs, equalities, signature, shapes = non_strict_utils.make_fake_inputs(
        as_module(call.root), given, given_named, dynamic_shapes, **options
    )
    leaves, spec = pytree.tree_flatten((args, kwargs))
    if named:
        leaves = [named.get(i, leaf) for i, leaf in enumerate(leaves)]
        args, kwargs = pytree.tree_unflatten(leaves, spec)
    return FakeInputs(mode, args, kwargs, equalities, signature, shapes, leaves)
