"""From a program, or its captured graph, to ATen operators over fakes: PyTorch's own tracing of dispatched operators
(make_fx, or AOTAutograd).

A captured graph is a program without Python left in it, so both are lowered the same way.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.utils.checkpoint
from torch.overrides import TorchFunctionMode

from ..capture.policy import EXPORTS, refuse_bodies
from ..torch_ports.autograd import is_grad_enabled, set_grad_enabled, top_saved_hooks
from ..torch_ports.graphs import pytree
from ..torch_ports.operators import tag_activation_checkpoint
from ..torch_ports.state import enter_autocast, exit_autocast
from ..vocabulary.scopes import scope
from .autograd_functions import keep_gradients, refused, watching_functions
from .capture import ExportedCall, called_as
from .inputs import Call, FakeInputs

#: torch.compile, and the threads in which the Python of exports runs now
_plain: list[Any] = [None]
_running: list[int] = []
_swapping = threading.Lock()


class FunctionMet(BaseException):
    """Plain tracing came to an autograd function: the program is to be rehearsed instead.

    `tracked`: a gradient goes through the function in this call.
    """

    def __init__(self, tracked: bool) -> None:
        self.tracked = tracked


_ROOT = "_export_root"  # the attribute by which torch.export's code knows the program's module in a wrapper


@dataclass(eq=False)
class Lowered:
    """The graph of ATen operators with its signature and constants, and the structures around it."""

    artifact: Any
    in_spec: Any
    out_spec: Any
    call_specs: dict[str, dict[str, Any]] = field(default_factory=dict)


def _lowering(pre_dispatch: bool) -> Callable[..., Any]:
    from ..torch_ports.exports import trace_module as _trace

    if pre_dispatch:
        return _trace._export_to_aten_ir_make_fx
    return functools.partial(_trace._export_to_aten_ir, pre_dispatch=False)


def lower_captured(captured: ExportedCall, call: Call, fakes: FakeInputs, pre_dispatch: bool) -> Lowered:
    """Lower a graph that a rehearsal made.  Its relations must have been said of the fakes before."""
    module = captured.graph_module
    if not pre_dispatch:  # the graph is without autograd: grad mode has no meaning in it
        for node in module.graph.find_nodes(op="call_function", target=set_grad_enabled):
            module.graph.erase_node(node)
    modes = [_Untracked()] if keep_gradients(module, pre_dispatch) else []
    called_as(module, call, captured.spec)
    return lower_program(replace(call, root=module), fakes, pre_dispatch, (), modes=modes)


class _Untracked(TorchFunctionMode):
    """The same where Python runs.

    Also, gradients that were asked for without `create_graph` have no history of their own, and hooks are refused.
    """

    def __init__(self) -> None:
        super().__init__()
        self._hooks_outside = top_saved_hooks(True)  # the innermost hooks on saved tensors: (pack, unpack), or None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == _GET_DATA:
            return torch.detach(args[0])
        hooks = top_saved_hooks(True) if is_grad_enabled() else None
        if (hooks is not None or func is torch.Tensor.register_hook) and _is_tracing():
            if func is torch.Tensor.register_hook:
                raise refused("a hook on a gradient")
            if hooks is not None and hooks != self._hooks_outside and not _keep_values(*hooks):
                raise refused("hooks on saved tensors")
        if func is torch.autograd.grad and not (kwargs or {}).get("create_graph", False):
            return pytree.tree_map_only(torch.Tensor, torch.detach, func(*args, **(kwargs or {})))
        return func(*args, **(kwargs or {}))


class _Drafted(_Untracked):
    """The same for a draft, whose report names the innermost frame outside torch: the frame of this mode is torch's."""

    __torch_function__ = types.FunctionType(
        _Untracked.__torch_function__.__code__.replace(co_filename=torch.__file__),
        globals(),
        argdefs=_Untracked.__torch_function__.__defaults__,
    )


_GET_DATA = torch.Tensor.data.__get__


def _is_tracing() -> bool:
    return torch.fx.experimental.proxy_tensor.get_proxy_mode() is not None


def _keep_values(pack: Any, unpack: Any) -> bool:
    """Return whether these hooks are torch's own, which give back what they were given (checkpoints, other memory)."""
    found = [getattr(hook, "__globals__", None) for hook in (pack, unpack)]
    return all(any(one is torchs for torchs in _KEEPING) for one in found)


_KEEPING = (vars(torch.utils.checkpoint), vars(torch.autograd.graph))


def lower_program(
    call: Call,
    fakes: FakeInputs,
    pre_dispatch: bool,
    preserved: Sequence[str],
    watched: bool = False,
    modes: Sequence[TorchFunctionMode] | None = None,
) -> Lowered:
    """Lower the program itself: its Python runs once, over fakes.

    `watched`: raises `FunctionMet` at the first autograd function.  `modes`: those that a graph of a rehearsal needs,
    which is what it is; what torch.export does to calls of a program is done in it.
    """
    from ..torch_ports.exports import fakify_params_buffers
    from ..torch_ports.exports import non_strict_utils as helpers
    from ..torch_ports.fakes import TracingContext, tracing
    from ..torch_ports.operators import FakeScriptObject

    found = Lowered(None, None, None)
    state = fakify_params_buffers(fakes.mode, call.root)
    fakes.mode.cache_enabled = False  # of symbolic sizes, describing results for it takes longer than it saves
    fakes.watch()
    with contextlib.ExitStack() as stack:
        EXPORTS.append(not preserved and not isinstance(call.root, torch.fx.GraphModule))
        stack.callback(EXPORTS.pop)
        if watched:
            stack.enter_context(watching_functions(functools.partial(_function_met, bool(preserved))))
        if modes is None:
            own = _Drafted() if fakes.mode.propagate_real_tensors else _Untracked()
            modes = (helpers._NonStrictTorchFunctionHandler(), own)
            stack.enter_context(_compiling())
        for context in (fakes.mode, *modes, tracing(TracingContext(fakes.mode))):
            stack.enter_context(context)
        module, args, kwargs, constants, real_of = stack.enter_context(
            helpers._fakify_script_objects(call.root, fakes.args, fakes.kwargs, fakes.mode)
        )
        for name, given in (
            ("_fakify_module_inputs", (fakes.args, fakes.kwargs, fakes.mode)),
            ("_override_builtin_ops", ()),
        ):
            if hasattr(helpers, name):
                stack.enter_context(getattr(helpers, name)(*given))
        artifact = _lowering(pre_dispatch)(
            module,
            args,
            kwargs,
            state,
            constants,
            produce_guards_callback=fakes.solve,
            transform=functools.partial(_flat, found, preserved),
        )
    artifact.constants = {
        name: real_of[value] if isinstance(value, FakeScriptObject) else value
        for name, value in artifact.constants.items()
    }
    found.artifact = artifact
    if pre_dispatch:
        _tidy(artifact.gm)
    return found


def _function_met(preserved: bool, tracked: bool) -> None:
    if not preserved:
        raise FunctionMet(tracked)
    if tracked:
        raise refused("an autograd function in a program whose call signatures are preserved")


@scope
def _compiling() -> Iterator[None]:
    """Compile nothing inside: operators such as torch.cond compile their bodies when they are called plainly."""
    with _swapping:
        if not _running:
            _plain[0], torch.compile = torch.compile, _compile
        _running.append(threading.get_ident())
    try:
        yield
    finally:
        with _swapping:
            _running.remove(threading.get_ident())
            if not _running:
                torch.compile = _plain[0]


def _compile(model: Any = None, **options: Any) -> Any:
    if threading.get_ident() not in _running:
        return _plain[0](model, **options)
    if model is None:
        return functools.partial(_compile, **options)
    refuse_bodies(model)
    warnings.warn("torch.compile is ignored when called inside torch.export region", stacklevel=2)
    return model


def _flat(found: Lowered, preserved: Sequence[str], lower: Callable[..., Any]) -> Callable[..., Any]:
    """Around the function that traces: the module gives its leaves, and structures are noted."""

    def run(stack: Any, module: Any, args: Any, *, kwargs: Any = None, **options: Any) -> Any:
        from ..torch_ports.exports import wrap_submodules

        flat = _Flat(module, found)
        wrapped = (
            contextlib.nullcontext()
            if isinstance(module, torch.fx.GraphModule)
            else wrap_submodules(flat, [f"{_ROOT}.{name}" for name in preserved], found.call_specs)
        )
        with wrapped:
            graph_module, signature = lower(stack, flat, args, kwargs=kwargs or {}, **options)
        for name in (
            "parameters",
            "buffers",
            "inputs_to_buffers",
            "inputs_to_parameters",
            "buffers_to_mutate",
            "parameters_to_mutate",
        ):
            if hasattr(signature, name):
                setattr(signature, name, pytree.tree_map(_without_root, getattr(signature, name)))
        for node in graph_module.graph.nodes:
            if "nn_module_stack" in node.meta:
                node.meta["nn_module_stack"] = {
                    _stack_key(key): pytree.tree_map(_without_root, value)
                    for key, value in node.meta["nn_module_stack"].items()
                }
        return graph_module, signature

    return run


def _stack_key(key: str) -> str:
    """The key of a module in a node's stack; those of a captured graph begin as torch.export's do."""
    return key if key.startswith("L__self__") else f"L__self__{_without_root(key)}"


def _without_root(name: Any) -> Any:
    if isinstance(name, str) and name.startswith(_ROOT):
        return name[len(_ROOT) :].removeprefix(".")
    return name


class _Flat(torch.nn.Module):
    """The program's module, giving the leaves of its result."""

    def __init__(self, module: torch.nn.Module, found: Lowered) -> None:
        super().__init__()
        self._export_root = module
        self.__dict__["_found"] = found

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        found, module = self.__dict__["_found"], self._export_root
        found.in_spec = pytree.tree_structure((args, kwargs))
        if isinstance(module, torch.fx.GraphModule):
            result = _interpreted(module, args, kwargs)
        else:
            result = module(*args, **kwargs)
        leaves, found.out_spec = pytree.tree_flatten(result)
        return tuple(leaves)


def _interpreted(module: torch.fx.GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A graph runs node by node, so that what is known of its nodes is known of those made here."""
    from ..torch_ports.exports import check_input_constraints_pre_hook as check

    if check in module._forward_pre_hooks.values():
        check(module, args, kwargs)
    return interpreted(module, *args, *kwargs.values())


def interpreted(module: torch.fx.GraphModule, *args: Any) -> Any:
    """Run a graph for a tracer, which gives its nodes the metadata of these."""
    regions: list[torch.autocast] = []
    with torch.fx.traceback.preserve_node_meta():
        try:
            return _Interpreter(module, regions).run(*args)
        finally:
            for region in reversed(regions):
                region.__exit__(None, None, None)


class _Interpreter(torch.fx.Interpreter):
    """Does what torch's tracer only notes: switches autocast, so that dtypes are the program's.  What a checkpoint
    calls is part of the graph.
    """

    def __init__(self, module: torch.fx.GraphModule, regions: list[torch.autocast]) -> None:
        super().__init__(module)
        self._regions = regions

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is enter_autocast:
            self._regions.append(torch.autocast(*args, **kwargs))
            return self._regions[-1].__enter__()
        if target is exit_autocast:
            self._regions.remove(args[0])
            return args[0].__exit__(None, None, None)
        if target is tag_activation_checkpoint and isinstance(args[0], torch.fx.GraphModule):
            return _Interpreter(args[0], self._regions).run(*args[1:])
        return super().call_function(target, args, kwargs)


def _tidy(module: torch.fx.GraphModule) -> None:
    """Erase what torch's lowering leaves and nothing needs: regions without operations, which cannot be loaded, and
    copies of a tensor to itself, which autograd takes for a write.
    """
    region, count = torch.ops.higher_order.wrap_with_set_grad_enabled, len(module.graph.nodes)
    for node in reversed(module.graph.nodes):
        if node.users or node.target not in (region, torch.ops.aten.copy_.default):
            continue
        first, second = node.args[:2]
        if node.target is not region:
            idle = _written(second) is first
        else:
            body = getattr(module, str(second.target), None)
            idle = isinstance(body, torch.fx.GraphModule) and _is_empty(body)
        if idle:
            module.graph.erase_node(node)
            if second.op == "get_attr" and not second.users:
                module.graph.erase_node(second)
    if len(module.graph.nodes) != count:
        module.recompile()


def _is_empty(body: torch.fx.GraphModule) -> bool:
    return all(node.op in ("placeholder", "output") for node in body.graph.nodes)


def _written(node: Any) -> Any:
    """Return the node whose tensor an operation in place gives back; other nodes as they are."""
    while (schema := getattr(getattr(node, "target", None), "_schema", None)) is not None:
        first = schema.arguments[0].alias_info if schema.arguments else None
        if first is None or not first.is_write or len(schema.returns) != 1 or schema.returns[0].alias_info is None:
            break
        node = node.args[0]
    return node
