"""Captures in threads that end, where torch is built for CUDA and no device is there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

PROGRAM = """
import threading
import torch
import framelift

def capture(number):
    compiled = framelift.compile(lambda x: x.relu() + number, backend="eager", dynamic=True)
    assert torch.equal(compiled(torch.ones(3 + number)), torch.ones(3 + number) + number)

for number in range(3):
    thread = threading.Thread(target=capture, args=(number,))
    thread.start()
    thread.join()
capture(3)
print("right")
"""


@pytest.mark.skipif(torch.version.cuda is None, reason="needs a torch that is built for CUDA")
def test_what_stands_for_the_device_outlives_the_thread_that_made_it() -> None:
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "MALLOC_PERTURB_": "165"}  # freed memory is overwritten
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr
