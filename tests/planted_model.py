"""A model with three planted breaks, two causes of recaptures and one number that an expression fixes; and each repaired as its fix says."""

from __future__ import annotations

import time

import torch


def gate(x):
    if x.mean() > 0:
        return x.relu()
    return x


def rescale(x):
    return x / x.abs().max().item()


def stamp(x):
    return x + time.time() * 0


def temper(x, settings):
    return x / settings["temperature"]


def recall(x, history):
    return x + len(history)


def repeat(x, n):
    for _ in [0] * n:
        x = x * 1.5
    return x


def gate_fixed(x):
    return torch.where(x.mean() > 0, x.relu(), x)


def rescale_fixed(x):
    return x / x.abs().max()


def stamp_fixed(x):
    return x + 0


def temper_fixed(x, settings):
    return x / settings["temperature"]        # a tensor now


def recall_fixed(x, history):
    return x + history.sum()                  # stacked into a tensor


def repeat_fixed(x, n):
    return x * 1.5 ** n


PLANTED = {"gate": gate, "rescale": rescale, "stamp": stamp, "temper": temper, "recall": recall, "repeat": repeat}
FIXED = {"gate": gate_fixed, "rescale": rescale_fixed, "stamp": stamp_fixed, "temper": temper_fixed, "recall": recall_fixed, "repeat": repeat_fixed}


class Planted(torch.nn.Module):
    """`fixed` names the parts that are repaired."""

    def __init__(self, fixed=()):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.parts = {name: (FIXED if name in fixed else PLANTED)[name] for name in PLANTED}

    def forward(self, x, settings, history, n):
        parts = self.parts
        x = self.layer(x)
        x = parts["temper"](x, settings)
        x = parts["recall"](x, history)
        x = parts["repeat"](x, n)
        x = parts["gate"](x)
        x = parts["rescale"](x)
        return parts["stamp"](x)


def drive(call, fixed=()) -> None:
    """Calls in which one thing changes at a time: the temperature, the history, the number."""
    def go(temperature, length, n):
        settings = {"temperature": torch.tensor(temperature) if "temper" in fixed else temperature}
        history = torch.ones(8) if "recall" in fixed else [1] * length     # kept at one length
        call(torch.ones(2, 4), settings, history, n)

    for temperature in (1.5, 2.5):
        go(temperature, 1, 2)
    for length in (2, 3):
        go(2.5, length, 2)
    for n in (3, 4, 5):
        go(2.5, 3, n)
