"""The program of test_kept_copies.py: a deep copy of settings, whose equal values are one object or several."""

from __future__ import annotations

import copy
import json
import sys
from typing import Any

import torch

import framelift


class Settings:
    def __init__(self, values: list[Any]) -> None:
        self.rate, self.again, self.width, self.other_width, self.name, self.other_name = values
        self.table = {self.name: [self.rate, self.width], "more": (self.again, self.other_width)}


def f(x: torch.Tensor, settings: Settings) -> Any:
    own = copy.deepcopy(settings)
    return (x * own.rate + own.other_width).sum() + len(own.table[own.other_name]), own.table["more"]


def values(how: str) -> list[Any]:
    if how == "several":
        return [float("0.1"), float("0.1"), int("70000"), int("70000"), "".join(["ge", "lu"]), "".join(["ge", "lu"])]
    if how == "changed":
        return [float("0.1"), float("0.1"), int("70000"), int("70001"), "gelu", "gelu"]
    rate, width, name = float("0.1"), int("70000"), "".join(["ge", "lu"])
    if how == "interned":
        name = sys.intern(name)
    return [rate, rate, width, width, name, name]


def main(how: str) -> None:
    x, settings = torch.ones(4), Settings(values(how))
    compiled = framelift.compile(f, backend="eager")
    results = [[result[0].item(), result[1]] for result in (f(x, settings), compiled(x, settings))]
    counts = {name: framelift.stats()[name] for name in ("captures", "loaded", "not_kept")}
    print(json.dumps({"eager": results[0], "compiled": results[1], **counts}))


if __name__ == "__main__":
    main(*sys.argv[1:])
