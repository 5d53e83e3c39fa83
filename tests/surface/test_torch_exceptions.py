"""Errors under torch's names: what catches TorchDynamo's classes catches framelift's while the drop-in is installed."""

from __future__ import annotations

import pickle
import traceback

import pytest
import torch
import torch._dynamo
from torch._dynamo import exc
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

import framelift

X = torch.ones(3)


@pytest.fixture(autouse=True)
def installed():
    with framelift.installed(), framelift.config.patch(strict=False):
        yield


def _break(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y


def _branch(x):
    return x if x.sum() > 0 else x + 1


def _body(x):
    return torch.cond(x.sum() > 0, lambda x: (torch._dynamo.graph_break(), x)[1], lambda x: x + 1, (x,))


def _failing_backend(graph_module, inputs):
    raise ValueError("no")


def _marked():
    y = torch.ones(4)
    torch._dynamo.mark_dynamic(y, 0)
    torch.compile(lambda y: y + 1 if y.shape[0] == 4 else y, backend="eager")(y)


def _recompile():
    with torch._dynamo.config.patch(error_on_recompile=True):
        f = torch.compile(lambda x: x + 1, backend="eager")
        f(X), f(torch.ones(4))


def _limit():
    f = torch.compile(lambda x, s: x + len(s), backend="eager", fullgraph=True, recompile_limit=1)
    f(X, "a"), f(X, "bc")


def _whole(fn):
    return lambda: torch.compile(fn, backend="eager", fullgraph=True)(X)


CASES = {
    "graph break": (_whole(_break), [exc.Unsupported, exc.TorchDynamoException, RuntimeError]),
    "branch on data": (_whole(_branch), [exc.Unsupported, exc.UserError]),
    "failing operation": (_whole(lambda x: x @ torch.ones(5)), [exc.TorchRuntimeError]),
    "operator body": (lambda: torch.compile(_body, backend="eager")(X), [exc.UncapturedHigherOrderOpError]),
    "backend": (
        lambda: torch.compile(lambda x: x + 1, backend=_failing_backend)(X),
        [exc.BackendCompilerFailed, exc.ShortenTraceback],
    ),
    "unknown backend": (lambda: torch.compile(lambda x: x + 1, backend="nonsense"), [exc.InvalidBackend]),
    "marked size": (_marked, [ConstraintViolationError]),
    "recompile": (_recompile, [exc.RecompileError]),
    "limit": (_limit, [exc.FailOnRecompileLimitHit]),
}


@pytest.mark.parametrize("name", CASES)
def test_caught_under_torchs_names(name):
    fails, classes = CASES[name]
    for cls in classes:
        with pytest.raises(cls):
            fails()


@pytest.mark.parametrize("name", CASES)
def test_tracebacks_show_the_program_alone(name):
    def files(error):
        return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]

    with pytest.raises(Exception) as found:
        CASES[name][0]()
    if name != "unknown backend":  # raised by compile itself, as any wrong argument
        assert {__file__} == set(files(found.value))
    if name == "backend":
        assert {__file__} == set(files(found.value.__cause__))


def test_verbose_keeps_all_frames():
    with pytest.raises(exc.Unsupported) as found, torch._dynamo.config.patch(verbose=True):
        CASES["graph break"][0]()
    assert any("driver.py" in frame.filename for frame in traceback.extract_tb(found.value.__traceback__))


def test_the_stack_of_the_program():
    with pytest.raises(exc.Unsupported) as found:
        CASES["graph break"][0]()
    (frame,) = found.value.real_stack
    assert frame.name == "_break" and frame.line == "torch._dynamo.graph_break()"
    again = pickle.loads(pickle.dumps(found.value))
    assert again.real_stack == found.value.real_stack and str(again) == str(found.value)


def test_kind_of_a_user_error():
    with pytest.raises(exc.UserError) as found:
        CASES["branch on data"][0]()
    assert found.value.error_type is exc.UserErrorType.ANTI_PATTERN


def _noted(x, noted):
    noted.append(1)
    return x.sum(5)


@pytest.mark.parametrize(
    "fn", [lambda x: x.sum(5), lambda x: x[7], lambda x: torch.sum(x, no=3), lambda x: torch.cat([x], dim=1.5)]
)
def test_wrong_arguments_of_operations_raise_what_they_raise_without_compile(fn):
    with pytest.raises((IndexError, TypeError)) as plain:
        fn(X)
    for _ in range(2):
        with pytest.raises(plain.type) as found:
            _whole(fn)()
        assert str(found.value) == str(plain.value)


def test_what_the_program_did_before_a_wrong_argument_has_happened_once():
    noted: list[int] = []
    with pytest.raises(IndexError):
        torch.compile(_noted, backend="eager", fullgraph=True)(X, noted)
    assert noted == [1]


def _caught(x):
    try:
        return x.sum(5)
    except IndexError:
        return x + 1


def test_a_wrong_argument_whose_error_is_caught_is_not_captured():
    with pytest.raises(exc.Unsupported):
        _whole(_caught)()
    assert torch.equal(torch.compile(_caught, backend="eager")(X), X + 1)
