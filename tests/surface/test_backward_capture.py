"""`config.compiled_autograd`: backward passes inside of compiled calls are captured."""

from __future__ import annotations

import torch
import torch._dynamo
from torch._dynamo.testing import EagerAndRecordGraphs

import framelift


def test_backward_passes_have_graphs():
    model, x, backend = torch.nn.Linear(3, 3), torch.ones(2, 3), EagerAndRecordGraphs()

    def step(x):
        loss = (model(x) ** 2).sum()
        torch._dynamo.graph_break()
        loss.backward()
        return loss.detach()

    with framelift.installed():
        torch._dynamo.reset()
        with torch._dynamo.config.patch(compiled_autograd=True):
            f = torch.compile(step, backend=backend)
        f(x)
        found, model.weight.grad = model.weight.grad, None
        step(x)
        torch.testing.assert_close(found, model.weight.grad)
        assert len(backend.graphs) == 3  # before the break, the backward, and after it
        torch._dynamo.reset()
