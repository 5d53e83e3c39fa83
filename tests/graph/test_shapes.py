"""Sizes and numbers that change: captured with symbols, equal to plain Python, and captured few times."""

from __future__ import annotations

import enum
import json
import math
import operator
from collections import deque
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
import torch

import framelift
from framelift import config
from counted_runs import assert_same, run
from support import compiled  # noqa: F401  (the options of the suite)


def rows(*lengths, width=3):
    return [(torch.arange(float(n * width)).view(n, width),) for n in lengths]


# ---- sizes -----------------------------------------------------------------------------------------------------------


def shape_arithmetic(x):
    b, w = x.shape
    return x.view(b * w), b * 2 + 1, x.size(0) // 2, -b % 4, divmod(b, 3), x.shape, x.numel(), x.stride(), abs(2 - b)


def shape_text(x):
    return x + 1, f"{x.shape[0]:04d}", str(x.shape[0]), "%d" % x.shape[0], repr(x.size()), [x.shape[0]], {x.shape[0]: 1}


def shape_types(x):
    n = x.shape[0]
    return (
        x * 2,
        type(n) is int,
        isinstance(n, int),
        isinstance(n, float),
        isinstance(n, (str, int)),
        n.__class__ is int,
        n.real == n,
        n.bit_length(),
        hash(n) == hash(int(n)),
        callable(n),
    )


def shape_loops(x):
    total = x.sum(1)
    for i in range(x.shape[0]):
        total = total + i
    return total, [0] * x.shape[0], list(range(3))[: x.shape[0]], "ab" * x.shape[0]


def shape_branches(x):
    n = x.shape[0]
    if n > 6:
        return x[:3] + n
    if n == 5 or not n % 2:
        return x[: n - 1] * 2
    return x.sum(), n


def shape_math(x):
    n = x.shape[0]
    return (
        x / math.sqrt(n),
        n / 3,
        n**2,
        2**n,
        int(n * 0.3 * 3),
        round(n / 7, 2),
        round(n / 2),
        math.floor(n / 2),
        math.ceil(n / 2),
        float(n),
        max(n, 4),
        min(n, 4),
        sum([n, 1]),
        math.prod(x.shape),
        math.gcd(n, 6),
        n & 3,
        n << 1,
        ~n,
        pow(n, 2, 5),
        bool(n),
        n * 1.5 > 8,
    )


def shape_factories(x):
    n, w = x.shape
    return (
        torch.zeros(n, w),
        torch.arange(n),
        torch.ones(x.shape),
        torch.full((n,), n),
        x.new_zeros(n + 1),
        torch.eye(n),
        torch.tensor(n),
        x.expand(2, n, w),
        x.repeat(2, 1),
        torch.cat([x, x]),
        x.reshape(-1),
        x[: n // 2],
        x[n - 1 :],
        x.split(2),
        x.unbind(1),
        len(x),
    )


def shape_matmul(x):
    return (
        x @ x.T,
        torch.nn.functional.pad(x, (0, 1)),
        x.mean(0),
        torch.softmax(x, -1),
        x.unsqueeze(0).transpose(1, 2).contiguous(),
    )


@pytest.mark.parametrize(
    "fn",
    [shape_arithmetic, shape_text, shape_types, shape_branches, shape_math, shape_factories, shape_matmul, shape_loops],
)
def test_sizes(fn):
    captures, _ = run(fn, rows(4, 5, 6, 7, 8, 9, 5, 4, 2, 1, 0, 3))
    assert captures <= 12


def test_a_changing_size_is_captured_twice():
    for fn in (shape_matmul, lambda x: (x.view(x.shape[0] * x.shape[1]), x.shape[0] * 2)):
        captures, callable_ = run(fn, rows(*range(2, 40)))
        assert captures == 2


def test_a_tensor_of_fewer_dimensions_comes_after_sizes_that_changed():
    captures, callable_ = run(
        lambda x: x * 2 + sum(x.shape), [(torch.rand(size),) for size in ((2, 3), (4, 5), (7,), (8,), (), (6, 9))]
    )
    assert captures == 4 and all(entry.info.graph_module is not None for entry in callable_.entries)


LINEAR = torch.nn.Linear(3, 3)
#: programs whose graph is the same whatever the size
OF_ANY_SIZE = {
    "elementwise": lambda x: x * 2 + x.shape[0],
    "sum": lambda x: x.sum(0) / max(1, 2),
    "linear": LINEAR,
    "cat": lambda x: torch.cat([x, x * 2]),
    "view": lambda x: x.view(x.shape[0], 3, 1).transpose(1, 2).reshape(x.shape[0], 3),
    "product": lambda x: torch.softmax(x @ x.t(), -1),
    "made inside": lambda x: x + torch.ones(x.shape[0], 3),
    "shape": lambda x: (x * 2, x.shape, x.size(0) * 2),
}
#: programs that ask for the size, or where torch does
BY_SIZE = {
    "asked": lambda x: x * 2 if x.shape[0] > 1 else x - 1,
    "loop": lambda x: [x[i] for i in range(x.shape[0])],
    "squeeze": lambda x: x.squeeze(),
    "order in memory": lambda x: x.t() + 1,
    "text": lambda x: (x + 1, f"{x.shape[0]}"),
    "expanded": lambda x: x.expand(4, 3) if x.shape[0] in (1, 4) else x,
}


@pytest.mark.parametrize("name", OF_ANY_SIZE)
def test_sizes_zero_and_one_share_a_capture_where_the_graph_is_the_same(name):
    fn = OF_ANY_SIZE[name]
    assert run(fn, rows(4, 5, 1, 6, 0, 1, 0, 9))[0] == 3
    assert run(fn, rows(4, 1, 0, 7, 9))[0] == 2


@pytest.mark.parametrize("name", BY_SIZE)
def test_sizes_zero_and_one_have_captures_of_their_own_where_the_graph_differs(name):
    assert run(BY_SIZE[name], rows(4, 5, 1, 6, 0, 1, 0))[0] >= 4


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_gradients_of_a_capture_for_all_sizes(backend):
    framelift.reset()
    fn = lambda x: (LINEAR(x).relu() * x.shape[0]).sum(0)  # noqa: E731
    captured = framelift.compile(fn, backend=backend)
    for n in (4, 1, 0, 7):
        found = []
        for one in (fn, captured):
            x = torch.linspace(-1, 1, 3 * n).view(n, 3).requires_grad_()
            one(x).sum().backward()
            found.append((x.grad, LINEAR.weight.grad.clone()))
            LINEAR.weight.grad = None
        torch.testing.assert_close(*found)
    assert framelift.stats()["captures"] == 2


def test_a_compiler_that_takes_no_size_it_does_not_know():
    def backend(graph, examples):
        if any(type(one) is torch.SymInt and one.node.hint is None for one in examples):
            raise ValueError("which size?")
        return graph

    assert run(OF_ANY_SIZE["elementwise"], rows(4, 5, 1, 6, 0, 1, 9), backend=backend)[0] == 4


def test_two_inputs_that_must_agree():
    def fn(x, y):
        return x + y, x.shape[0] == y.shape[0]

    calls = [(torch.ones(n, 2), torch.ones(n, 2)) for n in (3, 4, 5)] + [
        (torch.ones(6, 2), torch.ones(1, 2)),
        (torch.ones(7, 2), torch.ones(2)),
    ]
    run(fn, calls)


def test_equal_sizes_are_not_taken_for_one():
    def fn(x, y):
        return x.sum() + y.sum(), x.shape[0] - y.shape[0]

    calls = [(torch.ones(n), torch.ones(m)) for n, m in ((3, 3), (4, 4), (5, 9), (9, 5), (7, 7))]
    assert run(fn, calls)[0] == 2


def test_layouts_of_symbolic_inputs():
    def fn(x):
        return x.is_contiguous(), x.contiguous().view(-1), x.stride(0)

    calls = (
        [(torch.ones(n, 4),) for n in (3, 5, 6)]
        + [(torch.ones(4, n).T,) for n in (5, 6, 7)]
        + [(torch.ones(n, 8)[:, ::2],) for n in (5, 6, 7)]
    )
    run(fn, calls)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compilers_take_symbols(backend):
    weight = torch.randn(3, 4, requires_grad=True)

    def fn(x, scale):
        n = x.shape[0]
        return (x @ weight * scale).view(n * 2, 2).sum(0) + n + scale / 2

    plain, _ = fn, None
    captures, callable_ = run(plain, [(torch.ones(n, 3), n / 4) for n in (4, 5, 6, 9)], backend=backend)
    assert captures == 2
    callable_(torch.ones(7, 3), 0.5).sum().backward()
    assert weight.grad.shape == (3, 4)


# ---- numbers ---------------------------------------------------------------------------------------------------------


class Thing:
    pass


def test_numbers_wherever_they_live():
    thing, table, listed = Thing(), {"n": 3}, [3]
    thing.n = 3
    cell = 3

    def fn(x, n, *rest, key=3):
        return x * n + thing.n + table["n"] + listed[0] + cell + rest[0] + key, n * 2, thing.n + 1

    framelift.reset()
    captured = framelift.compile(fn, backend="eager")
    x = torch.ones(2)
    for i in range(3, 30):
        thing.n = table["n"] = listed[0] = cell = i
        assert_same(fn(x, i, i, key=i), captured(x, i, i, key=i))
    assert framelift.stats()["captures"] == 2


def test_negative_and_zero_numbers():
    def fn(x, n):
        return x * n, n // 2, n % 3, -n, abs(n), n // -2, n % -3, bool(n), n == 0

    assert run(fn, [(torch.ones(2), n) for n in (5, -7, 0, 1, -1, 2, -3, 8)])[0] <= 6


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, f: x * f + f / 2,
        lambda x, f: (x + f * 2 - 1, f + 0.1 + 0.2 - 0.3, -f, abs(f)),
        lambda x, f: (x, int(f), round(f, 1), f // 1, f % 1),
        lambda x, f: x * f if f > 1.25 else x - f,
        lambda x, f: (x.sum() * math.exp(-f), math.log1p(f)),
        lambda x, f: (x, str(f), f"{f:.2f}"),
        lambda x, f: (torch.full((2,), f), x.clamp(min=f), torch.add(x, x, alpha=f)),
        lambda x, f: x[: int(f)] * f,
        lambda x, f: (x**f, f**2, 2**f),
        lambda x, f: torch.nn.functional.dropout(x, f / 10, False),
        lambda x, f: (f == 1.5, f < 3, f >= x.shape[0], type(f), isinstance(f, float)),
    ],
)
def test_floats(fn):
    run(fn, [(torch.arange(4.0), f) for f in (0.5, 1.5, 2.5, 1.0, 3.25, 0.1, 0.0)])


def test_a_float_operand_is_an_input():
    assert run(lambda x, f: x * f + f / 2, [(torch.ones(2), n / 7) for n in range(1, 60)])[0] == 2


def test_special_floats():
    run(lambda x, f: (x * f, -f), [(torch.ones(2), f) for f in (1.0, 2.0, math.inf, -0.0, 0.0, math.nan, 3.0)][:-2])


def test_a_division_by_zero_later():
    def fn(x, n):
        return x / n, 12 // n

    framelift.reset()
    captured = framelift.compile(fn, backend="eager")
    for n in (3, 4, 5):
        assert_same(fn(torch.ones(1), n), captured(torch.ones(1), n))
    with pytest.raises(ZeroDivisionError):
        captured(torch.ones(1), 0)
    assert_same(fn(torch.ones(1), 7), captured(torch.ones(1), 7))


def test_type_of_a_number_changes():
    run(lambda x, n: x * n, [(torch.ones(2), n) for n in (2, 3, 4, 2.5, 3.5, True, False, 7)])


class Phase(enum.IntEnum):
    WARM = 2
    HOT = 5


class Whole(int):
    pass


class Share(float):
    pass


class Answering(int):
    def __add__(self, other):
        return 100

    def __radd__(self, other):
        return 200

    def __eq__(self, other):
        return "equal"

    def __gt__(self, other):
        return "more"

    __hash__ = int.__hash__


class Silent(int):
    def __add__(self, other):
        return NotImplemented


_OF_ALL = (
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    divmod,
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
)
_OF_INTS = (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift)


@pytest.mark.parametrize(
    "one", [Phase.HOT, Whole(3), Share(1.5), Answering(3), Silent(3)], ids=lambda one: type(one).__name__
)
def test_numbers_of_other_classes_meet_symbolic_ones(one):
    """What their classes leave to int and float is arithmetic; what they answer themselves, they do."""

    def fn(x, n):
        ways = [(op(n, one), op(one, n)) for op in _OF_ALL]
        ways += [(op(n, one), op(one, n)) for op in _OF_INTS if type(n) is int and isinstance(one, int)]
        written = (
            n + one,
            one + n,
            n * one,
            one - n,
            n == one,
            one == n,
            n < one,
            one < n,
            n >= one,
            one >= n,
            n**one,
            one**n,
        )
        return x, ways, written

    run(fn, [(torch.ones(2), n) for n in (3, 4, 5, 3, 6)])
    run(fn, [(torch.ones(2), n) for n in (1.5, 2.5, 5.0, 3.0, 6.5)])


# ---- numbers that captured code writes -------------------------------------------------------------------------------

WITH_C_CODE = {
    "compared": lambda n, f: (n == "3", n != None, n == 3 + 0j, 4j != f),  # noqa: E711
    "timedelta": lambda n, f: (
        timedelta(days=n) * n,
        n * timedelta(1),
        timedelta(3) / n,
        timedelta(3) // n,
        divmod(timedelta(7), timedelta(n)),
        timedelta(1) * f,
    ),
    "fraction": lambda n, f: (Fraction(n, 7) + n, n - Fraction(1, 3), Fraction(f), Fraction(1, 3) < n),
    "deque": lambda n, f: (deque([1, 2, 3, 4, 5], n), deque("abc", maxlen=n)),
    "text": lambda n, f: (int.__repr__(n), float.__repr__(f)),
    "wrong": lambda n, f: (
        _said(lambda: n + "a") + _said(lambda: None < n) + _said(lambda: [] - f) + _said(lambda: timedelta(1) + n)
    ),
}


def _said(call):
    try:
        return (call(),)
    except TypeError as error:
        return (str(error),)


@pytest.mark.parametrize("name", WITH_C_CODE)
def test_symbolic_numbers_meet_types_of_c_code(name):
    """Such code knows int and float by their memory, and has no answer for another class."""
    fn = WITH_C_CODE[name]
    run(lambda x, n, f: (x + 1, repr(fn(n, f))), [(torch.ones(2), n, f) for n, f in ((3, 1.5), (4, 2.25), (5, 0.1))])
    assert all(
        not entry.info.reason
        for entry in run(lambda x, n, f: (x + n, repr(fn(n, f))), [(torch.ones(2), n, 1.5) for n in (3, 4)])[1].entries
    )


@pytest.mark.parametrize("flag", [True, False])
def test_symbolic_numbers_meet_truth_values(flag):
    def fn(x, n, b):
        return (
            x + 1,
            n + b,
            b + n,
            b - n,
            n * b,
            n // (b + 1),
            n % True,
            n**b,
            n < b,
            b <= n,
            n == b,
            (n > 1) + n,
            n & b,
            n | b,
        )

    assert run(fn, [(torch.ones(2), n, flag) for n in (3, 4, 5)])[0] >= 2


def test_a_counter_is_captured_once():
    def make():
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.step = 0

            def forward(self, x):
                self.step += 1
                return x * self.step

        return Net()

    framelift.reset()
    plain, net = make(), make()
    captured = framelift.compile(net, backend="eager")
    for _ in range(20):
        assert_same(plain(torch.ones(2)), captured(torch.ones(2)))
        assert plain.step == net.step and type(net.step) is int
    assert framelift.stats()["captures"] == 1


def test_counters_in_dictionaries_cells_and_globals():
    def make():
        state, count, listed = {"step": 0}, 0, [0]

        def fn(x):
            nonlocal count
            state["step"] += 1
            listed[0] += 2
            count += 3
            return x + state["step"] + count, listed[0]

        return fn

    framelift.reset()
    plain, other = make(), make()
    captured = framelift.compile(other, backend="eager")
    for _ in range(10):
        assert_same(plain(torch.ones(2)), captured(torch.ones(2)))
    assert framelift.stats()["captures"] <= 2


# ---- policy ----------------------------------------------------------------------------------------------------------


def test_dynamic_false_is_static():
    assert run(lambda x: x + 1, rows(2, 3, 4, 5), dynamic=False)[0] == 4


def test_dynamic_true_is_symbolic_from_the_start():
    assert run(lambda x, n: x + n, [(torch.ones(n, 3), n + 1) for n in (2, 3, 4, 5)], dynamic=True)[0] == 1


def test_marks():
    x = torch.ones(4, 3)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=8)
    captured = framelift.compile(lambda x: x * 2, backend="eager")
    framelift.reset()
    for n in (4, 5, 8):
        captured(x if n == 4 else torch.ones(n, 3))
    assert framelift.stats()["captures"] == 1
    captured(torch.ones(9, 3))
    assert framelift.stats()["captures"] == 2


def test_a_mark_that_cannot_be_kept_names_the_line():
    x = torch.ones(4, 3)
    torch._dynamo.mark_dynamic(x, 0)

    def fn(x):
        return x * 2 + len(range(x.shape[0]))

    with pytest.raises(
        framelift.exc.ConstraintViolation, match=r"x.size\(0\) was marked dynamic.*fixes it to 4 at .*test_shapes.py"
    ):
        framelift.compile(fn, backend="eager")(x)


def test_error_on_recompile():
    captured = framelift.compile(lambda x: x + 1, backend="eager")
    with config.patch(error_on_recompile=True):
        captured(torch.ones(2))
        with pytest.raises(framelift.exc.RecompileError, match="size"):
            captured(torch.ones(3))


def test_strides_that_do_not_follow_from_sizes_are_constants():
    def fn(x):
        return x + 1, x.stride(0), x.is_contiguous()

    run(fn, [(torch.ones(n * k)[::k],) for n, k in ((4, 2), (5, 2), (6, 2), (6, 3), (7, 3), (8, 1))])


def test_a_transform_is_captured_without_symbols():
    run(lambda x: torch.vmap(lambda row: row * 2 + x.shape[0])(x), rows(4, 5, 6))


def test_a_compiler_that_takes_no_symbols():
    def picky(graph_module, examples):
        if any(isinstance(example, torch.SymInt) for example in examples):
            raise RuntimeError("no symbols, please")
        return graph_module.forward

    assert run(lambda x: x * 2, rows(4, 5, 6), backend=picky)[0] == 3


# ---- marks ----------------------------------------------------------------------------------------------------------


def test_marks_of_our_own():
    x = torch.ones(4, 6)
    framelift.mark_dynamic(x, 0)
    framelift.maybe_mark_dynamic(x, 1)
    captures, _ = run(lambda x: x.sum(0) * len(range(x.shape[1])), [(x,), (torch.ones(5, 6),), (torch.ones(7, 6),)])
    assert captures == 1

    y = torch.ones(4, 6)
    framelift.mark_static(y)
    z = torch.ones(5, 6)
    framelift.mark_static(z, 0)
    assert run(lambda y: y + 1, [(y,), (z,)])[0] == 2


def test_functions_of_one_factory_take_turns():
    def make(scale, extra=1):
        def inner(x):
            return x * scale + extra

        return inner

    calls = [(make(n), torch.ones(2)) for n in range(12)] + [
        (make(3, 7), torch.ones(2)),
        (lambda x: x - 1, torch.ones(2)),
        (make(5), torch.ones(2)),
    ]
    assert run(lambda f, x: f(x) + 1, calls)[0] <= 4
    run(lambda f, x: (f(x), f.__name__), calls)


@pytest.mark.parametrize(
    "asks",
    [
        lambda f, x, fns, table, some: x * table[f],
        lambda f, x, fns, table, some: x + (f in some),
        lambda f, x, fns, table, some: x * fns.index(f),
        lambda f, x, fns, table, some: f(x) + table.get(f, 9),
        lambda f, x, fns, table, some: x + (fns[0], fns[2]).count(f) + fns.count(f),
        lambda f, x, fns, table, some: x + len({f, fns[3]}),
        lambda f, x, fns, table, some: x + table.get((f, 1), 5),
    ],
)
def test_a_function_told_by_its_code_may_be_a_key(asks):
    def make(scale):
        def inner(x):
            return x * scale

        return inner

    fns = [make(n) for n in range(5)]
    table = {f: n for n, f in enumerate(fns)} | {(fns[1], 1): 7}
    run(asks, [(fns[n], torch.ones(2), fns, table, {fns[0], fns[2]}) for n in (0, 1, 2, 3, 4, 0, 1, 2)])


def test_a_function_told_by_its_code_is_still_itself():
    def make(scale):
        def inner(x):
            return x * scale

        return inner

    special = make(2)
    renamed = make(3)
    renamed.__name__ = "other"
    marked = make(4)
    marked.note = 7

    def fn(f, x):
        return f(x), f is special, f.__name__, getattr(f, "note", 0)

    run(
        fn,
        [(f, torch.ones(2)) for f in (make(1), make(5), make(6), special, renamed, marked, make(7), special, renamed)],
    )


def test_dictionaries_whose_keys_change_are_read_key_by_key():
    def fn(x, table):
        return x * table["base"] + table.get("more", 0)

    assert run(fn, [(torch.ones(2), {"base": 2, f"extra{n}": n}) for n in range(12)])[0] == 1
    run(fn, [(torch.ones(2), {"base": 2, f"extra{n}": n, **({"more": n} if n % 3 else {})}) for n in range(8)])
    run(lambda x, table: x * sum(table.values()), [(torch.ones(2), {f"key{n}": n}) for n in range(6)])


def test_strides_that_change_alone():
    calls = [(torch.randn(4, n)[:, 0:1],) for n in (1, 2, 3, 5, 9)] + [
        (torch.randn(2, n, 3)[:, :2],) for n in (4, 5, 6, 7)
    ]
    assert run(lambda x: (x * 2, x.stride(), x.is_contiguous()), calls)[0] <= 5


def test_torchs_functions_of_plain_numbers_are_captured() -> None:
    """They are substitutes themselves: called on plain numbers they must not meet their own substitute again."""

    def function(x: torch.Tensor) -> torch.Tensor:
        torch._check(x.size(0) > 1)
        return x.sum() + torch.sym_min(x.size(0), 100) + torch.sym_max(2, 3) + torch.sym_int(2.0) + torch.sym_float(3)

    compiled = framelift.compile(function, backend="eager", fullgraph=True, dynamic=False)
    assert compiled(torch.ones(2)).item() == 2 + 2 + 3 + 2 + 3
    assert compiled.entries[0].run is not None


def test_sizes_inside_the_body_of_a_higher_order_operator() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
        return torch.cond(flag, lambda z: z.reshape(x.shape[0], 2) * y.shape[0], lambda z: z - 1.0, (x * 1,))

    compiled = framelift.compile(function, backend="eager", fullgraph=True, dynamic=True)
    for rows, other in ((3, 5), (4, 7)):
        for flag in (True, False):
            x, y = torch.randn(rows, 2), torch.ones(other)
            torch.testing.assert_close(compiled(x, y, torch.tensor(flag)), x * other if flag else x - 1)
    assert len(compiled.entries) == 1


@pytest.mark.parametrize("mark", [framelift.mark_dynamic, torch._dynamo.mark_dynamic])
def test_a_mark_after_a_static_capture_is_seen(mark: Any) -> None:
    graphs: list[Any] = []

    def backend(graph_module: Any, _examples: Any) -> Any:
        graphs.append(graph_module)
        return graph_module.forward

    compiled = framelift.compile(lambda x: x * 2, backend=backend, fullgraph=True)
    compiled(torch.ones(4, 3))
    marked = torch.ones(4, 3)
    mark(marked, 0)
    compiled(marked)
    assert len(graphs) == 2
    compiled(torch.ones(9, 3))  # served by the second
    compiled(torch.ones(4, 3))
    assert len(graphs) == 2
    assert [one.sentence.split(" (")[0] for one in compiled.recompiles()] == ["x is marked dynamic in 0"]


def test_marks_on_the_guard_alone() -> None:
    from framelift.guards.kinds import Guard, tensor_facts
    from framelift.guards.native_program import build_program
    from framelift.guards.reference import check_reference
    from framelift.vocabulary.origins import arg

    for captured in ((), (0,), (0, 1)):
        x = torch.ones(4, 3)
        for dim in captured:
            framelift.mark_dynamic(x, dim)
        guards = [Guard(arg(0, "x"), "TENSOR", tensor_facts(x, ask_marks=True))]
        program = build_program(guards, [arg(0, "x")], [], [], None)[0]
        for now in ((), (0,), (1,), (-1,), (0, 1)):
            other = torch.ones(4, 3)
            for dim in now:
                framelift.mark_dynamic(other, dim)
            expected = {dim % 2 for dim in now} <= set(captured)
            assert (check_reference(guards, [], None, (other,)) is None) == expected
            assert (program.check((other,)) is None) == expected


@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_numbers_in_long_containers_are_followed(kind: type) -> None:
    """Long containers of nothing but leaves are copied from a constant; a number that changes is none."""

    def long(x: torch.Tensor, n: int) -> tuple[torch.Tensor, object]:
        items = [*range(40), n + 1]
        return x + n, dict.fromkeys(items[:40], n + 1) if kind is dict else kind(items)

    compiled = framelift.compile(long, backend="eager")
    for n in range(3, 9):
        got = compiled(torch.ones(1), n)[1]
        want = long(torch.ones(1), n)[1]
        assert got == want and type(got) is kind
        assert {type(v) for v in (got.values() if kind is dict else got)} == {int}


@pytest.mark.parametrize("breaks", [False, True])
def test_answers_about_the_layout_of_what_no_graph_uses(breaks: bool) -> None:
    """That strides follow from sizes, and that sizes are 2 at least, is relied on also where the tensor is no input of
    the graph.
    """

    def f(x):
        answer = x.is_contiguous()
        if breaks:
            framelift.graph_break()
        return answer, x.is_contiguous()

    line, column = torch.rand(3), torch.rand(4, 3)
    for shapes in (
        [
            torch.rand(2, 3),
            torch.rand(2, 5),
            torch.rand(2, 4),
            line.expand(2, 3),
            column[::2],
            torch.rand(1, 3).expand(2, 3),
        ],
        [torch.rand(n, 3).t() for n in (4, 5, 6, 1, 0, 7)],
    ):
        compiled = framelift.compile(f, backend="eager")
        for x in shapes:
            assert compiled(x) == f(x), (x.shape, x.stride())
