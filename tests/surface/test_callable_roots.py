"""Objects as roots: `__call__` is looked up in the class at each call, whatever it is there.

Special methods that are no functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import framelift
import pytest
import torch
from support import compiled, counts

X = torch.ones(3)
Program = Callable[[Callable[..., Any]], Iterator[Any]]


def outcomes(program: Program, compile: Callable[..., Any]) -> list[Any]:
    seen: list[Any] = []
    try:
        for result in program(compile):
            seen.append(result.tolist() if isinstance(result, torch.Tensor) else result)
    except Exception as error:
        seen.append((type(error), str(error)))
    return seen


def as_eager(program: Program) -> None:
    framelift.reset()
    assert outcomes(program, compiled) == outcomes(program, lambda function: function)


def fresh(base: type = object, factor: float = 1.0) -> type:
    return type("Fresh", (base,), {"__call__": lambda self, x: x + factor})


def replaced(compile: Callable[..., Any]) -> Iterator[Any]:
    cls = fresh()
    f = compile(cls())
    yield f(X)
    old = cls.__call__
    for term in (2.0, 3.0):
        cls.__call__ = lambda self, x, term=term: x + term
        yield f(X)
        yield f(X)
    cls.__call__ = old
    yield f(X)


def replaced_before_the_first_call(compile: Callable[..., Any]) -> Iterator[Any]:
    cls = fresh()
    f = compile(cls())
    cls.__call__ = lambda self, x: x - 1
    yield f(X)


def deleted(compile: Callable[..., Any]) -> Iterator[Any]:
    base = fresh(factor=5.0)
    cls = fresh(base)
    f = compile(cls())
    yield f(X)
    del cls.__call__
    yield f(X)
    base.__call__ = lambda self, x: x * 9
    yield f(X)
    del base.__call__
    yield f(X)  # raises


def earlier_in_the_order(compile: Callable[..., Any]) -> Iterator[Any]:
    first = type("First", (), {})
    second = fresh()
    cls = type("Both", (first, second), {})
    f = compile(cls())
    yield f(X)
    first.__call__ = lambda self, x: x * 7
    yield f(X)
    cls.__bases__ = second, first
    yield f(X)


def other_signature(compile: Callable[..., Any]) -> Iterator[Any]:
    cls = fresh()
    f = compile(cls())
    yield f(X)
    cls.__call__ = lambda self, x, y=2, *, z=3: x * y + z
    yield f(X)
    yield f(X, 4)
    yield f(x=X, z=5)
    yield f(X, X, X)  # raises


def replaced_by_itself(compile: Callable[..., Any]) -> Iterator[Any]:
    class Counted:
        calls = 0

        def __call__(self, x: Any) -> Any:
            Counted.calls += 1
            if Counted.calls == 2:
                Counted.__call__ = Counted.later
            return x + 1

        def later(self, x: Any) -> Any:
            return x * 100

    f = compile(Counted())
    for _ in range(4):
        yield f(X)
    yield Counted.calls


def in_captured_code(compile: Callable[..., Any]) -> Iterator[Any]:
    cls = fresh()
    f = compile(cls())
    g = compile(lambda x: f(x) * 2)
    yield g(X)
    cls.__call__ = lambda self, x: x - 5
    yield g(X)
    yield f(X)


def compiled_twice(compile: Callable[..., Any]) -> Iterator[Any]:
    cls = fresh()
    f = compile(compile(cls()))
    yield f(X)
    cls.__call__ = lambda self, x: x - 5
    yield f(X)


def compiled_in_the_class(compile: Callable[..., Any]) -> Iterator[Any]:
    cls = fresh()
    cls.__call__ = compile(cls.__call__)
    f = compile(cls())
    yield f(X)
    cls.__call__ = compile(lambda self, x: x - 5)
    yield f(X)


def module_calls(compile: Callable[..., Any]) -> Iterator[Any]:
    class M(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x + 1

    m = M()
    f = compile(m)
    yield f(X)
    M.forward = lambda self, x: x + 2
    yield f(X)
    m.forward = lambda x: x + 3
    yield f(X)
    del m.forward
    M.__call__ = lambda self, x: self.forward(x) * 100
    yield f(X)
    del M.__call__
    yield f(X)


def base_of_modules(compile: Callable[..., Any]) -> Iterator[Any]:
    f = compile(torch.nn.ReLU())
    yield f(X)
    old = torch.nn.Module.__call__
    torch.nn.Module.__call__ = lambda self, x: self.forward(x) * 100
    try:
        yield f(X)
    finally:
        torch.nn.Module.__call__ = old
    yield f(X)


def methods_stay(compile: Callable[..., Any]) -> Iterator[Any]:
    cls = fresh()
    f = compile(cls().__call__)
    yield f(X)
    cls.__call__ = lambda self, x: x - 5
    yield f(X)


def partial_of_an_object(compile: Callable[..., Any]) -> Iterator[Any]:
    cls = fresh()
    f = compile(functools.partial(cls(), X))
    yield f()
    cls.__call__ = lambda self, x: x - 5
    yield f()


PROGRAMS = [
    replaced,
    replaced_before_the_first_call,
    deleted,
    earlier_in_the_order,
    other_signature,
    replaced_by_itself,
    in_captured_code,
    compiled_twice,
    compiled_in_the_class,
    module_calls,
    base_of_modules,
    methods_stay,
    partial_of_an_object,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_call_is_looked_up_at_each_call(program: Program) -> None:
    as_eager(program)


@pytest.mark.parametrize("base", [object, dict, torch.nn.Module], ids=lambda base: base.__name__)
def test_an_object_that_is_given_another_class(base: type) -> None:
    def program(compile: Callable[..., Any]) -> Iterator[Any]:
        one = fresh(base)
        other = fresh(one, 5.0)
        made = one()
        f = compile(made)
        for cls in (one, other, one, other):
            made.__class__ = cls
            yield f(X)

    as_eager(program)
    assert counts().captures == 2  # each class has one, and keeps it


def test_a_class_that_changes_elsewhere_recompiles_nothing() -> None:
    cls = fresh()
    f = compiled(cls())
    f(X)
    framelift.reset()
    f(X)
    for value in range(3):
        cls.other = value
        f(X)
    assert counts().captures == 1 and f.successor is None


class Bound:
    """A descriptor with code of its own."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __get__(self, instance: Any, owner: Any) -> Any:
        return lambda *args: self.value


class Held:
    """A callable that is no descriptor."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(self, *args: Any) -> Any:
        return self.value


KINDS: dict[str, Callable[[float], Any]] = {
    "function": lambda value: lambda self, *args: value,
    "object": Held,
    "descriptor": Bound,
    "static": lambda value: staticmethod(lambda *args: value),
    "class": lambda value: classmethod(lambda cls, *args: value),
    "partial": lambda value: functools.partial(lambda held, *args: held, value),
}


def _write(obj: Any) -> float:
    obj.other = 1
    return 0.0


def _delete(obj: Any) -> float:
    del obj.other
    return 0.0


USES: dict[str, Callable[[Any], Any]] = {
    "__call__": lambda obj: obj(1),
    "__getattr__": lambda obj: obj.other,
    "__getattribute__": lambda obj: obj.other,
    "__setattr__": _write,
    "__delattr__": _delete,
}


def _outcomes_of_special(name: str, kind: str, on_meta: bool, compile: Callable[..., Any]) -> list[Any]:
    make, use = KINDS[kind], USES[name]
    cls = type("Meta", (type,), {}) if on_meta else type("Class", (), {})
    obj = cls("Made", (), {}) if on_meta else cls()  # type: ignore[call-arg]
    setattr(cls, name, make(1.0))
    f = compile(lambda x: x + use(obj))
    seen = []
    for step in range(3):
        held = vars(cls)[name]
        if step == 1 and type(held) in (Bound, Held):
            held.value = 2.0
        if step == 2:
            setattr(cls, name, make(3.0))
        try:
            seen.append(f(X).tolist())
        except Exception as error:
            seen.append((type(error), str(error)))
    return seen


@pytest.mark.parametrize("on_meta", [False, True], ids=["class", "metaclass"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", USES)
def test_special_methods_are_bound_by_their_kind(name: str, kind: str, on_meta: bool) -> None:
    framelift.reset()
    want = _outcomes_of_special(name, kind, on_meta, lambda function: function)
    assert _outcomes_of_special(name, kind, on_meta, compiled) == want


@pytest.mark.parametrize("kind", KINDS)
def test_a_root_whose_call_is_of_any_kind(kind: str) -> None:
    def program(compile: Callable[..., Any]) -> Iterator[Any]:
        make = KINDS[kind]
        cls = type("Class", (), {"__call__": make(1.0)})
        f = compile(cls())
        yield f(X)
        held = vars(cls)["__call__"]
        if type(held) in (Bound, Held):
            held.value = 2.0
        yield f(X)
        cls.__call__ = KINDS["function"](5.0)
        yield f(X)
        cls.__call__ = make(3.0)
        yield f(X)

    as_eager(program)


def test_what_verifying_and_explaining_compare_with_is_the_new_one() -> None:
    cls = fresh()
    made = cls()
    verified, plain = compiled(made, verify=True), compiled(made)
    verified(X)
    plain(X)
    cls.__call__ = lambda self, x: x * 7 + 1
    assert verified(X).tolist() == [8.0] * 3
    assert framelift.explain(plain)(X).op_count == 2
