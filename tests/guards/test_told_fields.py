"""Settled programs see every object that gets another class or dictionary, and every function that gets other parts.

From CPython 3.12 on they do not look at these fields while none was set anywhere.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import os
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from framelift.guards.kinds import Guard
from framelift.guards.native_program import build_program
from framelift.guards.reference import check_reference
from framelift.vocabulary.origins import arg

X = arg(0, "holder").to("item", "x")


class Plain:
    a = 0


class Other:
    a = 0


class Slotted:
    __slots__ = ("__dict__",)


class OtherSlotted:
    __slots__ = ("__dict__",)


class Both(Plain, Other):
    pass


class OtherBoth(Plain, Other):
    pass


class Linear(torch.nn.Linear):
    pass


def _two(a: int, b: int = 2, *, c: int = 3) -> int:
    return a + b + c


def _three(a: int, b: int = 2, *, c: int = 3) -> int:
    return a - b - c


def _function() -> types.FunctionType:
    made = types.FunctionType(_two.__code__, globals(), "made", (2,))
    made.__kwdefaults__ = {"c": 3}
    return made


def _filled(made: Any) -> Any:
    made.a = 1
    return made


#: an object, and a class that it may get instead of its own
OBJECTS: dict[str, tuple[Callable[[], Any], type]] = {
    "instance": (lambda: _filled(Plain()), Other),
    "slotted": (lambda: _filled(Slotted()), OtherSlotted),
    "several bases": (lambda: _filled(Both()), OtherBoth),
    "module": (lambda: _filled(torch.nn.Linear(1, 1)), Linear),
    "holder of a dictionary": (lambda: _filled(types.SimpleNamespace()), types.SimpleNamespace),
    "function": (_function, types.FunctionType),
}


def _real_dict(x: Any) -> Any:
    return next(vars(cls)["__dict__"] for cls in type(x).__mro__ if "__dict__" in vars(cls))


#: what a program may do; each is given the object and the class for it.  What is returned stays alive
CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda x, cls: None,
    "class": lambda x, cls: setattr(x, "__class__", cls),
    "class by object": lambda x, cls: object.__setattr__(x, "__class__", cls),
    "class by descriptor": lambda x, cls: vars(object)["__class__"].__set__(x, cls),
    "class there and back": lambda x, cls: [setattr(x, "__class__", one) for one in (cls, type(x))],
    "C: class": lambda x, cls: ctypes.pythonapi.PyObject_SetAttrString(ctypes.py_object(x), b"__class__", _py(cls)),
    "dict": lambda x, cls: setattr(x, "__dict__", {"a": 5}),
    "dict like it": lambda x, cls: setattr(x, "__dict__", dict(x.__dict__)),
    "dict, the old one alive": lambda x, cls: (x.__dict__, setattr(x, "__dict__", {"a": 5}))[0],
    "dict by object": lambda x, cls: object.__setattr__(x, "__dict__", {"a": 5}),
    "dict by descriptor": lambda x, cls: (x.__dict__, _real_dict(x).__set__(x, {"a": 5}))[0],
    "dict by each descriptor": lambda x, cls: [
        (x.__dict__, vars(base)["__dict__"].__set__(x, {"a": 5}))[0]
        for base in reversed(type(x).__mro__)
        if type(vars(base).get("__dict__")) is types.GetSetDescriptorType
    ],
    "C: dict": lambda x, cls: (
        x.__dict__,
        ctypes.pythonapi.PyObject_SetAttrString(ctypes.py_object(x), b"__dict__", _py({"a": 5})),
    )[0],
    "dict of another": lambda x, cls: (x.__dict__, setattr(x, "__dict__", _filled(Plain()).__dict__))[0],
    "attribute": lambda x, cls: setattr(x, "a", 5),
    "code": lambda x, cls: setattr(x, "__code__", _three.__code__),
    "defaults": lambda x, cls: setattr(x, "__defaults__", (7,)),
    "defaults, the old ones alive": lambda x, cls: (x.__defaults__, setattr(x, "__defaults__", (7,)))[0],
    "equal defaults": lambda x, cls: setattr(x, "__defaults__", tuple(iter((2,)))),
    "no defaults": lambda x, cls: delattr(x, "__defaults__"),
    "more defaults": lambda x, cls: setattr(x, "__defaults__", (1, 2)),
    "C: defaults": lambda x, cls: ctypes.pythonapi.PyFunction_SetDefaults(_py(x), _py((7,))),
    "kwdefaults": lambda x, cls: (x.__kwdefaults__, setattr(x, "__kwdefaults__", {"c": 7}))[0],
    "no kwdefaults": lambda x, cls: setattr(x, "__kwdefaults__", None),
    "C: kwdefaults": lambda x, cls: ctypes.pythonapi.PyFunction_SetKwDefaults(_py(x), _py({"c": 7})),
    "in kwdefaults": lambda x, cls: x.__kwdefaults__.update(c=7),
}


def _py(value: Any) -> Any:
    return ctypes.py_object(value)


def _guards(x: Any) -> list[Guard]:
    found = [Guard(X, "TYPE", type(x))]
    if type(x) is types.FunctionType:
        found += [
            Guard(X, "CODE", x.__code__),
            Guard(X.to("default", 0), "EQ", 2),
            Guard(X.to("kwdefault", "c"), "EQ", 3),
        ]
        return [*found, Guard(X.to("attr", "__defaults__"), "LEN", 1)]
    return [*found, Guard(X.to("dict").to("item", "a"), "EQ", 1), Guard(X.to("dict"), "ABSENT", "b")]


def _settled(kind: str) -> tuple[Any, list[Guard], dict[str, Any]]:
    holder = {"x": OBJECTS[kind][0]()}
    guards = _guards(holder["x"])
    with config.patch(verify_guards=False):
        program = build_program(guards, [X], [], [], None)[0]
    _settle(program, holder)
    return program, guards, holder


def _settle(program: Any, holder: dict[str, Any]) -> None:
    for _ in range(40):
        assert program.check((holder,)) is None
    assert program.stats()["settled"]


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_seen(kind: str, change: str) -> None:
    program, guards, holder = _settled(kind)
    for _ in range(2):  # before and after it is settled again
        try:
            kept = CHANGES[change](holder["x"], OBJECTS[kind][1])
        except (AttributeError, TypeError, SystemError):  # not every object can be changed in this way
            kept = None
        expected = check_reference(guards, [], None, (holder,))
        for _ in range(2):
            assert (program.check((holder,)) is None) == (expected is None), change
        del kept
        if expected is not None:
            return
        _settle(program, holder)


def test_the_changes_are_such() -> None:
    """Each kind of object is changed by most of them, so that what was not seen would show."""
    seen = set()
    for kind, (make, cls) in OBJECTS.items():
        for name, change in CHANGES.items():
            x = make()
            guards = _guards(x)
            try:
                change(x, cls)
            except (AttributeError, TypeError, SystemError):
                continue
            if check_reference(guards, [], None, ({"x": x},)) is not None:
                seen.add((kind, name))
    kinds = {kind: sum(one == kind for one, _ in seen) for kind in OBJECTS}
    assert min(kinds.values()) >= 1 and sum(kinds.values()) >= 40, kinds


def test_what_is_set_elsewhere_leaves_a_program_settled() -> None:
    program, _, holder = _settled("instance")
    visits = program.stats()["visits"]
    for _ in range(100):
        other = Plain()
        other.__dict__ = {"a": 7}
        other.__class__ = Other  # type: ignore[assignment]
        _two.__defaults__ = (2,)
        assert program.check((holder,)) is None
    assert program.stats()["settled"] and program.stats()["visits"] == visits
    holder["x"].__class__ = Other
    assert program.check((holder,)) is not None


def test_an_object_in_the_place_of_one_that_died() -> None:
    """The address says nothing: what is known to be the same object lies in an unchanged dictionary."""
    _, _, holder = _settled("instance")
    items = [holder["x"]]
    place = arg(0, "items").to("item", 0)
    in_list = [Guard(place, "TYPE", Plain), Guard(place.to("dict").to("item", "a"), "EQ", 1)]
    with config.patch(verify_guards=False):
        program = build_program(in_list, [place], [], [], None)[0]
    holder.clear()
    for _ in range(40):
        assert program.check((items,)) is None
    for _ in range(50):
        items.clear()
        gc.collect()
        items.append(_filled(Other()))
        assert program.check((items,)) is not None


def test_setting_does_what_it_did() -> None:
    """Values, exceptions and their words are CPython's."""
    _settled("instance")
    x = _filled(Plain())
    with pytest.raises(TypeError, match="__class__ must be set to a class, not 'int' object"):
        x.__class__ = 1
    with pytest.raises(TypeError, match="__class__ assignment only supported for"):
        x.__class__ = int
    with pytest.raises(TypeError, match="__dict__ must be set to a dictionary, not a 'int'"):
        x.__dict__ = 1
    x.__dict__ = new = {"b": 1}
    assert x.__dict__ is new and x.b == 1 and x.a == 0
    copied = copy.deepcopy(torch.nn.Parameter(torch.ones(2)))
    assert copied.__class__ is torch.nn.Parameter


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)
        self.options = _filled(Plain())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * (1 + self.options.a) + _two(1)


class Negated(torch.nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return -super().forward(x)


#: of a model whose call is settled
REAL: dict[str, Callable[[Model], Any]] = {
    "class of a module": lambda m: setattr(m.inner, "__class__", Negated),
    "dict of a module": lambda m: (
        m.inner.__dict__,
        setattr(m.inner, "__dict__", {**m.inner.__dict__, "_parameters": {**torch.nn.Linear(2, 2)._parameters}}),
    )[0],
    "class of an object": lambda m: setattr(m.options, "__class__", Both),
    "dict of an object": lambda m: (m.options.__dict__, setattr(m.options, "__dict__", {"a": 4}))[0],
    "defaults": lambda m: setattr(_two, "__defaults__", (9,)),
    "kwdefaults": lambda m: setattr(_two, "__kwdefaults__", {"c": 9}),
    "code": lambda m: setattr(_two, "__code__", _three.__code__),
}


@pytest.mark.parametrize("change", REAL)
def test_compiled_modules_see_it(change: str) -> None:
    before = _two.__code__, _two.__defaults__, _two.__kwdefaults__
    torch.manual_seed(0)
    model, x = Model(), torch.ones(2, 2)
    compiled = framelift.compile(model, backend="eager", fullgraph=True)
    try:
        for _ in range(40):
            assert torch.equal(compiled(x), model(x))
        kept = REAL[change](model)
        for _ in range(40):
            assert torch.equal(compiled(x), model(x))
        del kept
    finally:
        _two.__code__, _two.__defaults__, _two.__kwdefaults__ = before
    assert torch.equal(compiled(x), model(x))


_NAMES_THAT_C_CODE_MAKES = """
import random
import torch, framelift

def program(x):
    drawn = random.random()  # the guard of its name reads a text that CPython makes anew at each read
    if drawn < 0.5:
        raise ValueError(drawn)
    return x + drawn

compiled = framelift.compile(program, backend="eager")
random.seed(5)
for _ in range(40):
    try:
        compiled(torch.ones(2))
    except ValueError:
        pass
assert len(compiled.entries) == 2
"""


def test_values_that_nothing_else_holds_are_held() -> None:
    """What is freed is overwritten here."""
    environment = {**os.environ, "PYTHONMALLOC": "debug"}
    done = subprocess.run([sys.executable, "-c", _NAMES_THAT_C_CODE_MAKES], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
