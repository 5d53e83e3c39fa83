"""Notes that torch.export gives of an export: usage events, its part of TORCH_TRACE, fake tensors that outlive it."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..torch_ports.compiling import logging_internal
from ..vocabulary.scopes import scope


@scope
def noted(strict: bool, pre_dispatch: bool) -> Iterator[Callable[[Any], None]]:
    """Note an export's begin, its end (call what this gives with the program), and its error."""
    from ..torch_ports.exports import trace_module as _trace

    flags = {"strict" if strict else "non_strict", "pre_dispatch" if pre_dispatch else "aot_dispatch"}
    _trace.log_export_usage(event="export.enter", flags=flags)
    _trace_structured("export", lambda: "start!")
    begin = time.monotonic()

    def done(program: Any) -> None:
        seconds = time.monotonic() - begin
        _trace.log_export_usage(event="export.time", metrics=seconds, flags=flags, **_trace.get_ep_stats(program))
        _trace_structured("exported_program", lambda: str(program))

    try:
        yield done
    except Exception as error:
        kind = "unclassified" if _trace.get_class_if_classified_error(error) is None else "classified"
        name = f"{type(error).__module__}.{type(error).__qualname__}"
        _trace.log_export_usage(event=f"export.error.{kind}", type=name, message=str(error), flags=flags)
        raise


def _trace_structured(name: str, text: Callable[[], str]) -> None:
    log = logging_internal.trace_log
    if log.handlers and log.isEnabledFor(logging.DEBUG):
        logging_internal.trace_structured(name, payload_fn=text)


@scope
def leaks_warned(strict: bool) -> Iterator[None]:
    """Warn of fake tensors that the block leaves alive, where torch's option asks for that."""
    from ..torch_ports.exports import export_config
    from ..torch_ports.exports import trace_module as _trace

    if strict or not export_config.detect_non_strict_fake_tensor_leaks:
        yield
        return
    from ..torch_ports.fakes import fake_tensor_tls, nodes_of_fakes

    made = fake_tensor_tls.non_strict_export_fake_tensor_tracker
    made.clear()
    yield
    alive = [_leak(fake, nodes_of_fakes.get(id(fake))) for fake in _trace.find_legit_leaks_from_referrers(made)]
    if alive:
        warnings.warn(
            f"Detected {len(alive)} fake tensors that are still alive after export: the program keeps them in places "
            "outside of its module.\n\nLeaked tensors:\n  " + "\n  ".join(alive),
            stacklevel=4,
        )


def _leak(fake: Any, node: torch.fx.Node | None) -> str:
    """Return the sentence on one fake tensor: its shape, the node that made it, and where."""
    shape = f"FakeTensor(shape={fake.shape}, dtype={fake.dtype})"
    if node is None:
        return shape
    places = [(node, node.meta.get("stack_trace")), *((user, user.meta.get("stack_trace")) for user in node.users)]
    at, stack = next(((one, text) for one, text in places if text), (node, "no stack trace"))
    used = "" if at is node else f", used by {at.name!r}"
    return f"{shape} from node {node.name!r}{used}:\n{stack}"
