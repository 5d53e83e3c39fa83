"""numpy arrays as inputs, inside, and as results."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

import framelift
from support import World, check

X = torch.arange(6.0).reshape(2, 3)


def parts(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in parts(item)] if isinstance(value, (tuple, list)) else [value]


def compare(program: Any, *args: Any) -> Any:
    """Same values, types and dtypes; same effects on the arguments."""
    framelift.reset()
    captured = framelift.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        plain, watched = copy.deepcopy(args), copy.deepcopy(args)
        want, got = program(*plain), captured(*watched)
        for a, b in zip(parts((want, plain)), parts((got, watched)), strict=True):
            assert type(a) is type(b), (a, b)
            if a is not Ellipsis and not isinstance(a, slice):
                assert getattr(a, "dtype", None) == getattr(b, "dtype", None) and np.allclose(
                    np.asarray(a), np.asarray(b)
                )
    return got


def from_tensor(x: Any) -> Any:
    a = x.numpy()
    return (
        a.itemsize,
        a.strides,
        a.shape,
        a.ndim,
        a.size,
        torch.from_numpy(a.T),
        a.real,
        a.copy(),
        a.reshape([1, a.size]),
        a.transpose(0, 1),
        a.astype(np.float64),
    )


def functions(x: Any) -> Any:
    return np.linalg.norm(x.numpy(), axis=0), np.fft.fftshift(x.numpy()), np.meshgrid(x[0].numpy(), x[1].numpy())


def arithmetic(a: Any) -> Any:
    joined = np.concatenate([a, np.ones((1, 2))])
    return (
        a.sum(),
        (a * 2 + 1).mean(axis=0),
        np.sqrt(2.0),
        a.dtype == np.float64,
        isinstance(a, np.ndarray),
        type(a) is np.ndarray,
        joined,
    )


def values(x: Any) -> Any:
    return x + np.iinfo(np.int16).max, np.float32(3) * 2


def made(x: Any = None) -> Any:
    return np.ones(3) ** 2


def like_tensors(x: Any) -> Any:
    return np.ones_like(x, dtype=np.int64), np.full_like(x, 3), np.zeros_like(x + 1)


@pytest.mark.parametrize(
    "program, args",
    [
        (from_tensor, (X,)),
        (like_tensors, (X,)),
        (functions, (X,)),
        (arithmetic, (np.arange(4.0).reshape(2, 2),)),
        (values, (X,)),
        (made, ()),
    ],
)
def test_arrays(program: Any, args: tuple[Any, ...]) -> None:
    compare(program, *args)


def store(a: Any, index: Any, value: Any) -> Any:
    a[index] = value
    return a


@pytest.mark.parametrize(
    "a, index, value",
    [
        (np.zeros(4), np.s_[...], np.ones(4)),
        (np.array([[1, 1], [2, 2]]), np.s_[0, ...], np.zeros(2)),
        (np.array([[1, 1], [2, 2]]), np.s_[..., 0], np.array([3, 3])),
    ],
)
def test_an_array_that_comes_in_is_written(a: Any, index: Any, value: Any) -> None:
    compare(store, a, index, value)


def grow(a: Any) -> Any:
    a += 1
    b = a.astype(a.dtype)
    b[0] = 9
    return a.max(), b


def test_in_place_and_copies() -> None:
    compare(grow, np.arange(4))


def test_the_very_array_comes_back_and_views_share_memory() -> None:
    framelift.reset()
    captured = framelift.compile(lambda a: (a, a.T), backend="eager", fullgraph=True)
    a = np.zeros((2, 3))
    same, view = captured(a)
    assert same is a and np.shares_memory(view, a)


def test_another_dtype_or_shape_is_another_capture() -> None:
    framelift.reset()
    captured = framelift.compile(lambda a: a * 2, backend="eager", fullgraph=True)
    for a in (np.ones(2), np.ones(2, np.float32), np.ones((2, 2)), np.ones(2, bool)):
        want = a * 2
        got = captured(a)
        assert want.dtype == got.dtype and np.array_equal(want, got)


def shared(a: Any, b: Any) -> Any:
    a[0] = 5
    return b + 1


def test_arrays_that_share_memory_are_not_captured() -> None:
    framelift.reset()
    a = np.zeros(3)
    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(shared, backend="eager", fullgraph=True)(a, a[:])


def test_what_tensors_do_not_have_is_not_captured() -> None:
    framelift.reset()
    captured = framelift.compile(lambda a: a + a, backend="eager")
    assert list(captured(np.array(["a", "b"], dtype=object))) == ["aa", "bb"]
    frozen = np.zeros(2)
    frozen.flags.writeable = False
    assert np.array_equal(captured(frozen), np.zeros(2))


def test_attributes_that_torch_does_not_have_break() -> None:
    def program(a: Any) -> Any:
        a += 1
        text = a.tobytes()
        a += 1
        return text

    framelift.reset()
    plain, watched = np.array([1, 2]), np.array([1, 2])
    assert framelift.compile(program, backend="eager")(watched) == program(plain)
    assert (plain == watched).all() and framelift.stats()["graphs"] == 2


def test_attributes_that_nobody_has() -> None:
    def program(a: Any) -> Any:
        try:
            return a.nothing
        except AttributeError as error:
            return a + len(str(error))

    compare(program, np.array([1, 2]))


# ---- kinds as numpy gives them --------------------------------------------------------------------------------------

FROM = {"array": lambda a: a, "sum": lambda a: a.sum(), "item": lambda a: a[0][0]}
DONE: dict[str, Any] = {
    "/": lambda a: a / 68,
    "//": lambda a: a // 2,
    "+": lambda a: a + 2.5,
    "r-": lambda a: 2 - a,
    "**": lambda a: a**2,
    "sqrt": np.sqrt,
    "sum": np.sum,
    "cumsum": np.cumsum,
    "mean": np.mean,
    "where": lambda a: np.where(a > 0, a, 2),
    "where float": lambda a: np.where(a > 0, a, 2.5),
    "maximum": lambda a: np.maximum(a, np.float32(1)),
    "int64": lambda a: a * np.int64(3),
}


@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int32, torch.uint8, torch.bool, torch.float16, torch.float32, torch.float64]
)
@pytest.mark.parametrize("source", FROM)
def test_results_are_of_the_kind_numpy_gives(source: str, dtype: torch.dtype) -> None:
    for done in DONE.values():

        def program(x: torch.Tensor) -> Any:
            return done(FROM[source](x.numpy()))  # noqa: B023

        x = torch.ones(2, 2).to(dtype)
        try:
            want = program(x)
        except TypeError:
            continue
        got = framelift.compile(program, backend="eager")(x)
        assert (
            type(got) is type(want)
            and got.dtype == want.dtype
            and np.shape(got) == np.shape(want)
            and np.allclose(got, want, rtol=1e-3)
        )


MIXED: list[Any] = [
    lambda x, a: x + a.sum(),
    lambda x, a: x + a,
    lambda x, a: a + x,
    lambda x, a: a.sum() * x,
    lambda x, a: x[a.sum() - 4],
    lambda x, a: torch.add(x, a.sum()),
    lambda x, a: np.add(a, x),
    lambda x, a: torch.tensor(a.sum()),
    lambda x, a: torch.full((2,), a.sum()),
    lambda x, a: x.reshape(a.sum() - 2, 1),
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("index", range(len(MIXED)))
def test_arrays_and_tensors_together(index: int) -> None:
    """What fails on stand-ins alone is no exception of the program."""

    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        try:
            return MIXED[index](x, y.numpy())
        except (RuntimeError, TypeError):
            return x - 7

    x, y = torch.ones(2), torch.ones(2, 2, dtype=torch.int64)
    want, got = program(x, y), framelift.compile(program, backend="eager")(x, y)
    assert type(got) is type(want) and got.dtype == want.dtype and bool((got == want).all())


@pytest.mark.parametrize(
    "scalar",
    [np.int64(3), np.float32(2.5), np.float64(2.5), np.bool_(True), np.int8(2), np.complex64(1 + 2j), np.uint8(7)],
    ids=lambda s: type(s).__name__,
)
def test_scalars_given_to_operations(scalar: Any) -> None:
    for done in (
        lambda x: x + scalar,
        lambda x: scalar * x,
        lambda x: torch.full((2,), scalar),
        lambda x: torch.tensor(scalar),
        lambda x: torch.tensor([scalar]),
        lambda x: torch.as_tensor(scalar),
        lambda x: torch.full_like(x, scalar),
        lambda x: x < scalar,
    ):
        x = torch.ones(4)
        try:
            want = done(x)
        except (TypeError, RuntimeError):
            continue
        got = framelift.compile(done, backend="eager")(x)
        assert torch.equal(got, want) and got.dtype == want.dtype


def test_several_arrays_of_which_little_is_read() -> None:
    """The tensors over them are made for each call, and nobody keeps them."""

    def f(x: Any, a: Any, b: Any, c: Any) -> Any:
        return x + float(a[0]) if a.shape == b.shape == c.shape else x

    captured = framelift.compile(f, backend="eager")
    with framelift.config.patch(strict=True):
        for _ in range(3):
            assert captured(torch.ones(2), np.ones(3), np.zeros(3), np.zeros(3)).tolist() == [2.0, 2.0]


def test_arrays_made_of_numbers() -> None:
    def program(x: Any) -> Any:
        first = np.array([1.0, 2.5])
        first[0] = 5
        return (
            x * 2,
            first,
            np.asarray([[1, 2], [3, 4]]),
            np.array(7),
            np.array([True, False]),
            np.array([1, 2.5], dtype=np.float32),
            np.array((1.9, 2), dtype=int),
            torch.from_numpy(np.array([x.shape[0], 0.5])),
        )

    check(program, X)


def test_arrays_of_numbers_that_change() -> None:
    def program(x: Any, k: int) -> Any:
        return torch.from_numpy(np.array([k, 2, k + 1])) + x.sum().long(), np.array([k, 0.5])

    def more(_: int, world: World) -> None:
        world.args[1] += 1

    check(program, X, 3, mutate=more, calls=4, captures=2, graphs=2)


ARRAY = np.array([1.0, 2.0, 3.0], dtype=np.float32)


def test_a_method_of_an_array_called_at_a_break_is_numpys() -> None:
    def program(x: Any) -> Any:
        return x * 2, ARRAY.astype(int).tolist()

    check(program, X, breaks=1, graphs=None, calls=1)


def test_each_tensor_over_an_array_is_another_one() -> None:
    def f(x: Any, a: Any) -> Any:
        one, other, third = torch.as_tensor(a), torch.from_numpy(a), torch.asarray(a)
        one.add_(1)
        return (
            x + other,
            one is other,
            other is third,
            torch.as_tensor(a) is torch.as_tensor(a),
            {one: 1}.get(other, 2),
            {one: 1}.get(one),
            torch.as_tensor(x) is x,
        )

    plain, watched = np.arange(3), np.arange(3)
    want, got = f(torch.ones(3), plain), framelift.compile(f, backend="eager", fullgraph=True)(torch.ones(3), watched)
    assert torch.equal(want[0], got[0]) and want[1:] == got[1:]
    assert plain.tolist() == watched.tolist()


def test_symbolic_numbers_beside_scalars_of_numpy() -> None:
    """What comes out is numpy's."""

    def f(x: Any, n: int, r: float) -> Any:
        two, half = np.int64(2), np.float32(0.5)
        return (
            x + n,
            n + two,
            two + n,
            n * half,
            half - r,
            r / two,
            two**n,
            n**two,
            n // two,
            divmod(n, two),
            n % two,
            n == two,
            two < n,
            r > half,
            n & two,
            sum([two, n]),
            max(two, n),
        )

    captured = framelift.compile(f, backend="eager")
    for n, r in ((3, 0.25), (4, 0.5), (5, 1.5), (2, 2.5)):
        want, got = f(torch.ones(1), n, r), captured(torch.ones(1), n, r)
        assert torch.equal(want[0], got[0]) and want[1:] == got[1:]
        assert [type(v) for v in want[1:]] == [type(v) for v in got[1:]], (want, got)


# ---- what an array says of itself -----------------------------------------------------------------------------------


@dataclasses.dataclass
class Holder:
    held: Any


TEXTS = (
    "repr(a)",
    "str(a)",
    "ascii(a)",
    "format(a, '')",
    "f'{a}'",
    "f'{a!r:>30}'",
    "'%s' % (a,)",
    "'%(k)s' % {'k': a}",
    "'{}'.format(a)",
    "str([a])",
    "str({'k': a})",
    "repr(Holder(a))",
    "str(ValueError(a))",
    "a.__repr__()",
    "str(a[0])",
    "f'{a[0]:.2f}'",
    "repr(a.sum())",
    "list(map(repr, [a]))",
)
FACTS = (
    "type(a).__name__",
    "a.__class__ is type(a)",
    "hasattr(a, 'tensor')",
    "getattr(a, 'tensor', None)",
    "hasattr(a, '__dict__')",
    "vars(a)",
    "a.__module__",
    "hasattr(a, 'ptp')",
    "setattr(a, 'foo', 1)",
    "a.base is None",
    "a.flags.owndata",
    "(a.resize(4), a.tolist())",
    "round(a[0])",
    "{a[0]: 1}",
    "hash(a)",
    "dir(a) == dir(np.ndarray)",
    "type(a.sum)",
    "np.isscalar(np.array(1))",
    "np.isscalar(a[0])",
    "a.nothing",
)


@pytest.mark.parametrize("made", ["np.array([n, 1])", "np.ones(2)"])
@pytest.mark.parametrize("expression", [*TEXTS, *FACTS])
def test_an_array_speaks_as_numpys(expression: str, made: str) -> None:
    """Asked in a `try`, so that a complaint inside is not simply raised again in plain Python."""
    names: dict[str, Any] = {"np": np, "Holder": Holder}
    exec(
        f"def program(x, n):\n  y, a = x + 1, {made}\n  try: return {expression}, y\n"
        "  except Exception as error: return type(error), str(error), y",
        names,
    )
    program = names["program"]
    framelift.reset()
    captured = framelift.compile(program, backend="eager")
    for _ in range(2):
        *want, _ = program(X, 2)
        *got, _ = captured(X, 2)
        assert repr(want) == repr(got)


def owners(x: Any) -> Any:
    a, c = np.zeros(3), np.ones(2)
    return a[:2], c, c * 2, np.array([1, 2]), x.numpy() + 1, a


def test_arrays_that_own_their_memory_do_so_outside() -> None:
    got = framelift.compile(owners, backend="eager", fullgraph=True)(X)
    assert [array.flags.owndata for array in got[:-1]] == [array.flags.owndata for array in owners(X)[:-1]]
    assert np.shares_memory(got[0], got[-1])  # which is why the last one's memory stays the graph's


KEPT: list[Any] = []


@pytest.mark.parametrize(
    "made",
    [
        "np.float32(2.5)",
        "np.int64(len(x.shape)) + 1",
        "np.float32('nan')",
        "np.bool_(True)",
        "np.longdouble(1) / 3",
        "np.complex64(1j)",
        "np.datetime64('2020-01-01')",
        "np.timedelta64(2, 'h')",
        "np.dtype('float32')",
    ],
)
def test_a_scalar_made_inside_is_another_object_at_every_call(made: str) -> None:
    names: dict[str, Any] = {"np": np, "KEPT": KEPT}
    exec(f"def program(x):\n  a = {made}\n  KEPT.append((a, [a, {made}]))\n  return x + 1", names)
    check(names["program"], X, calls=4, state=[(names, "KEPT")], graphs=2, captures=2)  # the first list is empty


def test_a_scalar_that_was_there_stays_the_object_it_is() -> None:
    names: dict[str, Any] = {"KEPT": KEPT, "RATE": np.float64(2.5)}
    exec("def program(x):\n  KEPT.append(RATE)\n  return x + 1", names)

    def mutate(number: int, world: World) -> None:
        if number == 2:
            names["RATE"] = np.float64(2.5)

    check(names["program"], X, calls=4, state=[(names, "KEPT"), (names, "RATE")], mutate=mutate, graphs=None)
    assert not KEPT


def test_scalars_that_are_no_numbers_to_each_other_are_told_apart() -> None:
    """A NaN is found in a list by identity alone."""

    def program(x: Any) -> Any:
        return x + 1, np.float32("nan")

    captured = framelift.compile(program, backend="eager", fullgraph=True)
    kept = [captured(X)[1] for _ in range(3)]
    assert [kept.count(scalar) for scalar in kept] == [1, 1, 1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.linspace(0, 1, 7),
        lambda: np.linspace(0.1, 0.9, 5, endpoint=False),
        lambda: np.logspace(0, 2, 4),
        lambda: np.geomspace(1, 9, 3),
        lambda: np.full((2, 3), 2.5),
        lambda: np.full(3, np.float32(0.1)),
        lambda: np.tri(3),
        lambda: np.linspace(0, 1, 3, dtype=np.float32),
    ],
)
def test_arrays_of_plain_values_are_numpys(make: Any) -> None:
    def program(x):
        made = make()
        return made, made + 1, x.numpy().sum() * made

    got = compare(program, X)
    assert np.array_equal(got[0], make())


def test_limits_of_kinds_of_numbers() -> None:
    def program(x):
        a = x.numpy()
        return (
            np.iinfo(np.int32).max,
            np.iinfo("int8").min,
            np.finfo(np.float32).eps,
            np.finfo(a.dtype).max,
            np.finfo(np.float64).bits,
            x * float(np.finfo(np.float16).max),
        )

    compare(program, X)


@pytest.mark.parametrize(
    "take",
    ["a[0]", "list(a)", "[v for v in a]", "next(iter(a))", "a[None][0, 0]", "a.take(0)", "a.max()", "(a[0], a[1:])"],
)
def test_scalars_are_values_of_their_own(take: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def program(x, a):\n    taken = {take}\n    a += 1\n    return x + 1, taken, a", scope)
    check(scope["program"], torch.ones(2), np.array([1.0, 2.0]), graphs=None, breaks=None)


def _written_between(a: Any) -> Any:
    seen = []
    for value in a:
        a += 1
        seen.append(value)
    return seen, a


def _scalars_change_by_new_objects(a: Any) -> Any:
    total = a.sum()
    before = total
    total += 1
    total *= a
    return before, total


SCALARS_WITH_ARRAYS = {
    "both sides": lambda a: (a.sum() * a, a - a.mean(), np.linalg.norm(a) + a, np.where(a > a.mean(), a, a.max())),
    "two scalars": lambda a: (a.sum() + a.mean(), -a.sum(), a[0] * a[1], a.sum() > 3),
    "of numpy's own": lambda a: (a + np.float64(2), np.float64(2) * a, a.sum() / np.float64(3)),
    "in place": _scalars_change_by_new_objects,
    "iterated": lambda a: (sum(value * 2 for value in a), list(a), [i * value for i, value in enumerate(a)]),
    "rows": lambda a: [one.sum() - other for one, other in zip(a.reshape(2, 2), a.reshape(2, 2))],
    "written between": _written_between,
}


@pytest.mark.parametrize("name", SCALARS_WITH_ARRAYS)
def test_scalars_and_rows_of_arrays(name: str) -> None:
    compare(SCALARS_WITH_ARRAYS[name], np.arange(4.0))


def test_integers_are_divided_as_doubles() -> None:
    compare(lambda a: (a / 2, 1 / (a + 1), a / a.sum(), np.sqrt(a), np.true_divide(a, a + 1)), np.arange(4))
    with pytest.raises(framelift.exc.Unsupported, match="numpy gives float16"):
        framelift.compile(lambda a: np.sqrt(a), backend="eager", fullgraph=True)(np.arange(4, dtype=np.int8))


def test_plain_numbers_give_scalars() -> None:
    def f(x):
        made = (np.prod([2, 3]), np.max([1.5, 2]), np.mean((1, 2)), np.clip(5, 0, 3), np.sum([True, False]))
        return x * made[0] + made[2], made

    check(f, torch.ones(3))
    check(lambda x, n: x * np.sum([n, 2]), torch.ones(3), 4)


def test_arrays_with_plain_numbers_and_lists() -> None:
    def f(x):
        a = x.numpy()
        return np.clip(a, 0.5, 1), np.where(a > 1, a, 0.25), np.maximum([0.1, 0.2, 0.3], a), np.append(a, [1.5])

    check(f, torch.arange(3.0))
    torch.set_default_dtype(torch.float64)
    try:
        check(f, torch.arange(3.0))
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "program",
    (
        lambda a: torch.tensor([a[0], a[1]]),
        lambda a: torch.tensor([[a[0], 2], [3, a[1]]]) * 2,
        lambda a: torch.as_tensor([a.sum(), 1.0]),
        lambda a: torch.tensor([np.float32(1.5), np.float64(2), np.int64(3)]),
        lambda a: torch.tensor(list(np.arange(3))),
        lambda a: torch.tensor(np.float64(2)),
        lambda a: np.asarray(a.sum()),
        lambda a: np.asarray(a[0]) + 1,
    ),
)
def test_scalars_in_the_data_of_tensors_and_arrays(program: Any) -> None:
    compare(program, np.arange(3.0))
    compare(program, np.arange(3, dtype=np.float32))


@pytest.mark.parametrize("dtype", ("float32", "float64", "int64", "int32"))
@pytest.mark.parametrize(
    "program",
    (
        lambda a, n: a * n,
        lambda a, n: n - a,
        lambda a, n: a.sum() / n,
        lambda a, n: np.maximum(a, n) > n,
        lambda a, n: (a + 1) ** n,
        lambda a, n: np.arange(n) + a[0],
    ),
)
def test_numbers_that_change_beside_arrays(program: Any, dtype: str) -> None:
    framelift.reset()
    captured = framelift.compile(program, backend="eager", fullgraph=True)
    for n in (3, 4, 5, -2):
        a = np.arange(6).astype(dtype)
        if n < 0 and program(np.ones(1, "float32"), 2).shape == (1,) and dtype.startswith("int"):
            continue  # numpy raises for powers
        want, got = program(a, n), captured(a, n)
        assert type(want) is type(got) and want.dtype == got.dtype and np.allclose(want, got)


def test_results_whose_shape_values_decide() -> None:
    for program in (
        lambda a: a[a > 1],
        lambda a: a[a > 1].sum(),
        lambda a: np.where(a > 1)[0],
        lambda a: np.nonzero(a)[0] * 2,
        lambda a: np.unique(a),
    ):
        captured = framelift.compile(program, backend="eager", fullgraph=True)
        for a in (np.arange(3.0), np.arange(6.0), np.zeros(4), np.array([3.0, 3.0, 0.5])):
            want, got = program(a), captured(a)
            assert type(want) is type(got) and want.shape == got.shape and np.array_equal(want, got)
