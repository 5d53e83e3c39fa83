"""What a frame's surroundings are on both sides of a break: exceptions being handled, iterators, settings of torch, counts of rehearsals."""

from __future__ import annotations

import sys

import torch
from support import check

import framelift


@framelift.disable
def off(value):
    return value


@framelift.disable
def fails(text):
    raise ValueError(text)


def broken(f, *args, **kwargs):
    """Captured in parts, equal to plain Python."""
    return check(f, *args, **{"graphs": None, "breaks": None, "calls": 3, **kwargs})


def test_nothing_is_handled_behind_a_handler_with_a_break() -> None:
    def f(x, log):
        try:
            fails("inside")
        except ValueError:
            off(0)
            x = x + 1
            log.append(sys.exc_info()[0])
        log.append(sys.exc_info()[0])
        return x * 2

    broken(f, torch.ones(2), [])
