"""TorchDynamo used in the same process leaves wrappers in torch.nn.Module; programs are captured as without it."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn

import framelift


@pytest.fixture
def tagged_modules() -> Iterator[None]:
    """What TorchDynamo's first compilation does to nn.Module, and its undoing."""
    from torch._dynamo.mutation_guard import install_generation_tagging_init

    flags = "___needs_generation_tag_patch", "___has_generation_tag_patch"  # the second since torch 2.15
    before = {name: nn.Module.__dict__.get(name) for name in ("__init__", "__setstate__", *flags)}
    for flag in flags:
        if before[flag] is not None:
            delattr(nn.Module, flag)
    install_generation_tagging_init()
    assert nn.Module.__init__ is not before["__init__"]
    yield
    for name, value in before.items():
        if value is not None:
            setattr(nn.Module, name, value)
        elif name in nn.Module.__dict__:
            delattr(nn.Module, name)


def test_modules_made_inside(tagged_modules: None) -> None:
    layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))

    def program(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        part = layers[1:3]  # a new ModuleList
        for layer in part:
            x = layer(x)
        return x, len(part)

    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    x = torch.rand(2, 3)
    for _ in range(2):
        assert torch.equal(compiled(x)[0], program(x)[0]) and compiled(x)[1] == 2


def test_wrappers_that_come_later_are_noticed(tagged_modules: None) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
        made = nn.Identity()
        return made(x) + 1, hasattr(made, "noted")

    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    assert compiled(torch.ones(1))[1] is False
    before = nn.Module.__init__

    def noting(self: nn.Module, *args: object, **kwargs: object) -> None:
        before(self, *args, **kwargs)
        self.noted = True

    nn.Module.__init__ = noting
    try:
        assert compiled(torch.ones(1))[1] is True
    finally:
        nn.Module.__init__ = before


@pytest.mark.parametrize(
    ("name", "options"),
    [("SGD", {}), ("SGD", {"fused": True}), ("Adam", {}), ("Adam", {"fused": True}), ("Adagrad", {"fused": True})],
)
def test_optimizers_that_it_marks_as_disabled(name: str, options: dict[str, bool]) -> None:
    """Its first compilation marks parts of torch.optim for its own sake: no wish of the user's."""
    from torch._dynamo.eval_frame import TorchPatcher

    TorchPatcher.patch()
    weights = [torch.rand(3, requires_grad=True) for _ in range(2)]
    for weight in weights:
        weight.grad = torch.ones(3)
    twins = [weight.detach().clone().requires_grad_() for weight in weights]
    for twin in twins:
        twin.grad = torch.ones(3)
    plain = getattr(torch.optim, name)(twins, lr=0.1, **options)
    step = framelift.compile(
        getattr(torch.optim, name)(weights, lr=0.1, **options).step, backend="eager", fullgraph=True
    )
    for _ in range(3):
        step()
        plain.step()
    torch.testing.assert_close(weights, twins)  # compiling, torch.optim chooses operators of its own


def test_options_for_a_part_of_the_program() -> None:
    """patch_dynamo_config, as a context in captured code and around a captured function."""
    from torch._dynamo.decorators import patch_dynamo_config

    def within(x: torch.Tensor) -> torch.Tensor:
        with patch_dynamo_config(capture_scalar_outputs=True):
            n = x.sum().item()
        return x * n

    @patch_dynamo_config(capture_scalar_outputs=True)
    def around(x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()

    for program in (within, around):
        compiled = framelift.compile(program, backend="eager", fullgraph=True)
        assert compiled(torch.ones(3)).tolist() == [3.0] * 3 and compiled(torch.full((3,), 2.0)).tolist() == [12.0] * 3
        assert len(compiled.entries) == 1 and not framelift.config.capture_scalar_outputs

    def left_open(x: torch.Tensor) -> torch.Tensor:
        with patch_dynamo_config(capture_scalar_outputs=True):
            return x * (x.data_ptr() * 0)  # interrupts

    assert framelift.compile(left_open, backend="eager")(torch.ones(1)).item() == 0
    assert not framelift.config.capture_scalar_outputs


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_leaf_functions_are_one_node(backend: str) -> None:
    decorators = pytest.importorskip("torch._dynamo.decorators")
    if not hasattr(decorators, "leaf_function"):
        pytest.skip("this torch has no leaf_function")
    seen: list[float] = []

    @decorators.leaf_function
    def logged(pair: dict[str, torch.Tensor]) -> tuple[torch.Tensor]:
        seen.append(pair["x"].sum().item())
        return (pair["x"] * 2,)

    logged.register_fake(lambda pair: (torch.empty_like(pair["x"]),))
    whole = hasattr(logged, "_torchdynamo_leaf_mutates_args")  # torch 2.11 breaks there
    compiled = framelift.compile(lambda x: logged({"x": x + 1})[0] + 1, backend=backend, fullgraph=whole)
    assert compiled(torch.ones(2)).tolist() == [5.0, 5.0] and compiled(torch.zeros(2)).tolist() == [3.0, 3.0]
    assert seen == [4.0, 2.0]


def test_backends_that_only_torchdynamo_has() -> None:
    import torch._dynamo.backends.debugging  # noqa: F401  (registers them)

    compiled = framelift.compile(lambda x: x.sin() + 1, backend="aot_eager_decomp_partition_crossref", fullgraph=True)
    torch.testing.assert_close(compiled(torch.ones(2)), torch.ones(2).sin() + 1)


def test_user_errors_are_torchs_own_too() -> None:
    """torch's own code raises its UserError whatever captures a program: one `except` is enough."""

    def branch(x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else x + 1

    for install in (False, True, False):
        with framelift.installed() if install else contextlib.nullcontext():
            with pytest.raises(torch._dynamo.exc.UserError) as found:
                framelift.compile(branch, backend="eager", fullgraph=True)(torch.ones(3))
        assert isinstance(found.value, framelift.exc.UserError) and isinstance(found.value, framelift.exc.Unsupported)


class _Counting:
    """A backend that is an object, as programs write them."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: Any, examples: Any) -> Any:
        self.graphs += 1
        return graph.forward


def test_backends_looked_up_inside() -> None:
    """A function that captured code compiles is captured with it, whatever its backend."""
    counting = _Counting()
    torch._dynamo.lookup_backend("eager")

    def double(x: torch.Tensor, by: int | None = None) -> torch.Tensor:
        return x * (2 if by is None else by)

    def fn(x: torch.Tensor) -> torch.Tensor:
        looked_up = framelift.compile(double, backend=torch._dynamo.lookup_backend("eager"))
        return looked_up(x) + framelift.compile(double, backend=counting)(x, by=3)

    framelift.reset()
    x = torch.ones(3)
    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(x), fn(x))
    assert framelift.stats()["captures"] >= 1 and len(compiled.entries) == 1
    with pytest.raises(framelift.exc.InvalidBackend):
        framelift.compile(lambda x: framelift.compile(double, backend="no such")(x), backend="eager")(x)


def _sine(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.compile(_sine, backend="eager"),
        lambda: torch.compile(_sine, backend="eager", fullgraph=True),
        lambda: torch._dynamo.run(_sine),
        lambda: torch._dynamo.run(torch.compile(_sine, backend="eager")),
        lambda: torch.compile(nn.Linear(3, 3), backend="eager"),
        lambda: torch._dynamo.run(nn.Linear(3, 3)),
        lambda: framelift.run(_sine),
        lambda: framelift.run(framelift.compile(_sine, backend="eager")),
    ],
)
def test_what_torch_compile_made_is_part_of_the_graph(make: Any) -> None:
    inner = make()

    def program(x: torch.Tensor) -> torch.Tensor:
        return inner(x + 1) + 2

    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    x = torch.rand(2, 3)
    for _ in range(2):
        assert torch.equal(compiled(x), program(x))
    assert len(compiled.entries) == 1


def test_another_function_of_torch_compile_is_another_capture() -> None:
    made = [torch.compile(fn, backend="eager") for fn in (torch.sin, _sine, lambda x: x.cos())]

    def program(x: torch.Tensor) -> torch.Tensor:
        return made[0](x) + 2

    compiled = framelift.compile(program, backend="eager")
    x = torch.rand(2, 3)
    for _ in range(3):
        assert torch.equal(compiled(x), program(x))
        made.append(made.pop(0))


def test_what_torch_compile_made_and_eager_code_calls_is_torch_compiles() -> None:
    """Its evaluator of frames would take framelift's own for the program's."""
    inner = torch.compile(_sine, backend="eager")

    def program(x: torch.Tensor) -> torch.Tensor:
        return contextvars.copy_context().run(inner, x + 1) + 2

    compiled = framelift.compile(program, backend="eager")
    x = torch.rand(2, 3)
    for _ in range(3):
        assert torch.equal(compiled(x), program(x))


@pytest.mark.parametrize("disable", [torch._dynamo.disable, framelift.disable])
def test_what_is_disabled_stays_so_around_what_torch_compile_made(disable: Any) -> None:
    inner = disable(torch.compile(_sine, backend="eager"))
    compiled = framelift.compile(lambda x: inner(x + 1) + 2, backend="eager", fullgraph=True)
    with pytest.raises(framelift.exc.Unsupported, match="not to be compiled"):
        compiled(torch.ones(2))
