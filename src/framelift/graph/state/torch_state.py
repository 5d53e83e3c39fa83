"""Global torch state that decides what an operation does: read before each one, written into graphs, put back.

State is observed, not followed: whatever call changed it, the next recorded operation carries the state it met, and
the graph gets the nodes that make the same state around the same operation.  State nobody records an operation in
leaves no node.  Graphs end in the state they began with; what the program itself left changed is in `LeftState`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from ..._core import insist
from ...guards.checks import check, gives
from ...torch_ports.autograd import (
    enter_inference_mode,
    exit_inference_mode,
    is_fwd_grad_enabled,
    is_grad_enabled,
    set_fwd_grad_enabled,
    set_grad_enabled,
)
from ...torch_ports.state import (
    enter_autocast,
    exit_autocast,
    get_deterministic_algorithms,
    get_deterministic_algorithms_warn_only,
    get_sdp_priority_order,
    is_any_autocast_enabled,
    set_deterministic_algorithms,
    set_sdp_priority_order,
    setting_function,
)
from ...vocabulary.reasons import Interrupt
from ...vocabulary.scopes import scope

#: device types whose autocast may be on during a rehearsal
AUTOCAST_DEVICES = ("cpu", "cuda")

_is_grad_enabled = is_grad_enabled
_is_inference = torch.is_inference_mode_enabled
_default_dtype = torch.get_default_dtype
_any_autocast = is_any_autocast_enabled
_deterministic = get_deterministic_algorithms
_deterministic_warn = get_deterministic_algorithms_warn_only


class AutocastRegion:
    """The time from an outermost `autocast` to its end, for which torch keeps the casts of weights.

    Operations do the same in each, so that all compare equal; a weight that is used twice in one has one cast, whose
    gradients are added up.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is AutocastRegion

    def __hash__(self) -> int:
        return 0


class State(NamedTuple):
    """The global state of torch that operations depend on.

    `autocast` is None, or (device type, dtype or None) per device, and the cache flag.

    `kernels` is None unless the program chose others for attention: then which may be used, and in which order.
    `region` is there between an outermost `autocast` and its end, also where autocast is off inside of it.
    `declared`, of exports only: what the `autocast`s that are open say, (device type, dtype or None) for each device.
    """

    grad: bool
    inference: bool
    dtype: torch.dtype
    autocast: tuple[Any, ...] | None
    deterministic: bool
    kernels: tuple[Any, ...] | None = None
    region: AutocastRegion | None = None
    declared: tuple[tuple[str, torch.dtype | None], ...] = ()


_state = functools.partial(tuple.__new__, State)  # of a tuple, without a call of Python code


def read_state() -> State:
    """The state now.  Called before every recorded operation: it asks for rare parts only where they are there."""
    return _state(
        (
            _is_grad_enabled(),
            _is_inference(),
            _default_dtype(),
            _autocast() if _any_autocast() else None,
            _deterministic(),
            _chosen() if _kernels is not None else None,
            _region if _nesting > 0 else None,
            tuple(dict(_declared).items()) if _declared else (),
        )
    )


_region, _nesting = (
    AutocastRegion(),
    0,
)  # of the rehearsal: the casts that torch keeps, and how many `autocast`s are open


_lowest: int | None = None  # and how many were, when they were fewest; None where the program opens and leaves none


_declared: list[tuple[str, torch.dtype | None]] = []  # by each `autocast` that an exported program has opened
_switched = "cuda"  # the device type whose autocast the program switched last


def switch_autocast(*args: Any) -> None:
    """The program switches autocast of a device type on or off: `torch.set_autocast_enabled`."""
    global _switched
    torch.set_autocast_enabled(*args)
    _switched = args[0] if len(args) == 2 else "cuda"


def nest_autocast(by: int, exporting: bool) -> int:
    """The program opens an `autocast`, or leaves one; torch's count of those that are open.

    An exported program is run in other states than it is exported in, so it keeps all that it declares.
    """
    global _nesting, _lowest
    if by < 0:
        del _declared[-1:]
    elif exporting:
        enabled = torch.is_autocast_enabled(_switched)
        _declared.append((_switched, torch.get_autocast_dtype(_switched) if enabled else None))
    _nesting = torch.autocast_increment_nesting() if by > 0 else torch.autocast_decrement_nesting()
    _lowest = _nesting if _lowest is None else min(_lowest, _nesting)
    return _nesting


def asked_of_nesting(saved: SavedState) -> tuple[Callable[[Any], bool], str] | None:
    """How many autocasts surround the program's: they ask which one is the outermost, where casts end."""
    before = saved.nesting
    if _lowest is None or before == 0:
        return None
    return (functools.partial(gives, before), f"() == {before}") if _lowest < before else (_is_nested, "() > 0")


@check
def _is_nested(ask: Callable[[], int]) -> bool:
    return ask() > 0


def new_autocast_cache() -> None:
    """The program lets go of the casts of weights.  Those there are belong to somebody outside."""
    global _region
    _region = AutocastRegion()


_KERNELS = tuple(
    name
    for name in ("flash", "mem_efficient", "math", "cudnn", "overrideable")
    if setting_function(f"_set_sdp_use_{name}")
)
_kernels: tuple[Any, ...] | None = None  # what was chosen before the rehearsal, once the rehearsal chooses


def _attention_kernels() -> tuple[Any, ...]:
    return (*(setting_function(f"_get_{name}_sdp_enabled")() for name in _KERNELS), tuple(get_sdp_priority_order()))


def _chosen() -> tuple[Any, ...] | None:
    now = _attention_kernels()
    return None if now == _kernels else now


def choosing_kernels() -> None:
    """The program is about to choose the kernels of attention."""
    global _kernels
    if _kernels is None:
        _kernels = _attention_kernels()


def kernel_at_first(getter: Callable[[], Any], now: Any) -> Any:
    """Return what this getter of the choice of attention kernels returned at the start; it returns `now`."""
    if _kernels is None:
        return now
    if getter is get_sdp_priority_order:
        return list(_kernels[-1])
    return next(
        (value for name, value in zip(_KERNELS, _kernels) if getter is setting_function(f"_get_{name}_sdp_enabled")),
        now,
    )


def choose_kernels(wanted: tuple[Any, ...]) -> tuple[Any, ...]:
    """A node of graphs: let attention use these kernels; gives what it could use before."""
    before = _attention_kernels()
    for name, enabled in zip(_KERNELS, wanted):
        setting_function(f"_set_sdp_use_{name}")(enabled)
    set_sdp_priority_order(list(wanted[-1]))
    return before


@scope
def keeping_kernels() -> Iterator[None]:
    """Attention may use what it could use before, where what runs in here chooses other kernels and fails."""
    before = _attention_kernels()
    try:
        yield
    except BaseException:
        insist(lambda: choose_kernels(before))
        raise


def _autocast() -> tuple[Any, ...] | None:
    parts = tuple(
        (device, torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None)
        for device in AUTOCAST_DEVICES
    )
    if all(dtype is None for _, dtype in parts):
        raise Interrupt("torch-state", "autocast for an unusual device")
    return (*parts, torch.is_autocast_cache_enabled())


def autocast_nesting() -> int:
    """How many autocast regions are open; torch shows it only when it changes."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def check_state(base: State, now: State) -> None:
    """Interrupt for changes that a graph cannot make for its operations, unless announced (settings.py)."""
    if now.dtype is not base.dtype:
        raise Interrupt("torch-state", "torch.set_default_dtype")
    if now.deterministic != base.deterministic:
        raise Interrupt("torch-state", "torch.use_deterministic_algorithms")


class LeftState:
    """The state at an exit, compared with the one at the start."""

    def __init__(self, saved: SavedState, settings: Sequence[tuple[Callable[..., Any], tuple[Any, ...]]] = ()) -> None:
        now = SavedState(generators=False)
        calls = list(settings)
        if now.inference != saved.inference:
            raise Interrupt("torch-state", "leaving an inference mode open")
        if now.deterministic != saved.deterministic:
            calls.append((_use_deterministic, now.deterministic))
        if read_state().kernels is not None:
            raise Interrupt("torch-state", "a choice of attention kernels that stays")
        if now.grad != saved.grad:
            calls.append((set_grad_enabled, (now.grad,)))
        if now.dtype is not saved.dtype:
            calls.append((torch.set_default_dtype, (now.dtype,)))
        for (device, enabled, dtype), (_, was_enabled, was_dtype) in zip(now.autocast, saved.autocast):
            if enabled != was_enabled:
                calls.append((torch.set_autocast_enabled, (device, enabled)))
            if dtype is not was_dtype:
                calls.append((torch.set_autocast_dtype, (device, dtype)))
        if now.cache != saved.cache:
            calls.append((torch.set_autocast_cache_enabled, (now.cache,)))
        calls += [(torch.autocast_increment_nesting, ())] * (now.nesting - saved.nesting)
        calls += [(torch.autocast_decrement_nesting, ())] * (saved.nesting - now.nesting)
        self._calls = calls
        self._inside = saved.nesting > 0
        self._region = _region
        self._opens = now.nesting > saved.nesting
        self._let_go = self._inside and _region is not saved.region

    def calls(self, states: Iterable[State]) -> tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...]:
        """Return the calls that bring the state at the start to that at the end, after operations in these states."""
        let_go = self._let_go and not any(state.region is self._region for state in states)  # else the graph does
        return (*([(torch.clear_autocast_cache, ())] if let_go else ()), *self._calls)

    def is_one_region(self, states: Iterable[State]) -> bool:
        """Return whether an autocast region stays open, and nothing was cast in another one before it."""
        return self._opens and (
            self._inside
            or all(state.autocast is None or state.region is None or state.region is self._region for state in states)
        )


def _use_deterministic(mode: bool, warn_only: bool) -> None:
    torch.use_deterministic_algorithms(mode, warn_only=warn_only)


class SavedState:
    """Everything a rehearsal might have changed, read at its start and put back at its end."""

    def __init__(self, *, generators: bool = True) -> None:
        global _nesting
        self.grad = _is_grad_enabled()
        self.inference = _is_inference()
        self.forward = is_fwd_grad_enabled()
        self.dtype = _default_dtype()
        self.autocast = [
            (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in AUTOCAST_DEVICES
        ]
        self.cache = torch.is_autocast_cache_enabled()
        self.nesting = _nesting = autocast_nesting()
        self.region = _region
        self.declared = list(_declared)
        self.deterministic = (_deterministic(), _deterministic_warn())
        self.cpu_rng = torch.get_rng_state() if generators else None
        self.cuda_rng = torch.cuda.get_rng_state_all() if generators and torch.cuda.is_initialized() else None

    def restore(self) -> None:
        """Put everything back.  Torch function must be off."""
        global _kernels, _nesting, _lowest
        if _kernels is not None:
            choose_kernels(_kernels)
            _kernels = None
        set_grad_enabled(self.grad)
        set_fwd_grad_enabled(self.forward)
        if _default_dtype() is not self.dtype:
            torch.set_default_dtype(self.dtype)
        for device, enabled, dtype in self.autocast:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(self.cache)
        while (nesting := autocast_nesting()) != self.nesting:
            torch.autocast_decrement_nesting() if nesting > self.nesting else torch.autocast_increment_nesting()
        _nesting, _lowest, _declared[:] = self.nesting, None, self.declared
        if (_deterministic(), _deterministic_warn()) != self.deterministic:
            set_deterministic_algorithms(self.deterministic[0], warn_only=self.deterministic[1])
        if self.cpu_rng is not None:
            torch.set_rng_state(self.cpu_rng)
        if self.cuda_rng is not None:
            torch.cuda.set_rng_state_all(self.cuda_rng)


class StateNodes:
    """Writes state changes into a graph.  `emit(target, args)` adds a node and returns it."""

    def __init__(self, base: State, emit: Callable[[Any, tuple[Any, ...]], Any]) -> None:
        self.base = base
        self.now = base
        self._emit = emit
        self._autocasts: list[tuple[State, list[Any]]] = []  # those that are open: state inside, their nodes
        self._kernels: Any = None  # the node that chose kernels
        self._inference: tuple[Any, bool] | None = None  # the node of the open mode, and the grad mode before it
        self._casting: set[int] = set()  # the regions in which something is cast

    def expect(self, states: Iterable[State]) -> None:
        """These are the states that there will be: a region in which autocast is off throughout needs no nodes."""
        self._casting = {id(state.region) for state in states if state.autocast is not None or state.declared}

    def become(self, wanted: State) -> None:
        """Add the nodes after which the graph is in the state `wanted`."""
        if wanted.region is not None and self.base.region is None and id(wanted.region) not in self._casting:
            wanted = wanted._replace(region=None)
        if wanted == self.now and wanted.region is self.now.region:
            return
        if wanted.inference != self.now.inference:
            self._become_inference(wanted.inference)
        if wanted.grad != self.now.grad:
            self._emit(set_grad_enabled, (wanted.grad,))
        now = self.now
        if (wanted.autocast, wanted.declared) != (now.autocast, now.declared) or wanted.region is not now.region:
            self._become_autocast(wanted)
        if wanted.kernels != self.now.kernels:
            if self._kernels is not None:
                self._emit(choose_kernels, (self._kernels,))
            self._kernels = None if wanted.kernels is None else self._emit(choose_kernels, (wanted.kernels,))
        self.now = wanted

    def close(self) -> None:
        """Back to the state the graph began with."""
        self.become(self.base)

    def _become_inference(self, wanted: bool) -> None:
        if self._inference is not None:
            node, grad = self._inference
            self._emit(exit_inference_mode, (node,))
            self._inference = None
        else:
            grad = not wanted  # entering sets the grad mode itself; leaving it again restores the old one
            self._inference = (self._emit(enter_inference_mode, (wanted,)), self.now.grad)
        self.now = self.now._replace(inference=wanted, grad=grad)

    def _become_autocast(self, wanted: State) -> None:
        # Enter and exit, not the bare setters: they also drop the cache of cast weights, which would go stale.
        # They nest as the program's do, because the cache lives as long as the outermost one.
        if wanted.region is not self.now.region:
            self._leave_autocasts(0)
            # or torch does it now; not at the end
            if self.now.region is not None and self.base.region is not None and wanted.region is not self.base.region:
                self._emit(torch.clear_autocast_cache, ())
        levels = [self.base, *(inside for inside, _ in self._autocasts)]
        for level, state in enumerate(levels):
            same = state.autocast == wanted.autocast and state.declared == wanted.declared
            if same and state.region is wanted.region:
                self._leave_autocasts(level)
                return
        while dict(levels[-1].declared).keys() - dict(wanted.declared).keys():
            levels.pop()
        self._leave_autocasts(len(levels) - 1)
        off: tuple[Any, ...] = (*((device, None) for device in AUTOCAST_DEVICES), True)
        parts, before = wanted.autocast or off, levels[-1].autocast or off
        changed = {
            device: (dtype or old, dtype is not None)
            for (device, dtype), (_, old) in zip(parts[:-1], before[:-1])
            if dtype != old or parts[-1] != before[-1]
        }
        for device, dtype in set(wanted.declared) - set(levels[-1].declared):
            changed.setdefault(device, (dtype, dtype is not None))
        if not changed and self.base.region is None:  # it is the outermost one, for which casts are kept
            changed = {AUTOCAST_DEVICES[0]: (parts[0][1], parts[0][1] is not None)}
        nodes = [self._emit(enter_autocast, (device, *choice, parts[-1])) for device, choice in changed.items()]
        self._autocasts.append((wanted, nodes))

    def _leave_autocasts(self, level: int) -> None:
        for _, nodes in reversed(self._autocasts[level:]):
            for node in reversed(nodes):
                self._emit(exit_autocast, (node,))
        del self._autocasts[level:]


def kernel_choice() -> tuple[bool, ...]:
    """Flags that choose kernels, and with them strides.  Nothing in a rehearsal can change them."""
    cuda = torch.backends.cuda
    return (
        torch.backends.cudnn.enabled,
        torch.backends.mkldnn.enabled,
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
        cuda.math_sdp_enabled(),
        cuda.cudnn_sdp_enabled(),
    )
