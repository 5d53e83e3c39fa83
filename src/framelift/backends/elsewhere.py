"""Compiling in another process, while this one runs the uncompiled graph.

The other process fills the disk caches of AOTAutograd and Inductor, and this one loads from them once it is done.
Nothing is compiled in a thread of this process: tracing exchanges methods of `torch.nn.Module`, sets process-wide
flags and puts random generators back, and all that would happen in the middle of the program's own work.

There is one such process, started when it is first needed, in `compile_worker.py`.  It is given one line of JSON per
job and answers with one.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import operator
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch._functorch import config as functorch_config
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.graph_module import GraphModule

from ..graph.state.torch_state import SavedState

__all__ = ["Job", "NotPacked", "compile_state", "fakes_of", "pack", "submit", "write_setting"]

_LARGEST = 1 << 24  # bytes of constants in a graph that are handed over


class NotPacked(Exception):
    """A graph that cannot be handed to another process, and why."""


def _is_kept(key: str) -> bool:
    """What torch's compilers read of a node."""
    return key in ("example_value", "stack_trace", "tensor_dict")


def fakes_of(example_inputs: Sequence[Any]) -> list[Any] | None:
    """The fakes of the examples in the mode of the compile that is going on; None where one has none."""
    context = TracingContext.try_get()
    mode = context.fake_mode if context is not None else None
    if mode is None:
        return None
    found = []
    for example in example_inputs:
        if isinstance(example, torch.Tensor) and not isinstance(example, FakeTensor):
            fake = mode.fake_tensor_converter._get_memo(example)
            if fake is None:
                return None
            example = fake
        found.append(example)
    return found


def pack(
    graph_module: GraphModule,
    example_inputs: Sequence[Any],
    mode: str | None,
    options: dict[str, Any] | None,
    note: str | None,
) -> bytes:
    """All that the other process needs to compile a graph, which is the compiler's own copy."""
    from torch._inductor import config as inductor_config

    if (
        not functorch_config.enable_autograd_cache
        or not inductor_config.fx_graph_cache
        or inductor_config.force_disable_caches
    ):
        raise NotPacked("the disk caches are switched off")
    fakes = fakes_of(example_inputs)
    if fakes is None or any(
        type(one) is not FakeTensor and isinstance(one, torch.Tensor) or type(one) is torch.SymFloat for one in fakes
    ):
        raise NotPacked("an input that cannot be described")
    _check(graph_module)
    job = {
        "graph": graph_module,
        "inputs": fakes,
        "mode": mode,
        "options": options,
        "note": note,
        "state": compile_state(),
        "inductor": inductor_config.save_config_portable(),
        "functorch": functorch_config.save_config_portable(),
    }
    try:
        from torch.fx._graph_pickler import GraphPickler, Options

        return GraphPickler.dumps(job, Options(ops_filter=None, node_metadata_key_filter=_is_kept))
    except Exception as error:  # whatever an object in it says to being pickled
        raise NotPacked(f"{type(error).__name__}: {error}") from error


def _check(graph_module: GraphModule) -> None:
    for part in graph_module.modules():
        held = [
            *part.parameters(recurse=False),
            *part.buffers(recurse=False),
            *(value for value in vars(part).values() if isinstance(value, torch.Tensor)),
        ]
        if sum(tensor.untyped_storage().nbytes() for tensor in held) > _LARGEST:
            raise NotPacked("large constants in the graph")
        for node in part.graph.nodes if isinstance(part, GraphModule) else ():
            if "kernel_idx" in node.kwargs:
                raise NotPacked("a Triton kernel of the program")


#: of torch.backends
_SETTINGS = (
    "cuda.matmul.fp32_precision",
    "cuda.matmul.allow_fp16_reduced_precision_reduction",
    "cuda.matmul.allow_bf16_reduced_precision_reduction",
    "cudnn.conv.fp32_precision",
    "cudnn.enabled",
    "cudnn.benchmark",
    "cudnn.deterministic",
    "mkldnn.enabled",
)


def read_setting(name: str) -> Any:
    """A setting of torch.backends."""
    return operator.attrgetter(name)(torch.backends)


def write_setting(name: str, value: Any) -> None:
    """Change a setting of torch.backends; an equal one is not touched, for torch remembers that it was set."""
    if read_setting(name) != value:
        place, _, attribute = name.rpartition(".")
        setattr(operator.attrgetter(place)(torch.backends), attribute, value)


def compile_state() -> dict[str, Any]:
    """Torch's state, as far as it decides what is compiled."""
    saved = SavedState(generators=False)
    return {
        "grad": saved.grad,
        "inference": saved.inference,
        "dtype": saved.dtype,
        "autocast": saved.autocast,
        "cache": saved.cache,
        "deterministic": saved.deterministic,
        "fill": torch.utils.deterministic.fill_uninitialized_memory,
        "threads": torch.get_num_threads(),
        "settings": {name: read_setting(name) for name in _SETTINGS},
        "device": torch.cuda.current_device() if torch.cuda.is_initialized() else None,
    }


# ---- the other process
# -------------------------------------------------------------------------------------------------


class Job:
    """One graph that is being compiled elsewhere."""

    def __init__(self, payload: bytes) -> None:
        self.payload: bytes | None = payload
        self.number = next(_numbers)
        self.started = time.monotonic()
        self.reply: dict[str, Any] | None = None

    def is_ready(self) -> bool:
        """Whether the other process is done with it, well or not."""
        if self.reply is None:
            _worker.look(0.0)
        return self.reply is not None

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for that."""
        end = None if seconds is None else time.monotonic() + seconds
        while self.reply is None and (end is None or time.monotonic() < end):
            _worker.look(0.05)
        return self.reply is not None

    def answer(self, reply: dict[str, Any]) -> None:
        self.reply, self.payload = reply, None


_numbers = itertools.count()


class _Worker:
    """The process, and the jobs that it has not answered yet."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.process: subprocess.Popen[bytes] | None = None
        self.jobs: dict[int, Job] = {}
        self.text = b""

    def submit(self, job: Job) -> None:
        with self.lock:
            if self.process is None:
                self._start()
            self.jobs[job.number] = job
            self._send(job)

    def _start(self) -> None:
        places = os.pathsep.join(
            [os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), *filter(None, sys.path)]
        )
        command = [sys.executable, "-c", "from framelift.backends.compile_worker import main; main()"]
        self.text = b""
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": places, "FRAMELIFT_PROGRESS": "0"},
            start_new_session=True,
        )

    def _send(self, job: Job) -> None:
        """Payloads go through a file: a pipe takes little before somebody reads it."""
        assert self.process is not None and self.process.stdin is not None and job.payload is not None
        descriptor, path = tempfile.mkstemp(prefix="framelift_job_")
        with open(descriptor, "wb") as file:
            file.write(job.payload)
        line = json.dumps({"number": job.number, "path": path, "environment": dict(os.environ)})
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            self._ended()

    def look(self, patience: float) -> None:
        """Read what the process answered so far; wait a little for it."""
        with self.lock:
            if self.process is None:
                self._lost("the process that compiles is gone")
                return
            assert self.process.stdout is not None
            pipe = self.process.stdout.fileno()
            while select.select([pipe], [], [], patience)[0]:
                patience = 0.0
                found = os.read(pipe, 1 << 16)
                if not found:
                    self._ended()
                    return
                *lines, self.text = (self.text + found).split(b"\n")
                for line in lines:
                    reply = json.loads(line)
                    job = self.jobs.pop(reply["number"], None)
                    if job is not None:
                        job.answer(reply)

    def _ended(self) -> None:
        process, self.process = self.process, None
        code = process.wait() if process is not None else None
        self._lost(f"the process that compiles ended with code {code}")

    def _lost(self, why: str) -> None:
        for job in self.jobs.values():
            job.answer({"number": job.number, "error": why})
        self.jobs.clear()

    def stop(self) -> None:
        """At the end of this process: nobody needs the rest."""
        process, self.process = self.process, None
        if process is not None:
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()

    def after_fork(self) -> None:
        """In a forked child: the process is the parent's, and so are its answers."""
        jobs = self.jobs
        self.__init__()  # type: ignore[misc]  # all fields anew
        self.jobs = jobs
        self._lost("this process is a fork of the one that asked")


_worker = _Worker()
atexit.register(lambda: _worker.stop())
os.register_at_fork(after_in_child=lambda: _worker.after_fork())


def submit(payload: bytes) -> Job:
    """Have a packed graph compiled."""
    job = Job(payload)
    _worker.submit(job)
    return job
