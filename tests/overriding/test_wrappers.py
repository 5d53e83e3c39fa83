"""Wrapper subclasses.

Tensors that hold others and dispatch below the torch API, as inputs, results, parameters, and made inside.
"""

from __future__ import annotations

import dataclasses
import enum
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils.checkpoint import checkpoint

import framelift
from framelift.exc import Unsupported

SHIFT = 2.0


class Pair(torch.Tensor):
    """Two tensors, each of which gets every operation."""

    @staticmethod
    def __new__(cls: type, a: torch.Tensor, b: torch.Tensor, note: Any = 0) -> Any:
        return torch.Tensor._make_wrapper_subclass(
            cls,
            a.shape,
            strides=a.stride(),
            storage_offset=a.storage_offset(),
            device=a.device,
            layout=a.layout,
            requires_grad=a.requires_grad,
            dtype=a.dtype,
        )

    def __init__(self, a: torch.Tensor, b: torch.Tensor, note: Any = 0) -> None:
        self.a, self.b, self.note = a, b, note

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["a", "b"], {"note": self.note}

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, torch.Tensor], context: Any, _size: Any, _stride: Any) -> Any:
        return Pair(inner["a"], inner["b"], context["note"])

    def __repr__(self) -> str:
        return f"Pair of {tuple(self.shape)}"

    def doubled(self) -> Any:
        return self + self

    @property
    def twice_the_note(self) -> Any:
        return self.note * 2

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any, kwargs: Any = None) -> Any:
        note = next(x.note for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Pair))
        results = [
            func(
                *pytree.tree_map_only(Pair, lambda x: getattr(x, side), args),
                **pytree.tree_map_only(Pair, lambda x: getattr(x, side), kwargs or {}),
            )
            for side in "ab"
        ]
        if func is torch.ops.aten.mul.Tensor:
            results = [one + SHIFT * note for one in results]
        made = pytree.tree_map(lambda a, b: Pair(a, b, note) if isinstance(a, torch.Tensor) else a, *results)
        return return_and_correct_aliasing(func, args, kwargs, made)


class Unsaid(Pair):
    """Its context holds an object."""

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["a", "b"], object()


class Silent(torch.Tensor):
    """Dispatches, and does not say what it holds."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any, kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def pair(*shape: int, note: Any = 0, seed: int = 0, grad: bool = False) -> Any:
    made = torch.Generator().manual_seed(seed)
    return Pair(torch.randn(shape, generator=made), torch.randn(shape, generator=made), note).requires_grad_(grad)


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b), (type(a), type(b))
    if isinstance(a, Pair):
        same((a.a, a.b, a.note, a.requires_grad, a.is_leaf), (b.a, b.b, b.note, b.requires_grad, b.is_leaf))
    elif isinstance(a, torch.Tensor):
        torch.testing.assert_close(a, b)
    elif isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for one, other in zip(a, b):
            same(one, other)
    else:
        assert a == b


def both(fn: Callable[..., Any], *calls: tuple[Any, ...], captures: int = 1, backend: str = "aot_eager") -> Any:
    framelift.reset()
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for args in calls:
        same(compiled(*args), fn(*args))
    assert framelift.stats()["captures"] == captures, framelift.stats()["recompiles"]
    return compiled


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_operations_and_attributes(backend: str) -> None:
    def fn(x: Any, y: torch.Tensor) -> Any:
        z = (x @ y).sin()
        return (
            z,
            z.a + 1,
            z.note,
            z.shape,
            isinstance(z, Pair),
            x.a * 2,
            x.note,
            x.doubled(),
            x.twice_the_note,
            z.T.reshape(-1),
        )

    both(fn, (pair(2, 3), torch.ones(3, 2)), (pair(2, 3, seed=1), torch.ones(3, 2)), backend=backend)


def test_the_context_is_guarded() -> None:
    both(lambda x: x * x, (pair(2, note=1),), (pair(2, note=1, seed=1),), (pair(2, note=3),), captures=2)


def test_constants_named_by_the_dispatch_are_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = both(lambda x: x * x, (pair(2, note=1),))
    monkeypatch.setitem(globals(), "SHIFT", 5.0)
    same(compiled(pair(2, note=1)), pair(2, note=1) * pair(2, note=1))


def test_inner_tensors_are_guarded() -> None:
    strided = Pair(torch.randn(3, 2).t(), torch.randn(2, 3))
    both(lambda x: x + 1, (pair(2, 3),), (strided,), (Pair(torch.randn(2, 3), torch.randn(2, 3).double()),), captures=3)


def test_wrappers_of_wrappers() -> None:
    both(lambda x: ((x + 1).a.b, x.cos()), (Pair(pair(2), pair(2, seed=1)),))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_made_inside(backend: str) -> None:
    both(
        lambda x, y: (Pair(x * 2, y, note=4), (Pair(x, y) * y).sin().b, Pair(x, y).note),
        (torch.randn(2), torch.randn(2)),
        backend=backend,
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients(backend: str) -> None:
    def fn(weight: Any, x: torch.Tensor) -> torch.Tensor:
        return (x @ weight).relu().sum()

    weight, x = torch.nn.Parameter(pair(3, 3)), torch.ones(2, 3)
    framelift.reset()
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for call in (fn, compiled):
        weight.grad = None
        call(weight, x).backward(Pair(torch.tensor(1.0), torch.tensor(2.0)))
        if call is fn:
            want = weight.grad
    same(weight.grad, want)


def test_what_is_not_said_is_not_captured() -> None:
    framelift.reset()
    for odd in (Unsaid(torch.ones(2), torch.ones(2)), torch.ones(2).as_subclass(Silent)):
        compiled = framelift.compile(lambda x: x + 1, backend="eager", fullgraph=True)
        with pytest.raises(Unsupported, match="tensor-subclass"):
            compiled(odd)
        assert framelift.compile(lambda x: (x, 1), backend="eager", fullgraph=True)(odd)[0] is odd


def test_attributes_that_make_the_tensor_are_not_assigned() -> None:
    def fn(x: Any) -> Any:
        x.a = torch.ones(2)
        return x + 1

    framelift.reset()
    same(framelift.compile(fn, backend="eager")(pair(2)), fn(pair(2)))
    assert not framelift.stats()["graphs"] or sum(framelift.stats()["breaks"].values())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes_that_change(backend: str) -> None:
    def fn(x: Any) -> Any:
        return x.sin().reshape(-1), x.shape[0], x.sum(0) * x.shape[0], x.a.reshape(-1)

    both(fn, *((pair(*shape),) for shape in ((2, 3), (4, 3), (3, 5), (6, 7))), captures=3, backend=backend)


def jagged(*lengths: int, grad: bool = False, seed: int = 0) -> Any:
    made = torch.Generator().manual_seed(seed)
    return torch.nested.nested_tensor(
        [torch.randn(n, 3, generator=made) for n in lengths], layout=torch.jagged, requires_grad=grad
    )


def alike(a: Any, b: Any) -> None:
    if isinstance(a, torch.Tensor) and a.is_nested:
        assert b.is_nested and a.requires_grad == b.requires_grad
        torch.testing.assert_close((a.values(), a.offsets()), (b.values(), b.offsets()))
    else:
        torch.testing.assert_close(a, b)


_LINEAR = torch.nn.Linear(3, 3)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: _LINEAR(x).relu() * 2,
        lambda x: x + (x * 2).sin(),
        lambda x: torch.nested.to_padded_tensor(torch.nn.functional.layer_norm(x, (3,)), 0.0),
        lambda x: x.reshape(x.shape[0], x.shape[1], 1, 3),
        lambda x: x.sum(dim=1) + x.size(0) + x.is_nested + (x.layout is torch.jagged),
        lambda x: torch.nested.nested_tensor_from_jagged(x.values() * 2, x.offsets()).softmax(-1),
        lambda x: torch.nested.nested_tensor([x.values()[:2], x.values()[2:]], layout=torch.jagged) * 2,
    ],
)
def test_jagged_tensors(fn: Any) -> None:
    framelift.reset()
    compiled = framelift.compile(fn, backend="aot_eager", fullgraph=True)
    for x in (jagged(2, 4), jagged(3, 3, seed=1), jagged(5, 7, seed=2), jagged(2, 9, 3, seed=3)):
        alike(compiled(x), fn(x))
    assert framelift.stats()["captures"] <= 4


def test_examples_of_wrappers_are_wrappers() -> None:
    def program(x: Any) -> Any:
        return x.sin() * 2

    def backend(module: Any, examples: Any) -> Any:
        for node in module.graph.find_nodes(op="call_method"):
            assert type(node.meta["example_value"]) is type(examples[-1])
        return module.forward

    for x in (jagged(2, 4), pair(3)):
        framelift.reset()
        (alike if x.is_nested else same)(framelift.compile(program, backend=backend)(x), program(x))


def test_rows_of_jagged_tensors_under_dynamic() -> None:
    framelift.reset()
    compiled = framelift.compile(lambda x: x.sin(), backend="eager", fullgraph=True, dynamic=True)
    for x in (jagged(2, 4), jagged(3, 6), jagged(5, 2)):
        alike(compiled(x), x.sin())
    assert framelift.stats()["captures"] == 1


def test_jagged_tensors_of_the_same_rows() -> None:
    def fn(x: Any, y: Any) -> Any:
        return (x + y).values().sum() if x.shape == y.shape else x.values().sum()

    framelift.reset()
    compiled = framelift.compile(fn, backend="aot_eager", fullgraph=True)
    x = jagged(2, 4)
    for y in (x * 2, jagged(2, 4), x * 3):
        alike(compiled(x, y), fn(x, y))


def test_gradients_of_jagged_tensors() -> None:
    def fn(x: Any) -> torch.Tensor:
        return (_LINEAR(x) * x).sum()

    framelift.reset()
    compiled = framelift.compile(fn, backend="aot_eager", fullgraph=True)
    x = jagged(2, 4, grad=True)
    alike(torch.autograd.grad(compiled(x), x)[0], torch.autograd.grad(fn(x), x)[0])


def test_the_size_along_rows_is_no_result() -> None:
    framelift.reset()
    x = jagged(2, 4)
    assert framelift.compile(lambda x: (x * 2).shape, backend="aot_eager")(x) == x.shape
    assert sum(framelift.stats()["breaks"].values()) == 1


@dataclasses.dataclass
class Note:
    """A record as context."""

    kind: Side
    factor: float = 1.0

    def __mul__(self, other: float) -> float:
        return self.factor * other

    __rmul__ = __mul__


class Side(enum.Enum):
    LEFT = 1
    RIGHT = 2


def test_contexts_of_records() -> None:
    note = Note(Side.LEFT)
    compiled = both(
        lambda x: x * x,
        (pair(2, note=note),),
        (pair(2, note=Note(Side.LEFT)),),
        (pair(2, note=Note(Side.RIGHT)),),
        captures=2,
    )
    note.factor = 3.0  # what was captured does not follow the object
    same(compiled(pair(2, note=note)), pair(2, note=note) * pair(2, note=note))


def test_layouts_of_products_are_known_with_symbolic_sizes() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.transpose(1, 2) @ x
        return y + 1 if y.is_contiguous() else y - 1

    framelift.reset()
    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for n in (3, 4, 5):
        torch.testing.assert_close(compiled(torch.ones(2, n, 4)), fn(torch.ones(2, n, 4)))
    assert framelift.stats()["captures"] == 2


def _in_place(x: Any) -> Any:
    x.mul_(2)
    return x.sin()


def _on_a_result(x: Any) -> Any:
    y = x.sin()
    y.sin_()
    return y.cos()


def _through_a_view(x: Any) -> Any:
    x[0].add_(1)
    return x * 2


def _a_step(x: Any) -> Any:
    with torch.no_grad():
        x.add_(x.detach(), alpha=-0.1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [_in_place, _on_a_result, _through_a_view, _a_step])
def test_changes_in_place(fn: Any, backend: str) -> None:
    framelift.reset()
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for i in range(2):
        grad = fn is _a_step
        x, y = pair(2, 3, seed=i, grad=grad), pair(2, 3, seed=i, grad=grad)
        same(compiled(x), fn(y))
        same(x, y)
    assert framelift.stats()["captures"] == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_inner_tensors_that_are_written_otherwise(backend: str) -> None:
    def fn(x: Any, y: torch.Tensor) -> Any:
        y.add_(1)
        return x * 2

    def inner(x: Any, y: torch.Tensor) -> Any:
        x.add_(1)
        return x.a * 2 + y

    for one in (fn, inner):
        framelift.reset()
        compiled = framelift.compile(one, backend=backend)
        for shared in (False, True, False):
            calls = []
            for call in (compiled, one):
                y = torch.ones(2)
                calls.append((call(Pair(y if shared else torch.ones(2), torch.zeros(2)), y), y))
            same(*calls)


@pytest.fixture
def mesh() -> Any:
    """Two processes of which only this one exists."""
    dist = pytest.importorskip("torch.distributed")
    store = pytest.importorskip("torch.testing._internal.distributed.fake_pg").FakeStore()
    if not dist.is_available() or dist.is_initialized():
        pytest.skip("needs torch.distributed for itself")
    from torch.distributed.tensor import init_device_mesh

    dist.init_process_group("fake", rank=0, world_size=2, store=store)
    try:
        yield init_device_mesh("cpu", (2,))
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_distributed_tensors(mesh: Any, backend: str) -> None:
    from torch.distributed.tensor import DTensor, Replicate, Shard

    x = DTensor.from_local(torch.ones(2, 3), mesh, [Shard(0)], run_check=False)
    weight = DTensor.from_local(torch.ones(3, 5), mesh, [Replicate()], run_check=False)
    other = DTensor.from_local(torch.ones(2, 3), mesh, [Replicate()], run_check=False)

    def fn(x: Any, weight: Any) -> Any:
        y = (x @ weight).relu() * 2
        return y * len(x.placements)

    def taken_apart(
        x: Any, weight: Any
    ) -> Any:  # what a result holds beside tensors is not known before the graph runs
        y = fn(x, weight)
        return y, y.to_local() + len(x.placements)

    for program, whole in ((fn, True), (taken_apart, False)):
        framelift.reset()
        compiled = framelift.compile(program, backend=backend, fullgraph=whole)
        for one in (x, other, x):
            got, want = compiled(one, weight), program(one, weight)
            if not whole:
                torch.testing.assert_close(got[1], want[1])
                got, want = got[0], want[0]
            assert (
                type(got) is DTensor
                and got.placements == want.placements
                and got.device_mesh == want.device_mesh
                and got.shape == want.shape
            )
            torch.testing.assert_close(got.to_local(), want.to_local())
        if whole:
            assert framelift.stats()["captures"] == framelift.stats()["graphs"] == 2


def _offset() -> float:
    return OFFSET


OFFSET = 1.0


class Tuned(Pair):
    """Its operations depend on an attribute of the class, and on what a helper reads."""

    factor = 2

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, torch.Tensor], context: Any, _size: Any, _stride: Any) -> Any:
        return Tuned(inner["a"], inner["b"], context["note"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any, kwargs: Any = None) -> Any:
        args = pytree.tree_map_only(Tuned, lambda x: x.a, args)
        made = func(*args, **(kwargs or {})) * cls.factor + _offset()
        return Tuned(made, made)


def test_what_the_dispatch_names_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    framelift.reset()
    compiled = framelift.compile(lambda x: x.sin(), backend="aot_eager", fullgraph=True)

    def agree() -> None:
        x = Tuned(torch.ones(2), torch.ones(2))
        same((compiled(x).a, compiled(x).a), (x.sin().a, x.sin().a))

    agree()
    monkeypatch.setattr(Tuned, "factor", 3)
    agree()
    monkeypatch.setitem(globals(), "OFFSET", 5.0)
    agree()


def test_the_same_tensor_changed_between_calls() -> None:
    x = pair(2, note=1)
    framelift.reset()
    compiled = framelift.compile(lambda x: x * 2, backend="aot_eager", fullgraph=True)

    def agree() -> None:
        for _ in range(3):
            same(compiled(x), x * 2)

    agree()
    x.note = 3
    agree()
    x.b = torch.ones(2, dtype=torch.float64)
    agree()
    x.b = torch.zeros(2)
    x.requires_grad_()
    agree()
    assert framelift.stats()["captures"] == 4


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_through_a_checkpoint(backend: str) -> None:
    def fn(x: Any) -> Any:
        y = checkpoint(lambda t: t.sin() * 2, x, use_reentrant=False)
        return y + x, y.sum()

    def inner(x: Any) -> Any:
        y = checkpoint(lambda t: t.sin() * 2, x, use_reentrant=False)
        return y.a + 1

    both(fn, (pair(2, 3, grad=True),), (pair(2, 3, seed=1, grad=True),), backend=backend)
    framelift.reset()
    same(framelift.compile(inner, backend=backend)(pair(2)), inner(pair(2)))
    x = jagged(2, 4, grad=True)
    framelift.reset()
    alike(framelift.compile(fn, backend=backend, fullgraph=True)(x)[0], fn(x)[0])


def test_random_numbers_are_drawn_once_where_the_data_is_wrong() -> None:
    def fn(x: Any, index: torch.Tensor) -> Any:
        return torch.nn.functional.dropout(x, 0.5).index_select(0, index)

    framelift.reset()
    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for index in (torch.tensor([0]), torch.tensor([7])):
        found = []
        for call in (fn, compiled):
            torch.manual_seed(0)
            try:
                found.append(call(pair(2, 3), index))
            except IndexError:
                found.append("wrong")
            found.append(torch.rand(1))
        same(found[:2], found[2:])


# ---- what the dispatch reads of objects ------------------------------------------------------------------------------


class _Config:
    def __init__(self) -> None:
        self.scale, self.calls = 2.0, 0

    def times(self, x: Any) -> Any:
        return x * self.scale


CONFIG, FACTORS, TABLE, SEEN = _Config(), [1.0, 3.0], {"bias": 1.0, "how": torch.sin}, []


def _made_by(shift: list[float], counter: Any) -> type:
    class Read(Pair):
        """Its operations depend on objects."""

        known = {"deep": {"er": 1.0}}

        @staticmethod
        def __tensor_unflatten__(inner: dict[str, torch.Tensor], context: Any, _size: Any, _stride: Any) -> Any:
            return Read(inner["a"], inner["b"], context["note"])

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any, kwargs: Any = None) -> Any:
            nonlocal counter
            counter += 1
            CONFIG.calls += 1
            SEEN.append(func)
            args = pytree.tree_map_only(Read, lambda x: x.a, args)
            made = (
                CONFIG.times(func(*args, **(kwargs or {}))) * FACTORS[1]
                + TABLE["bias"]
                + shift[0]
                + cls.known["deep"]["er"]
            )
            return Read(TABLE["how"](made), made)

        @staticmethod
        def count() -> int:
            return counter

    return Read


def _change(owner: Any, key: Any, value: Any) -> Callable[[], None]:
    return lambda: operator.setitem(owner, key, value)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_objects_that_the_dispatch_reads_are_guarded(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    framelift.reset()
    shift = [0.5]
    kind = _made_by(shift, 0)
    compiled = framelift.compile(lambda x: x.sin(), backend=backend, fullgraph=True)
    x = kind(torch.ones(2), torch.ones(2))
    changes = [
        lambda: None,
        lambda: None,
        lambda: setattr(CONFIG, "scale", CONFIG.scale + 1),
        _change(FACTORS, 1, 7.0),
        _change(TABLE, "bias", 4.0),
        _change(TABLE, "how", torch.cos),
        _change(shift, 0, 9.0),
        _change(kind.known["deep"], "er", 3.0),
    ]
    monkeypatch.setattr(CONFIG, "scale", 2.0)
    monkeypatch.setitem(TABLE, "bias", 1.0)
    monkeypatch.setitem(TABLE, "how", torch.sin)
    FACTORS[1] = 3.0
    for change in changes:
        change()
        same(compiled(x).a, x.sin().a)
    assert framelift.stats()["captures"] == len(changes) - 1


def test_what_the_dispatch_counts_is_put_back_after_a_rehearsal() -> None:
    framelift.reset()
    kind = _made_by([0.5], 0)
    x = kind(torch.ones(2), torch.ones(2))
    SEEN.clear()
    CONFIG.calls = 0
    compiled = framelift.compile(lambda x: x.sin(), backend="eager", fullgraph=True)
    for i in range(1, 4):
        compiled(x)
        assert (len(SEEN), CONFIG.calls, kind.count()) == (i, i, i)
    assert framelift.stats()["captures"] == 1


def test_what_captured_code_changes_before_the_dispatch_reads_it() -> None:
    framelift.reset()
    shift = [0.5]
    kind = _made_by(shift, 0)

    def f(x: Any, value: float) -> Any:
        shift[0] = value
        return x.sin()

    compiled = framelift.compile(f, backend="aot_eager")
    x = kind(torch.ones(2), torch.ones(2))
    for value in (1.0, 2.0, 2.0, 3.0):
        same(compiled(x, value).a, f(x, value).a)


def test_wrappers_of_sizes_nought_and_one() -> None:
    framelift.reset()
    compiled = framelift.compile(lambda p: p * 2 + 1, backend="eager")
    for rows in (4, 5, 1, 0, 7, 1):
        pair = Pair(torch.ones(rows, 2), torch.full((rows, 2), 3.0))
        got = compiled(pair)
        assert type(got) is Pair and torch.equal(got.a, pair.a * 2 + 1) and torch.equal(got.b, pair.b * 2 + 1)
    assert framelift.stats()["graphs"] == framelift.stats()["captures"] <= 4


def test_a_class_allowed_in_graphs() -> None:
    class Boxed(Pair):
        pass

    framelift.allow_in_graph(Boxed)

    def program(x: torch.Tensor) -> Any:
        made = Boxed(x + 1, x)
        return made.a * 2, made.b

    x = torch.arange(3.0)
    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    for found, expected in zip(compiled(x), program(x)):
        assert torch.equal(found, expected)
