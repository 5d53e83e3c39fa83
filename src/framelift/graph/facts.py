"""What the recorder knows of a tensor without its data: `Facts`, one object per distinct metadata.

Equal metadata is the same object, so facts are compared and hashed by identity; that is what makes the keys of the
metadata cache cheap.  What belongs to one tensor alone (its storage, its node) is in values.py.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from ..reasons import Interrupt

__all__ = ["Facts", "check_kind", "facts_of", "intern_facts", "new_stand_in"]

_META = torch.device("meta")
_empty_strided = torch._C._VariableFunctions.empty_strided
_detach = torch._C.TensorBase.detach
_make_subclass = torch.Tensor._make_subclass
_ODD_KEYS = tuple(name for name in ("ZeroTensor", "Named", "Python", "Functionalize", "Batched", "FuncTorchBatched",
                                    "FuncTorchGradWrapper", "NestedTensor")
                  if hasattr(torch._C.DispatchKey, name))


class Facts:
    """Metadata of a dense tensor.  Made by `intern_facts` only; never changed."""

    __slots__ = ("__weakref__", "_template", "device", "dtype", "is_conj", "is_inference", "is_leaf", "is_neg",
                 "requires_grad", "size", "stride")

    def __init__(self, dtype: torch.dtype, device: torch.device, size: torch.Size, stride: tuple[int, ...],
                 requires_grad: bool, is_leaf: bool, is_conj: bool, is_neg: bool, is_inference: bool) -> None:
        self.dtype = dtype
        self.device = device
        self.size = size
        self.stride = stride
        self.requires_grad = requires_grad
        self.is_leaf = is_leaf
        self.is_conj = is_conj
        self.is_neg = is_neg
        self.is_inference = is_inference
        self._template: torch.Tensor | None = None

    def key(self) -> tuple[Any, ...]:
        """All fields, in the order of `intern_facts`."""
        return (self.dtype, self.device, self.size, self.stride, self.requires_grad, self.is_leaf, self.is_conj,
                self.is_neg, self.is_inference)

    def but(self, **changes: Any) -> Facts:
        """The facts that differ in the fields given."""
        names = ("dtype", "device", "size", "stride", "requires_grad", "is_leaf", "is_conj", "is_neg", "is_inference")
        return intern_facts(*(changes.get(name, getattr(self, name)) for name in names))

    def is_contiguous(self) -> bool:
        """Whether it lies in memory in the order of its dimensions, those of size 0 and 1 included."""
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
            with torch.inference_mode(False):  # an inference template would refuse to be detached in grad mode
                made = _empty_strided(self.size, self.stride, dtype=self.dtype, device=_META)
            if self.is_conj:
                torch._C._set_conj(made, True)
            if self.is_neg:
                torch._C._set_neg(made, True)
            self._template = made
        return made

    def __repr__(self) -> str:
        return f"<facts {self.dtype} {tuple(self.size)} {self.device}{' grad' if self.requires_grad else ''}>"


_interned: weakref.WeakValueDictionary[tuple[Any, ...], Facts] = weakref.WeakValueDictionary()


def intern_facts(dtype: torch.dtype, device: torch.device, size: torch.Size, stride: tuple[int, ...],
                 requires_grad: bool, is_leaf: bool, is_conj: bool, is_neg: bool, is_inference: bool) -> Facts:
    """The one `Facts` object with these fields."""
    key = (dtype, device, size, stride, requires_grad, is_leaf, is_conj, is_neg, is_inference)
    found = _interned.get(key)
    if found is None:
        # Two threads may both make one; whoever is stored first is the one used.
        found = _interned.setdefault(key, Facts(*key))
    return found


def facts_of(tensor: torch.Tensor) -> Facts:
    """The facts of a real or fake tensor.  Torch function must be off."""
    return intern_facts(tensor.dtype, tensor.device, tensor.size(), tensor.stride(), tensor.requires_grad,
                        tensor.is_leaf, tensor.is_conj(), tensor.is_neg(), tensor.is_inference())


# Raw dispatch key sets already found to be those of plain dense tensors: the keys say everything `_explain_kind` asks.
_plain_keys: set[int] = set()


def check_kind(tensor: torch.Tensor) -> None:
    """Interrupt for tensors that have no plain strided memory of their own."""
    kind = type(tensor)
    if kind is not torch.Tensor and kind is not torch.nn.Parameter:
        raise Interrupt("tensor-subclass", f"{kind.__module__}.{kind.__qualname__}")
    keys = torch._C._dispatch_keys(tensor).raw_repr()
    if keys not in _plain_keys:
        odd = _explain_kind(tensor)
        if odd:
            raise Interrupt("tensor-kind", odd)
        _plain_keys.add(keys)


def _explain_kind(tensor: torch.Tensor) -> str:
    """Why a tensor is not a plain dense one; empty if it is."""
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor) or torch._is_functional_tensor(tensor):
        return "wrapped by a function transform"
    keys = torch._C._dispatch_keys(tensor)
    for name in _ODD_KEYS:
        if keys.has(getattr(torch._C.DispatchKey, name)):
            return f"dispatch key {name}"
    if tensor.layout is not torch.strided:
        return f"layout {tensor.layout}"
    return "quantized" if tensor.is_quantized else "nested" if tensor.is_nested else ""


def new_stand_in(facts: Facts, kind: type = torch.Tensor) -> torch.Tensor:
    """A tensor object without data, of its own identity.  Torch function must be off."""
    made = _detach(facts.template())
    if kind is torch.Tensor:
        return made
    return _make_subclass(kind, made, facts.requires_grad)
