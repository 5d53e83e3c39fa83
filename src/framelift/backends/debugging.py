"""Backends that help to find out where something goes wrong.  None of them makes a program faster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx.graph_module import GraphModule

from .. import config
from ..capture.frame_rules import NoRule, frame_now, options_for, values_for
from ..exc import FrameliftError
from ..torch_ports.loaded import inductor_bisector
from .builtin import aot_autograd
from .registrations import register


def _running_in(around: Callable[[], contextlib.AbstractContextManager[Any]]) -> Callable[..., Callable[..., Any]]:
    """Return a backend that runs graphs as eager does, each time inside of a context."""

    def backend(graph_module: GraphModule, example_inputs: Sequence[torch.Tensor], **_ignored: Any) -> Any:
        forward = _plain(graph_module).forward

        def run(*args: Any) -> Any:
            with around():
                return forward(*args)

        return run

    return backend


@contextlib.contextmanager
def _own_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise FrameliftError("an exception left a captured graph while it ran") from error


def _schemas_checked() -> contextlib.AbstractContextManager[Any]:
    from ..torch_ports.modes import SchemaCheckMode

    return SchemaCheckMode()


#: an exception while the graph runs is an error of framelift's own kind
register("eager_noexcept", "debug")(_running_in(_own_errors))
#: every operation is compared with its schema: what it writes to and aliases
register("eager_debug", "debug")(_running_in(_schemas_checked))


@register("pre_dispatch_eager", "debug")
def pre_dispatch_eager(
    graph_module: GraphModule, example_inputs: Sequence[torch.Tensor], **_ignored: Any
) -> Callable[..., Any]:
    """The graph as ATen operations before autograd, run as they are."""
    from torch.fx.experimental.proxy_tensor import make_fx

    forward = _plain(graph_module).forward
    return make_fx(lambda *args: forward(*args), pre_dispatch=True)(*example_inputs).forward


@register("ts", "debug")
def torchscript(
    graph_module: GraphModule, example_inputs: Sequence[torch.Tensor], **_ignored: Any
) -> Callable[..., Any]:
    """The graph as TorchScript."""
    return torch.jit.script(_plain(graph_module))


@register("aot_ts", "debug")
def aot_ts(graph_module: GraphModule, example_inputs: Sequence[torch.Tensor], **_ignored: Any) -> Callable[..., Any]:
    """AOTAutograd's graphs as TorchScript."""
    from functorch.compile import ts_compile

    return aot_autograd(fw_compiler=ts_compile)(graph_module, example_inputs)


setattr(aot_ts, "unrolls_recurrent_networks", True)


def _plain(graph_module: GraphModule) -> GraphModule:
    """With its Python code written: the captured kind writes it when it is first called."""
    return GraphModule(graph_module, graph_module.graph)


# ---- Another backend for some graphs, or other options of Inductor, to find the one that fails: by compil ----


def backend_for_now() -> str | None:
    """The backend that the capture going on is to use in place of its own; None: its own."""
    if config.debug_backend_override:
        backends = list(dict.fromkeys(values_for(config.debug_backend_override, "debug_backend_override", frame_now())))
        if len(backends) > 1:
            raise NoRule(f"debug_backend_override has several backends for frame {frame_now()}: {backends}")
        if backends:
            return backends[0]
    bisector = inductor_bisector.get()
    found: str | None = bisector.CompilerBisector.get_backend() if bisector is not None else None
    return found


def inductor_options_now() -> contextlib.AbstractContextManager[Any]:
    """Inductor's options for the capture going on, while its backend works."""
    text = config.debug_inductor_config_override
    options = options_for(text, "debug_inductor_config_override", frame_now()) if text else {}
    if not options:
        return contextlib.nullcontext()
    from ..torch_ports.inductor import inductor_config as inductor  # not needed by most programs

    unknown = [name for name in options if name not in inductor._config]
    if unknown:
        raise NoRule(f"debug_inductor_config_override sets {unknown[0]}, which torch._inductor.config does not have")
    patched: contextlib.AbstractContextManager[Any] = inductor.patch(options)
    return patched
