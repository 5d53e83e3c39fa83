"""What messages say: the user's names and places, one way out each, and the same counts everywhere."""

from __future__ import annotations

import logging
import types

import pytest
import torch

import framelift

X = torch.ones(2, 4)


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, idx, targets=None):
        y = self.drop(self.inner(idx))
        return y if targets is None else (y - targets).sum()


def branch(x):
    return x + 1 if x.sum() > 0 else x


class Broken(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        return branch(self.first(x)) + branch(self.second(x))


def test_train_and_eval_are_expected_at_any_depth() -> None:
    net = framelift.compile(Network(), backend="eager")
    net(X)
    net.eval()
    net(X)
    (found,) = net.report().recompiles
    assert found.origin.endswith("training") and found.fix == "Expected: one graph for training and one for evaluation."


def test_counts_agree(caplog) -> None:
    """Torch's own functions, captured one by one around a break, are no recompiles and no lines in the log."""
    framelift.reset()
    with caplog.at_level(logging.INFO, "framelift"):
        net = framelift.compile(Broken(), backend="eager")
        net(X)
        net(X.double().float())
        net.double()(X.double())
    report, stats = net.report(), framelift.stats()
    topics = "framelift.breaks", "framelift.recompiles"
    logged = {name: [r.getMessage() for r in caplog.records if r.name == name] for name in topics}
    recompiles = sum(one.times for one in report.recompiles)
    assert recompiles == len(stats["recompiles"]) == len(logged["framelift.recompiles"])
    assert sum(one.times for one in report.breaks) == sum(stats["breaks"].values())
    assert (report.graphs, report.captures, report.guards) == (stats["graphs"], stats["captures"], stats["guards"])
    assert f"{report.graphs} graphs" in str(net) and f"{len(report.breaks)} break" in str(net)
    assert not [one for rows in logged.values() for one in rows if "_call_impl" in one.splitlines()[0]]
    assert logged["framelift.breaks"][0].startswith("Broken.forward: ")
    assert {frame["name"] for frame in stats["frames"]} >= {"Broken.forward"}


def test_the_folder_of_the_process_is_gone(tmp_path, monkeypatch, recwarn) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    framelift.set_logs(breaks=True, recompiles=True)
    try:
        net = framelift.compile(Broken(), backend="eager")
        net(X)
        net.double()(X.double())
    finally:
        framelift.set_logs()
    assert "breaks" in str(net.report()) and not [one for one in recwarn if "dropped" in str(one.message)]


def test_errors_name_the_module_that_was_compiled() -> None:
    with pytest.raises(framelift.exc.Unsupported, match=r"there is a graph break in Broken\.forward: "):
        framelift.compile(Broken(), backend="eager", fullgraph=True)(X)


def numbers(x):
    yield x
    yield x + 1


async def later(x):
    return x + 1


def begun(x):
    found = numbers(x)
    next(found)
    return found


@pytest.mark.parametrize(
    ("function", "reason", "fix"),
    [(begun, "generator", "compile the function that loops over it"), (later, "coroutine", "without async")],
)
def test_generators_and_coroutines_have_a_way_out(function, reason, fix) -> None:
    compiled = framelift.compile(function, backend="eager")
    given = compiled(X)
    assert type(given) is {"generator": types.GeneratorType, "coroutine": types.CoroutineType}[reason]
    given.close()
    found = compiled.report().breaks[0]
    assert found.reason == reason and fix in found.fix


def test_a_size_that_was_marked_dynamic_and_is_not_has_a_way_out() -> None:
    x = torch.ones(8, 4)
    framelift.mark_dynamic(x, 0)
    with pytest.raises(
        framelift.exc.ConstraintViolation, match=r"fixes it to 8 at [^\n]*\n  fix: .*maybe_mark_dynamic"
    ):
        framelift.compile(lambda x: x + 1 if x.shape[0] == 8 else x, backend="eager")(x)


def test_an_unknown_function_may_become_part_of_the_graph() -> None:
    (found,) = framelift.dry_run(lambda x: x + len(input()), X).breaks
    assert "torch.library.custom_op" in found.fix and "framelift.allow_in_graph" in found.fix


def test_articles() -> None:
    f = framelift.compile(lambda x, n: x + 1 if n is None else x, backend="eager")
    f(X, 1)
    f(X, None)
    f(X, "text")
    assert not [one for one in f.recompiles() if " a int" in str(one)]


@pytest.mark.parametrize("make", [lambda f: f, lambda f: torch.nn.Linear(4, 4)], ids=["function", "module"])
def test_what_verifies_is_a_compiled_callable(make, tmp_path) -> None:
    verified = framelift.compile(make(lambda x: x.sin() + 1), backend="eager", verify=2)
    verified(X)
    assert "1 graph" in str(verified) and verified.report().graphs == 1
    assert framelift.save_repro(verified, tmp_path / "repro.py").exists()
    assert framelift.wait(verified) and not verified.recompiles()


def test_a_failing_assertion_shows_the_tests_own_line() -> None:
    for function in (framelift.testing.assert_captured, framelift.testing.check_captured):
        assert "__tracebackhide__" in function.__code__.co_varnames
