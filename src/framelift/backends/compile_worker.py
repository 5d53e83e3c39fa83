"""The process that compiles for another one (elsewhere.py): it fills torch's disk caches and answers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from typing import Any

from ..torch_ports.loaded import dynamo_counters


def main(channel: int) -> None:
    """Answer jobs until nobody gives any.  `channel`: the descriptor of the socket that they come from."""
    os.set_inheritable(channel, False)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    asked = socket.socket(fileno=channel)
    while True:
        mark, memories, *_ = socket.recv_fds(asked, 1, 1)
        if not mark:
            os._exit(0)
        with open(memories[0], "rb") as job:
            head, payload = json.loads(job.readline()), job.read()
        started = time.monotonic()
        reply: dict[str, Any] = {"number": head["number"]}
        try:
            os.environ.clear()
            os.environ.update(head["environment"])
            reply["kept"] = _compile(payload)
        except Exception as error:  # the other process finds out by itself what is wrong, and says so
            reply["error"] = f"{type(error).__name__}: {error}"[:2000]
        reply["seconds"] = time.monotonic() - started
        asked.sendall(json.dumps(reply).encode() + b"\n")


def _end_with(parent: int) -> None:
    """End when the process that asks is gone, in the middle of a job too, with the compilers that were started."""
    while os.getppid() == parent:
        time.sleep(1.0)
    if os.getpgrp() == os.getpid():  # compilers remove their temporary files
        os.killpg(0, signal.SIGTERM)
        time.sleep(1.0)
    os._exit(0)


def _compile(payload: bytes) -> bool:
    """Compile a packed graph; whether the caches have it now."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    from ..torch_ports.compilers import aot_config as functorch_config
    from ..torch_ports.fakes import FakeTensorMode, TracingContext, tracing
    from ..torch_ports.graphs import GraphPickler
    from ..torch_ports.inductor import inductor_config
    from .builtin import lower

    fake_mode = FakeTensorMode(shape_env=ShapeEnv())
    job: Any = GraphPickler.loads(payload, fake_mode)
    graph_module = job["graph"]
    for part in graph_module.modules():
        if hasattr(part, "graph"):
            part.recompile()
    for node in graph_module.graph.find_nodes(op="placeholder"):
        node._dynamo_source = None
    with (
        _in_state(job["state"]),
        inductor_config.patch(job["inductor"]),
        functorch_config.patch(job["functorch"]),
        _backward_at_once(),
        tracing(TracingContext(fake_mode)),
    ):
        lower(graph_module, job["inputs"], job["mode"], job["options"], job["note"])
    found = dynamo_counters.get().counters["aot_autograd"]  # where torch's compilers count, loaded by them
    kept = bool(found["autograd_cache_saved"] or found["autograd_cache_hit"])
    found.clear()
    return kept


@contextlib.contextmanager
def _backward_at_once() -> Any:
    """Compile the backward with the forward, and keep both as they are kept where the backward is compiled when it is
    first needed.

    The setting is a part of the key under which AOTAutograd keeps them.
    """
    from ..torch_ports.compilers import aot_config as config

    kind = type(config)
    save = kind.save_config

    def as_if_not(self: Any) -> Any:
        if self is not config:
            return save(self)
        with config.patch(force_non_lazy_backward_lowering=False):
            return save(self)

    kind.save_config = as_if_not
    try:
        with config.patch(force_non_lazy_backward_lowering=True):
            yield
    finally:
        kind.save_config = save


@contextlib.contextmanager
def _in_state(state: dict[str, Any]) -> Any:
    import torch

    from .elsewhere import write_setting

    torch.set_default_dtype(state["dtype"])
    torch.use_deterministic_algorithms(state["deterministic"][0], warn_only=state["deterministic"][1])
    torch.utils.deterministic.fill_uninitialized_memory = state["fill"]
    torch.set_num_threads(state["threads"])
    for name, value in state["settings"].items():
        write_setting(name, value)
    for device, enabled, dtype in state["autocast"]:
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(state["cache"])
    with contextlib.ExitStack() as stack:
        if state["device"] is not None:
            torch.cuda.set_device(state["device"])
        stack.enter_context(torch.inference_mode(state["inference"]))
        stack.enter_context(torch.set_grad_enabled(state["grad"]))
        yield
