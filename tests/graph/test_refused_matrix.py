"""Functions of torch x dtypes: where a kernel refuses the dtype, the exception is that of eager mode, by type and text.

A sample is run here; `python tests/graph/test_refused_matrix.py [backend]` runs all cells.
"""

from __future__ import annotations

import functools
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift

DTYPES = (torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.complex64)
#: what is no operation on values, draws numbers, or may end the process
_LEFT_OUT = re.compile(
    "_.*|.*_$|rand.*|.*dropout.*|bernoulli|multinomial|normal|poisson|empty.*|set.*|save|load|data_ptr|"
    "storage.*|share.*|register.*|is_.*|has_.*|backward|numpy|to_.*|untyped.*|requires.*|retain.*|"
    "resize.*|new.*|type.*|pin_memory|cuda|xpu|cpu|ipu|module_load|dim_order|item|tolist|get_device|"
    "element_size|record_stream|fbgemm.*|mkldnn.*|q_.*|quant.*|choose_qparams.*|cudnn.*|miopen.*|from_.*|"
    "apply.*|map.*|reinforce|names|rename.*|align.*|refine.*|sparse.*|ccol.*|crow.*|col_indices|"
    "row_indices|indices|values|hsmm|sspaddmm|smm|dense_dim|coalesce|int_repr|vmap|compile|cond|export|"
    "while_loop|batch_norm.*|native_.*|stft|istft|hash_tensor|nonzero_static|unravel_index|histogramdd|"
    "svd_.*|pca_.*"
)


@functools.cache
def cells() -> list[tuple[str, int, torch.dtype]]:
    """(name of a function, number of its tensors, dtype)."""
    owner = torch._C._VariableFunctions
    names = [name for name in dir(owner) if hasattr(torch, name) and not _LEFT_OUT.fullmatch(name)]
    return [(name, count, dtype) for name in names for count in (1, 2) for dtype in DTYPES]


def outcome(call: Callable[..., Any], *args: torch.Tensor) -> tuple[type, str] | None:
    """The exception of a call; None where there is a result."""
    try:
        call(*[arg.clone() for arg in args])
    except Exception as error:  # noqa: BLE001  any exception is compared
        return type(error), str(error)
    return None


def differs(cell: tuple[str, int, torch.dtype], backend: str) -> str:
    """How a cell differs from eager mode; empty where it does not, or eager mode has a result."""
    name, count, dtype = cell
    function = getattr(torch, name)
    args = [torch.ones(3, 3).to(dtype)] * count

    def program(*given: torch.Tensor) -> Any:
        return function(*[one * one for one in given])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = outcome(program, *args)
        if expected is None:
            return ""
        framelift.reset()
        compiled = framelift.compile(program, backend=backend)
        found = [outcome(compiled, *args) for _ in range(2)]
    return "" if found == [expected, expected] else f"{name} of {count} x {dtype}, {backend}: {expected} but {found}"


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_sample(backend: str) -> None:
    step = 37 if backend == "eager" else 97
    assert [found for cell in cells()[::step] if (found := differs(cell, backend))] == []


if __name__ == "__main__":
    FOUND = [found for cell in cells() if (found := differs(cell, (*sys.argv, "eager")[1]))]
    print("\n".join(FOUND), f"{len(cells())} cells, {len(FOUND)} differences", sep="\n")


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_kernels_that_want_regular_matrices(dtype: torch.dtype) -> None:
    """Neither zeros nor ones show whether such a kernel takes the dtype; a singular matrix fails as in eager mode."""

    def f(x: torch.Tensor) -> Any:
        return tuple(torch.linalg.lu_factor(x))

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    given = torch.randn(2, 3, 3, dtype=dtype)
    assert all(torch.equal(one, other) for one, other in zip(compiled(given), f(given)))
    with pytest.raises(RuntimeError, match="is zero"):
        compiled(torch.zeros(2, 3, 3, dtype=dtype))
