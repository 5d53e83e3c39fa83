"""Programs with graph breaks, as people write them: functions of one tensor, and modules."""

from __future__ import annotations

import logging
import time
import warnings

import torch

LOG = logging.getLogger("break_corpus")
TABLE = [1, 2, 3, 4, 5, 6, 7, 8, 9]


def branch_on_a_variable(x):
    positive = x > 0
    if positive.any():
        return x + 1
    return x


def branch_over_lines(x):
    positive = x > 0
    if (
        positive.any()  # a comment: here
        and x.sum() > 1
    ):
        return x + 1
    return x


def branch_on_a_name(x):
    positive = x.sum() > 0
    if positive:
        return x + 1
    return x


def loop_while(x):
    while x.sum() < 10:
        x = x + 1
    return x


def conditional(x):
    return x + 1 if x.any() else x


def either(x):
    return x.any() and x.sum()


def negated(x):
    return not x.any()


def filtered(x):
    y = x.sum()
    return [x + k for k in range(2) if y > k]


def closed_over(x):
    y = x.sum()

    def inner():
        return 1 if y > 0 else 2

    return x * inner()


def timed(x):
    start = time.time()
    y = x + 1
    return y, time.time() - start


def timed_and_printed(x):
    start = time.perf_counter()
    y = x.relu()
    print(f"took {time.perf_counter() - start}")
    return y


def as_float(x):
    return x * float(x.sum())


def as_int(x):
    return x * int(x.sum())


def item_over_lines(x):
    scale = x.sum().item()  # of all
    return x * scale


def as_index(x):
    return x + TABLE[x.sum().long()]


def as_list(x):
    return x * len(x.tolist())


def range_of_a_value(x):
    for _ in range(int(x.sum())):
        x = x + 1
    return x


def selected(x):
    return x[x > 0] * 2


def shown(x):
    return x + len(f"{x}")


def printed(x):
    print("loss", x.sum())
    return x + 1


def warned(x):
    warnings.warn(f"sum {x.sum()}", stacklevel=1)
    return x + 1


def logged(x):
    LOG.warning("shape %s", x.shape)
    return x + 1


def file_written(x):
    with open("/dev/null", "w") as file:
        file.write("a")
    return x + 1


def address(x):
    return x + x.data_ptr() % 2


def long_call(x):
    return x + len(
        str(
            torch.nn.functional.softmax(x.sum() * 1.0000000001 + x.mean() * 2.000000001 + x.amax() * 3.000000001, dim=0)
            + torch.nn.functional.relu(x.sum() * 1.0000000001 + x.mean() * 2.000000001 + x.amax() * 3.000000001)
        )
    )


class Inner(torch.nn.Module):
    def forward(self, x):
        if x.mean() > 0:
            return x
        return -x


class Below(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.inner = torch.nn.Sequential(Inner(), torch.nn.Linear(3, 3))

    def forward(self, x):
        return self.inner(self.layer(x))


class Hooked(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.layer.register_forward_hook(lambda module, args, out: print(out.sum().item()))

    def forward(self, x):
        return self.layer(x) + 1


FUNCTIONS = (
    branch_on_a_variable,
    branch_over_lines,
    branch_on_a_name,
    loop_while,
    conditional,
    either,
    negated,
    filtered,
    closed_over,
    timed,
    timed_and_printed,
    as_float,
    as_int,
    item_over_lines,
    as_index,
    as_list,
    range_of_a_value,
    selected,
    shown,
    printed,
    warned,
    logged,
    file_written,
    address,
    long_call,
)
MODULES = (Below, Hooked)
