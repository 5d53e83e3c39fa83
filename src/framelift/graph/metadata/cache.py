"""The metadata cache: what a torch call's result is like, by operation and abstract arguments.

Asking fake tensors costs hundreds of microseconds, and models repeat themselves.  A key holds everything the answer can
depend on: the target, the torch state, the facts of tensor arguments and which of them are the same tensor, and all
other arguments by type and value.  The cache is shared by the process and bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from ..._core import is_a
from ...torch_ports.autograd import get_creation_meta, is_grad_enabled
from ...torch_ports.fakes import FakeTensor
from ...vocabulary.class_reads import module_of, qualname_of
from ...vocabulary.reasons import Interrupt
from .facts import Facts, facts_of
from .fakes import Observed

ALL = 1 << 30  # arguments, however many there are


class New:
    """A result that is a new tensor.  `source` >= 0: shares the storage of that argument; < 0: of its own, numbered."""

    __slots__ = ("facts", "source", "view")

    def __init__(self, facts: Facts, source: int, view: str) -> None:
        self.facts = facts
        self.source = source
        self.view = view


class Same:
    """A result that is the argument `index` itself."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class Const:
    """A result that is a plain Python value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Number:
    """A result that is a number only the graph knows: torch's symbol for it."""

    __slots__ = ("raw",)

    def __init__(self, raw: Any) -> None:
        self.raw = raw


class Many:
    """A tuple, list or named tuple of results."""

    __slots__ = ("items", "kind")

    def __init__(self, kind: type, items: tuple[Any, ...]) -> None:
        self.kind = kind
        self.items = items


class Outcome:
    """The metadata of a call's result, and its effects.

    `effect`: it must stay in the graph even if nobody uses the result.  `silent`: it needs no node at all;
    what `warned` needs one.  `exact`: the strides of the results follow surely from those of the first `follows`
    arguments.  `effect_level`: DRAWS or UNKNOWN (fakes.py), or 0.  `given_back`: the argument that is itself the
    result, a list or tuple.
    """

    __slots__ = ("changes", "effect", "effect_level", "exact", "follows", "given_back", "result", "silent", "written")

    def __init__(
        self,
        result: New | Same | Const | Many | Number,
        effect: bool,
        written: tuple[int, ...],
        changes: tuple[tuple[int, Facts], ...],
        exact: bool,
        effect_level: int = 0,
        follows: int = ALL,
        warned: bool = False,
    ) -> None:
        self.effect_level = effect_level
        self.follows = follows
        self.given_back = -1
        self.result = result
        self.exact = exact
        self.effect = effect
        self.written = written
        self.changes = changes
        self.silent = not effect and not warned and not _has_new(result)


def _has_new(result: Any) -> bool:
    return type(result) is New or type(result) is Number or (type(result) is Many and any(map(_has_new, result.items)))


_VIEW_WORDS = {
    "DEFAULT": "view",
    "MULTI_OUTPUT_NODE": "multiple",
    "NO_GRAD_MODE": "no-grad",
    "INFERENCE_MODE": "no-grad",
    "IN_CUSTOM_FUNCTION": "custom",
}
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
VALUES = (
    int,
    float,
    complex,
    bool,
    str,
    type(None),
    type(NotImplemented),
    torch.dtype,
    torch.device,
    torch.Size,
    torch.layout,
    torch.memory_format,
)


def outcome_of(
    observed: Observed,
    facts: list[Facts],
    name: str,
    gives_values: bool,
    regular: bool = False,
    follows: int = ALL,
    warned: bool = False,
) -> Outcome:
    """Read what a call over fakes of these facts gave.

    `gives_values`: a result without any tensor is to be believed.  `regular`: strides are the same on every
    device, `follows`: they follow from those of the first so many tensors (meta_kernels.py).
    """
    effect = observed.effect_level > 0 or bool(observed.written) or bool(observed.changes)
    result = _Reader(observed, name).read(observed.result)
    if type(result) is Const and not (
        gives_values
        or result.value is NotImplemented
        or result.value == ()  # no tensors, of unbind
        or (result.value is None and effect)
    ):
        raise Interrupt("torch-operation", f"{name}, which gives a Python value")
    made = _new_tensors(result)
    exact = not made or not facts or are_believed(made, facts[:follows], regular)
    return Outcome(result, effect, observed.written, observed.changes, exact, observed.effect_level, follows, warned)


def _new_tensors(result: Any) -> list[Facts]:
    """The facts of the results with memory of their own; strides of views are always right."""
    if type(result) is Many:
        return [facts for item in result.items for facts in _new_tensors(item)]
    return [result.facts] if type(result) is New and result.source < 0 else []


class _Reader:
    """Turns a raw result into its description."""

    def __init__(self, observed: Observed, name: str) -> None:
        self.name = name
        self.device = observed.device
        self.kind = FakeTensor if observed.device is None else torch.Tensor
        self.same = {id(fake): i for i, fake in reversed(list(enumerate(observed.fakes)))}
        self.sources = {storage: i for i, storage in reversed(list(enumerate(observed.storages)))}

    def read(self, raw: Any) -> New | Same | Const | Many | Number:
        if is_a(raw, self.kind):
            return self._tensor(raw)
        kind = type(raw)
        if kind in VALUES:
            return Const(raw)
        if kind in _SYMBOLS:
            return Number(raw) if free_unbacked_symbols(raw.node.expr) else Const(raw)
        if kind in (tuple, list) or (is_a(raw, tuple) and module_of(kind) == "torch.return_types"):
            items = tuple(self.read(item) for item in raw)
            return Const(raw) if kind is tuple and all(type(item) is Const for item in items) else Many(kind, items)
        raise Interrupt("torch-operation", f"{self.name}, which gives an object of type {qualname_of(kind)}")

    def _tensor(self, fake: torch.Tensor) -> New | Same:
        index = self.same.get(id(fake))
        if index is not None:
            return Same(index)
        if fake.layout is not torch.strided or fake.is_quantized:
            raise Interrupt("tensor-kind", f"{self.name} gives layout {fake.layout}")
        facts = facts_of(fake) if self.device is None else facts_of(fake).but(device=self.device)
        if facts.requires_grad and facts.is_leaf and (is_grad_enabled() or not fake._is_view()):
            # Backends give every result a history, so such a leaf would come out as something else.  Views made without
            # grad mode are such leaves too; the recorder sees to it that they neither leave the graph nor meet grad
            # mode.
            raise Interrupt("torch-operation", f"{self.name}, which makes a new leaf that requires grad")
        storage = fake.untyped_storage()._cdata
        source = self.sources.setdefault(storage, -1 - len(self.sources))
        view = ""
        if fake._is_view():
            view = _VIEW_WORDS[get_creation_meta(fake).name]
        elif source >= 0:
            view = "detached"
        return New(facts, source, view)


class MetadataCache:
    """A bounded dictionary from keys to outcomes.  Safe to share between threads under the GIL."""

    def __init__(self, limit: int = 65536) -> None:
        self.limit = limit
        self.hits = 0
        self.misses = 0
        self._outcomes: dict[Any, Outcome] = {}
        self.get = self._outcomes.get

    def put(self, key: Any, outcome: Outcome) -> None:
        """Remember an outcome; the oldest quarter goes when the cache is full."""
        if len(self._outcomes) >= self.limit:
            for old in list(self._outcomes)[: self.limit // 4]:
                self._outcomes.pop(old, None)
        self._outcomes[key] = outcome

    def clear(self) -> None:
        """Forget everything."""
        self._outcomes.clear()

    def __len__(self) -> int:
        return len(self._outcomes)


_shared = MetadataCache()


def shared_cache() -> MetadataCache:
    """The process's cache."""
    return _shared


# ---- Operations whose strides by fake and meta kernels can be trusted: they are those that the real kerne ----


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
