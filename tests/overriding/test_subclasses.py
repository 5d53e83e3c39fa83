"""Tensor subclasses with __torch_function__, captured through their Python."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift
from support import check


class Plain(torch.Tensor):
    """Overrides nothing: results are of the class all the same."""


class Unit(torch.Tensor):
    """Carries a unit, and refuses to add what differs."""

    LOG: list[str] = []

    @staticmethod
    def __new__(cls: type, data: torch.Tensor, unit: str = "m") -> Unit:
        made = torch.Tensor._make_subclass(cls, data)
        made.unit = unit
        return made

    @property
    def label(self) -> str:
        return f"{self.unit}/{self.dim()}"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.add:
            units = {a.unit for a in args if isinstance(a, Unit)}
            if len(units) > 1:
                raise ValueError(f"cannot add {sorted(units)}")
            out = super().__torch_function__(func, types, args, kwargs)
            out.unit = units.pop()
            return out
        if func is torch.nn.functional.relu:
            return torch.zeros(2)
        return super().__torch_function__(func, types, args, kwargs)


def both(fn: Any, *args: Any, backend: str = "eager") -> tuple[Any, Any]:
    framelift.reset()
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    want, got = fn(*args), compiled(*args)
    compiled(*args)
    assert framelift.stats()["graphs"] == 1
    flat = lambda out: out if isinstance(out, tuple) else (out,)  # noqa: E731
    for a, b in zip(flat(want), flat(got)):
        assert type(a) is type(b)
        if isinstance(a, torch.Tensor):
            torch.testing.assert_close(a.as_subclass(torch.Tensor), b.as_subclass(torch.Tensor))
            assert a.__dict__ == b.__dict__
        else:
            assert a == b
    return want, got


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_results_are_of_the_class(backend: str) -> None:
    x = torch.ones(2).as_subclass(Plain)
    both(
        lambda x: (x + 1, x.sin().sum(), x.shape, torch.ones(2) * 2, torch.stack([x, torch.ones(2)])),
        x,
        backend=backend,
    )


def test_overrides_are_captured() -> None:
    x, y = Unit(torch.ones(2), "kg"), Unit(torch.ones(2), "kg")
    both(lambda x, y: (torch.add(x, y), torch.nn.functional.relu(x), x.label, torch.add(x, 1).unit), x, y)


def test_what_an_override_reads_is_guarded() -> None:
    framelift.reset()
    compiled = framelift.compile(lambda x, y: torch.add(x, y), backend="eager")
    assert compiled(Unit(torch.ones(2), "m"), Unit(torch.ones(2), "m")).unit == "m"
    assert compiled(Unit(torch.ones(2), "s"), Unit(torch.ones(2), "s")).unit == "s"
    with pytest.raises(ValueError, match="cannot add"):
        compiled(Unit(torch.ones(2), "m"), Unit(torch.ones(2), "s"))


class Marked(Plain):
    """Torch's own `__new__`, and an `__init__`."""

    def __init__(self, data: Any, mark: int = 3) -> None:
        self.mark = mark


class Super(torch.Tensor):
    def __new__(cls: type, data: Any, mark: int = 3) -> Any:
        made = super().__new__(cls, data)
        made.mark = mark
        return made


def test_made_inside() -> None:
    both(lambda x: (Plain(x * 2), Marked(x), Marked(x + 1).mark, Super(x, mark=2), Super(x) + 1), torch.ones(2))
    both(lambda x: (Unit(x * 2, "cd"), Unit(x, "mol").as_subclass(torch.Tensor) + 1), torch.ones(2))


def test_gradients_flow() -> None:
    rows = []
    for run in (
        lambda x: (x * 3).sin(),
        framelift.compile(lambda x: (x * 3).sin(), backend="aot_eager", fullgraph=True),
    ):
        leaf = torch.ones(2, requires_grad=True)
        run(leaf.as_subclass(Plain)).sum().backward()
        rows.append(leaf.grad)
    torch.testing.assert_close(rows[1], rows[0])


def test_switched_off() -> None:
    def fn(x: torch.Tensor) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            y = x + 1
        return y, x + 1

    both(fn, torch.ones(2).as_subclass(Plain))
    with torch._C.DisableTorchFunctionSubclass():
        both(lambda x: x + 1, torch.ones(2).as_subclass(Plain))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, named: torch.Tensor.__torch_function__(torch.Tensor.sum, (), (x, -1), named),
        lambda x, named: torch._C._disabled_torch_function_impl(torch.Tensor.sum, (), (x, -1), named),
        lambda x, named: torch.Tensor.sum(x, -1, **named),
        lambda x, named: x.as_subclass(KeepsKeywords).sum(-1, **named),
    ],
)
def test_keywords_in_a_table_that_the_program_was_given(call: Any) -> None:
    framelift.reset()
    run = framelift.compile(call, backend="eager")
    for named in ({"keepdim": True}, {"keepdim": False}, {"keepdim": True, "dtype": torch.float64}, {}):
        want, got = call(torch.ones(2, 3), named), run(torch.ones(2, 3), named)
        assert (type(got), got.shape, got.dtype, got.tolist()) == (type(want), want.shape, want.dtype, want.tolist())


class KeepsKeywords(torch.Tensor):
    """Hands keywords on as it is given them."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs)


def test_keywords_of_an_override_that_is_a_root_of_its_own() -> None:
    framelift.reset()

    def program(x: torch.Tensor) -> torch.Tensor:
        list({}.__class__.__subclasses__())  # not captured, so the frame goes on eagerly behind it
        return x.sum(-1, keepdim=True)

    x = torch.ones(2, 3).as_subclass(KeepsKeywords)
    override = framelift.compile(KeepsKeywords.__torch_function__, backend="eager")
    assert override(torch.Tensor.sum, (KeepsKeywords,), (x, -1), {"keepdim": True}).shape == (2, 1)
    assert framelift.compile(program, backend="eager")(x).shape == (2, 1)


class _Named(torch.Tensor):
    pass


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("cls", [torch.Tensor, _Named], ids=["plain", "subclass"])
@pytest.mark.parametrize("kind", [torch.Tensor, _Named], ids=["of plain", "of subclass"])
@pytest.mark.parametrize(
    "make",
    [lambda t, cls: t.as_subclass(cls), lambda t, cls: torch.Tensor._make_subclass(cls, t)],
    ids=["as_subclass", "_make_subclass"],
)
def test_a_retyped_tensor_is_another_object(make, kind, cls, backend) -> None:
    """Of an input, of a result, and of one that was retyped before; also where the class stays the same."""

    def f(x):
        made = torch.sin(x)
        once, of_input = make(made, cls), make(x, cls)
        again = make(once, cls)
        return x, made, once, of_input, again, make(made, torch.Tensor), made is once

    given = torch.ones(2).as_subclass(kind)
    wanted, found = f(given), framelift.compile(f, backend=backend)(given)
    assert [[a is b for b in wanted] for a in wanted] == [[a is b for b in found] for a in found]
    assert [type(part) for part in wanted] == [type(part) for part in found]


class Turned(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_turned_on_inside_reach_subclasses(backend: str) -> None:
    def f(x):
        with torch.no_grad():
            framelift.graph_break()
        return torch.cos(x)

    compiled = framelift.compile(f, backend=backend)
    plain = torch.rand(2, 3).as_subclass(Turned)
    for x in (plain, plain.clone().requires_grad_(), plain, torch.rand(2, 3).as_subclass(Turned).requires_grad_()):
        want, got = f(x), compiled(x)
        assert (type(got), got.requires_grad) == (type(want), want.requires_grad)
        if want.requires_grad:
            assert torch.equal(torch.autograd.grad(got.sum(), x)[0], torch.autograd.grad(want.sum(), x)[0])


@pytest.mark.parametrize("name", ["__getattr__", "spare"])
def test_only_attributes_of_a_tensors_own_can_be_deleted(name: str) -> None:
    class Held(Turned):
        pass

    held = torch.ones(2).as_subclass(Held)

    def f(x):
        del held.spare
        return x + 1

    compiled = framelift.compile(f, backend="eager")
    setattr(Held, name, (lambda self, asked: 3) if name == "__getattr__" else 3)
    for _ in range(2):
        held.spare = 1
        assert torch.equal(compiled(torch.ones(1)), torch.ones(1) + 1) and not vars(held)
        with pytest.raises(AttributeError, match="'Held' object has no attribute 'spare'"):
            compiled(torch.ones(1))


class Tagged(torch.nn.Parameter):
    """A parameter with attributes and methods of its own, as quantization libraries have them."""

    kind = 3

    def __new__(cls, data: torch.Tensor, requires_grad: bool = True, tag: int = 1) -> Tagged:
        made = super().__new__(cls, data, requires_grad)
        made.tag = tag
        return made

    def twice(self) -> torch.Tensor:
        return self * 2

    @property
    def rows(self) -> int:
        return self.shape[0]


class Adding(torch.nn.Parameter):
    def __add__(self, other: Any) -> Any:
        return torch.Tensor.__add__(self, other) * 10


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_classes_of_parameters(backend: str) -> None:
    def f(p: Any) -> Any:
        return p.twice() * p.rows, (p + p.tag).sum() * p.kind, type(p), p.detach().view(-1), isinstance(p, type(p))

    check(f, Tagged(torch.arange(6.0).reshape(2, 3), tag=4), backend=backend)
    check(lambda p: p.detach().mul_(2), Tagged(torch.ones(3)), backend=backend)
    check(lambda p: p + 1, Adding(torch.ones(3)), backend=backend, graphs=None, breaks=None)


def test_classes_of_parameters_that_change() -> None:
    class Later(Tagged):
        pass

    changes = [
        ("kind", 5, lambda p: p * p.kind),
        ("twice", lambda p: p * 7, lambda p: p.twice()),
        ("__add__", lambda p, other: p * 9, lambda p: p + 1),
        ("sin", lambda p: p * 9, lambda p: p.sin()),
        ("__torch_function__", classmethod(lambda *_: 42), lambda p: torch.cos(p)),
    ]
    for name, new, program in changes:
        p = Later(torch.ones(2))
        compiled = framelift.compile(program, backend="eager")
        compiled(p)
        setattr(Later, name, new)
        want, got = program(p), compiled(p)
        assert want == got if isinstance(want, int) else torch.equal(want, got), name
        delattr(Later, name)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_class_of_parameters_that_answers_reads_itself(backend: str, dynamic: bool) -> None:
    """torch asks inputs of a compiler for `__tensor_flatten__`: code of the class would run."""
    asked = []

    class Answering(torch.nn.Parameter):
        def __getattr__(self, name: str) -> int:
            asked.append(name)
            return 3

    def f(x, w):
        return (x * w.clone()).sum() + x.shape[0], w.twice

    x, w = torch.ones(2, 3), Answering(torch.ones(3))
    want = f(x, w)
    asked.clear()
    with framelift.config.patch(strict=True):
        got = framelift.compile(f, backend=backend, dynamic=dynamic)(x, w)
    assert torch.equal(got[0], want[0]) and got[1] == want[1] and asked == ["twice"]


def test_a_module_with_such_parameters_trains() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = Tagged(torch.ones(3, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x @ self.weight).relu().sum()

    found = []
    for wrap in (lambda m: m, lambda m: framelift.compile(m, backend="aot_eager", fullgraph=True)):
        net = Net()
        run, optimizer = wrap(net), torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            run(torch.arange(6.0).reshape(2, 3)).backward()
            optimizer.step()
            optimizer.zero_grad()
        assert type(net.weight) is Tagged
        found.append(net.weight.detach())
    assert torch.equal(*found)


def test_torch_function_switched_off_inside() -> None:
    class Doubling(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {}) * 1

    def f(x):
        with torch._C.DisableTorchFunction():
            y = x.as_subclass(Doubling) + 1
            with torch._C.DisableTorchFunctionSubclass():
                z = y + 1
            w = y.as_subclass(Doubling) * 2
        return type(y) is torch.Tensor, z, type(w) is torch.Tensor, x + 1

    check(f, torch.ones(2))

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {})) * 2

    def around(x):
        with Mode(), torch._C.DisableTorchFunction():
            return x + 1

    def inside(x):
        with torch._C.DisableTorchFunction(), Mode():
            return x + 1

    for program in (around, inside):
        assert torch.equal(framelift.compile(program, backend="eager")(torch.ones(2)), program(torch.ones(2)))


def test_classes_of_one_dtype() -> None:
    def f(x):
        kinds = (torch.FloatTensor, torch.IntTensor, (int, torch.DoubleTensor), (list, (torch.FloatTensor, int)))
        return x + 1, [(isinstance(x, one), isinstance(x.double(), one), isinstance(x.shape[0], one)) for one in kinds]

    for dtype in (torch.float, torch.int, torch.bool):
        check(f, torch.ones(2).to(dtype))
        assert (
            framelift.compile(f, backend="eager", dynamic=True)(torch.ones(2).to(dtype))[1]
            == f(torch.ones(2).to(dtype))[1]
        )
