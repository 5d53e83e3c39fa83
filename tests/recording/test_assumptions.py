"""Branches on a tensor whose other side only raises: captured whole, and wrong data still raises as in plain Python."""

from __future__ import annotations

import operator
import sys
from typing import Any

import pytest
import torch

import framelift
from framelift.bytecode.branches import unless_it_raises
from support import check


class Asked:
    """Notes, when its truth is asked for, which truth the frame goes on with."""

    def __bool__(self) -> bool:
        frame = sys._getframe(1)
        self.answer = unless_it_raises(frame.f_code, frame.f_lasti)
        return True


def _asserted(x):
    assert x, "text"
    return 1


def _negated(x):
    if not x:
        raise ValueError(f"{x}")
    return 1


def _in_loop(x):
    for _ in range(2):
        if x:
            raise ValueError
    return 1


def _two_errors(x):
    if not x:
        if _asserted:
            raise ValueError
        raise TypeError
    return 1


def _caught(x):
    try:
        if x:
            raise ValueError
        y = 1
    except ValueError:
        y = 2
    return y


def _both_return(x):
    if x:
        return 2
    return 1


def _loop(x):
    while x:
        break
    return 2


def _by_bool(x):
    if not bool(x):
        raise ValueError
    return 1


@pytest.mark.parametrize(
    "function, truth",
    [
        (_asserted, True),
        (_negated, True),
        (_in_loop, False),
        (_two_errors, True),
        (_caught, False),
        (_by_bool, True),
        (_both_return, None),
        (_loop, None),
    ],
)
def test_which_side_goes_on(function, truth) -> None:
    asked = Asked()
    try:
        function(asked)
    except ValueError:
        pass
    assert asked.answer is truth


def _spoil(number, world) -> None:
    world.args[0][0] = -1.0 if number % 2 else 1.0


def test_a_check_of_values() -> None:
    def f(x):
        if not (x > 0).all():
            raise ValueError("not positive")
        return x.log()

    check(f, torch.ones(3))
    check(f, torch.ones(3), calls=4, mutate=_spoil, captures=1, fullgraph=True)


def test_a_check_in_a_function_that_gives_its_answer() -> None:
    def are_all(valid):
        return bool(valid.all())

    def are_positive(x):
        return are_all(x > 0)

    def f(x):
        if not are_positive(x):
            raise ValueError("not positive")
        return torch.distributions.LogNormal(x, x).log_prob(x)

    check(f, torch.ones(3))
    # the functions inside have graphs of their own where the check fails
    check(f, torch.ones(3), calls=4, mutate=_spoil, graphs=None, captures=None, fullgraph=True)


@pytest.mark.parametrize("ask", [operator.not_, lambda x: x.__bool__(), lambda x: not x])
def test_functions_that_turn_the_truth_round_are_no_check(ask) -> None:
    def f(x):
        if ask((x > 0).all()):
            raise ValueError("raised")
        return x + 1

    compiled = framelift.compile(f, backend="eager")
    for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
        try:
            want = f(x).tolist()
        except ValueError as error:
            want = str(error)
        try:
            assert compiled(x).tolist() == want
        except ValueError as error:
            assert str(error) == want


def test_several_conditions_and_random_numbers() -> None:
    def f(x):
        noise = torch.rand(3)
        if (x < 0).any():
            raise ValueError("negative")
        more = torch.rand(3)
        if x.isnan().any() or x.isinf().any():
            raise ValueError("not finite")
        return x + noise * more

    check(f, torch.ones(3))
    check(f, torch.ones(3), calls=4, mutate=_spoil, captures=1, fullgraph=True)


def test_an_error_that_the_program_catches() -> None:
    def f(x):
        try:
            if x.sum() < 0:
                raise ValueError
            return x + 1
        except ValueError:
            return x - 1

    def spoil(number, world) -> None:
        world.args[0].fill_(-1.0 if number % 2 else 1.0)

    check(f, torch.ones(3), calls=4, mutate=spoil, captures=1, fullgraph=True)


def test_effects_wait_for_the_assumption() -> None:
    def f(x, log):
        log.append("before")
        if x[0] <= 0:
            raise ValueError
        log.append("after")
        return x * 2

    check(f, torch.ones(3), [], calls=4, mutate=_spoil, graphs=None, breaks=None, fullgraph=True)


def test_a_write_after_the_assumption_is_not_undone() -> None:
    def f(x):
        if x[0] <= 0:
            raise ValueError
        x.add_(1)
        return x * 2

    check(f, torch.ones(3))
    check(f, torch.ones(3), calls=4, mutate=_spoil, captures=1, fullgraph=True)


def _outcome(run: Any, x: torch.Tensor, log: list[int]) -> tuple[Any, ...]:
    torch.manual_seed(0)
    try:
        result = run(x, log).tolist()
    except (AssertionError, ValueError) as error:
        result = repr(error)
    return result, x.tolist(), x._version, log, torch.rand(1).item()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("size", [3, 1 << 15])
def test_an_assertion_behind_a_write_to_an_input(backend: str, size: int) -> None:
    """The failing call has the writes before the assertion, none after it, and the text of plain Python."""

    def f(x: torch.Tensor, log: list[int]) -> torch.Tensor:
        log.append(1)
        x.add_(1)
        if not (x < 5).all():
            raise AssertionError(f"too large: {x[:2].tolist()}")
        x.mul_(2)
        if x[0] < 0:
            raise ValueError("below")
        log.append(2)
        x.add_(1)
        return x * 2

    compiled = framelift.compile(f, backend=backend, fullgraph=True)
    for value in (1.0, 9.0, -7.0, 2.0):
        assert _outcome(compiled, torch.full((size,), value), []) == _outcome(f, torch.full((size,), value), [])
    assert len(compiled.entries) == 1


def test_draws_and_a_write_that_is_not_counted_are_taken_back() -> None:
    def f(x: torch.Tensor, log: list[int]) -> torch.Tensor:
        x.data.add_(torch.rand(()))
        if not (x < 5).all():
            raise AssertionError
        log.append(1)
        return x * 2

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    for value in (1.0, 9.0):
        assert _outcome(compiled, torch.full((3,), value), []) == _outcome(f, torch.full((3,), value), [])


@pytest.mark.parametrize("size, broken", [(3, False), (1 << 15, True)])
def test_what_is_large_is_copied_only_where_a_break_is_an_error(size: int, broken: bool) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        if not (x < 5).all():
            raise AssertionError
        return x * 2

    check(f, torch.ones(size), graphs=None, breaks=None)
    framelift.reset()
    framelift.compile(f, backend="eager")(torch.ones(size))
    assert bool(framelift.stats()["breaks"]) is broken


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_writes_that_no_copy_takes_back(backend: str) -> None:
    """A history that the input gains, and gradients that a backward inside adds to: the assertion is a break."""
    weight = torch.nn.Parameter(torch.ones(3))

    def gains(x: torch.Tensor) -> torch.Tensor:
        x.mul_(weight)
        if not (x < 5).all():
            raise AssertionError("too large")
        return x * 2

    def gains_later(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        if not (x < 5).all():
            raise AssertionError("too large")
        x.mul_(weight)
        return x * 2

    def adds(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        if not (x < 5).all():
            raise AssertionError("too large")
        (x * weight).sum().backward()
        return x * 2

    for f in (gains, gains_later, adds):
        compiled = framelift.compile(f, backend=backend)
        for value in (1.0, 9.0, 2.0):
            seen = []
            for run in (f, compiled):
                x, weight.grad = torch.full((3,), value), None
                try:
                    result = run(x).tolist()
                except AssertionError as error:
                    result = str(error)
                seen.append(
                    (result, x.tolist(), x.requires_grad, weight.grad if weight.grad is None else weight.grad.tolist())
                )
            assert seen[0] == seen[1], f.__name__


_ran: list[int] = []


@torch.library.custom_op("framelift_tests::counted", mutates_args=())
def _counted(x: torch.Tensor) -> torch.Tensor:
    _ran.append(len(x))
    return x + 1


@_counted.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_operator_that_nobody_knows_after_the_assumption(backend: str) -> None:
    """Where the data is wrong it does not run, neither in the graph nor in the eager frame."""

    def f(x, log):
        log.append(1)
        torch._check_tensor_all(x > 0, lambda: "not positive")
        if (x > 9).any():
            raise ValueError("too large")
        return torch.ops.framelift_tests.counted(x) * 2

    compiled = framelift.compile(f, backend=backend)
    for value, error in ((1.0, None), (-1.0, RuntimeError), (10.0, ValueError), (2.0, None)):
        x, log, runs = torch.full((3,), value), [], len(_ran)
        if error is not None:
            with pytest.raises(error):
                compiled(x, log)
        else:
            assert torch.equal(compiled(x, log), (x + 1) * 2)
        assert log == [1] and len(_ran) - runs == (error is None)
    if backend == "eager":
        assert not framelift.stats()["breaks"] and framelift.stats()["captures"] == 1


def test_draws_before_what_cannot_be_undone() -> None:
    def f(x):
        noise = torch.rand(3)
        if x[0] <= 0:
            raise ValueError
        x.add_(1)
        return x * noise

    check(f, torch.ones(3), graphs=None, breaks=None)
    check(f, torch.ones(3), graphs=None, breaks=None, calls=4, mutate=_spoil)


def test_more_than_one_element_raises_by_itself() -> None:
    def f(x):
        if x > 0:
            raise ValueError
        return x

    check(f, torch.ones(3), graphs=None, breaks=None, raises=RuntimeError)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.distributions.Normal(x, x),
        lambda x: torch.distributions.Categorical(logits=x),
        lambda x: torch.distributions.Independent(torch.distributions.Gamma(x, x), 1),
    ],
)
def test_distributions_check_their_arguments(make) -> None:
    def f(x):
        distribution = make(x)
        sample = distribution.sample()
        return sample, distribution.log_prob(sample)

    def spoil(number, world) -> None:
        world.args[0][0] = float("nan") if number % 2 else 1.0

    check(f, torch.rand(4) + 1)
    check(f, torch.rand(4) + 1, calls=4, mutate=spoil, graphs=None, breaks=None, fullgraph=True)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_other_backends(backend: str) -> None:
    def f(x):
        if not (x > 0).all():
            raise ValueError
        return x.log() + torch.nn.functional.dropout(x, 0.0)

    compiled = framelift.compile(f, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(torch.ones(3)), torch.ones(3))
    with pytest.raises(ValueError):
        compiled(-torch.ones(3))


def test_a_graph_that_fails_leaves_the_settings_alone() -> None:
    def f(x):
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            y = torch.linalg.cholesky(x)
        return y + torch.rand(2)

    def spoil(number, world) -> None:
        world.args[0].copy_(-torch.eye(2))

    check(f, torch.eye(2), mutate=spoil, graphs=None, breaks=None, fullgraph=True)


def test_what_the_program_checks_of_values() -> None:
    """torch's own checks of tensors.

    Captured whole without a guard on values, and wrong data raises what it raises in plain Python.
    """
    graphs: list[Any] = []

    def backend(graph: Any, example_inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    def f(tokens: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        mask = tokens == 7
        torch._check_tensor_all(mask.sum() == features.shape[0])
        torch._check_tensor_all_with(ValueError, tokens >= 0, lambda: f"negative: {tokens.tolist()}")
        return torch.zeros(tokens.shape).masked_scatter(mask, features)

    compiled = framelift.compile(f, backend=backend, fullgraph=True)
    for tokens in ([7, 1, 7], [1, 7, 7], [7, 3, 5, 2, 7], [2, 4, 1, 7, 7, 3]):  # other values, other lengths
        given = torch.tensor(tokens), torch.rand(2)
        assert torch.equal(compiled(*given), f(*given))
    assert len(graphs) == 2
    for tokens, error in (([7, 1, 1], RuntimeError), ([7, -1, 7], ValueError)):
        messages = []
        for side in (compiled, f):
            with pytest.raises(error) as caught:
                side(torch.tensor(tokens), torch.rand(2))
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


def test_what_cannot_be_undone_behind_a_check() -> None:
    """Values of few whole numbers are guarded then, instead of being assumed.

    Where there are none, the check is a break.
    """
    ran: list[int] = []

    @torch.library.custom_op("assumptions::counting", mutates_args=())
    def counting(x: torch.Tensor) -> torch.Tensor:
        ran.append(1)
        return x * 2

    counting.register_fake(lambda x: torch.empty_like(x))

    def f(tokens: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        torch._check_tensor_all_with(ValueError, tokens > 0, lambda: f"not above: {tokens.tolist()}")
        return counting(x) + 1

    def g(x: torch.Tensor) -> torch.Tensor:
        assert x.sum() > 0, "below"
        return counting(x) + 1

    graphs: list[Any] = []
    compiled = framelift.compile(f, backend=lambda graph, _inputs: graphs.append(graph) or graph, fullgraph=True)
    for tokens in ([1, 2], [3, 4], [1, 2]):
        torch.testing.assert_close(compiled(torch.tensor(tokens), torch.ones(2)), torch.full((2,), 3.0))
    assert len(graphs) == 1  # what the check says of them is guarded
    with pytest.raises(ValueError, match="not above"):
        compiled(torch.tensor([0, 1]), torch.ones(2))
    assert len(ran) == 3
    broken = framelift.compile(g, backend="eager")
    assert torch.equal(broken(torch.ones(2)), torch.full((2,), 3.0)) and len(ran) == 4
    with pytest.raises(AssertionError, match="below"):
        broken(-torch.ones(2))
    assert len(ran) == 4


def _merged(x: torch.Tensor, tokens: torch.Tensor, features: torch.Tensor, log: list[int]) -> torch.Tensor:
    mask = tokens == 7
    chosen = x[mask]
    if chosen.numel() != features.numel():
        raise ValueError(f"{mask.sum()} tokens, {features.shape[0]} features")
    log.append(1)
    return x.masked_scatter(mask.unsqueeze(-1).expand_as(x), features)


def _merged_or_none(x: torch.Tensor, tokens: torch.Tensor, features: torch.Tensor, log: list[int]) -> torch.Tensor:
    try:
        return _merged(x, tokens, features, log)
    except ValueError as error:
        log.append(str(error))
        return x - 1


def _checked(x: torch.Tensor, tokens: torch.Tensor, features: torch.Tensor, log: list[int]) -> torch.Tensor:
    mask = tokens == 7
    chosen = x[mask]

    def text() -> str:
        log.append(2)  # asked for where the check fails, and only there
        return f"{mask.sum()} tokens, {features.shape[0]} features"

    torch._check(chosen.numel() == features.numel(), text)
    log.append(1)
    return x.masked_scatter(mask.unsqueeze(-1).expand_as(x), features)


@pytest.mark.parametrize("fn", [_merged, _merged_or_none, _checked])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_numbers_of_tokens_and_features(backend: str, fn: Any) -> None:
    """Sizes that only the graph knows, compared where the other side raises: one graph for all values."""
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    rows = [[7, 1, 7], [1, 7, 7], [7, 1, 1], [7, 3, 5, 2, 7], [2, 4, 1, 7, 7, 3], [7, 7, 7, 7], [7, 7, 1]]
    for tokens in rows:
        given = torch.rand(len(tokens), 4), torch.tensor(tokens), torch.rand(2, 4)
        seen = []
        for side in (compiled, fn):
            log: list[int] = []
            try:
                seen.append([side(*given, log).tolist(), log])
            except (ValueError, RuntimeError) as error:
                seen.append([type(error), str(error), log])
        assert seen[0] == seen[1]
    assert len(compiled.entries) == 2  # the number of tokens has changed


def test_a_write_behind_numbers_that_are_compared() -> None:
    """What is written before the check must not be written where it fails, and is not undone by the eager run."""

    def f(x: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        chosen = x[tokens == 7]
        x.mul_(2)
        if chosen.shape[0] != 2:
            raise ValueError("not two")
        x.add_(1)
        return chosen + 1

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    for tokens in ([7, 7, 1], [7, 1, 1], [1, 7, 7]):
        seen = []
        for side in (compiled, f):
            x = torch.arange(3.0)
            try:
                seen.append([side(x, torch.tensor(tokens)).tolist(), x.tolist()])
            except ValueError as error:
                seen.append([str(error), x.tolist()])
        assert seen[0] == seen[1]


SAYS = torch.tensor(True)


def test_what_only_the_assumed_side_raises_is_not_expected() -> None:
    """Eager mode takes the other side, whose exception is handled."""

    def f(obj, x):
        try:
            if bool(SAYS):
                raise ValueError("no")
            del obj.missing
        except ValueError:
            x = x + 1
        return x.sin()

    with framelift.config.patch(strict=True):
        check(f, type("Empty", (), {})(), torch.ones(2), calls=2, captures=None, graphs=None, breaks=None)
