"""Floats that change from call to call, for AOTAutograd: operators that take one as a number are rewritten with
tensors.

AOTAutograd follows a symbolic float where it is a factor, a term or an exponent of a tensor, and gives up on it
everywhere else.  The float would be a constant there, and a schedule of learning rates a compilation for each
step.  So these operators are taken apart as their kernels compute them, down to those it can follow.  A row is a
decomposition; without a symbolic float it leaves the operator as it is.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.graph_module import GraphModule

from ..torch_ports.fakes import FakeTensor
from ..torch_ports.graphs import tree_leaves
from ..torch_ports.operators import OpOverload
from ..torch_ports.tensors import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

aten = torch.ops.aten
Row = Callable[..., Any]
_ROWS: dict[Any, Row] = {}
_NARROW = (torch.float16, torch.bfloat16)  # kernels compute these in float32


def takes_floats(graph_module: GraphModule) -> bool:
    """Return whether a symbolic float is among the graph's inputs: as a tensor of which the graph takes the item."""
    examples = [node.meta.get("example_value") for node in graph_module.graph.find_nodes(op="placeholder")]
    return any(isinstance(one, FakeTensor) and isinstance(one.item_memo, torch.SymFloat) for one in examples)


def following_floats(table: Any = None) -> dict[Any, Row]:
    """A table of decompositions, before whose rows stand, for symbolic floats, those here and torch's own."""
    own = dict(table or {})
    return own | {op: functools.partial(_decomposed, row, own.get(op)) for op, row in _all_rows().items()}


@functools.cache
def _all_rows() -> dict[Any, Row]:
    """The rows here, and torch's own decompositions of other operators with numbers; those that draw stay whole."""
    from ..torch_ports.operators import decomposition_table

    theirs = {
        op: row
        for op, row in decomposition_table.items()
        if isinstance(op, OpOverload)
        and any(_takes_number(argument.type) for argument in op._schema.arguments)
        and torch.Tag.nondeterministic_seeded not in op.tags
    }
    followed = [getattr(aten, name).Scalar for name in ("eq", "ne", "lt", "le", "gt", "ge")]
    return {op: row for op, row in theirs.items() if op not in followed} | _ROWS


def _takes_number(kind: Any) -> bool:
    return str(kind) in ("number", "Optional[number]", "float", "Optional[float]")


def _decomposed(row: Row, otherwise: Row | None, *args: Any, **kwargs: Any) -> Any:
    if any(isinstance(leaf, torch.SymFloat) for leaf in tree_leaves((args, kwargs))):
        made = row(*args, **kwargs)
        if made is not NotImplemented:
            return made
    return NotImplemented if otherwise is None else otherwise(*args, **kwargs)


def _row(*ops: Any) -> Callable[[Row], Row]:
    def register(row: Row) -> Row:
        _ROWS.update((op, row) for op in ops)
        return row

    return register


def _scalar(number: Any, like: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The number as a tensor without dimensions."""
    return (torch.ones((), dtype=torch.float64, device=like.device) * number).to(dtype)


def _computed(formula: Callable[..., torch.Tensor], *operands: torch.Tensor) -> torch.Tensor:
    """The formula of these tensors in the type in which a kernel computes it, and its result in the type it has."""
    wide, dtype = elementwise_dtypes(*operands, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.INT_TO_FLOAT)
    return formula(*[one.to(wide) for one in operands]).to(dtype)


def _of_floats(*operands: torch.Tensor) -> bool:
    """Return whether a kernel takes a float beside these tensors: for integers and truth values there are other
    rules.
    """
    return any(one.dtype.is_floating_point or one.dtype.is_complex for one in operands)


# ---- one tensor at a time --------------------------------------------------------------------------------------------


def _is_one(alpha: Any) -> bool:
    return type(alpha) in (int, float) and alpha == 1


def _factor(alpha: Any, self: torch.Tensor, other: torch.Tensor) -> Any:
    """As the kernels for the CPU take it: in the type of the result."""
    dtype = torch.result_type(self, other)
    return _scalar(alpha, other, dtype) if dtype in _NARROW and other.device.type == "cpu" else alpha


@_row(aten.add.Tensor, aten.add.Scalar)
def _add(self: torch.Tensor, other: Any, alpha: Any = 1) -> Any:
    if not isinstance(other, torch.Tensor):
        if _is_one(alpha):
            return NotImplemented
        # AOTAutograd would forget what it is multiplied by
        return _computed(lambda a: a + _scalar(other, a, a.dtype) * alpha, self)
    if _of_floats(self, other):
        return _computed(lambda a, b: a + b * _factor(alpha, self, other), self, other)
    return NotImplemented


@_row(aten.sub.Tensor, aten.sub.Scalar)
def _sub(self: torch.Tensor, other: Any, alpha: Any = 1) -> Any:
    if not isinstance(other, torch.Tensor):
        if _is_one(alpha) or not _of_floats(self):
            return NotImplemented
        return _computed(lambda a: a - _scalar(other, a, a.dtype) * alpha, self)
    if _of_floats(self, other):
        return _computed(lambda a, b: a - b * _factor(alpha, self, other), self, other)
    return NotImplemented


@_row(aten.rsub.Tensor, aten.rsub.Scalar)
def _rsub(self: torch.Tensor, other: Any, alpha: Any = 1) -> Any:
    if not _of_floats(self):
        return NotImplemented
    if not isinstance(other, torch.Tensor):
        return _computed(lambda a: _scalar(other, a, a.dtype) - a * alpha, self)
    return _computed(lambda a, b: b - a * alpha, self, other)


_row(aten.mul.Scalar)(operator.mul)
_row(aten.div.Scalar)(operator.truediv)


@_row(aten.div.Tensor_mode, aten.div.Scalar_mode)
def _div_mode(self: torch.Tensor, other: Any, *, rounding_mode: str | None) -> torch.Tensor:
    return _computed(lambda a: torch.div(a, _scalar(other, a, a.dtype), rounding_mode=rounding_mode), self)


@_row(aten.addcmul.default)
def _addcmul(self: torch.Tensor, first: torch.Tensor, second: torch.Tensor, *, value: Any = 1) -> Any:
    if _of_floats(self, first, second):
        return _computed(lambda a, b, c: a + b * value * c, self, first, second)
    return NotImplemented


@_row(aten.addcdiv.default)
def _addcdiv(self: torch.Tensor, first: torch.Tensor, second: torch.Tensor, *, value: Any = 1) -> Any:
    if _of_floats(self, first, second):
        return _computed(lambda a, b, c: a + b * value / c, self, first, second)
    return NotImplemented


@_row(aten.lerp.Scalar)
def _lerp(self: torch.Tensor, end: torch.Tensor, weight: Any) -> torch.Tensor:
    if abs(weight) < 0.5:  # a fact of the capture
        return _computed(lambda a, b: a + (b - a) * weight, self, end)
    return _computed(lambda a, b: b - (b - a) * (1 - _scalar(weight, a, a.dtype)), self, end)


@_row(aten.pow.Scalar)
def _pow_of_number(self: Any, exponent: torch.Tensor) -> torch.Tensor:
    return _computed(lambda b: torch.pow(_scalar(self, b, b.dtype), b), exponent)


@_row(aten.pow.Tensor_Scalar)
def _pow(self: torch.Tensor, exponent: Any) -> torch.Tensor:
    for root in (0.5, -0.5):
        if exponent == root:  # a fact of the capture: kernels take roots, which give other zeros and infinities
            return _computed(lambda a, root=root: torch.pow(a, root), self)
    return _computed(lambda a: torch.pow(a, _scalar(exponent, a, a.dtype)), self)


@_row(aten.clamp.default, aten.clamp_min.default)
def _clamp(self: torch.Tensor, min: Any = None, max: Any = None) -> torch.Tensor:
    return _computed(
        lambda a: torch.clamp(a, *[None if end is None else _scalar(end, a, a.dtype) for end in (min, max)]), self
    )


@_row(aten.clamp_max.default)
def _clamp_max(self: torch.Tensor, max: Any) -> torch.Tensor:
    return _clamp(self, None, max)


@_row(aten.masked_fill.Scalar)
def _masked_fill(self: torch.Tensor, mask: torch.Tensor, value: Any) -> Any:
    return torch.masked_fill(self, mask, _scalar(value, self, self.dtype)) if _of_floats(self) else NotImplemented


@_row(aten.fill.Scalar, aten.full_like.default)
def _filled(self: torch.Tensor, value: Any, **options: Any) -> torch.Tensor:
    like = torch.empty_like(self, **{name: option for name, option in options.items() if option is not None})
    return torch.ones_like(like) * _scalar(value, like, like.dtype)


@_row(aten.full.default)
def _full(
    size: Sequence[Any], value: Any, *, dtype: torch.dtype | None = None, device: Any = None, **options: Any
) -> Any:
    if options.get("pin_memory"):
        return NotImplemented
    return (torch.ones(size, dtype=torch.float64, device=device) * value).to(dtype or torch.get_default_dtype())


_row(aten.scalar_tensor.default)(functools.partial(_full, ()))


# ---- lists of tensors: one operation on the whole list, where all are of one type
# ----------------------------------------


def _one_type(tensors: Sequence[torch.Tensor]) -> bool:
    first = tensors[0]
    return first.dtype in (torch.float32, torch.float64) and all(
        one.dtype is first.dtype and one.device == first.device for one in tensors
    )


def _numbers(tensors: Sequence[torch.Tensor], number: Any) -> list[torch.Tensor]:
    """A number, or one for each, as tensors."""
    if isinstance(number, (list, tuple)):
        return [_scalar(one, tensor, tensor.dtype) for one, tensor in zip(number, tensors, strict=True)]
    return [_scalar(number, tensors[0], tensors[0].dtype)] * len(tensors)


def _each(number: Any, count: int) -> Sequence[Any]:
    return number if isinstance(number, (list, tuple)) else [number] * count


def _all(results: list[Any]) -> Any:
    """The results; the operator is left whole where one of its parts is."""
    return NotImplemented if any(one is NotImplemented for one in results) else results


def _arithmetic(name: str, single: Callable[[Any, Any], Any]) -> None:
    packet = getattr(aten, f"_foreach_{name}")

    @_row(packet.Scalar, packet.ScalarList)
    def row(self: Sequence[torch.Tensor], number: Any) -> Any:
        if _one_type(self):
            return packet.List(self, _numbers(self, number))
        return _all([single(one, n) for one, n in zip(self, _each(number, len(self)), strict=True)])


for _name, _single in {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "pow": _pow,
    "maximum": _clamp,
    "minimum": _clamp_max,
    "clamp_min": _clamp,
    "clamp_max": _clamp_max,
}.items():
    _arithmetic(_name, _single)


def _scaled(name: str, single: Row) -> None:
    packet = getattr(aten, f"_foreach_{name}")

    @_row(packet.List)
    def row(self: Sequence[torch.Tensor], other: Sequence[torch.Tensor], *, alpha: Any = 1) -> Any:
        if _one_type([*self, *other]):
            return packet.List(self, aten._foreach_mul.List(other, _numbers(other, alpha)))
        return _all([single(a, b, alpha) for a, b in zip(self, other, strict=True)])


_scaled("add", _add)
_scaled("sub", _sub)


def _added(name: str, last: Any, single: Row) -> None:
    packet = getattr(aten, f"_foreach_{name}")

    @_row(packet.Scalar, packet.ScalarList)
    def row(
        self: Sequence[torch.Tensor], first: Sequence[torch.Tensor], second: Sequence[torch.Tensor], value: Any = 1
    ) -> Any:
        if _one_type([*self, *first, *second]):
            return aten._foreach_add.List(self, last(aten._foreach_mul.List(first, _numbers(first, value)), second))
        return _all(
            [single(a, b, c, value=v) for a, b, c, v in zip(self, first, second, _each(value, len(self)), strict=True)]
        )


_added("addcmul", aten._foreach_mul.List, _addcmul)
_added("addcdiv", aten._foreach_div.List, _addcdiv)


@_row(aten._foreach_lerp.Scalar)
def _foreach_lerp(self: Sequence[torch.Tensor], end: Sequence[torch.Tensor], weight: Any) -> Any:
    if not _one_type([*self, *end]):
        return [_lerp(a, b, weight) for a, b in zip(self, end, strict=True)]
    ways = aten._foreach_sub.List(end, self)
    if abs(weight) < 0.5:
        return aten._foreach_add.List(self, aten._foreach_mul.List(ways, _numbers(ways, weight)))
    return aten._foreach_sub.List(end, aten._foreach_mul.List(ways, [1 - one for one in _numbers(ways, weight)]))


@_row(aten._foreach_pow.ScalarAndTensor)
def _foreach_pow_of_number(self: Any, exponent: Sequence[torch.Tensor]) -> Any:
    if _one_type(exponent):
        return aten._foreach_pow.List(_numbers(exponent, self), exponent)
    return [_pow_of_number(self, one) for one in exponent]
