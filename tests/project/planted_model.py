"""A model with three planted breaks, two causes of recompiles and one number that an expression fixes.

Each is also here repaired as its fix says.  The docstring of a repaired part is what the report says to do, word for
word.  Repaired or not, the model computes the same.
"""

from __future__ import annotations

import time

import torch

LONGEST = 8  # of the history


def gate(x, given):
    if x.mean() > 0:
        return x.relu()
    return x


def rescale(x, given):
    return x / x.abs().max().item()


def stamp(x, given):
    return x + time.time() * 0


def temper(x, given):
    return x / given["temperature"]


def recall(x, given):
    return x + len(given["history"])


def repeat(x, given):
    for _ in [0] * given["n"]:
        x = x * 1.5
    return x


def gate_fixed(x, given):
    """Compute both sides and choose with `torch.where(x.mean() > 0, a, b)`"""
    return torch.where(x.mean() > 0, x.relu(), x)


def rescale_fixed(x, given):
    """Keep the value as a tensor instead of `x.abs().max().item()`"""
    return x / x.abs().max()


def stamp_fixed(x, given):
    """Move `time.time()` outside the compiled function: around its calls, to measure them; or before, and pass its
    result in as a tensor
    """
    return x + given["now"] * 0


def temper_fixed(x, given):
    """pass a tensor"""
    return x / given["temperature"]


def recall_fixed(x, given):
    """stack its contents into a tensor"""
    return x + given["history"].sum()


def repeat_fixed(x, given):
    """work on tensors there instead of a Python loop, list or branch over the number"""
    return x * 1.5 ** given["n"]


PLANTED = {"gate": gate, "rescale": rescale, "stamp": stamp, "temper": temper, "recall": recall, "repeat": repeat}
FIXED = {
    "gate": gate_fixed,
    "rescale": rescale_fixed,
    "stamp": stamp_fixed,
    "temper": temper_fixed,
    "recall": recall_fixed,
    "repeat": repeat_fixed,
}


class Planted(torch.nn.Module):
    """`fixed` names the parts that are repaired."""

    def __init__(self, fixed=()):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.parts = {name: (FIXED if name in fixed else PLANTED)[name] for name in PLANTED}

    def forward(self, x, given):
        parts = self.parts
        x = self.layer(x)
        x = parts["temper"](x, given)
        x = parts["recall"](x, given)
        x = parts["repeat"](x, given)
        x = parts["gate"](x, given)
        x = parts["rescale"](x, given)
        return parts["stamp"](x, given)


def drive(call, fixed=()) -> list[torch.Tensor]:
    """Calls in which one thing changes at a time: the temperature, the history, the number.

    What the fixes ask of the caller is done.
    """
    results = []

    def go(temperature, length, n):
        given = {"temperature": temperature, "history": [1] * length, "n": n}
        if "temper" in fixed:
            given["temperature"] = torch.tensor(temperature)
        if "recall" in fixed:
            given["history"] = torch.tensor([1.0] * length + [0.0] * (LONGEST - length))
        if "stamp" in fixed:
            given["now"] = torch.tensor(time.time())
        results.append(call(torch.ones(2, 4), given))

    for temperature in (1.5, 2.5):
        go(temperature, 1, 2)
    for length in (2, 3):
        go(2.5, length, 2)
    for n in (3, 4, 5):
        go(2.5, 3, n)
    return results
