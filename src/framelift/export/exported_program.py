"""`export`: a program and one call of it as a `torch.export.ExportedProgram`."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.modules.lazy import LazyModuleMixin

from ..capture.policy import BodyMet
from ..exc import IncorrectUsage, NotImplementedHere, Unsupported, WrongValue
from ..graph.metadata.live_fakes import leaving_none_open
from ..torch_ports.autograd import is_functorch_wrapped_tensor
from ..torch_ports.graphs import LazyGraphModule, pytree
from ..torch_ports.modes import is_functional_tensor
from .capture import ExportedCall, capture
from .events import leaks_warned, noted
from .inputs import Call, call_of, called, dynamism_of, fakes_of, is_fake, marks_kept, separated
from .lowering import FunctionMet, Lowered, lower_captured, lower_program
from .strict_session import check_inputs


def export(
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: Sequence[str] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> Any:
    """One call of a module as a `torch.export.ExportedProgram`.

    Args:
        mod: the module; args, kwargs: example arguments.
        dynamic_shapes: which sizes may change, as torch.export.export takes it: by argument names or positions, with
        `torch.export.Dim`.
        strict: capture by rehearsal: the program's Python is watched, and what it reads of sizes is solved with the
            shapes.  Otherwise its Python simply runs once over fake tensors; so it does for modules of fake tensors,
            for programs with sparse ones, and where call signatures are to be preserved.
        preserve_module_call_signature: paths of modules whose calls `torch.export.unflatten` is to keep as they are.
        prefer_deferred_runtime_asserts_over_guards: relations that dynamic shapes cannot say are checked by the graph
        instead of being errors.

    >>> import torch, framelift
    >>> program = framelift.export.export(torch.nn.Linear(2, 1), (torch.ones(3, 2),), strict=True)
    >>> program.module()(torch.ones(3, 2)).shape
    torch.Size([3, 1])
    """
    if not isinstance(mod, torch.nn.Module):
        raise WrongValue(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if isinstance(mod, torch.jit.ScriptModule):
        raise WrongValue(
            "Exporting a ScriptModule is not supported. Maybe try converting your ScriptModule "
            "to an ExportedProgram using `TS2EPConverter(mod, args, kwargs).convert()` instead."
        )
    if type(dynamic_shapes).__name__ in ("ParamsSpec", "ShapesSpec"):  # torch 2.15
        raise NotImplementedHere("framelift exports with dynamic_shapes of torch.export.Dim, not of ShapesSpec")
    from torch.fx.experimental.symbolic_shapes import ConstraintViolationError, GuardOnDataDependentSymNode

    from ..torch_ports.exports import UserError
    from ..torch_ports.fakes import UnsupportedOperatorException

    options = {
        "dynamic_shapes": dynamic_shapes,
        "strict": strict,
        "preserve_module_call_signature": preserve_module_call_signature,
        "prefer_deferred_runtime_asserts_over_guards": prefer_deferred_runtime_asserts_over_guards,
    }
    try:
        program = _export(mod, args, kwargs, pre_dispatch=True, **options)
    except Exception as error:
        if isinstance(
            error, (ConstraintViolationError, GuardOnDataDependentSymNode, UnsupportedOperatorException, UserError)
        ):
            text, fixes, rest = str(error).partition("\nSuggested fixes:")  # torch.export's tools read them at the end
            error.args = (f"{text}\n\n{_DRAFT}{fixes}{rest}",)
        _keep(Exported(mod, args, kwargs, options, error=error))
        raise
    _keep(Exported(mod, args, kwargs, options, program))
    return program


_DRAFT = "framelift.export.draft_export() takes the same arguments and reports all such places at once."


@dataclass(frozen=True, eq=False)
class Exported:
    """An export that was asked for: its program, or its error."""

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any] | None
    options: dict[str, Any]
    program: Any = None
    error: Exception | None = None


_kept: list[list[Exported]] = []


@contextlib.contextmanager
def kept() -> Iterator[list[Exported]]:
    """Keep what is exported in the block, for tools that show it at the end."""
    _kept.append([])
    try:
        yield _kept[-1]
    finally:
        _kept.pop()


def _keep(one: Exported) -> None:
    if _kept:
        _kept[-1].append(one)


@dataclass(frozen=True, eq=False)
class _Wanted:
    """How a call is exported: `preserved` are modules whose calls stay, `deferred` has relations checked by the graph,
    and `watched` plain tracing rehearses the call where it comes to an autograd function.
    """

    dynamic_shapes: Any
    strict: bool
    preserved: tuple[str, ...]
    pre_dispatch: bool
    deferred: bool
    watched: bool = True


def _export(
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    strict: bool = True,
    preserve_module_call_signature: Sequence[str] = (),
    pre_dispatch: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> Any:
    """As `export`; without `pre_dispatch` the graph is functional, as AOTAutograd makes it."""
    preserved, deferred = tuple(preserve_module_call_signature), prefer_deferred_runtime_asserts_over_guards
    wanted = _Wanted(dynamic_shapes, strict, preserved, pre_dispatch, deferred)
    with noted(strict, pre_dispatch) as done, leaks_warned(strict):
        program = _exported(mod, args, kwargs, wanted)
        done(program)
    return program


def _exported(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None, wanted: _Wanted) -> Any:
    from torch.export import ExportedProgram

    from ..torch_ports.exports import export_utils as utils
    from ..torch_ports.exports import trace_module as _trace
    from ..torch_ports.exports import verifier
    from ..torch_ports.fakes import unset_fake_temporarily

    args, kwargs, _, dynamic_shapes, verify = _trace._process_export_inputs(mod, args, kwargs, wanted.dynamic_shapes)
    wanted = replace(wanted, dynamic_shapes=dynamic_shapes)
    state = _trace._get_original_state_dict(mod)
    call = call_of(mod, *separated(mod, args, kwargs))
    if wanted.strict:
        check_inputs(call.leaves)
    lazy = [one for one in mod.modules() if isinstance(one, LazyModuleMixin) and one.has_uninitialized_params()]
    with unset_fake_temporarily():  # a mode around the call is no part of the program
        with marks_kept(call), leaving_none_open():
            lowered, mode = _lowered(call, wanted)
            graph_module, ranges, entries = _finished(call, lowered, mode, wanted)
        if lazy:  # its parameters are there by now
            state = _trace._get_original_state_dict(mod)
        if not wanted.pre_dispatch:
            utils.remove_proxy_from_state_dict(state, in_place=True)
        utils._update_gm_meta_if_possible(graph_module, mod)
        program = ExportedProgram(
            root=graph_module,
            graph=graph_module.graph,
            graph_signature=lowered.artifact.sig,
            state_dict=state,
            range_constraints=ranges,
            module_call_graph=entries,
            example_inputs=(args, kwargs),
            constants=lowered.artifact.constants,
            verifiers=[verifier.TrainingIRVerifier if wanted.pre_dispatch else verifier.Verifier],
        )
        verify(program)
    return program


def draft_export(
    mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, **options: Any
) -> Any:
    """As `export`, for a program that cannot be exported yet: of whatever is wrong the example's values decide.

    `print(program._report)` lists all of it with its lines, and what to write there.

    >>> import torch, framelift
    >>> class Chooses(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x + 1 if x.sum() > 0 else x - 1
    >>> len(framelift.export.draft_export(Chooses(), (torch.ones(2),))._report.failures)
    1
    """
    from ..torch_ports.exports import draft_export as _draft

    own = types.FunctionType(_draft.__code__, {**_draft.__globals__, "_export": _export}, "draft_export")
    own.__kwdefaults__ = _draft.__kwdefaults__
    return own(mod, args, kwargs, **options)


def _captured(call: Call, wanted: _Wanted) -> ExportedCall | None:
    """The call's graph, with its autograd functions as nodes: they keep their gradients for calls that want some.

    None: it has sparse tensors, which rehearsals do not know.
    """
    try:
        return capture(call, dynamism_of(call, wanted.dynamic_shapes), wanted.pre_dispatch, LazyGraphModule)
    except Unsupported as error:
        if error.reason == "tensor-kind":
            return None
        if not wanted.pre_dispatch:
            raise
    # a function that this call asks no gradient of may have none
    return capture(call, dynamism_of(call, wanted.dynamic_shapes), made_as=LazyGraphModule)


def _lowered(call: Call, wanted: _Wanted) -> tuple[Lowered, Any]:
    from torch.fx.experimental.symbolic_shapes import ConstraintViolationError, GuardOnDataDependentSymNode

    from ..torch_ports.exports import UserError, UserErrorType, trace_module
    from ..torch_ports.symbols import ValueRangeError

    rehearsed = wanted.strict and not wanted.preserved and not is_fake(call) and not _is_exported(call.root)
    captured = _captured(call, wanted) if rehearsed else None
    try:
        lowered, mode = _lower(call, captured, wanted)
    except BodyMet:
        return _lowered(call, replace(wanted, strict=True, preserved=()))
    except FunctionMet as met:
        try:
            return _lowered(call, replace(wanted, strict=True, preserved=()))
        except Unsupported:
            if met.tracked:
                raise
            return _lowered(call, replace(wanted, watched=False))
    except (ConstraintViolationError, ValueRangeError) as error:
        if not wanted.strict:
            raise
        raise UserError(UserErrorType.CONSTRAINT_VIOLATION, str(error)) from error
    except GuardOnDataDependentSymNode as error:
        if not wanted.strict:
            raise
        raise UserError(
            UserErrorType.ANTI_PATTERN,
            f"Consider annotating your code using torch._check*(). {error}",
            case_name="constrain_as_size_example",
        ) from error
    if _holds_traced(call, lowered):
        raise IncorrectUsage(
            "a tensor that exists while exporting only was taken for a constant: an operation of the program is not "
            "traced. Write what it does with traced operations, or keep it out of the exported module"
        )
    artifact = lowered.artifact
    trace_module._move_non_persistent_buffers_to_tensor_constants(call.root, artifact.sig, artifact.constants)
    if captured is not None:
        artifact.constants.update(_other_names(call.root, artifact.constants))
    return lowered, mode


def _is_exported(module: Any) -> bool:
    """Return whether a module is a graph without Python of the program's: run over fakes, its nodes keep their data."""
    modules = list(module.modules()) if isinstance(module, torch.fx.GraphModule) else [None]
    return all(
        type(one) is torch.nn.Module
        or isinstance(one, torch.fx.GraphModule)
        or type(one).__module__.startswith("torch.export.")
        for one in modules
    )


def _other_names(root: Any, constants: dict[str, Any]) -> dict[str, Any]:
    """Return the further attributes of a program's modules that hold its constants, by their paths."""
    held = {id(tensor) for tensor in constants.values() if isinstance(tensor, torch.Tensor)}
    return {
        f"{path}.{name}" if path else name: value
        for path, module in root.named_modules(remove_duplicate=False)
        for name, value in vars(module).items()
        if isinstance(value, torch.Tensor) and id(value) in held
    }


def _lower(call: Call, captured: ExportedCall | None, wanted: _Wanted) -> tuple[Lowered, Any]:
    fakes = fakes_of(call, wanted.dynamic_shapes, wanted.deferred)
    if captured is None:
        watched = wanted.watched and wanted.pre_dispatch and not is_fake(call)
        return lower_program(call, fakes, wanted.pre_dispatch, wanted.preserved, watched), fakes.mode
    with fakes.mode:
        captured.relied.holds(fakes.leaves)
        fakes.asked.extend(captured.relied.lines(called(call)))
    return lower_captured(captured, call, fakes, wanted.pre_dispatch), fakes.mode


def _holds_traced(call: Call, lowered: Lowered) -> bool:
    """Return whether a fake or a transform's wrapper was taken for a constant in a call whose own tensors are real."""
    held: list[Any] = []
    for module in lowered.artifact.gm.modules():
        held += [*vars(module).values(), *module._parameters.values(), *module._buffers.values()]
        if isinstance(module, torch.fx.GraphModule):
            held += [leaf for node in module.graph.nodes for leaf in pytree.tree_leaves((node.args, node.kwargs))]
    tensors = [value for value in (*lowered.artifact.constants.values(), *held) if isinstance(value, torch.Tensor)]
    return any(map(_is_traced, tensors)) and not is_fake(call)


def _is_traced(tensor: torch.Tensor) -> bool:
    from ..torch_ports.fakes import FakeTensor

    return isinstance(tensor, FakeTensor) or is_functorch_wrapped_tensor(tensor) or is_functional_tensor(tensor)


def _finished(call: Call, lowered: Lowered, mode: Any, wanted: _Wanted) -> tuple[Any, Any, list[Any]]:
    """The graph with its metadata, the ranges of its symbols, and how modules were called."""
    from ..torch_ports.exports import trace_module as _trace

    artifact = _trace.ExportArtifact(
        aten=lowered.artifact,
        in_spec=lowered.in_spec,
        out_spec=lowered.out_spec,
        fake_mode=mode,
        module_call_specs=lowered.call_specs,
    )
    graph_module = artifact.aten.gm
    graph_module.meta["inline_constraints"] = _trace._get_inline_constraints(mode)
    ranges = _trace._get_range_constraints(call.root, artifact, call.args, call.kwargs, wanted.dynamic_shapes)
    signatures = {
        _trace._strip_root(name): _signature(specs["in_spec"], specs["out_spec"])
        for name, specs in lowered.call_specs.items()
    }
    if wanted.preserved:
        _trace._rewrite_tracepoint_node(graph_module)
        made = _trace.CollectTracepointsPass(signatures, artifact.aten.sig)(graph_module)
        graph_module = made.graph_module
    entries = _call_graph(call.root, signatures, _signature(lowered.in_spec, lowered.out_spec, call.names))
    _trace._verify_nn_module_stack(graph_module)
    _trace._verify_stack_trace(graph_module)
    _trace._verify_placeholder_names(graph_module, artifact.aten.sig)
    return graph_module, ranges, entries


def _signature(in_spec: Any, out_spec: Any, names: list[str] | None = None) -> Any:
    from torch.export import ModuleCallSignature

    return ModuleCallSignature(inputs=[], outputs=[], in_spec=in_spec, out_spec=out_spec, forward_arg_names=names)


def _call_graph(root: torch.nn.Module, signatures: dict[str, Any], own: Any) -> list[Any]:
    """An entry for each module of the program, by its path, then for repeated calls."""
    from torch.export import ModuleCallEntry

    paths = [name for name, _ in root.named_modules(remove_duplicate=False)]
    known = {**signatures, "": own}
    return [ModuleCallEntry(fqn=name, signature=known.get(name)) for name in dict.fromkeys((*paths, *signatures))]
