"""Mistakes that users make while they train, explore, serve and write backends, and the messages they get."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import framelift
from framelift import exc

X = torch.ones(2)


def compiled_linear(**options):
    return framelift.compile(torch.nn.Linear(4, 2).eval(), backend="eager", **options)


# ---- training


def test_a_number_for_the_log_inside_the_step() -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []

    @framelift.compile(backend="eager")
    def step(x, y):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    for _ in range(3):
        step(torch.ones(8, 4), torch.ones(8, 1))
    assert len(losses) == 3 and losses[2] < losses[0]
    (found,) = step.report().breaks
    assert (
        found.reason == "tensor-item" and "`loss.item()`" in found.fix and "outside the compiled function" in found.fix
    )


def test_a_checkpoint_of_the_wrapper_has_torchs_names() -> None:
    assert list(compiled_linear().state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]


def test_a_schedule_recompiles_once() -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

    @framelift.compile(backend="eager")
    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    for _ in range(6):
        step(torch.ones(8, 4))
        scheduler.step()
    assert len(step.recompiles()) == 1  # the first step has no gradients yet


def test_evaluation_and_another_dtype_say_what_to_do() -> None:
    compiled = framelift.compile(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout()), backend="eager")
    x = torch.ones(2, 4)
    compiled(x), compiled.eval()(x), compiled.double()(x.double())
    fixes = [one.fix for one in compiled.report().recompiles]
    assert fixes[0] == "Expected: one graph for training and one for evaluation."
    assert "dtype torch.float32 -> dtype torch.float64" in fixes[1]


# ---- in a notebook


def test_nothing_was_called_yet() -> None:
    compiled = framelift.compile(lambda x: x)
    assert "not captured yet" in str(compiled) and "nothing was called" in str(compiled.report())


def test_a_result_is_no_function() -> None:
    with pytest.raises(exc.NotCallable, match="compile takes a function, module or other callable, not Tensor"):
        framelift.compile(X)


def test_a_missing_argument_is_pythons_error() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        framelift.compile(lambda x, y: x + y, backend="eager")(X)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"backend": "inducter"}, "did you mean 'inductor'"),
        ({"options": {"max_autotun": True}}, "did you mean 'max_autotune'"),
        ({"mode": "reduce_overhead", "backend": "eager"}, "did you mean 'reduce-overhead'"),
    ],
)
def test_misspelt_options(options, words: str) -> None:
    with pytest.raises(exc.FrameliftError, match=words):
        framelift.compile(torch.sin, **options)


# ---- serving


def test_warmed_up_in_another_mode() -> None:
    compiled = compiled_linear()
    with torch.no_grad():
        compiled(torch.ones(8, 4))
    with torch.inference_mode(), framelift.set_stance("fail_on_recompile"):
        with pytest.raises(exc.RecompileError, match="inference mode is now True, was False"):
            compiled(torch.ones(8, 4))


def test_a_size_that_was_not_warmed_up() -> None:
    compiled = compiled_linear()
    compiled(torch.ones(8, 4))
    with framelift.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match=r"size \(9, 4\), had \(8, 4\)"):
        compiled(torch.ones(9, 4))


@pytest.mark.parametrize(
    "dynamic, words",
    [
        (None, r"input has size \(1, 4\), had \(8, 4\)"),
        (True, r"input.size\(0\) is 1, and this capture is for sizes of 2 and more: 1 needs one of its own"),
    ],
)
def test_one_row_for_a_package_of_eight(dynamic: bool | None, words: str, tmp_path: Path) -> None:
    compiled = compiled_linear(dynamic=dynamic)
    framelift.save_package(compiled, tmp_path / "eight", calls=[((torch.ones(8, 4),), {})])
    loaded = framelift.load_package(tmp_path / "eight", torch.nn.Linear(4, 2).eval())
    assert loaded(torch.ones(8, 4)).shape == (8, 2)
    with pytest.raises(exc.PackageError, match=words):
        loaded(torch.ones(1, 4))


# ---- writing a backend


def run(backend, **options):
    return framelift.compile(lambda x: x.sin() + 1, backend=backend, **options)(X)


def test_a_backend_that_forgets_to_return() -> None:
    with pytest.raises(exc.BackendCompilerFailed, match="NoneType, which is not callable"):
        run(lambda graph, inputs: None)


def test_a_backend_whose_function_gives_a_bare_tensor() -> None:
    """Its first row is not taken for the first output."""
    with pytest.raises(exc.BackendCompilerFailed, match="gives a Tensor, not a tuple or list of the graph's outputs"):
        run(lambda graph, inputs: lambda *args: graph.forward(*args)[0])


def test_a_backend_with_too_few_outputs() -> None:
    with framelift.config.patch(strict=False), pytest.warns(UserWarning, match="defect of framelift or of the backend"):
        assert torch.equal(run(lambda graph, inputs: lambda *args: ()), X.sin() + 1)


def test_a_backend_with_a_parameter_too_few() -> None:
    with pytest.raises(exc.BackendCompilerFailed, match="takes 1 positional argument but 2 were given"):
        run(lambda graph: graph.forward)


def test_a_backend_that_is_wrong_is_found_by_verifying() -> None:
    with pytest.raises(exc.VerificationFailed, match="the result has other values"):
        run(lambda graph, inputs: lambda *args: (args[0] * 0,), verify=True)
