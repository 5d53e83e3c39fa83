"""No code of the program runs because framelift looks, and what runs is shown what plain Python shows it.

Samples of the silence matrix, and its core cases.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift
from matrices.silence import difference
from matrices.silence.kinds import KINDS
from matrices.silence.uses import USES
from support import compiled

#: kinds of which every cell agrees; the others are run by the matrix alone
_SETTLED = (
    "object_getattribute",
    "object_everything",
    "object_class_lie",
    "object_module_getattribute",
    "container_dict",
    "container_list_getattribute",
    "tensor_names",
    "mode_active",
    "like",
)
_SAMPLE = [(kind, use) for kind in KINDS if kind.name in _SETTLED for use in list(USES[kind.family])[::13]]


@pytest.mark.parametrize(("kind", "use"), [pytest.param(kind, use, id=f"{kind.name}-{use}") for kind, use in _SAMPLE])
def test_sample_of_the_matrix(kind: Any, use: str) -> None:
    assert difference(kind, USES[kind.family][use]) is None


SEEN: list[str] = []


class Refusing(torch.Tensor):
    """Knows one operation; whoever asks for anything else is refused."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        SEEN.append(func.__name__)
        if func.__name__ not in ("add", "mul"):
            raise RuntimeError(f"{func.__name__} not supported")
        return super().__torch_function__(func, types, args, kwargs or {})


def test_entries_and_captures_ask_a_subclass_for_nothing() -> None:
    run = compiled(lambda x: x + 1)
    for size in (3, 3, 4, 5, 6):
        SEEN.clear()
        assert type(run(torch.ones(size).as_subclass(Refusing))) is Refusing
        assert SEEN == ["add"]


class RefusesAll(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{func.__name__} not supported")


def test_a_mode_that_refuses_everything_raises_its_own_error() -> None:
    run = compiled(lambda x: x + 1)
    for size in (3, 4, 5, 5):
        run(torch.ones(size))
        with RefusesAll(), pytest.raises(RuntimeError, match="add not supported"):
            run(_given[size])


_given = {size: torch.ones(size) for size in (3, 4, 5)}


class Watched:
    reads = 0

    def __init__(self) -> None:
        self.k = 2

    def __getattribute__(self, name: str) -> Any:
        Watched.reads += 1
        return object.__getattribute__(self, name)


def test_attribute_reads_are_counted_once() -> None:
    run, given = compiled(lambda x, a: x * a.k), Watched()
    for size in (3, 3, 4, 5):
        before = Watched.reads
        run(torch.ones(size), given)
        assert Watched.reads == before + 1


class Shown(torch.overrides.TorchFunctionMode):
    def __init__(self, into: list[Any]) -> None:
        self.into = into

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.into.append((func, types))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "program",
    [
        lambda y: len(y),
        lambda y: y.nelement(),
        lambda y: y.numel(),
        lambda y: y.shape,
        lambda y: y.detach(),
        lambda y: y.sin(),
    ],
)
def test_modes_are_shown_the_functions_that_torch_shows(program: Any) -> None:
    expected: list[Any] = []
    found: list[Any] = []
    given = torch.ones(3)
    with Shown(expected):
        program(given)
    framelift.reset()
    run = compiled(program)
    with Shown(found):
        run(given)
    assert [str(func) for func, _ in found] == [str(func) for func, _ in expected]
    assert [kinds for _, kinds in found] == [kinds for _, kinds in expected]


ASKED: list[str] = []


class Asked(type):
    def __hash__(cls) -> int:
        ASKED.append("__hash__")
        return 5

    def __eq__(cls, other: object) -> bool:
        ASKED.append("__eq__")
        return cls is other


class OfAsked(metaclass=Asked):
    k = 2

    def m(self, x: Any) -> Any:
        return x * 2


@pytest.mark.parametrize(
    "program",
    [
        lambda x, o: x * o.k,
        lambda x, o: x + (1 if hasattr(o, "nothing") else 2),
        lambda x, o: (x + 1, o()),
        lambda x, o: o().m(x),
        lambda x, o: o.m(o(), x),
        lambda x, o: x + len(o.__name__),
        lambda x, o: x + len(o.__mro__),
        lambda x, o: x * o().k,
        lambda x, o: x + {o(): 1}.get(3, 2),
    ],
)
def test_classes_whose_metaclass_hashes_and_compares_are_not_asked_to(program: Any) -> None:
    x = torch.ones(3)
    ASKED.clear()
    program(x, OfAsked)
    expected = list(ASKED)
    run = compiled(program)
    for _ in range(2):
        ASKED.clear()
        run(x, OfAsked)
        assert ASKED == expected


class ReadByTensor(torch.Tensor):
    def __getattribute__(self, name: str) -> Any:
        ASKED.append(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize(
    "program",
    [
        lambda x, o: x + (1 if isinstance(o, (int, dict)) else 2),
        lambda x, o: x + (1 if isinstance(o, torch.Tensor) else 2),
    ],
)
def test_isinstance_reads_the_class_of_a_tensor_that_sees_it(program: Any) -> None:
    x, given = torch.ones(3), torch.ones(3).as_subclass(ReadByTensor)
    ASKED.clear()
    program(x, given)
    expected = list(ASKED)
    run = compiled(program)
    for _ in range(2):
        ASKED.clear()
        run(x, given)
        assert ASKED == expected


@pytest.mark.parametrize(
    "use",
    [
        "return x + 1, o()",
        "o.n = 5\ndel o.n\nreturn x + 1",
        "return x[o]",
        "return x + 1, copy.copy(o)",
        "return x + getattr(o, 'nothing', 3)",
    ],
)
def test_a_metaclass_that_answers_reads_is_asked_as_in_eager(use: str) -> None:
    """Also where a capture breaks, and where an entry makes an instance."""
    for name in ("class_reads", "instance_of_class_reads"):
        kind = next(one for one in KINDS if one.name == name)
        assert difference(kind, use) is None
