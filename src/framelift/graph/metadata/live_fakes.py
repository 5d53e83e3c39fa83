"""Function transforms (torch.func): operations recorded over live fakes, under the transform's own interpreters.

What an operation gives inside `vmap` or `grad` is decided by functorch's stack of interpreters and by the history
of the wrapped tensors, so metadata alone is not enough.  Here each value of a transform keeps its fake, wrapped as
the real one will be.  The interpreters are on torch's stack only while an operation runs; in between nothing of
framelift meets them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ... import _core
from ...torch_ports.autograd import (
    dual_level,
    exit_dual_level,
    functorch,
    is_fwd_grad_enabled,
    saved_hooks_disable,
    saved_hooks_enable,
    saved_hooks_error,
    set_fwd_grad_enabled,
)
from ...vocabulary.reasons import Interrupt
from ...vocabulary.scopes import scope
from ..fx.values import Storage, Value
from .facts import Facts, facts_of
from .fakes import Fakes

_LEAVE = {
    "Vmap": functorch._vmap_decrement_nesting,
    "Grad": functorch._grad_decrement_nesting,
    "Jvp": functorch._jvp_decrement_nesting,
}
is_wrapped = functorch.is_functorch_wrapped_tensor


class LiveOutcome:
    """The outcome of one operation over live fakes: the raw result and what became of the arguments."""

    __slots__ = ("changes", "effect_level", "result", "written")

    def __init__(
        self, result: Any, effect_level: int, written: tuple[int, ...], changes: tuple[tuple[int, Facts], ...]
    ) -> None:
        self.result = result
        self.effect_level = effect_level
        self.written = written
        self.changes = changes


class Live:
    """The interpreters and fakes of one rehearsal's transforms."""

    def __init__(self, fakes: Fakes) -> None:
        self._fakes = fakes
        self._stack: list[Any] = []  # interpreters, outermost first, while they are off torch's stack
        self._of: dict[int, tuple[Value, Facts, torch.Tensor]] = {}
        self._values: dict[int, Value] = {}  # by id of the fake, which _of keeps alive
        self._storages: dict[int, Storage] = {}
        self._dual = 0
        self._outer = 0  # how many of the interpreters were there before
        self.disabled = saved_hooks_error()

    def begin_inside(self, transforms: Sequence[Any]) -> None:
        """Captured code begins inside these transforms; they stay open when it ends."""
        self._stack = list(transforms)
        self._outer = len(transforms)

    def mirror(self, tensor: torch.Tensor) -> torch.Tensor:
        """A fake wrapped as this tensor of the outer transforms is."""
        if not is_wrapped(tensor):
            return self._fakes.make(facts_of(tensor))
        level = functorch.maybe_get_level(tensor)
        inner = self.mirror(functorch.get_unwrapped(tensor))
        with self.interpreters():
            if functorch.is_batchedtensor(tensor):
                return functorch._add_batch_dim(inner, functorch.maybe_get_bdim(tensor), level)
            made = functorch._wrap_for_grad(inner, level)
            if tensor.requires_grad:
                allowed = functorch.get_inplace_requires_grad_allowed()
                functorch.set_inplace_requires_grad_allowed(True)
                made.requires_grad_()
                functorch.set_inplace_requires_grad_allowed(allowed)
            return made

    def outlives(self, value: Value) -> bool:
        """Return whether a value is a tensor of a transform that ended with the captured code."""
        return self.wraps(value) and functorch.maybe_get_level(self.fake(value)) > self._outer

    @property
    def active(self) -> bool:
        """True if captured code is inside a transform now."""
        return bool(self._stack) or self._dual > 0

    def only_vmap(self) -> bool:
        """Return whether none of the transforms differentiates."""
        return not self._dual and self.ask(
            lambda: all(one.key().name == "Vmap" for one in functorch.get_interpreter_stack() or ())
        )

    def concerns(self, found: Sequence[Value]) -> bool:
        """Return whether an operation on these values is to be run here."""
        return bool(self._stack) or self._dual > 0 or any(self.wraps(value) for value in found)

    def wraps(self, value: Value) -> bool:
        """Return whether the value is a tensor of a transform, which only lives inside of it."""
        known = self._of.get(id(value))
        return known is not None and is_wrapped(known[2])

    @scope
    def interpreters(self) -> Iterator[None]:
        """Put the interpreters on torch's stack; what is there afterwards is the new stack."""
        while self._stack:
            functorch.push_dynamic_layer_stack(self._stack.pop(0))
        try:
            yield
        finally:
            while functorch.peek_interpreter_stack() is not None:
                self._stack.insert(0, functorch.pop_dynamic_layer_stack())

    def ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call functorch about its state, or about the fake of a value."""
        args = tuple(self.fake(arg) if type(arg) is Value else arg for arg in args)
        with self.interpreters():
            return function(*args)

    def fake(self, value: Value) -> torch.Tensor:
        """The live fake of a value; made from its facts where it was not born here."""
        known = self._of.get(id(value))
        if known is None or not known[1].agrees(value.facts):
            return self.born(value, self._fakes.make(value.facts))
        return known[2]

    def born(self, value: Value, fake: torch.Tensor) -> torch.Tensor:
        """Remember the fake of a value."""
        self._of[id(value)] = (value, value.facts, fake)
        self._values[id(fake)] = value
        return fake

    def known(self, fake: torch.Tensor) -> Value | None:
        """The value whose very tensor this is: functorch gives back what it was given when it unwraps."""
        return self._values.get(id(fake))

    def run(self, name: str, found: Sequence[Value], call: Callable[[list[torch.Tensor]], Any]) -> LiveOutcome:
        """Run an operation over the fakes of `found`."""
        fakes = [self.fake(value) for value in found]
        storages = [storage_of(fake) for fake in fakes]
        mode = self._fakes.mode
        mode.effect_level = False
        mode.written.clear()
        with self.interpreters():
            result = self._fakes._run(name, mode, call, fakes)
        written = tuple(i for i, storage in enumerate(storages) if storage in mode.written)
        changes = []
        for i, (value, fake) in enumerate(zip(found, fakes)):
            now = facts_of(fake)
            if not now.agrees(value.facts):
                changes.append((i, now))
        return LiveOutcome(result, mode.effect_level, written, tuple(changes))

    def storage(self, fake: torch.Tensor, found: Sequence[Value]) -> tuple[Storage, bool]:
        """The storage of a result, and whether it is shared with one of the arguments."""
        key = storage_of(fake)
        for value in found:
            if storage_of(self.fake(value)) == key:
                return value.storage, True
        is_known = key in self._storages
        return self._storages.setdefault(key, Storage(external=False)), is_known

    def enter_dual(self, by: int) -> None:
        """A level of forward-mode differentiation was opened (1) or closed (-1)."""
        self._dual += by

    def check_dual(self, name: str, least: int) -> None:
        """Interrupt where fewer levels of forward-mode AD were opened inside, or where some stay open (-1)."""
        if self._dual < least or least < 0 < self._dual:
            raise Interrupt("torch-state", name)

    def close(self) -> None:
        """The rehearsal is over: leave every transform that is still open, and put torch's switches back."""
        while len(self._stack) > self._outer:
            with self.interpreters():
                _LEAVE[functorch.peek_interpreter_stack().key().name]()
        while self._dual > 0:
            self._dual -= 1
            exit_dual_level(level=self._dual)
        _allow_hooks(self.disabled)


def _allow_hooks(disabled: str | None) -> None:
    """Hooks on saved tensors may be set, or not, for the reason given."""
    if disabled is None:
        saved_hooks_enable()
    else:
        saved_hooks_disable(disabled)


@scope
def leaving_none_open() -> Iterator[None]:
    """Leave the transforms that were opened in here, and put their switches back, where what runs in here fails."""
    depth, forward = len(functorch.get_interpreter_stack() or ()), is_fwd_grad_enabled()
    disabled = saved_hooks_error()
    try:
        yield
    except BaseException:
        while len(stack := functorch.get_interpreter_stack() or []) > depth:
            _LEAVE[stack[-1].key().name]()
        if dual_level.read() < 0:  # the program's own record, which graphs do not write to
            with contextlib.suppress(RuntimeError):  # there is none
                exit_dual_level(level=0)
        set_fwd_grad_enabled(forward)
        _allow_hooks(disabled)
        raise


@scope
def transforms_off() -> Iterator[list[Any]]:
    """Take the interpreters off torch's stack and give them, outermost first; they are put back afterwards."""
    found: list[Any] = []
    while functorch.peek_interpreter_stack() is not None:
        found.insert(0, functorch.pop_dynamic_layer_stack())
    try:
        yield found
    finally:
        for interpreter in found:
            functorch.push_dynamic_layer_stack(interpreter)


def described_transforms() -> tuple[tuple[str, ...], ...]:
    """The transforms on torch's stack, as a guard compares them."""
    rows = []
    for one in functorch.get_interpreter_stack() or ():
        row = [one.key().name, str(one.level())]
        if row[0] == "Vmap":
            vmap = functorch.CVmapInterpreterPtr(one)
            row += [str(vmap.batchSize()), vmap.randomness().name]
        rows.append(tuple(row))
    return tuple(rows)


def storage_of(fake: torch.Tensor) -> int:
    """The memory under all wrappers."""
    while is_wrapped(fake):
        fake = functorch.get_unwrapped(fake)
    memory = _core.tensor_memory(fake)
    return memory if memory is not None else _core.of_tensor(fake, "untyped_storage")._cdata
