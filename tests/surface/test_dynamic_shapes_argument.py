"""`compile(dynamic_shapes=...)`: what is declared is symbolic, what is not is constant; as often compiled as by
TorchDynamo, and what does not hold is an error."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch

import framelift
from framelift.exc import ConstraintViolation

spec = pytest.importorskip("torch.fx.experimental.dynamic_spec")  # torch 2.13
from torch.fx.experimental.dynamic_spec import (  # noqa: E402
    DictSpec,
    IntVar,
    ObjectSpec,
    ParamsSpec,
    SeqSpec,
    ShapesSpec,
    ShapeVar,
    TensorSpec,
)

#: as torch.compile of this version calls it; framelift takes both names
ARGUMENT = "dynamic_shapes" if "dynamic_shapes" in inspect.signature(torch.compile).parameters else "shapes_spec"
A, B, N = ShapeVar("a"), ShapeVar("b"), IntVar("n")


class Box:
    def __init__(self, tensor):
        self.tensor = tensor


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x, *rest, scale=None, **named):
        return (x * self.weight).sum() + sum(one.sum() for one in (*rest, *named.values())) + (scale or 0)


NET = Net()


def double(x):
    return x * 2


def both(x, y):
    return x.sum() + y.sum()


def times(x, n):
    return x * n


def spread(*args, **kwargs):
    return args[0].sum() + kwargs["k"].sum()


def with_a_branch(x):
    return x * 2 if x.shape[0] > 3 else x


def x_of(*sizes):
    return [((torch.arange(size, dtype=torch.float32),), {}) for size in sizes]


def pairs(*sizes):
    return [((torch.ones(first), torch.ones(second)), {}) for first, second in sizes]


#: name -> function, specification, calls: TorchDynamo and framelift compile equally often
EQUAL = {
    "a size": (double, {"x": TensorSpec([B])}, x_of(4, 5, 1, 0, 7)),
    "as ParamsSpec": (double, ParamsSpec({"x": TensorSpec([B])}), x_of(4, 5, 1, 0, 7)),
    "as ShapesSpec": (double, ShapesSpec({"x": TensorSpec([B])}), x_of(4, 5, 1, 0, 7)),
    "a hint": (double, {"x": TensorSpec([ShapeVar("h", optimization_hint=64)])}, x_of(4, 5)),
    "other dimensions": (double, {"x": TensorSpec([B, None])}, [((torch.ones(4, n),), {}) for n in (4, 5, 1, 7)]),
    "a constant": (double, {"x": TensorSpec([B, 3])}, [((torch.ones(n, 3),), {}) for n in (4, 5, 1)]),
    "nothing of it": (double, {"y": TensorSpec([B])}, x_of(4, 5, 1)),
    "one size for two": (both, {"x": TensorSpec([B]), "y": TensorSpec([B])}, pairs((4, 4), (5, 5), (1, 1))),
    "two sizes": (both, {"x": TensorSpec([A]), "y": TensorSpec([B])}, pairs((4, 4), (5, 2), (1, 9))),
    "derived": (both, {"x": TensorSpec([B]), "y": TensorSpec([B * 2 + 1])}, pairs((4, 9), (5, 11))),
    "derived before": (both, {"y": TensorSpec([B]), "x": TensorSpec([B * 2 + 1])}, pairs((9, 4), (11, 5))),
    "assumed": (
        both,
        ShapesSpec({"x": TensorSpec([B]), "y": TensorSpec([A])}, assumptions=[A + B > 10]),
        pairs((4, 9), (5, 11)),
    ),
    "ints": (times, {"n": N}, [((torch.ones(4), n), {}) for n in (2, 3, 1)]),
    "ints that are not declared": (times, {"x": TensorSpec([B])}, [((torch.ones(4), n), {}) for n in (2, 3, 1)]),
    "an int": (times, {"n": 3}, [((torch.ones(4), 3), {})]),
    "args and kwargs": (
        spread,
        {"*args": [TensorSpec([B])], "**kwargs": {"k": TensorSpec([A])}},
        [((torch.ones(3),), {"k": torch.ones(4)}), ((torch.ones(7),), {"k": torch.ones(1)})],
    ),
    "containers": (
        lambda d: d["a"].sum() + d["b"][1].sum(),
        {"d": DictSpec({"a": TensorSpec([A]), "b": SeqSpec([None, TensorSpec([B])])})},
        [(({"a": torch.ones(n), "b": [1, torch.ones(n + 1)]},), {}) for n in (3, 4, 1)],
    ),
    "an object": (
        lambda o: o.tensor * 2,
        {"o": ObjectSpec({"tensor": TensorSpec([B])})},
        [((Box(torch.ones(n)),), {}) for n in (3, 4, 1)],
    ),
    "a module": (NET, {"x": TensorSpec([B, 3])}, [((torch.ones(n, 3),), {}) for n in (3, 4, 1)]),
    "a module's keyword": (NET, {"x": TensorSpec([B, 3])}, [((), {"x": torch.ones(n, 3)}) for n in (3, 4, 1)]),
    "a module's variable arguments": (
        NET,
        {"*args": [TensorSpec([B])], "**kwargs": {"k": TensorSpec([A])}},
        [((torch.ones(2, 3), torch.ones(n)), {"k": torch.ones(2 * n)}) for n in (3, 4, 1)],
    ),
    "a branch": (with_a_branch, {"x": TensorSpec([B])}, x_of(5, 6, 1)),
}


def _graphs(compile_, function, shapes, calls):
    """How many graphs are compiled; results are compared with eager mode."""
    made = []

    def backend(graph_module, inputs):
        made.append(graph_module)
        return graph_module.forward

    compiled = compile_(function, backend=backend, **{ARGUMENT: shapes})
    for args, kwargs in calls:
        assert torch.equal(compiled(*args, **kwargs), function(*args, **kwargs))
    return len(made)


@pytest.mark.parametrize("name", EQUAL)
def test_graphs_as_with_torchdynamo(name):
    torch._dynamo.reset()
    theirs = _graphs(torch.compile, *EQUAL[name])
    assert _graphs(framelift.compile, *EQUAL[name]) == theirs


SMALL = ShapeVar("s", max=8)
#: name -> function, specification, calls, the last of which breaks it, words of the message
BROKEN = {
    "rank": (double, {"x": TensorSpec([B])}, [((torch.ones(4, 3),), {})], "declares 1 dimensions of x, which has 2"),
    "constant": (double, {"x": TensorSpec([9])}, x_of(4), "declares x.size\\(0\\) as 9, and it is 4"),
    "constant, later": (double, {"x": TensorSpec([4])}, x_of(4, 5), "declares x.size\\(0\\) as 4, and it is 5"),
    "range": (double, {"x": TensorSpec([SMALL])}, x_of(9), "is 9, but was marked unbacked from 0 up to 8"),
    "range, later": (double, {"x": TensorSpec([SMALL])}, x_of(4, 9), "is 9, but was marked"),
    "one size": (both, {"x": TensorSpec([B]), "y": TensorSpec([B])}, pairs((4, 4), (5, 6)), "others of shape_id='b'"),
    "derived": (
        both,
        {"x": TensorSpec([B]), "y": TensorSpec([B * 2 + 1])},
        pairs((4, 9), (5, 12)),
        "y.size\\(0\\) is 12, but was declared as 2\\*b \\+ 1, which is 11",
    ),
    "assumed": (
        both,
        ShapesSpec({"x": TensorSpec([B]), "y": TensorSpec([A])}, assumptions=[A + B > 10]),
        pairs((4, 9), (5, 1)),
        "a \\+ b > 10 was declared to hold, and does not",
    ),
    "no such size": (both, {"x": TensorSpec([B * 2])}, pairs((4, 4)), "mentions b, which is not the size"),
    "an int": (times, {"n": 3}, [((torch.ones(4), 4), {})], "declares n as 3, and it is 4"),
    "an int's range": (
        times,
        {"n": IntVar("m", max=5)},
        [((torch.ones(4), n), {}) for n in (2, 7)],
        "n is 7, but was marked unbacked up to 5",
    ),
    "another kind": (
        lambda o: o.tensor * 2,
        {"o": TensorSpec([B])},
        [((Box(torch.ones(3)),), {})],
        "a part of o.* as TensorSpec",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_does_not_hold_is_an_error(name):
    function, shapes, (*served, last), words = BROKEN[name]
    compiled = framelift.compile(function, backend="eager", dynamic_shapes=shapes)
    for args, kwargs in served:
        assert torch.equal(compiled(*args, **kwargs), function(*args, **kwargs))
    with pytest.raises(ConstraintViolation, match=words):
        compiled(*last[0], **last[1])
    torch._dynamo.reset()
    theirs = torch.compile(function, backend="eager", **{ARGUMENT: shapes})
    with pytest.raises((RuntimeError, AssertionError)):
        for args, kwargs in (*served, last):
            theirs(*args, **kwargs)


def test_ints_of_all_signs_have_one_graph():
    """TorchDynamo takes them for sizes, and fails below zero."""
    assert _graphs(framelift.compile, times, {"n": N}, [((torch.ones(4), n), {}) for n in (2, 0, 1, -4)]) == 1


def test_with_inductor():
    def both_ways(x, y):
        return torch.cat([x, y]).sin() + x.shape[0]

    compiled = framelift.compile(
        both_ways, fullgraph=True, dynamic_shapes={"x": TensorSpec([B]), "y": TensorSpec([B * 2 + 1])}
    )
    for size in (4, 5, 1, 9):
        x, y = torch.rand(size), torch.rand(2 * size + 1)
        torch.testing.assert_close(compiled(x, y), both_ways(x, y))
    assert compiled.report().captures == 1


def test_what_follows_a_break_is_dynamic_by_itself():
    def broken(x):
        y = x * 2
        framelift.graph_break()
        return y + x

    compiled = framelift.compile(broken, backend="eager", dynamic_shapes={"x": TensorSpec([B])})
    for args, _ in x_of(3, 4, 5, 6):
        assert torch.equal(compiled(*args), broken(*args))
    assert len(compiled.entries) == 1


def test_two_specifications_share_no_captures():
    first = framelift.compile(double, backend="eager", dynamic_shapes={"x": TensorSpec([B])})
    second = framelift.compile(double, backend="eager", dynamic_shapes={"x": TensorSpec([4])})
    first(torch.ones(4))
    with pytest.raises(ConstraintViolation):
        second(torch.ones(5))


def test_the_program_of_the_documentation(capsys):
    """The page's own test runs with every torch, and leaves this program out."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "dynamic_shapes.md").read_text()
    program = page[page.index("from torch.fx.experimental.dynamic_spec") :].partition("```")[0]
    exec(program, {"torch": torch, "framelift": framelift})
    said = capsys.readouterr().out.splitlines()[0]
    assert said.startswith(program.splitlines()[-1].partition("# ")[2].rstrip("…"))


def test_what_is_no_specification():
    with pytest.raises(ValueError, match="`dynamic` and `dynamic_shapes` cannot both be set"):
        framelift.compile(double, dynamic=True, dynamic_shapes={"x": TensorSpec([B])})
    with pytest.raises(TypeError, match="shapes_spec must be ParamsSpec, dict, or None"):
        framelift.compile(double, dynamic_shapes=5)
    with framelift.installed():
        made = torch._dynamo.optimize("eager", **{ARGUMENT: {"x": TensorSpec([B])}})(double)
        assert torch.equal(made(torch.ones(3)), torch.full((3,), 2.0))


def test_a_decorator_carries_it():
    attach = getattr(spec, "dynamic_spec", None)
    if attach is None:
        pytest.skip("torch 2.14")

    @attach({"x": TensorSpec([B])})
    def function(x):
        return x * 2

    class Module(torch.nn.Module):
        forward = attach({"x": TensorSpec([B])})(lambda self, x: x * 2)

    for made in (function, Module()):
        compiled = framelift.compile(made, backend="eager")
        for args, _ in x_of(4, 5, 1, 0, 7):
            assert torch.equal(compiled(*args), args[0] * 2)
        assert compiled.report().captures == 1
        with pytest.raises(ValueError, match="Provide only one"):
            framelift.compile(made, dynamic_shapes={"x": TensorSpec([B])})
