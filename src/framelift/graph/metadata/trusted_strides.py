"""Operations whose strides by fake and meta kernels can be trusted: they are those that the real kernels give.

What torch's fake and meta kernels get wrong was found by comparing them with the CPU's kernels over random layouts, and
was seen in torch 2.13:

- They take a tensor for contiguous whatever the strides of its dimensions of size 1, and then skip the sorting of
  dimensions that the real
  kernels do: `empty_strided((4, 1), (1, 7)) + 1` has strides (1, 4), and (1, 1) on meta.
- The same where a broadcast dimension of size 1 stays one: (2, 2) with strides (1, 2) times (1, 2, 1).
- Results without elements: real kernels count the empty dimension when they lay out the dimensions around it, meta
  kernels do not.
- `layer_norm` of a tensor with such a dimension of size 1 keeps its strides on meta.
- `logical_and`, `logical_or` and `logical_xor` of tensors that are not contiguous: their meta kernels compare first,
  which forgets what was
  expanded (so they are not among the operations of meta_kernels.py).

Views are right: their strides are computed by the same code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .facts import Facts


def _has_size(sizes: Iterable[Any], which: int) -> bool:
    return any(type(size) is int and size == which for size in sizes)


def are_believed(results: Sequence[Facts], layouts: Sequence[Facts], regular: bool) -> bool:
    """Return whether strides of new tensors with the facts `results` follow from those of `layouts`, the tensors whose
    layout decides; of none, where the real kernels lay out their results in the order of the dimensions.

    `regular`: the operation gives the same strides on every device (meta_kernels.py).
    """
    if not layouts:  # the real results lie in order
        return all(one.is_contiguous() for one in results)
    if any(_has_size(one.size, 0) for one in (*results, *layouts)):
        return False
    irregular = [one for one in layouts if not one.is_contiguous()]
    if not irregular:
        return True
    return regular and not any(_has_size(one.size, 1) for one in (*results, *irregular))
