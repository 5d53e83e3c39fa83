"""Calls that type checkers refuse: each line that says so, and no other."""

import torch

import framelift


@framelift.compile(backend="eager")
def plain(x: torch.Tensor, n: int = 2) -> torch.Tensor:
    return x * n


def program(x: torch.Tensor) -> None:
    plain(x, n="3")  # refused
    plain(x).no_such_method()  # refused
    plain.no_such_attribute()  # refused
    framelift.compile(plain, dinamic=True)  # refused
    framelift.compile(plain, fullgraph="yes")  # refused
    framelift.compile(3)  # refused
    framelift.config.recompile_limit = "many"  # refused by mypy
    framelift.config.nonsense = 1  # refused
    framelift.config.patch(recompile_limit="many")  # refused
    framelift.set_stance("eager_on_recompiles")  # refused
