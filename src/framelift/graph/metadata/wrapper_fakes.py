"""Fakes of wrapper subclasses, one per value: which inner tensors two of them share decides what operations give, so
metadata alone is not enough.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..._core import is_a
from ...torch_ports.modes import (
    disabled_torch_function_impl,
    enable_torch_function,
    len_torch_function_stack,
    pop_torch_function_stack,
    push_on_torch_function_stack,
)
from ...vocabulary.class_reads import qualname_of
from ...vocabulary.reasons import Interrupt
from ...vocabulary.scopes import scope
from ...vocabulary.torch_code import is_torch_class
from ..fx.values import Storage, Value
from .facts import facts_of
from .fakes import Fakes, with_history
from .live_fakes import Live, LiveOutcome
from .wrappers import (
    WrapperFacts,
    assembled,
    assembled_like,
    context_of,
    converts,
    inner_tensors,
    is_wrapper,
    with_parts,
    wrapper_facts,
)


def holds_wrapper(value: Value) -> bool:
    """Return whether the value is a tensor of a wrapper subclass."""
    return type(value.facts) is WrapperFacts


class Wrapped(Live):
    """The wrapper subclasses of one rehearsal."""

    def __init__(self, fakes: Fakes) -> None:
        super().__init__(fakes)
        self._made_masks: list[Any] = []

    def concerns(self, found: Sequence[Value]) -> bool:
        return any(type(value.facts) is WrapperFacts for value in found)

    def take_in(
        self, tensor: torch.Tensor, value_of: Callable[[torch.Tensor], Value]
    ) -> tuple[WrapperFacts, torch.Tensor]:
        """The facts and the fake of an external wrapper; `value_of` gives the values of its inner tensors."""
        names, context = context_of(tensor)
        parts = {name: value_of(one) for name, one in inner_tensors(tensor, names).items()}
        bare = assembled_like(tensor, {name: self.fake(value) for name, value in parts.items()}, names, context)
        if (
            bare.dtype is not tensor.dtype
            or bare.device != tensor.device
            or not (_agree(bare.size(), tensor.size()) and _agree(bare.stride(), tensor.stride()))
        ):
            raise Interrupt("tensor-subclass", f"{qualname_of(type(tensor))}, which is put together as another,")
        fake = bare
        if bare.requires_grad != tensor.requires_grad or bare.is_leaf != tensor.is_leaf:
            fake = with_history(lambda: bare, tensor.requires_grad, tensor.is_leaf)
        for value in parts.values():
            value.storage.wrapped = True
        return wrapper_facts(fake, context, parts), fake

    def run(self, name: str, found: Sequence[Value], call: Callable[[list[torch.Tensor]], Any]) -> LiveOutcome:
        fakes = [self.fake(value) for value in found]
        before = [_described(fake) for fake in fakes]
        mode = self._fakes.mode
        mode.effect_level = 0
        mode.written.clear()
        with _asking(found):
            result = self._fakes._run(name, mode, call, fakes)
        _check_conversion(name, found, result)
        self._made_masks += _masks(result)
        written = tuple(i for i, value in enumerate(found) if self._memories(value) & mode.written)
        if [_described(fake) for fake in fakes] != before or any(not holds_wrapper(found[i]) for i in written):
            raise Interrupt("tensor-subclass", f"{_kinds(found)}, changed in place by {name},")
        for i in written:
            for part in with_parts([found[i]]):
                part.storage.written = True
        return LiveOutcome(result, mode.effect_level, written, ())

    def _memories(self, value: Value) -> set[int]:
        return {_memory(self.fake(part)) for part in with_parts([value]) if not holds_wrapper(part)}

    def storage(self, fake: torch.Tensor, found: Sequence[Value]) -> tuple[Storage, bool]:
        """As for transforms; the memory of a wrapper is that of its inner tensors, its own is nobody's."""
        if is_wrapper(type(fake)):
            return Storage(external=False), any(True for inner in self._inside(fake) if self.storage(inner, found)[1])
        key = _memory(fake)
        for value in with_parts(found):
            if not holds_wrapper(value) and _memory(self.fake(value)) == key:
                return value.storage, True
        is_known = key in self._storages
        return self._storages.setdefault(key, Storage(external=False)), is_known

    def _inside(self, fake: torch.Tensor) -> Iterator[torch.Tensor]:
        names, _ = context_of(fake)
        for inner in inner_tensors(fake, names).values():
            yield from self._inside(inner) if is_wrapper(type(inner)) else (inner,)

    def fake(self, value: Value) -> torch.Tensor:
        if type(value.facts) is WrapperFacts and id(value) not in self._of:  # given by an operator that has a body
            return self.born(value, self.example(value.facts))
        return super().fake(value)

    def example(self, facts: WrapperFacts) -> torch.Tensor:
        """A fake of its own with these facts."""
        made = assembled(
            facts.kind,
            {name: self.fake(part) for name, part in facts.parts.items()},
            facts.context,
            facts.size,
            facts.stride,
        )
        return with_history(lambda: made, facts.requires_grad, facts.is_leaf)

    def memory(self, value: Value) -> int:
        """Return which memory a wrapper says that it has: views of it say the same, if its class sees to that."""
        return _memory(self.fake(value))

    def takes_strides(self, value: Value) -> bool:
        """Return whether there are views of the wrapper with any strides: compilers make views again as such."""

        def restrided(fakes: list[torch.Tensor]) -> torch.Tensor:
            other = (0,) * (fakes[0].dim() + 1)
            return fakes[0].as_strided(other, other)

        try:
            with _asking([value]):
                self._fakes._run("as_strided", self._fakes.mode, restrided, [self.fake(value)])
        except Interrupt:
            return False
        return True

    def constant(self, value: Value, name: str) -> Any:
        """Return an attribute of a result's wrapper that is no inner tensor; KeyError where there is none."""
        fake = self.fake(value)
        if name in vars(fake):
            return vars(fake)[name]
        slot = getattr(type(fake), name, None)
        if not is_a(slot, types.MemberDescriptorType):
            raise KeyError(name)
        return slot.__get__(fake)

    def release_masks(self) -> bool:
        """Release the masks of fakes that no reduction has used; return whether there were any."""
        left = [mask for mask in self._made_masks if mask.data is not None]
        for mask in left:
            mask.data, mask.refcount = None, 0
        return bool(left)


@scope
def _asking(found: Sequence[Value]) -> Iterator[None]:
    """Torch's own wrapper classes override torch functions below what is captured."""
    kinds: list[Any] = [value.facts.kind for value in found if type(value.facts) is WrapperFacts]
    if all(converts(kind) or kind.__torch_function__ is _disabled or not is_torch_class(kind) for kind in kinds):
        yield
        return
    modes = [pop_torch_function_stack() for _ in range(len_torch_function_stack())]
    try:
        with enable_torch_function():
            yield
    finally:
        for mode in reversed(modes):
            push_on_torch_function_stack(mode)


def _check_conversion(name: str, found: Sequence[Value], result: Any) -> None:
    """Interrupt where a subclass converts results of other classes, as it does by default: that makes no wrapper."""
    kinds = [value.facts.kind for value in found if type(value.facts) is WrapperFacts and converts(value.facts.kind)]
    results = [one for one in (result if is_a(result, (tuple, list)) else (result,)) if is_a(one, torch.Tensor)]
    if kinds and not all(is_a(one, kinds[0]) for one in results):
        raise Interrupt("tensor-subclass", f"{kinds[0].__qualname__}, of which {name} gives a plain tensor,")


def _masks(result: Any) -> Iterator[Any]:
    """The masks of distributed embeddings: they are in placements, which torch keeps for later calls."""
    for one in result if is_a(result, (tuple, list)) else (result,):
        for placement in getattr(one, "placements", ()) if is_a(one, torch.Tensor) and is_wrapper(type(one)) else ():
            mask = getattr(placement, "mask_buffer", None)
            if mask is not None and mask.data is not None:
                yield mask


_disabled = disabled_torch_function_impl


def _memory(fake: torch.Tensor) -> int:
    return fake.untyped_storage()._cdata


def _agree(made: Any, real: Any) -> bool:
    """Sizes that are plain numbers are what they are outside; the others follow from those of the inner tensors."""
    return len(made) == len(real) and all(type(a) is not int or type(b) is int and a == b for a, b in zip(made, real))


def _described(fake: torch.Tensor) -> Any:
    return wrapper_facts(fake, None, {}).key() if is_wrapper(type(fake)) else facts_of(fake)


def _kinds(found: Sequence[Value]) -> str:
    return ", ".join(
        dict.fromkeys(qualname_of(value.facts.kind) for value in found if type(value.facts) is WrapperFacts)
    )
