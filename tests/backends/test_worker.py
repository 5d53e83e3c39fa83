"""The other process that compiles: it dies, raises, hangs, is killed or is forked away from, and nobody waits for it.

Most tests have another program in its place (fake_worker.py), which knows nothing of torch.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from framelift.backends.elsewhere import Worker

FOLDER = str(Path(__file__).parent)


def fake(way: str = "") -> Worker:
    return Worker(f"import sys; sys.path.insert(0, {FOLDER!r}); import fake_worker; fake_worker.main({{}}, {way!r})")


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = fake()
    yield made
    made.stop()


def descriptors() -> set[str]:
    return {os.readlink(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd") if one.isdigit() and _is(one)}


def _is(number: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{number}")


def test_jobs_are_answered(worker: Worker) -> None:
    jobs = [worker.submit(b"x" * size) for size in (0, 1, 100, 1 << 20)]
    assert [job.wait(60) and job.reply["size"] for job in jobs] == [0, 1, 100, 1 << 20]


@pytest.mark.parametrize("end, code", [(b"die", 3), (b"be killed", -9), (b"close", -15), (b"leave a child", 4)])
def test_a_process_that_ends_loses_its_jobs(worker: Worker, end: bytes, code: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    jobs = [worker.submit(payload) for payload in (b"first", end, b"later", b"last")]
    assert [job.wait(60) for job in jobs] == [True] * 4
    assert "error" not in jobs[0].reply
    assert all(f"ended with code {code}" in job.reply["error"] for job in jobs[1:])
    assert len(os.listdir("/proc/self/fd")) == before
    again = worker.submit(b"again")  # another process is started
    assert again.wait(60) and again.reply["size"] == 5


def test_a_job_that_raises_says_so(worker: Worker) -> None:
    one, other = worker.submit(b"raise"), worker.submit(b"x")
    assert one.wait(60) and one.reply["error"] == "RuntimeError: no" and other.wait(60) and "error" not in other.reply


def test_a_process_that_hangs_is_not_waited_for(worker: Worker) -> None:
    started = time.monotonic()
    jobs = [worker.submit(b"hang"), *[worker.submit(b"x") for _ in range(20)]]
    assert not any(job.is_ready() for job in jobs) and not jobs[0].wait(0.01)
    process = worker.process
    worker.stop()
    assert process is not None and process.returncode is not None and time.monotonic() - started < 60
    assert all(job.is_ready() and "gone" in job.reply["error"] for job in jobs)


def test_a_large_environment_and_many_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that reads nothing: jobs wait here, and no call does."""
    deaf = fake("deaf")
    monkeypatch.setenv("OF_A_TEST", "x" * 100_000)
    before = len(os.listdir("/proc/self/fd"))
    try:
        slowest = 0.0
        for _ in range(600):
            started = time.monotonic()
            job = deaf.submit(b"x" * 100)
            assert not job.is_ready()
            slowest = max(slowest, time.monotonic() - started)
        assert deaf.unsent and slowest < 30  # before, one waited until the process read
        free = threading.Event()
        thread = threading.Thread(target=lambda: (job.wait(0.2), free.set()))
        thread.start()
        assert deaf.lock.acquire(timeout=30)  # nobody holds it while waiting
        deaf.lock.release()
        thread.join(30)
        assert free.is_set()
    finally:
        deaf.stop()
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_environment_is_that_of_each_job(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("one", "two \udc80", "x" * 200_000):
        monkeypatch.setenv("OF_A_TEST", value)
        job = worker.submit(b"variable")
        assert job.wait(60) and job.reply["variable"] == value
    monkeypatch.delenv("OF_A_TEST")
    job = worker.submit(b"variable")
    assert job.wait(60) and job.reply["variable"] is None


def test_more_than_1024_descriptors(worker: Worker) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("the system allows no more")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1200)]
    try:
        job = worker.submit(b"x")
        assert job.wait(60) and job.reply["size"] == 1
        assert worker.socket is not None and worker.socket.fileno() > 1024
    finally:
        for one in held:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_no_descriptor_is_left_where_there_can_be_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, before = fake(), len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    for _ in range(3):
        with pytest.raises(OSError):
            worker.submit(b"x")
    assert len(os.listdir("/proc/self/fd")) == before and not worker.jobs


def test_threads_that_submit_and_wait(worker: Worker) -> None:
    answers: list[int] = []

    def ask() -> None:
        for size in range(10):
            job = worker.submit(b"x" * size)
            assert job.wait(60)
            answers.append(job.reply["size"])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == sorted([*range(10)] * 8)


PROGRAM = textwrap.dedent("""
    import os, signal, sys, time
    sys.path.insert(0, sys.argv[1])
    from test_worker import fake
    from framelift.backends import elsewhere

    worker = elsewhere._worker = fake()
    import atexit
    atexit.register(worker.stop)
    os.register_at_fork(after_in_child=worker.after_fork)
    answered, hangs = worker.submit(b"first"), None
    assert answered.wait(60)
    pending = [worker.submit(b"hang"), *[worker.submit(b"x" * 10000) for _ in range(30)]]
    print(worker.process.pid, flush=True)
    way = sys.argv[2]
    if way == "fork":
        child = os.fork()
        if child == 0:
            assert all(job.is_ready() and "fork" in job.reply["error"] for job in pending)
            own = worker.submit(b"of the child")
            assert own.wait(60) and own.reply["size"] == 12
            sys.exit(0)   # the parent's process is left alone
        assert os.waitpid(child, 0)[1] == 0
        assert worker.process.poll() is None and not pending[0].is_ready()
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        assert worker.process.poll() is None
    elif way == "terminated":
        os.kill(os.getpid(), signal.SIGTERM)
    elif way == "at once":
        os._exit(0)
""")


@pytest.mark.parametrize("way", ["returns", "fork", "terminated", "at once"])
def test_nothing_is_left_behind(way: str, tmp_path: Path) -> None:
    """However the program ends with jobs pending: no file in the temporary folder, and no process."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM, FOLDER, way]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == (-signal.SIGTERM if way == "terminated" else 0), done.stderr
    assert list(tmp_path.iterdir()) == []
    if way in ("returns", "fork"):  # the others cannot end it: it looks itself (test below)
        assert not os.path.exists(f"/proc/{done.stdout.strip()}")
    else:
        os.killpg(int(done.stdout), signal.SIGKILL)


def test_the_real_process_ends_with_the_one_that_asks(tmp_path: Path) -> None:
    """In the middle of a job, too; `_end_with` looks each second."""
    program = textwrap.dedent("""
        import os, subprocess, sys, threading, time
        from framelift.backends import compile_worker
        parent = os.fork()
        if parent == 0:
            if os.fork() == 0:
                os.setsid()
                child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
                print(os.getpid(), child.pid, flush=True)
                threading.Thread(target=compile_worker._end_with, args=(os.getppid(),), daemon=True).start()
                time.sleep(600)
            time.sleep(1.0)
            os._exit(0)
        os.waitpid(parent, 0)
    """)
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    for number in done.stdout.split():
        end = time.monotonic() + 60
        while _lives(number) and time.monotonic() < end:
            time.sleep(0.1)
        assert not _lives(number)


def _lives(number: str) -> bool:
    try:
        return " Z " not in Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return False
