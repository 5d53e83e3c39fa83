"""Triton kernels of the program, launched from captured code: `kernel[grid](...)` is one node, PyTorch's own operator
for such launches.

Kernels that choose their settings by trying (autotune, heuristics) are left to eager mode: what they try runs the
kernel.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from .. import _core
from .._core import is_a
from ..calls.call_tables import CODE_HANDLERS, handler_form, substitute
from ..graph.fx.targets import target_of
from ..graph.fx.values import Step, Value
from ..graph.metadata.arguments import take
from ..graph.metadata.fakes import UNKNOWN
from ..graph.state.torch_state import read_state
from ..graph.symbols.number_nodes import graph_values, numbers_in
from ..graph.symbols.numbers import NUMBERS
from ..torch_ports.autograd import is_grad_enabled
from ..torch_ports.modes import DisableTorchFunction
from ..vocabulary.class_reads import module_of, qualname_of
from ..vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ..recording.session import Recorder, Session

_KERNELS = ("triton.runtime.jit.JITFunction", "triton.runtime.interpreter.InterpretedFunction")


def meet_triton() -> None:
    """Know how kernels are launched, once the program has Triton."""
    jit = sys.modules.get("triton.runtime.jit")
    interface = getattr(jit, "KernelInterface", None)
    if interface is not None and interface.__getitem__.__code__ not in CODE_HANDLERS:
        CODE_HANDLERS[interface.__getitem__.__code__] = handler_form(_with_grid)
        helper = getattr(jit, "ConstexprFunction", None)  # triton.cdiv and its kind
        if helper is not None:
            CODE_HANDLERS[helper.__call__.__code__] = handler_form(_helper)


def _helper(session: Session, helper: Any, /, *args: Any, _semantic: Any = None, **kwargs: Any) -> Any:
    """A function for kernels that the program calls itself: the plain function inside."""
    if _semantic is not None:
        raise Interrupt("unknown-callable", "a function of Triton called as kernels call it")
    return _core.captured(_core.read(helper, "fn"), args, kwargs)


def _with_grid(session: Session, kernel: Any, grid: Any) -> Any:
    """`kernel[grid]`"""
    kind = type(kernel)
    if f"{module_of(kind)}.{qualname_of(kind)}" not in _KERNELS:
        raise Interrupt("unknown-callable", f"{qualname_of(kind)} of Triton, which runs its kernel to choose how,")
    return functools.partial(_launch, kernel, grid)


def _launch(kernel: Any, grid: Any, *args: Any, **kwargs: Any) -> None:
    """`kernel[grid](*args, **kwargs)`, where it is called after a break."""
    kernel[grid](*args, **kwargs)


@substitute(_launch)
def _record_launch(session: Session, kernel: Any, grid: Any, /, *given: Any, **kwargs: Any) -> None:
    recorder = session.recorder
    if recorder.in_transform():
        raise Interrupt("torch-operation", "a Triton kernel inside a function transform")
    named = dict(zip(kernel.arg_names, given))
    if len(given) > len(kernel.arg_names) or named.keys() & kwargs.keys():
        raise Interrupt("torch-operation-failed", "a Triton kernel called with arguments that it does not take")
    named.update(kwargs)
    for name in _constants(kernel):
        if type(named.get(name)) in NUMBERS:
            named[name] = named[name].__index__()
    if callable(grid):
        grid = _core.captured(grid, (dict(named),), None)
    grid = tuple(grid) if is_a(grid, (tuple, list)) else (grid,)
    if not all(type(entry) is int or type(entry) in NUMBERS for entry in grid):
        raise Interrupt("torch-operation", "a Triton kernel with a grid that is not made of numbers")
    if not 1 <= len(grid) <= 3:
        raise Interrupt("torch-operation-failed", f"a Triton kernel with a grid of {len(grid)} dimensions")
    with DisableTorchFunction():
        _add_step(recorder, kernel, (*grid, 1, 1)[:3], named)  # compilers want all three


def _constants(kernel: Any) -> list[str]:
    """The parameters of a kernel that are part of its code."""
    return [kernel.arg_names[i] for i in getattr(kernel, "constexprs", ())]


def _add_step(recorder: Recorder, kernel: Any, grid: tuple[Any, ...], named: dict[str, Any]) -> None:
    from ..torch_ports.operators import get_mutated_tensors, kernel_side_table, triton_kernel_wrapper_mutation

    found: list[Value] = []
    kept = dict(zip(named, take(named.values(), recorder.by_stand_in, [], found)))
    graphed = {name: arg for name, arg in kept.items() if type(arg) is Value or type(arg) in NUMBERS}
    others = {name: arg for name, arg in kept.items() if name not in graphed}
    if any(type(arg) in (tuple, list, dict) for arg in others.values()):
        raise Interrupt("torch-operation", "a Triton kernel with an argument that is a container")
    index = kernel_side_table.add_kernel(kernel)
    constants = kernel_side_table.add_constant_args(others)
    examples = {
        name: recorder.example_of(arg.facts) if type(arg) is Value else recorder.with_symbols().raw(arg)
        for name, arg in graphed.items()
    }
    written = get_mutated_tensors(index, constants, examples, {})
    for name in written:
        value = graphed[name]
        if value.facts.requires_grad and is_grad_enabled() or value.storage.wrapped or value.storage.shared:
            raise Interrupt("torch-operation", "a Triton kernel that writes to a tensor that requires grad")
        value.storage.written = True
        recorder.written.append(value)
    numbers = numbers_in([list(grid), graphed])
    read = graph_values(recorder.with_symbols(), numbers) if numbers else []
    arguments = {
        "kernel_idx": index,
        "constant_args_idx": constants,
        "grid": [grid],
        "tma_descriptor_metadata": {},
        "kwargs": graphed,
    }
    recorder.tape.append(
        Step(
            target_of(triton_kernel_wrapper_mutation), [], arguments, [*dict.fromkeys(found), *read], read_state(), True
        )
    )
    recorder.effect_level = UNKNOWN
