"""Special cases of torch callables: `RULES` maps a callable to `handler(recorder, args, kwargs)`.

A callable without a rule is recorded as one node, if it is an operation (operations.py).  Reading an
attribute of a tensor is in attributes.py.  Handlers run with torch function off.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ... import _core
from ...graph.analysis.infallible import goes_by_element
from ...graph.fx.targets import target_of
from ...graph.metadata.facts import SymbolicFacts
from ...graph.symbols.number_nodes import numbers_in
from ...torch_ports.tensors import TensorBase, VariableFunctions, references, tensor_classes
from ...vocabulary.class_reads import name_of
from ...vocabulary.reasons import Interrupt
from ..assumptions import assume, truth_that_continues
from ..histories import may_make_leaf
from ..known_calls import with_numbers
from ..overlapping_writes import views_of_one
from ..session import Recorder
from .conversions import record_data
from .ranks import Handler, Rank, rule

#: callables whose Python results follow from metadata alone: id -> the callable
GIVES_VALUES: dict[int, Any] = {}


def _named(names: str, *owners: Any) -> list[Any]:
    """The callables of these names in the owners given; names an owner does not have are passed over."""
    found = [getattr(owner, name) for name in names.split() for owner in owners if hasattr(owner, name)]
    return list({id(one): one for one in found}.values())  # classes share methods


_TENSOR = (torch.Tensor, TensorBase)
_ANYWHERE = (*_TENSOR, torch, VariableFunctions)

# ---- never captured: reason -> names of Tensor methods and torch functions -------------------------------------------

_INTERRUPTS: dict[str, list[Any]] = {
    "tensor-bool": _named("is_nonzero __contains__", *_ANYWHERE),
    "tensor-item": _named("item tolist __int__ __long__ __float__ __complex__ __index__", *_TENSOR),
    "tensor-data": [
        *_named(
            "numpy __array__ __array_wrap__ data_ptr storage untyped_storage _typed_storage storage_type "
            "is_set_to is_shared share_memory_ is_pinned pin_memory __dlpack__ __dlpack_device__ "
            "_is_view _use_count _view_func _view_func_unsafe _rev_view_func_unsafe",
            *_TENSOR,
        ),
        *_named("from_numpy frombuffer from_file _debug_has_internal_overlap", *_ANYWHERE),
    ],
    "torch-operation": [
        *_named(
            "backward register_post_accumulate_grad_hook apply_ map_ map2_ resize_ "
            "resize_as_ resize resize_as set_ as_strided_ _make_wrapper_subclass __deepcopy__ "
            "__reduce_ex__ __setstate__ _reduce_ex_internal module_load __delitem__ __dir__ reinforce "
            "_clear_non_serializable_cached_data _fix_weakref",
            *_TENSOR,
        ),
        *_named(
            "save load sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor "
            "sparse_compressed_tensor empty_quantized _make_dual _unpack_dual resize_as_ resize_as_sparse_ "
            "_from_blob _print as_strided_",
            *_ANYWHERE,
        ),
        torch.autograd.backward,
        torch.autograd.grad,
        torch.nn.UninitializedParameter,
        torch.nn.UninitializedBuffer,
    ],
    "torch-state": [
        *_named(
            "seed initial_seed set_default_device set_default_tensor_type "
            "set_num_threads set_num_interop_threads set_flush_denormal set_printoptions set_warn_always "
            "set_deterministic_debug_mode",
            torch,
        )
    ],
}


def _interrupt(reason: str, func: Any) -> Handler:
    name = getattr(func, "__qualname__", None) or repr(func)

    def handler(_recorder: Recorder, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> Any:
        raise Interrupt(reason, name)

    return handler


for _reason, _funcs in _INTERRUPTS.items():
    for _func in {id(one): one for one in _funcs}.values():
        rule(_func, rank=Rank.REFUSED)(_interrupt(_reason, _func))


@rule(*_named("__repr__ __str__ __format__", torch.Tensor))
def _text(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    raise Interrupt("tensor-repr")


def _of_kind(cls: Any) -> Handler:
    """torch.FloatTensor and its kind, which torch itself would make unseen, of data or sizes; given anything else it
    may be memory of another tensor.
    """

    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if _are_sizes(args) and not (kwargs or cls.is_cuda or cls.is_sparse):
            return recorder.record(target_of(torch.empty), args or (0,), {"dtype": cls.dtype, "device": "cpu"})
        if (
            kwargs
            or len(args) != 1
            or type(args[0]) not in (list, tuple)
            or _holds_stand_in(recorder, args[0])
            or cls.is_cuda
            or cls.is_sparse
        ):
            raise Interrupt("torch-operation", f"torch.{name_of(cls)}(...)")
        return recorder.record(target_of(torch.tensor), args, {"dtype": cls.dtype, "device": "cpu"})

    return handler


def _are_sizes(args: tuple[Any, ...]) -> bool:
    """Return whether the legacy constructors make uninitialised memory of these sizes."""
    return all(type(arg) is int for arg in args) or len(args) == 1 and type(args[0]) is torch.Size


for _legacy in tensor_classes:
    rule(_legacy)(_of_kind(_legacy))


@rule(*_named("__bool__", *_TENSOR))
def _bool(recorder: Recorder, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> bool:
    """Where the other side of a branch only raises, the program is taken to continue; the graph checks that."""
    truth = truth_that_continues()
    if truth is None or not assume(recorder, args[0], truth):
        raise Interrupt("tensor-bool", "Tensor.__bool__")
    return truth


def _without_generator(func: Any) -> Handler:
    """No generator means the default one: torch's own overloads that name it take no symbolic sizes."""

    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if kwargs.get("generator", func) is None:
            kwargs = {name: value for name, value in kwargs.items() if name != "generator"}
        return recorder.record(target_of(func), args, kwargs)

    return handler


for _draws in (torch.rand, torch.randn, torch.randint, torch.randperm):
    rule(_draws)(_without_generator(_draws))


# ---- answered from metadata ------------------------------------------------------------------------------------------

# as exported graphs ask
GIVES_VALUES.update(
    (id(func), func)
    for func in [
        *_named(
            "size dim ndimension stride numel nelement is_contiguous element_size is_floating_point "
            "is_complex is_signed "
            "is_conj is_neg is_inference is_same_size get_device type dim_order "
            "is_non_overlapping_and_dense is_coalesced "
            "sym_size sym_stride sym_numel is_distributed has_names __len__",
            *_ANYWHERE,
        ),
        *_named("result_type can_cast promote_types broadcast_shapes _shape_as_tensor", torch),
        torch.ops.aten.sym_size.int,
        torch.ops.aten.sym_size.default,
        torch.ops.aten.sym_numel.default,
        torch.ops.aten.sym_stride.int,
        torch.ops.aten.sym_stride.default,
    ]
)


@rule(*_named("size", *_TENSOR))
def _size(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    size = recorder.value_of(args[0]).facts.size
    if len(args) == 1 and not kwargs:
        return size
    if len(args) == 2 and type(args[1]) is int and -len(size) <= args[1] < len(size):
        return size[args[1]]
    return recorder.record(target_of(TensorBase.size), args, kwargs, True)


@rule(*_named("type", *_TENSOR))
def _type(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """torch.HalfTensor and its kind by their names, as operations take them."""
    if len(args) > 1 and any(args[1] is kind for kind in tensor_classes):
        args = (args[0], f"{args[1].__module__}.{name_of(args[1])}", *args[2:])
    return recorder.record(target_of(TensorBase.type), args, kwargs, True)


@rule(*_named("dim ndimension", *_TENSOR))
def _dim(recorder: Recorder, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> int:
    return len(recorder.value_of(args[0]).facts.size)


def _exact(recorder: Recorder, tensor: Any, what: str) -> Any:
    """The tensor's facts, if its strides are to be believed."""
    value = recorder.value_of(tensor)
    if not value.exact:
        raise Interrupt("tensor-data", f"{what} of a result whose layout the kernel chooses")
    return value.facts


def _reads_strides(func: Any) -> Handler:
    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        _exact(recorder, args[0], getattr(func, "__name__", "stride"))
        return recorder.record(target_of(func), args, kwargs, True)

    return handler


for _func in (
    *_named("stride is_contiguous dim_order is_non_overlapping_and_dense", *_TENSOR),
    torch.ops.aten.sym_stride.int,
    torch.ops.aten.sym_stride.default,
):
    rule(_func)(_reads_strides(_func))


@rule(*_named("contiguous", *_TENSOR))
def _contiguous(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    value = recorder.value_of(args[0])
    made = recorder.record(target_of(TensorBase.contiguous), args, kwargs, keep=not value.exact)
    if made is not args[0]:
        recorder.value_of(made).exact = True
    return made


@rule(*_named("detach_", *_ANYWHERE))
def _detach_in_place(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A view cannot be detached in place: of an external tensor only torch knows whether it is one."""
    value = recorder.value_of(args[0])
    if value.external is not None or len(value.storage.values) > 1:
        raise Interrupt("torch-operation", "detach_, of what may be a view,")
    return recorder.record(target_of(torch.Tensor.detach_), args, kwargs)


@rule(torch.Tensor.__len__)
def _len(recorder: Recorder, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> int:
    size = recorder.value_of(args[0]).facts.size
    if not size:
        raise TypeError("len() of a 0-d tensor")
    return size[0]


@rule(torch.Tensor.__iter__)
def _iter(recorder: Recorder, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> Any:
    if not recorder.value_of(args[0]).facts.size:
        raise TypeError("iteration over a 0-d tensor")
    return iter(recorder.record(target_of(torch.Tensor.unbind), (args[0], 0), {}))


@rule(torch.Tensor.__reversed__)
def _reversed(recorder: Recorder, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> Any:
    if not recorder.value_of(args[0]).facts.size:
        return args[0]
    return recorder.record(target_of(torch.Tensor.flip), (args[0], 0), {})


@rule(torch.Tensor.__hash__)
def _hash(recorder: Recorder, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> int:
    if recorder.value_of(args[0]).storage.shared:
        raise Interrupt("torch-operation", "the hash of a tensor that may be another one too")
    return id(args[0])


@rule(torch.Tensor)
def _legacy_constructor(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """torch.Tensor(2, 3) is uninitialised memory, torch.Tensor([2, 3]) is data, both of the default dtype."""
    if not kwargs:
        if _are_sizes(args):
            return recorder.record(target_of(torch.empty), args or (0,), {})
        if len(args) == 1 and type(args[0]) in (list, tuple):
            return recorder.record(target_of(torch.tensor), args, {"dtype": torch.get_default_dtype()})
    raise Interrupt("torch-operation", "torch.Tensor(...)")


@rule(*_named("new", *_TENSOR))
def _new(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The legacy constructor, with the dtype and device of the tensor: sizes or data, as torch.Tensor takes them."""
    if not kwargs:
        tensor, *rest = args
        if _are_sizes(tuple(rest)):
            return recorder.record(target_of(torch.Tensor.new_empty), (tensor, *rest) if rest else (tensor, (0,)), {})
        if len(rest) == 1 and type(rest[0]) in (list, tuple) and not _holds_stand_in(recorder, rest[0]):
            return recorder.record(target_of(torch.Tensor.new_tensor), (tensor, rest[0]), {})
    raise Interrupt("torch-operation", "Tensor.new(...)")


def _holds_stand_in(recorder: Recorder, data: Any) -> bool:
    if type(data) in (list, tuple):
        return any(_holds_stand_in(recorder, item) for item in data)
    return recorder.is_stand_in(data)


def _nest(data: Any) -> tuple[tuple[int, ...], list[Any]] | None:
    """The shape of a nest of lists, and what it holds; None where the rows are of different lengths."""
    if type(data) not in (list, tuple):
        return (), [data]
    rows = [_nest(item) for item in data]
    if not rows or any(row is None or row[0] != rows[0][0] for row in rows):  # type: ignore[index]  # no row is None
        return None
    return (len(rows), *rows[0][0]), [item for row in rows for item in row[1]]  # type: ignore[index]  # no row is None


def _stacked(recorder: Recorder, data: Any, dtype: torch.dtype | None) -> Any:
    """A nest of tensors of one number each, and of plain numbers, as one tensor; None where it is something else."""
    found = _nest(data)
    if found is None or not all(recorder.is_stand_in(item) or type(item) in (bool, int, float) for item in found[1]):
        return None
    facts = [recorder.value_of(item).facts for item in found[1] if recorder.is_stand_in(item)]
    if any(one.device.type != "cpu" or type(one) is SymbolicFacts or one.size.numel() != 1 for one in facts):
        return None
    kinds = {one.dtype for one in facts} | {
        torch.get_default_dtype() if type(item) is float else torch.int64 if type(item) is int else torch.bool
        for item in found[1]
        if not recorder.is_stand_in(item)
    }
    common = functools.reduce(torch.promote_types, kinds)
    if (
        dtype is not None
        and dtype is not common
        and (dtype.is_complex or common.is_complex or common.is_floating_point and not dtype.is_floating_point)
    ):
        return None  # fractions are refused where integers are wanted
    wanted = common if dtype is None else dtype

    def single(item: Any) -> Any:
        if not recorder.is_stand_in(item):
            return recorder.record(target_of(torch.tensor), (item,), {"dtype": wanted})
        facts = recorder.value_of(item).facts
        made = recorder.record(target_of(torch.Tensor.detach), (item,), {})
        made = recorder.record(target_of(torch.Tensor.reshape), (made, ()), {}) if facts.size else made
        # An integer becomes a fraction by way of Python's float.
        through = (
            ()
            if facts.dtype is wanted
            else (wanted,)
            if facts.dtype.is_floating_point or not wanted.is_floating_point
            else (torch.float64, wanted)
        )
        for kind in through:
            made = recorder.record(target_of(torch.Tensor.to), (made, kind), {})
        return made

    made = recorder.record(target_of(torch.stack), (list(map(single, found[1])),), {})
    return made if len(found[0]) == 1 else recorder.record(target_of(torch.Tensor.reshape), (made, found[0]), {})


def _from_data(func: Any, position: int) -> Handler:
    """Factories that take nested lists read the values of tensors in them."""

    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        data = args[position] if len(args) > position else kwargs.get("data")
        if not recorder.is_stand_in(data) and _holds_stand_in(recorder, data):
            like = recorder.value_of(args[0]).facts if position else None
            data = _stacked(recorder, data, kwargs.get("dtype") or (like.dtype if like is not None else None))
            device = kwargs.get("device") or (like.device if like is not None else "cpu")
            elsewhere = torch.device(device).type != "cpu"
            if data is None or len(args) != position + 1 or kwargs.keys() - {"dtype", "device"} or elsewhere:
                raise Interrupt("tensor-item", f"torch.{func.__name__} of a list of tensors")
            return data
        if func is torch.tensor and recorder.symbols is not None and numbers_in(data):
            # the C function takes the numbers' values
            return recorder.record(target_of(references.tensor), args, kwargs)
        if (
            func is torch.Tensor.new_tensor
            and recorder.symbols is not None
            and len(args) == 2
            and not kwargs
            and numbers_in(data)
        ):
            facts = recorder.value_of(args[0]).facts
            return recorder.record(
                target_of(references.tensor), (data,), {"dtype": facts.dtype, "device": facts.device}
            )
        if len(args) == 1 and not kwargs and not position and not recorder.is_stand_in(data) and not numbers_in(data):
            return record_data(recorder, target_of(func), data)
        return recorder.record(target_of(func), args, kwargs)

    return handler


for _func, _position in ((torch.tensor, 0), (torch.as_tensor, 0), (torch.asarray, 0), (torch.Tensor.new_tensor, 1)):
    rule(_func)(_from_data(_func, _position))


@rule(*_named("as_strided", *_ANYWHERE))
def _as_strided(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Within the memory the tensor itself covers, from where it begins or from an offset."""
    names = ("size", "stride", "storage_offset")
    args = (*args, *(kwargs[name] for name in names[len(args) - 1 :] if name in kwargs))
    lists = [type(one) in (tuple, list, torch.Size) for one in args[1:3]] == [True] * 2
    if kwargs.keys() - set(names) or not lists or type(args[3:] and args[3] or 0) is not int:
        raise Interrupt("torch-operation", "as_strided with these arguments")
    facts = _exact(recorder, args[0], "as_strided")
    size, stride = with_numbers(recorder, args[1:3], [])
    offset = args[3:4] if args[3:] != (None,) else ()
    start = offset[0] - _storage_offset(recorder, args[:1], {}) if offset else 0
    if start < 0 or start + _extent(size, stride) > _extent(facts.size, facts.stride):
        raise Interrupt("torch-operation", "as_strided beyond the tensor's own memory")
    return recorder.record(target_of(torch.Tensor.as_strided), (args[0], size, stride, *offset), {})


def offset_of(tensor: torch.Tensor) -> int:
    """Where in its memory a tensor begins."""
    return int(_core.of_tensor(tensor, "storage_offset"))


@rule(TensorBase.storage_offset)
def _storage_offset(recorder: Recorder, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> int:
    """Of an input it is a fact; what an operation goes through element by element begins at 0."""
    value = recorder.value_of(args[0])
    first, steps, _ = views_of_one(recorder, [value]) or (value, [], [])
    moved = recorder.gradients.exchanged or recorder.in_transform() or recorder.wrapped is not None
    if moved or not steps and value.view:
        raise Interrupt("tensor-data", "Tensor.storage_offset")
    if first.external is not None and recorder.callbacks.ask is not None:
        start = recorder.callbacks.ask(first.stand_in, offset_of)
        if start and not recorder.runs_as_is():  # compilers take inputs from where they begin
            raise Interrupt("tensor-data", "Tensor.storage_offset of a part of another tensor")
    elif first.step is None or first.storage.external or not goes_by_element(first.step.target.name):
        raise Interrupt("tensor-data", "Tensor.storage_offset")
    else:
        start = 0
    if steps:
        start += recorder.replay_views("storage_offset", first, steps, [value])[0].storage_offset()
    return start


def _extent(size: Any, stride: Any) -> int:
    return 0 if 0 in size else 1 + sum((length - 1) * step for length, step in zip(size, stride))


# ---- metadata changed in place ---------------------------------------------------------------------------------------


@rule(*_named("requires_grad_", *_TENSOR))
def _requires_grad_(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    wanted = kwargs.get("requires_grad", args[1] if len(args) > 1 else True)
    value = recorder.value_of(args[0])
    if value.facts.requires_grad is not wanted:
        if value.external is not None and recorder.callbacks.switch is not None:
            recorder.callbacks.switch(args[0], wanted)
        else:
            make_leaf(recorder, args[0], wanted)
    return args[0]


def make_leaf(recorder: Recorder, tensor: Any, wanted: Any) -> None:
    """A tensor made inside becomes a leaf that requires grad; the graph has a node for that."""
    value = recorder.value_of(tensor)
    dtype = value.facts.dtype
    if (
        wanted is not True
        or value.external is not None
        or not value.facts.is_leaf
        or recorder.in_transform()
        or recorder.tape_is_a_body()
        or not (dtype.is_floating_point or dtype.is_complex)
    ):
        raise Interrupt("torch-operation", "Tensor.requires_grad_, which changes a tensor's autograd state")
    may_make_leaf(recorder)
    recorder.append(target_of(torch.Tensor.requires_grad_), [value])
    value.facts = value.facts.but(requires_grad=True)
    value.rooted = "tensor"


@rule(torch.Tensor.retain_grad)
def _retain_grad(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Eager mode is to keep the gradient of a result.  In a compiler's graph no result has a history by way of another,
    so the whole frame runs eagerly there.
    """
    value = recorder.value_of((*args, *kwargs.values())[0])
    if not value.facts.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if not value.facts.is_leaf:
        stop = Interrupt("torch-operation", "Tensor.retain_grad of a tensor that is a result")
        stop.run_eagerly = not recorder.runs_as_is()
        raise stop


@rule(torch.nn.Parameter)
def _parameter(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A leaf of its own over the memory of the tensor given; in a graph it is a tensor like any other."""

    def bound(data: Any = None, requires_grad: Any = True) -> Any:
        data = recorder.record(target_of(torch.empty), (0,), {}) if data is None else data
        if (
            not recorder.is_stand_in(data)
            or type(data) not in (torch.Tensor, torch.nn.Parameter)
            or type(requires_grad) is not bool
        ):
            raise Interrupt("torch-operation", "torch.nn.Parameter of something else than a plain tensor")
        made = recorder.retyped(
            recorder.record(target_of(torch.Tensor.detach), (data,), {}, keep=True), torch.nn.Parameter
        )
        if requires_grad:
            make_leaf(recorder, made, True)
        recorder.value_of(made).rooted = "parameter"
        return made

    return bound(*args, **kwargs)
