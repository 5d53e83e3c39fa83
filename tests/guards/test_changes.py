"""What may change between two calls leaves a trace somewhere: each change is noticed by the very next call.

Every program is called until its guards are settled, then changed, compared with plain Python, and changed back.
"""

from __future__ import annotations

import abc
import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import framelift
from framelift.guards.kinds import Guard, tensor_facts
from framelift.guards.native_program import build_program
from framelift.vocabulary.origins import const

OFFSET = 1.0


def helper(x: torch.Tensor, by: float = 2.0, *, plus: float = 0.5) -> torch.Tensor:
    return x * by + plus


def other_helper(x: torch.Tensor, by: float = 2.0, *, plus: float = 0.5) -> torch.Tensor:
    return x - by * plus


class Part(nn.Module):
    scale = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.gain = nn.Parameter(torch.ones(3))
        self.register_buffer("shift", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.linear(x) * self.scale) * self.gain + self.shift


class OtherPart(Part):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 7


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(Part() for _ in range(3))
        self.drop = nn.Dropout(1.0)
        self.names = ["a", "bb"]
        self.table = {"k": 1.0}
        self.note: Any = types.SimpleNamespace(deep=types.SimpleNamespace(value=1.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = part(x)
        return helper(self.drop(x)) + OFFSET + len(self.names[0]) + self.table["k"] + self.note.deep.value


@contextlib.contextmanager
def attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    missing = object()
    before = vars(owner).get(name, missing)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is missing:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


@contextlib.contextmanager
def key(table: Any, name: Any, value: Any) -> Iterator[None]:
    missing = object()
    before = table[name] if isinstance(table, list) else table.get(name, missing)
    table[name] = value
    try:
        yield
    finally:
        if before is missing:
            del table[name]
        else:
            table[name] = before


@contextlib.contextmanager
def handle(made: Any) -> Iterator[None]:
    try:
        yield
    finally:
        made.remove()


@contextlib.contextmanager
def training(module: nn.Module) -> Iterator[None]:
    module.train()
    try:
        yield
    finally:
        module.eval()


@contextlib.contextmanager
def requires_grad(tensors: Any, flag: bool) -> Iterator[None]:
    tensors = list(tensors)
    for tensor in tensors:
        tensor.requires_grad_(flag)
    try:
        yield
    finally:
        for tensor in tensors:
            tensor.requires_grad_(not flag)


@contextlib.contextmanager
def default_dtype() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def tripled(module: nn.Module, args: Any, result: Any) -> Any:
    return result * 3


def halved(module: nn.Module, args: Any) -> Any:
    return (args[0] / 2,)


def plus_one(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return x + 1


#: name -> the change as a context manager
CHANGES: dict[str, Callable[[Model], Any]] = {
    "values behind .data": lambda m: attribute_data(m.parts[1].gain, torch.full((3,), 5.0)),
    "dtype behind .data": lambda m: attribute_data(m.parts[2].gain, torch.ones(3, dtype=torch.float64)),
    "shape behind .data": lambda m: attribute_data(m.parts[2].gain, torch.full((1,), 4.0)),
    "requires_grad_": lambda m: requires_grad(m.parameters(), False),
    "another parameter": lambda m: attribute_of(m.parts[1].linear, "weight", nn.Parameter(torch.eye(3))),
    "another buffer": lambda m: attribute_of(m.parts[1], "shift", torch.full((1,), 9.0)),
    "another module": lambda m: attribute_of(m.parts[1], "linear", nn.Linear(3, 3, bias=False)),
    "a module of the list": lambda m: key(m.parts._modules, "1", OtherPart().eval()),
    "a class attribute": lambda m: attribute(Part, "scale", 5.0),
    "an attribute that hides the class's": lambda m: attribute(m.parts[2], "scale", 6.0),
    "another class": lambda m: attribute_class(m.parts[2], OtherPart),
    "a hook": lambda m: handle(m.parts[1].linear.register_forward_hook(tripled)),
    "a hook before": lambda m: handle(m.parts[2].register_forward_pre_hook(halved)),
    "a hook put in by hand": lambda m: key(m.parts[0].linear._forward_hooks, 10**6, tripled),
    "a hook for all modules": lambda m: handle(nn.modules.module.register_module_forward_hook(tripled)),
    "a method of the class": lambda m: attribute(nn.Linear, "forward", lambda self, x: x - 1),
    "a method of the instance": lambda m: attribute(m.parts[1].linear, "forward", plus_one),
    "a function of a module": lambda m: attribute(F, "relu", plus_one),
    "a global function": lambda m: key(globals(), "helper", other_helper),
    "a global number": lambda m: key(globals(), "OFFSET", -3.0),
    "code": lambda m: attribute_code(helper, other_helper.__code__),
    "a default": lambda m: attribute_code(helper, (11.0,), "__defaults__"),
    "a keyword default": lambda m: attribute_code(helper, {"plus": 12.0}, "__kwdefaults__"),
    "an item of a list": lambda m: key(m.names, 0, "cccc"),
    "an item of a dictionary": lambda m: key(m.table, "k", 8.0),
    "an attribute of an attribute": lambda m: attribute(m.note.deep, "value", 4.0),
    "a whole dictionary of attributes": lambda m: attribute_dict(m.parts[1], scale=9.0),
    "training": lambda m: training(m),
    "training of one module": lambda m: training(m.drop),
    "default dtype": lambda m: default_dtype(),
    "grad mode": lambda m: torch.no_grad(),
    "inference mode": lambda m: torch.inference_mode(),
    "autocast": lambda m: torch.autocast("cpu", dtype=torch.bfloat16),
}


@contextlib.contextmanager
def attribute_of(module: nn.Module, name: str, value: Any) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


@contextlib.contextmanager
def attribute_data(tensor: torch.Tensor, value: torch.Tensor) -> Iterator[None]:
    before = tensor.data
    tensor.data = value
    try:
        yield
    finally:
        tensor.data = before


@contextlib.contextmanager
def attribute_class(module: Any, cls: type) -> Iterator[None]:
    before = type(module)
    module.__class__ = cls
    try:
        yield
    finally:
        module.__class__ = before


@contextlib.contextmanager
def attribute_code(function: Any, value: Any, name: str = "__code__") -> Iterator[None]:
    before = getattr(function, name)
    setattr(function, name, value)
    try:
        yield
    finally:
        setattr(function, name, before)


@contextlib.contextmanager
def attribute_dict(module: Any, **more: Any) -> Iterator[None]:
    before = module.__dict__
    module.__dict__ = {**before, **more}
    try:
        yield
    finally:
        module.__dict__ = before


def same(got: torch.Tensor, want: torch.Tensor) -> bool:
    return got.dtype == want.dtype and got.requires_grad == want.requires_grad and torch.equal(got, want)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_noticed_at_the_next_call(name: str) -> None:
    torch.manual_seed(0)
    model, x = Model().eval(), torch.rand(2, 3)
    compiled = framelift.compile(model, backend="eager")
    plain = model(x)
    for _ in range(3):
        assert same(compiled(x), plain)
    for _ in range(2):
        with CHANGES[name](model):
            want = model(x)
            assert same(compiled(x), want) and same(compiled(x), want)
        assert same(compiled(x), plain) and same(model(x), plain)


def test_swapped_tensors_are_noticed() -> None:
    """On the guard alone.

    Torch refuses to swap a tensor that anything refers to weakly, as its own fake tensors do for a while.
    """
    model = Part()
    origin = const(model).to("dict").to("item", "_buffers").to("item", "shift")
    program, _ = build_program([Guard(origin, "TENSOR", tensor_facts(model.shift))], [], [], [], None)
    other = torch.full((1,), 3.0)
    for _ in range(3):
        assert program.check(()) is None
    torch.utils.swap_tensors(model.shift, other)
    assert program.check(()) is not None
    torch.utils.swap_tensors(model.shift, other)
    assert program.check(()) is None


def test_registrations_with_abstract_classes_are_one_word() -> None:
    """What abstract classes answered needs no call while nothing is registered anywhere.

    A registration elsewhere is asked about once.
    """

    class Abstract(abc.ABC):  # noqa: B024
        pass

    class Other(abc.ABC):  # noqa: B024
        pass

    class Mine:
        pass

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + isinstance(mine, Abstract)

    mine = Mine()
    compiled = framelift.compile(fn, backend="eager")
    x = torch.zeros(1)
    for _ in range(3):
        assert compiled(x).item() == 0
    (entry,) = compiled.entries
    assert not entry.program.unsettled()
    Other.register(Mine)
    for _ in range(3):
        assert compiled(x).item() == 0
    assert len(compiled.entries) == 1 and not entry.program.unsettled()
    Abstract.register(Mine)
    for _ in range(3):
        assert compiled(x).item() == 1


def test_a_class_attribute_beside_one_that_is_written() -> None:
    class Base:
        weight = 7
        text = "base"

    class Child(Base):
        weight = 1

    def below(x):
        Base.weight = x
        return x + 1, Child.weight, Child().weight

    def gone(x):
        Base.text = "other"
        before = Child.weight
        del Child.weight
        found = Child.weight, Child().weight, Child.text
        Child.weight = before
        return x + 1, found

    def nearer(x):
        Child.text = "nearer"
        held = Child().text
        del Child.text
        return x + 1, held, Child().text

    for f in (below, gone, nearer):
        compiled = framelift.compile(f, backend="eager")
        for number, weight in enumerate((1, 0, 4, 5, 4)):
            results = []
            for run in (f, compiled):
                Base.weight, Base.text, Child.weight = 7 + number, "base", weight
                results.append(repr(run(torch.ones(1))))
                assert Child.weight == weight
            assert results[0] == results[1], (f.__name__, weight, results)


@pytest.mark.parametrize("given", [(3,), (3, 0.5)])
def test_a_given_number_that_is_also_the_default(given: tuple[Any, ...]) -> None:
    """Which of the two it was, a frame does not tell."""

    class Model(torch.nn.Module):
        def forward(self, x: Any, n: int = 1, k: float = 0.25) -> Any:
            return x + 1, n, k

    plain, captured = Model(), framelift.compile(Model(), backend="eager")
    for defaults in ((1, 0.25), (3, 0.5), (-1, 0.75), (3, 0.5), (4, 1.5)):
        Model.forward.__defaults__ = defaults
        assert captured(torch.ones(1), *given)[1:] == plain(torch.ones(1), *given)[1:]
