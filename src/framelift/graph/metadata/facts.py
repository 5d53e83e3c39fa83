"""The metadata of a tensor without its data: `Facts`, one object per distinct metadata.

Equal metadata is the same object, so facts are compared and hashed by identity; that is what makes the keys of the
metadata cache cheap.  What belongs to one tensor alone (its storage, its node) is in values.py.
"""

from __future__ import annotations

import contextlib
import operator
import weakref
from collections.abc import Callable
from typing import Any

import torch

from ... import _core
from ..._core import is_a
from ...torch_ports.autograd import is_functorch_wrapped_tensor
from ...torch_ports.fakes import FakeTensor
from ...torch_ports.modes import DispatchKey, disabled_torch_function_impl, dispatch_keys, is_functional_tensor
from ...torch_ports.tensors import TensorBase, VariableFunctions, make_subclass, set_conj, set_neg
from ...vocabulary.class_reads import OF_CLASS_BODIES, module_of, qualname_of
from ...vocabulary.reasons import Interrupt
from ...vocabulary.torch_code import is_class_of, is_torch_class
from .unheard import unheard

_META = torch.device("meta")
_empty_strided = VariableFunctions.empty_strided
_detach = TensorBase.detach
_make_subclass = make_subclass
_ODD_KEYS = tuple(
    name
    for name in (
        "ZeroTensor",
        "Named",
        "Python",
        "Functionalize",
        "Batched",
        "FuncTorchBatched",
        "FuncTorchGradWrapper",
        "NestedTensor",
    )
    if hasattr(DispatchKey, name)
)


#: of `Facts`, in their order
FIELDS = ("dtype", "device", "size", "stride", "requires_grad", "is_leaf", "is_conj", "is_neg", "is_inference")
_all_fields: Callable[[Any], tuple[Any, ...]] = operator.attrgetter(*FIELDS)


class Facts:
    """Metadata of a dense tensor.  Made by `intern_facts` only; never changed."""

    __slots__ = ("__weakref__", "_template", *FIELDS)
    dtype: torch.dtype
    device: torch.device
    size: torch.Size
    stride: tuple[int, ...]
    requires_grad: bool
    is_leaf: bool
    is_conj: bool
    is_neg: bool
    is_inference: bool

    def __init__(self, *fields: Any) -> None:
        for name, value in zip(FIELDS, fields, strict=True):
            setattr(self, name, value)
        self._template: torch.Tensor | None = None

    def key(self) -> tuple[Any, ...]:
        """All fields, in their order."""
        return _all_fields(self)

    def but(self, **changes: Any) -> Facts:
        """The facts that differ in the fields given."""
        return intern_facts(*(changes.get(name, getattr(self, name)) for name in FIELDS))

    def is_contiguous(self) -> bool:
        """Return whether it lies in memory in the order of its dimensions, those of size 0 and 1 included."""
        expected = 1
        for length, step in zip(reversed(self.size), reversed(self.stride)):
            if step != expected:
                return False
            expected *= max(length, 1)
        return True

    def template(self) -> torch.Tensor:
        """A meta tensor of this layout, from which stand-ins are made."""
        made = self._template
        if made is None:
            # torch warns of this dtype
            unwarned = unheard() if self.dtype is torch.complex32 else contextlib.nullcontext()
            # an inference template would refuse to be detached in grad mode
            with torch.inference_mode(False), unwarned:
                made = _empty_strided(self.size, self.stride, dtype=self.dtype, device=_META)
            if self.is_conj:
                set_conj(made, True)
            if self.is_neg:
                set_neg(made, True)
            self._template = made
        return made

    def agrees(self, other: Facts) -> bool:
        """Return whether both say the same."""
        return self is other or type(other) is SymbolicFacts and other.agrees(self)

    def __repr__(self) -> str:
        return f"<facts {self.dtype} {tuple(self.size)} {self.device}{' grad' if self.requires_grad else ''}>"


_interned: weakref.WeakValueDictionary[tuple[Any, ...], Facts] = weakref.WeakValueDictionary()


def intern_facts(*key: Any) -> Facts:
    """The one `Facts` object with these fields."""
    found = _interned.get(key)
    if found is None:
        # Two threads may both make one; whoever is stored first is the one used.
        found = _interned.setdefault(key, Facts(*key))
    return found


class SymbolicFacts(Facts):
    """Facts with symbolic sizes or strides.  One object per distinct expressions; made by `symbolic_facts` only."""

    __slots__ = ()

    def but(self, **changes: Any) -> Facts:
        return symbolic_facts(*(changes.get(name, getattr(self, name)) for name in FIELDS))

    def agrees(self, other: Facts) -> bool:
        # Two symbols that were found to be equal are one from then on, so the expressions are read anew.
        return self is other or _symbolic_key(*self.key()) == _symbolic_key(*other.key())

    def is_contiguous(self) -> bool:
        expected: Any = 1
        for length, step in zip(reversed(self.size), reversed(self.stride)):
            if _expression(step) != expected:
                return False
            expected = expected * _expression(length)
        return True

    def template(self) -> torch.Tensor:
        made = self._template
        if made is None:
            hints = [tuple(_hint(entry) for entry in entries) for entries in (self.size, self.stride)]
            made = self._template = intern_facts(
                self.dtype, self.device, torch.Size(hints[0]), hints[1], *self.key()[4:]
            ).template()
        return made


def _hint(entry: Any) -> int:
    """A size for a stand-in's own memory, which nobody reads; numbers that only the graph knows are taken for two."""
    if type(entry) is int:
        return entry
    return int(entry.node.hint) if entry.node.has_hint() else 2


def _expression(entry: Any) -> Any:
    return entry.node.expr if type(entry) is torch.SymInt else entry


def _symbolic_key(dtype: torch.dtype, device: torch.device, size: Any, stride: Any, *flags: bool) -> tuple[Any, ...]:
    return (dtype, device, tuple(map(_expression, size)), tuple(map(_expression, stride)), *flags)


def _settled(entries: Any) -> list[Any]:
    """The entries, those that are constants by now as plain ints."""
    found = []
    for entry in entries:
        known = entry.node.maybe_as_int() if type(entry) is torch.SymInt else entry
        found.append(entry if known is None else known)
    return found


def symbolic_facts(dtype: torch.dtype, device: torch.device, size: Any, stride: Any, *flags: bool) -> Facts:
    """The one `Facts` object with these fields, sizes and strides being symbolic or plain."""
    size, stride = _settled(size), _settled(stride)
    symbols = [entry for entry in (*size, *stride) if type(entry) is torch.SymInt]
    if not symbols:
        return intern_facts(dtype, device, torch.Size(size), tuple(stride), *flags)
    # The facts keep their shape environment alive, so its address says which one it is.
    key = (id(symbols[0].node.shape_env), *_symbolic_key(dtype, device, size, stride, *flags))
    found = _interned.get(key)
    if found is None:
        found = _interned.setdefault(key, SymbolicFacts(dtype, device, torch.Size(size), tuple(stride), *flags))
    return found


def facts_of(tensor: torch.Tensor) -> Facts:
    """The facts of a real or fake tensor.  Torch function must be off."""
    key = _core.tensor_key(tensor)
    found = _plain_facts.get(key) if key is not None else None
    if found is None:
        found = _read_facts(tensor)
        if key is not None:
            _plain_facts[key] = found
    return found


#: what is known of tensors that say the same of themselves, for one capture; models have hundreds of each kind
_plain_facts: dict[bytes, Facts] = {}
forget_facts = _plain_facts.clear


def _read_facts(tensor: torch.Tensor) -> Facts:
    make = symbolic_facts if _is_symbolic(tensor) else intern_facts
    return make(
        _dtype(tensor),
        _device(tensor),
        _size(tensor),
        _stride(tensor),
        _requires_grad(tensor),
        _is_leaf(tensor),
        _is_conj(tensor),
        _is_neg(tensor),
        _is_inference(tensor),
    )


# Torch's own, whatever a subclass puts in their place.
_base = TensorBase
_dtype, _device, _requires_grad, _is_leaf = (
    _base.dtype.__get__,
    _base.device.__get__,
    _base.requires_grad.__get__,
    _base.is_leaf.__get__,
)
_size, _stride, _is_conj, _is_neg, _is_inference = (
    _base.size,
    _base.stride,
    _base.is_conj,
    _base.is_neg,
    _base.is_inference,
)
_is_symbolic = _base._has_symbolic_sizes_strides.__get__


# Raw dispatch key sets already found to be those of plain dense tensors: the keys say everything `_explain_kind` asks.
_plain_keys: set[int] = set()


def check_kind(tensor: torch.Tensor) -> None:
    """Interrupt for tensors that have no plain strided memory of their own."""
    kind = type(tensor)
    if (
        kind is not torch.Tensor
        and kind is not torch.nn.Parameter
        and not is_overriding(kind)
        and not is_plain_parameter(kind)
    ):
        raise Interrupt("tensor-subclass", f"{module_of(kind)}.{qualname_of(kind)}")
    keys = _core.tensor_keys(tensor)
    if keys not in _plain_keys:
        unsupported = _explain_kind(tensor)
        if unsupported:
            raise Interrupt("tensor-kind", unsupported)
        _plain_keys.add(keys)


def plain_kind(tensor: torch.Tensor) -> type[Any]:
    """The class of tensors that a fake of constant sizes stands for; of any other tensor its own."""
    if type(tensor) is not FakeTensor or tensor._has_symbolic_sizes_strides or tensor.layout is not torch.strided:
        return type(tensor)
    return torch.nn.Parameter if is_parameter(tensor) else torch.Tensor


def is_parameter(tensor: torch.Tensor) -> bool:
    """As isinstance() of torch's class: tensors of other classes are parameters where they say so."""
    return is_a(tensor, torch.nn.Parameter) or _core.own_dict(tensor).get("_is_param") is True


def is_overriding(kind: type) -> bool:
    """Return whether tensors of this class are plain but for a `__torch_function__`: the program's, the inherited one,
    or the one that says that torch is not to ask.
    """
    if kind is torch.Tensor or kind is torch.nn.Parameter or not issubclass(kind, torch.Tensor):
        return False
    known = _own_subclass.get(kind)
    if known is None:
        known = _own_subclass[kind] = not issubclass(kind, torch.nn.Parameter) and not is_torch_class(kind)
    # Not remembered: the program may put others there.
    return known and held_by(kind, "__torch_dispatch__") is _no_dispatch and held_by(kind, "__getattribute__") is _reads


def has_a_say(kind: type) -> bool:
    """Return whether torch asks such a class's `__torch_function__`."""
    return is_overriding(kind) and held_by(kind, "__torch_function__") is not _no_function


def is_plain_parameter(kind: type) -> bool:
    """Return whether parameters of this class of the program's are plain ones to torch: neither its functions nor the
    methods and operators of tensors, which a graph calls by name, are overridden, and no code runs when compilers ask
    for attributes that plain parameters do not have.
    """
    return (
        issubclass(kind, torch.nn.Parameter)
        and not is_torch_class(kind)
        and held_by(kind, "__getattr__") is None
        and held_by(kind, "__torch_dispatch__") is _no_dispatch
        and held_by(kind, "__torch_function__") is _no_function
        and all(
            name in _OF_CLASSES or held_by(torch.Tensor, name) is None
            for one in kind.__mro__
            if one is not torch.nn.Parameter and issubclass(one, torch.nn.Parameter)
            for name in vars(one)
        )
    )


def held_by(kind: type, name: str) -> Any:
    """Look up a name in a class and its bases, unbound."""
    return _core.type_lookup(kind, name, None)


def is_tensor_like(kind: type) -> bool:
    """Return whether torch asks objects of this class, which are no tensors, before it does anything with them."""
    if kind in _PLAIN or held_by(kind, "__torch_function__") in (None, _no_function):
        return False
    known = _tensor_like.get(kind)
    if known is None:
        known = _tensor_like[kind] = not (
            issubclass(kind, torch.Tensor) or is_torch_class(kind) or is_class_of(kind, "framelift")
        )
    return known


_reads = _core.type_lookup(torch.Tensor, "__getattribute__", None)
_tensor_like: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()
_no_dispatch, _no_function = torch.Tensor.__torch_dispatch__, disabled_torch_function_impl
_own_subclass: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()
#: what a class may have of its own without overriding anything of a tensor's
_OF_CLASSES = OF_CLASS_BODIES.union(
    "__dict__ __weakref__ __qualname__ __new__ __init__ __torch_function__ __repr__ __deepcopy__ __reduce_ex__ "
    "__init_subclass__".split()
)
_PLAIN = frozenset(
    {
        torch.Tensor,
        torch.nn.Parameter,
        int,
        float,
        bool,
        str,
        type(None),
        list,
        tuple,
        dict,
        torch.dtype,
        torch.device,
        slice,
    }
)


def _explain_kind(tensor: torch.Tensor) -> str:
    """Why a tensor is not a plain dense one; empty if it is."""
    if is_functorch_wrapped_tensor(tensor) or is_functional_tensor(tensor):
        return "wrapped by a function transform"
    keys = dispatch_keys(tensor)
    for name in _ODD_KEYS:
        if keys.has(getattr(DispatchKey, name)):
            return f"dispatch key {name}"
    read = _core.of_tensor
    if read(tensor, "layout") is not torch.strided:
        return f"layout {read(tensor, 'layout')}"
    return "quantized" if read(tensor, "is_quantized") else "nested" if read(tensor, "is_nested") else ""


def new_stand_in(facts: Facts, kind: type = torch.Tensor) -> torch.Tensor:
    """A tensor object without data, of its own identity.  Torch function must be off."""
    if kind is torch.Tensor:
        return _detach(facts.template())
    return _make_subclass(kind, facts.template(), facts.requires_grad)  # detaches
