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


def test_options_of_inductor_for_a_backend_that_has_no_use_for_them() -> None:
    with pytest.warns(UserWarning, match=r"the backend eager has no use for options={'max_autotune': True}") as warned:
        framelift.compile(torch.sin, backend="eager", options={"max_autotune": True})
    assert warned[0].filename == __file__


def test_wrappers_of_torch_around_a_compiled_module() -> None:
    """Compiled methods and modules, inside of others or around them, give what the plain ones do."""

    class Twice(torch.nn.Module):
        @framelift.compile(backend="eager")
        def forward(self, x):
            return x * 2

    plain, seen = torch.nn.Linear(4, 4), []
    plain.register_forward_hook(lambda module, args, result: seen.append(result.sum().item()))
    x = torch.ones(2, 4)
    inside = torch.nn.Sequential(plain, Twice())
    for wrapped in (torch.nn.DataParallel(framelift.compile(plain, backend="eager")), inside):
        expected, result = plain(x) * (2 if wrapped is inside else 1), wrapped(x)
        assert torch.equal(result, expected) and seen[-1] == seen[-2]


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


def test_another_dtype_is_read_where_the_program_uses_it() -> None:
    """No line of torch's own stands where the program's is known."""

    class Scaled(torch.nn.Module):
        def forward(self, x):
            return x * 2

    compiled = framelift.compile(Scaled(), backend="eager")
    compiled(torch.ones(2))
    for forbidden in (framelift.set_stance("fail_on_recompile"), framelift.config.patch(error_on_recompile=True)):
        with (
            forbidden,
            pytest.raises(exc.RecompileError, match=r"read at .*test_mistakes_of_users.py:\d+ in .*forward"),
        ):
            compiled(torch.ones(2, dtype=torch.float64))


@pytest.mark.parametrize("call", [X, (X,), (X, {}), ((X,),), ((X,), {}, 1)])
def test_calls_of_a_package_that_are_no_pairs(call, tmp_path: Path) -> None:
    with pytest.raises(exc.WrongType, match=r"calls= takes pairs \(args, kwargs\), as in"):
        framelift.save_package(compiled_linear(), tmp_path / "package", calls=[call])


def test_a_package_of_a_module_that_was_not_called(tmp_path: Path) -> None:
    with pytest.raises(exc.PackageError, match="Linear was not captured yet"):
        framelift.save_package(compiled_linear(), tmp_path / "package")


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
