"""Changes that nothing read: they must not compile again.

And the reason of a compile that was needed is the true one.
"""

from __future__ import annotations

import abc
import collections.abc
import copy
import dataclasses
import functools
import gc
import inspect
import io
import pickle
import typing
from collections.abc import Callable
from typing import Any

import pytest
import torch
from support import compiled, counts

import framelift

X = torch.ones(3)


def captures_of(call: Callable[[], Any], change: Callable[[], Any], times: int = 3) -> int:
    """How many captures `times` calls make, with a change before each but the first."""
    framelift.reset()
    before = counts().captures
    call()
    for _ in range(times - 1):
        change()
        call()
    return counts().captures - before


# ---- entries that appear on a class ----------------------------------------------------------------------------------


def _plain() -> Any:
    class Config:
        def __init__(self) -> None:
            self.scale = 2

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

    return Config()


def _data() -> Any:
    @dataclasses.dataclass
    class Config:
        scale: int = 2

    return Config()


def _abstract() -> Any:
    class Base(abc.ABC):
        scale = 2

        @abc.abstractmethod
        def method(self) -> None: ...

    class Config(Base):
        def method(self) -> None: ...

    return Config()


def _slotted() -> Any:
    class Config:
        __slots__ = ("__weakref__", "scale")

        def __init__(self) -> None:
            self.scale = 2

    return Config()


def _listed() -> Any:
    class Config(list):
        scale = 2

    return Config([1])


def _cached() -> Any:
    class Config:
        scale = 2

        @functools.cached_property
        def other(self) -> int:
            return 3

    return Config()


@typing.runtime_checkable
class HasScale(typing.Protocol):
    scale: int


def _reduced(obj: Any) -> None:
    obj.__reduce_ex__(4)  # what pickle asks: leaves __slotnames__ on the class


POKES: dict[str, Callable[[Any], Any]] = {
    "pickled": _reduced,
    "copied": copy.copy,
    "deep copy": copy.deepcopy,
    "annotations": lambda obj: type(obj).__annotations__,
    "documented": lambda obj: setattr(type(obj), "__doc__", "text"),
    "inspected": lambda obj: inspect.signature(type(obj)),
    "a cache under a plain name": lambda obj: setattr(type(obj), "_cache", {}),
    "a record under a special name": lambda obj: setattr(type(obj), "__schema__", {1: 2}),
    "a subclass": lambda obj: type("Sub", (type(obj),), {}),
    "asked for protocols": lambda obj: (isinstance(obj, collections.abc.Mapping), isinstance(obj, HasScale)),
    "another class registered": lambda obj: collections.abc.Sized.register(type("Other", (), {})),
    "abstract methods updated": lambda obj: abc.update_abstractmethods(type(obj)),
    "cached property": lambda obj: getattr(obj, "other", None),
}


def _read(x: torch.Tensor, config: Any) -> torch.Tensor:
    return x * config.scale


def _compared(x: torch.Tensor, config: Any) -> torch.Tensor:
    table = {"it": config}
    return x * table["it"].scale + (config == config) + hasattr(config, "nothing") + isinstance(config, HasScale)


@pytest.mark.parametrize("make", [_plain, _data, _abstract, _slotted, _listed, _cached])
@pytest.mark.parametrize("program", [_read, _compared])
@pytest.mark.parametrize("poke", POKES)
def test_what_appears_on_a_class_and_is_not_read(make: Callable[[], Any], program: Any, poke: str) -> None:
    obj = make()
    function = compiled(program)
    assert captures_of(lambda: function(X, obj), lambda: POKES[poke](obj)) == 1


@pytest.mark.parametrize(
    "name, value", [("__bool__", lambda self: False), ("__len__", lambda self: 0), ("__bool__", 5)]
)
def test_a_special_method_that_appears_is_seen(name: str, value: Any) -> None:
    class Config:
        scale = 2

    def program(x: torch.Tensor, config: Any) -> torch.Tensor:
        return x * 2 if config else x * 3

    function = compiled(program)
    config = Config()
    assert torch.equal(function(X, config), X * 2)
    setattr(Config, name, value)
    try:
        expected = program(X, config)
    except TypeError as error:
        with pytest.raises(TypeError, match=str(error)):
            function(X, config)
    else:
        assert torch.equal(function(X, config), expected)


def test_a_special_method_taken_away_by_none() -> None:
    class Base:
        def __len__(self) -> int:
            return 4

    class Config(Base):
        pass

    def program(x: torch.Tensor, config: Any) -> torch.Tensor:
        return x * (2 if config else 3)

    function, config = compiled(program), Config()
    assert torch.equal(function(X, config), X * 2)
    Config.__bool__ = lambda self: False  # type: ignore[attr-defined]
    assert torch.equal(function(X, config), X * 3)
    Base.__len__ = None  # type: ignore[assignment]
    assert torch.equal(function(X, config), X * 3)
    del Config.__bool__  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        function(X, config)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.settings = Settings()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.settings.scale


class Settings:
    scale = 2


def test_a_model_that_is_saved_copied_and_loaded() -> None:
    for cls in (Model, Settings):
        if "__slotnames__" in vars(cls):
            del cls.__slotnames__  # type: ignore[attr-defined]
    model = Model()
    function = framelift.compile(model, backend="eager")

    def both() -> None:
        function(X)
        with torch.no_grad():
            function(X)

    def keep() -> None:
        torch.save(model, io.BytesIO())
        copy.deepcopy(model)
        pickle.dumps(model.settings)
        model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()})

    assert captures_of(both, keep) == 2
    assert [one.kind for one in function.recompiles()] == ["state"]


# ---- the reason is the true one --------------------------------------------------------------------------------------

FACTOR = 2


def test_of_several_captures_the_closest_gives_the_reason() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x * FACTOR

    global FACTOR
    framelift.reset()
    function = compiled(program, dynamic=False)
    try:
        function(X)
        with torch.no_grad():
            function(X)
        FACTOR = 3
        function(X)
        with torch.no_grad():
            function(X)
        function(torch.ones(4))
        function(torch.ones(4, dtype=torch.float64))
    finally:
        FACTOR = 2
    assert [(one.kind, one.new) for one in function.recompiles()] == [
        ("state", ""),
        ("EQ", "3"),
        ("state", ""),
        ("TENSOR", "size (4,)"),
        ("TENSOR", "dtype torch.float64"),
    ]


def test_a_limit_is_not_evaded_by_a_reason_that_another_capture_gives() -> None:
    def program(x: torch.Tensor, mode: str) -> torch.Tensor:
        return x * len(mode)

    framelift.reset()
    function = compiled(program)
    with torch.no_grad():
        function(X, "other")
    before = counts().captures
    for number in range(12):
        function(X, f"mode {number}")
    assert counts().captures - before == framelift.config.recompile_limit


def test_reasons_of_entries_that_look_further_than_guards() -> None:
    def write(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return b * 2

    function = compiled(write)
    base = torch.ones(4)
    function(torch.ones(2), torch.ones(2))
    function(base[:2], base[:2])
    assert [one.kind for one in function.recompiles()] == ["memory"]


@pytest.mark.usefixtures("plain_guards")
def test_reason_of_a_capture_whose_objects_died() -> None:
    def make() -> Any:
        class Config:
            scale = 2

        return Config()

    framelift.reset()
    function = compiled(_read)
    for _ in range(3):
        function(X, make())
        gc.collect()
    assert [one.kind for one in function.recompiles()] == ["gone", "gone"]


# ---- values that change ----------------------------------------------------------------------------------------------

T12 = torch.arange(12.0)


def _counting(last: int = 12) -> list[torch.Tensor]:
    return [torch.tensor(k) for k in range(1, last)]


def _pairs() -> list[torch.Tensor]:
    return [torch.tensor([k, 12 - k]) for k in range(1, 12)]


def _masks() -> list[torch.Tensor]:
    return [torch.arange(12) < k for k in range(1, 12)]


#: programs of which only the graph needs the values: one graph for all of them
GRAPH_VALUES: dict[str, tuple[Callable[[Any, torch.Tensor], Any], Callable[[], list[torch.Tensor]]]] = {
    "item": (lambda v, t: t * v.item(), _counting),
    "item of a flag": (lambda v, t: t * v.item(), lambda: [torch.tensor(bool(k % 2)) for k in range(10)]),
    "item of a float": (lambda v, t: t * v.item(), lambda: [torch.tensor(k * 1.5) for k in range(10)]),
    "int": (lambda v, t: t + int(v), _counting),
    "float": (lambda v, t: t + float(v), _counting),
    "mask": (lambda v, t: t[v].sum(), _masks),
    "masked_select": (lambda v, t: torch.masked_select(t, v) * 2, _masks),
    "nonzero": (lambda v, t: v.nonzero(), _masks),
    "where": (lambda v, t: torch.where(v)[0] + 1, _masks),
    "edges": (
        lambda v, t: v[:, v[0] != v[1]],
        lambda: [torch.tensor([[0, 1, 2, k % 3], [0, 2, k % 4, 1]]) for k in range(10)],
    ),
    "unique": (lambda v, t: v.unique(), _pairs),
    "repeat_interleave": (lambda v, t: torch.repeat_interleave(t[:2], v), _pairs),
    "split": (lambda v, t: t.split(v.tolist()), _pairs),
    "split, used": (lambda v, t: [part * 2 for part in t.split(v.tolist())], _pairs),
    "sum of a list": (lambda v, t: t * sum(v.tolist()), _pairs),
    "arange": (lambda v, t: torch.arange(v.max().item()), _pairs),
    "zeros": (lambda v, t: torch.zeros(v.item(), 3) + 1, _counting),
    "slice": (lambda v, t: t[: v.item()] * 2, _counting),
    "index": (lambda v, t: t[v.argmax().item()], lambda: [torch.arange(12).roll(k) for k in range(11)]),
    "pad": (lambda v, t: torch.nn.functional.pad(t, (0, v.item())), _counting),
    "check": (lambda v, t: (torch._check(v.item() >= 0), t * v.item())[1], _counting),
}


def _same(a: Any, b: Any) -> bool:
    return a.equal(b) if isinstance(a, torch.Tensor) else len(a) == len(b) and all(map(_same, a, b))


@pytest.mark.parametrize("name", GRAPH_VALUES)
def test_one_graph_for_all_values_with_fullgraph(name: str) -> None:
    program, values = GRAPH_VALUES[name]
    framelift.reset()
    function = compiled(program, fullgraph=True)
    for value in values():
        assert _same(function(value, T12), program(value, T12))
    assert (framelift.stats()["captures"], framelift.stats()["graphs"]) == (1, 1)


@pytest.mark.parametrize("name", GRAPH_VALUES)
def test_values_are_guessed_twice_at_most(name: str) -> None:
    program, values = GRAPH_VALUES[name]
    framelift.reset()
    function = compiled(program)
    for value in values():
        assert _same(function(value, T12), program(value, T12))
    code = program.__code__
    whole = [
        note
        for note in function.miss.record.notes
        if note.line == code.co_firstlineno and note.stop is None and note.resumed is None
    ]
    assert len(whole) <= 2


def test_a_branch_on_a_value_is_not_guessed_under_the_wrong_guard() -> None:
    def item(v: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return t * 2 if v.item() > 3 else t * 3

    def count(v: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return t * 2 if (v > 3).any() else t * 3

    def size(v: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return t * 2 if t[v < t].shape[0] > 3 else t * 3

    for program in (item, count, size):
        for fullgraph in (True, False):
            framelift.reset()
            function = compiled(program, fullgraph=fullgraph)
            for k in (1, 5, 2, 6, 3, 10, 4, 1):
                try:
                    assert function(torch.tensor(k), T12).equal(program(torch.tensor(k), T12))
                except framelift.exc.Unsupported:
                    assert fullgraph and program is size


def test_an_error_of_a_value_is_the_programs_own() -> None:
    def program(v: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return t.split(v.tolist())[0]

    function = compiled(program, fullgraph=True)
    assert function(torch.tensor([2, 10]), T12).equal(T12[:2])
    with pytest.raises(RuntimeError):
        function(torch.tensor([2, 3]), T12)
    assert function(torch.tensor([4, 8]), T12).equal(T12[:4])


# ---- the form of a call ----------------------------------------------------------------------------------------------


class WithTargets(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, idx: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        found = self.linear(idx)
        return found if targets is None else (found - targets).sum()


def test_a_parameter_that_is_not_given_is_named() -> None:
    framelift.reset()
    function = framelift.compile(WithTargets(), backend="eager")
    for _ in range(2):
        function(X, X)
        function(X)
        function(X, targets=X)
        function(idx=X)
    assert framelift.stats()["captures"] == 4
    reported = [(one.origin, one.kind, one.new) for one in function.recompiles()]
    assert reported == [
        ("targets", "CALL", "not given"),
        ("targets", "CALL", "given"),
        ("targets", "CALL", "not given"),
    ]
    assert all(one.reader is not None and one.reader.function == "WithTargets.forward" for one in function.recompiles())
    assert "args" not in str(function.recompiles()[0])


def test_the_form_of_a_call_below_a_decorator() -> None:
    def decorated(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*a: Any, **k: Any) -> Any:
            return function(*a, **k)

        return wrapper

    @decorated
    def program(x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        return x if y is None else x + y

    function = compiled(program)
    function(X, X)
    function(X)
    (one,) = function.recompiles()
    assert (one.origin, one.old, one.new) == ("y", "given", "not given")
