"""Models of attrs and pydantic: read, changed outside and inside, made inside, copied.

Neither library is named in framelift.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

from support import World, check

attrs = pytest.importorskip("attrs")
pydantic = pytest.importorskip("pydantic")


@attrs.define
class Tight:
    n: int
    items: list = attrs.field(factory=list)

    def total(self) -> int:
        return self.n + len(self.items)


@attrs.frozen
class Frozen:
    n: int
    held: Any = None


@attrs.define(slots=False, order=True)
class Checked:
    n: int = attrs.field(validator=attrs.validators.instance_of(int), default=3)
    scale: float = attrs.field(converter=float, default=1)


class Inner(pydantic.BaseModel):
    n: int
    name: str = "p"
    items: list[int] = []


class Outer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    held: torch.Tensor
    inner: Inner

    @property
    def twice(self) -> int:
        return self.inner.n * 2


class Fixed(pydantic.BaseModel, frozen=True):
    n: int = 3
    _hidden: int = pydantic.PrivateAttr(default=7)

    @pydantic.computed_field
    @property
    def square(self) -> int:
        return self.n**2


def grow(number: int, world: World) -> None:
    """Another number and one item more, past what the class may forbid."""
    m = world.args[1]
    object.__setattr__(m, "n", m.n + number)
    if hasattr(m, "items"):
        m.items.append(number)


def write(x: torch.Tensor, m: Any) -> Any:
    m.n += 1
    m.items.append(m.n)
    return x * m.n


def refused(x: torch.Tensor, m: Any) -> Any:
    try:
        m.n = 4
    except Exception as error:  # noqa: BLE001  whichever error the library chose
        return x, type(error).__name__
    return x


ATTRS: dict[str, tuple[Callable[..., Any], Callable[[], Any]]] = {
    "read": (lambda x, m: x * m.n + len(m.items), lambda: Tight(2, [1])),
    "method": (lambda x, m: x * m.total(), lambda: Tight(2, [1])),
    "written": (write, lambda: Tight(2, [1])),
    "made inside": (lambda x, m: (x + 1, Tight(m.n, [x])), lambda: Tight(2)),
    "evolved": (lambda x, m: x * attrs.evolve(m, n=m.n + 5).n, lambda: Tight(2)),
    "as a dictionary": (
        lambda x, m: (x + 1, attrs.asdict(m), attrs.astuple(m), len(attrs.fields(type(m)))),
        lambda: Tight(2, [4]),
    ),
    "compared and shown": (lambda x, m: (x + 1, m == Tight(3, [1, 1]), repr(m)), lambda: Tight(2, [1])),
    "copied": (lambda x, m: (x + 1, copy.copy(m), copy.deepcopy(m)), lambda: Tight(2, [1])),
    "frozen": (lambda x, m: (x * m.n, Frozen(m.n, x).held, {m: 1}.get(Frozen(3))), lambda: Frozen(3)),
    "frozen, written": (refused, lambda: Frozen(3)),
    "converted and checked": (lambda x, m: x * Checked(m.n, scale=m.n).scale, Checked),
    "ordered": (lambda x, m: (x + 1, m < Checked(4), max(m, Checked(4)).n), Checked),
}
PYDANTIC: dict[str, tuple[Callable[..., Any], Callable[[], Any]]] = {
    "read": (lambda x, m: (x * m.n, m.name, len(m.items)), lambda: Inner(n=4)),
    "written": (write, lambda: Inner(n=4)),
    "shown": (lambda x, m: (x + 1, repr(m), isinstance(m, pydantic.BaseModel)), lambda: Inner(n=4)),
    "copied": (lambda x, m: (x + 1, copy.copy(m), m.model_copy(update={"n": 5})), lambda: Inner(n=4)),
    "its fields": (lambda x, m: (x + 1, m.model_fields_set, list(type(m).model_fields)), lambda: Inner(n=4)),
    "private and computed": (lambda x, m: x * m._hidden + m.square, lambda: Fixed(n=5)),
}


@pytest.mark.parametrize("name", ATTRS)
def test_attrs(name: str) -> None:
    fn, make = ATTRS[name]
    check(fn, torch.ones(2), make(), calls=4, mutate=grow, graphs=None)


@pytest.mark.parametrize("name", PYDANTIC)
def test_pydantic(name: str) -> None:
    fn, make = PYDANTIC[name]
    check(fn, torch.ones(2), make(), calls=4, mutate=grow, graphs=None)


def test_pydantic_nested() -> None:
    def change(number: int, world: World) -> None:
        world.args[1].inner.n += number
        world.args[1].held = torch.full((2,), float(number))

    check(
        lambda x, m: (x * m.held.sum() + m.twice, m.inner),
        torch.ones(2),
        Outer(held=torch.ones(2), inner=Inner(n=2)),
        calls=4,
        mutate=change,
        graphs=None,
    )


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, m: (x * Inner(n=m.n).n, Inner(n="3")),
        lambda x, m: x + Inner(n="no").n,
        lambda x, m: (x + 1, m.model_dump(), m.model_dump_json()),
        refused,
    ],
    ids=["made inside", "refused", "written out", "frozen"],
)
def test_pydantic_core_breaks(fn: Callable[..., Any]) -> None:
    """Validation is pydantic_core's, whose code nobody watches: plain Python, and right."""
    check(
        fn,
        torch.ones(2),
        Fixed(n=5) if fn is refused else Inner(n=4),
        calls=3,
        mutate=grow,
        graphs=None,
        breaks=None,
        fullgraph=False,
    )
