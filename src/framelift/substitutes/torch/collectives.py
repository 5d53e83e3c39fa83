"""Collectives of torch.distributed as operations of graphs: the functional operators, and a copy to where the result
belongs.  The group of a call is a constant of the capture, which a guard looks at.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from ..._core import is_a
from ...calls.call_tables import substitute
from ...graph.fx.targets import target_of
from ...graph.metadata.facts import Facts
from ...guards.checks import check
from ...torch_ports.autograd import is_grad_enabled
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ...recording.session import Session


def _world() -> Any:
    return dist.group.WORLD


def _facts(group: Any) -> tuple[str, int, int]:
    return group.group_name, group.rank(), group.size()


@check
def _is_world(facts: tuple[str, int, int], ask: Any) -> bool:
    group = ask()
    return group is not None and _facts(group) == facts


def _group(session: Session, group: Any) -> tuple[str, int, int]:
    """Name, rank and size of a group, which are constants from here on."""
    if group is None:
        found = _world() if dist.is_initialized() else None
        if found is None:
            raise Interrupt("unknown-callable", "a collective without a default group")
        facts = _facts(found)
        session.world.guard(const(_world), "CHECK", (functools.partial(_is_world, facts), "() is as it was"), facts)
        return facts
    record = session.world.by_seen.get(id(group))
    if record is None or not is_a(record.original, dist.ProcessGroup):
        raise Interrupt("unknown-callable", "a collective of a group that is made inside")
    session.world.guard(record.origin, "IS", record.original)
    return _facts(record.original)


def _collective(
    session: Session, name: str, group: Any, async_op: Any, output: Any, given: Any, *args: Any, ranks: bool = False
) -> None:
    """Record the functional operator `name`, and write its result to `output`."""
    recorder, tensors = session.recorder, (output, given)
    if not all(type(one) is torch.Tensor and recorder.is_stand_in(one) for one in tensors) or async_op:
        raise Interrupt("unknown-callable", f"torch.distributed: {name} of these arguments")
    facts = [recorder.value_of(one).facts for one in tensors]
    if (
        is_grad_enabled()
        and any(one.requires_grad for one in facts)
        or any(type(one) is not Facts or not one.size or not one.is_contiguous() for one in facts)
        or (facts[0].dtype, facts[0].device) != (facts[1].dtype, facts[1].device)
    ):
        raise Interrupt("unknown-callable", f"torch.distributed: {name} of tensors like these")
    from ...torch_ports.operators import collective_operators, collectives  # which says what the operators give

    assert collectives is not None
    group_name, _, size = _group(session, group)
    more = (*args, size, group_name) if ranks else (*args, group_name)
    made = recorder.record(target_of(getattr(collective_operators, name).default), (given, *more), {}, keep=True)
    made = recorder.record(target_of(collective_operators.wait_tensor.default), (made,), {}, keep=True)
    if recorder.value_of(made).facts.size != facts[0].size:  # other forms are for some backends only
        raise Interrupt("unknown-callable", f"torch.distributed: {name} of tensors of these sizes")
    session.call(torch.Tensor.copy_, (output, made), {})


def _name_of(op: Any) -> str:
    from ...torch_ports.operators import collectives

    found = collectives.REDUCE_OP_TO_STR.get(op)
    if found is None:
        raise Interrupt("unknown-callable", "torch.distributed: a reduction of this kind")
    return str(found)


if dist.is_available():

    @substitute(dist.all_reduce)
    def _all_reduce(
        session: Session, tensor: Any, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: Any = False
    ) -> None:
        _collective(session, "all_reduce", group, async_op, tensor, tensor, _name_of(op))

    @substitute(dist.all_gather_into_tensor)
    def _all_gather(
        session: Session, output_tensor: Any, input_tensor: Any, group: Any = None, async_op: Any = False
    ) -> None:
        _collective(session, "all_gather_into_tensor", group, async_op, output_tensor, input_tensor, ranks=True)

    @substitute(dist.reduce_scatter_tensor)
    def _reduce_scatter(
        session: Session, output: Any, input: Any, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: Any = False
    ) -> None:
        _collective(session, "reduce_scatter_tensor", group, async_op, output, input, _name_of(op), ranks=True)

    @substitute(dist.get_rank)
    def _rank(session: Session, group: Any = None) -> int:
        return _group(session, group)[1]

    @substitute(dist.get_world_size)
    def _size(session: Session, group: Any = None) -> int:
        return _group(session, group)[2]
