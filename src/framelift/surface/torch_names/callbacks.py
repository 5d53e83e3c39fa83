"""torch._dynamo.on_compile_start and on_compile_end: callbacks get TorchDynamo's records, for captures and for what
torch's compilers do later (backwards compiled lazily, CUDA graphs).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ...capture.records import callbacks
from ...torch_ports.loaded import dynamo_callback


def _translated(callback: Callable[..., Any]) -> Callable[..., Any]:
    """The callback, called with TorchDynamo's kind of record."""

    @functools.wraps(callback)
    def call(args: Any) -> Any:
        module = dynamo_callback.get()
        if module is not None:
            args = module.CallbackArgs(module.CallbackTrigger[args.callback_trigger.name], args.compile_id)
        return callbacks.called(callback, args)

    setattr(call, "__signature__", inspect.Signature([inspect.Parameter("args", inspect.Parameter.POSITIONAL_ONLY)]))
    return call


def on_compile_start(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Call this before each compile, with a record if it takes an argument.

    >>> from framelift.surface.torch_names.callbacks import on_compile_start
    >>> started = on_compile_start(lambda args: None)
    >>> import framelift
    >>> framelift.reset()
    """
    callbacks.on_compile_start(_translated(callback))
    if (theirs := dynamo_callback.get()) is not None:
        theirs.callback_handler.register_start_callback(callback)
    return callback


def on_compile_end(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Call this after each compile, with a record if it takes an argument.

    >>> from framelift.surface.torch_names.callbacks import on_compile_end
    >>> ended = on_compile_end(lambda args: None)
    >>> import framelift
    >>> framelift.reset()
    """
    callbacks.on_compile_end(_translated(callback))
    if (theirs := dynamo_callback.get()) is not None:
        theirs.callback_handler.register_end_callback(callback)
    return callback
