"""Compiling in another process, while this one runs the uncompiled graph.

The other process fills the disk caches of AOTAutograd and Inductor, and this one loads from them once it is done.
Nothing is compiled in a thread of this process: tracing exchanges methods of `torch.nn.Module`, sets process-wide
flags and puts random generators back, and all that would happen in the middle of the program's own work.

There is one such process, started when it is first needed, in `compile_worker.py`.  A job is a file in memory, whose
descriptor is sent over a socket; the answer is a line of JSON.  So a job leaves nothing on disk, whoever ends when, and
nobody else can read or change it.  This process never waits for the socket: what does not fit is sent later.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import errno
import itertools
import json
import operator
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx.graph_module import GraphModule

from ..graph.state.torch_state import SavedState
from ..torch_ports.compilers import aot_config as functorch_config
from ..torch_ports.fakes import FakeTensor, TracingContext
from ..vocabulary.log import topic

_LARGEST = 1 << 24  # bytes of constants in a graph that are handed over


class NotPacked(Exception):
    """A graph that cannot be handed to another process, and why."""


def _is_kept(key: str) -> bool:
    """Return whether torch's compilers read this metadata of a node."""
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
    note: Any,
) -> bytes:
    """All that the other process needs to compile a graph, which is the compiler's own copy."""
    from ..torch_ports.inductor import inductor_config

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
        from ..torch_ports.graphs import GraphPickler
        from ..torch_ports.graphs import GraphPicklerOptions as Options

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


class Job:
    """One graph that is being compiled elsewhere."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.number = next(_numbers)
        self.started = time.monotonic()
        self.reply: dict[str, Any] | None = None

    def is_ready(self) -> bool:
        """Return whether the other process is done with it, well or not."""
        if self.reply is None:
            self.worker.look()
        return self.reply is not None

    @property
    def state(self) -> str:
        """Describe what became of it."""
        if not self.is_ready() or self.reply is None:
            return "compiling"
        return "made" if self.reply.get("kept") else f"failed: {self.reply.get('error', 'nothing was kept')}"

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for that."""
        end = None if seconds is None else time.monotonic() + seconds
        while not self.is_ready() and (end is None or time.monotonic() < end):
            self.worker.wait_for_answers(0.05)
        return self.reply is not None


_numbers = itertools.count()
#: what the other process runs; the number of its end of the socket is filled in
_PROGRAM = "from framelift.backends.compile_worker import main; main({})"
_MOST_ANSWERS = 1 << 16  # bytes that are read at once


class Worker:
    """The process, and the jobs that it has not answered yet.  No lock is held while anything is waited for."""

    def __init__(self, program: str = _PROGRAM) -> None:
        self.program = program
        self.lock = threading.RLock()
        self.process: subprocess.Popen[bytes] | None = None
        self.socket: socket.socket | None = None
        self.jobs: dict[int, Job] = {}
        self.unsent: list[int] = []  # descriptors of jobs
        self.text = b""

    def submit(self, payload: bytes) -> Job:
        """Have a packed graph compiled.  Raises OSError where there can be no such process."""
        job = Job(self)
        head = json.dumps({"number": job.number, "environment": dict(os.environ)})
        memory = _in_memory(head.encode() + b"\n" + payload)
        with self.lock:
            self.unsent.append(memory)
            if self.process is None:
                try:
                    self._start()
                except OSError:
                    self._forget_unsent()
                    raise
            self.jobs[job.number] = job
            self._send()
        return job

    def _start(self) -> None:
        places = os.pathsep.join(
            [os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), *filter(None, sys.path)]
        )
        self.text = b""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self.process = subprocess.Popen(
                    [sys.executable, "-c", self.program.format(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, "PYTHONPATH": places},
                    start_new_session=True,
                )
        except OSError:
            ours.close()
            raise
        self.socket = ours

    def _send(self) -> None:
        """Send jobs, as far as there is room for them."""
        while self.unsent and self.socket is not None:
            rights = socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self.unsent[0]])
            try:
                self.socket.sendmsg([b"j"], [rights], socket.MSG_DONTWAIT)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in _FULL:
                    self._ended()
                return
            os.close(self.unsent.pop(0))

    def look(self) -> None:
        """Read what the process answered so far."""
        with self.lock:
            self._send()
            while self.socket is not None:
                try:
                    found = self.socket.recv(_MOST_ANSWERS, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    if self.process is None or self.process.poll() is not None:  # its children may hold its end open
                        self._ended()
                    return
                except OSError:
                    found = b""
                if not found:
                    self._ended()
                    return
                *lines, self.text = (self.text + found).split(b"\n")
                for line in lines:
                    reply = json.loads(line)
                    job = self.jobs.pop(reply["number"], None)
                    if job is not None:
                        job.reply = reply
                        if "error" in reply:
                            topic("background").info("a graph was not compiled: %s", reply["error"])
            self._lost("the process that compiles is gone")

    def wait_for_answers(self, seconds: float) -> None:
        """Wait until there is something to read, or for this long."""
        channel = self.socket
        if channel is not None and channel.fileno() >= 0:
            poll = select.poll()  # unlike `select`, for descriptors of any number
            poll.register(channel.fileno(), select.POLLIN)
            poll.poll(seconds * 1000)

    def _ended(self) -> None:
        process = self.process
        self.stop(0.1)
        self._lost(f"the process that compiles ended with code {process.returncode if process is not None else None}")

    def _lost(self, why: str) -> None:
        for job in self.jobs.values():
            job.reply = {"number": job.number, "error": why}
        self.jobs.clear()

    def _forget_unsent(self) -> None:
        while self.unsent:
            os.close(self.unsent.pop(0))

    def stop(self, patience: float = 2.0) -> None:
        """End the process, and the compilers that it started.  At the end of this process nobody needs the rest."""
        process, self.process = self.process, None
        channel, self.socket = self.socket, None
        self._forget_unsent()
        if channel is not None:
            channel.close()
        for number in (signal.SIGTERM, signal.SIGKILL):  # compilers remove their temporary files at the first one
            if process is None or process.poll() is not None:
                return
            with contextlib.suppress(OSError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)

    def after_fork(self) -> None:
        """In a forked child: the process is the parent's, and so are its answers."""
        self.lock = threading.RLock()
        self._lost("this process is a fork of the one that asked")
        if self.process is not None:
            self.process.returncode = 0  # it is not ours to wait for
            self.process = None
        self.stop()


#: the kernel has no room for further descriptors on their way
_FULL = (errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM)
worker = Worker()
#: for graphs that nobody waits for
unhurried = Worker(f"import os; os.nice(10); {_PROGRAM}")
for _one in (worker, unhurried):
    atexit.register(_one.stop)
    os.register_at_fork(after_in_child=_one.after_fork)


def _in_memory(content: bytes) -> int:
    """The descriptor of a file that is in memory alone, read from its beginning."""
    memory = os.memfd_create("framelift_job", os.MFD_CLOEXEC)
    try:
        with open(memory, "wb", closefd=False) as file:
            file.write(content)
            file.seek(0)
    except BaseException:
        os.close(memory)
        raise
    return memory


def submit(payload: bytes, to: Worker = worker) -> Job:
    """Have a packed graph compiled."""
    try:
        return to.submit(payload)
    except OSError as error:
        raise NotPacked(f"no process can be started: {error}") from error
