"""One capture for equal code: compiled callables of one code, with one backend and equal options, use each other's
captures.

A capture belongs to its code and its guards.  Where a callable has no entry for a call, the captures that others
made of the same code are asked, and one whose guards hold is taken over: same compiled graph, guards of its own
(these remember what they have looked at).

What is kept for others is bounded (`_MOST_POOLS`, `_MOST_OFFERS`) and goes with the function or class that was
captured, with the backend, and with `reset`.  Captures whose graphs hold tensors are not kept.  Everything here
happens under the driver's lock.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import operator
import types
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import torch

from .. import _core, config
from .._core import is_a
from ..bytecode.resume import parameter_count
from ..rehearsal.break_errors import Blocks
from ..torch_ports.loaded import functorch_config, inductor_config
from ..vocabulary.options import OPTIONS
from .learned_shapes import Learned
from .records.captures import Note
from .records.guard_hooks import Hooks

_MOST_POOLS = 256  # codes (and classes) whose captures others may take over; those used last are kept
_MOST_OFFERS = 32  # captures of each


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """A capture that others may use."""

    entry: Any
    note: Note
    options: tuple[Any, ...]  # the process's, when it was made
    by: str  # the name of the callable it was made for
    keeps: Any  # what code that resumes after its break was made from


@dataclass(slots=True, eq=False, weakref_slot=True)
class Pool:
    """The captures of one code, of modules of one class, with one backend and equal options."""

    owners: tuple[weakref.ref[Any], ...] = ()
    offers: list[Offer] = field(default_factory=list)  # newest first
    seen: Learned | None = None  # what the last of them saw of sizes and numbers

    def taken(self, entries: list[Any], locals_: tuple[Any, ...], uncompiled: bool) -> Iterator[Offer]:
        """Take over the captures that are for this call and not among `entries` yet; `uncompiled`: also those that wait
        for their backend.
        """
        if not self.offers:
            return
        own = {id(entry.run) for entry in entries}
        now = options_now()
        self.offers = [
            offer for offer in self.offers if not offer.entry.dead and not _is_over(offer.entry.info.interim)
        ]
        for offer in self.offers:
            entry = offer.entry
            if entry.info.interim is not None and not entry.info.interim.is_compiled and not uncompiled:
                continue
            if id(entry.run) not in own and offer.options == now and entry.program.check(locals_) is None:
                entries.insert(0, _core.Entry(entry.program.copy(), entry.run, entry.info, replayable=entry.replayable))
                yield offer

    def offer(self, entry: Any, note: Note, by: str, keeps: Any) -> None:
        """Keep a capture for others."""
        if _holds_tensors(entry.info.graph_module):
            return
        self.offers = [Offer(entry, note, options_now(), by, keeps), *self.offers][:_MOST_OFFERS]

    def seen_elsewhere(self, code: types.CodeType, of_module: bool) -> Learned | None:
        """Return what other callables saw of sizes and numbers, without what belongs to the module itself."""
        return None if self.seen is None else self.seen.copy(without=code.co_varnames[0] if of_module else "")


def _is_over(interim: Any) -> bool:
    """Return whether an entry answers no call any more, since what it waited for is there."""
    return interim is not None and interim.is_over()


def _holds_tensors(graph_module: Any) -> bool:
    """Return whether a graph keeps tensors alive, which somebody may want to be gone."""
    return graph_module is not None and any(
        True
        for part in graph_module.modules()
        for one in (*part.__dict__.values(), *part._parameters.values(), *part._buffers.values())
        if is_a(one, torch.Tensor)
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one `compile`: equal keys share captures. `named`: what the key names by address."""

    key: tuple[Any, ...]
    named: tuple[weakref.ref[Any], ...]


def settings_of(*what: Any) -> Settings | None:
    """The settings of a `compile`; None where it cannot be said when two are equal."""
    named: list[weakref.ref[Any]] = []
    try:
        return Settings(tuple([_key(one, named) for one in what]), tuple(named))
    except TypeError:  # of a class without weak references
        return None


def _key(value: Any, named: list[weakref.ref[Any]]) -> Any:
    """A value to compare settings by: plain data by what it is, anything else by which object it is."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str, bytes, torch.dtype, torch.device):
        return kind, value
    if kind in (tuple, list):
        return kind, tuple([_key(item, named) for item in value])
    if kind is dict:
        return kind, tuple([(_key(key, named), _key(item, named)) for key, item in value.items()])
    if kind is functools.partial:
        return kind, _key(value.func, named), _key(value.args, named), _key(value.keywords, named)
    if kind is types.MethodType:
        return kind, _key(value.__self__, named), _key(value.__func__, named)
    if kind is Hooks:
        return kind, tuple([_key(getattr(value, one.name), named) for one in fields(value)])
    named.append(weakref.ref(value))
    return object, id(value)


def options_now() -> tuple[Any, ...]:
    """The process's options that captures and compilers look at, and whether a break is an error now."""
    own = [frozenset(value) if type(value) is set else value for value in _options_of(vars(config))]
    modules = [inductor_config.get(), functorch_config.get()]
    return (Blocks().is_error, *own, *[module.get_hash() if module is not None else None for module in modules])


_options_of = operator.itemgetter(
    *[name for name, option in OPTIONS.items() if not option.ignored and not option.alias]
)
_pools: collections.OrderedDict[tuple[Any, ...], Pool] = collections.OrderedDict()


def pool_of(
    settings: Settings | None, function: types.FunctionType, locals_: tuple[Any, ...], root: bool
) -> Pool | None:
    """Where captures of this frame are shared; None: nowhere.

    Of a function that is handed over as a local the code is shared, of others the function.  Modules of one class
    share.
    """
    if settings is None or not all(ref() is not None for ref in settings.named):
        return None
    code = function.__code__
    first = locals_[0] if locals_ else None
    owners = [
        code if len(locals_) > parameter_count(code) else function,
        *([type(first)] if is_a(first, torch.nn.Module) else []),
    ]
    key = (settings.key, id(code), root, *map(id, owners))
    pool = _pools.get(key)
    if pool is None:
        end = functools.partial(_pools.pop, key)  # C code: Python code that a signal strikes would lose its exception
        while len(_pools) >= _MOST_POOLS:
            _pools.popitem(last=False)
        pool = _pools[key] = Pool(
            tuple([weakref.ref(one, end) for one in (*owners, *[ref() for ref in settings.named])])
        )
    elif len(_pools) > 1:
        _used_last(key)
    return pool


def _used_last(key: tuple[Any, ...]) -> None:
    with contextlib.suppress(KeyError):  # another thread, or the end of an owner, may have taken it out
        _pools.move_to_end(key)


def forget() -> None:
    """As in a new process."""
    _pools.clear()
