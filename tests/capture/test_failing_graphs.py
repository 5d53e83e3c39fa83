"""Graphs that fail on real data.

The call is plain Python's then, with its handlers, effects and lines, and nothing is written twice.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch

import framelift
from framelift import _core
from framelift.graph.analysis.infallible import in_handler
from support import check

TABLE = torch.arange(3.0)
LOG: list[Any] = []
GOOD, BAD = torch.tensor([0, 2]), torch.tensor([7, 0])


def caught(x: Any, i: Any) -> Any:
    try:
        return TABLE[i] + x
    except IndexError:
        return x


def written_before(x: Any, i: Any) -> Any:
    x.add_(1)
    return caught(x, i)


def written_after(x: Any, i: Any) -> Any:
    y = caught(x, i)
    x.add_(1)
    return y


def half_written(x: Any, i: Any) -> Any:
    x.add_(1)
    try:
        x.index_add_(0, i, TABLE[:2])
    except (IndexError, RuntimeError):
        x.mul_(2)
    return x


def seen_through_a_view(x: Any, i: Any) -> Any:
    part = x[:1].expand(4)
    x[:1].add_(1)
    return part + caught(x, i)[0]


def drawn_before(x: Any, i: Any) -> Any:
    z = torch.rand(2)
    return z + caught(x, i)


def drawn_after(x: Any, i: Any) -> Any:
    return caught(x, i) + torch.rand(2)


def with_effects(x: Any, i: Any) -> Any:
    LOG.append("before")
    x.add_(1)
    y = TABLE[i] + x
    LOG.append("behind")
    return y


def with_effects_and_numbers(x: Any, i: Any) -> Any:
    LOG.append("before")
    return TABLE[i] + x + torch.rand(2)


def in_a_finally(x: Any, i: Any) -> Any:
    try:
        x.add_(1)
        return TABLE[i]
    finally:
        x.mul_(3)


def in_a_block(x: Any, i: Any) -> Any:
    x.add_(1)
    with contextlib.suppress(IndexError):
        x = TABLE[i] + x
    return x


def written_through_data(x: Any, i: Any) -> Any:
    x.data.add_(1)
    x.data[0] = 5
    return TABLE[i] + x


PROGRAMS = (
    caught,
    written_before,
    written_through_data,
    written_after,
    half_written,
    seen_through_a_view,
    drawn_before,
    drawn_after,
    with_effects,
    with_effects_and_numbers,
    in_a_finally,
    in_a_block,
)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_graph_that_fails_is_plain_python(program: Any, backend: str) -> None:
    def run(f: Any) -> list[Any]:
        found = []
        for index in (GOOD, BAD, GOOD, BAD):
            LOG.clear()
            torch.manual_seed(3)
            x = torch.tensor([1.0, 2.0])
            try:
                result = f(x, index.clone()).tolist()
            except (IndexError, RuntimeError) as error:
                result = type(error)
            found.append((result, x.tolist(), x._version, list(LOG), torch.rand(1).item()))
        return found

    with framelift.config.patch(strict=True):
        wanted, got = run(program), run(framelift.compile(program, backend=backend))
    if backend == "aot_eager":  # writes once, whatever the program does
        wanted, got = ([(*row[:2], *row[3:]) for row in rows] for rows in (wanted, got))
    assert got == wanted


@framelift.disable
def off(v: Any) -> Any:
    return v


NARROW, WIDE = torch.ones(3), torch.ones(3, dtype=torch.float64)


def test_a_block_that_a_break_is_in_is_left_when_the_graph_behind_fails() -> None:
    def program(x: Any, w: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            off(1)
            t = w @ torch.eye(3)  # the wide type is not autocast's: only the real operation fails
        x += 1
        return t

    compiled = framelift.compile(program, backend="eager")
    for w in (NARROW, WIDE, NARROW):
        with contextlib.suppress(RuntimeError):
            compiled(torch.ones(2), w)
        assert not torch.is_autocast_enabled("cpu")


def test_a_block_behind_a_break_is_left_though_nothing_can_be_taken_back() -> None:
    def program(x: Any, i: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            off(1)
            x.mul_(2)
            return TABLE[i] + x

    compiled = framelift.compile(program, backend="eager")
    for index in (GOOD, BAD, GOOD, BAD):
        x = torch.ones(2, requires_grad=True) * 3
        with contextlib.suppress(IndexError):
            compiled(x, index)
        assert not torch.is_autocast_enabled("cpu") and x.tolist() == [6.0, 6.0]


def test_a_history_that_was_changed_is_not_taken_back() -> None:
    """The error leaves the graph as it is: the input is another one by now."""

    def program(x: Any, i: Any) -> Any:
        x.mul_(2)
        return TABLE[i] + x

    compiled = framelift.compile(program, backend="eager")
    for index, raises in ((GOOD, False), (BAD, True)):
        leaf = torch.ones(2, requires_grad=True)
        x = leaf * 3
        with pytest.raises(IndexError) if raises else contextlib.nullcontext():
            compiled(x, index)
        assert x.tolist() == [6.0, 6.0]


@pytest.mark.parametrize("large", [10**20, 1e300])
@pytest.mark.parametrize(
    "act",
    [lambda x, n: x.add_(n), lambda x, n: x.fill_(n), lambda x, n: x.__setitem__(0, n), lambda x, n: x.mul_(n * n)],
)
def test_a_number_too_large_for_torch_fails_as_in_plain_python(act: Any, large: Any) -> None:
    """A write came before, and an effect between the two."""

    def program(x: Any, y: Any, n: Any) -> Any:
        y.add_(1)
        LOG.append("between")
        act(x, n)
        return x.sum()

    def run(function: Any) -> list[Any]:
        LOG.clear()
        y, found = torch.zeros(2), []
        for n in map(type(large), (3, 4, 5, large, 6)):
            try:
                found.append(function(torch.ones(2), y, n).item())
            except (OverflowError, RuntimeError, ValueError) as error:
                found.append((type(error), str(error)))
            found.append((y.tolist(), len(LOG)))
        return found

    framelift.reset()
    assert run(framelift.compile(program, backend="eager")) == run(program)


@pytest.mark.parametrize(
    "act", [lambda x: x.fill_(1e300), lambda x: x.__setitem__(0, 1e300), lambda x: x.clamp_(max=1e300)]
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_constant_too_large_for_torch_fails_as_in_plain_python(act: Any, dtype: torch.dtype) -> None:
    """A write came before, and an effect between the two, also in the first call."""

    def program(x: Any, y: Any) -> Any:
        y.add_(1)
        LOG.append("between")
        act(x)
        return x.sum()

    def run(function: Any) -> list[Any]:
        LOG.clear()
        y, found = torch.zeros(2), []
        try:
            found.append(function(torch.ones(2, dtype=dtype), y).item())
        except (OverflowError, RuntimeError, ValueError) as error:
            found.append((type(error), str(error)))
        return [*found, y.tolist(), len(LOG)]

    framelift.reset()
    assert run(framelift.compile(program, backend="eager")) == run(program)


def test_writes_of_sure_operations_cost_no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "memory_copies", None)
    stats = torch.nn.BatchNorm1d(3)
    check(lambda x: stats(x).relu_() @ torch.eye(3), torch.ones(2, 3))
    weights = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    for each in weights:
        each.grad = torch.ones(3)
    step = framelift.compile(torch.optim.Adam(weights).step, backend="eager")
    for _ in range(3):
        step()


MEMORIES = {
    "small": lambda: (torch.randn(3), torch.arange(4)[1:], torch.ones(2, 3).t()),
    "one storage": lambda: (base := torch.randn(4), base[1:], base.view(2, 2)),
    "large": lambda: (torch.randn(300, 300), torch.randn(2)),
    "empty": lambda: (torch.zeros(0), torch.randn(1)),
    "parameters": lambda: (torch.nn.Parameter(torch.randn(3)), torch.nn.Parameter(torch.ones(70_000))),
    "none": lambda: (),
}


@pytest.mark.parametrize("memory", MEMORIES)
def test_copies_of_memory_are_put_back(memory: str) -> None:
    tensors: tuple[torch.Tensor, ...] = MEMORIES[memory]()
    before = [one.detach().clone() for one in tensors]
    copies, versions = _core.memory_copies(tensors), _core.versions(tensors)
    for one in tensors:
        one.data.fill_(7)
    assert _core.put_back_memory(tensors, copies) and _core.versions(tensors) == versions
    assert all(map(torch.equal, tensors, before))


@pytest.mark.parametrize("count", [0, 1, 8, 9, 17, 300])
def test_which_tensors_share_memory(count: int) -> None:
    bases = [torch.zeros(2) for _ in range(1 + count // 3)]
    given: list[Any] = [
        (bases[i * 7 % len(bases)], bases[i % len(bases)][1:], 5, torch.ones(1))[i % 4] for i in range(count)
    ]
    first: dict[int, int] = {}
    expected = [
        first.setdefault(one.untyped_storage()._cdata, i) if isinstance(one, torch.Tensor) else i
        for i, one in enumerate(given)
    ]
    assert _core.memory_pattern(tuple(given), None, False) == tuple(expected)


@pytest.mark.parametrize("size", [3, 90_000])
def test_memory_of_another_size_is_left_as_it_is(size: int) -> None:
    tensors = torch.ones(2), torch.ones(size)
    copies = _core.memory_copies(tensors)
    tensors[0].fill_(7)
    tensors[1].resize_(2 * size)
    assert not _core.put_back_memory(tensors, copies) and tensors[0].tolist() == [7, 7]
    with pytest.raises(TypeError, match="tensors and copies"):
        _core.put_back_memory(tensors, None)
    with pytest.raises(TypeError, match="a tuple of tensors"):
        _core.memory_copies([tensors[0]])  # type: ignore[arg-type]


DRAWS: dict[str, Any] = {
    "nothing": lambda: None,
    "a seed": lambda: torch.manual_seed(5),
    "one normal number": lambda: torch.randn(1),  # its pair is kept
    "one of double precision": lambda: torch.randn(1, dtype=torch.double),
    "many": lambda: torch.rand(1000),
    "integers": lambda: torch.randint(0, 9, (5,)),
}


@pytest.mark.parametrize("before", DRAWS)
@pytest.mark.parametrize("between", DRAWS)
def test_the_generator_has_its_state_again(before: str, between: str) -> None:
    DRAWS[before]()
    state, shown = _core.generator_state(), torch.get_rng_state()
    DRAWS[between]()
    _core.restore_generator(state)
    assert torch.equal(torch.get_rng_state(), shown)
    drawn = [torch.randn(1), torch.randn(1, dtype=torch.double), torch.rand(700)]
    torch.set_rng_state(shown)
    assert all(map(torch.equal, drawn, [torch.randn(1), torch.randn(1, dtype=torch.double), torch.rand(700)]))


def test_handlers_are_seen() -> None:
    code = caught.__code__
    inside = next(offset for offset, _, line in code.co_lines() if line == code.co_firstlineno + 2)
    assert in_handler([(code, inside)]) and not in_handler([(code, 0)])


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_attention_draws_only_with_dropout(dropout: float) -> None:
    """Without dropout there is nothing to take back, so nothing is kept before each call.

    With it the numbers are plain Python's.
    """

    def f(q, k, v):
        torch.nn.functional.scaled_dot_product_attention(
            k, q, v, dropout_p=dropout
        )  # nobody uses it: it may have drawn
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout) + torch.rand(4) * dropout

    given = [torch.rand(1, 2, 3, 4) for _ in range(3)]
    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    for seed in range(2):
        sides = []
        for side in (f, compiled):
            torch.manual_seed(seed)
            sides.append((side(*given), torch.rand(2)))
        assert all(map(torch.equal, *sides))

    def quiet(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout)

    compiled = framelift.compile(quiet, backend="eager", fullgraph=True)
    compiled(*given)
    assert compiled.entries[0].info.replayable == (not dropout)


# -- a compiled graph that fails where the graph itself does not -------------------------------------------------------


def broken(graph_module: Any, inputs: Any) -> Any:
    """A backend whose graphs fail at once."""

    def run(*args: Any) -> Any:
        raise ValueError("broken")

    return run


def broken_at_the_end(graph_module: Any, inputs: Any) -> Any:
    """A backend whose graphs do everything, and then fail."""

    def run(*args: Any) -> Any:
        graph_module(*args)
        raise ValueError("broken")

    return run


def with_settings(x: Any, i: Any) -> Any:
    LOG.append("before")
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        y = x.unsqueeze(0) @ x.unsqueeze(1)
    return TABLE[i] + y


def of_sizes(x: Any, i: Any) -> Any:
    LOG.append("before")
    return TABLE[i] * x.shape[0] + x


def with_an_assertion(x: Any, i: Any) -> Any:
    LOG.append("before")
    assert (x > 0).all()
    return TABLE[i] + x


FAILING = (
    with_effects,
    with_effects_and_numbers,
    written_through_data,
    in_a_finally,
    with_settings,
    of_sizes,
    with_an_assertion,
)


@pytest.mark.parametrize("backend", [broken, broken_at_the_end], ids=lambda b: b.__name__)
@pytest.mark.parametrize("program", FAILING, ids=lambda p: p.__name__)
def test_the_error_of_a_broken_compiler_leaves_the_call(program: Any, backend: Any) -> None:
    """Nothing has happened then: no effect, no write, no random number drawn.

    Where the data is bad the program raises its own error.
    """
    compiled = framelift.compile(program, backend=backend)
    for index in (GOOD, GOOD, BAD, GOOD):
        LOG.clear()
        x = torch.tensor([1.0, 2.0])
        torch.manual_seed(3)
        before = torch.get_rng_state()
        if index is BAD:
            with pytest.raises(IndexError):
                compiled(x, index)
            continue
        with pytest.raises(ValueError, match="^broken$"):
            compiled(x, index)
        assert x.tolist() == [1, 2] and x._version == 0 and not LOG and torch.equal(torch.get_rng_state(), before)
        assert not torch.is_autocast_enabled("cpu") and torch.is_grad_enabled()


def test_a_compiler_of_torchs_own_that_is_broken_on_purpose() -> None:
    from torch._dynamo.backends.debugging import relu_runtime_error_TESTING_ONLY

    with pytest.raises(RuntimeError, match="ReluRuntimeError|relu"):
        framelift.compile(lambda x: torch.relu(x) + 1, backend=relu_runtime_error_TESTING_ONLY)(torch.ones(3))


def test_an_operator_of_the_program_may_fail_whatever_its_name() -> None:
    """Operations that cannot fail are known by what they are: an operator called `sum` may be anybody's."""
    library = torch.library.Library("framelift_named_alike", "DEF")
    library.define("sum(Tensor x) -> Tensor")

    def refuse(x: torch.Tensor) -> torch.Tensor:
        if x.numel() and bool((x > 1).any()):
            raise ValueError("too large")
        return x.clone()

    library.impl("sum", refuse, "CPU")
    library.impl("sum", lambda x: torch.empty_like(x), "Meta")

    def f(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return torch.ops.framelift_named_alike.sum(x)

    check(f, torch.zeros(3))
    compiled = framelift.compile(f, backend="eager")
    compiled(torch.zeros(3))
    x, plain = torch.ones(3), torch.ones(3)
    for call, given in ((f, plain), (compiled, x)):
        with pytest.raises(ValueError, match="too large"):
            call(given)
    assert torch.equal(x, plain)


def test_a_call_of_a_graph_shows_its_failures_and_nothing_else() -> None:
    seen: list[Any] = []

    def graph(*inputs: Any) -> Any:
        if isinstance(inputs[0], BaseException):
            raise inputs[0]
        return inputs

    def failed(error: BaseException, inputs: tuple[Any, ...]) -> None:
        seen.append((error, inputs))
        if len(inputs) > 1:
            raise inputs[1]

    call = _core.GraphCall(graph, failed)
    first, second, gone = ValueError("first"), TypeError("second"), KeyboardInterrupt()
    assert call(1, 2) == (1, 2) and call(*range(9)) == tuple(range(9)) and not seen
    for given, leaves, context in (
        ((first,), first, None),
        ((first, second), second, first),
        ((first, first), first, None),
        ((gone,), gone, None),
    ):
        seen.clear()
        with pytest.raises(BaseException) as caught:
            call(*given)
        assert caught.value is leaves and caught.value.__context__ is context
        assert seen == ([] if leaves is gone else [(first, given)])
