"""Process groups, meshes and placements of torch.distributed: constants, and so are their answers.  Methods of DTensor
that change how a tensor is distributed are nodes of graphs.
"""

from __future__ import annotations

import functools
from typing import Any

import torch.distributed as dist

from ..._core import id, is_a
from ...boundary.attributes.known_classes import HARMLESS
from ...boundary.becomes.leaves import is_leaf
from ...boundary.gateway import let_in
from ...boundary.import_rules import constant, rule
from ...boundary.world import World
from ...calls.call_tables import CODE_HANDLERS, pure, substitute
from ...graph.fx.targets import OneNode
from ...graph.fx.values import Value
from ...graph.metadata.wrappers import WrapperFacts
from ...graph.state.torch_state import read_state
from ...guards.checks import check
from ...recording.session import Session
from ...recording.wrapper_results import record_wrapped
from ...torch_ports.loaded import distributed_tensors
from ...torch_ports.modes import DisableTorchFunction
from ...vocabulary.class_reads import members_of, mro_of
from ...vocabulary.origins import Origin, const
from ...vocabulary.reasons import Interrupt

#: classes of placements, once the program has DTensor
_PLACEMENTS: list[type] = []
_QUESTIONS = (
    "size get_rank get_local_rank get_coordinate get_group get_all_groups __getitem__ _is_current_rank_part_of_mesh"
)


def _declare(cls: type, names: str) -> None:
    """Let methods and properties that pybind11 made answer natively: they read what never changes."""
    for name in names.split():
        found = members_of(cls).get(name)
        pure(*filter(None, (getattr(found, "__func__", None), getattr(found, "fget", None))))


@check
def _is_same(mesh: Any, now: Any) -> bool:
    return now is mesh


def constant_of(session: Session, value: Any) -> Any:
    """A value that a node or a question may hold: immutable, or guarded by its identity."""
    if is_leaf(value) or type(value) in _PLACEMENTS:
        return value
    if type(value) in (tuple, list):
        return tuple([constant_of(session, one) for one in value])
    record = session.record_of(value)
    if is_a(value, dist.DeviceMesh) and record is not None:
        same = functools.partial(_is_same, record.original), "is that mesh"  # which no other process has
        session.guard(record.origin, "CHECK", same, "same")
        return value
    if is_a(value, dist.ProcessGroup):
        return value  # guarded where it came in
    raise Interrupt("unknown-callable", "a question about a distributed tensor or mesh, with an argument that changes,")


def _answer(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a mesh says of itself."""
    given = constant_of(session, args), {name: constant_of(session, value) for name, value in kwargs.items()}
    with DisableTorchFunction():
        found = callable_(*given[0], **given[1])
    if type(found) is list and is_leaf(tuple(found)):
        return found
    return found if is_leaf(found) else let_in(session.world, found, const(found))


@check
def _equals(before: Any, now: Any) -> bool:
    return type(now) is type(before) and bool(now == before)


def _placement(world: World, value: Any, origin: Origin) -> Any:
    world.guard(origin, "CHECK", (functools.partial(_equals, value), f"== {value!r}"))
    return world.register(value, value, origin, mutable=False)


@functools.lru_cache(maxsize=1024)
def _node(method: Any, rest: tuple[Any, ...], named: tuple[tuple[str, Any], ...], _meshes: tuple[int, ...]) -> Any:
    """Return a method for a constant layout: the same function for an equal one of the same meshes (equal ones may have
    other groups), so that equal graphs are shared.
    """

    def node(tensor: Any) -> Any:
        return method(tensor, *rest, **dict(named))

    node.__name__ = method.__name__
    return node


def _as_node(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A method of DTensor: one node, for a constant layout."""
    recorder, kwargs = session.recorder, {**kwargs, **({"async_op": False} if "async_op" in kwargs else {})}
    if not args or not recorder.is_stand_in(args[0]):
        raise Interrupt("unknown-callable", f"DTensor.{callable_.__name__} of something that is no tensor")
    named = tuple([(name, constant_of(session, value)) for name, value in kwargs.items()])
    meshes = tuple([id(one) for one in (*args[1:], *kwargs.values()) if is_a(one, dist.DeviceMesh)])
    node = _node(callable_, constant_of(session, args[1:]), named, meshes)
    value = recorder.value_of(args[0])
    return record_wrapped(recorder, recorder.with_wrappers(), OneNode(node), [value], {}, [value], read_state(), False)


def _layout(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The mesh and the placements of a DTensor: its context, which is guarded where it comes from outside."""
    value: Value = session.value_of(args[0])
    assert type(value.facts) is WrapperFacts
    with DisableTorchFunction():
        found = callable_(session.recorder.with_wrappers().fake(value))
    return found if type(found) is tuple else let_in(session.world, found, const(found))


def _made(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return callable_(*constant_of(session, args), **{name: constant_of(session, one) for name, one in kwargs.items()})


def _eagerly(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    raise Interrupt("unknown-callable", f"torch.distributed.tensor: {callable_.__name__}")


def meet_distributed_tensors() -> None:
    """Know DTensor and its placements, once the program has them."""
    module = distributed_tensors.get()
    if module is None or _PLACEMENTS:
        return
    kind, places = module.DTensor, module.placement_types
    for function in (kind.from_local, kind.to_local, kind.redistribute, kind.full_tensor):
        CODE_HANDLERS[function.__code__] = _as_node
    for name in ("distribute_tensor", "ones", "empty", "full", "rand", "randn", "zeros"):
        CODE_HANDLERS[getattr(module, name).__code__] = _eagerly
    for asked in (kind.device_mesh, kind.placements):
        CODE_HANDLERS[asked.fget.__code__] = _layout
    known = (getattr(places, name, None) for name in "Shard Replicate Partial _StridedShard _MaskPartial".split())
    for cls in filter(None, known):
        _PLACEMENTS.append(cls)
        HARMLESS.add(cls)
        rule(cls)(_placement)
        substitute(cls)(_made)
        for base in mro_of(cls)[:-1]:
            _declare(base, "is_shard is_replicate is_partial dim reduce_op split_factor __eq__")


if dist.is_available():
    HARMLESS.update((dist.ProcessGroup, type(dist.ReduceOp.SUM)))
    rule(dist.ProcessGroup, type(dist.ReduceOp.SUM))(constant)
    _declare(dist.ProcessGroup, "size rank name group_name group_desc _get_backend_name")
    pure(type(dist.ReduceOp).__getattribute__)
    substitute(*(vars(dist.DeviceMesh)[name] for name in _QUESTIONS.split() if name in vars(dist.DeviceMesh)))(_answer)
    for _name in ("ndim", "shape", "device_type", "mesh_dim_names"):
        substitute(vars(dist.DeviceMesh)[_name].fget)(_answer)
