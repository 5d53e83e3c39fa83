"""A training script as users write it compiles once for training and once for evaluation, and nothing else.

The script has mixed precision, gradient accumulation and clipping, a learning rate schedule, an evaluation every few
steps, checkpoints, a copy of the model with averaged weights, a last batch that is smaller, logs and counters.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import framelift

STEPS = 14


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 4))

    def forward(self, x: torch.Tensor, targets: torch.Tensor | None = None) -> Any:
        found = self.layers(x)
        return found if targets is None else F.cross_entropy(found, targets)


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(1, 4, 3, padding=1), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(32, 4)
        )

    def forward(self, x: torch.Tensor, targets: torch.Tensor | None = None) -> Any:
        found = self.body(x[:, None])
        return found if targets is None else F.cross_entropy(found, targets)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(1, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor, targets: torch.Tensor | None = None) -> Any:
        found = self.head(self.block(self.embed(x[..., None])).mean(1))
        return found if targets is None else F.cross_entropy(found, targets)


def train(
    model: nn.Module, step: Callable[..., Any], optimizer: Any, loss_inside: bool, batch: Callable[[int], int]
) -> list[float]:
    """The script: `step` is the compiled model, `model` the module behind it."""
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    average, best, log = copy.deepcopy(model), 1e9, []
    for number in range(STEPS):
        torch.manual_seed(number)
        x, targets = torch.randn(batch(number), 8), torch.randint(0, 4, (batch(number),))
        model.train()
        with torch.autocast("cpu", torch.bfloat16):
            loss = step(x, targets) if loss_inside else F.cross_entropy(step(x), targets)
        (loss / 2).backward()
        if number % 2:  # gradients of two batches together
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=number % 4 == 1)
            log.append({"step": number, "loss": loss.item(), "norm": float(norm), "lr": schedule.get_last_lr()[0]})
        schedule.step()
        with torch.no_grad():
            for mine, other in zip(average.parameters(), model.parameters()):
                mine.lerp_(other, 0.1)
        if number % 3 == 2:
            model.eval()
            with torch.no_grad():
                found = step(x, targets) if loss_inside else F.cross_entropy(step(x), targets)
            best = min(best, found.item())
            file = io.BytesIO()
            torch.save(
                {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "average": average, "best": best},
                file,
            )
            file.seek(0)
            kept = torch.load(file, weights_only=False)
            model.load_state_dict(kept["model"])
            copy.deepcopy(model)
    return [row["loss"] for row in log]


MODELS = {"perceptron": Perceptron, "convolutions": Convolutions, "attention": Attention}
OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "rmsprop": lambda p: torch.optim.RMSprop(p),
}


def _compiled(how: str, model: nn.Module) -> Any:
    if how == "module.compile":
        model.compile(backend="eager")
        return model
    return (torch.compile if how == "torch.compile" else framelift.compile)(model, backend="eager")


def _run(
    how: str, name: str, optimizer: str, loss_inside: bool, batch: Callable[[int], int]
) -> tuple[Any, list[float]]:
    torch.manual_seed(0)
    model = MODELS[name]()
    step = model if how == "eager" else _compiled(how, model)
    return step, train(model, step, OPTIMIZERS[optimizer](model.parameters()), loss_inside, batch)


@pytest.fixture(params=["framelift.compile", "torch.compile", "module.compile"])
def how(request: Any) -> Any:
    framelift.reset()
    if request.param != "framelift.compile":
        framelift.install()
    yield request.param
    if request.param != "framelift.compile":
        framelift.uninstall()


@pytest.mark.parametrize("loss_inside", [True, False], ids=["loss inside", "loss outside"])
@pytest.mark.parametrize(
    "name, optimizer", [("perceptron", "sgd"), ("convolutions", "adamw"), ("attention", "rmsprop")]
)
def test_once_for_training_and_once_for_evaluation(how: str, name: str, optimizer: str, loss_inside: bool) -> None:
    _, expected = _run("eager", name, optimizer, loss_inside, lambda number: 6)
    framelift.reset()
    step, losses = _run(how, name, optimizer, loss_inside, lambda number: 6)
    assert losses == expected
    stats = framelift.stats()
    assert (stats["captures"], stats["graphs"], stats["breaks"]) == (2, 2, {}), stats["recompiles"]
    (why,) = stats["recompiles"]
    assert "grad mode is now False, was True" in why


def test_a_smaller_last_batch_costs_one_more_capture_of_each() -> None:
    framelift.reset()
    batch: Callable[[int], int] = lambda number: 3 if number in (4, 5, 11) else 6
    _, expected = _run("eager", "perceptron", "adamw", True, batch)
    step, losses = _run("framelift.compile", "perceptron", "adamw", True, batch)
    assert losses == pytest.approx(expected)
    assert framelift.stats()["captures"] <= 4, framelift.stats()["recompiles"]
    assert {one.kind for one in step.recompiles()} <= {"TENSOR", "state"}


def test_parameters_that_are_frozen_for_a_while() -> None:
    framelift.reset()
    model = Perceptron()
    step = framelift.compile(model, backend="eager")
    x, targets = torch.randn(6, 8), torch.randint(0, 4, (6,))
    for number in range(12):
        model.layers[0].requires_grad_(number % 4 < 2)
        step(x, targets).backward()
    assert framelift.stats()["captures"] == 2
    (one,) = step.recompiles()
    assert "requires_grad" in one.sentence and one.origin == "self.layers.0.weight"
