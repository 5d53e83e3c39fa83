"""Hooks on saved tensors as nodes of graphs: what `saved_tensors_hooks` in captured code becomes when its graph runs.

The hooks were recorded, one pair of graphs for each kind of tensor that the operations between the two nodes
save.  Autograd calls them, whoever runs or traces the graph; a compiler that traces it finds their operations in
the forward and in the backward.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx.graph_module import GraphModule

from ...torch_ports.autograd import pop_saved_hooks, push_saved_hooks, saved_hooks_set_tracing
from ...vocabulary.scopes import scope

_push = push_saved_hooks
_pop = pop_saved_hooks
_set_tracing = saved_hooks_set_tracing


class Pair(NamedTuple):
    """The graphs of the two hooks, and which tensors from around them each takes after its own."""

    pack: GraphModule
    unpack: GraphModule
    for_pack: tuple[int, ...]
    for_unpack: tuple[int, ...]

    @property
    def words(self) -> tuple[Any, ...]:
        """Return a description of what the hooks do, to be compared."""
        return self.pack.code, self.unpack.code, self.for_pack, self.for_unpack


class SavedHooks(torch.nn.Module):
    """The hooks of one region.  Until they are known, it notes which tensors are saved, and saves these themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.Tensor] = []
        self.own: list[Pair] = []  # for inputs of the graph, which hooks may know by identity
        self.pairs: dict[Any, Pair] | None = None  # for other tensors, by kind
        self.missed = False  # one was saved that they are not known for
        self.otherwise: Any = None  # what to raise where a compiler finds that
        self._open: dict[
            int, list[bool]
        ] = {}  # by thread: what torch did with hooks before, for each time that the region was entered

    def __deepcopy__(self, memo: Any) -> SavedHooks:
        return self

    def enter(self, inputs: Sequence[torch.Tensor], around: Sequence[torch.Tensor]) -> None:
        """The region begins."""

        def pack(tensor: torch.Tensor) -> Any:
            if self.pairs is None:
                self.seen.append(tensor)
                return None, tensor
            pair = next((pair for one, pair in zip(inputs, self.own) if one is tensor), None) or self._pair(tensor)
            return pair, pair.pack(tensor, *[around[i] for i in pair.for_pack])

        def unpack(packed: Any) -> Any:
            pair, kept = packed
            return kept if pair is None else pair.unpack(*kept, *[around[i] for i in pair.for_unpack])

        _push(pack, unpack)
        # compilers switch hooks off while they trace
        self._open.setdefault(threading.get_ident(), []).append(_set_tracing(False))

    def leave(self, failed: bool = False) -> bool:
        """The region ends, if this thread is in it.  Where it `failed`, compilers have seen to their own switch."""
        entered = self._open.get(threading.get_ident())
        if not entered:
            return False
        _pop()
        before = entered.pop()
        if not failed:
            _set_tracing(before)
        return True

    def _pair(self, tensor: torch.Tensor) -> Pair:
        assert self.pairs is not None
        found = self.pairs.get(kind_of(tensor))
        # they do the same to any tensor
        if found is None and len(self.pairs) > 1 and len({pair.words for pair in self.pairs.values()}) == 1:
            found = next(iter(self.pairs.values()))
        if found is None:
            self.missed = True
            raise RuntimeError(
                f"framelift: an operation saves a tensor of shape {tuple(tensor.shape)}, for which the "
                f"hooks on saved tensors were not captured"
            )
        return found


def kind_of(tensor: torch.Tensor) -> Any:
    """Return the kind of a tensor: hooks are captured once for all tensors of a kind."""
    return tuple(tensor.shape), tensor.dtype, tensor.device, tensor.requires_grad


@torch.fx.node.has_side_effect
def enter_hooks(hooks: SavedHooks, inputs: tuple[torch.Tensor, ...], around: tuple[torch.Tensor, ...]) -> None:
    """A node of graphs: what is saved from now on goes through these hooks.  `inputs` are those of the graph that are
    saved, `around` is what hooks take else.
    """
    hooks.enter(inputs, around)


@torch.fx.node.has_side_effect
def leave_hooks(hooks: SavedHooks) -> None:
    """A node of graphs: the end of that."""
    hooks.leave()


@scope
def leaving_no_hooks(hooks: Sequence[SavedHooks], ended: bool = False) -> Iterator[None]:
    """A graph that fails leaves no region open; nor does one that ends within one (`ended`)."""
    try:
        yield
    except BaseException:
        for one in hooks:
            while one.leave(failed=True):
                pass
        raise
    for one in hooks if ended else ():
        while one.leave():
            pass


@scope
def compiling_hooks(hooks: Sequence[SavedHooks]) -> Iterator[None]:
    """The same for a compiler; which may save other tensors than torch itself does."""
    try:
        with leaving_no_hooks(hooks):
            yield
    except Exception:
        for one in hooks:
            if one.missed:
                raise one.otherwise() from None
        raise
