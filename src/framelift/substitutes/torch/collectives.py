"""Collectives of torch.distributed as operations of graphs: the functional operators, and a copy to where the result
belongs.  The group of a call is a constant of the capture, which a guard looks at.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from ..._core import is_a
from ...boundary.becomes.opaque import answers_reads, callable_for, unknown_object
from ...calls.call_tables import CODE_HANDLERS, handler_form, substitute
from ...graph.fx.targets import target_of
from ...graph.metadata.facts import Facts, SymbolicFacts
from ...guards.checks import check, gives
from ...recording.session import Session
from ...torch_ports.autograd import is_grad_enabled
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt


def _named(names: str) -> Iterator[Any]:
    """Functions of torch.distributed, as far as this torch has them."""
    return (getattr(distributed_c10d, name) for name in names.split() if hasattr(distributed_c10d, name))


def _world() -> Any:
    return dist.group.WORLD


def _facts(group: Any) -> tuple[str, int, int]:
    return group.group_name, group.rank(), group.size()


@check
def _is_world(facts: tuple[str, int, int], ask: Any) -> bool:
    group = ask()
    return group is not None and _facts(group) == facts


@check
def _is_same(found: Any, ask: Any) -> bool:
    return ask() is found


@check
def _is_named(facts: tuple[str, int, int], resolve: Any) -> bool:
    return _facts(resolve(facts[0])) == facts


def _group(session: Session, group: Any) -> tuple[str, int, int]:
    """Name, rank and size of a group, which are constants from here on.  A group is guarded where it came in."""
    if is_a(group, dist.ProcessGroup):
        return _facts(group)
    guard = session.guard
    if group is None and (found := _world() if dist.is_initialized() else None) is not None:
        facts = _facts(found)
        guard(const(_world), "CHECK", (functools.partial(_is_world, facts), "() is as it was"), facts)
        return facts
    if type(group) is str:
        resolve = distributed_c10d._resolve_process_group
        facts = _facts(resolve(group))
        guard(const(resolve), "CHECK", (functools.partial(_is_named, facts), f"({group!r}) is as it was"), facts)
        return facts
    mesh, dim = group if type(group) is tuple and len(group) == 2 else (group, None)
    if is_a(mesh, dist.DeviceMesh) and (dim is not None or mesh.ndim == 1):
        return _facts(mesh.get_group(constant_of(session, (mesh, dim))[1]))
    raise Interrupt("unknown-callable", "a collective of something that is no group")


def _write(
    session: Session, name: str, async_op: Any, outputs: Any, given: Any, make: Callable[[], Any], sizes: str = "same"
) -> Any:
    """Check the tensors of a collective, and write what `make` records to `outputs`."""
    recorder = session.recorder
    if type(outputs) is not list or not outputs or type(given) is not list:
        raise Interrupt("unknown-callable", f"torch.distributed: {name} of these arguments")
    if not all(type(one) is torch.Tensor and recorder.is_stand_in(one) for one in (*outputs, *given)):
        raise Interrupt("unknown-callable", f"torch.distributed: {name} of these arguments")
    facts = [recorder.value_of(one).facts for one in (*outputs, *given)]
    if (
        is_grad_enabled()
        and any(one.requires_grad for one in facts)
        or any(type(one) not in (Facts, SymbolicFacts) or not one.is_contiguous() for one in facts)
        or len({(one.dtype, one.device) for one in facts}) != 1
        or sizes == "same"
        and len({tuple(one.size) for one in facts}) != 1
    ):
        raise Interrupt("unknown-callable", f"torch.distributed: {name} of tensors like these")
    for output, made in zip(outputs, make()):
        if recorder.value_of(made).facts.size.numel() != recorder.value_of(output).facts.size.numel():
            raise Interrupt("unknown-callable", f"torch.distributed: {name} of tensors of these sizes")
        session.call(torch.Tensor.copy_, (output, session.call(torch.Tensor.view_as, (made, output), {})), {})
    if not async_op:
        return None
    work = unknown_object("unknown-callable", "torch.distributed: the work of a collective")
    done = callable_for(types.MethodType, "Work.wait", lambda *_: True)
    answers_reads(work, lambda _, name: done if name == "wait" else None)
    return work


def _recorded(session: Session, name: str, *args: Any) -> Any:
    """The functional operator `name`, waited for."""
    from ...torch_ports.operators import collective_operators, collectives  # which says what the operators give

    assert collectives is not None
    record = functools.partial(session.record, keep=True)
    made = record(target_of(getattr(collective_operators, name).default), args, {})
    wait = target_of(collective_operators.wait_tensor.default)
    return [record(wait, (one,), {}) for one in made] if type(made) is list else record(wait, (made,), {})


def _name_of(op: Any) -> str:
    from ...torch_ports.operators import collectives

    found = collectives.REDUCE_OP_TO_STR.get(op)
    if found is None:
        raise Interrupt("unknown-callable", "torch.distributed: a reduction of this kind")
    return str(found)


def _is_joined(session: Session, whole: Any, part: Any, count: int) -> bool:
    """Return whether a tensor has the rows of so many parts."""
    if not all(map(session.is_stand_in, (whole, part))):
        return False
    rows, *rest = session.value_of(part).facts.size or (0,)
    return [*session.value_of(whole).facts.size] == [rows * count, *rest]


def _gathered(session: Session, name: str, async_op: Any, group: Any, outputs: Any, given: Any) -> Any:
    name_of_group, _, size = _group(session, group)

    def make() -> Any:
        flat = session.call(torch.Tensor.reshape, (given, (-1,)), {})
        made = _recorded(session, "all_gather_into_tensor", flat, size, name_of_group)
        return [made] if len(outputs) == 1 else session.call(torch.chunk, (made, size), {})

    if type(outputs) is not list or len(outputs) != size and (len(outputs) != 1 or name == "all_gather"):
        raise Interrupt("unknown-callable", f"torch.distributed: {name} of these arguments")
    same = "same" if len(outputs) == size else ""
    if not same and not _is_joined(session, outputs[0], given, size):
        raise Interrupt("unknown-callable", f"torch.distributed: {name} into a tensor of this size")
    return _write(session, name, async_op, outputs, [given], make, same)


def _scattered(session: Session, name: str, async_op: Any, group: Any, output: Any, given: Any, op: Any) -> Any:
    name_of_group, _, size = _group(session, group)

    def make() -> Any:
        flat = [session.call(torch.Tensor.reshape, (one, (-1,)), {}) for one in given]
        whole = session.call(torch.cat, (flat,), {}) if len(flat) > 1 else flat[0]
        return [_recorded(session, "reduce_scatter_tensor", whole, _name_of(op), size, name_of_group)]

    if type(given) is not list or len(given) != size and (len(given) != 1 or name == "reduce_scatter"):
        raise Interrupt("unknown-callable", f"torch.distributed: {name} of these arguments")
    same = "same" if len(given) == size else ""
    if not same and not _is_joined(session, given[0], output, size):
        raise Interrupt("unknown-callable", f"torch.distributed: {name} of a tensor of this size")
    return _write(session, name, async_op, [output], given, make, same)


if dist.is_available():
    from ...torch_ports.loaded import functional_collectives
    from ...torch_ports.operators import distributed_c10d
    from .distributed_tensors import constant_of

    @substitute(dist.all_reduce)
    def _all_reduce(
        session: Session, tensor: Any, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: Any = False
    ) -> Any:
        def make() -> Any:
            return [_recorded(session, "all_reduce", tensor, _name_of(op), _group(session, group)[0])]

        return _write(session, "all_reduce", async_op, [tensor], [tensor], make)

    @substitute(dist.all_reduce_coalesced)
    def _all_reduce_coalesced(
        session: Session, tensors: Any, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: Any = False
    ) -> Any:
        def make() -> Any:
            return _recorded(session, "all_reduce_coalesced", tensors, _name_of(op), _group(session, group)[0])

        return _write(session, "all_reduce_coalesced", async_op, tensors, tensors, make, "")

    @substitute(dist.broadcast)
    def _broadcast(
        session: Session, tensor: Any, src: Any = None, group: Any = None, async_op: Any = False, group_src: Any = None
    ) -> Any:
        if (src is None) is (group_src is None) or type(src) not in (int, type(None)):
            raise Interrupt("unknown-callable", "torch.distributed: broadcast of these arguments")
        name, _, _ = _group(session, group)
        root = group_src if src is None else dist.get_group_rank(group or _world(), src)
        return _write(
            session,
            "broadcast",
            async_op,
            [tensor],
            [tensor],
            lambda: [_recorded(session, "broadcast", tensor, root, name)],
        )

    @substitute(dist.all_gather)
    def _all_gather_list(
        session: Session, tensor_list: Any, tensor: Any, group: Any = None, async_op: Any = False
    ) -> Any:
        return _gathered(session, "all_gather", async_op, group, tensor_list, tensor)

    @substitute(*_named("all_gather_into_tensor all_gather_single _all_gather_base"))
    def _all_gather(
        session: Session, output_tensor: Any, input_tensor: Any, group: Any = None, async_op: Any = False
    ) -> Any:
        return _gathered(session, "all_gather_into_tensor", async_op, group, [output_tensor], input_tensor)

    @substitute(dist.reduce_scatter)
    def _reduce_scatter_list(
        session: Session,
        output: Any,
        input_list: Any,
        op: Any = dist.ReduceOp.SUM,
        group: Any = None,
        async_op: Any = False,
    ) -> Any:
        return _scattered(session, "reduce_scatter", async_op, group, output, input_list, op)

    @substitute(*_named("reduce_scatter_tensor reduce_scatter_single _reduce_scatter_base"))
    def _reduce_scatter(
        session: Session, output: Any, input: Any, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: Any = False
    ) -> Any:
        return _scattered(session, "reduce_scatter_tensor", async_op, group, output, [input], op)

    @substitute(dist.all_to_all_single)
    def _all_to_all(
        session: Session,
        output: Any,
        input: Any,
        output_split_sizes: Any = None,
        input_split_sizes: Any = None,
        group: Any = None,
        async_op: Any = False,
    ) -> Any:
        name, _, size = _group(session, group)

        def splits(given: Any, tensor: Any) -> Any:
            rows = session.value_of(tensor).facts.size[0]
            return list(given) if given else [rows // size] * size

        def make() -> Any:
            sizes = splits(output_split_sizes, output), splits(input_split_sizes, input)
            return [_recorded(session, "all_to_all_single", input, *sizes, name)]

        return _write(session, "all_to_all_single", async_op, [output], [input], make, "")

    @substitute(
        *_named("reduce gather scatter all_to_all barrier send recv isend irecv batch_isend_irecv scatter_object_list"),
        *_named("all_gather_object gather_object broadcast_object_list monitored_barrier all_gather_coalesced"),
    )
    def _eagerly(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        raise Interrupt("unknown-callable", f"torch.distributed: {callable_.__name__}")

    @substitute(dist.get_rank)
    def _rank(session: Session, group: Any = None) -> int:
        return _group(session, group)[1]

    @substitute(dist.get_world_size)
    def _size(session: Session, group: Any = None) -> int:
        return _group(session, group)[2]

    @substitute(dist.is_initialized)
    def _is_initialized(session: Session) -> bool:
        found = dist.is_initialized()
        check_gives = functools.partial(gives, found), f"() is {found}"
        session.guard(const(dist.is_initialized), "CHECK", check_gives, found)
        return found

    @substitute(*_named("get_process_group_ranks get_global_rank get_group_rank get_backend _get_group_tag"))
    def _ranks_of(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(callable_).bind(*args, **kwargs)
        given.apply_defaults()
        group, *rank = given.args
        _group(session, group)
        found = callable_(group or _world(), *[constant_of(session, one) for one in rank])
        return list(found) if type(found) is list else found

    @substitute(type(dist.group).__dict__["WORLD"].fget)
    def _default(session: Session, cls: Any) -> Any:
        found = _world()
        session.guard(const(_world), "CHECK", (functools.partial(_is_same, found), "() is that group"), "same")
        return found


def meet_functional_collectives() -> None:
    """Know what functional collectives ask, once the program has them: a graph waits for each at once."""
    module = functional_collectives.get() if dist.is_available() else None
    if module is None or module._are_we_tracing.__code__ in CODE_HANDLERS:
        return
    CODE_HANDLERS[module._are_we_tracing.__code__] = lambda *_: True
    for function in (module._resolve_group_name, getattr(module, "_resolve_group", module._resolve_group_name)):
        CODE_HANDLERS[function.__code__] = handler_form(lambda session, group, tag="": _group(session, group)[0])
    size_of = distributed_c10d._get_group_size_by_name
    CODE_HANDLERS[size_of.__code__] = handler_form(lambda session, group_name: _group(session, group_name)[2])
