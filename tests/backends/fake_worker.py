"""A process that takes jobs as compile_worker.py does, and then does what its name says (test_worker.py)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any


def main(channel: int, way: str) -> None:
    asked = socket.socket(fileno=channel)
    if way == "deaf":  # reads nothing
        time.sleep(600)
    while True:
        mark, memories, *_ = socket.recv_fds(asked, 1, 1)
        if not mark:
            return
        with open(memories[0], "rb") as file:
            head, payload = json.loads(file.readline()), file.read()
        answer: dict[str, Any] = {"number": head["number"], "size": len(payload)}
        if payload == b"die":
            os._exit(3)
        elif payload == b"be killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif payload == b"hang":
            time.sleep(600)
        elif payload == b"close":  # alive, and silent
            asked.close()
            time.sleep(600)
        elif payload == b"leave a child":  # which keeps the end of the socket
            os.set_inheritable(channel, True)
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"], close_fds=False)
            os._exit(4)
        elif payload == b"raise":
            answer["error"] = "RuntimeError: no"
        elif payload == b"variable":
            answer["variable"] = head["environment"].get("OF_A_TEST")
        asked.sendall(json.dumps(answer).encode() + b"\n")
