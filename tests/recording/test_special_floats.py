"""Floats that change between calls, special values after ordinary ones: results and exceptions are those of eager."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import framelift

X = torch.tensor([[3.0, 4.0, -1.0, 0.0], [0.5, -2.0, 1e-3, 7.0]])
TARGETS = torch.tensor([1, 2])
VALUES = (1.5, 2.5, math.inf, -math.inf, math.nan, 0.0, -0.0, 1e-310, 1e300, 0.5, 1.0, 2.0, -1.5, 7e4, 1e-6)

FUNCTIONS = {
    "vector_norm": lambda x, p: torch.linalg.vector_norm(x, p),
    "vector_norm of rows": lambda x, p: torch.linalg.vector_norm(x, p, dim=1),
    "norm": lambda x, p: torch.norm(x, p),
    "dist": lambda x, p: torch.dist(x, x + 1, p),
    "cdist": lambda x, p: torch.cdist(x, x + 1, p),
    "renorm": lambda x, p: torch.renorm(x, p, 0, 1.0),
    "normalize": lambda x, p: F.normalize(x, p),
    "pow": lambda x, p: x**p,
    "pow of a number": lambda x, p: p**x,
    "celu": F.celu,
    "elu": F.elu,
    "leaky_relu": F.leaky_relu,
    "softshrink": F.softshrink,
    "threshold": lambda x, p: F.threshold(x, p, 1.0),
    "softplus": F.softplus,
    "hardtanh": lambda x, p: F.hardtanh(x, -1, p),
    "clamp": lambda x, p: torch.clamp(x, p, 2.5),
    "clamp of half": lambda x, p: x.half().clamp(max=p),
    "logit": lambda x, p: torch.logit(x.abs() / 10, p),
    "huber_loss": lambda x, p: F.huber_loss(x, x * 2, delta=p),
    "smooth_l1_loss": lambda x, p: F.smooth_l1_loss(x, x * 2, beta=p),
    "triplet": lambda x, p: F.triplet_margin_loss(x, x + 1, x - 1, margin=p),
    "cross_entropy": lambda x, p: F.cross_entropy(x, TARGETS, label_smoothing=p),
    "add": lambda x, p: torch.add(x, x, alpha=p),
    "addmm": lambda x, p: torch.addmm(x[:, :2], x, x.t(), beta=p),
    "lerp": lambda x, p: torch.lerp(x, x + 1, p),
    "full": lambda x, p: torch.full((2,), p),
    "full of half": lambda x, p: torch.full_like(x.half(), p),
    "full of bytes": lambda x, p: torch.full((2,), p, dtype=torch.uint8),
    "fill of half": lambda x, p: x.half().fill_(p),
    "masked_fill": lambda x, p: x.masked_fill(x > 1, p),
    "where": lambda x, p: torch.where(x > 1, x, p),
    "div": lambda x, p: x / p,
    "remainder": lambda x, p: x % p,
    "product of half": lambda x, p: x.half() * p,
    "quantile": torch.quantile,
    "layer_norm": lambda x, p: F.layer_norm(x, (4,), eps=p),
    "isclose": lambda x, p: torch.isclose(x, x + 1e-3, rtol=p),
}


def outcome(function, value):
    try:
        return function(X.clone(), value)
    except (RuntimeError, ValueError, OverflowError):
        return "raises"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values_after_ordinary_ones(name):
    function = FUNCTIONS[name]
    captured = framelift.compile(function, backend="aot_eager")
    for value in VALUES:
        plainly, found = outcome(function, value), outcome(captured, value)
        if type(plainly) is str or type(found) is str:
            assert type(plainly) is type(found), value
        else:
            torch.testing.assert_close(found, plainly, equal_nan=True, msg=str(value), rtol=1e-4, atol=1e-6)
