"""Script objects (TorchBind): methods and operators over them are nodes; what the objects hold is guarded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import framelift
import pytest
import torch
from framelift.testing import CompileCounter
from torch._library import fake_class_registry as registry

LIBRARY = Path(torch.__file__).parent / "lib" / "libtorchbind_test.so"
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="this build of torch has no classes to test with")
QUEUE, FOO = "_TorchScriptTesting::_TensorQueue", "_TorchScriptTesting::_Foo"


class FakeQueue:
    def __init__(self, queue: list[Any]) -> None:
        self.queue = queue

    @classmethod
    def __obj_unflatten__(cls, held: Any) -> FakeQueue:
        return cls(**dict(held))

    def push(self, x: Any) -> None:
        self.queue.append(x)

    def pop(self) -> Any:
        return self.queue.pop(0)

    def size(self) -> int:
        return len(self.queue)


class FakeFoo:
    def __init__(self, x: int, y: int) -> None:
        self.x, self.y = x, y

    @classmethod
    def __obj_unflatten__(cls, held: Any) -> FakeFoo:
        return cls(**dict(held))

    def increment(self, z: int) -> None:
        self.x, self.y = self.x + z, self.y + z

    def add_tensor(self, z: Any) -> Any:
        return (self.x + self.y) * z


@pytest.fixture(autouse=True)
def fakes() -> Iterator[None]:
    torch.ops.load_library(str(LIBRARY))
    before = dict(registry.global_fake_class_registry._registered_class)
    registry.global_fake_class_registry._registered_class.clear()
    torch._library.register_fake_class(QUEUE, FakeQueue)
    torch._library.register_fake_class(FOO, FakeFoo)
    yield
    registry.global_fake_class_registry._registered_class.clear()
    registry.global_fake_class_registry._registered_class.update(before)


def queue(*tensors: torch.Tensor) -> Any:
    made = torch.classes._TorchScriptTesting._TensorQueue(torch.empty(0))
    for one in tensors:
        made.push(one)
    return made


def foo(x: int, y: int = 3) -> Any:
    return torch.classes._TorchScriptTesting._Foo(x, y)


def seen(value: Any) -> Any:
    """A value to compare: script objects by what they hold."""
    if isinstance(value, torch.ScriptObject):
        return seen(value.__obj_flatten__())
    if isinstance(value, torch.Tensor):
        return value.tolist(), value.dtype, value.requires_grad
    return [seen(item) for item in value] if isinstance(value, (list, tuple)) else value


def agree(
    function: Callable[..., Any], make: Callable[[int], tuple[Any, ...]], calls: int = 2, backend: Any = "eager"
) -> Any:
    compiled = framelift.compile(function, backend=backend)
    for i in range(calls):
        torch.manual_seed(i)
        plain = make(i)
        torch.manual_seed(i)
        given = make(i)
        assert seen(function(*plain)) == seen(compiled(*given))
        assert seen(plain) == seen(given)
    return compiled


both = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


@both
def test_methods_are_nodes_of_one_graph(backend: str) -> None:
    def f(q: Any, x: torch.Tensor) -> Any:
        q.push(x.cos())
        q.push(x.sin())
        return q.pop() - q.size(), q

    agree(f, lambda i: (queue(), torch.randn(3)), backend=backend)
    compiled, given = framelift.compile(f, backend=CompileCounter(), fullgraph=True), queue()
    assert compiled(given, torch.ones(3))[1] is given
    (entry,) = compiled.entries
    targets = [node.target for node in entry.info.graph_module.graph.nodes if node.op == "call_function"]
    assert targets.count(torch.ops.higher_order.call_torchbind) == 4


def test_what_an_object_holds_is_guarded() -> None:
    def f(q: Any, x: torch.Tensor) -> Any:
        return x + q.size(), q.pop() * 2

    counter = CompileCounter()
    compiled = framelift.compile(f, backend=counter)
    rows = [
        ((torch.ones(2),), 1),
        ((torch.ones(2) + 1,), 1),  # other values
        ((torch.ones(2), torch.ones(2)), 2),  # one more
        ((torch.ones(2, dtype=torch.float64),), 3),
        ((torch.ones(2, requires_grad=True),), 4),
    ]
    for held, frames in rows:
        x = torch.ones(3)
        assert seen(compiled(queue(*held), x)) == seen(f(queue(*held), x))
        assert counter.frame_count == frames


@both
def test_sizes_of_held_tensors_become_symbolic_where_graphs_run_as_they_are(backend: str) -> None:
    compiled = agree(
        lambda q, x: (q.pop().reshape(-1) * 2, x + 1),
        lambda i: (queue(torch.randn(2, 3 + i)), torch.randn(3)),
        calls=4,
        backend=backend,
    )
    assert len(compiled.entries) == (2 if backend == "eager" else 4)


@both
def test_numbers_of_an_object_are_constants_of_a_capture(backend: str) -> None:
    compiled = agree(lambda f, x: f.add_tensor(x) + 1, lambda i: (foo(i), torch.randn(3)), 3, backend)
    assert len(compiled.entries) == 3


@both
def test_symbolic_numbers_given_to_methods(backend: str) -> None:
    def f(one: Any, n: int, x: torch.Tensor) -> Any:
        one.increment(n)
        return one.add_tensor(x) + n

    assert len(agree(f, lambda i: (foo(1), i + 2, torch.randn(3)), 5, backend).entries) == 2


@both
def test_a_tensor_that_an_object_knows_is_not_written_in_the_same_graph(backend: str) -> None:
    def popped(q: Any, x: torch.Tensor) -> Any:
        q.push(x)
        y = q.pop()
        y.add_(1)
        return x * 2, y

    def pushed(q: Any, x: torch.Tensor) -> Any:
        q.push(x)
        x.add_(1)
        return q.pop() * 2

    def before(q: Any, x: torch.Tensor) -> Any:
        x.add_(1)
        q.push(x)
        return q.pop() * 2

    for function in (popped, pushed, before):
        agree(function, lambda i: (queue(), torch.randn(3)), backend=backend)

    def held(q: Any, x: torch.Tensor) -> Any:
        return q.pop() * 2, x.add_(1)

    def same(i: int) -> tuple[Any, ...]:
        x = torch.randn(3)
        return queue(x), x

    agree(held, same, backend=backend)


def test_what_a_compiler_may_overwrite_is_not_captured() -> None:
    compiled = framelift.compile(lambda q, x: (q.push(x), q.pop() + 1)[1], backend="inductor")
    q, x = queue(), torch.ones(4)
    for _ in range(2):
        assert compiled(q, x).tolist() == [2] * 4
        assert x.tolist() == [1] * 4


def test_whether_a_tensor_given_back_is_one_that_was_given() -> None:
    def same(q: Any, x: torch.Tensor) -> Any:
        q.push(x)
        return q.pop() is x

    def found(q: Any, x: torch.Tensor) -> Any:
        table = {x: 1}
        q.push(x)
        return table.get(q.pop())

    for function in (same, found):
        agree(function, lambda i: (queue(), torch.randn(3)))


@both
def test_histories(backend: str) -> None:
    agree(
        lambda q, x: (q.push(x.sin()), q.pop() * 2), lambda i: (queue(), torch.randn(3, requires_grad=True)), 2, backend
    )
    compiled = framelift.compile(lambda q, x: q.pop() * x, backend=backend)
    weight, x = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
    compiled(queue(weight), x).sum().backward()
    assert weight.grad is not None and weight.grad.tolist() == [2] * 3


def test_two_names_of_one_object() -> None:
    def f(p: Any, q: Any, x: torch.Tensor) -> Any:
        p.push(x)
        q.push(x.sin())
        return p.size(), q.size()

    compiled = framelift.compile(f, backend="eager")
    for one in (False, True, False):
        p, x = queue(), torch.ones(2)
        q = p if one else queue()
        p2 = queue()
        q2 = p2 if one else queue()
        assert compiled(p, q, x) == f(p2, q2, x)
        assert seen(p) == seen(p2) and seen(q) == seen(q2)


@both
def test_operators_that_take_an_object(backend: str) -> None:
    push, size = torch.ops._TorchScriptTesting.queue_push, torch.ops._TorchScriptTesting.queue_size
    for operator, fake in (("queue_push", lambda q, x: q.push(x)), ("queue_size", lambda q: q.size())):
        try:
            torch.library.register_fake(f"_TorchScriptTesting::{operator}")(fake)
        except RuntimeError:  # by another test of this process
            pass

    def f(q: Any, x: torch.Tensor) -> Any:
        push(q, x.cos())
        return x + size(q)

    agree(f, lambda i: (queue(), torch.randn(3)), backend=backend)


@both
def test_objects_in_bodies(backend: str) -> None:
    from torch._higher_order_ops.wrap import wrap

    def region(q: Any, x: torch.Tensor) -> Any:
        def body(q: Any, x: torch.Tensor) -> Any:
            q.push(x)
            return x.sin()

        return wrap(body, q, x)

    assert len(agree(region, lambda i: (queue(), torch.randn(3)), backend=backend).entries) == 1

    def branch(q: Any, x: torch.Tensor) -> Any:
        def yes(x: torch.Tensor) -> Any:
            q.push(x)
            return x.sin()

        return torch.cond(x.sum() > 0, yes, lambda x: x.cos(), (x,))

    given = queue()
    with pytest.raises(framelift.exc.UncapturedHigherOrderOpError):
        framelift.compile(branch, backend=backend)(given, torch.randn(3))
    assert given.size() == 0


@both
def test_breaks_and_effects(backend: str) -> None:
    def f(q: Any, x: torch.Tensor) -> Any:
        q.push(x.sin())
        framelift.graph_break()
        q.push(x.cos())
        return q.pop() + q.size(), isinstance(q, torch.ScriptObject), hasattr(q, "nothing")

    agree(f, lambda i: (queue(), torch.randn(3)), backend=backend)


def test_what_is_not_known_is_left_to_eager_mode() -> None:
    registry.global_fake_class_registry._registered_class.clear()
    compiled = agree(lambda q, x: (q.push(x.sin()), q.size(), q), lambda i: (queue(), torch.randn(3)))
    assert seen(compiled(queue(), torch.ones(1))[1]) == 1
    torch._library.register_fake_class(FOO, FakeFoo)  # has no method `add`
    agree(lambda f, x: x + f.add(2), lambda i: (foo(i), torch.randn(3)))
    compiled = framelift.compile(lambda f, x: f.nothing, backend="eager")
    with pytest.raises(AttributeError):
        compiled(foo(1), torch.ones(1))


def test_a_module_that_holds_one_learns() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.queue = queue()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.queue.push(x)
            result: torch.Tensor = self.linear(self.queue.pop())
            return result

    torch.manual_seed(0)
    plain = Model()
    torch.manual_seed(0)
    model = Model()
    compiled, x = framelift.compile(model, backend="aot_eager", fullgraph=True), torch.randn(2, 3)
    for _ in range(3):
        expected, found = plain(x), compiled(x)
        assert torch.equal(expected, found)
        expected.sum().backward()
        found.sum().backward()
    assert torch.equal(plain.linear.weight.grad, model.linear.weight.grad)


class Held(torch.nn.Module):
    def __init__(self, held: Any) -> None:
        super().__init__()
        self.held = held

    def forward(self, x: torch.Tensor, given: Any) -> torch.Tensor:
        return x + self.held.add_tensor(x) + given.add_tensor(x)


def test_objects_of_an_exported_module_and_its_call() -> None:
    module, args = Held(foo(10, 20)), (torch.ones(2), foo(1, 2))
    program = framelift.export.export(module, args, strict=True)
    assert "held" in program.constants
    assert torch.equal(program.module()(*args), module(*args))
