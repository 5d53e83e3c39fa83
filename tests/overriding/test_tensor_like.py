"""Classes that are no tensors and override torch functions: torch asks them first, and what they do is captured."""

from __future__ import annotations

import torch

from support import check

HANDLED = {}


def implements(*functions):
    def register(handler):
        HANDLED.update(dict.fromkeys(functions, handler))
        return handler

    return register


class Scaled:
    """A tensor and a factor, as in torch's own documentation of `__torch_function__`."""

    def __init__(self, data, factor=2.0):
        self.data = data
        self.factor = factor

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in HANDLED or not all(issubclass(t, (torch.Tensor, Scaled)) for t in types):
            return NotImplemented
        return HANDLED[func](*args, **(kwargs or {}))

    def __add__(self, other):
        return torch.add(self, other)


@implements(torch.add, torch.Tensor.add, torch.Tensor.__add__)
def _add(a, b):
    return Scaled(plain(a) + plain(b), getattr(a, "factor", getattr(b, "factor", 1.0)))


@implements(torch.stack)
def _stack(parts, dim=0):
    return Scaled(torch.stack([plain(part) for part in parts], dim))


@implements(torch.mean)
def _mean(a):
    return plain(a).mean()


@implements(torch.nn.functional.linear)
def _linear(a, weight, bias=None):
    return Scaled(torch.nn.functional.linear(plain(a), weight, bias), a.factor)


def plain(a):
    return a.data * a.factor if isinstance(a, Scaled) else a


class Reversed(Scaled):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented if func is torch.mean else super().__torch_function__(func, types, args[::-1], kwargs)


class Asked:
    """Its method is of the instance, as torch allows."""

    def __init__(self, shift):
        self.shift = shift

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*(self.shift if arg is self else arg for arg in args), **(kwargs or {}))


def test_functions_methods_and_operators() -> None:
    def f(x):
        scaled = Scaled(x)
        return torch.add(scaled, x).data, torch.mean(scaled), (x + scaled).data, x.add(scaled).data, (scaled + 1).data

    check(f, torch.rand(3))


def test_within_lists_and_among_others() -> None:
    def f(x, y):
        stacked = torch.stack([Scaled(x), Scaled(y, 3.0), x], dim=1)
        return (
            stacked.data,
            torch.nn.functional.linear(stacked, torch.ones(2, 3)).data,
            torch.add(Scaled(x), Reversed(y, 5.0)).factor,
        )

    check(f, torch.rand(3), torch.rand(3))


def test_objects_from_outside_and_a_factor_that_changes() -> None:
    def change(i, world):
        world.args[0].factor = float(i) + 0.5

    check(
        lambda s, x: torch.add(s, x).data + torch.mean(s),
        Scaled(torch.rand(3)),
        torch.rand(3),
        mutate=change,
        calls=5,
        graphs=None,
    )


def test_a_method_of_the_instance() -> None:
    check(lambda x: torch.mul(x, Asked(x + 1)) + torch.add(Asked(2.0), x), torch.rand(3))


def test_nobody_answers() -> None:
    check(lambda x: torch.sin(Scaled(x)), torch.rand(3), raises=TypeError, graphs=None, breaks=None)
    check(lambda x: torch.mean(Reversed(x)), torch.rand(3), raises=TypeError, graphs=None, breaks=None)


def test_with_subclasses_off() -> None:
    def f(x):
        with torch._C.DisableTorchFunctionSubclass():
            return torch.add(Scaled(x), x)

    check(f, torch.rand(3), raises=TypeError, graphs=None, breaks=None)
