"""Programs that torch.export takes in strict mode: exported as well, for sizes other than the examples' too."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.exc import UserError
from torch.export import Dim
from torch.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes

from framelift.export import draft_export, export


class Program(nn.Module):
    def __init__(self, function: Callable[..., Any], layer: nn.Module | None = None) -> None:
        super().__init__()
        self.function, self.layer = function, layer

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args) if self.layer is None else self.function(self.layer, *args)


def _mask(x: torch.Tensor) -> torch.Tensor:
    """An attention mask of nested functions of indices."""
    of_keys = torch.vmap(lambda row, key: key <= row, (None, 0))
    return torch.vmap(of_keys, (0, None))(torch.arange(x.shape[0]), torch.arange(x.shape[1]))


def _cast(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cuda", dtype=torch.float16):
        return x @ x.T


B, N = {0: Dim("batch")}, {0: Dim("batch"), 1: Dim("n")}
#: the program, the dynamic shapes of its arguments, and shapes of two calls
PROGRAMS: dict[str, tuple[Program, Any, list[list[tuple[int, ...]]]]] = {
    "convolution": (Program(lambda c, x: c(x), nn.Conv2d(3, 4, 3)), [B], [[(4, 3, 8, 8)], [(40, 3, 8, 8)]]),
    "root of a size": (Program(lambda x: x / math.sqrt(x.shape[1])), [N], [[(4, 3)], [(5, 9)]]),
    "vmap": (Program(torch.vmap(lambda row: row.sin() * row.shape[0])), [N], [[(4, 3)], [(5, 9)]]),
    "mask": (Program(_mask), [N], [[(4, 3)], [(5, 9)]]),
    "spectral norm": (
        Program(lambda c, x: c(x), nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)).eval()),
        [B],
        [[(4, 3)], [(5, 3)]],
    ),
    "greatest of sizes": (
        Program(lambda x, y: torch.zeros(max([x.shape[0], y.shape[0], 3])) + x.sum()),
        [{0: Dim("a")}, {0: Dim("b")}],
        [[(4, 3), (6, 3)], [(9, 3), (2, 3)]],
    ),
    "least of sizes": (
        Program(lambda x, y: x[: min(x.shape[0], y.shape[0])] + 1),
        [{0: Dim("a")}, {0: Dim("b")}],
        [[(4, 3), (6, 3)], [(9, 3), (2, 3)]],
    ),
    "types": (
        Program(lambda x: x.type(torch.DoubleTensor) + x.type("torch.IntTensor").type(x.type())),
        [B],
        [[(4, 3)], [(5, 3)]],
    ),
    "a size as a float": (Program(lambda x: x * float(x.shape[0]) / (x.shape[0] + 0.5)), [B], [[(4, 3)], [(5, 3)]]),
    "a sparse result": (Program(lambda x: x.to_sparse()), [None], [[(4, 3)]]),
    "autocast for another device": (Program(_cast), [B], [[(4, 3)], [(5, 3)]]),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:User provided device_type|CUDA is not available")
def test_program_is_exported_for_all_sizes(name: str) -> None:
    program, shapes, calls = PROGRAMS[name]
    first, *_ = calls = [[torch.randn(shape) for shape in call] for call in calls]
    module = export(program, tuple(first), dynamic_shapes=(tuple(shapes),), strict=True).module()
    for call in calls:
        torch.testing.assert_close(module(*call), program(*call))


class Asks(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sin() if x.shape[0] > 10 and y.shape[0] == x.shape[0] * 2 else x.cos()


@pytest.mark.parametrize("strict", [True, False])
def test_suggested_fixes_are_taken_from_the_error(strict: bool) -> None:
    shapes: Any = {"x": {0: Dim("a")}, "y": {0: Dim("b")}}
    args = torch.ones(12), torch.ones(24)
    with pytest.raises(UserError, match=r"relies on:\n  x.size\(\)\[0\] > 10 at ") as found:
        export(Asks(), args, dynamic_shapes=shapes, strict=strict)
    assert "draft_export" in str(found.value)
    assert refine_dynamic_shapes_from_suggested_fixes(str(found.value), shapes)
    fixed = refine_dynamic_shapes_from_suggested_fixes(found.value.msg, shapes)
    module = export(Asks(), args, dynamic_shapes=fixed, strict=strict).module()
    torch.testing.assert_close(module(torch.ones(20), torch.ones(40)), torch.ones(20).sin())


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x[0].long().item()
        if n > 3:
            x = x + 1
        return x * 2 if x.sum() > 0 else x


def test_a_draft_reports_all_that_values_decide() -> None:
    x = torch.tensor([5.0, 1.0])
    with pytest.raises(UserError, match=r"`torch._check\(n > 3\)` or `torch._check\(not \(n > 3\)\)`"):
        export(Branches(), (x,), strict=True)
    program = draft_export(Branches(), (x,))
    assert len(program._report.failures) == 2
    innermost = [failure.data["user_stack"][-1] for failure in program._report.failures]
    assert [frame["loc"] for frame in innermost] == ["if n > 3:", "return x * 2 if x.sum() > 0 else x"]
    torch.testing.assert_close(program.module()(x), Branches()(x))
    with pytest.raises(RuntimeError, match="Runtime assertion failed"):
        program.module()(-x)


def _regions(*declared: tuple[str, torch.dtype | None]) -> contextlib.ExitStack:
    stack = contextlib.ExitStack()
    for device, dtype in declared:
        stack.enter_context(torch.autocast(device, dtype=dtype, enabled=dtype is not None))
    return stack


HALF, OFF, ELSEWHERE = ("cpu", torch.bfloat16), ("cpu", None), ("cuda", None)
#: regions one after another; in each a product is made at every level, on the way out
REGIONS = {
    "off": [[OFF]],
    "off for another device": [[ELSEWHERE]],
    "off for two devices": [[OFF, ELSEWHERE]],
    "off inside": [[HALF, OFF]],
    "off for another device inside": [[HALF, ELSEWHERE]],
    "on inside of off": [[OFF, HALF, OFF]],
    "one after another": [[HALF], [OFF], [ELSEWHERE, OFF]],
}


def _products(x: torch.Tensor, region: list[Any]) -> list[torch.Tensor]:
    if not region:
        return []
    device, dtype = region[0]
    with torch.autocast(device, dtype=dtype, enabled=dtype is not None):
        made = [*_products(x, region[1:]), x @ x]
    return [*made, x @ x]


@pytest.mark.parametrize("exported_in", ["nothing", "autocast"])
@pytest.mark.parametrize("name", REGIONS)
@pytest.mark.filterwarnings("ignore:User provided device_type|CUDA is not available")
def test_autocast_regions_are_kept(name: str, exported_in: str) -> None:
    """An exported program is called in other states of autocast than it was exported in."""
    program = Program(lambda x: [made for region in REGIONS[name] for made in _products(x, region)])
    x = torch.randn(3, 3)
    with _regions(*([HALF] if exported_in == "autocast" else [])):
        ours = export(program, (x,), strict=True).module()
        torchs = torch.export.export(program, (x,), strict=True).module()
    for around in ([], [HALF], [("cpu", torch.float16)]):
        with _regions(*around):
            wanted, found, other = program(x), ours(x), torchs(x)
        assert [one.dtype for one in found] == [one.dtype for one in wanted] == [one.dtype for one in other]
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
