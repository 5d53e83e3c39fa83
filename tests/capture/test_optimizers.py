"""Optimizers.

A captured step equals a plain one, step by step, and the state it makes causes no recompile.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift
from support import check

WHOLE: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 0.1},
    "Adagrad": {},
    "RMSprop": {},
    "Adadelta": {},
    "Rprop": {},
    "Adam": {},
    "AdamW": {},
    "Adamax": {},
    "NAdam": {},
    "ASGD": {},
}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {**options, "foreach": foreach}) for name, options in WHOLE.items() for foreach in (False, True)),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1, "foreach": True, "maximize": True}),
    ("RMSprop", {"momentum": 0.5, "centered": True}),
    ("Adam", {"lr": torch.tensor(0.01), "foreach": False}),
    ("Adam", {"fused": True}),
    ("ASGD", {"lr": 0.1, "t0": 2.0, "weight_decay": 0.1, "foreach": False}),
    ("ASGD", {"lr": 0.1, "t0": 2.0, "maximize": True, "foreach": True}),
]
BROKEN = [("RAdam", {}), ("Adafactor", {})]


def _made(name: str, options: dict[str, Any]) -> tuple[list[torch.nn.Parameter], torch.optim.Optimizer]:
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.rand(3, 2)) for _ in range(3)]
    for parameter in parameters[:2]:
        parameter.grad = torch.rand(3, 2)
    return parameters, getattr(torch.optim, name)(parameters, **options)


def _compare(name: str, options: dict[str, Any], backend: str, steps: int = 4, **how: Any) -> dict[str, Any]:
    ours, captured = _made(name, options)
    theirs, plain = _made(name, options)
    framelift.reset()
    step = framelift.compile(captured.step, backend=backend, **how)
    for _ in range(steps):
        step()
        plain.step()
        for parameter in (*ours[:2], *theirs[:2]):
            parameter.grad.mul_(1.5)
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
        assert captured.state[a].keys() == plain.state[b].keys()
        for key, value in captured.state[a].items():
            torch.testing.assert_close(value, plain.state[b][key], rtol=1e-5, atol=1e-6)
    return framelift.stats()


@pytest.mark.parametrize("name, options", VARIANTS, ids=str)
def test_a_step_is_one_graph_and_is_captured_once_more_at_most(name: str, options: dict[str, Any]) -> None:
    stats = _compare(name, options, "eager", fullgraph=True)
    assert stats["captures"] <= 2 and stats["graphs"] == stats["captures"] and not stats["breaks"]


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused_steps_are_not_given_to_compilers(name: str) -> None:
    """torch has no form of them that its compilers take: they run between the graphs."""
    for backend in ("aot_eager", "inductor"):
        few, more = (_compare(name, {"lr": 0.1, "fused": True}, backend, steps=steps) for steps in (3, 6))
        assert few["captures"] == more["captures"] and any("_fused_" in reason for reason in few["breaks"]), more


def test_steps_that_go_on_otherwise_after_a_while_are_one_graph() -> None:
    for backend in ("eager", "aot_eager"):
        assert _compare("ASGD", {"lr": 0.1, "t0": 3.0}, backend, steps=9, fullgraph=True)["captures"] <= 2


@pytest.mark.parametrize("name, options", BROKEN, ids=str)
def test_steps_that_look_at_values_are_right(name: str, options: dict[str, Any]) -> None:
    _compare(name, options, "eager")


@pytest.mark.parametrize("backend", ("aot_eager", "inductor"))
def test_other_backends(backend: str) -> None:
    _compare("Adam", {"foreach": True}, backend, steps=3, fullgraph=True)


def test_the_step_is_compiled_without_grad_mode() -> None:
    seen = []

    def backend(graph_module, inputs):
        seen.append(torch.is_grad_enabled())
        return lambda *args: (seen.append(torch.is_grad_enabled()), graph_module(*args))[1]

    _, optimizer = _made("SGD", {"lr": 0.1})
    framelift.compile(optimizer.step, backend=backend, fullgraph=True)()
    assert seen == [False, False] and torch.is_grad_enabled()


def test_another_parameter_is_another_key() -> None:
    parameters, optimizer = _made("SGD", {"lr": 0.1, "momentum": 0.9})
    step = framelift.compile(optimizer.step, backend="eager", fullgraph=True)
    step()
    step()
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))]})
    optimizer.param_groups[1]["params"][0].grad = torch.ones(2)
    step()
    torch.testing.assert_close(optimizer.param_groups[1]["params"][0].detach(), torch.full((2,), 0.9))
    del optimizer.state[parameters[0]]
    before = parameters[0].detach().clone()
    step()
    torch.testing.assert_close(parameters[0].detach(), before - 0.1 * parameters[0].grad)


def test_zero_grad_and_hooks() -> None:
    parameters, optimizer = _made("SGD", {"lr": 0.1})
    calls = []
    optimizer.register_step_pre_hook(lambda opt, args, kwargs: calls.append("pre"))
    handle = optimizer.register_step_post_hook(lambda opt, args, kwargs: calls.append("post"))
    step = framelift.compile(optimizer.step, backend="eager", fullgraph=True)
    step()
    handle.remove()
    step()
    assert calls == ["pre", "post", "pre"]
    framelift.compile(optimizer.zero_grad, backend="eager")(set_to_none=False)
    assert all(p.grad is None or not p.grad.any() for p in parameters)
    framelift.compile(optimizer.zero_grad, backend="eager")()
    assert all(p.grad is None for p in parameters)


def test_a_tensor_to_the_power_of_each() -> None:
    check(lambda x, y: torch._foreach_pow(x, y), torch.tensor(0.8), [torch.tensor(3.4), torch.rand(3)])
    check(lambda x, y: torch._foreach_pow(y, x), 2.0, [torch.tensor(3.4), torch.rand(3)])


@pytest.mark.parametrize(
    "name, options",
    [
        *((name, {**options, "foreach": foreach}) for name, options in WHOLE.items() for foreach in (False, True)),
        *((name, {"lr": 0.1, "fused": True}) for name in ("SGD", "Adam", "AdamW", "Adagrad")),
        *(("Muon", {}),) * hasattr(torch.optim, "Muon"),
    ],
    ids=str,
)
def test_a_schedule_does_not_make_a_step_be_captured_again(name: str, options: dict[str, Any]) -> None:
    def made() -> tuple[list[torch.nn.Parameter], Any, Any]:
        parameters, optimizer = _made(name, options)
        return parameters, optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    (ours, captured, one), (theirs, plain, other) = made(), made()

    def both(optimizer: Any, schedule: Any) -> None:
        optimizer.step()
        schedule.step()

    framelift.reset()
    step = framelift.compile(both, backend="eager", fullgraph=True)
    for _ in range(5):
        step(captured, one)
        both(plain, other)
        for parameter in (*ours[:2], *theirs[:2]):
            parameter.grad.mul_(1.5)
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    assert framelift.stats()["captures"] <= 2 and one.get_last_lr() == other.get_last_lr()


_schedules = torch.optim.lr_scheduler
SCHEDULES: dict[str, Any] = {
    "StepLR": lambda o: _schedules.StepLR(o, 3),
    "MultiStepLR": lambda o: _schedules.MultiStepLR(o, [3, 6]),
    "ConstantLR": lambda o: _schedules.ConstantLR(o, 0.5, total_iters=4),
    "LinearLR": lambda o: _schedules.LinearLR(o, total_iters=5),
    "ExponentialLR": lambda o: _schedules.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda o: _schedules.CosineAnnealingLR(o, 20),
    "LambdaLR": lambda o: _schedules.LambdaLR(o, lambda epoch: 1 / (epoch + 1)),
    "MultiplicativeLR": lambda o: _schedules.MultiplicativeLR(o, lambda epoch: 0.95),
    "PolynomialLR": lambda o: _schedules.PolynomialLR(o, total_iters=6),
    "OneCycleLR": lambda o: _schedules.OneCycleLR(o, 0.1, total_steps=40),
    "CyclicLR": lambda o: _schedules.CyclicLR(o, 0.01, 0.1, step_size_up=4, cycle_momentum=False),
    "CosineAnnealingWarmRestarts": lambda o: _schedules.CosineAnnealingWarmRestarts(o, 4),
    "SequentialLR": lambda o: _schedules.SequentialLR(
        o, [_schedules.ConstantLR(o, 0.1, total_iters=3), _schedules.ExponentialLR(o, 0.9)], milestones=[4]
    ),
    "ChainedScheduler": lambda o: _schedules.ChainedScheduler(
        [_schedules.ConstantLR(o, 0.1, total_iters=3), _schedules.ExponentialLR(o, 0.9)]
    ),
}


def _scheduled(name: str, schedule: str, options: dict[str, Any], inside: bool, backend: str) -> list[int]:
    """Steps with a schedule, plain and captured; the captures of each step."""

    def made() -> tuple[list[torch.nn.Parameter], Any, Any]:
        parameters, optimizer = _made(name, options)
        return parameters, optimizer, SCHEDULES[schedule](optimizer)

    (ours, captured, one), (theirs, plain, other) = made(), made()

    def step(optimizer: Any, schedule: Any) -> None:
        optimizer.step()
        if inside:
            schedule.step()

    framelift.reset()
    compiled, counts = framelift.compile(step, backend=backend, fullgraph=True), []
    for _ in range(11):
        before = framelift.stats()["captures"]
        compiled(captured, one)
        counts.append(framelift.stats()["captures"] - before)
        step(plain, other)
        if not inside:
            one.step()
            other.step()
        for parameter in (*ours[:2], *theirs[:2]):
            parameter.grad.mul_(1.1)
        assert one.get_last_lr() == other.get_last_lr()
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    return counts


@pytest.mark.parametrize("schedule", [name for name in SCHEDULES if name != "MultiStepLR"])  # looks into a table
def test_schedules_inside_are_captured_for_their_phases_and_not_for_their_steps(schedule: str) -> None:
    counts = _scheduled("SGD", schedule, {"lr": 0.1, "momentum": 0.9}, True, "eager")
    assert sum(counts) <= 6 and not any(counts[-3:])


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
@pytest.mark.parametrize("name, foreach", [("SGD", False), ("SGD", True), ("AdamW", True), ("RMSprop", False)])
def test_compilers_are_not_asked_for_each_learning_rate(name: str, foreach: bool, inside: bool) -> None:
    options = {"lr": 0.1, "foreach": foreach, **({} if name == "AdamW" else {"momentum": 0.9})}
    for schedule in ("OneCycleLR", "StepLR" if inside else "MultiStepLR"):
        counts = _scheduled(name, schedule, options, inside, "aot_eager")
        assert sum(counts) <= 5 and not any(counts[-3:])


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
def test_marks_that_torchdynamo_puts_on_optimizers_are_no_wish_of_the_user(kind: type) -> None:
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1))  # puts them there
    model = torch.nn.Linear(2, 2)
    optimizer = kind(model.parameters(), lr=0.1)

    def step():
        model(torch.ones(2)).sum().backward()
        optimizer.step()

    framelift.compile(step, backend="eager", fullgraph=True)()
