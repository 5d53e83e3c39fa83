"""Texts of errors that C code raised.

The names in them are facts, since a class, a module or a function may be renamed.
"""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch

from support import compiled, counts

X = torch.ones(2)


def _make() -> Any:
    class Base:
        pass

    class Thing(Base):
        __slots__ = ("slot",)

        @property
        def fixed(self) -> int:
            return 1

    class Row(list[Any]):
        pass

    class Tensor(torch.Tensor):
        pass

    module = types.ModuleType("a_module")

    def function(a: int) -> int:
        return a

    return types.SimpleNamespace(
        Base=Base,
        Thing=Thing,
        Row=Row,
        Tensor=Tensor,
        module=module,
        function=function,
        thing=Thing(),
        row=Row(),
        tensor=X.as_subclass(Tensor),
    )


RAISING = {
    "class attribute": "w.Thing.missing",
    "class index": "w.Thing[0]",
    "attribute": "w.thing.missing",
    "made inside": "w.Thing().missing",
    "index": "w.thing[0]",
    "item": "w.thing.__class__()[0]",
    "call": "w.thing()",
    "addition": "w.thing + 1",
    "comparison": "w.thing < w.thing",
    "length": "len(w.thing)",
    "iteration": "iter(w.thing)",
    "unpacking": "[*w.thing]",
    "keywords": "dict(**w.thing)",
    "number": "int(w.thing)",
    "arguments": "w.Thing(1)",
    "by a base": "w.Thing.__mro__[1][0]",
    "by bases": "w.Thing.__bases__[0].missing",
    "slot": "w.thing.slot",
    "property": "setattr(w.thing, 'fixed', 1)",
    "delete": "delattr(w.thing, 'slot')",
    "module": "w.module.missing",
    "function": "w.function()",
    "keyword": "w.function(b=1)",
    "container": "w.row.missing",
    "container called": "w.row()",
    "container added": "w.row + 1",
    "tensor attribute": "w.tensor.missing",
    "tensor called": "w.tensor()",
    "join": "','.join([w.thing])",
    "format": "format(w.thing, 'd')",
    "as index": "[1, 2][w.thing]",
    "with": "w.thing.__enter__",
    "bool context": "w.Thing.__len__",
    "hash": "{w.row: 1}",
    "super": "super(w.Thing, w.thing).missing",
    "object": "object.__getattribute__(w.thing, 'missing')",
    "type": "type.__getattribute__(w.Thing, 'missing')",
    "abstract": "isinstance(1, w.thing)",
    "next": "next(w.thing)",
    "await": "w.thing.__await__()",
}


@pytest.mark.parametrize("how", RAISING)
@pytest.mark.parametrize("seen", ["str(e)", "e.args", "f'{e}'"])
def test_what_an_error_names_may_be_renamed(how: str, seen: str) -> None:
    scope: dict[str, Any] = {}
    exec(
        f"def program(x, w):\n    try:\n        r = {RAISING[how]}\n    except Exception as e:\n"
        f"        r = {seen}\n    return x + 1, r",
        scope,
    )

    w, captured = _make(), compiled(scope["program"])
    for number in range(3):
        assert captured(X, w)[1] == scope["program"](X, w)[1]
        _rename(w, number)


def _rename(w: Any, number: int) -> None:
    for one in (w.Base, w.Thing, w.Row, w.Tensor, w.function):
        one.__name__ = one.__qualname__ = f"{one.__name__}{number}"
    w.module.__name__ = f"module{number}"


def test_names_are_not_guarded_without_an_error() -> None:
    def program(x: Any, w: Any) -> Any:
        try:
            return x + len(w.row)
        except TypeError:
            return x

    w, captured = _make(), compiled(program)
    before = counts().captures
    for number in range(3):
        assert torch.equal(captured(X, w), X)
        _rename(w, number)
    assert counts().captures == before + 1


def test_what_is_met_after_the_first_error_may_be_renamed() -> None:
    """The names are looked through at each handler: a class that came in between two errors is among them."""

    def program(x: Any, w: Any) -> Any:
        texts = []
        for read in (lambda: w.Base().missing, lambda: w.row.missing, lambda: w.thing.missing, lambda: w.function()):
            try:
                read()
            except (AttributeError, TypeError) as error:
                texts.append(str(error))
        return x + 1, texts

    w, captured = _make(), compiled(program)
    for number in range(3):
        assert captured(X, w)[1] == program(X, w)[1]
        _rename(w, number)
