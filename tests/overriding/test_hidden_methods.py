"""An attribute that a plain tensor has itself hides a method of its class: noticed when it comes and when it goes."""

from __future__ import annotations

import pytest
import torch

import framelift
from support import compiled, counts

READS = {
    "a method": (lambda x: x.mul(2), "mul", lambda other: torch.full((3,), 42.0)),
    "in place": (lambda x: x.clone() + x.add_(1), "add_", lambda other: torch.full((3,), 42.0)),
    "a size": (lambda x: x + x.nelement(), "nelement", lambda: 7),
    "a count": (lambda x: x + x.numel(), "numel", lambda: 7),
    "getattr": (lambda x: getattr(x, "sin")(), "sin", lambda: torch.zeros(3)),
    "a method kept": (lambda x: [m() for m in (x.exp, x.sum)][0], "exp", lambda: torch.zeros(3)),
    "conversion": (lambda x: x.double() * 2, "double", lambda: torch.zeros(3)),
    "a method in Python": (lambda x: x.norm() * 2, "norm", lambda: torch.zeros(3)),
    "one of two": (lambda x: (x + 1).mul(2) + x.mul(3), "mul", lambda other: torch.full((3,), 42.0)),
    "by a function in Python": (
        lambda x: torch.nn.functional.softmax(x, 0),
        "softmax",
        lambda *args, **more: torch.zeros(3),
    ),
    "by a module": (torch.nn.Softmax(0), "softmax", lambda *args, **more: torch.zeros(3)),
    "one of several": (lambda x: torch.nn.functional.normalize(x, dim=0), "norm", lambda *args, **more: torch.ones(1)),
    "by a function of torch": (lambda x: torch.split(x, 2)[0], "split", lambda *args, **more: (torch.zeros(2),)),
    "after a change": (lambda x: x.mul_(1).mul(3), "mul_", lambda other: torch.full((3,), 42.0)),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "make", [torch.ones, lambda n: torch.nn.Parameter(torch.ones(n), False)], ids=["tensor", "parameter"]
)
@pytest.mark.parametrize("name", READS)
def test_an_attribute_that_hides_a_method(name, make, backend) -> None:
    function, attribute, instead = READS[name]
    captured, x, y = compiled(function, backend=backend), make(3), make(3)

    def agree() -> None:
        torch.testing.assert_close(captured(x), function(y))

    agree()
    start = counts().captures
    agree()
    assert counts().captures == start
    for change in (lambda t: setattr(t, attribute, instead), lambda t: delattr(t, attribute)):
        change(x)
        change(y)
        agree()
        agree()
    assert counts().captures == start + 1


def test_other_attributes_and_other_tensors_change_nothing() -> None:
    captured = compiled(lambda x, w: x.mul(2) + w.sum())
    w = torch.nn.Parameter(torch.ones(3))
    captured(torch.ones(3), w)
    w.note, start = "a note", counts().captures
    for _ in range(3):
        x = torch.ones(3)
        x.note = 1
        captured(x, w)
    assert counts().captures == start


def test_a_tensor_of_a_module_and_of_the_globals() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.w.mul(x)

    module = Scaled()
    captured = framelift.compile(module, backend="aot_eager")
    assert captured(torch.ones(3)).tolist() == [1, 1, 1]
    module.w.mul = lambda x: x * 5
    assert captured(torch.ones(3)).tolist() == [5, 5, 5]
    del module.w.mul
    assert captured(torch.ones(3)).tolist() == [1, 1, 1]


def test_nothing_of_the_program_runs_to_find_out() -> None:
    class Watched:
        def __get__(self, *args: object) -> None:
            raise AssertionError

        def __eq__(self, other: object) -> bool:
            raise AssertionError

        def __call__(self, other: object) -> int:
            return 3

        __hash__ = None  # type: ignore[assignment]

    captured, x = compiled(lambda x: x.mul(2)), torch.ones(3)
    captured(x)
    x.mul = Watched()
    assert captured(x) == 3
