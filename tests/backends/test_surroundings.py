"""What compilers leave behind: nothing, also where a backward is compiled late."""

from __future__ import annotations

import random
import sys

import torch

import framelift


def test_a_late_backward_leaves_the_interpreters_settings() -> None:
    before = sys.getrecursionlimit(), sys.getswitchinterval(), random.getstate()
    x = torch.ones(3, requires_grad=True)
    framelift.compile(lambda x: (x.sin() * x).cos(), backend="inductor", fullgraph=True)(x).sum().backward()
    assert (sys.getrecursionlimit(), sys.getswitchinterval(), random.getstate()) == before
    wanted = torch.ones(3, requires_grad=True)
    (wanted.sin() * wanted).cos().sum().backward()
    torch.testing.assert_close(x.grad, wanted.grad)
